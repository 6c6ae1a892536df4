"""The sequential vector environment: N environments of this process, stepped one after the other.

Flat environments take a path of their own that writes straight into preallocated arrays. Structured ones are
grouped each tick by the policy key of their active actor, in the order of the spaces; they need not be in step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from maze_kernel.contracts.env import Observation, PolicyKey, StructuredEnv
from maze_kernel.contracts.events import EpisodeStatistics
from maze_kernel.contracts.vector import ArrayDict, Tick
from maze_kernel.errors import EnvError, MazeError, RequestError
from maze_runtime.env.batching import check_observation, check_same_spaces, scalar_reward, spaces_of
from maze_runtime.env.returned import PARTS
from maze_runtime.env.tracebacks import ALONE, traceback_of, user_traceback
from maze_runtime.events.raw_reward import raw_reward_of
from maze_runtime.events.reporters import reporter_of
from maze_runtime.rollout.episode_seeds import EpisodeSeeds
from maze_runtime.rollout.rows import Final, FlatRows, StructuredRows

_RAISED = (Exception, SystemExit)
"""What an environment may raise. An exit, as that of a window that is closed, would end the run in silence."""


class SequentialVectorEnv:
    """Implements `VectorEnv` with same-step autoreset: no row ever awaits a reset.

    When an episode ends, its last observation is in `Tick.final_observation` and the observation row is already
    that of the new episode.

    Buffers are double: arrays of the tick that call k (`reset` or `step`) returned stay as they are during call
    k+1 and are overwritten by call k+2. Final observations and infos are never overwritten.

    Args:
        env_factories: build one environment each; all must have equal spaces.
        keep_infos: fill `Tick.infos` with the non-empty info dicts of each step (of the last step of an episode
            where it ended, of the reset otherwise only after `reset`).
        first_index: number of the first environment in messages, where the batch is part of a larger one.
        checks_steps: compare what each `step` returns with its space; otherwise the first step of each environment,
            what `reset` returns and last observations.

    Raises:
        EnvError: a factory, `reset`, `step` or `close` raised, or what came back breaks the contract; names the
            environment's index, episode, seed and step.
        SpaceError: environments have different spaces, or spaces without an array form.
    """

    seeds_every_episode = True
    """See `SeedsEveryEpisode`."""

    def __init__(
        self,
        env_factories: Sequence[Callable[[], StructuredEnv]],
        *,
        keep_infos: bool = False,
        first_index: int = 0,
        checks_steps: bool = False,
    ) -> None:
        if not env_factories:
            raise RequestError("a vector environment needs at least one environment", received="0")
        self.n_envs = len(env_factories)
        self.first_index = first_index
        self.envs: list[StructuredEnv] = []
        self._episodes = EpisodeSeeds(self.n_envs, first_index)
        self._keep_infos = keep_infos
        self._checks_steps, self._checks_next = checks_steps, True
        self._current = 0
        try:
            for factory in env_factories:
                self._current = len(self.envs)
                self.envs.append(factory())
            self.structured_spaces = check_same_spaces([spaces_of(env) for env in self.envs])
        except _RAISED as error:
            self._close_quietly()
            self._raise(error, "its constructor")
        self._statistics = [reporter_of(env) for env in self.envs]
        self.drain_batch_statistics()  # what is kept from now on is asked for
        self._rows = (FlatRows if self.structured_spaces.is_flat else StructuredRows)(
            self.n_envs, self.structured_spaces
        )
        self._rows.examine(self.envs)

    def reset(self, seeds: Sequence[Sequence[int]]) -> Tick:
        """Start new episodes everywhere; see `VectorEnv.reset`."""
        self._episodes.restart(seeds)
        for source in self._statistics:
            if source is not None:
                source.discard_episode()
        infos: dict[int, dict[str, Any]] = {}
        self._rows.begin_tick()
        for index, env in enumerate(self.envs):
            observation, info = self._reset_env(index, env)
            self._rows.write(index, env.actor_id(), observation)
            if info and self._keep_infos:
                infos[index] = info
        return self._rows.tick((), infos)

    def step(self, actions: Mapping[PolicyKey, ArrayDict]) -> Tick:
        """Take one decision everywhere; see `VectorEnv.step`."""
        out, episodes = self._rows, self._episodes
        rows = out.action_rows(actions)
        out.begin_tick()
        episodes.steps += 1
        reward_out, terminated_out, truncated_out = out.reward, out.terminated, out.truncated
        structured = out if isinstance(out, StructuredRows) else None
        finals: list[Final] = []
        infos: dict[int, dict[str, Any]] = {}
        checks, self._checks_next = self._checks_next, self._checks_steps
        index = 0
        try:
            for index, env in enumerate(self.envs):
                observation, reward, terminated, truncated, info = env.step(rows[index])
                reward_out[index] = reward if type(reward) is float else scalar_reward(reward)
                if structured is not None:
                    if structured.asks_flags:
                        structured.write_flags(index, env)
                    elif env.is_flat_step_end():
                        structured.flat_step_end[index] = True
                if terminated or truncated:
                    terminated_out[index] = terminated
                    truncated_out[index] = truncated
                    finals.append(out.final(index, env, observation))
                    if info and self._keep_infos:
                        infos[index] = info
                    observation, _ = self._reset_env(index, env)
                elif info and self._keep_infos:
                    infos[index] = info
                if checks:
                    check_observation(out.space_of(env), observation)
                if structured is not None and (actor := env.actor_id()) != structured.together:
                    structured.write(index, actor, observation)
                else:
                    for key, array in out.items_of_tick:
                        array[index] = observation[key]
        except _RAISED as error:
            self._current = index
            self._raise(error, "its step")
        return out.tick(finals, infos)

    def drain_batch_statistics(self) -> list[list[EpisodeStatistics]]:
        """The event statistics of each environment's episodes that ended since the last call."""
        return [[] if source is None else source.drain_statistics() for source in self._statistics]

    def raw_reward_so_far(self) -> tuple[float, int]:
        """See `TellsRawReward`: of the environments that tell."""
        told = [raw_reward_of(env) for env in self.envs]
        return sum(paid for paid, _ in told), sum(n for _, n in told)

    def render(self) -> Any:
        """A frame of the first environment."""
        return self.envs[0].render()

    def close(self) -> None:
        """Close every environment, also when one of them raises."""
        failure: tuple[int, Exception | SystemExit] | None = None
        for index, env in enumerate(self.envs):
            try:
                env.close()
            except _RAISED as error:
                failure = failure or (index, error)
        self.envs = []
        if failure is not None:
            self._current = failure[0]
            self._raise(failure[1], "its close")

    def _reset_env(self, index: int, env: StructuredEnv) -> tuple[Observation, dict[str, Any]]:
        seed = self._episodes.begin(index)
        try:
            observation, info = env.reset(seed=seed)
            check_observation(self._rows.space_of(env), observation)
        except _RAISED as error:
            self._current = index
            self._raise(error, "its reset")
        return observation, info

    def describe(self, index: int) -> str:
        """Where an environment is, for messages: its number, episode, seed and step."""
        return self._episodes.describe(index)

    def _close_quietly(self) -> None:
        for env in self.envs:
            with contextlib.suppress(*_RAISED):
                env.close()
        self.envs = []

    def _raise(self, error: Exception | SystemExit, phase: str) -> NoReturn:
        if isinstance(error, MazeError):
            if isinstance(error, EnvError):
                error.owner = error.owner or self.describe(self._current)
                error.seed = self._episodes.last_seed(self._current)
                error.user_traceback = error.user_traceback or traceback_of(error) or None
            raise error
        raised = EnvError(
            f"{phase} raised {type(error).__name__}: {error}", owner=self.describe(self._current), help=ALONE
        )
        # Raised by taking its result apart here, not by the environment below.
        if "unpack" in str(error) and error.__traceback__ is not None and error.__traceback__.tb_next is None:
            raised.help = f"return {', '.join(PARTS[phase.removeprefix('its ')])}"
        raised.user_traceback, raised.seed = user_traceback(error), self._episodes.last_seed(self._current)
        raise raised from error
