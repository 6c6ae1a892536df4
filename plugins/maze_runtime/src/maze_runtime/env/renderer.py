"""The contract of renderers: pictures of recorded or running episodes, drawn from states alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from maze_kernel.contracts.events import EventRecord


@attrs.frozen(kw_only=True)
class IntRange:
    """An argument of a renderer: a whole number from `low` to `high`, both included; viewers show a slider."""

    low: int
    high: int
    default: int


@attrs.frozen(kw_only=True)
class ChoiceArgument:
    """An argument of a renderer: one of some texts; viewers show a menu. The first one is the default."""

    options: tuple[str, ...]


class Renderer(ABC):
    """Draws one step. It reads nothing but its arguments, so recorded episodes look like running ones."""

    @abstractmethod
    def render(
        self, maze_state: Any, maze_action: Any | None, events: Sequence[EventRecord], **arguments: Any
    ) -> np.ndarray:
        """One picture.

        Args:
            maze_state: the state in which the action was taken.
            maze_action: the action; None where none has been taken yet.
            events: what the step fired.
            arguments: values for `arguments()`.

        Returns:
            (H, W, 3) uint8.
        """

    def arguments(self) -> Mapping[str, IntRange | ChoiceArgument]:
        """What a viewer may let its user choose, by name."""
        return {}
