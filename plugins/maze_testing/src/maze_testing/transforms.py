"""Conformance of transforms: wrappers that are functions on arrays."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import partial

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.transform import Transform
from maze_kernel.contracts.vector import ArrayDict
from maze_testing.conformance import as_array, require, require_member, same


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
    require(set(outer.policy_keys) == set(inner.policy_keys), "bind changes the policy keys")
    transform.training = False
    for key in inner.policy_keys:
        observation = _samples(inner.observation[key], n_samples, seed)
        _check_rows(partial(transform.observation, key), observation, outer.observation[key], "observation")
        action = _samples(outer.action[key], n_samples, seed)
        _check_rows(partial(transform.action, key), action, inner.action[key], "action")
        _check_idle(transform, key, observation, action)
    rewards = np.linspace(-3.0, 5.0, n_samples, dtype=np.float32)
    batch = as_array(transform.reward(rewards.copy()))
    single = [float(transform.reward(np.asarray(reward))) for reward in rewards]
    require(np.allclose(batch, single), "reward of a batch differs from the rewards one at a time")
    idle = transform.changes("reward") or same(batch, rewards)
    require(idle, 'changes("reward") is false, but reward() changes something')
    _check_state(factory, transform, inner, seed)
    if type(transform).take_partial is not Transform.take_partial:
        _check_sharing(factory, inner, seed)


def _check_rows(function: Callable[[ArrayDict], ArrayDict], rows: ArrayDict, space: spaces.Dict, what: str) -> None:
    before = {name: array.copy() for name, array in rows.items()}
    batch = {name: np.array(array) for name, array in function(rows).items()}
    require(same(before, rows), f"{what}() changes its argument in place")
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
    json.dumps(state, default=np.ndarray.tolist)
    again = factory()
    again.bind(inner)
    again.load_state_dict(state)
    transform.training = again.training = False
    for key, observation in rows.items():
        agrees = same(transform.observation(key, observation), again.observation(key, observation))
        require(agrees, "a transform restored from state_dict() gives other observations")
    reward = np.arange(8, dtype=np.float32)
    require(same(transform.reward(reward), again.reward(reward)), "a restored transform gives other rewards")


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
