"""What this plugin provides: wrappers that record, the policy `replay`, datasets, and commands for those of Minari."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import CommandComponent, DatasetComponent, PolicyComponent, WrapperComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_wrappers() -> Iterable[WrapperComponent]:
    """Wrappers that record episodes."""
    yield WrapperComponent(
        name="trajectory-recording",
        target="maze_trajectories.recording_wrappers:TrajectoryRecording",
        options="maze_trajectories.options:TrajectoryRecordingOptions",
        summary="Records whole episodes as data.",
    )
    yield WrapperComponent(
        name="action-recording",
        target="maze_trajectories.recording_wrappers:ActionRecording",
        options="maze_trajectories.options:ActionRecordingOptions",
        summary="Records the actions of episodes, for replays.",
    )


@hookimpl
def maze_datasets() -> Iterable[DatasetComponent]:
    """Recordings, and the datasets of another library."""
    yield DatasetComponent(
        name="trajectories",
        target="maze_trajectories.source:open_recordings",
        options="maze_trajectories.options:TrajectoriesOptions",
        summary="Episodes recorded with maze rollout --record; what a table without use means.",
        default=True,
    )
    yield DatasetComponent(
        name="minari",
        target="maze_trajectories.minari_fit:open_minari",
        options="maze_trajectories.options:MinariOptions",
        summary="A Minari dataset of this machine, in the spaces of the environment.",
    )


@hookimpl
def maze_policies() -> Iterable[PolicyComponent]:
    """The policy `replay`."""
    yield PolicyComponent(
        name="replay",
        target="maze_trajectories.replay:ReplayPolicy",
        options="maze_trajectories.options:ReplayOptions",
        summary="Takes the actions of recorded episodes again, by the seed of the episode.",
    )


@hookimpl
def maze_commands() -> Iterable[CommandComponent]:
    """Between recordings and the datasets of another library."""
    yield CommandComponent(
        name="to-minari",
        target="maze_trajectories.commands:to_minari",
        summary="Export recorded episodes of a flat environment to a Minari dataset.",
    )
    yield CommandComponent(
        name="from-minari",
        target="maze_trajectories.commands:from_minari",
        summary="Import a Minari dataset of this machine as a recording.",
    )
