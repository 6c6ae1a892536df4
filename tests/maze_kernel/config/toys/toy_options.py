"""Options classes of the toy plugin: one field of every type that experiments can hold."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import attrs
from attrs import validators

from maze_kernel.config import inside_run_dir
from maze_kernel.selection import Selection


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@attrs.frozen(kw_only=True)
class Schedule:
    """A value that changes over the budget."""

    start: float = attrs.field(validator=validators.gt(0))
    """Value at the beginning."""
    end: float = attrs.field(default=0.0, validator=validators.ge(0))
    """Value at the end of the budget."""
    shape: Literal["linear", "cosine"] = "linear"
    """How it goes from one to the other."""


@attrs.frozen(kw_only=True)
class GridOptions:
    """A grid world.

    Source: Sutton and Barto 2018, example 3.5.
    """

    size: int = attrs.field(default=5, validator=validators.ge(2))
    """Cells along one side."""
    goal: tuple[int, int] = (0, 0)
    """Row and column of the goal."""
    slippery: bool = False
    """Whether moves go astray."""
    title: str = "grid"
    """Shown when it is drawn."""
    extra: Mapping[str, Any] = attrs.field(factory=dict)
    """Handed to the simulation as it stands."""


@attrs.frozen(kw_only=True)
class ScaleOptions:
    n: float = 1.0
    """Factor."""
    keys: tuple[str, ...] | None = None
    """Observations to scale; absent: all."""


@attrs.frozen(kw_only=True)
class CommonOptions:
    n_epochs: int = attrs.field(default=0, validator=validators.ge(0))
    """Epochs; 0: until stopped."""
    device: str = "cpu"
    """"auto", "cpu" or "cuda"."""


@attrs.frozen(kw_only=True)
class ToyTrainerOptions(CommonOptions):
    """Learns nothing."""

    lr: float | Schedule = attrs.field(default=2.5e-4)
    """Learning rate: a number, or a schedule over the budget."""
    gamma: float = attrs.field(default=0.98, validator=[validators.ge(0), validators.le(1)])
    """Discount a step."""
    clip_range: float | None = attrs.field(default=None, validator=validators.optional(validators.gt(0)))
    """Width of the trust region; absent: none."""
    colour: Colour = Colour.RED
    """Paint."""
    tags: list[str] = attrs.field(factory=list)
    """Free words."""
    weights: dict[str, float] = attrs.field(factory=dict)
    """Weight of each loss."""
    bound: float = attrs.field(default=1.0, metadata={"finite": False})
    """May be infinite."""
    folder: str = attrs.field(default="toy", validator=inside_run_dir)
    """Where it writes."""
    low: int = 0
    """Must be below `high`."""
    high: int = attrs.field(default=10)
    """Must be above `low`."""

    @high.validator
    def _above_low(self, attribute: Any, value: int) -> None:
        if value <= self.low:
            raise ValueError(f"high = {value} must be above low = {self.low}")


@attrs.frozen(kw_only=True)
class VectorModeOptions:
    n_processes: int = attrs.field(default=2, validator=attrs.validators.ge(1))
    """Processes; each holds several environments."""


@attrs.frozen(kw_only=True)
class DenseOptions:
    hidden_units: tuple[int, ...] = (64, 64)
    """Units of each layer."""
    non_lin: Literal["relu", "tanh"] = "relu"
    """Activation."""


@attrs.frozen(kw_only=True)
class HeadOptions:
    space: str
    """The space it serves."""
    distribution: Annotated[Selection, "distribution"]
    """What it draws from."""


@attrs.frozen(kw_only=True)
class NetOptions:
    blocks: dict[str, Annotated[Selection, "block"]] = attrs.field(factory=dict)
    """One block an observation."""
    critic: Annotated[Selection, "block"] | None = None
    """Block of the critic; absent: a dense one."""
    heads: tuple[HeadOptions, ...] = ()
    """Action heads, later ones more specific."""
