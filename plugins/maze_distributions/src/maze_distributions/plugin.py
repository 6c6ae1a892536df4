"""What this distribution gives to Maze: the distributions over action heads."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import DistributionComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_distributions() -> Iterable[DistributionComponent]:
    """One distribution a kind of space, and the alternatives for boxes."""
    yield DistributionComponent(
        name="categorical",
        target="maze_distributions.categorical:Categorical",
        default_for=("Discrete",),
        spaces=("Discrete",),
        summary="One choice of n.",
    )
    yield DistributionComponent(
        name="multi-categorical",
        target="maze_distributions.categorical:MultiCategorical",
        default_for=("MultiDiscrete",),
        spaces=("MultiDiscrete",),
        summary="Independent choices, one a dimension.",
    )
    yield DistributionComponent(
        name="bernoulli",
        target="maze_distributions.bernoulli:Bernoulli",
        default_for=("MultiBinary",),
        spaces=("MultiBinary",),
        summary="Independent yes or no, one a dimension.",
    )
    yield DistributionComponent(
        name="diagonal-gaussian",
        target="maze_distributions.gaussian:DiagonalGaussian",
        options="maze_distributions.options:GaussianOptions",
        default_for=("UnboundedBox",),
        spaces=("UnboundedBox", "PartlyBoundedBox", "BoundedBox"),
        summary="Independent normal distributions; samples are not clipped to the bounds.",
    )
    yield DistributionComponent(
        name="squashed-gaussian",
        target="maze_distributions.squashed_gaussian:SquashedGaussian",
        options="maze_distributions.options:GaussianOptions",
        default_for=("BoundedBox",),
        spaces=("BoundedBox",),
        summary="A normal distribution pressed into the bounds by tanh.",
    )
    yield DistributionComponent(
        name="partly-squashed-gaussian",
        target="maze_distributions.partly_squashed_gaussian:PartlySquashedGaussian",
        options="maze_distributions.options:GaussianOptions",
        default_for=("PartlyBoundedBox",),
        spaces=("PartlyBoundedBox",),
        summary="Normal distributions, each pressed into the bounds it has: by tanh, by softplus, or not at all.",
    )
    yield DistributionComponent(
        name="beta",
        target="maze_distributions.beta:Beta",
        spaces=("BoundedBox",),
        summary="A unimodal beta distribution stretched over the bounds.",
    )
