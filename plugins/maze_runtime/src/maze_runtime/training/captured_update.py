"""Updates on a GPU, started as a whole instead of kernel by kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from maze_runtime.models.captured_calls import CapturedCalls
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.same_operations import FixedOperations
from maze_runtime.training.bounded_compilation import BoundedCompilation

Update = Callable[..., Tensor]
N_PLAIN = 10
"""Updates come by the thousand, and one that is captured saves a millisecond."""


def captured_update(
    update: Update,
    networks: Sequence[nn.Module],
    flats: Sequence[FlatParameters],
    compilation: BoundedCompilation | None,
    *,
    recorded: bool,
) -> Update:
    """The same update; on a GPU it is captured as a CUDA graph where it runs the same operations at every call.

    Compiled code does. Eager code does where `recorded` says so of the loss and the networks are marked to do so.

    Args:
        update: of tensors and plain values, in nested dicts, tuples and lists; writes to what `flats` hold.
        networks: that the loss reads.
        flats: all parameters that are trained.
        compilation: of the update, if it is compiled.
        recorded: the loss runs the same operations at every call, by networks that do.
    """
    device = flats[0].data.device
    if device.type != "cuda":
        return update
    operations = FixedOperations(networks, [own for flat in flats for own in flat.parameters])

    def is_fixed() -> bool:
        if compilation is not None and not compilation.is_eager:
            return True
        return recorded and operations.are_fixed()

    calls = CapturedCalls(update, device, is_fixed, n_plain=N_PLAIN, what="the update")

    def run(*inputs: Any) -> Tensor:
        numbers: Tensor = calls(*inputs)
        return numbers.clone()  # the next update overwrites them

    return run
