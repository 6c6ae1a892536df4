"""Networks evaluated in C++ while their updates are compiled: the logits and values of torch."""

import pickle

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from maze_distributions import categorical
from maze_kernel.contracts.vector import Group
from maze_perception import inference
from maze_perception.blocks.dense import Dense
from maze_perception.options import DenseOptions
from maze_runtime.env.flat import flat_spaces
from maze_runtime.models.capabilities import EvaluatesOutsideTorch
from maze_runtime.models.native_evaluation import NativeEvaluation
from maze_runtime.models.network_policy import NetworkPolicy
from maze_runtime.native import choices, dense
from maze_runtime.native.choices import ChoiceSampler
from maze_runtime.native.dense import DenseStack, products_library
from maze_runtime.rollout.buffer import RolloutBuffer

FlatEstimator = pytest.importorskip("maze_ppo.flat_estimator").FlatEstimator

OBSERVATION = {
    "vector": spaces.Box(-1.0, 1.0, (4,)),
    "table": spaces.Box(-1.0, 1.0, (3, 2)),
    "choice": spaces.Discrete(3),
    "move_mask": spaces.MultiBinary(5),
}
ACTION = {"move": spaces.Discrete(5), "force": spaces.Box(-1.0, 1.0, (2,))}
SPACES = flat_spaces(spaces.Dict(OBSERVATION), spaces.Dict(ACTION))


def table(*, shared=False, non_lin="tanh"):
    blocks = {
        "vector": {"use": "dense", "hidden_units": [32], "non_lin": non_lin},
        "table": {"use": "flatten-dense", "hidden_units": [16, 20], "non_lin": "relu"},
        "choice": {"use": "dense", "hidden_units": [8]},
    }
    hidden = {"use": "dense", "hidden_units": [64, 64], "non_lin": "tanh"}
    return {"use": "concat", "blocks": blocks, "hidden": hidden, "critic": {"share_embedding": shared}}


@pytest.fixture(autouse=True)
def on_such_a_processor(monkeypatch):
    monkeypatch.setattr(dense, "HAS_VECTORS", True)
    if products_library() is None:
        pytest.skip("no compiler here")


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch.set_num_threads
    torch.set_num_threads(before)


def prepared(model):
    for module in model.modules():
        if hasattr(module, "prepare_for_compilation"):
            module.prepare_for_compilation()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)  # heads begin near zero
    return model


def observed(n_rows, structured=SPACES):
    rng = np.random.default_rng(n_rows)
    rows = {
        "vector": rng.normal(size=(n_rows, 4)).astype(np.float32),
        "table": rng.normal(size=(n_rows, 3, 2)).astype(np.float32),
        "choice": rng.integers(3, size=n_rows),
        "move_mask": np.ones((n_rows, 5), np.int8),
    }
    rows["move_mask"][::2, 1:4] = 0
    return {name: rows[name] for name in structured.observation["0"].spaces}


def tensors(rows):
    return {name: torch.from_numpy(array) for name, array in rows.items()}


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("n_rows", [1, 8, 1024, 2500])
def test_logits_and_values_are_those_of_torch(make_model, shared, n_rows):
    model = prepared(make_model(SPACES, table(shared=shared)))
    assert isinstance(model, EvaluatesOutsideTorch)
    evaluation, rows = model.native_evaluation("0"), observed(n_rows)
    logits, values = evaluation.logits_and_values(rows)
    with torch.no_grad():
        expected, expected_values = model.logits_and_value("0", tensors(rows))
    assert values.shape == (n_rows,)
    np.testing.assert_allclose(values, expected_values, atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(evaluation.values(rows), expected_values, atol=1e-5, rtol=1e-5)
    for head, tensor in expected.items():
        np.testing.assert_allclose(logits[head], tensor, atol=1e-5, rtol=1e-5)


def test_values_stay_while_others_are_computed(make_model):
    evaluation = prepared(make_model(SPACES)).native_evaluation("0")
    values = evaluation.values(observed(8))
    before = values.copy()
    evaluation.values({name: array[::-1].copy() for name, array in observed(8).items()})
    assert np.array_equal(values, before)


def test_arrays_that_a_network_writes_to_again_are_copied():
    """A custom model may end in a dense block, whose result the next rows overwrite."""
    buffer = np.empty((1024, 2), np.float32)

    def policy(features):
        own = buffer[: len(features["x"])]
        own[...] = features["x"]
        return {"move": own}

    evaluation = NativeEvaluation(lambda rows: rows, None, policy, lambda features: {"value": features["x"][:, :1]})
    x = np.random.default_rng(0).normal(size=(2500, 2)).astype(np.float32)
    logits, values = evaluation.logits_and_values({"x": x})
    assert np.array_equal(logits["move"], x)
    assert np.array_equal(values, x[:, 0])


def test_acting_goes_through_them_too(make_model):
    model = make_model(SPACES)
    plain = NetworkPolicy(prepared(model), seed=3, mirror=False)
    native = NetworkPolicy(model, seed=3)
    mirrored, expected = native._mirrors["0"](observed(8)), plain.model.logits("0", tensors(observed(8)))
    for head, tensor in expected.items():
        np.testing.assert_allclose(mirrored[head], tensor.detach(), atol=1e-5)


def test_layers_that_only_follow_each_other_are_one_call(make_model, monkeypatch):
    sizes = []

    class Counted(DenseStack):
        def __init__(self, layers, **options):
            sizes.append([len(layer.weight) for layer in layers])
            super().__init__(layers, **options)

    monkeypatch.setattr(inference, "DenseStack", Counted)
    prepared(make_model(SPACES, table())).numpy_logits("0")
    # Three features, and the hidden block with the head of the one action that has no constants; two heads read it
    assert sorted(sizes) == [[5], [8], [16, 20], [32], [64, 64]]
    sizes.clear()
    one_head = flat_spaces(spaces.Dict({"vector": OBSERVATION["vector"]}), spaces.Dict({"move": spaces.Discrete(5)}))
    prepared(make_model(one_head)).numpy_logits("0")
    assert sizes == [[64, 64, 5]]


def test_policies_draw_choices_in_cpp_from_the_same_random_numbers(make_model, monkeypatch):
    drawn = []

    class Counted(ChoiceSampler):
        def __call__(self, logits, rng):
            drawn.append(len(logits))
            return super().__call__(logits, rng)

    monkeypatch.setattr(choices, "HAS_VECTORS", True)
    monkeypatch.setattr(categorical, "ChoiceSampler", Counted)
    if not choices.can_draw():
        pytest.skip("no compiler here")
    model = make_model(SPACES, table())
    plain = NetworkPolicy(model, seed=3)
    copied = pickle.loads(pickle.dumps(prepared(model)))
    policies = NetworkPolicy(model, seed=3), NetworkPolicy(copied, seed=3)
    assert not drawn
    group = Group(np.arange(8), np.zeros(8, np.int64), observed(8))
    for _ in range(20):
        wanted = plain.act("0", group)
        for policy in policies:
            found = policy.act("0", group)
            np.testing.assert_array_equal(found["move"], wanted["move"])
            np.testing.assert_allclose(found["force"], wanted["force"], atol=1e-5)
    assert drawn == [8] * 40
    policies[0].act("0", group, deterministic=True)
    NetworkPolicy(model, mirror=False).act("0", group)
    assert len(drawn) == 40


class Louder(nn.Module):
    """Somebody's own module, whose mirror nobody knows."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, inputs):
        return {name: 2.0 * tensor for name, tensor in self.inner(inputs).items()}


class Doubled(Dense):
    """Somebody's own block, with a mirror of its own."""

    def normalized_forward(self, inputs):
        return {name: 2.0 * tensor for name, tensor in super().normalized_forward(inputs).items()}

    def make_mirror(self):
        run = super().make_mirror()
        return lambda arrays: {name: 2.0 * array for name, array in run(arrays).items()}


def test_blocks_that_inherit_from_dense_ones_keep_their_own_mirrors():
    block = Doubled(["x"], ["y"], [(4,)], DenseOptions(hidden_units=(8,)))
    network = prepared(inference.InferenceBlock({"own": block}, {"x": (4,)}, ["y"]))
    rows = observed(8)["vector"]
    expected = network({"x": torch.from_numpy(rows)})["y"].detach()
    np.testing.assert_allclose(network.make_mirror()({"x": rows})["y"], expected, atol=1e-6)
    assert not network.is_native()


@pytest.mark.parametrize("why", ["not compiled", "other activation", "own critic", "a hook", "no compiler"])
def test_torch_evaluates_whatever_computes_more(make_model, why, monkeypatch):
    model = make_model(SPACES, table(non_lin="elu" if why == "other activation" else "tanh"))
    if why != "not compiled":
        prepared(model)
    if why == "own critic":
        model._critic["0"] = Louder(model._critic["0"])
    if why == "a hook":
        next(iter(model.children())).register_forward_hook(lambda *given: None)
    if why == "no compiler":
        monkeypatch.setattr(dense, "products_library", lambda: None)
    assert model.native_evaluation("0") is None


def rollout_of(model, n_steps=6, n_envs=4):
    buffer = RolloutBuffer(model.spaces, "0", n_steps, n_envs)
    for name, array in observed(n_steps * n_envs).items():
        buffer.observation[name][...] = array.reshape(n_steps, n_envs, *array.shape[1:])
        buffer.last_observation[name][...] = array[:n_envs]
    buffer.action["move"][...] = np.array([[0, 4, 0, 4]] * n_steps)
    buffer.action["force"][...] = 0.3
    buffer.reward[...] = np.random.default_rng(0).normal(size=(n_steps, n_envs))
    buffer.terminated[1, 0] = buffer.truncated[3, 1] = True
    buffer.add_truncation(3, np.array([1]), observed(1))
    return buffer


@pytest.mark.parametrize("needs_log_prob", [True, False])
def test_rollouts_are_valued_alike(make_model, threads, needs_log_prob):
    model = prepared(make_model(SPACES))
    options = {"gamma": 0.9, "gae_lambda": 0.8, "fixed_size": True, "needs_log_prob": needs_log_prob}
    native = FlatEstimator(model, torch.device("cpu"), **options)
    assert native._native is not None
    found = native.estimate(rollout_of(model))
    threads(2)  # torch divides the work then
    expected = native.estimate(rollout_of(model))
    for name, column in expected.columns().items():
        torch.testing.assert_close(found.columns()[name], column, atol=1e-5, rtol=1e-4)
    assert (found.log_prob is None) is not needs_log_prob
