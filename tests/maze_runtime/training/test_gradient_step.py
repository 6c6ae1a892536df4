"""The flat optimiser step against torch's Adam and against a NumPy Adam written from the paper."""

import copy
import sys
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from maze_runtime.training import compiled_update, flat_adam
from maze_runtime.training.gradient_step import GradientStep


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))


def squared_error(model, x, y):
    loss = (model(x).squeeze(-1) - y).square().mean()
    return loss, loss.detach()[None]


def data(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(7, 3, generator=generator), torch.randn(7, generator=generator)


def make(model, *, compiled=False, max_grad_norm=0.0):
    return GradientStep(model, squared_error, epsilon=1e-8, max_grad_norm=max_grad_norm, compiled=compiled)


COMPILED = [False, pytest.param(True, marks=pytest.mark.slow)]


@pytest.mark.parametrize("compiled", COMPILED)
@pytest.mark.parametrize("max_grad_norm", [0.0, 0.3, 1e3])
def test_steps_equal_torch_adam(compiled, max_grad_norm):
    model = network()
    reference = copy.deepcopy(model)
    optimizer = torch.optim.Adam(reference.parameters(), lr=0.01)
    step = make(model, compiled=compiled, max_grad_norm=max_grad_norm)
    for i in range(5):
        x, y = data(i)
        loss_and_norm = step(0.01, x, y)
        optimizer.zero_grad()
        loss, _ = squared_error(reference, x, y)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(reference.parameters(), max_grad_norm or float("inf"))
        optimizer.step()
        np.testing.assert_allclose(loss_and_norm, [loss.item(), norm.item()], rtol=1e-4)
    for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        np.testing.assert_allclose(ours.detach(), theirs.detach(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("limit", [0.1, 0.3, 0.5, 0.7, 1.0, 10.0, 40.0])
def test_gradients_are_cut_by_the_factor_that_tensors_give_bit_for_bit(limit):
    norms = np.random.default_rng(0).gamma(2.0, limit, 500)
    for norm in torch.from_numpy(np.append(norms, [0.0, limit, 1e-30, 3e38]).astype(np.float32)):
        assert flat_adam.cut_factor(norm.item(), limit) == float((limit / (norm + 1e-6)).clamp(max=1.0))


@pytest.mark.parametrize("compiled", COMPILED)
def test_norms_of_parts_are_those_of_their_parameters_before_the_gradient_is_cut(compiled):
    model, reference = network(), network()
    first, second = model[0], model[2]
    parts = {"weights": [first.weight, second.weight], "first": first.parameters(), "none": []}
    step = GradientStep(model, squared_error, epsilon=1e-8, max_grad_norm=1e-3, compiled=compiled, norms_of=parts)
    assert step.norms == ("grad_norm", "weights", "first")
    squared_error(reference, *data())[0].backward()
    gradients = [own.grad.numpy().reshape(-1) for own in reference.parameters()]
    expected = [np.concatenate([gradients[i] for i in own]) for own in ((0, 1, 2, 3), (0, 2), (0, 1))]
    np.testing.assert_allclose(step(0.01, *data())[1:], [np.linalg.norm(own) for own in expected], rtol=1e-4)


@pytest.mark.parametrize("max_grad_norm", [0.0, 0.3])
def test_steps_are_the_same_where_torch_lacks_its_private_kernel(monkeypatch, max_grad_norm):
    usual, other = network(), network()
    for model in (usual, other):
        step = make(model, max_grad_norm=max_grad_norm)
        for i in range(5):
            step(0.01, *data(i))
        assert step.adam.n_steps == 5
        monkeypatch.delattr(torch, "_fused_adam_", raising=False)
    for ours, theirs in zip(other.parameters(), usual.parameters(), strict=True):
        np.testing.assert_allclose(ours.detach(), theirs.detach(), rtol=1e-5, atol=1e-7)


def test_steps_equal_adam_written_from_the_paper():
    model = network()
    step = make(model)
    theta = step.flat.data.clone().numpy().astype(np.float64)
    first = second = np.zeros_like(theta)
    for i in range(1, 4):
        x, y = data(i)
        step(0.01, x, y)
        gradient = step.flat.grad.numpy().astype(np.float64)
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        theta = theta - 0.01 * (first / (1 - 0.9**i)) / (np.sqrt(second / (1 - 0.999**i)) + 1e-8)
    np.testing.assert_allclose(step.flat.data, theta, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("compiled", COMPILED)
def test_a_non_finite_gradient_changes_no_weight_and_shows_in_the_norm(compiled):
    model = network()
    step = make(model, compiled=compiled)
    x, y = data()
    step(0.01, x, y)
    weights, state = step.flat.data.clone(), step.state_dict()
    result = step(0.01, x, torch.full((7,), float("nan")))
    assert not result[-1].isfinite()
    assert torch.equal(step.flat.data, weights)
    assert torch.equal(step.adam.first_moment, state["first_moment"])
    assert float(step.adam.n_steps) == float(state["n_steps"]) == 1.0


def test_restored_state_continues_bit_for_bit():
    model = network()
    step = make(model)
    for i in range(3):
        step(0.01, *data(i))
    twin_model = copy.deepcopy(model)
    twin = make(twin_model)
    twin.load_state_dict(step.state_dict())
    for i in range(3, 6):
        step(0.01, *data(i))
        twin(0.01, *data(i))
    assert torch.equal(step.flat.data, twin.flat.data)


def test_the_model_sees_every_step_at_once():
    model = network()
    step = make(model)
    before = model[0].weight.detach().clone()
    step(0.1, *data())
    assert not torch.equal(model[0].weight, before)
    assert model[0].weight.data_ptr() == step.flat.data.data_ptr()


@pytest.mark.slow
def test_compiled_steps_with_other_settings_share_no_code():
    """The compiler's cache tells closures apart by guards that are off; each step has code of its own instead."""
    weights = {}
    for max_grad_norm in (0.0, 0.3, 0.0):
        model = network()
        step = make(model, compiled=True, max_grad_norm=max_grad_norm)
        for i in range(3):
            step(0.01, *data(i))
        previous = weights.setdefault(max_grad_norm, step.flat.data.clone())
        assert torch.equal(previous, step.flat.data)
    assert not torch.equal(weights[0.0], weights[0.3])


@pytest.mark.parametrize("compiled", COMPILED)
def test_two_steps_train_two_parts_of_one_model(compiled):
    model = network()
    reference = copy.deepcopy(model)
    first, second = (
        GradientStep(
            model, squared_error, epsilon=1e-8, max_grad_norm=0.0, compiled=compiled, parameters=part.parameters()
        )
        for part in (model[0], model[2])
    )
    of_first, of_second = (torch.optim.Adam(part.parameters(), lr=0.01) for part in (reference[0], reference[2]))
    for i in range(6):
        step, optimizer, other = (first, of_first, second) if i % 2 else (second, of_second, first)
        before = other.flat.data.clone()
        step(0.01, *data(i))
        assert torch.equal(other.flat.data, before)
        reference.zero_grad()
        squared_error(reference, *data(i))[0].backward()
        optimizer.step()
    for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        np.testing.assert_allclose(ours.detach(), theirs.detach(), rtol=1e-4, atol=1e-6)


def many_operations(model, x, y):
    """The loss of `squared_error` after far more operations than are compiled, none of which changes it."""
    for _ in range(4000):
        x = x * 1.0
    return squared_error(model, x, y)


def test_an_update_of_too_many_operations_is_not_compiled_and_says_so_in_one_line():
    eager, bounded = network(), network()
    usual = GradientStep(eager, many_operations, epsilon=1e-8, max_grad_norm=0.3, compiled=False)
    step = GradientStep(bounded, many_operations, epsilon=1e-8, max_grad_norm=0.3, compiled=True)
    assert step.phase() == "compile"
    with pytest.warns(RuntimeWarning, match=r"compile = true: the update has \d+ tensor operations.*eagerly") as caught:
        first = step(0.01, *data(0))
    assert len(caught) == 1
    assert "\n" not in str(caught[0].message)
    assert step.phase() == "update"
    assert torch.equal(first, usual(0.01, *data(0)))
    for i in range(1, 4):
        assert torch.equal(step(0.01, *data(i)), usual(0.01, *data(i)))
    for ours, theirs in zip(bounded.parameters(), eager.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_without_a_compiler_updates_run_eagerly_and_say_so_in_one_line(monkeypatch):
    eager, bounded = network(), network()
    usual = GradientStep(eager, squared_error, epsilon=1e-8, max_grad_norm=0.3, compiled=False)
    monkeypatch.setitem(sys.modules, "torch._dynamo", None)  # as where its cache folder cannot be made
    step = GradientStep(bounded, squared_error, epsilon=1e-8, max_grad_norm=0.3, compiled=True)
    with pytest.warns(RuntimeWarning, match=r"the compiler cannot be loaded: .*eagerly") as caught:
        first = step(0.01, *data(0))
    assert len(caught) == 1
    assert "\n" not in str(caught[0].message)
    assert torch.equal(first, usual(0.01, *data(0)))
    assert torch.equal(step(0.01, *data(1)), usual(0.01, *data(1)))


def test_an_update_that_the_compiler_refuses_is_run_eagerly():
    def refused(model, x, y):
        print("a call that breaks the graph", float(x.sum()))
        return squared_error(model, x, y)

    eager, bounded = network(), network()
    usual = make(eager)
    step = GradientStep(bounded, refused, epsilon=1e-8, max_grad_norm=0.0, compiled=True)
    with pytest.warns(RuntimeWarning, match="compile = true: the compiler failed with"):
        first = step(0.01, *data(0))
    assert torch.equal(first, usual(0.01, *data(0)))
    assert torch.equal(step(0.01, *data(1)), usual(0.01, *data(1)))


def test_counting_operations_changes_neither_random_numbers_nor_buffers():
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layers = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Dropout(), nn.Linear(5, 1))

        def forward(self, x):
            for _ in range(4000):
                x = x * 1.0
            return self.layers(x)

    eager, bounded = Noisy(), Noisy()
    results = []
    for model, compiled in ((eager, False), (bounded, True)):
        step = make(model, compiled=compiled)
        torch.manual_seed(5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.append([step(0.01, *data(i)) for i in range(2)])
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*results, strict=True))
    assert all(torch.equal(*pair) for pair in zip(eager.buffers(), bounded.buffers(), strict=True))


def test_an_error_of_the_loss_is_not_taken_for_one_of_the_compiler():
    def wrong(model, x, y):
        raise ValueError("of the loss")

    with pytest.raises(ValueError, match="of the loss"):
        GradientStep(network(), wrong, epsilon=1e-8, max_grad_norm=0.0, compiled=True)(0.01, *data())


@pytest.mark.slow
def test_a_second_training_in_a_process_is_compiled_for_its_sizes_too(monkeypatch):
    """The compiler takes the sizes of a function that it met with other ones for unknown; these would be two of it."""
    from torch._inductor.custom_graph_pass import CustomGraphPass

    sizes = set()

    class Seen(CustomGraphPass):
        def __call__(self, graph):
            sizes.update(own for node in graph.nodes for own in getattr(node.meta.get("val"), "shape", ()))

        def uuid(self):
            return None  # nothing comes out of the cache on disk

    monkeypatch.setattr(compiled_update, "HAS_VECTORS", True)
    monkeypatch.setattr(compiled_update, "_native_options", lambda **_: {"post_grad_custom_pre_pass": Seen()})
    for n_rows in (7, 19):
        x, y = torch.randn(n_rows, 3), torch.randn(n_rows)
        make(network(), compiled=True)(0.01, x, y)
        assert n_rows in sizes
    assert all(isinstance(own, int) for own in sizes)


@pytest.mark.slow
@pytest.mark.parametrize("built", [True, False])
def test_torch_need_not_try_vectors_that_the_products_were_built_with(built, monkeypatch):
    from maze_runtime.native import products

    monkeypatch.setattr(products, "native_products_shims", lambda: {"a product": "its C++"} if built else {})
    options = compiled_update._native_options(has_filters=False)
    assert options.get("cpp.vec_isa_ok") is (True if built else None)
