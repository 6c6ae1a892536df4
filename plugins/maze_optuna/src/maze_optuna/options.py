"""Options of the searcher `optuna`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from maze_kernel.validators import at_least, matches, optional

_SAMPLERS: Mapping[str, tuple[str, ...]] = {
    "n_startup_trials": ("tpe", "gp", "cma-es"),
    "population_size": ("cma-es", "nsga2"),
}
_PRUNERS: Mapping[str, tuple[str, ...]] = {
    "n_unpruned_trials": ("median",),
    "n_warmup_steps": ("median",),
    "reduction_factor": ("successive-halving", "hyperband"),
    "min_resource": ("successive-halving", "hyperband"),
}


@attrs.frozen(kw_only=True)
class OptunaOptions:
    """The `[searcher]` table of the searcher `optuna`."""

    sampler: Literal["tpe", "gp", "cma-es", "qmc", "nsga2", "random"] = "tpe"
    """What chooses the settings: "tpe", tree-structured Parzen estimators, for every space; "gp", a Gaussian process, for few trials; "cma-es", for numbers; "qmc", a Sobol sequence that covers the space evenly; "nsga2", a genetic algorithm; "random"."""  # noqa: E501
    n_startup_trials: int | None = attrs.field(default=None, validator=optional(at_least(0)))
    """Finished trials, drawn at random, before the sampler learns from them, of tpe, gp and cma-es; none: 10, of cma-es 1."""  # noqa: E501
    population_size: int | None = attrs.field(default=None, validator=optional(at_least(2)))
    """Trials of a generation, of cma-es and nsga2; none: of cma-es 4 + 3 ln n for n numbers, of nsga2 20."""
    pruner: Literal["none", "median", "successive-halving", "hyperband"] = "none"
    """Which trials are given up before their end: "none"; "median", worse than half of the finished ones after as many steps, environment steps or, of a trainer that takes none, epochs; "successive-halving", only the best part goes on at each of a few numbers of steps; "hyperband", successive halving that begins at different numbers of steps."""  # noqa: E501
    n_unpruned_trials: int | None = attrs.field(default=None, validator=optional(at_least(1)))
    """Trials that must be finished before pruner median gives one up; none: 5."""
    n_warmup_steps: int | None = attrs.field(default=None, validator=optional(at_least(0)))
    """Steps of a trial before pruner median gives it up; none: 0."""
    reduction_factor: int | None = attrs.field(default=None, validator=optional(at_least(2)))
    """One trial in so many goes on, of pruners successive-halving and hyperband; none: 3."""
    min_resource: int | None = attrs.field(default=None, validator=optional(at_least(1)))
    """Steps after which the same pruners decide for the first time; none: a hundredth of those of the first finished trial."""  # noqa: E501
    storage: str = attrs.field(default="sqlite", validator=matches(r"sqlite|journal|[a-z0-9+]+://.*"))
    """Where the study is kept: "sqlite", study.db in the folder of the sweep; "journal", study.journal there, for network file systems; or the URL of a database, e.g. "postgresql://sweeps@host/optuna", without its password."""  # noqa: E501

    def __attrs_post_init__(self) -> None:
        for uses, kind, chosen in ((_SAMPLERS, "sampler", self.sampler), (_PRUNERS, "pruner", self.pruner)):
            for option, users in uses.items():
                if getattr(self, option) is not None and chosen not in users:
                    raise ValueError(f"{option} is for {kind} {' and '.join(users)}, not for {chosen}")
