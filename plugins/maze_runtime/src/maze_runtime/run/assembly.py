"""An experiment and a kernel, put together: environments, model, trainer, workers and loggers.

Only building is here; the loop that uses the parts is in the training room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maze_kernel.config.experiment import LoadedExperiment
from maze_kernel.config.load import select
from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.model import ActorCritic, ModelContext, Policy
from maze_kernel.contracts.trainer import Trainer, TrainerContext
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import ComponentError, MazeError
from maze_kernel.selection import Selection
from maze_runtime.env.batching import require_dicts
from maze_runtime.env.seeding import SeedTree
from maze_runtime.run.batch_factory import BatchFactory, native_form, wrap_batch
from maze_runtime.run.env_factory import EnvFactory, adapters_of, build_transform
from maze_runtime.run.fan_out import writing
from maze_runtime.run.placing import built, placed
from maze_runtime.run.pools import make_pool, with_count
from maze_runtime.run.trainer_contract import require_trainer
from maze_runtime.run.trainer_needs import is_by_default, refuse_state, said_of
from maze_runtime.run.training_batches import TrainingBatches
from maze_runtime.run.wrapper_lists import (
    bound,
    load_transforms,
    refuse_shared_tags,
    refuse_statistics_inside,
    split_wrappers,
    states_of,
)
from maze_runtime.workers.shared_files import EnvFactoryWithoutFiles

if TYPE_CHECKING:
    from maze_kernel.contracts.logger import Logger, LoggerContext, Progress
    from maze_kernel.contracts.vector import VectorEnv
    from maze_kernel.contracts.workers import WorkerPool
    from maze_kernel.loader import Kernel


class Assembly:
    """The parts of one experiment.

    Args:
        loaded: the checked experiment.
        kernel: where its components are found.
        run_dir: see the attribute.

    Attributes:
        run_dir: wrappers that write files do so below it; None: below the working directory of the beginning, which
            a simulation may change.
        transforms: of the training environments, innermost first; `transform_states` saves their statistics.
        training_batches: those that `make_vector_env` built to train on.
    """

    def __init__(self, loaded: LoadedExperiment, kernel: Kernel, run_dir: Path | None = None) -> None:
        self.loaded = loaded
        self.experiment = loaded.experiment
        self.kernel = kernel
        self._began_in = Path().absolute()
        self.run_dir = None if run_dir is None else run_dir.absolute()
        self.seeds = SeedTree(self.experiment.seed)
        inner, outer = split_wrappers(self.experiment.wrappers)
        refuse_statistics_inside(inner)
        refuse_shared_tags(self.experiment.wrappers)
        self._env_wrappers = inner
        self.transform_selections = outer
        self.transforms = self.make_transforms()
        self._inner_spaces: StructuredSpaces | None = None
        self._spaces: StructuredSpaces | None = None
        self._shares_files = True
        self.training_batches = TrainingBatches(self.transforms, inner)

    def env_factory(self, *, training: bool = True, writes_files: bool = True) -> EnvFactory:
        """What builds one environment with the wrappers that must see a single one; picklable by the worker pools."""
        return EnvFactory(
            self.experiment.env,
            self._env_wrappers,
            training,
            adapters_of(self.kernel.catalog),
            (self.run_dir or self._began_in).resolve() if writes_files else None,
        )

    @property
    def spaces(self) -> StructuredSpaces:
        """The spaces of the wrapped environment."""
        if self._spaces is None:
            with self.make_workers() as pool:
                self.check(pool)
        assert self._spaces is not None
        return self._spaces

    def check(self, pool: WorkerPool) -> None:
        """Build one environment inside its wrappers and close it, so that what does not fit is refused at once.

        Where the pool shares no files, so are wrappers that write some when episodes are played or evaluated there.

        Args:
            pool: where it is built: a worker that dies or never returns is found there.

        Raises:
            MazeError: shown at its place in the experiment.
        """
        from maze_runtime.rollout.space_reading import read_spaces

        self._inner_spaces = read_spaces(pool, self.env_factory(writes_files=False))
        self._shares_files = pool.shares_files
        if self._env_wrappers and not pool.shares_files:
            read_spaces(pool, EnvFactoryWithoutFiles(self.env_factory(training=False)))
        self._spaces = self.bind(self.transforms, self._inner_spaces)

    def bind(self, transforms: Sequence[Transform], inner: StructuredSpaces) -> StructuredSpaces:
        """The spaces outside of the experiment's transforms, innermost first, which are bound here.

        Raises:
            MazeError: a transform does not fit the spaces it sees; shown at its place in the experiment.
            EnvError: observations or actions have no names outside of all transforms.
        """
        spaces = inner
        for selection, transform in zip(self.transform_selections, transforms, strict=True):
            try:
                spaces = bound(transform, spaces, selection)
            except ComponentError as error:
                if isinstance(error.__cause__, AttributeError):  # most of them read names
                    self._require_dicts(spaces)
                raise
        self._require_dicts(spaces)
        return spaces

    def _require_dicts(self, spaces: StructuredSpaces) -> None:
        with placed(self.experiment.env):
            require_dicts(spaces)

    def make_transforms(self) -> list[Transform]:
        """Fresh transforms, innermost first."""
        return [build_transform(selection) for selection in self.transform_selections]

    def transform_states(self) -> list[dict[str, Any]]:
        """The statistics of the training transforms, one entry a transform."""
        return states_of(self.transforms)

    def load_transform_states(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Restore what `transform_states` returned into the training transforms.

        Raises:
            RequestError: the number of transforms differs.
        """
        load_transforms(self.transforms, states)

    def notes_of_defaults(self) -> list[str]:
        """What wrappers that nobody named say of themselves (`notes`), innermost first."""
        pairs = zip(self.transform_selections, self.transforms, strict=True)
        chosen = [own for named, own in pairs if is_by_default(named, self.experiment, self.kernel.catalog)]
        return [note for transform in chosen for note in getattr(transform, "notes", ())]

    def estimate_transforms(
        self,
        report: Callable[[str], None] = lambda _text: None,
        progress: Callable[[float], None] = lambda _fraction: None,
    ) -> None:
        """Give the training transforms the statistics they want before training, in the worker pool if there is one.

        Does nothing where they have them, e.g. after `load_transform_states`.

        Raises:
            MazeError: stored statistics cannot be read; shown at its place in the experiment.
        """
        from maze_runtime.rollout.estimation import TakesStoredStatistics

        taken = []
        for selection, transform in zip(self.transform_selections, self.transforms, strict=True):
            if isinstance(transform, TakesStoredStatistics):
                with placed(selection):
                    taken.append(transform.take_stored_statistics())
        for line in filter(None, taken):
            report(line)
        wanted = any(transform.estimation_steps for transform in self.transforms)
        if wanted:
            self._estimate(report, progress)
        if self._inner_spaces is not None and (wanted or any(taken)):  # bounds follow from statistics
            self._spaces = self.bind(self.transforms, self._inner_spaces)

    def _estimate(self, report: Callable[[str], None], progress: Callable[[float], None]) -> None:
        from maze_runtime.rollout.estimation import estimate_transforms

        make = partial(sequential_batch, self.env_factory(writes_files=False), self.experiment.vector.n_envs)
        seed = self.seeds.seed("estimation")
        if self.experiment.workers is None:
            estimate_transforms(self.transforms, make, seed=seed, report=report, progress=progress)
            return
        with self.make_workers() as pool:
            estimate_transforms(self.transforms, make, seed=seed, pool=pool, report=report, progress=progress)

    def estimated_states(self, report: Callable[[str], None] = lambda _text: None) -> list[dict[str, Any]]:
        """The statistics of transforms for a policy that was never trained, estimated where they are wanted."""
        _ = self.spaces  # binds the transforms
        self.estimate_transforms(report)
        return self.transform_states()

    def make_vector_env(
        self, n_envs: int, training: bool = True, *, transforms: list[Transform] | None = None
    ) -> VectorEnv:
        """A batch of environments in the experiment's mode, wrapped and checked for NaN; the caller closes it.

        Args:
            training: whether transforms may update their statistics.
            transforms: instead of the training transforms, e.g. frozen copies for an evaluation.
        """
        vector_env = self.batch_factory(training=training).raw(n_envs)
        transforms = self.transforms if transforms is None else transforms
        vector_env = wrap_batch(vector_env, transforms, training, self.experiment.env.owner)
        if training:
            self.training_batches.add(vector_env)
        return vector_env

    def make_model(self) -> ActorCritic:
        """A freshly initialised model; the same weights for the same run seed."""
        selection = self.experiment.model
        if selection is None:
            entry = self.kernel.catalog.default("model")
            selection = select(self.kernel, "model", entry.component.name)
        trainer = self.experiment.trainer
        critic = str(trainer.option("critic") or said_of(self.kernel.catalog, trainer, "critic", "state-value"))
        context = ModelContext(
            spaces=self.spaces,
            catalog=self.kernel.catalog,
            seed=self.seeds.seed("model"),
            critic="state-value" if critic == "none" else critic,
        )
        model: ActorCritic = built(selection, context)
        refuse_state(model, self.experiment.trainer, self.kernel.catalog)
        return model

    def make_policy(self, model: ActorCritic, seed: int) -> Policy:
        """The model's policy, inside the trainer's `policy_wrapper` if it has one."""
        from maze_runtime.models.policy_wrapper import TakesModes, wrap_policy

        policy = model.make_policy(seed)
        return wrap_policy(TakesModes(policy) if self.takes_modes else policy, self.policy_wrapper)

    @property
    def takes_modes(self) -> bool:
        """See `TrainerComponent`."""
        return bool(said_of(self.kernel.catalog, self.experiment.trainer, "takes_modes", False))

    @property
    def policy_wrapper(self) -> Selection | None:
        """What the trainer's option of that name selects; None for trainers without it."""
        return self.experiment.trainer.option("policy_wrapper")  # type: ignore[no-any-return]

    def make_workers(self, count: int | None = None) -> WorkerPool:
        """The experiment's worker pool; without a `[workers]` table inline.

        Args:
            count: workers, instead of the experiment's number; without a `[workers]` table those of the default pool.

        Raises:
            RequestError: the pool has no option `count`.
        """
        workers = self.experiment.workers
        return make_pool(workers if count is None else with_count(self.kernel.catalog, workers, count))

    def trainer_context(self, progress: Callable[[Progress], bool | None] = lambda _progress: None) -> TrainerContext:
        """What the trainer is built from."""
        return TrainerContext(
            spaces=self.spaces,
            n_envs=self.experiment.vector.n_envs,
            make_vector_env=lambda: self.make_vector_env(self.experiment.vector.n_envs),
            make_model=self.make_model,
            make_policy=self.make_policy,
            make_workers=self.make_workers,
            seeds=self.seeds,
            progress=progress,
            has_workers=self.experiment.workers is not None,
            make_env=self.env_factory(),
            transforms=self.transforms,
            make_actor_envs=self.batch_factory(in_worker=True),
            add_events=self.training_batches.events.add_episodes,
        )

    def make_trainer(self, context: TrainerContext) -> Trainer:
        """The training algorithm.

        Raises:
            MazeError: it cannot be built, or is no trainer; shown at its place in the experiment.
        """
        trainer: Trainer = built(self.experiment.trainer, context)
        with placed(self.experiment.trainer):
            require_trainer(trainer, self.experiment.trainer)
        return trainer

    def make_loggers(self, context: LoggerContext) -> tuple[list[Logger], dict[str, OSError]]:
        """The experiment's loggers; without a `[[loggers]]` table every installed default one.

        Returns:
            The loggers, and the names of those that could not be built because a file was refused, with the reason.

        Raises:
            MazeError: one cannot be built, for want of its package, say, or cannot write; the table is shown.
        """
        selections: Sequence[Selection] = self.experiment.loggers
        if not selections:
            entries = self.kernel.catalog.default("logger")
            selections = [select(self.kernel, "logger", entry.component.name) for entry in entries]
        loggers: list[Logger] = []
        refused: dict[str, OSError] = {}
        for selection in selections:
            try:
                loggers.append(writing(built(selection, context), selection))
            except ComponentError as error:
                if not isinstance(error.__cause__, OSError):
                    raise
                refused[selection.use] = error.__cause__
            except MazeError as error:
                error.location = error.location or selection.places.get(error.option or "") or selection.location
                raise
        return loggers, refused

    def batch_factory(self, *, training: bool = True, in_worker: bool = False) -> BatchFactory:
        """What builds batches in the experiment's mode.

        Args:
            in_worker: for batches that a worker builds and steps; modes that start processes of their own then give
                way to "auto".
        """
        mode = self.experiment.vector.mode
        if mode is not None and in_worker and not said_of(self.kernel.catalog, mode, "in_process", True):
            mode = None
        return BatchFactory(
            self.env_factory(training=training),
            mode,
            native_form(self.kernel.catalog, self.experiment.env),
            self.transforms,
            None if in_worker else self.experiment.workers,
            self._inner_spaces,
            self._shares_files or not in_worker,
            in_worker,
        )

    @property
    def evaluates_in_mode(self) -> bool:
        """Whether evaluations in this process are stepped in the experiment's mode too."""
        mode = self.experiment.vector.mode
        return mode is not None and bool(said_of(self.kernel.catalog, mode, "for_evaluation", False))


def sequential_batch(env_factory: EnvFactory, n_envs: int) -> VectorEnv:
    """A batch without transforms, stepped one environment after the other; survives transport in a `partial`."""
    from maze_runtime.env.batch_guard import BatchGuard
    from maze_runtime.rollout.sequential_vector import SequentialVectorEnv

    return BatchGuard(SequentialVectorEnv([env_factory] * n_envs))
