"""What the gradient steps of an actor-critic return, by name, and means over the steps of an epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
from torch import Tensor

from maze_kernel.contracts.model import ActorCritic


@attrs.frozen
class StepStatistics:
    """The columns of (n, S) statistics of n gradient steps: of the loss, then of the gradient.

    Attributes:
        of_loss: what the loss reports of all decisions.
        further: what it reports behind that. Where a step had no decision of a policy key, that key's columns are NaN.
        norms: of the gradient, and of its parts.
    """

    of_loss: tuple[str, ...]
    further: tuple[str, ...]
    norms: tuple[str, ...]

    def are_finite(self, statistics: Tensor) -> bool:
        """Whether everything is finite in (..., S) statistics that has to be."""
        finite, first = statistics.isfinite(), len(self.of_loss)
        finite[..., first : first + len(self.further)] = True
        return bool(finite.all())

    def means(self, statistics: Tensor) -> dict[str, float]:
        """Means over (n, S) steps by name; of a policy key over the steps that had decisions of it, if any had."""
        names = (*self.of_loss, *self.further, *self.norms)
        n_loss, first_norm = len(self.of_loss), len(self.of_loss) + len(self.further)
        # How torch adds up a column depends on how many stand beside it: the last digits of these are always the same
        usual = [*range(n_loss), first_norm]
        other = [i for i in range(len(names)) if i not in usual]
        means = {names[i]: mean for i, mean in zip(usual, statistics[:, usual].mean(dim=0).tolist(), strict=True)}
        means |= {names[i]: mean for i, mean in zip(other, statistics[:, other].nanmean(dim=0).tolist(), strict=True)}
        return {name: means[name] for name in names if not math.isnan(means[name])}


def names_by_key(names: Sequence[str], model: ActorCritic) -> tuple[str, ...]:
    """ "name/key", key by key, for a model of several policy keys; nothing for one."""
    keys = tuple(model.distributions)
    return tuple(f"{name}/{key}" for key in keys for name in names) if len(keys) > 1 else ()
