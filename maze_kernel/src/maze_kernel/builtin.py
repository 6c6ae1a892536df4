"""The kernel's own plugin, registered like any other: commands, worker pools, policies that learn nothing."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel.components import (
    CommandComponent,
    DatasetComponent,
    LoggerComponent,
    PolicyComponent,
    VectorComponent,
    WorkersComponent,
    WrapperComponent,
)
from maze_kernel.hookspecs import hookimpl

MAZE_PLUGIN_API = 1


@hookimpl
def maze_workers() -> Iterable[WorkersComponent]:
    """The pools that need nothing but the standard library."""
    yield WorkersComponent(
        name="inline",
        target="maze_kernel.workers.inline:InlinePool",
        options="maze_kernel.workers.options:WorkersOptions",
        summary="Runs actors in this process, one after the other.",
    )
    yield WorkersComponent(
        name="subprocess",
        target="maze_kernel.workers.subprocess:SubprocessPool",
        options="maze_kernel.workers.options:WorkersOptions",
        summary="Runs each actor in a process of its own on this machine, with shared memory.",
        default=True,
    )


@hookimpl
def maze_loggers() -> Iterable[LoggerComponent]:
    """The pictures of networks."""
    yield LoggerComponent(
        name="drawing",
        target="maze_kernel.run.drawing_logger:DrawingLogger",
        options="maze_kernel.run.drawing_options:DrawingOptions",
        summary="A picture of every network that is trained, as SVG.",
        default=True,
    )


@hookimpl
def maze_vectors() -> Iterable[VectorComponent]:
    """What needs no other library."""
    yield VectorComponent(
        name="native",
        target="maze_kernel.rollout.vector_modes:native_batch",
        summary="The environment's own vectorised form; refused where it has none.",
        for_evaluation=True,
    )
    yield VectorComponent(
        name="sequential",
        target="maze_kernel.rollout.vector_modes:sequential_batch",
        summary="One environment after the other, in this process.",
    )
    yield VectorComponent(
        name="subprocess",
        target="maze_kernel.rollout.subprocess_mode:subprocess_batch",
        options="maze_kernel.rollout.vector_options:SubprocessVectorOptions",
        summary="Several environments in each of several processes.",
        in_process=False,
    )


@hookimpl
def maze_policies() -> Iterable[PolicyComponent]:
    """Policies that learn nothing."""
    yield PolicyComponent(
        name="random",
        target="maze_kernel.rollout.random_policy:RandomPolicy",
        summary="Samples every action uniformly from its space; respects action masks.",
    )
    yield PolicyComponent(
        name="replay",
        target="maze_kernel.trajectories.replay:ReplayPolicy",
        options="maze_kernel.trajectories.options:ReplayOptions",
        summary="Takes the actions of recorded episodes again, by the seed of the episode.",
    )


@hookimpl
def maze_commands() -> Iterable[CommandComponent]:
    """The commands of the command line."""
    for name, target, summary in (
        ("check", "experiments:check", "Check an experiment file and show every problem."),
        ("describe", "components:describe", "Describe a component and its options, or the networks of an experiment."),
        ("list-plugins", "plugins:list_plugins", "List the installed plugins and what they offer."),
        ("new-plugin", "plugins:new_plugin", "Start a plugin of your own from the example."),
        ("schema", "experiments:schema", "Print the JSON Schema of experiments, for editors."),
        ("train", "train:train", "Train an experiment, or continue a run."),
        ("rollout", "rollout:rollout", "Play episodes with a trained policy or another one."),
        ("show", "show:show", "Show what a run is, where it came from and its checkpoints."),
        ("view", "view:view", "Show recorded episodes as a page for browsers."),
        ("to-minari", "datasets:to_minari", "Export recorded episodes of a flat environment to a Minari dataset."),
        ("from-minari", "datasets:from_minari", "Import a Minari dataset of this machine as a recording."),
        ("networks", "networks:networks", "Show the networks that an experiment would train, as Mermaid text."),
        ("export", "export:export", "Write the policy of a run as a file that acts without Maze."),
    ):
        yield CommandComponent(name=name, target=f"maze_kernel.cli.{target}", summary=summary)


@hookimpl
def maze_wrappers() -> Iterable[WrapperComponent]:
    """Wrappers that record episodes."""
    yield WrapperComponent(
        name="trajectory-recording",
        target="maze_kernel.trajectories.recording_wrappers:TrajectoryRecording",
        options="maze_kernel.trajectories.options:TrajectoryRecordingOptions",
        summary="Records whole episodes as data.",
    )
    yield WrapperComponent(
        name="action-recording",
        target="maze_kernel.trajectories.recording_wrappers:ActionRecording",
        options="maze_kernel.trajectories.options:ActionRecordingOptions",
        summary="Records the actions of episodes, for replays.",
    )


@hookimpl
def maze_datasets() -> Iterable[DatasetComponent]:
    """Recordings, and the datasets of another library."""
    yield DatasetComponent(
        name="trajectories",
        target="maze_kernel.trajectories.source:open_recordings",
        options="maze_kernel.trajectories.options:TrajectoriesOptions",
        summary="Episodes recorded with maze rollout --record; what a table without use means.",
        default=True,
    )
    yield DatasetComponent(
        name="minari",
        target="maze_kernel.trajectories.minari_fit:open_minari",
        options="maze_kernel.trajectories.options:MinariOptions",
        summary="A Minari dataset of this machine, in the spaces of the environment.",
    )
