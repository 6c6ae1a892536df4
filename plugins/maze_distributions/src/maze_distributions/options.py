"""Options of the distributions."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class GaussianOptions:
    """Options of `diagonal-gaussian` and `squashed-gaussian`."""

    min_log_std: float = -20.0
    """Lower clamp of the logarithm of the standard deviation."""
    max_log_std: float = attrs.field(default=2.0)
    """Upper clamp of the logarithm of the standard deviation."""

    @max_log_std.validator
    def _above_minimum(self, _attribute: object, value: float) -> None:
        if value <= self.min_log_std:
            raise ValueError(f"max_log_std {value} is not greater than min_log_std {self.min_log_std}")
