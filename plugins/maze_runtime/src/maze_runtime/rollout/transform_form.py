"""Whether what a transform makes of ticks fits the spaces that it announces: looked at while its batch is new."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.transform import Transform
from maze_kernel.contracts.vector import ArrayDict, Tick, VectorEnv
from maze_runtime.env.batch_form import BatchForm
from maze_runtime.env.blame import class_of

_TRANSFORMS = "Transform in maze_kernel.contracts.transform; maze_testing.transforms.check_transform tests it"
_N_STEPS = 3
_N_ENDS = 2


class TransformForm:
    """Looks at the first ticks outside of a transform, and at the first in which episodes end.

    What the transform changes must have the shapes and dtypes of its spaces and be finite: whoever reads it later
    would be blamed for it.

    Args:
        outer: the batch inside the transform.
        transform: is named in messages.

    Attributes:
        is_done: nothing is looked at any more.
    """

    def __init__(self, outer: VectorEnv, transform: Transform) -> None:
        name = class_of(transform)
        self._form = BatchForm(outer, name, whose=f"wrapper {name}", contract=_TRANSFORMS)
        self._steps_left, self._ends_left = _N_STEPS, _N_ENDS
        self.is_done = False

    def look_always(self) -> None:
        """Look at every tick from now on."""
        self._steps_left = -1

    def reset(self, reset: Callable[[Sequence[Sequence[int]]], Tick], seeds: Sequence[Sequence[int]]) -> Tick:
        """The tick of a reset."""
        return self._seen(reset(seeds), "reset")

    def step(
        self, step: Callable[[Mapping[PolicyKey, ArrayDict]], Tick], actions: Mapping[PolicyKey, ArrayDict]
    ) -> Tick:
        """The tick of a step."""
        tick = step(actions)
        if self._steps_left:
            self._steps_left -= 1
            return self._seen(tick)
        if tick.final_observation:
            self._ends_left -= 1
            self.is_done = self._ends_left == 0
            return self._seen(tick)
        return tick

    def _seen(self, tick: Tick, phase: str = "step") -> Tick:
        self._form.examine(tick, phase)
        self._form.require_finite(tick)
        return tick
