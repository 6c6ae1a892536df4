"""Conformance of environments and of wrappers around one environment."""

from __future__ import annotations

import inspect
import math
import numbers
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from maze_kernel.catalog import build
from maze_kernel.contracts.capabilities import capability
from maze_kernel.contracts.env import Action, Observation, StructuredEnv
from maze_kernel.errors import EnvError
from maze_runtime.env.actors import require_departed
from maze_runtime.env.departures import ReportsDepartures
from maze_runtime.env.division import DividesReward, MisdividedWarning
from maze_testing.conformance import ConformanceError, require, require_member, same, suite, unchanged

METHODS = (
    *("structured_spaces", "reset", "step", "actor_id", "is_actor_done", "is_flat_step_end", "get_actor_rewards"),
    *("render", "close"),
)
"""What a `StructuredEnv` has."""


@suite
def check_env(factory: Callable[[], Any], *, n_steps: int = 200, seed: int = 7) -> None:
    """Play with random actions: spaces agree with what comes out, episodes restart, seeds decide everything.

    Args:
        factory: builds one environment, a `StructuredEnv` or one of a library that an installed plugin adapts, such as
            a `gymnasium.Env`; a class that needs no arguments is a factory. Called several times.
        n_steps: decisions to play.
        seed: of the first episode and of the actions.

    Raises:
        ConformanceError: naming the rule that is broken.
    """
    first, second = _play(factory, n_steps, seed), _play(factory, n_steps, seed)
    for step, (one, other) in enumerate(zip(first, second, strict=True)):
        require(same(one, other), f"two environments with one seed and the same actions differ at step {step}")


@suite
def check_wrapper(
    factory: Callable[[StructuredEnv], StructuredEnv], env_factory: Callable[[], StructuredEnv], *, n_steps: int = 200
) -> None:
    """An env wrapper is an environment, and closes what it wraps.

    Raises:
        ConformanceError: naming the rule that is broken.
    """
    check_env(lambda: factory(env_factory()), n_steps=n_steps)
    inner = env_factory()
    closed: list[bool] = []
    close = inner.close
    inner.close = lambda: (closed.append(True), close())[1]  # type: ignore[func-returns-value,method-assign]
    factory(inner).close()
    require(bool(closed), "close() of the wrapper does not close the environment inside")


def _play(factory: Callable[[], Any], n_steps: int, seed: int) -> list[Any]:
    env = _adapted(_built(factory))
    missing = [name for name in METHODS if not hasattr(env, name)]
    require(not missing, f"it lacks {', '.join(missing)} of StructuredEnv, and no installed plugin knows it otherwise")
    try:
        keys = set(env.structured_spaces.policy_keys)
        require(keys == set(env.structured_spaces.observation), "observation and action spaces have different keys")
        return list(_steps(env, n_steps, seed))
    finally:
        env.close()


def _built(factory: Callable[[], Any]) -> Any:
    """What the factory makes; one that cannot be called is told apart from one that raises."""
    name = getattr(factory, "__qualname__", type(factory).__qualname__)
    require(callable(factory), f"it is {name!r} itself, not a factory: pass a function that builds it anew")
    if isinstance(factory, type):
        try:
            needed = [p for p in inspect.signature(factory).parameters.values() if _is_needed(p)]
        except ValueError:  # a class that shows no signature
            needed = []
        names = ", ".join(parameter.name for parameter in needed)
        require(not needed, f"the class {name} needs arguments ({names}): pass lambda: {name}(…)")
    return factory()


def _is_needed(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in (
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
    )


def _require_whole(env: Any) -> None:
    """Say what a Gymnasium environment lacks, which its adapter takes for granted."""
    import gymnasium

    if not isinstance(env, gymnasium.Env):
        return
    missing = [name for name in ("observation_space", "action_space") if not _has_space(env, name)]
    of_base = env.unwrapped
    missing += [name for name in ("reset", "step") if getattr(type(of_base), name) is getattr(gymnasium.Env, name)]
    require(not missing, f"it lacks {', '.join(missing)} of gymnasium.Env")
    result = env.reset(seed=0)
    is_pair = isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)
    require(is_pair, f"reset must return (observation, info), and returned a {type(result).__name__}")


def _has_space(env: Any, name: str) -> bool:
    from gymnasium.spaces import Space

    return isinstance(getattr(env, name, None), Space)


def _adapted(env: Any) -> Any:
    """An environment of another library, wrapped by the plugin that knows it; everything else as it is."""
    if any(hasattr(env, name) for name in ("structured_spaces", "actor_id")):
        return env
    from maze_kernel.loader import Kernel
    from maze_runtime.run.env_factory import adapters_of

    _require_whole(env)
    wrapped = (build(adapter, env) for adapter in adapters_of(Kernel.installed().catalog))
    return next((found for found in wrapped if found is not None), env)


def _steps(env: StructuredEnv, n_steps: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    observation, info = env.reset(seed=seed)
    _check_observation(env, observation, "the first observation")
    require(isinstance(info, dict), f"reset returned info of type {type(info).__name__}")
    yield _copy(observation)
    n_sub_steps = 0
    for step in range(n_steps):
        result = unchanged("step()", env.step, _action(env, observation, rng))
        require(isinstance(result, tuple) and len(result) == 5, "step must return five values")
        observation, reward, terminated, truncated, info = result
        _check_observation(env, observation, f"the observation of step {step}")
        require(_is_finite_number(reward), f"reward {reward!r} is not one finite number")
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            require(isinstance(flag, (bool, np.bool_)), f"{name} is {flag!r}, not a bool")
        require(isinstance(info, dict), f"step returned info of type {type(info).__name__}")
        require(isinstance(env.is_flat_step_end(), (bool, np.bool_)), "is_flat_step_end() returns no bool")
        require(isinstance(env.is_actor_done(), (bool, np.bool_)), "is_actor_done() returns no bool")
        _check_departures(env)
        n_sub_steps += 1
        if env.is_flat_step_end():
            _check_actor_rewards(env, n_sub_steps)
        if env.is_flat_step_end() or terminated or truncated:
            n_sub_steps = 0
        yield _copy(observation), float(reward), bool(terminated), bool(truncated), tuple(env.actor_id())
        if terminated or truncated:
            observation, _ = env.reset()
            _check_observation(env, observation, "the observation after a second reset")


def _is_finite_number(reward: Any) -> bool:
    if isinstance(reward, (np.generic, np.ndarray)):
        return reward.ndim == 0 and reward.dtype.kind in "biuf" and bool(np.isfinite(reward))
    return isinstance(reward, numbers.Real) and math.isfinite(reward)


def _check_observation(env: StructuredEnv, observation: Observation, what: str) -> None:
    key, agent = env.actor_id()
    require(key in env.structured_spaces.policy_keys, f"actor_id() names policy key {key!r}, which has no spaces")
    count = env.structured_spaces.agent_counts.get(key, 0)
    require(agent >= 0 and (count < 0 or agent < count), f"actor_id() names agent {agent} of {count} of key {key!r}")
    require_member(env.structured_spaces.observation[key], observation, what)


def _check_departures(env: StructuredEnv) -> None:
    reports = capability(env, ReportsDepartures)  # type: ignore[type-abstract]
    if reports is None or not (departed := reports.departed_actors()):
        return
    try:
        require_departed(env.structured_spaces, departed)
    except EnvError as error:
        raise ConformanceError(f"{error.what}: {error.received}, expected {error.expected}") from None


def _check_actor_rewards(env: StructuredEnv, n_sub_steps: int) -> None:
    divides = capability(env, DividesReward)  # type: ignore[type-abstract]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MisdividedWarning)  # an error below
        rewards = env.get_actor_rewards()
    if rewards is not None:
        shape = np.shape(rewards)
        require(shape == (n_sub_steps,), f"get_actor_rewards() gives shape {shape} for {n_sub_steps} decisions")
    problem = None if divides is None else divides.division_problem()
    if problem is not None:
        raise ConformanceError(f"{problem.what}: {problem.total:g} instead of {problem.reward:g}")


def _action(env: StructuredEnv, observation: Observation, rng: np.random.Generator) -> Action:
    from maze_kernel.contracts.model import PolicyContext
    from maze_kernel.contracts.vector import Group
    from maze_runtime.rollout.random_policy import RandomPolicy

    key, agent = env.actor_id()
    rows = {name: np.asarray(value)[None] for name, value in observation.items()}
    group = Group(env_index=np.zeros(1, np.int64), agent_id=np.array([agent]), observation=rows)
    policy = RandomPolicy(PolicyContext(spaces=env.structured_spaces, seed=int(rng.integers(2**31))))
    return {head: action[0] for head, action in policy.act(key, group).items()}


def _copy(observation: Observation) -> dict[str, np.ndarray]:
    return {name: np.array(value) for name, value in observation.items()}
