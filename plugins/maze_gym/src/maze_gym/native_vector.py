"""Natively vectorised Gymnasium environments as Maze vector environments, in all three autoreset modes.

* NEXT_STEP: the row of an ended episode is its last observation, and the environment's next step only resets it.
  `Tick.awaiting_reset` marks such rows; the decision made on one is void.
* SAME_STEP: the last observation is taken from `infos["final_obs"]`.
* DISABLED: ended environments are reset here, through `options={"reset_mask": ...}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, NoReturn

import gymnasium
import numpy as np
from gymnasium import error as gym_error
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from maze_gym.making import keyword_arguments, make_gym_env, require_spec
from maze_gym.masks import (
    INFO_KEY,
    MaskReader,
    find_mask_reader,
    first_row,
    mask_in_observation,
    mask_method,
    refuse_unread_mask,
)
from maze_gym.options import GymOptions
from maze_gym.returned import final_observation, final_rows, of_reset, of_step, require_row_each
from maze_gym.space_adapter import SpaceAdapter
from maze_kernel.contracts.env import FLAT_KEY, PolicyKey
from maze_kernel.contracts.vector import ArrayDict, FinalObservation, Group, Tick
from maze_kernel.errors import EnvError, MazeError, RequestError
from maze_runtime.env.flat import flat_spaces
from maze_runtime.env.partial_reset import PartialResets
from maze_runtime.env.tracebacks import ALONE, user_traceback


def make_vector_env(n_envs: int, options: GymOptions) -> NativeVectorEnv | None:
    """The natively vectorised form of an id; None where it has none or these options rule it out.

    Raises:
        Exception: whatever its constructor raises, but for arguments that it does not know and packages that it lacks.
    """
    if not isinstance(options.id, str) or ":" in options.id:
        return None
    spec = require_spec(options.id)
    if spec.vector_entry_point is None or spec.additional_wrappers:
        return None
    kwargs = keyword_arguments(options)
    if options.max_episode_steps is not None:
        kwargs["max_episode_steps"] = options.max_episode_steps
    try:
        env = gymnasium.make_vec(options.id, n_envs, vectorization_mode="vector_entry_point", **kwargs)
    except (ModuleNotFoundError, gym_error.Error):
        return None
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        return None
    if not _is_batch_of(env, options):
        env.close()
        return None
    if options.action_mask == "method" or (options.action_mask == "auto" and mask_method(env) is not None):
        env.close()
        return None
    _speed_up_action_check(env.unwrapped)
    return NativeVectorEnv(env, action_mask=options.action_mask)


def _is_batch_of(env: VectorEnv[Any, Any, Any], options: GymOptions) -> bool:
    """Whether the batch has the spaces of a single environment; that of the Atari games prepares its frames itself."""
    single = make_gym_env(options)
    spaces_of_one = single.observation_space, single.action_space
    single.close()
    return spaces_of_one == (env.single_observation_space, env.single_action_space)


class _BoundedOnce(spaces.MultiDiscrete):
    """A MultiDiscrete space that works out its largest element once instead of at every membership test."""

    def __init__(self, space: spaces.MultiDiscrete) -> None:
        super().__init__(space.nvec, dtype=space.dtype, seed=space.np_random, start=space.start)
        self._last = self.start + (self.nvec - 1)
        counts_from_zero = self.dtype == np.int64 and not self.start.any()
        self._last_unsigned = self._last.astype(np.uint64) if counts_from_zero else None

    def contains(self, x: Any) -> bool:
        if not isinstance(x, np.ndarray):
            return super().contains(x)
        if x.dtype == np.int64 and x.shape == self.shape and self._last_unsigned is not None:
            return not np.count_nonzero(x.view(np.uint64) > self._last_unsigned)  # a negative one is very large there
        if x.shape != self.shape or not np.can_cast(x.dtype, self.dtype):
            return False
        return bool(((self.start <= x) & (x <= self._last)).all())


def _speed_up_action_check(env: Any) -> None:
    """The environments of classic control assert at every step that the action is in their space."""
    if type(env.action_space) is spaces.MultiDiscrete:
        env.action_space = _BoundedOnce(env.action_space)


class NativeVectorEnv:
    """Implements `VectorEnv` around a `gymnasium.vector.VectorEnv`.

    Observations are the environment's own arrays and stay as they are until the next `step` or `reset`;
    rewards, flags and final observations are copies.

    Args:
        env: the batch; closed with this one.
        action_mask: see `GymOptions.action_mask`.

    Raises:
        SpaceError: spaces without an array form.
        RequestError: the environment does not say how it resets.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], *, action_mask: str = "auto") -> None:
        self.env = env
        self.n_envs = int(env.num_envs)
        self._mode = autoreset_mode(env)
        self._observations = SpaceAdapter(env.single_observation_space, "observation")
        self._actions = SpaceAdapter(env.single_action_space, "action")
        keys = self._observations.outer.spaces
        self._masks = self._find_masks(action_mask, keys)
        self._refuses_masks = action_mask == "auto" and not mask_in_observation(keys, self._actions.outer)
        mask_spaces = self._masks.spaces if self._masks is not None else {}
        self.structured_spaces = flat_spaces(spaces.Dict({**keys, **mask_spaces}), self._actions.outer)
        self._shapes = {leaf.key: (self.n_envs, *(leaf.outer.shape or ())) for leaf in self._observations.leaves}
        self._rows = (self.n_envs,)
        self._env_index = np.arange(self.n_envs)
        self._agent_id = np.zeros(self.n_envs, np.int64)
        self._ended = np.zeros(self.n_envs, np.bool_)
        self._any_ended = False
        self._partial_resets = PartialResets("environments")
        self._seed: Any = None  # a list of seeds is more than the annotation of VectorEnv.reset admits
        self._ticks = 0

    def reset(self, seeds: Sequence[Sequence[int]]) -> Tick:
        """Start new episodes everywhere; reads the first seed (with Sync and AsyncVectorEnv: of each environment)."""
        if len(seeds) != self.n_envs:
            raise RequestError("one seed sequence an environment", received=str(len(seeds)), expected=str(self.n_envs))
        first = [sequence[0] if len(sequence) else None for sequence in seeds]
        one_by_one = isinstance(self.env.unwrapped, (SyncVectorEnv, AsyncVectorEnv))
        self._seed = list(first) if one_by_one else first[0]
        self._ticks = 0
        try:
            raw, infos = of_reset(self.env.reset(seed=self._seed))
        except Exception as error:
            self._raise(error, "reset")
        observation = self._observations.decode(raw)
        self._check_shapes(observation)
        self._any_ended = False
        if self._masks is not None:
            observation.update(self._read_masks(self._masks, infos, np.zeros(self.n_envs, np.bool_)))
        elif self._refuses_masks:
            refuse_unread_mask(infos, self._actions.outer)
        flags = np.zeros((2, self.n_envs), np.bool_)
        return self._tick(observation, np.zeros(self.n_envs, np.float32), flags[0], flags[1])

    def step(self, actions: Mapping[PolicyKey, ArrayDict]) -> Tick:
        """Take one decision everywhere; see `VectorEnv.step`."""
        self._ticks += 1
        try:
            result = self.env.step(self._actions.encode(actions[FLAT_KEY]))
            if self._ticks == 1:
                self._check_step(result)
            raw, reward, terminated, truncated, infos = result
            observation = self._observations.decode(raw)
            reward = np.array(reward, np.float32)
            terminated, truncated = np.array(terminated, np.bool_), np.array(truncated, np.bool_)
            if not self._fits(observation, reward, terminated, truncated):
                self._check_step(result)
        except Exception as error:
            self._raise(error, "step")
        if self._any_ended and self._mode is AutoresetMode.NEXT_STEP:
            void = self._ended
            reward[void], terminated[void], truncated[void] = 0.0, False, False
        ended = terminated | truncated
        self._ended, self._any_ended = ended, bool(np.count_nonzero(ended))
        if self._masks is None and not self._any_ended:
            return self._tick(observation, reward, terminated, truncated)
        return self._tick_with_ends(observation, reward, terminated, truncated, infos)

    def render(self) -> Any:
        """Frames of all environments where the batch draws them."""
        return self.env.render()

    def close(self) -> None:
        """Close the batch."""
        self.env.close()

    def _tick(self, observation: ArrayDict, reward: Any, terminated: Any, truncated: Any) -> Tick:
        group = Group(self._env_index, self._agent_id, observation)
        return Tick({FLAT_KEY: group}, reward, terminated, truncated)

    def _tick_with_ends(
        self, observation: ArrayDict, reward: Any, terminated: Any, truncated: Any, infos: Mapping[str, Any]
    ) -> Tick:
        ended = self._ended
        final = self._final_rows(observation, infos) if self._any_ended else {}
        begun: Mapping[str, Any] | None = None
        if self._any_ended and self._mode is AutoresetMode.DISABLED:
            observation, begun = self._reset_ended(observation)
        if self._masks is not None:
            masks = self._read_masks(self._masks, infos if begun is None or INFO_KEY in infos else begun, ended)
            if begun is not None:
                for key, array in self._read_masks(self._masks, begun, ~ended).items():
                    masks[key][ended] = array[ended]
            observation.update(masks)
        tick = self._tick(observation, reward, terminated, truncated)
        if final:
            tick.final_observation[FLAT_KEY] = FinalObservation(ended.nonzero()[0], final)
            if self._mode is AutoresetMode.NEXT_STEP:
                tick.awaiting_reset = ended
        return tick

    def _final_rows(self, observation: ArrayDict, infos: Mapping[str, Any]) -> ArrayDict:
        """Copies of the last observations of the episodes that ended, (m, ...)."""
        rows = self._ended.nonzero()[0]
        if self._mode is AutoresetMode.SAME_STEP:
            try:
                final = final_rows(final_observation(infos), rows, self.n_envs, self._observations.decode)
            except Exception as error:
                self._raise(error, 'infos["final_obs"]')
            infos = infos.get("final_info", {})
        else:
            final = {key: array[rows] for key, array in observation.items()}
        if self._masks is not None:
            masks = self._all_masks(self._masks, infos, self._has_mask(infos))
            final.update({key: array[rows] for key, array in masks.items()})
        return final

    def _reset_ended(self, before: ArrayDict) -> tuple[ArrayDict, Mapping[str, Any]]:
        def reset() -> tuple[ArrayDict, Any]:
            raw, reset_infos = of_reset(self.env.reset(options={"reset_mask": self._ended.copy()}))
            return self._observations.decode(raw), reset_infos

        try:
            return self._partial_resets.watch(reset, self._ended, lambda: before, itemgetter(0))
        except Exception as error:
            self._raise(error, "reset of the environments that ended")

    def _find_masks(self, wanted: str, keys: Mapping[str, Any]) -> MaskReader | None:
        def probe() -> Mapping[str, Any]:
            _, infos = of_reset(self.env.reset())
            mask = infos.get(INFO_KEY)
            return {} if mask is None else {INFO_KEY: first_row(mask)}

        # A batch has one mask method for all rows, so only masks from info and observation are read natively.
        if wanted == "method":
            raise RequestError(
                "a natively vectorised environment cannot read masks from a method",
                owner="maze-gym",
                help='set [vector] mode = "sequential"',
            )
        return find_mask_reader(None, wanted, keys, self._actions.outer, probe)

    def _read_masks(self, masks: MaskReader, infos: Mapping[str, Any], excused: np.ndarray) -> ArrayDict:
        """The masks of all rows; those that are excused need none, and allow everything without."""
        present = self._has_mask(infos)
        if missing := np.flatnonzero(~present & ~excused).tolist():
            raise EnvError("the action mask is missing from info", owner=f"environment {missing[0]}, {self._where()}")
        return self._all_masks(masks, infos, present)

    def _has_mask(self, infos: Mapping[str, Any]) -> np.ndarray:
        """(N,) which rows have a mask in `infos`, as Gymnasium's batches say beside it."""
        return np.asarray(infos.get(f"_{INFO_KEY}", np.full(self.n_envs, infos.get(INFO_KEY) is not None)))

    def _all_masks(self, masks: MaskReader, infos: Mapping[str, Any], present: np.ndarray) -> ArrayDict:
        """The masks of all rows, all ones where a row has none."""
        allowed = masks.all_allowed((self.n_envs,))
        raw = infos.get(INFO_KEY)
        if raw is None:
            return allowed
        rows = masks.split(_rows(raw, allowed), (self.n_envs,))
        return {key: np.where(present[:, None], array, allowed[key]) for key, array in rows.items()}

    def _fits(self, observation: ArrayDict, reward: Any, terminated: Any, truncated: Any) -> bool:
        """Whether shapes are those of the batch: a glance at each step. `_check_step` says what does not fit."""
        shapes = {key: getattr(array, "shape", None) for key, array in observation.items()}
        return shapes == self._shapes and reward.shape == terminated.shape == truncated.shape == self._rows

    def _check_step(self, result: Any) -> None:
        raw, reward, terminated, truncated, _ = of_step(result)
        self._check_shapes(self._observations.decode(raw))
        require_row_each(self.n_envs, reward=reward, terminated=terminated, truncated=truncated)

    def _check_shapes(self, observation: ArrayDict) -> None:
        for key, expected in self._shapes.items():
            if np.shape(observation[key]) != expected:
                raise EnvError(
                    f"the batched observation {key!r} does not fit its space",
                    received=f"shape {np.shape(observation[key])}",
                    expected=f"shape {expected}",
                    owner=self._where(),
                )

    def _where(self) -> str:
        return f"native vector environment, seed {self._seed}, step {self._ticks} since reset"

    def _raise(self, error: Exception, phase: str) -> NoReturn:
        seed = self._seed[0] if isinstance(self._seed, list) else self._seed
        if isinstance(error, MazeError):
            if isinstance(error, EnvError):
                error.owner, error.seed = error.owner or self._where(), seed
            raise error
        raised = EnvError(f"its {phase} raised {type(error).__name__}: {error}", owner=self._where(), help=ALONE)
        raised.user_traceback, raised.seed = user_traceback(error), seed
        raise raised from error


def autoreset_mode(env: Any, owner: str = "maze-gym") -> AutoresetMode:
    """When a batch, which has `metadata`, starts the next episode.

    Raises:
        RequestError: its metadata name no mode that Gymnasium knows.
    """
    mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
    try:
        return AutoresetMode(mode)
    except ValueError:
        raise RequestError(
            "the vector environment's metadata names an unknown autoreset mode",
            received=repr(mode),
            expected=", ".join(str(known) for known in AutoresetMode),
            owner=owner,
        )


def _rows(raw: Any, example: ArrayDict) -> Any:
    """Batched masks without the rows that Gymnasium left as None."""
    if not isinstance(raw, np.ndarray) or raw.dtype != object:
        return raw
    blank = np.concatenate([array[0] for array in example.values()])
    return np.stack([blank if row is None else np.concatenate([np.ravel(part) for part in row]) for row in raw])
