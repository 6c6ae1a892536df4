"""A recurrent layer as one operation: values and gradients are those of the steps written out."""

from functools import partial

import pytest
import torch
from torch.func import grad_and_value

from maze_blocks_recurrent import sequence_arrays, sequence_op
from maze_blocks_recurrent.layers import RecurrentLayers
from maze_blocks_recurrent.sequence_native import native_steps
from maze_blocks_recurrent.sequence_op import advance_as_one, advance_steps
from maze_kernel.errors import MazeWarning

N_GATES, N_STATES = {"lstm": 4, "gru": 3}, {"lstm": 2, "gru": 1}


TOLERANCES = {torch.float64: {"atol": 1e-12, "rtol": 1e-10}, torch.float32: {"atol": 2e-5, "rtol": 1e-4}}
"""Float32 is computed in NumPy on the CPU, everything else in torch."""


def arguments(cell, n_steps, *, with_bias=True, n_sequences=3, n_hidden=5, dtype=torch.float64):
    generator = torch.Generator().manual_seed(n_steps)

    def drawn(*shape):
        return torch.randn(*shape, generator=generator, dtype=dtype)

    rows = N_GATES[cell] * n_hidden
    keep = (torch.rand(n_steps, n_sequences, 1, generator=generator) > 0.3).to(dtype)
    gates, state = drawn(n_steps, n_sequences, rows), drawn(n_sequences, N_STATES[cell] * n_hidden)
    return gates, state, keep, drawn(rows, n_hidden), drawn(rows) if with_bias else None


def require_compiler():
    if native_steps() is None:
        pytest.skip("no C++ compiler")


@pytest.mark.parametrize(("dtype", "native"), [(torch.float64, False), (torch.float32, False), (torch.float32, True)])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize(("n_steps", "n_sequences", "n_hidden"), [(1, 3, 5), (2, 3, 5), (9, 1, 32), (40, 6, 41)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_values_and_gradients_are_those_of_the_steps(cell, n_steps, n_sequences, n_hidden, with_bias, dtype, native):
    if native:
        require_compiler()
    found = []
    sizes = {"n_sequences": n_sequences, "n_hidden": n_hidden, "dtype": dtype}
    for advance in (advance_steps, partial(advance_as_one, native=native)):
        given = arguments(cell, n_steps, with_bias=with_bias, **sizes)
        leaves = [tensor.requires_grad_() for i, tensor in enumerate(given) if tensor is not None and i != 2]
        states = advance(*given, cell)
        weights = torch.linspace(-1.0, 2.0, states.numel(), dtype=dtype).view(states.shape)
        (states * weights + states**2).sum().backward()
        found.append([states.detach(), *(leaf.grad for leaf in leaves)])
    for plain, one in zip(*found, strict=True):
        scale = plain.abs().max().clamp(min=1.0)
        torch.testing.assert_close(one / scale, plain / scale, **TOLERANCES[dtype])


@pytest.mark.parametrize("others_end", [False, True])
@pytest.mark.parametrize("share_of_ends", [0.0, 0.1, 0.7])
@pytest.mark.parametrize(("n_steps", "n_sequences", "n_hidden"), [(2, 1, 5), (30, 2, 64), (60, 3, 41)])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_two_layers_side_by_side_are_each_alone_bit_for_bit(
    cell, n_steps, n_sequences, n_hidden, share_of_ends, others_end
):
    """Also where the second one's episodes end at other steps, so that they are taken one behind the other."""
    torch.manual_seed(3)
    rows, operations = N_GATES[cell] * n_hidden, torch.ops.maze_blocks_recurrent
    keep = (torch.rand(n_steps, n_sequences, 1) >= share_of_ends).float()
    layers = [
        [
            torch.randn(n_steps, n_sequences, rows),
            torch.randn(n_sequences, N_STATES[cell] * n_hidden),
            keep if k == 0 or not others_end else keep.flip(0),
            torch.randn(rows, n_hidden) / n_hidden**0.5,
            torch.randn(rows),
        ]
        for k in range(2)
    ]
    alone = [operations.replay(*layer, cell) for layer in layers]
    together = operations.replay_two(*layers, cell)
    assert all(map(torch.equal, [own for one in alone for own in one], together))
    back = [[torch.randn_like(given[0]), *layer[1:4], *given] for layer, given in zip(layers, alone, strict=True)]
    alone = [operations.replay_back(*layer, cell) for layer in back]
    assert all(map(torch.equal, [own for one in alone for own in one], operations.replay_two_back(*back, cell)))


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_the_gradient_agrees_with_differences(cell):
    gates, state, keep, weight, bias = arguments(cell, 3, n_sequences=2, n_hidden=2)
    leaves = [tensor.requires_grad_() for tensor in (gates, state, weight, bias)]
    assert torch.autograd.gradcheck(lambda g, s, w, b: advance_as_one(g, s, keep, w, b, cell), leaves)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_function_transforms_see_through_it(cell):
    """The compiled update differentiates by `torch.func`."""
    gates, state, keep, weight, bias = arguments(cell, 4)

    def loss(advance):
        return grad_and_value(lambda w: (advance(gates, state, keep, w, bias, cell) ** 2).sum())

    (plain, value), (one, same) = loss(advance_steps)(weight), loss(advance_as_one)(weight)
    torch.testing.assert_close(one, plain, atol=1e-12, rtol=1e-10)
    torch.testing.assert_close(same, value)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_traced_code_gives_the_same(cell, native):
    """As in a compiled update: differentiated by `torch.func` within one graph."""
    if native:
        require_compiler()
    gates, state, keep, weight, bias = arguments(cell, 30, dtype=torch.float32)

    def update(gates, state, *parameters):
        def loss(parameters):
            factor, weight, bias = parameters
            return (advance_as_one(gates * factor, state, keep, weight, bias, cell, native=native) ** 2).mean()

        gradients, value = grad_and_value(loss)(parameters)
        return *gradients, value

    torch.compiler.reset()
    traced = torch.compile(update, fullgraph=True, backend="aot_eager")
    given = gates, state, torch.ones(gates.shape[-1]), weight, bias
    for one, plain in zip(traced(*given), update(*given), strict=True):
        torch.testing.assert_close(one, plain, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_extreme_numbers_saturate_and_nan_arrives(cell, native):
    if native:
        require_compiler()
    gates, state, keep, weight, bias = arguments(cell, 6, n_hidden=32, dtype=torch.float32)
    gates *= 1e4
    expected = advance_steps(gates, state, keep, weight, bias, cell)
    torch.testing.assert_close(advance_as_one(gates, state, keep, weight, bias, cell, native=native), expected)
    gates[2, 1, 3] = float("nan")
    found = advance_as_one(gates, state, keep, weight, bias, cell, native=native)
    assert bool(found[2, 1].isnan().any())
    assert bool(found[:2].isfinite().all())


def test_without_a_compiler_sequences_run_in_numpy(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler-for-sequences")
    with pytest.warns(MazeWarning, match="no-such-compiler-for-sequences"):
        assert native_steps.__wrapped__() is None
    monkeypatch.setattr(sequence_op, "native_steps", lambda: None)
    given = arguments("gru", 4, dtype=torch.float32)
    plain, native = (advance_as_one(*given, "gru", native=native) for native in (False, True))
    assert torch.equal(plain, native)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_steps_that_are_too_large_for_numpy_give_the_same(cell, monkeypatch):
    layers = RecurrentLayers(cell, 4, 6, 2, bidirectional=False, bias=True)
    x, state = torch.randn(7, 3, 4), torch.randn(3, layers.state_size)
    begins = (torch.rand(7, 3) < 0.3).float()
    gradients = []
    for largest in (sequence_arrays.LARGEST_STEP, 0):
        monkeypatch.setattr(sequence_arrays, "LARGEST_STEP", largest)
        layers.zero_grad()
        outputs, states = layers.advance(x, state, begins)
        (outputs.sum() + (states**2).sum()).backward()
        gradients.append([outputs.detach(), states.detach(), *(weight.grad.clone() for weight in layers.weights)])
    for plain, one in zip(*gradients, strict=True):
        torch.testing.assert_close(one, plain, atol=1e-5, rtol=1e-4)


def test_what_was_handed_in_is_not_changed():
    given = arguments("gru", 5, dtype=torch.float32)
    copies = [tensor.clone() for tensor in given]
    advance_as_one(*[tensor.requires_grad_() for tensor in given], "gru").sum().backward()
    assert all(torch.equal(tensor, copy) for tensor, copy in zip(given, copies, strict=True))


def test_weights_that_change_before_the_way_back_are_an_error():
    gates, state, keep, weight, bias = arguments("lstm", 5, dtype=torch.float32)
    weight.requires_grad_()
    states = advance_as_one(gates, state, keep, weight, bias, "lstm")
    with torch.no_grad():
        weight.mul_(2.0)
    with pytest.raises(RuntimeError, match="inplace operation"):
        states.sum().backward()
