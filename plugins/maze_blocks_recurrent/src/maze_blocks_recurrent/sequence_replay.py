"""A recurrent layer over a sequence on arrays, for gradients that are taken plainly and for those that are recorded.

A recording runs the layers of actor and critic side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode

from maze_blocks_recurrent import sequence_arrays as arrays
from maze_blocks_recurrent.sequence_layers import Advanced, Layer, WayBack
from maze_runtime.models.two_at_once import two_at_once


class Replay(torch.autograd.Function):
    """For updates that are not compiled: without the calls that make an operation known to torch, unless it records."""

    @staticmethod
    def forward(
        ctx: Any, gates: Tensor, state: Tensor, keep: Tensor, weight: Tensor, bias: Tensor, cell: str
    ) -> Tensor:
        ctx.cell, ctx.is_recorded = cell, _get_current_dispatch_mode() is not None
        run = _replay if ctx.is_recorded else _replay_on_arrays
        states, folded, kept = run(gates, state, keep, weight.detach(), bias, cell)
        ctx.save_for_backward(state, keep, weight, states, folded, kept)
        return states

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        run = _replay_back if ctx.is_recorded else _replay_back_on_arrays
        state, keep, weight, states, folded, kept = (own.detach() for own in ctx.saved_tensors)
        in_gates, in_state, in_weight, in_bias = run(grad, state, keep, weight, states, folded, kept, ctx.cell)
        return in_gates, in_state, None, in_weight, in_bias, None


def _replay_on_arrays(
    gates: Tensor, state: Tensor, keep: Tensor, weight: Tensor, bias: Tensor, cell: str
) -> tuple[Tensor, Tensor, Tensor]:
    states, folded, kept = _run(cell, [(gates, state, keep, weight, bias)])
    return states, folded, kept


def _replay_back_on_arrays(
    grad: Tensor, state: Tensor, keep: Tensor, weight: Tensor, states: Tensor, folded: Tensor, kept: Tensor, cell: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    in_gates, in_state, in_weight, in_bias = _run_back(cell, [(grad, state, keep, weight, states, folded, kept)])
    return in_gates, in_state, in_weight, in_bias


def _run(cell: str, layers: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """Gates, state, keep, weight and bias of layers with one `keep`, to what each `Replayed` has."""
    given = [
        Layer(gates.numpy(), state.numpy(), weight.numpy(), bias.numpy()) for gates, state, _, weight, bias in layers
    ]
    return [torch.from_numpy(own) for found in arrays.replay(cell, given, layers[0][2].numpy()) for own in found]


def _run_back(cell: str, layers: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """Gradient, state, keep, weight, states, folded and kept of layers, likewise, to what each `Gradients` has."""
    given = []
    for grad, state, _, weight, states, folded, kept in layers:
        forward = Advanced((folded if folded.numel() else states).numpy(), kept.numpy())
        given.append(WayBack(grad.numpy(), state.numpy(), weight.numpy(), forward))
    found = arrays.replay_gradients(cell, given, layers[0][2].numpy())
    return [torch.from_numpy(own) for one in found for own in one]


# The same as operations that a recording of the gradient writes down. Defined piece by piece, for `custom_op` brings in
# the compiler, 65 MiB of it, with the first call.
torch.library.define(
    "maze_blocks_recurrent::replay",
    "(Tensor gates, Tensor state, Tensor keep, Tensor weight, Tensor bias, str cell) -> (Tensor, Tensor, Tensor)",
)
torch.library.impl("maze_blocks_recurrent::replay", "CPU", _replay_on_arrays)
_replay = torch.ops.maze_blocks_recurrent.replay.default
torch.library.define(
    "maze_blocks_recurrent::replay_back",
    "(Tensor grad, Tensor state, Tensor keep, Tensor weight, Tensor states, Tensor folded, Tensor kept, str cell)"
    " -> (Tensor, Tensor, Tensor, Tensor)",
)
torch.library.impl("maze_blocks_recurrent::replay_back", "CPU", _replay_back_on_arrays)
_replay_back = torch.ops.maze_blocks_recurrent.replay_back.default


def _replay_two(first: Sequence[Tensor], second: Sequence[Tensor], cell: str) -> list[Tensor]:
    """`replay` of two layers; side by side where their episodes begin at the same steps, as actor's and critic's do."""
    if not torch.equal(first[2], second[2]):
        return _run(cell, [first]) + _run(cell, [second])
    return _run(cell, [first, second])


def _replay_two_back(first: Sequence[Tensor], second: Sequence[Tensor], cell: str) -> list[Tensor]:
    """`replay_back` of two layers, likewise."""
    if not torch.equal(first[2], second[2]):
        return _run_back(cell, [first]) + _run_back(cell, [second])
    return _run_back(cell, [first, second])


for _name, _of_two, _of_one in (
    ("replay_two", _replay_two, _replay),
    ("replay_two_back", _replay_two_back, _replay_back),
):
    torch.library.define(f"maze_blocks_recurrent::{_name}", "(Tensor[] first, Tensor[] second, str cell) -> Tensor[]")
    torch.library.impl(f"maze_blocks_recurrent::{_name}", "CPU", _of_two)
    two_at_once(_of_one, getattr(torch.ops.maze_blocks_recurrent, _name).default)
