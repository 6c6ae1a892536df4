"""One `[[model.distributions]]` table: which heads get which distribution. Imports neither torch nor gymnasium."""

from __future__ import annotations

from typing import Annotated, Literal

import attrs

from maze_kernel.selection import Selection


@attrs.frozen(kw_only=True)
class DistributionRule:
    """Chooses the distribution of some action heads; where several rules match a head, the last one wins.

    A rule with neither `space` nor `action` matches every head.
    """

    use: Annotated[Selection, "distribution"] = attrs.field(metadata={"inline": ""})
    """Name of the distribution, or "package.module:Class"; its options stand beside it."""
    space: (
        Literal["Discrete", "MultiDiscrete", "MultiBinary", "Box", "BoundedBox", "PartlyBoundedBox", "UnboundedBox"]
        | None
    ) = None
    """Heads of this space; "Box" means all three: bounds on both sides of every number, some bounds, or none."""
    action: str | None = None
    """The head of this name."""

    def matches(self, head: str, word: str) -> bool:
        """Whether the rule speaks of a head whose space has this word."""
        by_space = self.space is None or self.space == word or (self.space == "Box" and word.endswith("Box"))
        return by_space and (self.action is None or self.action == head)
