"""What this distribution gives to Maze; the entry point in pyproject.toml names this module."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import (
    CommandComponent,
    DatasetComponent,
    ModelComponent,
    TrainerComponent,
    VectorComponent,
    WorkersComponent,
)

MAZE_PLUGIN_API = 1


@hookimpl
def maze_commands() -> Iterable[CommandComponent]:
    """The command `acme-rewards`."""
    yield CommandComponent(
        name="acme-rewards",
        target="maze_acme.commands:rewards",
        summary="Sum up the rewards in the statistics of a run.",
    )


@hookimpl
def maze_vectors() -> Iterable[VectorComponent]:
    """The mode `acme-threads`."""
    yield VectorComponent(
        name="acme-threads",
        target="maze_acme.threaded_vector:threaded_batch",
        options="maze_acme.options:ThreadsOptions",
        summary="Steps groups of environments in threads.",
    )


@hookimpl
def maze_datasets() -> Iterable[DatasetComponent]:
    """The dataset `acme-csv`."""
    yield DatasetComponent(
        name="acme-csv",
        target="maze_acme.csv_episodes:open_table",
        options="maze_acme.options:CsvEpisodesOptions",
        summary="Episodes of a flat environment from a table of comma-separated values.",
    )


@hookimpl
def maze_workers() -> Iterable[WorkersComponent]:
    """The pool `acme-pipes`."""
    yield WorkersComponent(
        name="acme-pipes",
        target="maze_acme.pipe_pool:PipePool",
        options="maze_acme.options:PipesOptions",
        summary="Runs each actor in a process that shares no memory with its caller.",
    )


@hookimpl
def maze_models() -> Iterable[ModelComponent]:
    """The model `acme-q-network`."""
    yield ModelComponent(
        name="acme-q-network",
        target="maze_acme.q_network:QNetwork",
        options="maze_acme.options:QNetworkOptions",
        summary="Values of the actions of one Discrete head; acts epsilon-greedily.",
    )


@hookimpl
def maze_trainers() -> Iterable[TrainerComponent]:
    """The trainer `acme-q-learning`."""
    yield TrainerComponent(
        name="acme-q-learning",
        target="maze_acme.q_learning:QLearning",
        options="maze_acme.options:QLearningOptions",
        summary="Q-learning that explores epsilon-greedily.",
        critic="none",
    )
