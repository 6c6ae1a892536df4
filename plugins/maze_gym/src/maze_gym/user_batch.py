"""Batches of the user's own: a `gymnasium.vector.VectorEnv` by import path, stepped as it is; one row of it alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from maze_gym.env import GymEnv
from maze_gym.masks import INFO_KEY, first_row
from maze_gym.native_vector import NativeVectorEnv, autoreset_mode
from maze_gym.options import GymVectorOptions
from maze_gym.returned import final_observation, has_row_each, of_reset, of_step, require_row_each
from maze_kernel.errors import EnvError
from maze_kernel.selection import own_copies
from maze_runtime.env.importing import imported

OWNER = "maze-gym"


def make_vector_env(n_envs: int, options: GymVectorOptions) -> NativeVectorEnv:
    """The batch as training steps it.

    Raises:
        RequestError: the entry cannot be imported.
        EnvError: it makes no batch, or one of another size.
    """
    return NativeVectorEnv(make_batch(n_envs, options), action_mask=options.action_mask)


def make_env(options: GymVectorOptions) -> GymEnv:
    """A batch of one as a single environment: for evaluations, rollouts, and wrappers that see single environments."""
    return GymEnv(BatchOfOne(make_batch(1, options)), action_mask=options.action_mask)


def make_batch(n_envs: int, options: GymVectorOptions) -> VectorEnv[Any, Any, Any]:
    """What the entry makes; raises as `make_vector_env` does."""
    entry: Any = (
        imported(options.entry, owner=OWNER, option="entry") if isinstance(options.entry, str) else options.entry
    )
    env = entry(num_envs=n_envs, **own_copies(dict(options.kwargs)))
    if not isinstance(env, VectorEnv):
        raise EnvError(
            "the entry makes no batch of environments",
            received=f"{type(env).__module__}.{type(env).__qualname__}",
            expected="a gymnasium.vector.VectorEnv",
            option="entry",
            owner=OWNER,
            help='an environment of its own is [env] use = "gym" with id = "module:Class"',
        )
    require_size(env, n_envs, OWNER)
    _require_spaces(env)
    return env


def _require_spaces(env: VectorEnv[Any, Any, Any]) -> None:
    of_one = ("single_observation_space", "single_action_space")
    if missing := [name for name in (*of_one, "observation_space", "action_space") if not hasattr(env, name)]:
        raise EnvError(
            f"the batch has no {' and no '.join(missing)}",
            expected=f"{' and '.join(of_one)}, and the spaces of the batch",
            option="entry",
            owner=OWNER,
            help="those of the batch: gymnasium.vector.utils.batch_space(space of one, num_envs)",
        )


def require_size(batch: Any, n_envs: int, owner: str) -> None:
    """Check that a batch is as large as it was asked to be.

    Raises:
        EnvError: it is not.
    """
    if getattr(batch, "num_envs", None) != n_envs:
        raise EnvError(
            "the batch has another number of environments than it was asked for",
            received=f"num_envs = {getattr(batch, 'num_envs', None)}",
            expected=f"num_envs = {n_envs}",
            option="entry",
            owner=owner,
            help="take the keyword argument num_envs, and keep it as the attribute num_envs",
        )


class BatchOfOne(gymnasium.Env[Any, Any]):
    """The only row of a batch with one environment.

    A batch that starts the next episode by itself is not asked to: the episode's end is reported as in any other
    environment, and `reset` follows.

    Args:
        batch: with num_envs = 1; closed with this one.
    """

    def __init__(self, batch: VectorEnv[Any, Any, Any]) -> None:
        self.batch = batch
        self.observation_space = batch.single_observation_space
        self.action_space = batch.single_action_space
        self.render_mode = batch.render_mode
        self.metadata = {**self.metadata, **batch.metadata}
        self._mode = autoreset_mode(batch)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        observation, infos = of_reset(self.batch.reset(seed=seed, options=options))
        return self._row(observation), _info(infos)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one step."""
        # None for spaces without arrays; `concatenate` takes it, though its annotation does not say so
        empty = create_empty_array(self.action_space, 1)
        result = self.batch.step(concatenate(self.action_space, [action], empty))  # type: ignore[arg-type]
        observation, reward, terminated, truncated, infos = of_step(result)
        require_row_each(1, reward=reward, terminated=terminated, truncated=truncated)
        ended, cut = bool(terminated[0]), bool(truncated[0])
        row = self._row(observation)
        if (ended or cut) and self._mode is AutoresetMode.SAME_STEP:
            last, infos = final_observation(infos), infos.get("final_info", {})
            row = last[0] if has_row_each(last) else self._row(last)
        return row, float(reward[0]), ended, cut, _info(infos)

    def render(self) -> Any:
        """The batch's drawing of its first environment."""
        frames = self.batch.render()
        return frames[0] if isinstance(frames, (tuple, list)) else frames

    def close(self) -> None:
        """Close the batch."""
        self.batch.close()

    def _row(self, observation: Any) -> Any:
        return next(iter(iterate(self.batch.observation_space, observation)))


def _info(infos: Mapping[str, Any]) -> dict[str, Any]:
    """The infos of the first row, where there are any of it."""
    return {
        name: first_row(value) if name == INFO_KEY else _first(value)
        for name, value in infos.items()
        if not name.startswith("_") and np.all(np.asarray(infos.get(f"_{name}", True)).reshape(-1)[:1])
    }


def _first(value: Any) -> Any:
    if isinstance(value, dict):
        return _info(value)
    return value[0] if hasattr(value, "__len__") and not isinstance(value, str) and len(value) else value
