"""Stateful recurrence against torch's fused cells, one step at a time, with states and episode ends."""

import numpy as np
import pytest
import torch
from torch import nn

import maze_blocks_recurrent.plugin
from maze_kernel.config.load import select
from maze_kernel.errors import ExperimentError
from maze_kernel.loader import Kernel
from maze_perception.block import BlockError
from maze_runtime.models.recurrence import BEGINS
from maze_testing.blocks import check_block

KERNEL = Kernel.of(maze_blocks_recurrent.plugin)
T, B, D, H, LAYERS = 6, 3, 4, 5, 2


def build(name, in_shape=(D,), **options):
    table = {"use": name, "hidden_size": H, "num_layers": LAYERS, "stateful": True, **options}
    return KERNEL.catalog.build(select(KERNEL, "block", table), ["x"], ["out"], [in_shape])


def reference(block, x, state, begins):
    """nn.LSTM or nn.GRU with the block's weights, one step and one sequence at a time."""
    is_lstm = block.layers.cell == "lstm"
    cell = (nn.LSTM if is_lstm else nn.GRU)(D, H, LAYERS)
    with torch.no_grad():
        for own, other in zip(cell.parameters(), block.layers.weights, strict=True):
            own.copy_(other)
    outputs, states = np.zeros((T, B, H)), np.zeros((T, B, state.shape[1]))
    for b in range(B):
        current = state[b].clone()
        for t in range(T):
            if begins[t, b]:
                current.zero_()
            layers = current.view(LAYERS, -1)
            before = (layers[:, :H].contiguous(), layers[:, H:].contiguous()) if is_lstm else layers.contiguous()
            output, after = cell(x[t, b][None], before)
            current = torch.cat(after, -1).reshape(-1) if is_lstm else after.reshape(-1)
            outputs[t, b], states[t, b] = output[0].detach(), current.detach()
    return outputs, states


def inputs_of(block, x, state, begins):
    (x_key, state_key, begins_key) = block.in_keys
    return {x_key: x.reshape(-1, D), state_key: state, begins_key: begins.reshape(-1)}


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_a_sequence_with_resets_equals_torch_step_by_step(name):
    torch.manual_seed(0)
    block = build(name)
    x, state = torch.randn(T, B, D), torch.randn(B, block.layers.state_size)
    begins = torch.zeros(T, B)
    begins[0, 1] = begins[3, 0] = begins[3, 1] = begins[5, 2] = 1.0
    out, after = block(inputs_of(block, x, state, begins)).values()
    outputs, states = reference(block, x, state, begins)
    np.testing.assert_allclose(out.detach().view(T, B, H), outputs, atol=1e-6)
    np.testing.assert_allclose(after.detach().view(T, B, -1), states, atol=1e-6)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_single_steps_give_what_the_sequence_gives(name):
    torch.manual_seed(1)
    block = build(name, bias=False)
    x, state, begins = torch.randn(T, B, D), torch.randn(B, block.layers.state_size), torch.zeros(T, B)
    begins[2] = 1.0
    whole, _ = block(inputs_of(block, x, state, begins)).values()
    for t in range(T):
        out, state = block(inputs_of(block, x[t], state, begins[t])).values()
        torch.testing.assert_close(out, whole.view(T, B, H)[t])


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_the_numpy_form_takes_the_same_step(name, bias):
    torch.manual_seed(2)
    block = build(name, bias=bias)
    x, state, begins = torch.randn(B, D), torch.randn(B, block.layers.state_size), torch.tensor([0.0, 1.0, 0.0])
    inputs = inputs_of(block, x, state, begins)
    arrays = {key: tensor.numpy().copy() for key, tensor in inputs.items()}
    found = block.make_mirror()(arrays)
    for key, expected in block(inputs).items():
        np.testing.assert_allclose(found[key], expected.detach(), atol=1e-6)
    assert all(np.array_equal(arrays[key], tensor) for key, tensor in inputs.items())
    check_block(lambda: build(name, bias=bias))


def test_gradients_reach_every_parameter_and_stop_at_an_episode_end():
    block = build("gru", num_layers=1)
    x, state, begins = torch.randn(T, B, D, requires_grad=True), torch.zeros(B, H), torch.zeros(T, B)
    begins[3, 0] = 1.0
    out, _ = block(inputs_of(block, x, state, begins)).values()
    out.view(T, B, H)[-1].sum().backward()
    assert (x.grad[:3, 0] == 0).all()
    assert (x.grad[:3, 1] != 0).any()
    assert all((parameter.grad != 0).any() for parameter in block.parameters())


def test_keys_and_shapes_tell_the_state():
    block = build("lstm", num_layers=1)
    assert block.in_keys == ("x", "state/out", BEGINS)
    assert block.in_shapes == ((D,), (2 * H,), ())
    assert block.out_keys == ("out", "next_state/out")
    assert block.out_shapes() == ((H,), (2 * H,))


def test_what_cannot_be_carried_is_refused():
    with pytest.raises(ExperimentError, match="bidirectional"):
        build("gru", bidirectional=True)
    with pytest.raises(BlockError, match="one vector a step") as caught:
        build("gru", in_shape=(7, D))
    assert "(7, 4)" in caught.value.received
    with pytest.raises(BlockError, match="stacked history") as caught:
        build("gru", stateful=False)
    assert "stateful = true" in caught.value.help
    for name in ("gru-last-step", "lstm-last-step"):
        with pytest.raises(ExperimentError, match="stateful"):
            select(KERNEL, "block", {"use": name, "stateful": True})
