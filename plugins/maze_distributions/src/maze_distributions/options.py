"""Options of the distributions."""

from __future__ import annotations

from typing import Literal

import attrs

from maze_kernel.validators import one_of


@attrs.frozen(kw_only=True)
class GaussianOptions:
    """Options of `diagonal-gaussian`, `squashed-gaussian` and `partly-squashed-gaussian`."""

    ALIASES = {"log_std_init": "initial_log_std", "initial_std": "initial_log_std"}  # noqa: RUF012 - read as a constant

    std_from: Literal["auto", "parameter", "observation"] = attrs.field(
        default="auto", validator=one_of(("auto", "parameter", "observation"))
    )
    """What gives the standard deviations: "parameter" (one learnt number a dimension), "observation" (the network, anew for each observation), or "auto": the network where the trainer values actions, as SAC does, and numbers elsewhere."""  # noqa: E501
    initial_log_std: float = attrs.field(default=0.0)
    """Logarithm of the standard deviation where its logit is 0, as before training: it is added to the logit, and lies between the clamps, for beyond them nothing is learnt. Small actions at first suit robots."""  # noqa: E501
    min_log_std: float = attrs.field(default=-20.0)
    """Lower clamp of the logarithm of the standard deviation."""
    max_log_std: float = attrs.field(default=2.0)
    """Upper clamp of the logarithm of the standard deviation."""

    @initial_log_std.validator
    def _between(self, _attribute: object, value: float) -> None:
        if value and self.min_log_std < self.max_log_std:
            self._require_learnt()

    @min_log_std.validator
    @max_log_std.validator
    def _in_order(self, _attribute: object, _value: float) -> None:
        if self.max_log_std <= self.min_log_std:
            raise ValueError(f"max_log_std {self.max_log_std} is not greater than min_log_std {self.min_log_std}")
        self._require_learnt()

    def _require_learnt(self) -> None:
        low, value, high = self.min_log_std, self.initial_log_std, self.max_log_std
        if not low <= value <= high:
            raise ValueError(
                f"initial_log_std {value} is not between min_log_std {low} and max_log_std {high}: beyond them nothing "
                f"is learnt; give it, too, for example initial_log_std = {min(max(value, low), high)}"
            )

    def constant_logits(self, size: int, values_actions: bool) -> int:
        """How many of the 2 · `size` logits read no observation: the second half, or none."""
        by_observation = values_actions if self.std_from == "auto" else self.std_from == "observation"
        return 0 if by_observation else size
