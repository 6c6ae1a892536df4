"""The default model and the concat template, from spaces to logits and values."""

import copy
import sys

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from maze_kernel.config.load import select
from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.model import ModelContext
from maze_kernel.errors import MazeError, MazeWarning, RequestError, SpaceError
from maze_perception.block import BlockError
from maze_runtime.env.flat import flat_spaces
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.masking import MASKED_LOGIT

VECTOR = spaces.Box(-1.0, 1.0, (4,))
DISCRETE = spaces.Discrete(3)
MIXED_ACTION = {
    "kind": spaces.Discrete(3, start=1),
    "parts": spaces.MultiDiscrete([2, 3]),
    "bits": spaces.MultiBinary(2),
    "force": spaces.Box(-1.0, 1.0, (2,)),
    "free": spaces.Box(-np.inf, np.inf, (1,)),
}
MIXED_OBSERVATION = {
    "vector": VECTOR,
    "number": spaces.Box(0, 10, ()),
    "choice": spaces.Discrete(3, start=2),
    "choices": spaces.MultiDiscrete([2, 3]),
    "bits": spaces.MultiBinary(2),
    "counts": spaces.Box(0, 9, (2, 2), np.int64),
    "kind_mask": spaces.MultiBinary(3),
    "parts_mask": spaces.Box(0, 1, (5,), np.int8),
}


def flat(observation, action):
    return flat_spaces(spaces.Dict(observation), spaces.Dict(action))


def observe(structured_spaces, rows=6, seed=0):
    batch = {}
    for name, space in structured_spaces.observation["0"].spaces.items():
        space.seed(seed)
        batch[name] = torch.from_numpy(np.stack([np.asarray(space.sample()) for _ in range(rows)]))
        if name.endswith("_mask"):
            batch[name][:, 0] = 1
    return batch


def test_the_default_model_serves_every_space(make_model):
    structured = flat(MIXED_OBSERVATION, MIXED_ACTION)
    structured.observation["0"].spaces["parts_mask"] = spaces.Box(0, 1, (5,), np.int8)
    model = make_model(structured)
    observation = observe(structured)
    observation["parts_mask"] = torch.ones_like(observation["parts_mask"])
    logits, value = model.logits_and_value("0", observation)
    assert value.shape == (6,)
    assert {name: tuple(part.shape[1:]) for name, part in logits.items()} == model.distributions["0"].logits_shapes()
    torch.testing.assert_close(model.value("0", observation), value)
    arrays = model.numpy_logits("0")({name: part.numpy() for name, part in observation.items()})
    for name, part in model.logits("0", observation).items():
        torch.testing.assert_close(part, logits[name])
        np.testing.assert_allclose(arrays[name], part.detach(), atol=1e-5)
    distribution = model.distributions["0"]
    actions = distribution.sample_numpy(arrays, np.random.default_rng(0))
    for row in range(6):
        one = {name: part[row] for name, part in actions.items()}
        assert structured.action["0"].contains({**one, "kind": np.int64(one["kind"])})
    assert distribution.log_prob(logits, distribution.sample(logits)).shape == (6,)


def test_masks_reach_the_logits_and_are_no_features(make_model):
    structured = flat({"observation": VECTOR, "action_mask": spaces.MultiBinary(3)}, {"action": DISCRETE})
    model = make_model(structured)
    observation = {"observation": torch.randn(2, 4), "action_mask": torch.tensor([[1, 0, 1], [0, 1, 0]]).to(torch.int8)}
    logits = model.logits("0", observation)["action"]
    assert (logits == MASKED_LOGIT).tolist() == [[False, True, False], [True, False, True]]
    weights = [parameter for parameter in model.parameters() if parameter.dim() == 2]
    assert {weight.shape[1] for weight in weights} == {4, 64}
    actions = model.distributions["0"].mode(model.logits("0", observation))
    assert actions["action"][1] == 1


def test_a_mask_that_could_mean_several_heads_is_refused(make_model):
    structured = flat({"x": VECTOR, "action_mask": spaces.MultiBinary(3)}, {"a": DISCRETE, "b": DISCRETE})
    with pytest.raises(SpaceError, match="action_mask") as caught:
        make_model(structured)
    assert "a_mask" in caught.value.expected


def test_a_mask_of_the_wrong_size_names_head_and_sizes(make_model):
    structured = flat({"x": VECTOR, "action_mask": spaces.MultiBinary(4)}, {"action": DISCRETE})
    with pytest.raises(SpaceError, match=r"'action_mask'.*'action'") as caught:
        make_model(structured)
    assert caught.value.received == "MultiBinary(4)"
    assert caught.value.expected == "3 entries, one a choice"


@pytest.mark.parametrize("shape", [(84, 84, 3), (4, 84, 84)])
def test_images_share_a_convolution_body_between_policy_and_critic(make_model, shape):
    structured = flat({"screen": spaces.Box(0, 255, shape, np.uint8), "speed": VECTOR}, {"action": DISCRETE})
    model = make_model(structured)
    assert model.numpy_logits("0") is None
    logits, value = model.logits_and_value("0", observe(structured, rows=2))
    assert logits["action"].shape == (2, 3)
    (logits["action"].sum() + value.sum()).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert sum(parameter.numel() for parameter in model.critics.parameters()) < 1000
    policy_state = model.policy_state_dict()
    assert any(name.startswith("shared.") for name in policy_state)
    assert not any(name.startswith("critics.") for name in policy_state)


def test_the_default_vector_model_is_two_separate_tanh_networks(make_model):
    model = make_model(flat({"observation": VECTOR}, {"action": DISCRETE}))
    sizes = [tuple(parameter.shape) for parameter in model.parameters()]
    body = [(64, 4), (64,), (64, 64), (64,)]
    assert sizes == [*body, (3, 64), (3,), *body, (1, 64), (1,)]
    x = torch.randn(5, 4)
    weights = [parameter.detach() for parameter in model.parameters()]
    hidden = torch.tanh(torch.tanh(x @ weights[0].T + weights[1]) @ weights[2].T + weights[3])
    torch.testing.assert_close(model.logits("0", {"observation": x})["action"], hidden @ weights[4].T + weights[5])
    hidden = torch.tanh(torch.tanh(x @ weights[6].T + weights[7]) @ weights[8].T + weights[9])
    torch.testing.assert_close(model.value("0", {"observation": x}), (hidden @ weights[10].T + weights[11])[:, 0])


def test_initial_weights(make_model):
    structured = flat({"observation": VECTOR}, {"action": DISCRETE})
    state = {}
    for init in ("orthogonal", "normc", "torch"):
        state[init] = [p.detach() for p in make_model(structured, {"use": "auto", "init": init}).parameters()]
    gram = state["orthogonal"][2] @ state["orthogonal"][2].T
    torch.testing.assert_close(gram, 2 * torch.eye(64), atol=1e-4, rtol=0)
    torch.testing.assert_close(state["normc"][0].norm(dim=1), torch.ones(64))
    for init in ("orthogonal", "normc"):
        assert all((bias == 0).all() for bias in state[init] if bias.dim() == 1)
        torch.testing.assert_close(state[init][4].norm(dim=1), torch.full((3,), 0.01))
        torch.testing.assert_close(state[init][10].norm(dim=1), torch.ones(1))
    assert (state["torch"][1] != 0).any()


def test_initial_weights_depend_on_the_seed_alone(make_model):
    structured = flat({"observation": VECTOR}, {"action": DISCRETE})
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = make_model(structured, seed=3).state_dict()
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(6)
    second, third = make_model(structured, seed=3).state_dict(), make_model(structured, seed=4).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(first[name], third[name]) for name in first)


CONCAT = {
    "use": "concat",
    "blocks": {"feature": {"use": "dense", "hidden_units": [64, 64], "non_lin": "tanh"}},
    "critic": {"use": "shared-state"},
}


def test_the_concat_template_of_one_block_equals_the_default_model(make_model):
    structured = flat({"observation": VECTOR}, {"action": DISCRETE})
    ours, default = make_model(structured, CONCAT, seed=1), make_model(structured, seed=1)
    for first, second in zip(ours.parameters(), default.parameters(), strict=True):
        assert torch.equal(first, second)


def test_concat_maps_observations_to_blocks(make_model):
    structured = flat({"a": VECTOR, "b": spaces.Box(-1, 1, (2, 3)), "c": VECTOR, "d": VECTOR}, {"action": DISCRETE})
    model = make_model(
        structured,
        {
            "use": "concat",
            "blocks": {
                "small": {"use": "dense", "hidden_units": [3]},
                "b": {"use": "flatten-dense", "hidden_units": [5]},
            },
            "modalities": {"a": "small", "c": "small", "d": "ignore"},
            "hidden": {"use": "dense", "hidden_units": [7]},
            "recurrence": {"use": "dense", "hidden_units": [9]},
        },
    )
    shapes = model.policies["key_0"].shapes
    assert shapes["model/concatenation"] == (3 + 5 + 3,)
    assert (shapes["model/hidden"], shapes["model/recurrence"]) == ((7,), (9,))
    assert "d" not in shapes
    observation = observe(structured)
    arrays = model.numpy_logits("0")({name: part.numpy() for name, part in observation.items()})
    np.testing.assert_allclose(arrays["action"], model.logits("0", observation)["action"].detach(), atol=1e-5)


def dense(units):
    return {"use": "dense", "hidden_units": [units]}


def test_blocks_whose_names_would_be_one_are_two(make_model):
    structured = flat({"a": VECTOR, "a_b": VECTOR}, {"action": DISCRETE})
    table = {"use": "concat", "blocks": {"b_c": dense(3), "c": dense(5)}, "modalities": {"a": "b_c", "a_b": "c"}}
    model = make_model(structured, table)
    policy = model.policies["key_0"]
    assert policy.order == ("a_b_c", "a_b_c_2", "concatenation", "action_logits")
    assert policy.shapes["model/concatenation"] == (3 + 5,)
    shared = make_model(structured, {**table, "critic": {"share_embedding": "c"}}).shared["key_0"]
    assert shared.order == ("a_b_c_2",)
    assert shared.in_shapes == {"a_b": (4,)}


@pytest.mark.parametrize("name", ["hidden", "value", "action_logits"])
def test_a_block_in_inputs_with_the_name_of_a_layer_behind_it_is_refused(make_model, name):
    structured = flat({"a": VECTOR, "b": VECTOR}, {"action": DISCRETE})
    table = {"use": "concat", "inputs": {name: ["a", "b"]}, "blocks": {name: {"use": "concatenation"}}}
    with pytest.raises(BlockError, match=f"two blocks of the model are called '{name}'"):
        make_model(structured, {**table, "hidden": dense(4)})


def test_what_is_shared_is_not_taken_for_a_layer_of_its_name(make_model):
    structured = flat({"a": VECTOR, "b": VECTOR}, {"action": DISCRETE})
    table = {"use": "concat", "inputs": {"value": ["a", "b"]}, "blocks": {"value": {"use": "concatenation"}}}
    with pytest.raises(BlockError, match="'value'"):
        make_model(structured, {**table, "critic": {"share_embedding": "value"}})


def test_the_critic_can_share_the_embedding_or_have_its_own_size(make_model):
    structured = flat({"observation": VECTOR}, {"action": DISCRETE})
    shared = make_model(structured, {**CONCAT, "critic": {"use": "shared-state", "share_embedding": True}})
    assert sum(parameter.numel() for parameter in shared.critics.parameters()) == 65
    assert shared.numpy_logits("0") is not None
    own = {"use": "shared-state", "blocks": {"feature": {"use": "dense", "hidden_units": [16]}}}
    wide = make_model(structured, {**CONCAT, "critic": own})
    assert [tuple(parameter.shape) for parameter in wide.critics.parameters()] == [(16, 4), (16,), (1, 16), (1,)]


TWO_BLOCKS = {
    "use": "concat",
    "blocks": {"a": {"use": "dense", "hidden_units": [5]}, "b": {"use": "dense", "hidden_units": [3]}},
    "hidden": {"use": "dense", "hidden_units": [6]},
}
A, B, HIDDEN = 4 * 5 + 5, 4 * 3 + 3, 8 * 6 + 6


@pytest.mark.parametrize(
    ("up_to", "n_shared", "n_critic"),
    [
        ("a", A, B + HIDDEN + 7),
        (["a"], A, B + HIDDEN + 7),
        (["a", "b"], A + B, HIDDEN + 7),
        ("concatenation", A + B, HIDDEN + 7),
        ("hidden", A + B + HIDDEN, 7),
    ],
)
def test_the_embedding_is_shared_up_to_a_named_block(make_model, up_to, n_shared, n_critic):
    structured = flat({"a": VECTOR, "b": VECTOR}, {"action": DISCRETE})
    model = make_model(structured, {**TWO_BLOCKS, "critic": {"share_embedding": up_to}})
    sizes = [sum(p.numel() for p in part.parameters()) for part in (model.shared, model.critics)]
    assert sizes == [n_shared, n_critic]
    alone = make_model(structured, TWO_BLOCKS)
    observation = observe(structured)
    for ours, theirs in zip(
        [*model.shared.parameters(), *model.policies.parameters()], alone.policies.parameters(), strict=True
    ):
        ours.data.copy_(theirs.data)
    torch.testing.assert_close(model.logits("0", observation), alone.logits("0", observation))
    arrays = model.numpy_logits("0")({name: part.numpy() for name, part in observation.items()})
    np.testing.assert_allclose(arrays["action"], model.logits("0", observation)["action"].detach(), atol=1e-5)
    model.value("0", observation).sum().backward()
    assert all(p.grad is not None for p in [*model.shared.parameters(), *model.critics.parameters()])
    policy, critic = model.network_graphs()
    assert critic.n_parameters == n_shared + n_critic
    assert {block.name for block in policy.blocks} == {"a_a", "b_b", "concatenation", "hidden", "action_logits"}


def test_the_critic_may_have_blocks_of_its_own_behind_what_is_shared(make_model):
    structured = flat({"a": VECTOR, "b": VECTOR}, {"action": DISCRETE})
    critic = {"share_embedding": "concatenation", "hidden": {"use": "dense", "hidden_units": [20]}}
    model = make_model(structured, {**TWO_BLOCKS, "critic": critic})
    assert [tuple(p.shape) for p in model.critics.parameters()] == [(20, 8), (20,), (1, 20), (1,)]


@pytest.mark.parametrize(
    ("critic", "words"),
    [
        ({"share_embedding": "c"}, ["'c'", "concatenation", "hidden"]),
        ({"share_embedding": "recurrence"}, ["'recurrence'", "a_a"]),
        ({"share_embedding": 3}, ["share_embedding", "3"]),
        ({"share_embedding": "hidden", "hidden": {"use": "dense"}}, ["hidden", "never be used"]),
        ({"share_embedding": "a", "blocks": {"a": {"use": "dense"}}}, ["blocks.a", "never be used"]),
        ({"share_embedding": True, "hidden": {"use": "dense"}}, ["hidden", "never be used"]),
    ],
)
def test_what_cannot_be_shared_is_said(make_model, critic, words):
    structured = flat({"a": VECTOR, "b": VECTOR}, {"action": DISCRETE})
    with pytest.raises(MazeError) as caught:
        make_model(structured, {**TWO_BLOCKS, "critic": critic})
    for word in words:
        assert word in caught.value.render()


SEQUENCES = {"a": spaces.Box(-1, 1, (3, 4)), "b": spaces.Box(-1, 1, (3, 2)), "c": VECTOR}
LAST_STEP = {"use": "lstm-last-step", "hidden_size": 7}


def sequence_table(**more):
    blocks = {name: {"use": "dense", "hidden_units": [5 + i]} for i, name in enumerate("abc")}
    return {"use": "concat", "blocks": blocks, "recurrence": LAST_STEP, **more}


@pytest.mark.parametrize("hidden", [None, {"use": "dense", "hidden_units": [9]}])
def test_recurrence_reads_concatenated_sequences(kernel_with_blocks, hidden):
    """What each step gives is joined with the vectors, which stand at every step; compared with the parts in turn."""
    structured = flat(SEQUENCES, {"action": DISCRETE})
    table = sequence_table(**({} if hidden is None else {"hidden": hidden}))
    context = ModelContext(spaces=structured, catalog=kernel_with_blocks.catalog, seed=2)
    model = kernel_with_blocks.catalog.build(select(kernel_with_blocks, "model", table), context)
    policy = model.policies["key_0"]
    assert policy.shapes["model/concatenation"] == (3, 5 + 6 + 7)
    assert policy.shapes["model/recurrence"] == (7,)
    observation = observe(structured)
    parts = {name: policy.blocks[f"{name}_{name}_block"] for name in "abc"}
    steps = []
    for t in range(3):
        one = {name: (x if name == "c" else x[:, t]) for name, x in observation.items()}
        joined = torch.cat([parts[name].layers(one[name]) for name in "abc"], -1)
        steps.append(joined if hidden is None else policy.blocks["hidden_block"].layers(joined))
    _, final = policy.blocks["recurrence_block"].layers(torch.stack(steps, 1))
    logits = policy.blocks["action_logits_block"].linear(final)
    torch.testing.assert_close(model.logits("0", observation)["action"], logits)
    assert model.value("0", observation).shape == (len(logits),)


@pytest.mark.parametrize(
    ("observation", "changes", "words"),
    [
        ({**SEQUENCES, "b": spaces.Box(-1, 1, (2, 2))}, {}, ["number of steps", "b_b", "gru-last-step"]),
        (SEQUENCES, {"recurrence": {"use": "lstm"}}, ["does not give a vector", "recurrence"]),
    ],
)
def test_sequences_that_do_not_fit_are_named(kernel_with_blocks, observation, changes, words):
    context = ModelContext(spaces=flat(observation, {"action": DISCRETE}), catalog=kernel_with_blocks.catalog)
    selection = select(kernel_with_blocks, "model", {**sequence_table(), **changes})
    with pytest.raises(MazeError) as caught:
        kernel_with_blocks.catalog.build(selection, context)
    for word in words:
        assert word in caught.value.render()


def test_shared_layers_run_once(make_model):
    structured = flat({"observation": VECTOR}, {"action": DISCRETE})
    model = make_model(structured, {**CONCAT, "critic": {"use": "shared-state", "share_embedding": True}})
    calls = []
    model.shared["key_0"].register_forward_hook(lambda *_: calls.append(1))
    model.logits_and_value("0", {"observation": torch.randn(2, 4)})
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"modalities": {"nothing": "feature"}}, ["'nothing'", "observation"]),
        ({"modalities": {"observation": "nothing"}}, ["'nothing'", "feature"]),
        ({"critic": {"blocks": {"nothing": {"use": "dense"}}}}, ["'nothing'", "feature"]),
        ({"modalities": {"observation": "ignore"}}, ["ignores every observation"]),
        ({"blocks": {"x": {"use": "dense"}, "y": {"use": "dense"}}}, ["'observation'", "'x'", "modalities"]),
        ({"blocks": {"x": {"use": "densse"}}}, ["densse", "dense"]),
        ({"blocks": {"x": {"use": "dense", "hidden_unit": [3]}}}, ["hidden_unit"]),
        ({"blocks": {"x": {"use": "global-average-pooling"}}}, ["observation_x", "(4,)"]),
        ({"distributions": [{"use": "betta"}]}, ["betta", "beta"]),
        ({"distributions": [{"use": "beta", "space": "Boxx"}]}, ["Boxx", "Box"]),
        ({"distributions": [{"use": "beta"}]}, ["'action'", "Discrete"]),
        ({"distributions": [{"use": "categorical", "min_log_std": 1.0}]}, ["min_log_std"]),
    ],
)
def test_wrong_tables_say_what_is_wrong(make_model, table, words):
    with pytest.raises(MazeError) as caught:
        make_model(flat({"observation": VECTOR}, {"action": DISCRETE}), {**CONCAT, **table})
    for word in words:
        assert word in caught.value.render()


def test_distributions_are_chosen_by_space_then_by_head(make_model):
    box = spaces.Box(-1.0, 1.0, (1,))
    structured = flat({"observation": VECTOR}, {"first": box, "second": box, "third": DISCRETE})
    rules = [
        {"space": "Box", "use": "beta"},
        {"action": "second", "use": "squashed-gaussian", "max_log_std": 0.5},
    ]
    heads = make_model(structured, {"use": "auto", "distributions": rules}).distributions["0"].heads
    assert [type(head).__name__ for head in heads.values()] == ["Beta", "SquashedGaussian", "Categorical"]
    assert heads["second"].options.max_log_std == 0.5
    path = [{"space": "Box", "use": "maze_distributions.gaussian:DiagonalGaussian"}]
    heads = make_model(structured, {"use": "auto", "distributions": path}).distributions["0"].heads
    assert type(heads["first"]).__name__ == "DiagonalGaussian"


@pytest.mark.parametrize(
    "options",
    [{"distributions": [{"use": "beta", "action": "forse"}]}, {"action_frequencies": {"forse": [0.5, 0.5]}}],
)
@pytest.mark.parametrize("table", [{"use": "auto"}, CONCAT])
def test_a_head_that_no_policy_key_has_is_refused(make_model, table, options):
    with pytest.raises(RequestError, match="names the action head 'forse', which does not exist") as caught:
        make_model(flat({"observation": VECTOR}, MIXED_ACTION), {**table, **options})
    assert caught.value.nearest[0] == "force"


def test_a_head_of_one_policy_key_may_be_named_for_all(make_model):
    structured = StructuredSpaces(
        observation={key: spaces.Dict(x=VECTOR) for key in "ab"},
        action={"a": spaces.Dict(go=DISCRETE), "b": spaces.Dict(push=spaces.Box(-1.0, 1.0, (2,)))},
        agent_counts={"a": 1, "b": 1},
    )
    named = {"distributions": [{"use": "beta", "action": "push"}], "action_frequencies": {"go": [0.2, 0.3, 0.5]}}
    assert make_model(structured, {"use": "auto", **named}).distributions["b"].heads["push"]


def test_several_policy_keys_have_networks_of_their_own(make_model):
    structured = StructuredSpaces(
        observation={"select": spaces.Dict(x=VECTOR), "cut.it": spaces.Dict(y=spaces.Discrete(4))},
        action={"select": spaces.Dict(piece=DISCRETE), "cut.it": spaces.Dict(order=spaces.Discrete(2))},
        agent_counts={"select": 1, "cut.it": 2},
    )
    model = make_model(structured)
    logits, value = model.logits_and_value("select", {"x": torch.randn(3, 4)})
    assert logits["piece"].shape == (3, 3)
    observation = {"y": torch.tensor([0, 3])}
    logits, value = model.logits_and_value("cut.it", observation, agent_id=torch.tensor([0, 1]))
    assert (logits["order"].shape, value.shape) == ((2, 2), (2,))
    assert model.numpy_logits("cut.it")({"y": np.array([0, 3])})["order"].shape == (2, 2)


def test_a_space_without_encoding_is_refused_by_name(make_model):
    with pytest.raises(SpaceError, match="'words'"):
        make_model(flat({"words": spaces.Text(5)}, {"action": DISCRETE}))


def test_weights_in_a_flat_buffer_are_seen_by_the_mirror(make_model):
    structured = flat({"observation": VECTOR}, {"action": DISCRETE})
    model = make_model(structured)
    mirror = model.numpy_logits("0")
    flat_parameters = FlatParameters(model)
    flat_parameters.data.add_(0.01)
    x = torch.randn(3, 4)
    expected = model.logits("0", {"observation": x})["action"].detach()
    np.testing.assert_allclose(mirror({"observation": x.numpy()})["action"], expected, atol=1e-5)
    twin = copy.deepcopy(model)
    flat_parameters.data.zero_()
    torch.testing.assert_close(twin.logits("0", {"observation": x})["action"].detach(), expected)


def test_there_is_no_mirror_for_other_dtypes(make_model):
    model = make_model(flat({"observation": VECTOR}, {"action": DISCRETE})).double()
    assert model.numpy_logits("0") is None


def test_a_state_dict_restores_the_model(make_model):
    structured = flat({"observation": VECTOR}, {"action": DISCRETE})
    first, second = make_model(structured, seed=1), make_model(structured, seed=2)
    second.load_state_dict(first.state_dict())
    x = {"observation": torch.randn(3, 4)}
    torch.testing.assert_close(first.value("0", x), second.value("0", x))
    third = make_model(structured, seed=3)
    third.load_state_dict(first.policy_state_dict(), strict=False)
    torch.testing.assert_close(first.logits("0", x)["action"], third.logits("0", x)["action"])


def test_functional_calls_evaluate_other_weights(make_model):
    """What a population of perturbed policies needs: one forward over stacked parameters."""
    model = make_model(flat({"observation": VECTOR}, {"action": DISCRETE}))
    policy = model.policies["key_0"]
    stacked = {name: torch.stack([p, 2 * p]) for name, p in policy.named_parameters()}
    x = torch.randn(5, 4)

    def logits(parameters):
        return torch.func.functional_call(policy, parameters, ({"observation": x},))["action"]

    with torch.no_grad():
        both = torch.func.vmap(logits)(stacked)
        torch.testing.assert_close(both[0], model.logits("0", {"observation": x})["action"])
        for parameter in policy.parameters():
            parameter.mul_(2)
        torch.testing.assert_close(both[1], model.logits("0", {"observation": x})["action"])


@pytest.mark.slow
def test_a_loss_over_every_space_compiles_in_one_graph(make_model):
    structured = flat(MIXED_OBSERVATION, MIXED_ACTION)
    model = make_model(structured)
    observation = observe(structured)
    observation["parts_mask"] = torch.ones_like(observation["parts_mask"])
    distribution = model.distributions["0"]
    action = distribution.sample(model.logits("0", observation))

    def loss(observation, action):
        logits, value = model.logits_and_value("0", observation)
        return distribution.log_prob(logits, action) + distribution.entropy(logits) + value

    torch.compiler.reset()
    compiled = torch.compile(loss, fullgraph=True)
    torch.testing.assert_close(compiled(observation, action), loss(observation, action), rtol=1e-4, atol=1e-4)
    compiled(observation, action).sum().backward()


WIRED = {
    "use": "concat",
    "blocks": {
        "both": {"use": "correlation", "reduce": False},
        "points": {"use": "masked-global-pooling", "pooling": "sum"},
        "rest": {"use": "dense", "hidden_units": [3], "non_lin": "identity"},
    },
    "inputs": {"both": ["points", "a"], "points": ["points", "mask"]},
}
WIRED_SPACES = {"points": spaces.Box(-1, 1, (5, 4)), "mask": spaces.MultiBinary(5), "a": VECTOR, "b": VECTOR}


def test_blocks_read_several_observations_and_each_other(make_model):
    structured = flat(WIRED_SPACES, {"action": DISCRETE})
    model = make_model(structured, WIRED)
    observation = observe(structured)
    shapes = model.policies["key_0"].shapes
    assert shapes["model/concatenation"] == (4 + 3,)
    pooled = (observation["points"] * observation["mask"][..., None]).sum(1)
    weights = {name: tensor.detach() for name, tensor in model.policies["key_0"].state_dict().items()}
    dense = observation["b"] @ weights["blocks.b_rest_block.layers.linear.0.weight"].T
    latent = torch.cat([pooled * observation["a"], dense], 1)
    expected = latent @ weights["blocks.action_logits_block.linear.weight"].T
    torch.testing.assert_close(model.logits("0", observation)["action"].detach(), expected)


def test_an_observation_in_inputs_and_modalities_goes_both_ways(make_model):
    structured = flat(WIRED_SPACES, {"action": DISCRETE})
    model = make_model(structured, {**WIRED, "modalities": {"a": "rest"}})
    assert model.policies["key_0"].shapes["model/concatenation"] == (4 + 3 + 3,)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"both": []}, ["[model.inputs] both reads nothing", "a, "]),
        ({"both": ["points", "a"], "nothing": ["a"]}, ["'nothing'", "both"]),
        ({"both": ["pointz", "a"]}, ["'pointz'", "points"]),
        ({"both": ["points", "a"], "points": ["both", "mask"]}, ["circle", "'both' -> 'points' -> 'both'"]),
        ({"both": ["points", "b", "a"], "points": ["points", "mask"]}, ["both", "Correlation"]),
    ],
)
def test_wrong_inputs_say_what_is_wrong(make_model, inputs, words):
    with pytest.raises(MazeError) as caught:
        make_model(flat(WIRED_SPACES, {"action": DISCRETE}), {**WIRED, "inputs": inputs})
    for word in words:
        assert word in caught.value.render()


def test_a_mask_of_an_action_in_inputs_is_said_to_be_one(make_model):
    structured = flat({"x": VECTOR, "action_mask": spaces.MultiBinary(3)}, {"action": DISCRETE})
    table = {"use": "concat", "inputs": {"both": ["x", "action_mask"]}, "blocks": {"both": {"use": "concatenation"}}}
    with pytest.raises(RequestError, match="'action_mask', the mask of the action head 'action'"):
        make_model(structured, table)


def test_wired_observations_reach_q_networks_through_hidden(kernel):
    structured = flat(WIRED_SPACES, {"action": VECTOR})
    context = ModelContext(spaces=structured, catalog=kernel.catalog, critic="state-action")
    table = {**WIRED, "hidden": {"use": "dense", "hidden_units": [6]}}
    model = kernel.catalog.build(select(kernel, "model", table), context)
    assert model.action_value_critic("0")(observe(structured), torch.zeros(6, 4)).shape == (2, 6)


def test_q_networks_that_would_not_read_the_action_are_refused(kernel):
    """All observations wired, and no `hidden` for the action to join before."""
    context = ModelContext(
        spaces=flat({"a": VECTOR}, {"action": VECTOR}), catalog=kernel.catalog, critic="state-action"
    )
    table = {"use": "concat", "blocks": {"all": {"use": "dense"}}, "inputs": {"all": ["a"]}}
    with pytest.raises(RequestError, match="reads observation and action together") as caught:
        kernel.catalog.build(select(kernel, "model", table), context)
    assert "[model.critic.hidden]" in caught.value.render()


def _kinds(low, high, dtype):
    return {"kind": spaces.Box(low, high, (2,), dtype)}


ONE_HOT = {"use": "concat", "inputs": {"classes": ["kind"], "out": ["classes"]}}
ONE_HOT["blocks"] = {"classes": {"use": "one-hot", "n_classes": 5}, "out": {"use": "flatten"}}


@pytest.mark.parametrize("kind", [(-10, 10, np.float32), (0, 1, np.float32), (0, 255, np.uint8)])
def test_class_numbers_that_may_be_amounts_are_told(make_model, kind):
    with pytest.warns(MazeWarning, match="block 'classes' reads the observation 'kind' as numbers from 0 to 4"):
        make_model(flat(_kinds(*kind), {"action": DISCRETE}), ONE_HOT)


@pytest.mark.parametrize("kind", [(-1, 4, np.float32), (0, 9, np.int64), (0, 4, np.uint8)])
def test_class_numbers_are_read_without_a_word(make_model, recwarn, kind):
    make_model(flat(_kinds(*kind), {"action": DISCRETE}), ONE_HOT)
    assert not [one for one in recwarn if issubclass(one.category, MazeWarning)]


class Eyes(nn.Linear):
    def __init__(self):
        super().__init__(4, 4)
        nn.init.eye_(self.weight)
        nn.init.constant_(self.bias, 7.0)


def test_a_module_of_the_users_keeps_its_weights(make_model, monkeypatch):
    monkeypatch.setitem(sys.modules, "modules_of_tests", sys.modules[__name__])
    table = {"use": "concat", "blocks": {"feature": {"use": "torch-model", "module": "modules_of_tests:Eyes"}}}
    model = make_model(flat({"observation": VECTOR}, {"action": DISCRETE}), table)
    module = model.policies["key_0"].blocks["observation_feature_block"].module
    assert torch.equal(module.weight, torch.eye(4))
    assert (module.bias == 7.0).all()
