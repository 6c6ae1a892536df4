"""Maze from Python: `RunContext` trains, rolls out, evaluates and acts.

A context owns its kernel, experiment and weights; contexts in one process share nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.contracts.env import FLAT_KEY, PolicyKey
from maze_kernel.errors import RequestError
from maze_kernel.loader import Kernel
from maze_runtime.context_components import component_table, set_paths
from maze_runtime.playing import players as playing
from maze_runtime.playing.acting import SingleEnvActor
from maze_runtime.playing.roll_out import RolloutOptions, RolloutResult, roll_out
from maze_runtime.run.assembly import Assembly
from maze_runtime.run.directory import encode_json_lenient
from maze_runtime.training.checkpoint_store import CheckpointStore
from maze_runtime.training.evaluation import Evaluator
from maze_runtime.training.resume import stored_experiment
from maze_runtime.training.train import TrainingResult, train

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.contracts.model import Policy
    from maze_runtime.training.checkpoint import Checkpoint


class RunContext:
    """One experiment, built and run from Python.

    >>> context = RunContext(env="CartPole-v1", overrides={"trainer.n_rollout_steps": 64})  # doctest: +SKIP
    >>> context.train(n_epochs=5)  # doctest: +SKIP

    Args:
        env: a component's name or table, a Gymnasium id or instance, or a factory of Maze or Gymnasium environments.
        trainer, model, wrappers, policies of `rollout`: a component's name, its table (`use` and options), an
            instance of its options class, or, but for the trainer, the object itself. None: the default trainer, and
            the default model.
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
        trainer: Any = None,
        model: Any = None,
        wrappers: Sequence[Any] = (),
        overrides: Mapping[str, Any] | None = None,
        run_dir: Path | str | None = None,
        silent: bool = False,
        kernel: Kernel | None = None,
    ) -> None:
        kernel = kernel or Kernel.installed()
        if trainer is None:
            trainer = kernel.catalog.default("trainer").component.name
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
        context._begun = context._trained = True
        return context

    def _init(self, loaded: LoadedExperiment, kernel: Kernel, run_dir: Path | None, silent: bool) -> None:
        # As the run directory stores it: objects given from Python become their description.
        self._loaded = attrs.evolve(loaded, resolved=json.loads(encode_json_lenient(loaded.resolved)))
        self._kernel = kernel
        self._run_dir = run_dir
        self._silent = silent
        self._begun = False
        self._trained = False
        self._acting: SingleEnvActor | None = None

    @property
    def loaded(self) -> LoadedExperiment:
        """The experiment, checked; `resolved` is what the run directory stores."""
        return self._loaded

    @property
    def kernel(self) -> Kernel:
        """The plugins that its components come from."""
        return self._kernel

    @property
    def run_dir(self) -> Path | None:
        """The run directory; None before the first `train` unless it was given."""
        return self._run_dir

    @property
    def is_trained(self) -> bool:
        """Whether the run directory has checkpoints."""
        return self._trained

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
        where = {"resume": self._run_dir} if self._begun else {"run_dir": self._run_dir}
        result = train(loaded, self._kernel, verbosity=-1 if self._silent else 0, **where)  # type: ignore[arg-type]
        self._run_dir, self._begun, self._acting = result.run_dir, True, None
        self._trained = bool(CheckpointStore(result.run_dir).epochs())  # none where the first epoch was cut short
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
        weights = self.checkpoint(checkpoint)
        return roll_out(self._loaded, self._kernel, options, checkpoint=weights, run_dir=self._run_dir)

    def evaluate(self, n_episodes: int | None = None, *, checkpoint: str = "best") -> dict[str, Any]:
        """Statistics of the evaluation episodes, the same ones as during training, by tag."""
        loaded = self._loaded
        if n_episodes is not None:
            evaluation = attrs.evolve(loaded.experiment.evaluation, n_episodes=n_episodes)
            loaded = attrs.evolve(loaded, experiment=attrs.evolve(loaded.experiment, evaluation=evaluation))
        assembly, model = self._restored(loaded, self.checkpoint(checkpoint))
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
        if not self._trained or self._run_dir is None:
            raise RequestError("there is nothing trained yet", help="call train() first, or give a policy by name")
        return playing.load_checkpoint(self._run_dir, name)

    def _trained_in(self) -> Path | None:
        return self._run_dir if self._trained else None

    def _epochs_so_far(self) -> int:
        return self.checkpoint("last").epoch if self._trained else 0

    def _actor(self) -> SingleEnvActor:
        if self._acting is None:
            if self._trained:
                assembly, model = self._restored(self._loaded, self.checkpoint("best"))
            else:
                assembly = Assembly(self._loaded, self._kernel)
                model = assembly.make_model()
            self._acting = SingleEnvActor(assembly, assembly.make_policy(model, assembly.seeds.seed("compute-action")))
        return self._acting

    def _restored(self, loaded: LoadedExperiment, checkpoint: Checkpoint) -> tuple[Assembly, Any]:
        assembly = Assembly(loaded, self._kernel, self._run_dir)
        assembly.load_transform_states(checkpoint.transforms)
        return assembly, playing.load_weights(assembly.make_model(), playing.weights_of(checkpoint))


def _with_n_epochs(loaded: LoadedExperiment, n_epochs: int) -> LoadedExperiment:
    trainer = loaded.experiment.trainer
    experiment = attrs.evolve(loaded.experiment, trainer=trainer.with_options(n_epochs=n_epochs))
    resolved = {**loaded.resolved, "trainer": {**loaded.resolved["trainer"], "n_epochs": n_epochs}}
    return attrs.evolve(loaded, experiment=experiment, resolved=resolved)
