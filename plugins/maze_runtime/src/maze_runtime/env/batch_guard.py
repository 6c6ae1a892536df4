"""The guard around every raw batch, before any transform: what is wrong in an environment stops at the environment.

NaN, infinity and ticks of the wrong form do not come out, and the batch gets actions of its own: what it changes in
place is not what its caller stores. Rows that await their reset come out with masks that allow everything: the decision
on one is void, and must be possible all the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.vector import ArrayDict, Group, Tick, VectorEnv
from maze_kernel.errors import NonFiniteError
from maze_runtime.env.batch_form import BatchForm
from maze_runtime.env.mask_reading import action_masks

_ZEROS = np.zeros(4096, np.float32)

# Infinity in `_is_finite` would warn beside the error that follows; `np.errstate` would double the cost of the check.
warnings.filterwarnings("ignore", "invalid value encountered", RuntimeWarning, module=__name__.replace(".", r"\."))


class BatchGuard:
    """Implements `VectorEnv`: passes ticks on as they are, unless a reward or float observation is not finite.

    Masks of rows that await their reset are all ones, in copies.

    Args:
        vector_env: the raw batch.
        owner: what provides its environment, for messages; None: not known.

    Raises:
        NonFiniteError: from `reset` and `step`; names environment, policy key, observation key, element, seed,
            episode and step.
        EnvError: likewise; the batch raised, or a tick has not the form of one, see `BatchForm`.
    """

    def __init__(self, vector_env: VectorEnv, owner: str | None = None) -> None:
        self.vector_env = vector_env
        self._form = BatchForm(vector_env, owner)
        self.n_envs = vector_env.n_envs
        self.structured_spaces = vector_env.structured_spaces
        self._float_names = {
            key: tuple(name for name, leaf in space.spaces.items() if leaf.dtype is not None and leaf.dtype.kind == "f")
            for key, space in self.structured_spaces.observation.items()
        }
        self._masks = {
            key: masks
            for key, space in self.structured_spaces.observation.items()
            if (masks := action_masks(space, self.structured_spaces.action[key]))
        }
        self._first_index: int = getattr(vector_env, "first_index", 0)
        self._seeds: Sequence[Sequence[int]] = ()
        self._n_ticks = 0
        self._started = np.zeros(self.n_envs, np.int64)
        self._episode = np.zeros(self.n_envs, np.int64)

    def reset(self, seeds: Sequence[Sequence[int]]) -> Tick:
        """Start new episodes everywhere; see `VectorEnv.reset`."""
        try:
            tick = self.vector_env.reset(seeds)
        except Exception as error:
            raise self._form.raised(error, "reset")
        self._form.see_reset(tick)
        self._seeds = [tuple(sequence) for sequence in seeds]
        self._n_ticks = 0
        self._started[:] = 0
        self._episode[:] = 0
        self._check_observations(tick)
        return tick

    def step(self, actions: Mapping[PolicyKey, ArrayDict]) -> Tick:
        """Take one decision everywhere; see `VectorEnv.step`."""
        own = {key: {name: np.array(array) for name, array in heads.items()} for key, heads in actions.items()}
        try:
            tick = self.vector_env.step(own)
        except Exception as error:
            raise self._form.raised(error, "step")
        self._form.see_step(tick)
        self._n_ticks += 1
        if not _is_finite(tick.reward):
            (index,) = np.argwhere(~np.isfinite(tick.reward))[0].tolist()
            self._raise(index, "the reward", float(tick.reward[index]))
        for key, final in tick.final_observation.items():
            self._check(key, final.observation, final.env_index, "the final observation")
            self._episode[final.env_index] += 1
            self._started[final.env_index] = self._n_ticks + (tick.awaiting_reset is not None)
        self._check_observations(tick)
        if self._masks and tick.awaiting_reset is not None:
            groups = {key: self._opened(key, group, tick.awaiting_reset) for key, group in tick.groups.items()}
            return attrs.evolve(tick, groups=groups)
        return tick

    def render(self) -> Any:
        """The wrapped batch's drawing."""
        return self.vector_env.render()

    def close(self) -> None:
        """Close the wrapped batch."""
        self.vector_env.close()

    def _opened(self, key: PolicyKey, group: Group, awaiting_reset: np.ndarray) -> Group:
        """The group with masks that allow everything where the next step only resets."""
        masks = {name: group.observation[name].copy() for name in self._masks.get(key, ())}
        for array in masks.values():
            array[awaiting_reset[group.env_index]] = 1
        return attrs.evolve(group, observation={**group.observation, **masks})

    def _check_observations(self, tick: Tick) -> None:
        for key, group in tick.groups.items():
            self._check(key, group.observation, group.env_index, "the observation")

    def _check(self, key: PolicyKey, observation: ArrayDict, env_index: np.ndarray, what: str) -> None:
        for name in self._float_names[key]:
            array = observation[name]
            if not _is_finite(array):
                row, *position = np.argwhere(~np.isfinite(array))[0].tolist()
                element = f"[{', '.join(map(str, position))}]" if position else ""
                policy = f" of policy key {key!r}" if len(self._float_names) > 1 else ""
                value = float(array[(row, *position)])
                self._raise(int(env_index[row]), f"{what} {name!r}{element}{policy}", value)

    def _raise(self, index: int, what: str, value: float) -> None:
        episode = int(self._episode[index])
        own = self._seeds[index] if index < len(self._seeds) else ()
        seed = f"seed {own[episode]}" if episode < len(own) else "unseeded"
        if episode >= len(own) and own:
            seed = f"unseeded, {episode - len(own) + 1} episodes after seed {own[-1]}"
        step = max(0, self._n_ticks - int(self._started[index]))
        error = NonFiniteError(
            f"{what} of environment {self._first_index + index} is not finite",
            received=str(value),
            expected="a finite number",
            owner=f"environment {self._first_index + index}, episode {episode} ({seed}), step {step}",
            help="guard the division, logarithm or root that makes it",
        )
        error.seed = int(own[min(episode, len(own) - 1)]) if own else None
        raise error


def _is_finite(array: np.ndarray) -> bool:
    # 0 · x is 0 for every finite x and NaN otherwise: one product, a fifth of the cost of `isfinite` on a small batch.
    if array.dtype == np.float32 and array.size <= _ZEROS.size:
        return float(array.reshape(-1).dot(_ZEROS[: array.size])) == 0.0
    return int(np.count_nonzero(np.isfinite(array))) == array.size
