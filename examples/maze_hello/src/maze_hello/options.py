"""Options of this plugin's components. The text below a field is what `maze describe` shows."""

from __future__ import annotations

import attrs

from maze_kernel.validators import above, all_of, at_least, at_most


@attrs.frozen(kw_only=True)
class ClipOptions:
    """Options of `hello-clip`."""

    limit: float = attrs.field(default=10.0, validator=above(0.0))
    """Largest absolute value an observation may have."""


@attrs.frozen(kw_only=True)
class ResidualOptions:
    """Options of `hello-residual`."""

    hidden_units: int = attrs.field(default=16, validator=at_least(1))
    """Units of the hidden layer."""


@attrs.frozen(kw_only=True)
class SearchOptions:
    """Options of `hello-search`."""

    n_epochs: int = attrs.field(default=20, validator=at_least(0))
    """Generations to search; 0: until another budget, patience or the user stops the run."""
    patience: int = attrs.field(default=0, validator=at_least(0))
    """Stop after so many evaluations without a better one; 0: never."""
    max_env_steps: int = attrs.field(default=0, validator=at_least(0))
    """Stop after the epoch that reaches this number of environment steps; 0: no budget."""
    device: str = "cpu"
    """Where the networks run: "auto", "cpu", "cuda" or "cuda:1"."""
    compile: bool = False
    """Every trainer has this option; this one has no update to compile and ignores it."""
    population: int = attrs.field(default=24, validator=at_least(2))
    """Candidates a generation."""
    elite_fraction: float = attrs.field(default=0.25, validator=all_of(above(0.0), at_most(1.0)))
    """Best part of the candidates, from which the next generation is drawn."""
    initial_stddev: float = attrs.field(default=0.5, validator=above(0.0))
    """Standard deviation of every weight in the first generation."""
    extra_stddev: float = attrs.field(default=0.05, validator=at_least(0.0))
    """Added to the standard deviation of the elite, so that the search goes on."""
