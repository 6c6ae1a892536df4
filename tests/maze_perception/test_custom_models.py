"""The `custom` model: networks of the user's own, with and without knowledge of shapes."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from maze_kernel.config import experiment_from_mapping
from maze_kernel.config.load import select
from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.model import ModelContext
from maze_kernel.errors import ExperimentError, MazeError
from maze_runtime.env.flat import flat_spaces
from maze_runtime.models.masking import MASKED_LOGIT
from maze_testing.models import check_model

VECTOR = spaces.Box(-1.0, 1.0, (4,))
HERE = "custom_networks_of_tests"


class Policy(nn.Module):
    def __init__(self, *, obs_shapes, action_logits_shapes, units=8, shares=False):
        super().__init__()
        self.body = nn.Linear(sum(shape[0] for shape in obs_shapes.values()), units)
        self.heads = nn.ModuleDict({name: nn.Linear(units, n) for name, (n,) in action_logits_shapes.items()})
        self.shares = shares

    def forward(self, observation):
        latent = self.body(torch.cat(list(observation.values()), -1)).tanh()
        logits = {name: head(latent) for name, head in self.heads.items()}
        return {**logits, "latent": latent} if self.shares else logits


class Critic(nn.Module):
    def __init__(self, *, obs_shapes, output_shapes):
        super().__init__()
        self.in_shapes = dict(obs_shapes)
        (n_values,) = output_shapes["value"]
        self.value = nn.Linear(sum(shape[0] for shape in obs_shapes.values()), n_values)

    def forward(self, observation):
        assert set(observation) == set(self.in_shapes)
        return {"value": self.value(torch.cat(list(observation.values()), -1))}


class Plain(nn.Linear):
    def __init__(self):
        super().__init__(4, 3)


class Echo(Policy):
    def forward(self, observation):
        return {**super().forward(observation), **observation}


class Odd(Policy):
    def __init__(self, *, odd, **shapes):
        super().__init__(**shapes)
        self.odd = odd

    def forward(self, observation):
        logits = super().forward(observation)
        x = logits["action"]
        odd = {
            "none": {"hidden": None},
            "mask": {"action_mask": torch.ones_like(x)},
            "scalar": {"aux": x.sum()},
            "averaged": {"action": x.mean(0, keepdim=True)},
            "double": {"action": x.double()},
            "integers": {"action": x.long()},
        }
        return {**logits, **odd[self.odd]}


class Greedy(Policy):
    def __init__(self, *, obs_shapes, action_logits_shapes):
        super().__init__(obs_shapes={"speed": obs_shapes["speed"]}, action_logits_shapes=action_logits_shapes)


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, HERE, sys.modules[__name__])


def table(policy=None, critic=None, **more):
    return {
        "use": "custom",
        "policy": {"use": f"{HERE}:Policy", **(policy or {})},
        "critic": {"use": f"{HERE}:Critic", **(critic or {})},
        **more,
    }


def spaces_of(observation=None, action=None):
    return flat_spaces(spaces.Dict(observation or {"x": VECTOR}), spaces.Dict(action or {"action": spaces.Discrete(3)}))


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("action", [{"action": spaces.Discrete(3)}, {"kind": spaces.Discrete(2), "force": VECTOR}])
def test_custom_models_conform(make_model, shares, action):
    structured = spaces_of({"x": VECTOR, "y": spaces.Discrete(2)}, action)
    check_model(lambda: make_model(structured, table({"kwargs": {"shares": shares}}), seed=3), structured)


def test_what_a_policy_gives_besides_is_shared_with_the_critic(make_model):
    model = make_model(spaces_of(), table({"kwargs": {"shares": True, "units": 5}}))
    policy, critic = model.network_graphs()
    assert critic.n_parameters == policy.n_parameters + (4 + 5) + 1
    assert "latent" in critic.blocks[0].out_keys
    assert "latent" in critic.blocks[1].in_keys
    assert critic.inputs == ("x",)
    model.value("0", {"x": torch.randn(2, 4)}).sum().backward()
    body = [p for name, p in model.named_parameters() if "body" in name]
    assert body
    assert all(p.grad is not None for p in body)


def test_plain_modules_get_tensors_and_give_one(make_model):
    plain = {"use": "torch.nn:Linear", "kwargs": {"in_features": 4, "out_features": 1}}
    model = make_model(spaces_of(), {"use": "custom", "policy": {"use": f"{HERE}:Plain"}, "critic": plain})
    x = torch.randn(2, 4)
    weight, bias = list(model.policies.parameters())
    torch.testing.assert_close(model.logits("0", {"x": x})["action"], x @ weight.T + bias)
    assert model.value("0", {"x": x}).shape == (2,)


def test_masks_are_applied_behind_the_policy(make_model):
    model = make_model(spaces_of({"x": VECTOR, "action_mask": spaces.MultiBinary(3)}), table())
    observation = {"x": torch.randn(2, 4), "action_mask": torch.tensor([[1, 0, 1], [0, 1, 0]])}
    assert (model.logits("0", observation)["action"] == MASKED_LOGIT).tolist() == [
        [False, True, False],
        [True, False, True],
    ]
    assert model.value("0", observation).shape == (2,)


def test_a_policy_does_not_give_the_mask_of_its_action(make_model):
    own = {**table(), **odd("mask")}
    with pytest.raises(MazeError, match="Odd gives 'action_mask', which is an observation already"):
        make_model(spaces_of({"x": VECTOR, "action_mask": spaces.MultiBinary(3)}), own)


@pytest.mark.parametrize(("action", "n_values"), [(spaces.Discrete(3), 3), (VECTOR, 1)])
def test_two_critics_value_actions(kernel, action, n_values):
    structured = spaces_of(action={"action": action})
    context = ModelContext(spaces=structured, catalog=kernel.catalog, critic="state-action")
    model = kernel.catalog.build(select(kernel, "model", table()), context)
    first, second = (network.blocks["Critic_block"] for network in model.action_value_critic("0").networks)
    assert first.module.value.out_features == n_values
    assert not torch.equal(first.module.value.weight, second.module.value.weight)
    assert ("taken_action" in first.module.in_shapes) == (n_values == 1)


def test_policy_keys_have_networks_of_their_own(make_model):
    structured = StructuredSpaces(
        observation={"one": spaces.Dict(x=VECTOR), "two": spaces.Dict(x=VECTOR)},
        action={"one": spaces.Dict(a=spaces.Discrete(2)), "two": spaces.Dict(b=spaces.Discrete(3))},
        agent_counts={"one": 1, "two": 1},
    )
    own = {"two": {"use": f"{HERE}:Policy", "kwargs": {"units": 3}}}
    model = make_model(structured, table(policies=own))
    sizes = [graph.n_parameters for graph in model.network_graphs() if graph.role == "policy"]
    assert sizes == [4 * 8 + 8 + 8 * 2 + 2, 4 * 3 + 3 + 3 * 3 + 3]


def odd(how):
    return {"policy": {"use": f"{HERE}:Odd", "kwargs": {"odd": how}}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"policy": {"use": "no_such_package:Net"}}, ["there is no module no_such_package", "policy.use"]),
        ({"policy": {"use": f"{HERE}:Policy", "kwargs": {"unit": 3}}}, ["unit", "action_logits_shapes"]),
        ({"policy": {"use": "torch.nn:Linear", "kwargs": {"in_features": 4, "out_features": 2}}}, ["(2,)", "(3,)"]),
        ({"critic": {"use": f"{HERE}:Policy", "kwargs": {"action_logits_shapes": {"a": [1]}}}}, ["'value'", "'a'"]),
        ({"policy": {"use": "torch:zeros", "kwargs": {"size": [2]}}}, ["torch.nn.Module", "Tensor"]),
        ({"policies": {"0 ": {"use": f"{HERE}:Policy"}}}, ["'0 '", "does not exist"]),
        ({"policy": {"use": f"{HERE}:Echo"}}, ["Echo", "'x'", "observation already"]),
        (odd("none"), ["Odd gives 'hidden'", "NoneType"]),
        (odd("scalar"), ["Odd gives 'aux'", "shape ()"]),
        (odd("averaged"), ["Odd gives 'action'", "shape (1, 3)"]),
        (odd("double"), ["Odd gives 'action'", "torch.float64"]),
        (odd("integers"), ["Odd gives 'action'", "torch.int64"]),
        ({"policy": {"use": f"{HERE}:Greedy"}}, ["KeyError", "speed", "x"]),
        ({"policy": {"use": "torch.nn:Linear", "kwargs": {"in_features": 9, "out_features": 3}}}, ["Linear", "x (4,)"]),
    ],
)
def test_wrong_networks_say_what_is_wrong(make_model, changes, words):
    with pytest.raises(MazeError) as caught:
        make_model(spaces_of(), {**table(), **changes})
    for word in words:
        assert word in caught.value.render()


def test_constants_that_a_policy_of_yours_would_have_to_give_are_refused(make_model):
    structured, rule = spaces_of(action={"force": VECTOR}), {"use": "squashed-gaussian", "std_from": "parameter"}
    with pytest.raises(MazeError, match="'force' is to have constants among its logits") as caught:
        make_model(structured, table(distributions=[rule]))
    assert "torch.nn.Parameter" in caught.value.render()
    make_model(structured, {"use": "custom", "critic": f"{HERE}:Critic", "distributions": [rule]})


def test_without_any_network_of_yours_the_table_is_refused(make_model):
    with pytest.raises(MazeError, match="no network of yours") as caught:
        make_model(spaces_of(), {"use": "custom"})
    assert 'use = "auto"' in caught.value.render()


@pytest.mark.parametrize("action", [{"action": spaces.Discrete(3)}, {"kind": spaces.Discrete(2), "force": VECTOR}])
@pytest.mark.parametrize("missing", ["policy", "critic"])
def test_what_is_not_given_is_the_network_of_auto(make_model, missing, action):
    """The same sizes, initial gains, frequencies and masks."""
    structured = spaces_of({"x": VECTOR, "y": spaces.Discrete(2)}, action)
    custom = {key: value for key, value in table(default={"hidden_units": [5]}).items() if key != missing}
    check_model(lambda: make_model(structured, custom, seed=3), structured)
    role = {"policy": "policies", "critic": "critics"}[missing]
    model, auto = make_model(structured, custom), make_model(structured, {"use": "auto", "hidden_units": [5]})

    def shapes(of):
        return {name: tuple(t.shape) for name, t in of.state_dict().items() if name.startswith(role)}

    assert shapes(model) == shapes(auto)
    if missing == "policy":
        observation = {"x": torch.randn(6, 4), "y": torch.arange(6) % 2}
        assert all(float(logits.detach().std()) < 0.1 for logits in model.logits("0", observation).values())


def test_a_default_policy_whose_actions_are_valued_is_that_of_auto(kernel):
    """Standard deviations are outputs of the network."""
    context = ModelContext(spaces=spaces_of(action={"force": VECTOR}), catalog=kernel.catalog, critic="state-action")
    tables = {"use": "auto"}, {"use": "custom", "critic": f"{HERE}:Critic"}
    auto, model = (kernel.catalog.build(select(kernel, "model", one), context).policies.state_dict() for one in tables)
    assert {name: t.shape for name, t in model.items()} == {name: t.shape for name, t in auto.items()}


def test_a_default_critic_reads_what_the_policy_gives_besides(make_model):
    custom = {key: value for key, value in table({"kwargs": {"shares": True, "units": 5}}).items() if key != "critic"}
    model = make_model(spaces_of(), {**custom, "default": {"hidden_units": [7]}})
    policy, critic = model.network_graphs()
    assert critic.n_parameters == policy.n_parameters + ((4 + 5) * 7 + 7) + (7 + 1)
    model.value("0", {"x": torch.randn(2, 4)}).sum().backward()
    assert all(p.grad is not None for name, p in model.named_parameters() if "body" in name)


def test_default_policies_start_with_frequencies_and_masks(make_model):
    structured = spaces_of({"x": VECTOR, "action_mask": spaces.MultiBinary(3)})
    default = {"action_frequencies": {"action": [0.7, 0.2, 0.1]}}
    model = make_model(structured, {"use": "custom", "critic": f"{HERE}:Critic", "default": default})
    observation = {"x": torch.zeros(1, 4), "action_mask": torch.tensor([[1, 1, 0]])}
    probabilities = model.logits("0", observation)["action"].softmax(-1)[0].tolist()
    np.testing.assert_allclose(probabilities, [0.7 / 0.9, 0.2 / 0.9, 0.0], atol=1e-6)


@pytest.mark.parametrize(("action", "n_values"), [(spaces.Discrete(3), 3), (VECTOR, 1)])
def test_default_critics_of_a_custom_policy_value_actions(kernel, action, n_values):
    structured = spaces_of(action={"action": action})
    context = ModelContext(spaces=structured, catalog=kernel.catalog, critic="state-action")
    chosen = {"use": "custom", "policy": f"{HERE}:Policy"}
    model = kernel.catalog.build(select(kernel, "model", chosen), context)
    encoder = model.action_value_critic("0").action_encoder
    taken = None if n_values == 3 else encoder.encode({"action": torch.zeros(2, 4)})
    values = model.action_value_critic("0")({"x": torch.randn(2, 4)}, taken)
    assert values.shape == ((2, 2, 3) if n_values == 3 else (2, 2))
    assert not torch.equal(values[0], values[1])


def test_how_a_network_is_called_may_be_said(make_model):
    class Unaware(nn.Linear):
        def forward(self, observation):
            return {"action": super().forward(observation["x"])}

    model = make_model(spaces_of(), {"use": "custom", "policy": {"use": Unaware(4, 3), "inputs": "dict"}})
    assert model.logits("0", {"x": torch.randn(2, 4)})["action"].shape == (2, 3)


def test_a_module_itself_is_copied_for_every_key_and_refused_as_twins(kernel, make_model):
    module = nn.Linear(4, 1)
    structured = StructuredSpaces(
        observation={"one": spaces.Dict(x=VECTOR), "two": spaces.Dict(x=VECTOR)},
        action={"one": spaces.Dict(a=spaces.Discrete(2)), "two": spaces.Dict(b=spaces.Discrete(3))},
        agent_counts={"one": 1, "two": 1},
    )
    model = make_model(structured, {"use": "custom", "critic": module})
    critics = [p for name, p in model.named_parameters() if name.startswith("critics.") and name.endswith("weight")]
    assert len(critics) == 2
    assert all(torch.equal(own, module.weight) and own is not module.weight for own in critics)
    context = ModelContext(spaces=spaces_of(), catalog=kernel.catalog, critic="state-action")
    with pytest.raises(MazeError, match="twin critics"):
        kernel.catalog.build(select(kernel, "model", {"use": "custom", "critic": module}), context)
    with pytest.raises(MazeError, match="constructed already"):
        make_model(structured, {"use": "custom", "critic": {"use": module, "kwargs": {"bias": False}}})


CODE = "no_such_package:Thing"


@pytest.mark.parametrize(
    "model",
    [
        {"use": "custom", "policy": {"use": CODE}},
        {"use": "custom", "policy": {"use": "torch.nn:Linear", "kwargs": {"deep": [{"at": CODE}]}}},
        {"use": "concat", "blocks": {"feature": {"use": "functional", "function": CODE}}},
        {"use": "concat", "blocks": {"feature": {"use": "torch-model", "module": CODE}}},
        {"use": "auto", "distributions": [{"use": CODE}]},
    ],
)
def test_a_file_in_a_run_directory_may_not_name_networks(kernel, model):
    """Components import these themselves, when they are built; a run that came from somebody else must not."""
    data = {"name": "x", "env": {"use": "maze_testing.environments:RepeatFirst"}, "model": model}
    data = {**data, "trainer": {"use": "maze_ppo.trainer:PPOTrainer"}}
    with pytest.raises(ExperimentError) as caught:
        experiment_from_mapping(data, kernel=kernel, import_paths=False)
    assert f"{CODE} names code to import" in caught.value.render()


FREQUENCIES = {"action": [0.7, 0.2, 0.1], "bits": [0.25, 0.9], "parts": [0.5, 0.5, 0.2, 0.3, 0.5]}
HEADS = {"action": spaces.Discrete(3), "bits": spaces.MultiBinary(2), "parts": spaces.MultiDiscrete([2, 3])}


@pytest.mark.parametrize("use", ["auto", {"use": "concat", "blocks": {"f": {"use": "dense"}}}])
def test_policies_start_with_the_frequencies_of_their_actions(make_model, use):
    options = {"use": use} if isinstance(use, str) else use
    model = make_model(spaces_of(action=HEADS), {**options, "action_frequencies": FREQUENCIES})
    logits = {name: part.detach()[0] for name, part in model.logits("0", {"x": torch.zeros(1, 4)}).items()}
    np.testing.assert_allclose(logits["action"].softmax(-1), [0.7, 0.2, 0.1], atol=1e-6)
    np.testing.assert_allclose(logits["bits"].sigmoid(), [0.25, 0.9], atol=1e-6)
    np.testing.assert_allclose(logits["parts"][2:].softmax(-1), [0.2, 0.3, 0.5], atol=1e-6)
    distribution = model.distributions["0"].heads["bits"]
    generator = torch.Generator().manual_seed(0)
    drawn = distribution.sample(logits["bits"].expand(20_000, 2), generator).float().mean(0)
    np.testing.assert_allclose(drawn, [0.25, 0.9], atol=0.02)


@pytest.mark.parametrize(
    ("frequencies", "words"),
    [
        ({"action": [0.5, 0.5]}, ["'action'", "2 numbers", "3"]),
        ({"action": [0.5, 0.2, 0.2]}, ["sum to 0.9"]),
        ({"action": [1.0, 0.0, 0.0]}, ["between 0 and 1"]),
        ({"force": [1.0]}, ["'force'", "no choices"]),
    ],
)
def test_numbers_that_are_no_frequencies_are_refused(make_model, frequencies, words):
    structured = spaces_of(action={"action": spaces.Discrete(3), "force": VECTOR})
    with pytest.raises(MazeError) as caught:
        make_model(structured, {"use": "auto", "action_frequencies": frequencies})
    for word in words:
        assert word in caught.value.render()
