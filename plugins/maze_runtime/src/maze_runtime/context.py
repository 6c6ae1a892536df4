"""Maze from Python: `RunContext` trains, rolls out, evaluates and acts.

A context owns its kernel, experiment and weights. Contexts of a process share its random state, which training seeds:
one thread at a time trains.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from maze_kernel.contracts.env import FLAT_KEY, ActorID, PolicyKey
from maze_kernel.errors import RequestError
from maze_kernel.loader import Kernel
from maze_runtime.context_components import component_table
from maze_runtime.context_experiment import (
    Source,
    checked_integer,
    checked_n_epochs,
    given,
    given_experiment,
    reopened_experiment,
)
from maze_runtime.context_run import ContextRun, as_stored
from maze_runtime.context_series import raise_first_error, run_sweep, train_seeds
from maze_runtime.playing.roll_out import RolloutOptions, RolloutResult, roll_out
from maze_runtime.run.assembly import Assembly
from maze_runtime.run.evaluators import MAIN, with_n_episodes
from maze_runtime.training.evaluation import Evaluator
from maze_runtime.training.one_thread import refuse_beside_training
from maze_runtime.training.train import TrainingResult

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.contracts.model import Policy
    from maze_runtime.models.top_actions import ActionCandidate
    from maze_runtime.playing.acting import SingleEnvActor
    from maze_runtime.run.env_factory import EnvFactory
    from maze_runtime.series.series import SeriesResult
    from maze_runtime.training.checkpoint import Checkpoint


class RunContext:
    """One experiment, built and run from Python.

    >>> context = RunContext(env="CartPole-v1", overrides={"trainer.n_rollout_steps": 64})  # doctest: +SKIP
    >>> context.train(n_epochs=5)  # doctest: +SKIP

    Args:
        experiment: an experiment file, beside which modules can be imported, its tables as a dict, or what
            `load_experiment` returns; what follows takes the place of its parts. None: `env` is enough.
        env: a component's name or table, a Gymnasium id or instance, or a factory of Maze or Gymnasium environments.
        trainer, model, wrappers, policies of `rollout`: a component's name, its table (`use` and options), an
            instance of its options class, or, but for the trainer, the object itself. None: those of the experiment,
            and without one the default trainer and the default model. As `model` also a torch.nn.Module or its class:
            the policy network, beside the default critic.
        overrides: experiment values by dotted path, as `--set` takes it, `{"vector.n_envs": 4}`, or as nested tables.
        seed: of all randomness; None: the experiment's, 0 without one.
        run_dir: directory of the run; None: `runs/<name>/<UTC time>-<4 hex>/`.
        silent: print nothing.
        kernel: the plugins to use; None: everything that is installed, as the experiment wants it.

    Raises:
        ExperimentError: every problem of the arguments.
    """

    def __init__(
        self,
        *,
        experiment: Source = None,
        env: Any = None,
        trainer: Any = None,
        model: Any = None,
        wrappers: Sequence[Any] | None = None,
        overrides: Mapping[str, Any] | None = None,
        seed: int | None = None,
        run_dir: Path | str | None = None,
        silent: bool = False,
        kernel: Kernel | None = None,
    ) -> None:
        components = given(env=env, trainer=trainer, model=model, wrappers=wrappers)
        loaded = given_experiment(experiment, components, overrides or {}, seed, kernel)
        run = ContextRun(as_stored(loaded), None if run_dir is None else Path(run_dir))
        self._init(run, silent)

    @classmethod
    def load(
        cls,
        run_dir: Path | str,
        *,
        env: Any = None,
        trainer: Any = None,
        model: Any = None,
        wrappers: Sequence[Any] | None = None,
        evaluation: Mapping[str, Any] | None = None,
        silent: bool = False,
        kernel: Kernel | None = None,
    ) -> RunContext:
        """The context of a run that was trained before; runs no code from its directory.

        Args:
            run_dir: of the run.
            env, trainer, model, wrappers: as they were given when the run was trained, where they live in Python: a
                factory, an object, or an import path. The directory holds only their names.
            evaluation: entries of `[evaluation]`, where environments or wrappers of evaluators do.
            silent: print nothing.
            kernel: the plugins to use; None: everything that is installed.

        Raises:
            RequestError: it is no run directory, or what lives in Python is not given.
            ExperimentError: a component has a problem, or a plugin of the run is missing.
        """
        kernel = kernel or Kernel.installed()
        context = cls.__new__(cls)
        components = given(env=env, trainer=trainer, model=model, wrappers=wrappers)
        loaded = reopened_experiment(run_dir, components, kernel, evaluation)
        run = ContextRun(as_stored(loaded), Path(run_dir), has_begun=True, is_trained=True)
        context._init(run, silent)
        return context

    def _init(self, run: ContextRun, silent: bool) -> None:
        self._run = run
        self._silent = silent
        self._acting: SingleEnvActor | None = None

    @property
    def loaded(self) -> LoadedExperiment:
        """The experiment, checked; `resolved` is what the run directory stores."""
        return self._run.loaded

    @property
    def config(self) -> dict[str, Any]:
        """The experiment as plain data with every default: what a file would hold. A copy."""
        return copy.deepcopy(dict(self.loaded.resolved))

    @property
    def env_factory(self) -> EnvFactory:
        """Builds one environment whose observations `compute_action` takes: without wrappers that are transforms."""
        return Assembly(self.loaded, self.kernel, self.run_dir).env_factory(training=False)

    @property
    def kernel(self) -> Kernel:
        """The plugins that its components come from."""
        kernel: Kernel = self.loaded.kernel
        return kernel

    @property
    def run_dir(self) -> Path | None:
        """The run directory; None before the first `train` unless it was given."""
        return self._run.run_dir

    @property
    def is_trained(self) -> bool:
        """Whether the run directory has checkpoints."""
        return self._run.is_trained

    @property
    def policy(self) -> Policy:
        """The policy of the best checkpoint, or a freshly initialised one before training."""
        return self._actor().policy

    def __repr__(self) -> str:
        return f"<RunContext {self._run}>"

    @overload
    def train(self, n_epochs: int | None = None, *, callbacks: Sequence[Any] = ()) -> TrainingResult: ...
    @overload
    def train(
        self,
        n_epochs: int | None = None,
        *,
        callbacks: Sequence[Any] = (),
        seeds: Sequence[int],
        n_parallel: int | None = None,
    ) -> SeriesResult: ...

    def train(
        self,
        n_epochs: int | None = None,
        *,
        callbacks: Sequence[Any] = (),
        seeds: Sequence[int] | None = None,
        n_parallel: int | None = None,
    ) -> TrainingResult | SeriesResult:
        """Train, or go on training where the last call ended; after a call that failed, from the last checkpoint.

        Where patience has ended, a call with `n_epochs` begins it anew; one without trains no further and says so.

        With seeds the experiment is trained once with each of them, in a folder with one run directory a seed, as
        `maze train --seeds` does. The context itself stays untrained; `RunContext.load` opens any of the runs.

        Args:
            n_epochs: epochs of this call, also beyond the trainer's own, over which schedules run; where it has no
                budget they run over the epochs trained so far and those of this call. Its `max_env_steps` ends them,
                too. None: until the budget is used up.
            callbacks: see the run between epochs, besides those of the experiment: names, tables, functions of a
                `RunInProgress`, or instances of `Callback`.
            seeds: of a run each.
            n_parallel: runs at a time; None: as many as there are processors.

        Raises:
            RequestError: `n_epochs` is no integer of at least 1, or another thread of this process trains.
            MazeError: training failed. A seed that fails does not raise: the result says why.
        """
        n_epochs = checked_n_epochs(n_epochs)
        callbacks = [component_table(self.kernel, "callback", callback) for callback in callbacks]
        if seeds is not None:
            return train_seeds(
                self.loaded,
                seeds,
                n_epochs=n_epochs,
                callbacks=callbacks,
                path=None if self._run.has_begun else self.run_dir,
                n_parallel=n_parallel,
                silent=self._silent,
            )
        if n_parallel is not None:
            raise RequestError("n_parallel= is for several seeds", help="give seeds=[0, 1, 2], too, or leave it out")
        self._acting = None
        return self._run.train(n_epochs, callbacks, silent=self._silent)

    def sweep(
        self,
        space: Mapping[str, Any],
        *,
        n_trials: int | None = None,
        searcher: Any = None,
        seeds: int | Sequence[int] | None = None,
        metric: str | None = None,
        out: Path | str | None = None,
        n_parallel: int | None = None,
        resume: Path | str | None = None,
        **settings: Any,
    ) -> Any:
        """Train the experiment with many settings and keep the best, as `maze sweep` does.

        Args:
            space: the table `[space]` of a sweep file: setting by dotted path or nested tables to what may be chosen.
            n_trials: settings to try; None: as many as the searcher has.
            searcher: its name or table; None: the default one.
            seeds: of each trial, or how many.
            metric: the statistic to be best in; None: the one that selects the best model.
            out: a new folder; None: below `sweeps/`.
            n_parallel: runs at a time; None: as many as there are processors.
            resume: the folder of a sweep to go on with.
            settings: further entries of a sweep file, e.g. `objective="iqm"`.

        Returns:
            The `SweepResult` of `maze_sweeps.sweep`.

        Raises:
            PluginError: the distribution maze-sweeps is not installed.
            MazeError: the space does not fit the experiment, or the sweep failed.
        """
        settings |= {
            "space": space,
            "n_trials": n_trials,
            "searcher": {"use": searcher} if isinstance(searcher, str) else searcher,
            "seeds": seeds,
            "metric": metric,
        }
        where = {"out": None if out is None else Path(out), "resume": None if resume is None else Path(resume)}
        return run_sweep(self.loaded, settings, n_parallel=n_parallel, silent=self._silent, **where)

    def rollout(
        self,
        n_episodes: int = 10,
        *,
        seed: int = 0,
        deterministic: bool = True,
        policy: Any = None,
        checkpoint: str = "best",
        max_steps: int | None = None,
        n_workers: int | None = None,
        render: bool = False,
        video_dir: Path | str | None = None,
        record_dir: Path | str | None = None,
        events_dir: Path | str | None = None,
        profile: bool = False,
        evaluator: str | None = None,
        on_error: Literal["raise", "record"] = "raise",
    ) -> RolloutResult:
        """Play episodes with the trained policy, or with `policy`.

        Args:
            n_episodes, seed, deterministic, max_steps, n_workers, render: see `RolloutOptions`.
            video_dir, record_dir, events_dir, profile, evaluator: likewise.
            policy: a name, a table, or an object with the methods of `Policy`; None: the trained policy.
            checkpoint: "best", "last" or "epoch-N".
            on_error: "raise" the error of an episode that fails when all are played, or "record" it in the result.

        Raises:
            EnvError: episodes failed.
            MazeError: as `roll_out`.
        """
        if on_error not in ("raise", "record"):
            raise RequestError(f"on_error= is {on_error!r}", expected="'raise' or 'record'")
        refuse_beside_training()
        options = RolloutOptions(
            n_episodes=checked_integer("n_episodes", n_episodes, 1),
            seed=checked_integer("seed", seed, 0),
            deterministic=deterministic,
            max_steps=checked_integer("max_steps", max_steps, 1, "None"),
            n_workers=checked_integer("n_workers", n_workers, 1, "None for those of the experiment"),
            render=render,
            video_dir=None if video_dir is None else Path(video_dir),
            events_dir=None if events_dir is None else Path(events_dir),
            profile=profile,
            evaluator=evaluator,
            record_dir=None if record_dir is None else Path(record_dir),
        )
        who: dict[str, Any] = {"checkpoint": self.checkpoint(checkpoint)} if policy is None else {}
        if policy is not None:
            who = {"policy": component_table(self.kernel, "policy", policy)}
        run_dir = self.run_dir if self.is_trained else None
        result = roll_out(self.loaded, self.kernel, options, run_dir=run_dir, **who)
        if on_error == "raise":
            raise_first_error(result)
        return result

    def evaluate(
        self, n_episodes: int | None = None, *, checkpoint: str = "best", evaluator: str = MAIN
    ) -> dict[str, Any]:
        """Statistics of the evaluation episodes, the same ones as during training, by tag.

        Args:
            n_episodes: None: as many as the evaluator plays while training.
            checkpoint: "best", "last" or "epoch-N".
            evaluator: one of `[evaluation.evaluators]`; "evaluation" is what `[evaluation]` itself says.

        Raises:
            RequestError: there is no such evaluator or checkpoint, or `n_episodes` is no integer of at least 1.
        """
        n_episodes = checked_integer("n_episodes", n_episodes, 1, "None for as many as while training")
        loaded = self.loaded if n_episodes is None else with_n_episodes(self.loaded, evaluator, n_episodes)
        assembly, model = self._run.restored(loaded, self.checkpoint(checkpoint))
        with closing(Evaluator(assembly, name=evaluator)) as playing_episodes:
            return dict(playing_episodes(model))

    def compute_action(
        self,
        observation: Any,
        info: Mapping[str, Any] | None = None,
        *,
        deterministic: bool = True,
        policy_key: PolicyKey = FLAT_KEY,
        agent_id: int = 0,
    ) -> Any:
        """The action for one observation of the environment, before its wrappers.

        Wrappers that stack observations, and policies with a memory, take consecutive calls for one episode; call
        `begin_episode` before the first observation of the next one.

        Args:
            observation: as the environment gives it: that of a Gymnasium environment itself, or of the agent of a
                PettingZoo game; or of `env_factory`'s name to array, or the array itself where there is one name. A
                dict by the names of a Gymnasium environment or a game is its own.
            info: as the environment's `reset` and `step` returned it; needed where it holds action masks.
            deterministic: take the mode of each distribution instead of sampling.
            policy_key, agent_id: who decides.

        Returns:
            The action as that environment takes it: in the space of the Gymnasium environment, or of the agent;
            otherwise name to action, or the action itself where there is one name.

        Raises:
            RequestError: the observation is not one of the environment's, or not finite; no policy key is called so.
        """
        actor = ActorID(policy_key, agent_id)
        return self._actor().act(observation, info, deterministic=deterministic, actor=actor)

    def top_actions(
        self,
        observation: Any,
        k: int = 5,
        info: Mapping[str, Any] | None = None,
        *,
        policy_key: PolicyKey = FLAT_KEY,
        agent_id: int = 0,
    ) -> list[ActionCandidate]:
        """The k most probable actions for an observation with their probabilities, the best first.

        It changes nothing: call `compute_action` to go on. Other arguments are those of `compute_action`.

        Raises:
            SpaceError: actions cannot be counted, as in a Box.
            RequestError: the policy does not act by the distributions of its networks.
        """
        return self._actor().candidates(observation, info, k, actor=ActorID(policy_key, agent_id))

    def begin_episode(self) -> None:
        """Tell `compute_action` that the next observation is the first one of an episode."""
        self._actor().begin_episode()

    def checkpoint(self, name: str = "best") -> Checkpoint:
        """Weights and wrapper statistics of the run.

        Args:
            name: "best", "last" or "epoch-N".

        Raises:
            RequestError: nothing is trained yet, or there is no such checkpoint.
        """
        return self._run.checkpoint(name)

    def _actor(self) -> SingleEnvActor:
        if self._acting is None:
            self._acting = self._run.make_actor()
        return self._acting
