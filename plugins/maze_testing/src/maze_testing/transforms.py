"""Conformance of transforms: wrappers that are functions on arrays."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.transform import Transform
from maze_kernel.contracts.vector import ArrayDict, Group, Tick
from maze_testing.conformance import ConformanceError, as_array, require, require_member, same, suite, unchanged


@suite
def check_transform(
    factory: Callable[[], Transform], inner: StructuredSpaces, *, n_samples: int = 16, seed: int = 7
) -> None:
    """Samples of the inner spaces come out in the outer ones, alone as in a batch; nothing is changed in place.

    What a transform says it does not do it does not.

    Args:
        factory: builds an unbound transform; called several times.
        inner: spaces of what it wraps.

    Raises:
        ConformanceError: naming the rule that is broken.
    """
    transform = factory()
    outer = transform.bind(inner)
    require(isinstance(outer, StructuredSpaces), f"bind returns {type(outer).__name__}, not the spaces seen outside")
    require(set(outer.policy_keys) == set(inner.policy_keys), "bind changes the policy keys")
    transform.training = False
    for key in inner.policy_keys:
        observation = _samples(inner.observation[key], n_samples, seed)
        _check_rows(partial(transform.observation, key), observation, outer.observation[key], "observation")
        action = _samples(outer.action[key], n_samples, seed)
        _check_rows(partial(transform.action, key), action, inner.action[key], "action")
        _check_idle(transform, key, observation, action)
    _check_reward(transform, n_samples)
    _check_memory(transform, inner, outer, n_samples, seed)
    _check_state(factory, transform, inner, seed)
    if type(transform).take_partial is not Transform.take_partial:
        _check_sharing(factory, inner, seed)


def _check_reward(transform: Transform, n_samples: int) -> None:
    rewards = np.linspace(-3.0, 5.0, n_samples, dtype=np.float32)
    batch = np.array(unchanged("reward()", transform.reward, rewards))
    require(batch.shape == rewards.shape, f"reward() of {rewards.shape} rewards has shape {batch.shape}")
    single = [float(transform.reward(np.asarray(reward))) for reward in rewards]
    require(np.allclose(batch, single, equal_nan=True), "reward of a batch differs from the rewards one at a time")
    require(bool(np.isfinite(batch).all()), "reward() of finite rewards is not finite")
    idle = transform.changes("reward") or same(batch, rewards)
    require(idle, 'changes("reward") is false, but reward() changes something')


def _check_memory(
    transform: Transform, inner: StructuredSpaces, outer: StructuredSpaces, n_envs: int, seed: int
) -> None:
    """What remembers running episodes returns another tick where it changes something."""
    memory = transform.memory(n_envs)
    if memory is None:
        return
    key = inner.policy_keys[0]
    actions = {key: _samples(outer.action[key], n_envs, seed)}
    for step in range(3):
        tick = _tick(transform, inner, key, n_envs, seed + step)
        before = copy.deepcopy(tick)
        memory.step(actions, tick) if step else memory.reset(tick)
        method = "step" if step else "reset"
        require(same(attrs.asdict(before), attrs.asdict(tick)), f"{method}() of its memory changes the tick in place")


def _tick(transform: Transform, inner: StructuredSpaces, key: PolicyKey, n_envs: int, seed: int) -> Tick:
    """As a memory sees it: the transform's own functions have been applied."""
    observation = transform.observation(key, _samples(inner.observation[key], n_envs, seed))
    group = Group(env_index=np.arange(n_envs), agent_id=np.zeros(n_envs, np.int64), observation=observation)
    return Tick(
        groups={key: group},
        reward=np.arange(n_envs, dtype=np.float32),
        terminated=np.zeros(n_envs, bool),
        truncated=np.zeros(n_envs, bool),
    )


def _check_rows(function: Callable[[ArrayDict], ArrayDict], rows: ArrayDict, space: spaces.Dict, what: str) -> None:
    batch = {name: np.array(array) for name, array in unchanged(f"{what}()", function, rows).items()}
    n = len(next(iter(rows.values())))
    for i in range(n):
        single = function({name: array[i] for name, array in rows.items()})
        require_member(space, single, f"the outcome of {what}()")
        for name, value in single.items():
            agrees = np.allclose(as_array(batch[name])[i], as_array(value), equal_nan=True)
            require(agrees, f"{what}() of a batch differs from one sample at a time in {name!r}")


def _check_idle(transform: Transform, key: str, observation: ArrayDict, action: ArrayDict) -> None:
    idle = transform.changes("observation") or same(observation, transform.observation(key, observation))
    require(idle, 'changes("observation") is false, but observation() changes something')
    idle = transform.changes("action") or same(action, transform.action(key, action))
    require(idle, 'changes("action") is false, but action() changes something')


def _check_state(factory: Callable[[], Transform], transform: Transform, inner: StructuredSpaces, seed: int) -> None:
    transform.training = True
    rows = {key: _samples(inner.observation[key], 8, seed + 1) for key in inner.policy_keys}
    before = copy.deepcopy(transform.state_dict())
    transform.observe_step(rows, np.arange(8, dtype=np.float32), np.arange(8) == 7)
    state = transform.state_dict()
    learns = transform.keeps_running_statistics or same(before, state)
    require(learns, "keeps_running_statistics is false, but observe_step() changes statistics")
    require(transform.saves_state or not state, "saves_state is false, but state_dict() is not empty")
    _require_saveable(state)
    again = factory()
    again.bind(inner)
    again.load_state_dict(state)
    transform.training = again.training = False
    for key, observation in rows.items():
        agrees = same(transform.observation(key, observation), again.observation(key, observation))
        require(agrees, "a transform restored from state_dict() gives other observations")
    reward = np.arange(8, dtype=np.float32)
    require(same(transform.reward(reward), again.reward(reward)), "a restored transform gives other rewards")


def _require_saveable(state: Mapping[str, Any]) -> None:
    try:
        json.dumps(state, default=np.ndarray.tolist)
    except TypeError as error:
        raise ConformanceError(f"state_dict() holds what no checkpoint can: {error}") from error


def _check_sharing(factory: Callable[[], Transform], inner: StructuredSpaces, seed: int) -> None:
    """A copy that merges what another one saw gives what that one gives; what was taken is not given again."""
    seen, merged = factory(), factory()
    rows = {key: _samples(inner.observation[key], 8, seed + 1) for key in inner.policy_keys}
    for transform in (seen, merged):
        transform.bind(inner)
    seen.observe_step(rows, np.arange(8, dtype=np.float32), np.arange(8) == 7)
    merged.finish_estimation([seen.take_partial()])
    before = copy.deepcopy(merged.state_dict())
    merged.finish_estimation([seen.take_partial()])
    require(same(before, merged.state_dict()), "take_partial() gives what it gave before")
    for key, observation in rows.items():
        outer, wanted = merged.observation(key, observation), seen.observation(key, observation)
        agrees = all(np.allclose(as_array(outer[name]), as_array(wanted[name]), atol=1e-6) for name in wanted)
        require(agrees, "a transform that merged take_partial() gives other observations than the one that saw them")
    reward = np.arange(8, dtype=np.float32)
    agrees = np.allclose(merged.reward(reward), seen.reward(reward), atol=1e-6)
    require(agrees, "a transform that merged take_partial() gives other rewards than the one that saw them")


def _samples(space: spaces.Dict, n: int, seed: int) -> ArrayDict:
    space.seed(seed)
    samples = [space.sample() for _ in range(n)]
    return {name: np.stack([np.asarray(sample[name]) for sample in samples]) for name in space.spaces}
