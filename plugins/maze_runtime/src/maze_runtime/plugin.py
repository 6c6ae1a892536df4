"""What this plugin provides: commands that train and play, the pool `inline`, vector modes, callbacks, `random`."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import (
    CallbackComponent,
    CommandComponent,
    PolicyComponent,
    VectorComponent,
    WorkersComponent,
)

MAZE_PLUGIN_API = 1


@hookimpl
def maze_commands() -> Iterable[CommandComponent]:
    """Commands that train, play, show runs, and check environments."""
    yield CommandComponent(
        name="check-env",
        target="maze_runtime.commands.check_env:check_env",
        summary="Build the environment of an experiment with its wrappers, and play it at random.",
    )
    yield CommandComponent(
        name="train",
        target="maze_runtime.commands.train:train",
        summary="Train an experiment, or continue a run.",
    )
    yield CommandComponent(
        name="rollout",
        target="maze_runtime.commands.rollout:rollout",
        summary="Play episodes with a trained policy or another one.",
    )
    yield CommandComponent(
        name="new",
        target="maze_runtime.commands.new:new",
        summary="Write a commented experiment file that fits an environment.",
    )
    yield CommandComponent(
        name="list-presets",
        target="maze_runtime.commands.presets:list_presets",
        summary="List the tables that an experiment can be built on.",
    )
    yield CommandComponent(
        name="show",
        target="maze_runtime.commands.show:show",
        summary="Show what a run is, where it came from and its checkpoints.",
    )


@hookimpl
def maze_workers() -> Iterable[WorkersComponent]:
    """The pool `inline`."""
    yield WorkersComponent(
        name="inline",
        target="maze_runtime.workers.inline:InlinePool",
        options="maze_runtime.workers.options:WorkersOptions",
        summary="Runs actors in this process, one after the other.",
    )


@hookimpl
def maze_vectors() -> Iterable[VectorComponent]:
    """The modes that step in the process that builds them, and the one that lets the pool collect."""
    yield VectorComponent(
        name="native",
        target="maze_runtime.rollout.vector_modes:native_batch",
        summary="The environment's own vectorised form; refused where it has none.",
        for_evaluation=True,
    )
    yield VectorComponent(
        name="sequential",
        target="maze_runtime.rollout.vector_modes:sequential_batch",
        summary="One environment after the other, in this process.",
    )
    yield VectorComponent(
        name="workers",
        target="maze_runtime.rollout.pooled_batch:pooled_batch",
        options="maze_runtime.rollout.vector_options:PooledVectorOptions",
        summary="Divided among the workers of the experiment's pool, which collect whole rollouts.",
        in_process=False,
        only_collects=True,
    )


@hookimpl
def maze_policies() -> Iterable[PolicyComponent]:
    """The policy `random`."""
    yield PolicyComponent(
        name="random",
        target="maze_runtime.rollout.random_policy:RandomPolicy",
        summary="Samples every action uniformly from its space; respects action masks.",
    )


@hookimpl
def maze_callbacks() -> Iterable[CallbackComponent]:
    """`stop-at` and `reduce-on-plateau`."""
    yield CallbackComponent(
        name="stop-at",
        target="maze_runtime.training.stop_at:StopAt",
        options="maze_runtime.training.callback_options:StopAtOptions",
        summary="Ends a run at a value of one of its statistics, such as the reward or a KPI.",
    )
    yield CallbackComponent(
        name="reduce-on-plateau",
        target="maze_runtime.training.reduce_on_plateau:ReduceOnPlateau",
        options="maze_runtime.training.callback_options:ReduceOnPlateauOptions",
        summary="Lowers the learning rate, or another schedule, where evaluations get no better.",
    )
