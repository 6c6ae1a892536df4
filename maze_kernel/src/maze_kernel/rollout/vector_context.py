"""What a vector mode builds its batch from."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from maze_kernel.env.contract import StructuredEnv
from maze_kernel.env.tick import VectorEnv
from maze_kernel.workers.contract import WorkerPool


@attrs.frozen(kw_only=True)
class VectorContext:
    """What the target of a `VectorComponent` is given. What it returns has no transforms yet; its caller closes it.

    Attributes:
        n_envs: N.
        env_factory: builds one environment with the wrappers that must see a single one; survives transport to a
            worker.
        native: N -> the natively vectorised form, None where the environment's options have none; None where the
            environment has none. `native_batch` asks it.
        is_wrapped: whether wrappers that must see a single environment stand around each.
        training: whether the environments are trained on, not evaluated.
        first_index: number of the first environment in messages, where the batch is part of a larger one.
        make_workers: the experiment's worker pool, an inline one where it has none; whoever makes it closes it.
        has_workers: whether the experiment has a `[workers]` table.
        env_owner: what provides the environment, for messages.
    """

    n_envs: int
    env_factory: Callable[[], StructuredEnv]
    make_workers: Callable[[], WorkerPool]
    native: Callable[[int], VectorEnv | None] | None = None
    is_wrapped: bool = False
    training: bool = True
    first_index: int = 0
    has_workers: bool = False
    env_owner: str | None = None

    def native_batch(self) -> VectorEnv | None:
        """The natively vectorised form; None where there is none or wrappers must see single environments."""
        return None if self.native is None or self.is_wrapped else self.native(self.n_envs)
