"""Says when training goes astray while all its numbers are still finite: once a cause, with what to try next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

LARGEST_KL = 0.5
"""Mean KL divergence between the policy before and after an update, in nats. Updates that learn stay below 0.1."""

LARGEST_NORM = 1e6
"""Mean norm of the gradient before it is cut."""

LARGEST_GROWTH = 1e3
"""Of the norm, over the median of the epochs before."""


class DivergenceWatch:
    """Looks at the statistics of every epoch, for the trainers that report these.

    Args:
        warn: takes a line for the user.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._norms: dict[str, list[float]] = {}
        self._warned: set[str] = set()

    def see(self, epoch: int, statistics: Mapping[str, Any]) -> None:
        """Take the training statistics of an epoch."""
        for tag, value in statistics.items():
            group, _, name = tag.rpartition("/")
            if name == "approx_kl" and value > LARGEST_KL:
                self._say(
                    "kl",
                    f"in epoch {epoch} updates changed the policy by a KL divergence of {value:.3g} (sane: below"
                    f" {LARGEST_KL:g}); what it had learnt may be lost: lower trainer.lr, or end passes early with"
                    " trainer.target_kl where the trainer has it",
                )
            elif name.endswith(("grad_norm", "gradient_norm")):
                if name != "grad_norm" and f"{group}/grad_norm" in statistics:
                    continue  # a part of that one; small parts may grow a thousandfold where the whole does not
                self._see_norm(epoch, tag, float(value))

    def _see_norm(self, epoch: int, tag: str, norm: float) -> None:
        before = self._norms.setdefault(tag, [])
        usual = median(before) if before else norm
        if norm > LARGEST_NORM or norm > LARGEST_GROWTH * usual > 0.0:
            self._say(
                "norm",
                f"in epoch {epoch} the gradient norm {tag} is {norm:.3g}, and was {usual:.3g} as a rule; training may"
                " diverge: look for rewards that grow without bound and scale them (return-normalization), clip"
                " gradients (trainer.max_grad_norm), or lower trainer.lr",
            )
        before.append(norm)

    def _say(self, cause: str, text: str) -> None:
        if cause not in self._warned:
            self._warned.add(cause)
            self._warn(f"warning: {text}")
