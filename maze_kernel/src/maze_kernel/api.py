"""Maze from Python: `RunContext` trains, rolls out, evaluates and acts; `roll_out` is what `maze rollout` calls too.

A context owns its kernel, experiment and weights; contexts in one process share nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from maze_kernel.api_components import component_table, set_paths
from maze_kernel.config.load import experiment_from_mapping, select
from maze_kernel.env.contract import FLAT_KEY, PolicyKey
from maze_kernel.errors import RequestError
from maze_kernel.events.log_files import write_event_files
from maze_kernel.loader import Kernel
from maze_kernel.rollout.runner import EpisodePlayer, play_episodes, summarize, summarize_events, summarize_seconds
from maze_kernel.run.assembly import Assembly
from maze_kernel.run.directory import encode_json_lenient
from maze_kernel.run.seeding import SeedTree
from maze_kernel.training import playing
from maze_kernel.training.acting import Actor
from maze_kernel.training.evaluation import Evaluator
from maze_kernel.training.loop import TrainingResult, train
from maze_kernel.training.resume import stored_experiment
from maze_kernel.trajectories.dataset import TrajectoryDataset
from maze_kernel.workers.inline import InlinePool

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.deployment.agent import AgentDeployment
    from maze_kernel.deployment.export import Export
    from maze_kernel.models.contract import Policy
    from maze_kernel.rollout.episodes import EpisodeResult
    from maze_kernel.training.checkpoint import Checkpoint
    from maze_kernel.trajectories.episode import EpisodeInfo
    from maze_kernel.workers.contract import WorkerPool


@attrs.frozen(kw_only=True)
class RolloutOptions:
    """How episodes are played."""

    n_episodes: int = attrs.field(default=10, validator=attrs.validators.ge(1))
    """Episodes to play."""
    seed: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    """The seeds of all episodes follow from it."""
    deterministic: bool = True
    """Take the mode of each distribution instead of sampling."""
    max_steps: int | None = None
    """Cut episodes after so many steps."""
    n_workers: int | None = None
    """Processes that play at the same time; None: the experiment's `[workers]`, or this process."""
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
) -> RolloutResult:
    """Play episodes of an experiment with the weights of a checkpoint, or with a policy that needs no training.

    Args:
        checkpoint: of a run of this experiment; None: `policy` plays.
        policy: name, options table or import path of a policy component; read without a checkpoint.
        seeds: one an episode; None: those that follow from `options.seed`.
        run_dir: wrappers that write files do so below it; None: below the current directory.
        on_result: called after each episode.

    Raises:
        RequestError: the folder to record into is not empty.
    """
    if seeds is None:
        seeds = SeedTree(options.seed).seeds(options.n_episodes, "rollout")
    if options.render or options.video_dir is not None:
        loaded = playing.with_drawing(loaded, "rgb_array" if options.video_dir is not None else "human")
    assembly = Assembly(loaded, kernel)
    parts = (loaded, kernel)
    states = None if checkpoint is None else checkpoint.state.get("transforms")
    if checkpoint is None:
        selection = select(kernel, "policy", policy)
        player_name = selection.use
        make_policy: Callable[[int], Policy] = playing.ComponentPolicy(*parts, selection)
    else:
        player_name = f"epoch {checkpoint.epoch} of {loaded.experiment.name}"
        make_policy = playing.TrainedPolicy(*parts, playing.weights_of(checkpoint))
    recording = None
    if options.record_dir is not None:
        recording = playing.new_recording(loaded, options.record_dir, player_name, seeds)
    player = EpisodePlayer(
        make_env=playing.PlayingEnv(*parts, states, recording, run_dir),
        make_policy=make_policy,
        deterministic=options.deterministic,
        max_steps=options.max_steps,
        video_dir=options.video_dir,
        on_screen=options.render,
        event_rows=options.events_dir is not None,
        profile=options.profile,
    )
    with _pool(assembly, options) as pool:
        episodes = play_episodes(pool, player, seeds, on_result=on_result)
    if options.events_dir is not None:
        write_event_files(options.events_dir, [(episode.seed, episode.event_rows or ()) for episode in episodes])
    return RolloutResult(
        episodes=episodes,
        summary=summarize(episodes),
        events=summarize_events(episodes),
        profile=summarize_seconds(episodes),
    )


def replay(
    loaded: LoadedExperiment,
    kernel: Kernel,
    recording: Path,
    options: RolloutOptions,
    *,
    run_dir: Path | None = None,
    on_result: Callable[[EpisodeResult], None] = lambda _result: None,
) -> tuple[RolloutResult, list[int], int]:
    """Take the recorded actions again, all episodes of a recording with their seeds.

    Args:
        recording: see `TrajectoryDataset.open`.
        options: of the replay; `n_episodes` and `seed` are the recording's.
        run_dir: see `roll_out`.

    Left out are episodes that were cut off earlier than others, as those that training did not finish: they would go
    on where their recordings end. Where seeds repeat, one worker plays, since their episodes come in turn.

    Returns:
        The result, the seeds of the episodes whose reward or length differs from the recorded one, and how many
        episodes were left out.

    Raises:
        RequestError: an episode was recorded without a seed.
    """
    infos = TrajectoryDataset.open(recording).infos()
    if n_unseeded := sum(info.seed is None for info in infos):
        raise RequestError(
            f"{n_unseeded} episodes of {recording} were recorded without a seed and cannot be replayed",
            help="look at them with: maze view",
        )
    played = infos
    if options.max_steps is None and any(map(_was_cut, infos)):
        longest = max(info.n_env_steps for info in infos)
        played = [info for info in infos if not _was_cut(info) or info.n_env_steps == longest]
        options = attrs.evolve(options, max_steps=longest)
    seeds = [info.seed for info in played if info.seed is not None]
    if len(set(seeds)) < len(seeds):
        options = attrs.evolve(options, n_workers=1)
    policy = {"use": "replay", "path": str(recording)}
    result = roll_out(loaded, kernel, options, policy=policy, seeds=seeds, run_dir=run_dir, on_result=on_result)
    pairs = zip(played, result.episodes, strict=True)
    return result, [episode.seed for info, episode in pairs if not _same(info, episode)], len(infos) - len(played)


def _was_cut(info: EpisodeInfo) -> bool:
    """Whether an episode neither ended nor failed."""
    return not (info.terminated or info.truncated or info.error)


def _same(info: EpisodeInfo, episode: EpisodeResult) -> bool:
    """Whether an episode came out as it was recorded; rewards are summed in single precision while playing."""
    return info.n_env_steps == episode.length and bool(np.isclose(info.total_reward, episode.total_reward, rtol=1e-4))


def _pool(assembly: Assembly, options: RolloutOptions) -> WorkerPool:
    from maze_kernel.workers.options import WorkersOptions
    from maze_kernel.workers.subprocess import SubprocessPool

    pool: Any = None
    if options.render or options.n_workers == 1:
        pool = InlinePool(WorkersOptions(count=1))
    elif options.n_workers is not None:
        pool = SubprocessPool(WorkersOptions(count=options.n_workers))
    return pool or assembly.make_workers()


class RunContext:
    """One experiment, built and run from Python.

    >>> context = RunContext(env="CartPole-v1", overrides={"trainer.n_rollout_steps": 64})  # doctest: +SKIP
    >>> context.train(n_epochs=5)  # doctest: +SKIP

    Args:
        env: a component's name or table, a Gymnasium id, or a factory of Maze or Gymnasium environments.
        trainer, model, wrappers, policies of `rollout`: a component's name, its table (`use` and options), an
            instance of its options class, or, but for the trainer, the object itself.
        overrides: experiment values by dotted path or as nested tables, e.g. `{"vector.n_envs": 4}`.
        run_dir: directory of the run; None: `runs/<name>/<UTC time>-<4 hex>/`.
        silent: print nothing.
        kernel: the plugins to use; None: everything that is installed.

    Raises:
        ExperimentError: every problem of the arguments.
    """

    def __init__(
        self,
        *,
        env: Any,
        trainer: Any = "ppo",
        model: Any = None,
        wrappers: Sequence[Any] = (),
        overrides: Mapping[str, Any] | None = None,
        run_dir: Path | str | None = None,
        silent: bool = False,
        kernel: Kernel | None = None,
    ) -> None:
        kernel = kernel or Kernel.installed()
        tables: dict[str, Any] = {
            "name": "run",
            "env": component_table(kernel, "env", env),
            "trainer": component_table(kernel, "trainer", trainer),
            "wrappers": [component_table(kernel, "wrapper", wrapper) for wrapper in wrappers],
        }
        if model is not None:
            tables["model"] = component_table(kernel, "model", model)
        loaded = experiment_from_mapping(set_paths(tables, overrides or {}), kernel=kernel)
        self._init(loaded, kernel, None if run_dir is None else Path(run_dir), silent)

    @classmethod
    def load(cls, run_dir: Path | str, *, silent: bool = False, kernel: Kernel | None = None) -> RunContext:
        """The context of a run that was trained before; runs no code from its directory."""
        kernel = kernel or Kernel.installed()
        context = cls.__new__(cls)
        context._init(stored_experiment(run_dir, kernel=kernel), kernel, Path(run_dir), silent)
        context._trained = True
        return context

    def _init(self, loaded: LoadedExperiment, kernel: Kernel, run_dir: Path | None, silent: bool) -> None:
        # As the run directory stores it: objects given from Python become their description.
        self._loaded = attrs.evolve(loaded, resolved=json.loads(encode_json_lenient(loaded.resolved)))
        self._kernel = kernel
        self._run_dir = run_dir
        self._silent = silent
        self._trained = False
        self._acting: Actor | None = None

    @property
    def run_dir(self) -> Path | None:
        """The run directory; None before the first `train` unless it was given."""
        return self._run_dir

    @property
    def policy(self) -> Policy:
        """The policy of the best checkpoint, or a freshly initialised one before training."""
        return self._actor().policy

    def train(self, n_epochs: int | None = None) -> TrainingResult:
        """Train, or go on training where the last call ended.

        Args:
            n_epochs: epochs of this call; None: until the trainer's own budget is used up.
        """
        loaded = self._loaded
        if n_epochs is not None:
            loaded = _with_n_epochs(loaded, self._epochs_so_far() + n_epochs)
        where = {"resume": self._run_dir} if self._trained else {"run_dir": self._run_dir}
        result = train(loaded, self._kernel, verbosity=-1 if self._silent else 0, **where)  # type: ignore[arg-type]
        self._run_dir, self._trained, self._acting = result.run_dir, True, None
        return result

    def rollout(
        self,
        n_episodes: int = 10,
        *,
        seed: int = 0,
        deterministic: bool = True,
        policy: Any = None,
        checkpoint: str = "best",
        n_workers: int | None = None,
        video_dir: Path | str | None = None,
        record_dir: Path | str | None = None,
        events_dir: Path | str | None = None,
        profile: bool = False,
    ) -> RolloutResult:
        """Play episodes with the trained policy, or with `policy`; see `roll_out`."""
        options = RolloutOptions(
            n_episodes=n_episodes,
            seed=seed,
            deterministic=deterministic,
            n_workers=n_workers,
            video_dir=None if video_dir is None else Path(video_dir),
            events_dir=None if events_dir is None else Path(events_dir),
            profile=profile,
            record_dir=None if record_dir is None else Path(record_dir),
        )
        if policy is not None:
            return roll_out(self._loaded, self._kernel, options, policy=policy, run_dir=self._trained_in())
        weights = self._checkpoint(checkpoint)
        return roll_out(self._loaded, self._kernel, options, checkpoint=weights, run_dir=self._run_dir)

    def evaluate(self, n_episodes: int | None = None, *, checkpoint: str = "best") -> dict[str, Any]:
        """Statistics of the evaluation episodes, the same ones as during training, by tag."""
        loaded = self._loaded
        if n_episodes is not None:
            evaluation = attrs.evolve(loaded.experiment.evaluation, n_episodes=n_episodes)
            loaded = attrs.evolve(loaded, experiment=attrs.evolve(loaded.experiment, evaluation=evaluation))
        assembly, model = self._restored(loaded, self._checkpoint(checkpoint))
        evaluator = Evaluator(assembly)
        try:
            return dict(evaluator(model))
        finally:
            evaluator.close()

    def compute_action(
        self, observation: Any, *, deterministic: bool = True, policy_key: PolicyKey = FLAT_KEY, agent_id: int = 0
    ) -> Any:
        """The action for one observation of the environment, before its wrappers.

        Wrappers that stack observations, and policies with a memory, take consecutive calls for one episode; call
        `begin_episode` before the first observation of the next one.

        Args:
            observation: name to array, or the array itself where there is one name.

        Returns:
            Name to action, or the action itself where there is one name.
        """
        return self._actor().act(observation, deterministic=deterministic, policy_key=policy_key, agent_id=agent_id)

    def deploy(self, *, checkpoint: str = "best", policy: Any = None, deterministic: bool = True) -> AgentDeployment:
        """An agent that answers whoever calls it; see `AgentDeployment`."""
        from maze_kernel.deployment.agent import AgentDeployment

        return AgentDeployment.of_experiment(
            self._loaded,
            self._kernel,
            checkpoint=self._checkpoint(checkpoint) if self._trained or policy is None else None,
            policy=policy,
            deterministic=deterministic,
            run_dir=self._trained_in(),
        )

    def begin_episode(self) -> None:
        """Tell `compute_action` that the next observation is the first one of an episode."""
        self._actor().begin_episode()

    def export(self, out: Path | str, *, format_name: str = "onnx", checkpoint: str = "best") -> Export:
        """Write the trained policy as a file that acts without Maze; see `export_policy`."""
        from maze_kernel.deployment.export import export_policy

        return export_policy(self._loaded, self._kernel, self._checkpoint(checkpoint), Path(out), format_name)

    def _checkpoint(self, name: str) -> Checkpoint:
        if not self._trained or self._run_dir is None:
            raise RequestError("there is nothing trained yet", help="call train() first, or give a policy by name")
        return playing.load_checkpoint(self._run_dir, name)

    def _trained_in(self) -> Path | None:
        return self._run_dir if self._trained else None

    def _epochs_so_far(self) -> int:
        return self._checkpoint("last").epoch if self._trained else 0

    def _actor(self) -> Actor:
        if self._acting is None:
            if self._trained:
                assembly, model = self._restored(self._loaded, self._checkpoint("best"))
            else:
                assembly = Assembly(self._loaded, self._kernel)
                model = assembly.make_model()
            self._acting = Actor(assembly, assembly.make_policy(model, assembly.seeds.seed("compute-action")))
        return self._acting

    def _restored(self, loaded: LoadedExperiment, checkpoint: Checkpoint) -> tuple[Assembly, Any]:
        assembly = Assembly(loaded, self._kernel, self._run_dir)
        assembly.load_transform_states(checkpoint.state.get("transforms", []))
        return assembly, playing.load_weights(assembly.make_model(), playing.weights_of(checkpoint))


def _with_n_epochs(loaded: LoadedExperiment, n_epochs: int) -> LoadedExperiment:
    trainer = loaded.experiment.trainer
    if isinstance(trainer.options, Mapping):
        options: Any = {**trainer.options, "n_epochs": n_epochs}
    else:
        options = attrs.evolve(trainer.options, n_epochs=n_epochs)
    experiment = attrs.evolve(loaded.experiment, trainer=attrs.evolve(trainer, options=options))
    resolved = {**loaded.resolved, "trainer": {**loaded.resolved["trainer"], "n_epochs": n_epochs}}
    return attrs.evolve(loaded, experiment=experiment, resolved=resolved)
