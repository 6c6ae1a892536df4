"""Recurrent blocks against loops in NumPy and against nn.LSTM and nn.GRU."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

import maze_blocks_recurrent.plugin
from maze_kernel.config.load import select
from maze_kernel.errors import RequestError
from maze_kernel.loader import Kernel
from maze_perception.block import BlockError
from maze_testing.blocks import check_block, check_compiled_block

KERNEL = Kernel.of(maze_blocks_recurrent.plugin)
NAMES = ["lstm", "gru", "lstm-last-step", "gru-last-step"]
STACKED = {"hidden_size": 3, "num_layers": 2, "bidirectional": True}


def build(name, options, in_shape=(5, 4)):
    return KERNEL.catalog.build(select(KERNEL, "block", {"use": name, **options}), ["history"], ["out"], [in_shape])


def histories(*shape):
    return np.random.default_rng(2).normal(size=shape).astype(np.float32)


def run(block, x):
    with torch.no_grad():
        return block({"history": torch.from_numpy(x)})["out"].numpy()


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def one_direction(cell, x, w_in, w_state, b_in, b_state):
    """(T, D) of one sample to (T, H)."""
    h = c = np.zeros(w_state.shape[1])
    steps = []
    for step in x:
        from_input, from_state = w_in @ step + b_in, w_state @ h + b_state
        if cell == "lstm":
            i, f, g, o = np.split(from_input + from_state, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        else:
            (ri, zi, ni), (rs, zs, ns) = np.split(from_input, 3), np.split(from_state, 3)
            z = sigmoid(zi + zs)
            h = (1 - z) * np.tanh(ni + sigmoid(ri + rs) * ns) + z * h
        steps.append(h)
    return np.array(steps)


def reference(block, x, options):
    """Every step of one sample, and the final state."""
    weights = iter([parameter.detach().numpy().astype(np.float64) for parameter in block.parameters()])
    for _ in range(options.get("num_layers", 1)):
        directions = []
        for direction in range(2 if options.get("bidirectional") else 1):
            w_in, w_state = next(weights), next(weights)
            biases = [next(weights), next(weights)] if options.get("bias", True) else [0.0, 0.0]
            order = slice(None, None, -1 if direction else 1)
            directions.append(one_direction(block.layers.cell, x[order], w_in, w_state, *biases)[order])
        x = np.concatenate(directions, -1)
    return x, np.concatenate([steps[0 if index else -1] for index, steps in enumerate(directions)])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", [{"hidden_size": 3}, {"hidden_size": 3, "bias": False}, STACKED], ids=str)
def test_they_are_the_recurrences_of_the_papers(name, options):
    block, x = build(name, options), histories(6, 5, 4)
    expected = [reference(block, sample, options)[1 if "last" in name else 0] for sample in x]
    np.testing.assert_allclose(run(block, x), expected, atol=1e-5)
    assert block.out_shapes() == (np.shape(expected)[1:],)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", [{"hidden_size": 3}, {"hidden_size": 3, "bias": False}, STACKED], ids=str)
def test_both_ways_of_computing_agree(name, options, monkeypatch):
    block, x = build(name, options), histories(6, 5, 4)
    fused = run(block, x)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    np.testing.assert_allclose(run(block, x), fused, atol=1e-6)


@pytest.mark.parametrize(("name", "module"), [("lstm", nn.LSTM), ("gru", nn.GRU)])
def test_parameters_are_laid_out_as_in_torch(name, module):
    block = build(name, STACKED)
    other = module(4, 3, num_layers=2, bidirectional=True, batch_first=True)
    with torch.no_grad():
        for mine, theirs in zip(block.parameters(), other.parameters(), strict=True):
            mine.copy_(theirs)
        x = histories(6, 5, 4)
        np.testing.assert_allclose(run(block, x), other(torch.from_numpy(x))[0].numpy(), atol=1e-6)


def test_initial_weights_are_as_wide_as_those_of_torch():
    weights = torch.cat([parameter.flatten() for parameter in build("lstm", {"hidden_size": 16}).parameters()])
    assert weights.abs().max() <= 0.25
    assert weights.std().item() == pytest.approx(0.25 / 3**0.5, rel=0.05)


def test_the_past_matters_and_the_future_does_not():
    block, x = build("gru", {"hidden_size": 3}), histories(1, 5, 4)
    other = x.copy()
    other[0, 2] += 1.0
    differs = (np.abs(run(block, x) - run(block, other)) > 1e-7).any(-1)[0]
    assert differs.tolist() == [False, False, True, True, True]


@pytest.mark.parametrize(("name", "options"), list(itertools.product(NAMES, [{"hidden_size": 3}, STACKED])), ids=str)
def test_they_conform(name, options):
    check_block(lambda: build(name, options))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_they_compile(name):
    check_compiled_block(lambda: build(name, STACKED, (3, 4)))


@pytest.mark.parametrize("name", ["lstm", "lstm-last-step"])
def test_vectors_are_no_histories(name):
    with pytest.raises(BlockError, match="'history'") as caught:
        build(name, {}, (4,))
    assert "(4,)" in caught.value.received
    assert "2 dimensions" in caught.value.expected
    assert "lstm" in caught.value.what.lower()


@pytest.mark.parametrize("options", [{"hidden_size": 0}, {"num_layers": 0}])
def test_sizes_of_zero_are_refused(options):
    with pytest.raises(RequestError):
        select(KERNEL, "block", {"use": "gru", **options})


def test_forward_and_backward_trace_as_one_graph():
    check_compiled_block(lambda: build("gru", STACKED, (3, 4)), backend="aot_eager")
