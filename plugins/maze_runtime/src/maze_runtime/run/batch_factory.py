"""What builds batches of an experiment's environments, here or in another process: no kernel, only data."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import attrs

from maze_kernel.catalog import build
from maze_kernel.components import EnvComponent
from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import PluginError
from maze_kernel.selection import Selection
from maze_runtime.run.env_factory import EnvFactory
from maze_runtime.run.placing import placed
from maze_runtime.run.pools import make_pool
from maze_runtime.workers.shared_files import EnvFactoryWithoutFiles

if TYPE_CHECKING:
    from maze_kernel.catalog import Catalog
    from maze_kernel.contracts.vector import VectorEnv


@attrs.frozen
class NativeForm:
    """The natively vectorised form of an environment: built with N and its options, None where these have none."""

    selection: Selection

    def __call__(self, n_envs: int) -> VectorEnv | None:
        return build(self.selection, n_envs)  # type: ignore[no-any-return]


def native_form(catalog: Catalog, env: Selection) -> NativeForm | None:
    """The natively vectorised form that an environment's component names; None for import paths and factories."""
    try:
        component = catalog.find("env", env.use).component
    except PluginError:
        return None
    if env.instance is not None or not isinstance(component, EnvComponent) or not component.vector_target:
        return None
    return NativeForm(attrs.evolve(env, target=component.vector_target))


@attrs.frozen
class BatchFactory:
    """Builds batches in one vector mode.

    Attributes:
        env_factory: builds one environment.
        mode: the selected vector mode; None: "auto".
        native: the natively vectorised form of the environment.
        transforms: around the batch, innermost first.
        workers: the pool of modes that want one.
        spaces: of one environment; None: not known yet.
        shares_files: False: batches are built where the files of the run are out of reach.
        in_worker: batches have copies of the transforms that keep running statistics; see `SharedStatistics`.
    """

    env_factory: EnvFactory
    mode: Selection | None = None
    native: NativeForm | None = None
    transforms: Sequence[Transform] = ()
    workers: Selection | None = None
    spaces: StructuredSpaces | None = None
    shares_files: bool = True
    in_worker: bool = False

    def __call__(self, n_envs: int, first_index: int = 0) -> VectorEnv:
        """A batch inside its transforms and checked for NaN; the caller closes it.

        Args:
            n_envs: environments of the batch.
            first_index: number of the first one in messages, where the batch is part of a larger one.
        """
        from maze_runtime.rollout.shared_statistics import own_copies

        transforms = own_copies(self.transforms) if self.in_worker else self.transforms
        raw = self.raw(n_envs, first_index)
        return wrap_batch(raw, transforms, self.env_factory.training, self.env_factory.env.owner)

    def raw(self, n_envs: int, first_index: int = 0) -> VectorEnv:
        """A batch without transforms and unchecked.

        Raises:
            RequestError: the mode is not possible for this environment.
            EnvError: the batch has another size than it was asked for, or other spaces than one environment.
        """
        from maze_kernel.contracts.vector import VectorContext
        from maze_runtime.env.batch_form import require_batch
        from maze_runtime.rollout.vector_modes import auto_batch

        context = VectorContext(
            n_envs=n_envs,
            env_factory=self.env_factory if self.shares_files else EnvFactoryWithoutFiles(self.env_factory),
            native=self.native,
            is_wrapped=bool(self.env_factory.wrappers),
            training=self.env_factory.training,
            first_index=first_index,
            make_workers=partial(make_pool, self.workers),
            has_workers=self.workers is not None,
            env_owner=self.env_factory.env.owner,
            spaces=self.spaces,
        )
        if self.mode is None:
            batch = auto_batch(context)
        else:
            with placed(self.mode):
                batch = build(self.mode, context)
        require_batch(batch, n_envs, self.spaces, self.env_factory.env.owner)
        return batch


def wrap_batch(
    vector_env: VectorEnv,
    transforms: Sequence[Transform],
    training: bool,
    owner: str | None = None,
    *,
    looks_always: bool = False,
) -> VectorEnv:
    """A batch checked for NaN and inside its transforms, innermost first.

    Args:
        owner: what provides its environment, for messages.
        looks_always: compare what transforms make of every tick with their spaces, not of the first ones alone.
    """
    from maze_runtime.env.batch_guard import BatchGuard
    from maze_runtime.rollout.vector_transform import TransformedVectorEnv

    vector_env = BatchGuard(vector_env, owner)
    for transform in transforms:
        transformed = TransformedVectorEnv(vector_env, transform, training)
        if looks_always:
            transformed.form.look_always()
        vector_env = transformed if transformed.does_something else vector_env
    return vector_env
