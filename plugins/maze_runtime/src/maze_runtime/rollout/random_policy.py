"""The policy that acts at random: a baseline, a sampler for statistics, and the start of off-policy training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.contracts.vector import ArrayDict, Group
from maze_kernel.errors import SpaceError
from maze_runtime.env.box_bounds import bounds_of
from maze_runtime.env.mask_reading import mask_names


class RandomPolicy:
    """Samples every head uniformly; unbounded sides of a Box are normal or exponential, as in Gymnasium.

    Masks are the observations that `mask_names` finds in the spaces, `<head>_mask` or `action_mask`:
    (n, K) for Discrete(K), (n, sum of nvec) for MultiDiscrete, the shape of the action for MultiBinary;
    nonzero means allowed. A row that allows nothing is sampled as if there were no mask: only an observation
    that nobody decides on may look like that. `deterministic` changes nothing; a uniform distribution has no mode.

    Raises:
        SpaceError: a head is no Discrete, MultiDiscrete, MultiBinary or Box space.
    """

    def __init__(self, context: PolicyContext) -> None:
        self._actions = {key: dict(action.spaces) for key, action in context.spaces.action.items()}
        observations = context.spaces.observation
        self._masks = {key: mask_names(observations[key], space) for key, space in context.spaces.action.items()}
        for key, heads in self._actions.items():
            for head, space in heads.items():
                if not isinstance(space, (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box)):
                    raise SpaceError(
                        f"the random policy cannot sample head {head!r} of policy {key!r}",
                        received=str(space),
                        expected="Discrete, MultiDiscrete, MultiBinary or Box",
                    )
        self.seed(context.seed)

    def act(self, policy_key: PolicyKey, group: Group, *, deterministic: bool = False) -> ArrayDict:
        """Actions by head, (n, ...) in the dtype of the head's space."""
        n, masks = len(group.env_index), {}
        for head, name in self._masks[policy_key].items():
            masks[head] = np.asarray(group.observation[name]) != 0
        return {
            head: _sample(space, n, masks.get(head), self._rng) for head, space in self._actions[policy_key].items()
        }

    def begin_episodes(self, env_index: np.ndarray) -> None:
        """Nothing is remembered between steps."""

    def seed(self, seed: int) -> None:
        """Start the random stream again."""
        self._rng = np.random.default_rng(seed)

    def state_dict(self) -> dict[str, Any]:
        """The random state, JSON values."""
        return {"rng": dict(self._rng.bit_generator.state)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the stream that `state_dict` described."""
        self._rng.bit_generator.state = dict(state["rng"])


def _sample(space: spaces.Space[Any], n: int, mask: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """(n, *space.shape) actions."""
    if isinstance(space, spaces.Discrete):
        return np.asarray(space.start + _choices(int(space.n), n, mask, rng), dtype=space.dtype)
    if isinstance(space, spaces.MultiDiscrete):
        return _multi_discrete(space, n, mask, rng)
    if isinstance(space, spaces.MultiBinary):
        bits = rng.integers(0, 2, size=(n, *space.shape), dtype=np.int8)
        return bits if mask is None else np.where(mask.reshape(bits.shape), bits, np.int8(0))
    assert isinstance(space, spaces.Box)
    return _box(space, n, rng)


def _choices(n_actions: int, n: int, mask: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """(n,) indices, uniform over the allowed ones: the allowed index that drew the largest number."""
    if mask is None:
        return rng.integers(0, n_actions, size=n)
    allowed = mask.reshape(n, n_actions)
    allowed = allowed | ~allowed.any(axis=1, keepdims=True)
    drawn = np.where(allowed, rng.random((n, n_actions)), -1.0)
    index: np.ndarray = np.argmax(drawn, axis=1)
    return index


def _multi_discrete(
    space: spaces.MultiDiscrete, n: int, mask: np.ndarray | None, rng: np.random.Generator
) -> np.ndarray:
    if mask is None:
        indices = rng.integers(0, space.nvec, size=(n, *space.shape))
    else:
        sizes = space.nvec.ravel()
        parts = np.split(mask.reshape(n, -1), np.cumsum(sizes)[:-1], axis=1)
        columns = [_choices(int(size), n, part, rng) for size, part in zip(sizes, parts, strict=True)]
        indices = np.stack(columns, axis=1).reshape(n, *space.shape)
    return np.asarray(space.start + indices, dtype=space.dtype)


def _box(space: spaces.Box, n: int, rng: np.random.Generator) -> np.ndarray:
    """Uniform between finite bounds; beyond one finite bound exponential; without bounds normal."""
    shape = (n, *space.shape)
    below, above, *_ = bounds_of(space)
    if np.issubdtype(space.dtype, np.integer) and below.all() and above.all():
        low_int: Any = space.low
        high_int: Any = space.high
        integer_type: Any = space.dtype
        return rng.integers(low_int, high_int, size=shape, dtype=integer_type, endpoint=True)
    low = np.where(below, space.low, 0.0).astype(np.float64)
    high = np.where(above, space.high, 0.0).astype(np.float64)
    sample = rng.standard_normal(shape)
    u, distance = rng.random(shape), rng.exponential(size=shape)
    sample = np.where(below & above, low * (1.0 - u) + high * u, sample)
    sample = np.where(below & ~above, low + distance, sample)
    sample = np.where(above & ~below, high - distance, sample)
    if np.issubdtype(space.dtype, np.integer):
        sample = np.floor(sample)
    return np.clip(sample.astype(space.dtype), space.low, space.high)
