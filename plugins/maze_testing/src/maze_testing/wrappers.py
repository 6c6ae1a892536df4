"""Conformance of wrappers in play: around single environments and around batches, backwards, and cloned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maze_kernel.contracts.env import Action, Observation, StructuredEnv, StructuredSpaces
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.contracts.transform import Transform
from maze_kernel.contracts.vector import Group, Tick, VectorEnv
from maze_runtime.env.episode_transform import EpisodeTransform
from maze_runtime.env.simulation import Cloneable, Imitable
from maze_runtime.env.transformed import TransformedEnv
from maze_runtime.rollout.random_policy import RandomPolicy
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.rollout.vector_transform import TransformedVectorEnv
from maze_testing.conformance import require, require_member, same, suite
from maze_testing.envs import check_env

EnvFactory = Callable[[], StructuredEnv]
Wrap = Callable[[StructuredEnv], StructuredEnv]


@suite
def check_wrapper_in_play(
    wrapper: Callable[[], Transform] | Wrap, env_factory: EnvFactory, *, n_steps: int = 60, seed: int = 7
) -> None:
    """Everything a wrapper promises, on one environment.

    What comes out lies in the spaces it states, final observations included; one environment alone sees what it
    sees in a batch; recorded observations and actions map to the outer spaces and back; a clone goes on exactly as its
    original does (the last two where the environment inside can).

    Args:
        wrapper: builds a transform; or wraps an environment, for an env wrapper.
        env_factory: builds what is wrapped.

    Raises:
        ConformanceError: naming the rule that is broken.
    """
    transform = _transform_factory(wrapper)
    wrap: Any = wrapper if transform is None else _wrapping(transform)
    check_env(lambda: wrap(env_factory()), n_steps=n_steps, seed=seed)
    single = SequentialVectorEnv([lambda: wrap(env_factory())] * 3)
    ticks = _play(single, n_steps, seed)
    _check_members(ticks, single.structured_spaces)
    if transform is not None:
        batch = TransformedVectorEnv(SequentialVectorEnv([env_factory] * 3), _frozen(transform), training=False)
        for step, (one, other) in enumerate(zip(ticks, _play(batch, n_steps, seed), strict=True)):
            require(same(_plain(one), _plain(other)), f"alone and in a batch differ at step {step}")
        _check_mapping(_frozen(transform), env_factory, n_steps, seed)
    _check_recorded_states(wrap(env_factory()), n_steps, seed)
    _check_clone(wrap, env_factory, n_steps, seed)


def _transform_factory(wrapper: Any) -> Callable[[], Transform] | None:
    try:
        return wrapper if isinstance(wrapper(), Transform) else None
    except TypeError:
        return None


def _frozen(factory: Callable[[], Transform]) -> Transform:
    transform = factory()
    transform.training = False
    return transform


def _wrapping(factory: Callable[[], Transform]) -> Wrap:
    return lambda env: TransformedEnv(env, _frozen(factory), training=False)


def _play(envs: VectorEnv, n_steps: int, seed: int) -> list[Tick]:
    policy = RandomPolicy(PolicyContext(spaces=envs.structured_spaces, seed=seed))
    ticks = [_copied(tick := envs.reset([[seed], [seed + 1], [seed + 2]]))]
    for _ in range(n_steps):
        tick = envs.step({key: policy.act(key, group) for key, group in tick.groups.items()})
        ticks.append(_copied(tick))
    envs.close()
    return ticks


def _copied(tick: Tick) -> Tick:
    """Arrays of a tick are overwritten later."""
    parts: list[Any] = [*tick.groups.values(), *tick.final_observation.values()]
    for part in parts:
        part.observation = {name: np.array(array) for name, array in part.observation.items()}
        part.env_index = part.env_index.copy()
    tick.reward = tick.reward.copy()
    tick.terminated, tick.truncated = tick.terminated.copy(), tick.truncated.copy()
    return tick


def _plain(tick: Tick) -> Any:
    both: list[dict[str, Any]] = [dict(tick.groups), dict(tick.final_observation)]
    rows = [{key: (part.env_index, part.observation) for key, part in parts.items()} for parts in both]
    return [*rows, tick.reward, tick.terminated, tick.truncated]


def _check_members(ticks: list[Tick], spaces: StructuredSpaces) -> None:
    for tick in ticks:
        both: dict[str, Any] = {"an observation": tick.groups, "a final observation": tick.final_observation}
        for what, parts in both.items():
            for key, part in parts.items():
                for i in range(len(part.env_index)):
                    row = {name: array[i] for name, array in part.observation.items()}
                    require_member(spaces.observation[key], row, what)


def _check_mapping(transform: Transform, env_factory: EnvFactory, n_steps: int, seed: int) -> None:
    """A recording of the inner environment maps to what the wrapped one shows, and actions survive the way back."""
    env, inner_env = TransformedEnv(env_factory(), transform, training=False), env_factory()
    episode = EpisodeTransform([transform])
    shown, recorded = env.reset(seed=seed)[0], inner_env.reset(seed=seed)[0]
    mapped = episode.observation(env.actor_id(), _arrays(recorded))
    for step in range(n_steps):
        require(same(_arrays(shown), _arrays(mapped)), f"a recorded observation maps to another one at step {step}")
        key, outer = env.actor_id().step_key, _action(env, shown, seed + step)
        inner = episode.action(key, outer)
        again = episode.action(key, episode.reverse_action(key, inner))
        require(same(_arrays(again), _arrays(inner)), "an action that was mapped back means another one")
        shown, _, terminated, truncated, _ = env.step(outer)
        recorded = inner_env.step(inner)[0]
        if terminated or truncated:
            shown, recorded = env.reset()[0], inner_env.reset()[0]
            episode.begin()
        mapped = episode.observation(env.actor_id(), _arrays(recorded), (key, outer))
    env.close()
    inner_env.close()


def _check_recorded_states(env: Any, n_steps: int, seed: int) -> None:
    """A MazeState of a recording maps to the observation that was shown."""
    innermost = env
    while hasattr(innermost, "env"):
        innermost = innermost.env
    memory = getattr(env, "_memory", None)
    if not isinstance(innermost, Imitable) or memory is not None:
        return
    maze_env: Any = innermost
    observation = env.reset(seed=seed)[0]
    for step in range(n_steps):
        key, state = env.actor_id().step_key, maze_env.get_maze_state()
        require(same(_arrays(env.to_spaces(key, state)[0]), _arrays(observation)), "a recorded state maps elsewhere")
        observation, _, terminated, truncated, _ = env.step(_action(env, observation, seed + step))
        if terminated or truncated:
            observation = env.reset()[0]
    env.close()


def _check_clone(wrap: Wrap, env_factory: EnvFactory, n_steps: int, seed: int) -> None:
    original, clone = wrap(env_factory()), wrap(env_factory())
    observation = original.reset(seed=seed)[0]
    clone.reset(seed=seed + 1)
    for step in range(n_steps // 3):
        observation, _, terminated, truncated, _ = original.step(_action(original, observation, seed + step))
        if terminated or truncated:
            observation = original.reset()[0]
    require(isinstance(clone, Cloneable), "the wrapper has no clone_from")
    if not isinstance(env_factory(), Cloneable):
        return
    clone.clone_from(original)  # type: ignore[attr-defined]
    for step in range(n_steps):
        require(clone.actor_id() == original.actor_id(), "a clone asks another actor")
        action = _action(original, observation, seed - step - 1 + n_steps)
        result, copied = original.step(action), clone.step(action)
        require(same(_result(result), _result(copied)), f"a clone goes another way after {step} steps")
        observation = result[0]
        if result[2] or result[3]:
            return


def _result(result: tuple[Observation, float, bool, bool, Any]) -> Any:
    return [_arrays(result[0]), float(result[1]), bool(result[2]), bool(result[3])]


def _arrays(values: Any) -> dict[str, np.ndarray]:
    return {name: np.array(value) for name, value in values.items()}


def _action(env: StructuredEnv, observation: Observation, seed: int) -> Action:
    key, agent = env.actor_id()
    rows = {name: np.asarray(value)[None] for name, value in observation.items()}
    group = Group(env_index=np.zeros(1, np.int64), agent_id=np.array([agent]), observation=rows)
    policy = RandomPolicy(PolicyContext(spaces=env.structured_spaces, seed=seed))
    return {head: action[0] for head, action in policy.act(key, group).items()}
