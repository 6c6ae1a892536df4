"""Models of structured environments: blocks a policy key, critics, networks of single agents."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_kernel.config.load import select
from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.model import ModelContext
from maze_kernel.contracts.vector import Group
from maze_kernel.errors import MazeError, RequestError
from maze_kernel.loader import Kernel
from maze_runtime.models.network_policy import NetworkPolicy
from maze_testing.models import check_model


def box(*shape):
    return spaces.Box(-1, 1, shape, np.float32)


SPACES = StructuredSpaces(
    observation={
        "select": spaces.Dict(stock=box(5, 2), order=box(2), pick_mask=spaces.MultiBinary(5)),
        "cut": spaces.Dict(piece=box(2), order=box(2)),
    },
    action={"select": spaces.Dict(pick=spaces.Discrete(5)), "cut": spaces.Dict(turn=spaces.Discrete(2))},
    agent_counts={"select": 1, "cut": 3},
)
DENSE = {"use": "dense", "hidden_units": [8]}
CONCAT = {
    "use": "concat",
    "blocks": {"stock": {"use": "flatten-dense", "hidden_units": [8]}, "vector": DENSE},
    "modalities": {"order": "vector", "piece": "vector"},
}


@pytest.fixture(scope="module")
def kernel():
    return Kernel.installed()


@pytest.fixture
def build(kernel):
    def make(table, spaces_=SPACES, critic="state-value"):
        context = ModelContext(spaces=spaces_, catalog=kernel.catalog, seed=5, critic=critic)
        return kernel.catalog.build(select(kernel, "model", table), context)

    return make


def names(model):
    return {name for name, _ in model.named_parameters()}


def rows(key, n=4, spaces_=SPACES):
    torch.manual_seed(0)
    return {
        name: torch.ones(n, *space.shape) if name.endswith("mask") else torch.rand(n, *space.shape)
        for name, space in spaces_.observation[key].items()
    }


@pytest.mark.parametrize("critic", ["shared-state", "step-state", "delta-state"])
@pytest.mark.parametrize("table", [{"use": "auto"}, CONCAT], ids=["auto", "concat"])
def test_every_critic_conforms(build, table, critic):
    table = {**table, "critic": critic if table["use"] == "auto" else {"use": critic}}
    check_model(lambda: build(table), SPACES)
    assert build(table).critic_kind == critic


def test_the_shared_critic_is_one_network_that_knows_who_decides(build):
    model = build({"use": "auto"})
    assert {name.split(".")[1] for name in names(model) if name.startswith("critics")} == {"shared"}
    assert set(model.state_dict()) == names(model)
    order = torch.rand(4, 2)
    blank = torch.zeros(4, 2)
    at_cut = model.value("cut", {"piece": blank, "order": order})
    at_select = model.value("select", {"stock": torch.zeros(4, 5, 2), "order": order, "pick_mask": torch.ones(4, 5)})
    assert not torch.allclose(at_cut, at_select)


def test_the_shared_critic_reads_an_observation_called_policy_key(build):
    named = StructuredSpaces(
        observation={"a": spaces.Dict(policy_key=box(3)), "b": spaces.Dict(x=box(2))},
        action={key: spaces.Dict(go=spaces.Discrete(2)) for key in "ab"},
        agent_counts={"a": 1, "b": 1},
    )
    model = build({"use": "auto"}, named)
    zeros, ones = ({"policy_key": fill((4, 3))} for fill in (torch.zeros, torch.ones))
    assert not torch.allclose(model.value("a", zeros), model.value("a", ones))


def test_policy_keys_whose_names_differ_in_dots_alone_have_networks_of_their_own(build):
    keys = ("a.b", "a-b")
    same = StructuredSpaces(
        observation={key: spaces.Dict(x=box(3)) for key in keys},
        action={key: spaces.Dict(act=spaces.Discrete(2)) for key in keys},
        agent_counts=dict.fromkeys(keys, 1),
    )
    model = build({"use": "auto"}, same)
    assert len(model.policies) == len(keys)
    assert len(list(model.policies.parameters())) == len(keys) * 6


def test_the_shared_critic_runs_once_for_all_policy_keys(build):
    model = build({"use": "auto"})
    calls = []
    model.critics["shared"].network.register_forward_hook(lambda _module, inputs, _output: calls.append(inputs))
    n_rows = {"select": 4, "cut": 3}
    observations = {key: rows(key, n) for key, n in n_rows.items()}
    _, value = model.logits_and_values(
        observations, {key: torch.zeros(n, dtype=torch.long) for key, n in n_rows.items()}
    )
    assert (len(calls), len(value)) == (1, 7)
    assert {len(tensor) for tensor in calls[0][0].values()} == {7}


def test_the_critic_of_one_policy_key_is_what_it_was(build):
    """No input that says who decides, and the parameter names of a flat environment."""
    flat = StructuredSpaces(observation={"0": spaces.Dict(x=box(3))}, action={"0": spaces.Dict(a=spaces.Discrete(2))})
    assert {name.split(".")[1] for name in names(build({"use": "auto"}, flat))} == {"key_0"}


def test_observations_of_one_name_may_differ_between_policy_keys(build):
    odd = StructuredSpaces(
        observation={"a": spaces.Dict(x=box(3)), "b": spaces.Dict(x=box(4))},
        action={"a": spaces.Dict(go=spaces.Discrete(2)), "b": spaces.Dict(go=spaces.Discrete(2))},
        agent_counts={"a": 1, "b": 1},
    )
    for table in ({"use": "auto"}, {"use": "concat", "blocks": {"x": DENSE}}):
        check_model(lambda table=table: build(table, odd), odd)


def test_a_policy_key_has_blocks_of_its_own(build):
    own = {
        "cut": {"blocks": {"vector": {"use": "dense", "hidden_units": [3]}}, "hidden": {**DENSE, "hidden_units": [6]}}
    }
    model = build({**CONCAT, "policies": own})
    shapes = {name: tuple(parameter.shape) for name, parameter in model.policies.named_parameters()}
    sizes = {
        key: sorted({shape[0] for name, shape in shapes.items() if f"key_{key}" in name and "weight" in name})
        for key in ("select", "cut")
    }
    assert sizes == {"select": [5, 8], "cut": [2, 3, 6]}
    check_model(lambda: build({**CONCAT, "policies": own}), SPACES)


def test_blocks_may_be_given_for_each_policy_key_alone(build):
    table = {
        "use": "concat",
        "policies": {key: {"blocks": {"all": {"use": "flatten-dense"}}} for key in ("select", "cut")},
    }
    check_model(lambda: build(table), SPACES)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({**CONCAT, "policies": {"trim": {}}}, "policy key 'trim', which does not exist"),
        ({**CONCAT, "policies": {"cut": {"modalities": {"stock": "vector"}}}}, r"model.policies.cut.modalities"),
        ({"use": "concat"}, r"\[model.blocks\] is empty"),
        ({"use": "concat", "policies": {"cut": {"blocks": {"x": DENSE}}}}, "policy key 'select' has none"),
        ({"use": "auto", "separate_agent_nets": ["trim"]}, "which does not exist"),
    ],
)
def test_wrong_tables_are_refused(build, table, message):
    with pytest.raises(RequestError, match=message):
        build(table)


def test_a_changing_team_cannot_have_networks_of_its_own(build):
    changing = StructuredSpaces(
        observation={"a": spaces.Dict(x=box(3))},
        action={"a": spaces.Dict(go=spaces.Discrete(2))},
        agent_counts={"a": -1},
    )
    with pytest.raises(RequestError, match="whose number of agents changes"):
        build({"use": "auto", "separate_agent_nets": ["a"]}, changing)


class TestNetworksOfSingleAgents:
    @pytest.fixture(params=["shared-state", "step-state"])
    def model(self, build, request):
        return build({"use": "auto", "separate_agent_nets": ["cut"], "critic": request.param})

    def test_each_row_goes_to_the_network_of_its_agent(self, model):
        observation, agents = rows("cut", 6), torch.tensor([0, 2, 2, 1, 0, 1])
        logits, value = model.logits_and_value("cut", observation, agents)
        for i, agent in enumerate(agents.tolist()):
            one = {name: tensor[i : i + 1] for name, tensor in observation.items()}
            alone, alone_value = model.logits_and_value("cut", one, torch.tensor([agent]))
            torch.testing.assert_close(logits["turn"][i : i + 1], alone["turn"])
            torch.testing.assert_close(value[i : i + 1], alone_value)
            expected = model.policies["key_cut"].networks[agent](one)
            torch.testing.assert_close(alone["turn"], expected["turn"])

    def test_the_numpy_form_agrees(self, model):
        observation, agents = rows("cut", 6), torch.tensor([0, 2, 2, 1, 0, 1])
        arrays = {name: tensor.numpy() for name, tensor in observation.items()}
        mirrored = model.numpy_logits("cut")(arrays, agents.numpy())["turn"]
        np.testing.assert_allclose(mirrored, model.logits("cut", observation, agents)["turn"].detach(), atol=1e-5)

    def test_a_policy_acts_for_each_agent(self, model):
        with torch.no_grad():
            for agent, network in enumerate(model.policies["key_cut"].networks):
                for parameter in network.parameters():
                    parameter.zero_()
                list(network.parameters())[-1][agent % 2] = 1.0
        group = Group(
            np.arange(3), np.array([2, 0, 1]), {name: tensor.numpy() for name, tensor in rows("cut", 3).items()}
        )
        for mirror in (True, False):
            actions = NetworkPolicy(model, mirror=mirror).act("cut", group, deterministic=True)
            assert actions["turn"].tolist() == [0, 0, 1]

    def test_unknown_agents_are_refused(self, model):
        with pytest.raises(MazeError, match="agent 3 has no network"):
            model.logits("cut", rows("cut", 2), torch.tensor([0, 3]))
        with pytest.raises(MazeError, match="one agent each"):
            model.logits("cut", rows("cut", 2))

    def test_the_only_agent_of_a_flat_environment_needs_no_number(self, build):
        flat = StructuredSpaces(
            observation={"0": spaces.Dict(x=box(3))}, action={"0": spaces.Dict(go=spaces.Discrete(2))}
        )
        model = build({"use": "auto", "separate_agent_nets": ["0"]}, flat)
        x = np.random.default_rng(0).uniform(-1, 1, (4, 3)).astype(np.float32)
        group = Group(np.arange(4), np.zeros(4, np.int64), {"x": x})
        expected = model.policies["key_0"].networks[0]({"x": torch.from_numpy(x)})["go"].detach()
        for mirror in (True, False):
            logits = NetworkPolicy(model, mirror=mirror).logits("0", group)["go"]
            np.testing.assert_allclose(logits, expected, atol=1e-6)
        assert model.value("0", {"x": torch.from_numpy(x)}).shape == (4,)


@pytest.mark.parametrize("up_to", [True, "concatenation"])
def test_sharing_the_embedding_gives_each_policy_key_a_value_head(build, up_to):
    table = {**CONCAT, "critic": {"share_embedding": up_to}}
    model = build(table)
    assert {name.split(".")[1] for name in names(model) if name.startswith("critics")} == {"key_select", "key_cut"}
    check_model(lambda: build(table), SPACES)


POINTS = {"x": box(4, 2), "x_mask": spaces.MultiBinary(4)}
GRAPH = {"nodes": box(4, 3), "edge_links": spaces.Box(-1, 3, (6, 2), np.int64)}
POOLED = {"inputs": {"pool": ["x", "x_mask"]}, "blocks": {"pool": {"use": "masked-global-pooling"}, "v": DENSE}}


def two(a, b, action=None):
    """What the policy keys a and b observe."""
    return StructuredSpaces(
        observation={"a": spaces.Dict(a), "b": spaces.Dict(b)},
        action={key: spaces.Dict(go=action or spaces.Discrete(2)) for key in "ab"},
        agent_counts={"a": 1, "b": 1},
    )


def common_critic(model):
    """What the blocks of the critic that policy keys share read, by name."""
    (critic,) = (graph for graph in model.network_graphs() if graph.policy_key == "all")
    return {block.name: tuple(block.in_keys) for block in critic.blocks}


@pytest.mark.parametrize(
    ("observed", "table", "block"),
    [
        ({"x": box(4, 2)}, {"use": "auto", "sequences": ["x"]}, "x@a_sequence"),
        (POINTS, {"use": "auto"}, "x@a_set"),
        (GRAPH, {"use": "auto"}, "graph@a"),
        (POINTS, {"use": "concat", "hidden": DENSE, **POOLED}, "pool@a"),
    ],
)
def test_shared_q_networks_read_observations_as_policies_do(build, observed, table, block):
    critic = "shared-state" if table["use"] == "auto" else {"use": "shared-state"}
    model = build({**table, "critic": critic}, two(observed, {"v": box(3), **observed}, box(2)), "state-action")
    blocks = common_critic(model)
    assert blocks[block] == tuple(f"{name}@a" for name in observed)
    assert block.replace("@a", "@b") in blocks


MORE_POINTS = {"x": box(4, 3), "x_mask": spaces.MultiBinary(4)}
NODE_MASK = {"node_mask": spaces.MultiBinary(4)}
WIRED = {"use": "concat", **POOLED}
FLAT = {"use": "flatten-dense", "hidden_units": [8]}


@pytest.mark.parametrize(
    ("a", "b", "table", "read"),
    [
        (POINTS, {"x": box(4, 2)}, {"use": "auto"}, {"x@a_set": ("x@a", "x_mask@a"), "x@b_flat": ("x@b",)}),
        (POINTS, MORE_POINTS, {"use": "auto"}, {f"x@{key}_set": (f"x@{key}", f"x_mask@{key}") for key in "ab"}),
        ({"x": box(4, 2)}, {"x_mask": spaces.MultiBinary(4)}, {"use": "auto"}, {"x_flat": ("x",)}),
        ({**GRAPH, **NODE_MASK}, GRAPH, {"use": "auto"}, {"graph@b": ("nodes@b", "edge_links@b")}),
        (POINTS, MORE_POINTS, WIRED, {f"pool@{key}": (f"x@{key}", f"x_mask@{key}") for key in "ab"}),
        (
            POINTS,
            {"x": box(4, 2)},
            {"use": "concat", "blocks": {"v": FLAT}, "policies": {"a": POOLED}},
            {"pool@a": ("x@a", "x_mask@a"), "x@b_v": ("x@b",)},
        ),
        (
            {"x": box(4, 2)},
            {"x": box(3)},
            {"use": "concat", "policies": {"a": {"blocks": {"x": FLAT}}, "b": {"blocks": {"x": DENSE}}}},
            {"x@a_x": ("x@a",), "x@b_x": ("x@b",)},
        ),
        (
            {"x": box(4, 2)},
            {"y": box(3)},
            {"use": "concat", "policies": {"a": {"blocks": {"x": FLAT}}, "b": {"blocks": {"x": DENSE}}}},
            {"x_x": ("x",), "y_x": ("y",)},
        ),
        (
            {"w": box(3), "x": box(3)},
            {"x": box(3)},
            {"use": "concat", "blocks": {"v": DENSE}, "policies": {"a": {"modalities": {"x": "ignore"}}}},
            {"w_v": ("w",), "x_v": ("x",)},
        ),
        (POINTS, {**POINTS, "v": box(3)}, WIRED, {"pool": ("x", "x_mask"), "v_v": ("v",)}),
    ],
)
def test_the_shared_critic_reads_what_belongs_together_as_policies_do(build, a, b, table, read):
    """A mask of one policy key is none of items that another one sees without; what a key ignores others may read."""
    model = build(table, two(a, b))
    assert common_critic(model).items() >= read.items()
    for key in "ab":
        before, after = rows(key, spaces_=two(a, b)), rows(key, spaces_=two(a, b))
        name = next(iter(after))
        after[name] = after[name] + 1
        assert not torch.equal(model.value(key, before), model.value(key, after))


EACH_ITS_OWN = {"use": "concat", "blocks": {"x": DENSE, "y": DENSE, "z": DENSE}}
THREE_UNITS = {"use": "dense", "hidden_units": [3]}


@pytest.mark.parametrize(
    ("critic", "values"),
    [
        ({"use": "step-state", "blocks": {"x": THREE_UNITS}}, {"a": 3, "b": 8}),
        ({"blocks": {"x": THREE_UNITS}}, {"all": 3 + 8 + 2}),
        ({"share_embedding": ["x", "y"]}, {"a": 8, "b": 8}),
    ],
)
def test_the_critic_may_name_blocks_that_one_policy_key_has(build, critic, values):
    model = build({**EACH_ITS_OWN, "critic": critic}, two({"x": box(3)}, {"y": box(4)}))
    graphs = {graph.policy_key: graph.blocks[-1] for graph in model.network_graphs() if graph.role == "critic"}
    assert {key: value.n_parameters - 1 for key, value in graphs.items()} == values


@pytest.mark.parametrize(
    ("critic", "words"),
    [
        ({"share_embedding": "z"}, r"share_embedding names the block 'z', to which no observation goes"),
        ({"blocks": {"z": DENSE}}, r"critic.blocks\] names the block 'z', to which no observation goes"),
        ({"blocks": {"u": DENSE}}, r"critic.blocks\] names the block 'u', which does not exist"),
    ],
)
def test_blocks_of_the_critic_that_no_policy_key_has_are_refused(build, critic, words):
    with pytest.raises(RequestError, match=words):
        build({**EACH_ITS_OWN, "critic": critic}, two({"x": box(3)}, {"y": box(4)}))
