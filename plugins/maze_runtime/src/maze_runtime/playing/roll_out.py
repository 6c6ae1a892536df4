"""Episodes of an experiment: `roll_out` plays them on the worker pool, `replay` plays recorded ones again.

What `maze rollout` and `RunContext.rollout` call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from maze_kernel.config.load import select
from maze_kernel.errors import MazeError, RequestError
from maze_kernel.validators import at_least, optional
from maze_runtime.datasets.contract import DatasetContext
from maze_runtime.env.seeding import SeedTree
from maze_runtime.events.log_files import write_event_files
from maze_runtime.playing import players as playing
from maze_runtime.playing.recorder import make_recorder, select_installed
from maze_runtime.rollout.runner import EpisodePlayer, play_episodes, summarize, summarize_events, summarize_seconds
from maze_runtime.run.assembly import Assembly
from maze_runtime.run.evaluators import EvaluationSide, experiment_of
from maze_runtime.run.loud_exit import loud_exit
from maze_runtime.run.writable import require_writable
from maze_runtime.workers.inline import InlinePool
from maze_runtime.workers.options import WorkersOptions
from maze_runtime.workers.shared_files import require_shared_files

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.contracts.model import Policy
    from maze_kernel.contracts.workers import WorkerPool
    from maze_kernel.loader import Kernel
    from maze_runtime.datasets.contract import EpisodeInfo
    from maze_runtime.rollout.episodes import EpisodeResult
    from maze_runtime.training.checkpoint import Checkpoint

PLAY_HERE = "let this process play: --workers 1"
_ELSEWHERE = {
    "films": "name another folder: --video DIR",
    "recordings": "record into another folder: --record-to DIR",
    "events": "see to its permissions, or copy the run to a folder of your own and roll out the copy",
}
"""What is written, and what to do where that is not possible."""


@attrs.frozen(kw_only=True)
class RolloutOptions:
    """How episodes are played."""

    n_episodes: int = attrs.field(default=10, validator=at_least(1))
    """Episodes to play."""
    seed: int = attrs.field(default=0, validator=at_least(0))
    """The seeds of all episodes follow from it."""
    deterministic: bool = True
    """Take the mode of each distribution instead of sampling."""
    max_steps: int | None = attrs.field(default=None, validator=optional(at_least(1)))
    """Cut episodes after so many steps, or rounds of games whose agents are paid each for itself."""
    n_workers: int | None = None
    """Workers of the experiment's pool, or of the default one, that play at the same time; 1: this process plays; None: the experiment's `[workers]`, or this process."""  # noqa: E501
    render: bool = False
    """Show the episodes in a window."""
    video_dir: Path | None = None
    """Write a film of each episode here."""
    record_dir: Path | None = None
    """Record the episodes into this new folder: arrays, and of Maze environments states, actions and events."""
    events_dir: Path | None = None
    """Write every event of the episodes here, one CSV file an event."""
    profile: bool = False
    """Measure where the time goes: policy, simulation, conversions, each wrapper."""
    evaluator: str | None = None
    """Play in the environment of this evaluator, "evaluation" or one of `[evaluation.evaluators]`; None: in that of training."""  # noqa: E501


@attrs.frozen(kw_only=True)
class RolloutResult:
    """Episodes and their statistics.

    Attributes:
        episodes: in the order of their seeds; one that failed has an `error`.
        summary: counts, and mean, std, min, max, median, iqm of "reward" and "length".
        events: event statistics and KPIs over the episodes that ended, by tag as in training, e.g.
            "BaseEnvEvents/kpi/mean/<name>"; numbers, and arrays where training draws figures.
        profile: share of the time by section, the largest first; empty where it was not measured.
    """

    episodes: Sequence[EpisodeResult]
    summary: Mapping[str, Any]
    events: Mapping[str, Any] = attrs.field(factory=dict)
    profile: Mapping[str, float] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class ReplayResult(RolloutResult):
    """What came of recorded actions.

    Attributes:
        different_seeds: of the episodes whose reward or length differs from the recorded one.
        n_left_out: episodes that were not played: see `replay`.
    """

    different_seeds: Sequence[int] = ()
    n_left_out: int = 0


@loud_exit()
def roll_out(
    loaded: LoadedExperiment,
    kernel: Kernel,
    options: RolloutOptions,
    *,
    checkpoint: Checkpoint | None = None,
    policy: Any = "random",
    seeds: Sequence[int] | None = None,
    run_dir: Path | None = None,
    on_result: Callable[[EpisodeResult], None] = lambda _result: None,
    report: Callable[[str], None] = lambda _text: None,
) -> RolloutResult:
    """Play episodes of an experiment with the weights of a checkpoint, or with a policy that needs no training.

    Args:
        checkpoint: of a run of this experiment; None: `policy` plays.
        policy: name, options table or import path of a policy component; read without a checkpoint.
        seeds: one an episode; None: those that follow from `options.seed`.
        run_dir: wrappers that write files do so below it; None: below the current directory.
        on_result: called after each episode.
        report: told what is estimated before the first one.

    Raises:
        RequestError: the folder to record into is not empty, a folder cannot be written to, a wrapper does not fit the
            environment or the checkpoint, the policy does not fit the environment, files are to be written by workers
            that do not share those of this machine, or the evaluator is not there or does not fit.
        MazeError: the events could not be written.
        CheckpointError: the checkpoint is of another model than the experiment's.
        PluginError: the wrapper that records is not installed.
    """
    if seeds is None:
        seeds = SeedTree(options.seed).seeds(options.n_episodes, "rollout")
    options, place = _wherever_a_simulation_goes(options), (run_dir or Path()).absolute()
    folders = {"films": options.video_dir, "recordings": options.record_dir, "events": options.events_dir}
    for what, folder in folders.items():
        if folder is not None:
            require_writable(folder, what, help=_ELSEWHERE[what])
    assembly, side = Assembly(loaded, kernel), None
    if options.evaluator is not None:
        side = EvaluationSide(assembly, options.evaluator)
        assembly = side.assembly
    played = assembly.loaded
    with _pool(assembly, options) as pool:
        for what, folder in folders.items():
            if folder is not None and what != "events":  # which this process writes
                require_shared_files(pool, f"{what} of episodes are files", PLAY_HERE)
        assembly.check(pool)
    drawn = played  # policies and probes look at environments that draw nothing: a window is closed by any of them
    if options.render or options.video_dir is not None:
        drawn = playing.with_drawing(played, kernel, "rgb_array" if options.video_dir is not None else "human")
    player_name, make_policy = _who_plays(loaded if checkpoint is not None else played, kernel, checkpoint, policy)
    states: Sequence[Mapping[str, Any]] | None = None
    if checkpoint is not None:  # one of another model or of other wrappers is refused here, and not by every episode
        make_policy(options.seed)
        states = checkpoint.transforms if side is None else side.states_after(checkpoint.transforms)
        assembly.load_transform_states(states)
    recorder = None
    if options.record_dir is not None:
        recorder = make_recorder(played, kernel, options.record_dir, player_name, seeds)
    if states is None:
        states = assembly.estimated_states(report)
    player = EpisodePlayer(
        make_env=playing.PlayingEnv(drawn, kernel, states, recorder, place, _watch(options)),
        make_policy=make_policy,
        deterministic=options.deterministic,
        max_steps=options.max_steps,
        video_dir=options.video_dir,
        event_rows=options.events_dir is not None,
        profile=options.profile,
    )
    with _pool(assembly, options) as pool:
        episodes = play_episodes(pool, player, seeds, on_result=on_result)
    if options.events_dir is not None:
        _write_events(options.events_dir, episodes)
    return RolloutResult(
        episodes=episodes,
        summary=summarize(episodes),
        events=summarize_events(episodes),
        profile=summarize_seconds(episodes),
    )


def _write_events(folder: Path, episodes: Sequence[EpisodeResult]) -> None:
    try:
        write_event_files(folder, [(episode.seed, episode.event_rows or ()) for episode in episodes])
    except OSError as error:
        raise MazeError(
            f"the events of {len(episodes)} episodes could not be written: {error}",
            received=str(folder),
            help="see to the disk and play them again: the seeds, and so the episodes, are the same",
        ) from error


def _wherever_a_simulation_goes(options: RolloutOptions) -> RolloutOptions:
    """The same folders by absolute paths: environments may change the working directory."""
    folders = {name: getattr(options, name) for name in ("video_dir", "record_dir", "events_dir")}
    return attrs.evolve(options, **{name: path and path.absolute() for name, path in folders.items()})


def _watch(options: RolloutOptions) -> playing.Watch:
    return playing.Watch(
        max_steps=options.max_steps,
        log_steps=options.events_dir is not None,
        film=options.video_dir is not None,
        show=options.render,
    )


def _who_plays(
    loaded: LoadedExperiment, kernel: Kernel, checkpoint: Checkpoint | None, policy: Any
) -> tuple[str, Callable[[int], Policy]]:
    """A name for recordings, and what makes the policy from its seed."""
    if checkpoint is None:
        selection = select(kernel, "policy", policy)
        return selection.use, playing.ComponentPolicy(loaded, kernel, selection)
    name = f"epoch {checkpoint.epoch} of {loaded.experiment.name}"
    return name, playing.TrainedPolicy(loaded, kernel, playing.weights_of(checkpoint))


def replay(
    loaded: LoadedExperiment,
    kernel: Kernel,
    recording: Path,
    options: RolloutOptions,
    *,
    run_dir: Path | None = None,
    on_result: Callable[[EpisodeResult], None] = lambda _result: None,
) -> ReplayResult:
    """Take the recorded actions again, all episodes of a recording with their seeds.

    Left out are episodes that were cut off earlier than others, as those that training did not finish: they would go
    on where their recordings end. Where seeds repeat, one worker plays, since their episodes come in turn.

    Args:
        recording: a recording, a run directory with recordings, or the file of one episode.
        options: of the replay; `n_episodes` and `seed` are the recording's.
        run_dir: see `roll_out`.

    Raises:
        RequestError: an episode was recorded without a seed, or workers do not share the files of this machine.
        PluginError: what reads recordings is not installed.
    """
    if options.evaluator is not None:
        loaded = experiment_of(loaded, options.evaluator)
        options = attrs.evolve(options, evaluator=None)
    with _pool(Assembly(loaded, kernel), options) as pool:
        require_shared_files(pool, "the recording is read from files", PLAY_HERE)
    infos = _recorded_infos(loaded, kernel, recording)
    if n_unseeded := sum(info.seed is None for info in infos):
        raise RequestError(
            f"{n_unseeded} episodes of {recording} were recorded without a seed and cannot be replayed",
            help="look at them with: maze view",
        )
    played = infos
    if options.max_steps is None and any(map(_was_cut, infos)):
        longest = max(info.n_env_steps for info in infos)
        played = [info for info in infos if not _was_cut(info) or info.n_env_steps == longest > 0]
        if any(map(_was_cut, played)):
            options = attrs.evolve(options, max_steps=longest)
    seeds = [info.seed for info in played if info.seed is not None]
    if len(set(seeds)) < len(seeds):
        options = attrs.evolve(options, n_workers=1)
    policy = {"use": "replay", "path": str(recording)}
    result = roll_out(loaded, kernel, options, policy=policy, seeds=seeds, run_dir=run_dir, on_result=on_result)
    pairs = zip(played, result.episodes, strict=True)
    return ReplayResult(
        episodes=result.episodes,
        summary=result.summary,
        events=result.events,
        profile=result.profile,
        different_seeds=[episode.seed for info, episode in pairs if not _same(info, episode)],
        n_left_out=len(infos) - len(played),
    )


def _recorded_infos(loaded: LoadedExperiment, kernel: Kernel, recording: Path) -> Sequence[EpisodeInfo]:
    """Identifiers and sums of recorded episodes."""
    selection = select_installed(kernel, "dataset", {"use": "trajectories", "path": str(recording)})
    make_env = Assembly(loaded, kernel).env_factory(training=False, writes_files=False)
    with closing(kernel.catalog.build(selection, DatasetContext(make_env=make_env))) as source:
        infos: Sequence[EpisodeInfo] = source.infos()
    return infos


def _was_cut(info: EpisodeInfo) -> bool:
    """Whether an episode neither ended nor failed."""
    return not (info.terminated or info.truncated or info.error)


def _same(info: EpisodeInfo, episode: EpisodeResult) -> bool:
    """Whether an episode came out as it was recorded; rewards are summed in single precision while playing."""
    return info.n_env_steps == episode.length and bool(np.isclose(info.total_reward, episode.total_reward, rtol=1e-4))


def _pool(assembly: Assembly, options: RolloutOptions) -> WorkerPool:
    if options.render or options.n_workers == 1:
        return InlinePool(WorkersOptions(count=1))
    return assembly.make_workers(options.n_workers)
