"""One recurrent layer over a sequence as one operation with a gradient of its own (Werbos 1990).

Written out, every step of a sequence is a dozen operations and their gradients: eagerly they take longer than their
arithmetic, and for the compiler they take minutes. On the CPU it is written in NumPy (`sequence_arrays`) and, for
compiled updates, in C++ (`sequence_native`). Elsewhere the steps are written in torch; there the gates of all steps
are computed at once from the states on the way back, and then gradients go back step by step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from maze_blocks_recurrent import sequence_arrays as arrays
from maze_blocks_recurrent.sequence_layers import Advanced, Layer, WayBack
from maze_blocks_recurrent.sequence_native import native_steps
from maze_blocks_recurrent.sequence_replay import Replay


def lstm_step(gates: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    """(B, 4 H) gates and (B, H) memory to the next state and memory."""
    i, f, g, o = gates.chunk(4, -1)
    # c' = σ(f) c + σ(i) tanh(g)
    memory = torch.sigmoid(f) * memory + torch.sigmoid(i) * torch.tanh(g)
    # h' = σ(o) tanh(c')
    return torch.sigmoid(o) * torch.tanh(memory), memory


def gru_step(from_input: Tensor, from_state: Tensor, state: Tensor) -> Tensor:
    """(B, 3 H) contributions of input and state, and (B, H) state, to the next state."""
    r_in, z_in, n_in = from_input.chunk(3, -1)
    r_state, z_state, n_state = from_state.chunk(3, -1)
    z = torch.sigmoid(z_in + z_state)
    # n = tanh(W x + r (U h))
    n = torch.tanh(n_in + torch.sigmoid(r_in + r_state) * n_state)
    # h' = (1 - z) n + z h
    return (1.0 - z) * n + z * state


def advance_steps(gates: Tensor, state: Tensor, keep: Tensor, weight: Tensor, bias: Tensor | None, cell: str) -> Tensor:
    """The states after each step.

    Args:
        gates: (T, B, G) what the inputs contribute.
        state: (B, S) before the first step: h, and of an LSTM then c.
        keep: (T, B, 1) zero where the state is forgotten before the step, else one.
        weight: (G, H) of h.
        bias: (G,) beside it, or None.
        cell: "lstm" or "gru".

    Returns:
        (T, B, S).
    """
    steps, n_hidden = [], weight.shape[1]
    for t in range(gates.shape[0]):
        state = state * keep[t]
        hidden = state[:, :n_hidden]
        recurrent = torch.nn.functional.linear(hidden, weight, bias)
        if cell == "lstm":
            state = torch.cat(lstm_step(gates[t] + recurrent, state[:, n_hidden:]), -1)
        else:
            state = gru_step(gates[t], recurrent, hidden)
        steps.append(state)
    return torch.stack(steps)


def advance_as_one(
    gates: Tensor,
    state: Tensor,
    keep: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    cell: str,
    *,
    native: bool = False,
) -> Tensor:
    """`advance_steps` as one operation with a gradient of its own; `native`: in C++, if there is a compiler."""
    given = weight.new_zeros(weight.shape[0]) if bias is None else bias
    states: Tensor
    if not native and _is_plain(gates) and _steps_on_arrays(gates, native=False) is not None:
        states = Replay.apply(gates, state, keep, weight, given, cell)  # type: ignore[no-untyped-call]
        return states
    states, _ = _Advance.apply(gates, state, keep, weight, given, cell, native)  # type: ignore[no-untyped-call]
    return states


def _is_plain(tensor: Tensor) -> bool:
    """Neither traced nor transformed: numbers that NumPy may read."""
    if torch.compiler.is_compiling() or type(tensor) is not Tensor:
        return False
    return not torch._C._are_functorch_transforms_active()


class _Advance(torch.autograd.Function):
    """For the compiler and function transforms; these ask for `setup_context`."""

    @staticmethod
    def forward(
        gates: Tensor, state: Tensor, keep: Tensor, weight: Tensor, bias: Tensor, cell: str, native: bool
    ) -> tuple[Tensor, Tensor]:
        states, kept = _forward(gates, state, keep, weight, bias, cell, native)
        return states, kept

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor]) -> None:
        *tensors, ctx.cell, ctx.native = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*tensors, *output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _of_kept: Tensor) -> Any:
        # There is no second derivative; without `detach` the operation would be asked for one.
        tensors = [tensor.detach() for tensor in (grad, *ctx.saved_tensors)]
        in_gates, in_state, in_weight, in_bias = _backward(*tensors, ctx.cell, ctx.native)
        return in_gates, in_state, None, in_weight, in_bias, None, None


@torch.library.custom_op("maze_blocks_recurrent::advance", mutates_args=())
def _forward(
    gates: Tensor, state: Tensor, keep: Tensor, weight: Tensor, bias: Tensor, cell: str, native: bool
) -> tuple[Tensor, Tensor]:
    """The states after each step, and what the pass backward reads beside them: on arrays the gates, else nothing."""
    steps = _steps_on_arrays(gates, native=native)
    if steps is None:
        return advance_steps(gates, state, keep, weight, bias, cell), gates.new_empty(0)
    layer = Layer(*(tensor.detach().numpy() for tensor in (gates, state, weight, bias)))
    states, kept = steps.advance(cell, layer, keep.detach().numpy())
    return torch.from_numpy(states), torch.from_numpy(kept)


@_forward.register_fake
def _(
    gates: Tensor, state: Tensor, _keep: Tensor, weight: Tensor, _bias: Tensor, cell: str, native: bool
) -> tuple[Tensor, Tensor]:
    states, steps = gates.new_empty((gates.shape[0], *state.shape)), _steps_on_arrays(gates, native=native)
    kept = (0,) if steps is None else steps.kept_shape(cell, *gates.shape[:2], weight.shape[1])
    return states, gates.new_empty(kept)


@torch.library.custom_op("maze_blocks_recurrent::advance_backward", mutates_args=())
def _backward(
    grad: Tensor,
    gates: Tensor,
    state: Tensor,
    keep: Tensor,
    weight: Tensor,
    bias: Tensor,
    states: Tensor,
    kept: Tensor,
    cell: str,
    native: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of gates, first state, weight and bias from those (T, B, S) of the states."""
    steps = _steps_on_arrays(gates, native=native)
    if steps is not None:
        forward = Advanced(states.numpy(), kept.numpy())
        layer = WayBack(grad.numpy(), state.numpy(), weight.numpy(), forward)
        found = steps.advance_gradients(cell, layer, keep.numpy())
        return tuple(torch.from_numpy(array) for array in found)  # type: ignore[return-value]
    before = torch.cat([state[None], states[:-1]]) * keep
    hidden = before[..., : weight.shape[1]]
    recurrent = torch.nn.functional.linear(hidden, weight, bias)
    back = _lstm_back if cell == "lstm" else _gru_back
    in_gates, in_recurrent, in_state = back(grad, gates, recurrent, before, states, keep, weight)
    rows = in_recurrent.flatten(0, 1)
    return in_gates, in_state, rows.t() @ hidden.flatten(0, 1), rows.sum(0)


@_backward.register_fake
def _(
    _grad: Tensor, gates: Tensor, state: Tensor, _keep: Tensor, weight: Tensor, bias: Tensor, *_others: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return torch.empty_like(gates), torch.empty_like(state), torch.empty_like(weight), torch.empty_like(bias)


def _steps_on_arrays(gates: Tensor, *, native: bool) -> Any:
    """Whoever takes the steps (T, B, G) on arrays: `NativeSteps`, the module `sequence_arrays`, or None: torch does."""
    if gates.device.type != "cpu" or gates.dtype != torch.float32:
        return None
    compiled = native_steps() if native else None
    if compiled is not None:
        return compiled
    return arrays if gates.shape[1] * gates.shape[2] <= arrays.LARGEST_STEP else None


def _gru_back(
    grad: Tensor, gates: Tensor, recurrent: Tensor, before: Tensor, _states: Tensor, keep: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    r_in, z_in, n_in = gates.chunk(3, -1)
    r_state, z_state, n_state = recurrent.chunk(3, -1)
    r, z = torch.sigmoid(r_in + r_state), torch.sigmoid(z_in + z_state)
    n = torch.tanh(n_in + r * n_state)
    # per unit of ∂h': of z's, n's and r's arguments, and of U h in n
    of_z = (before - n) * z * (1.0 - z)
    of_n = (1.0 - z) * (1.0 - n * n)
    of_r = of_n * n_state * r * (1.0 - r)
    in_gates, in_recurrent = torch.empty_like(gates), torch.empty_like(recurrent)
    carried = torch.zeros_like(grad[0])
    for t in range(len(grad) - 1, -1, -1):
        # ∂h_t = ∂L/∂h_t + what comes back from step t + 1
        one = grad[t] + carried
        in_gates[t] = torch.cat([one * of_r[t], one * of_z[t], one * of_n[t]], -1)
        in_recurrent[t] = torch.cat([one * of_r[t], one * of_z[t], one * of_n[t] * r[t]], -1)
        carried = (one * z[t] + in_recurrent[t] @ weight) * keep[t]
    return in_gates, in_recurrent, carried


def _lstm_back(
    grad: Tensor, gates: Tensor, recurrent: Tensor, before: Tensor, states: Tensor, keep: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    n_hidden = weight.shape[1]
    i, f, g, o = (gates + recurrent).chunk(4, -1)
    i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
    memory = torch.tanh(states[..., n_hidden:])
    # per unit of ∂c': of i's, f's and g's arguments; per unit of ∂h': of o's argument and of c'
    of_i, of_f, of_g = g * i * (1.0 - i), before[..., n_hidden:] * f * (1.0 - f), i * (1.0 - g * g)
    of_o, of_memory = memory * o * (1.0 - o), o * (1.0 - memory * memory)
    in_gates = torch.empty_like(gates)
    carried = torch.zeros_like(grad[0])
    for t in range(len(grad) - 1, -1, -1):
        in_hidden, in_memory = (grad[t] + carried).chunk(2, -1)
        in_memory = in_memory + in_hidden * of_memory[t]
        parts = [in_memory * of_i[t], in_memory * of_f[t], in_memory * of_g[t], in_hidden * of_o[t]]
        in_gates[t] = torch.cat(parts, -1)
        carried = torch.cat([in_gates[t] @ weight, in_memory * f[t]], -1) * keep[t]
    return in_gates, in_gates.clone(), carried
