"""A batch of games as a Maze batch: all games are stepped at once, when the last agent of a round has decided."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from gymnasium.vector import AutoresetMode

from maze_gym.native_vector import autoreset_mode
from maze_gym.returned import require_row_each
from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.vector import ArrayDict, FinalObservation, Group, Tick
from maze_kernel.errors import EnvError, MazeError, RequestError
from maze_pettingzoo.batch_of_games import BatchOfGames, ByAgent, FirstGame, make_batch
from maze_pettingzoo.credit import own_rewards
from maze_pettingzoo.options import PettingZooOptions, PettingZooVectorOptions
from maze_pettingzoo.returned import of_games_reset, of_games_step
from maze_pettingzoo.seats import OWNER, Seat, structured_spaces, take_seats
from maze_runtime.env.partial_reset import PartialResets
from maze_runtime.env.tracebacks import ALONE, user_traceback

FINAL = "final_obs"


def make_vector_env(n_envs: int, options: PettingZooVectorOptions) -> VectorGames:
    """The batch as training steps it; raises as `make_batch` and `VectorGames` do."""
    return VectorGames(make_batch(n_envs, options), options)


class VectorGames:
    """Implements `VectorEnv` around a batch of games. All games are in step: a round has a tick an agent.

    What a step pays comes with the last decision of its round. Observations are the batch's own arrays and stay as
    they are until its next step; rewards, flags and final observations are copies. Building it takes one reset.

    Args:
        batch: closed with this one.
        options: see `PettingZooVectorOptions`; `entry` and `kwargs` are not read.

    Raises:
        RequestError: the batch begins the next episodes by itself a step later, or the options do not fit its agents.
        SpaceError: spaces without an array form.
    """

    def __init__(self, batch: BatchOfGames, options: PettingZooVectorOptions) -> None:
        self.batch = batch
        self.n_envs = int(batch.num_envs)
        self._mode = autoreset_mode(batch, OWNER)
        if self._mode is AutoresetMode.NEXT_STEP:
            raise RequestError(
                "the batch of games says that a step only resets the games that ended in the one before",
                received='metadata["autoreset_mode"] is NEXT_STEP, or not set',
                expected="SAME_STEP or DISABLED",
                owner=OWNER,
                help="set it to DISABLED and reset the rows of options['reset_mask'] when asked to",
            )
        seats = take_seats(FirstGame(batch), PettingZooOptions(id="", policies=options.policies))
        self.structured_spaces = structured_spaces(seats, options.rewards)
        self._turns = [_Turn(agent, seat, self.n_envs) for agent, seat in seats.items()]
        self._agents = list(seats)
        self._pays_own = self.structured_spaces.pays_differences
        self._env_index = np.arange(self.n_envs)
        self._never, self._always = np.zeros(self.n_envs, np.bool_), np.ones(self.n_envs, np.bool_)
        self._paid: list[np.ndarray] = []
        self._first_round = np.zeros(self.n_envs, np.int64)
        self._seed: int | None = None
        self._partial_resets = PartialResets("games")
        self._rounds = 0
        self._next = 0
        self._seen: ByAgent = {}
        self._infos: Mapping[str, Any] = {}
        self._taken: dict[str, Any] = {}

    def reset(self, seeds: Sequence[Sequence[int]]) -> Tick:
        """Start new episodes everywhere; reads the first seed only."""
        if len(seeds) != self.n_envs:
            raise RequestError("one seed sequence an environment", received=str(len(seeds)), expected=str(self.n_envs))
        self._seed = seeds[0][0] if len(seeds[0]) else None
        self._rounds = self._next = 0
        self._paid.clear()
        self._first_round[:] = 0
        self._seen, self._infos = self._asked("reset", lambda: self._reset(seed=self._seed))
        return self._tick()

    def step(self, actions: Mapping[PolicyKey, ArrayDict]) -> Tick:
        """Take the decision of one agent everywhere; see `VectorEnv.step`."""
        turn = self._turns[self._next]
        chosen = actions[turn.key]
        # The policy may write its next actions into the same arrays.
        self._taken[turn.agent] = turn.seat.actions.encode({name: array.copy() for name, array in chosen.items()})
        self._next += 1
        if self._next < len(self._turns):
            return self._tick()
        self._next = 0
        return self._step_games()

    def render(self) -> Any:
        """Frames of all games where the batch draws them."""
        return self.batch.render() if hasattr(self.batch, "render") else None

    def close(self) -> None:
        """Close the batch, where it can be."""
        if hasattr(self.batch, "close"):
            self.batch.close()

    def _step_games(self) -> Tick:
        self._rounds += 1
        paid, over, truncated = self._asked("step", self._step_batch)
        if not over.any():
            tick = self._tick()
            tick.flat_step_end = self._never if self._pays_own else self._always
        else:
            rows = over.nonzero()[0]
            final = self._final(rows)
            if self._mode is AutoresetMode.DISABLED:
                self._seen, self._infos = self._asked("reset of the games that ended", lambda: self._reset_rows(over))
            tick = self._tick()
            tick.flat_step_end = over if self._pays_own else self._always
            tick.terminated, tick.truncated = over & ~truncated, truncated
            tick.final_observation[self._turns[0].key] = final
        tick.reward = paid.sum(axis=0, dtype=np.float32)
        if self._pays_own:
            self._pay_each(paid, over, tick)
        return tick

    def _step_batch(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What each agent is paid, (agents, N); whose episodes are over; which of those were cut."""
        result = self.batch.step(self._taken)
        if self._rounds == 1:
            of_games_step(result, self._agents, self.n_envs)
        self._seen, rewards, terminated, truncated, self._infos = result
        paid = np.empty((len(self._turns), self.n_envs))
        for row, turn in zip(paid, self._turns, strict=True):
            reward = rewards[turn.agent]
            if np.shape(reward) != row.shape:
                require_row_each(self.n_envs, **{f"reward of {turn.agent}": reward})
            row[:] = reward
        ended, cut = self._of_all(terminated), self._of_all(truncated)
        over = np.atleast_2d(ended | cut)
        if unlike := np.flatnonzero((over != over[0]).any(axis=0)).tolist():
            raise EnvError(
                f"some agents of game {unlike[0]} left, and others did not",
                received=", ".join(
                    turn.agent for turn, out in zip(self._turns, over[:, unlike[0]], strict=True) if out
                ),
                expected="an end for all agents of a game at once, since all act at every step",
                owner=self._where(),
                help='games that agents leave are played one by one: [env] use = "pettingzoo"',
            )
        return paid, over[0], over[0] & ~np.atleast_2d(ended).any(axis=0)

    def _of_all(self, flags: Any) -> np.ndarray:
        """(N,) where they are the same for all agents; else (agents, N)."""
        if isinstance(flags, Mapping):
            return self._flags([flags[turn.agent] for turn in self._turns], (len(self._turns), self.n_envs))
        return self._flags(flags, (self.n_envs,))

    def _flags(self, flags: Any, shape: tuple[int, ...]) -> np.ndarray:
        copied = np.array(flags, np.bool_)
        if copied.shape != shape:
            raise EnvError(
                "the flags of a step are not one a game",
                received=f"shape {copied.shape}",
                expected=f"shape {shape}",
                owner=self._where(),
                help="give terminated and truncated as arrays (num_envs,), or by agent",
            )
        return copied

    def _reset_rows(self, over: np.ndarray) -> tuple[ByAgent, Mapping[str, Any]]:
        seat, agent = self._turns[0].seat, self._turns[0].agent
        return self._partial_resets.watch(
            lambda: self._reset(options={"reset_mask": over.copy()}),
            over,
            lambda: seat.observations.decode(self._seen[agent]),
            lambda result: seat.observations.decode(result[0][agent]),
        )

    def _reset(self, **kwargs: Any) -> tuple[ByAgent, Mapping[str, Any]]:
        return of_games_reset(self.batch.reset(**kwargs), self._agents)

    def _final(self, rows: np.ndarray) -> FinalObservation:
        """What the first agent saw last of the episodes that ended."""
        turn = self._turns[0]
        raw, infos = self._seen[turn.agent], self._infos.get(turn.agent, {})
        if self._mode is AutoresetMode.SAME_STEP:
            if FINAL not in infos:
                raise EnvError(
                    f"episodes ended, and their last observations are not in infos[{turn.agent!r}][{FINAL!r}]",
                    received=", ".join(map(repr, infos)) or "nothing",
                    owner=self._where(),
                    help='give them for every agent, (num_envs, …), or set metadata["autoreset_mode"] to DISABLED',
                )
            raw, infos = infos[FINAL], {}
        observation = turn.observation(raw, infos)
        self._check_shapes(turn, observation)
        return FinalObservation(
            rows, {name: array[rows] for name, array in observation.items()}, turn.agent_ids[: len(rows)]
        )

    def _pay_each(self, paid: np.ndarray, over: np.ndarray, tick: Tick) -> None:
        self._paid.append(paid)
        before = self._rounds - len(self._paid)
        for index in over.nonzero()[0].tolist():
            rounds = self._paid[self._first_round[index] - before :]
            tick.actor_rewards[index] = own_rewards(np.stack([of_all[:, index] for of_all in rounds]))
        self._first_round[over] = self._rounds
        del self._paid[: int(self._first_round.min()) - before]

    def _tick(self) -> Tick:
        """Whose turn it is, on what; as long as no step was taken nothing is paid and nothing is over."""
        turn = self._turns[self._next]
        try:
            observation = turn.observation(self._seen[turn.agent], self._infos.get(turn.agent, {}))
            self._check_shapes(turn, observation)
        except Exception as error:
            self._raise(error, f"observation of {turn.agent}")
        group = Group(self._env_index, turn.agent_ids, observation)
        nothing = np.zeros(self.n_envs, np.float32)
        return Tick({turn.key: group}, nothing, self._never.copy(), self._never.copy(), self._never)

    def _check_shapes(self, turn: _Turn, observation: ArrayDict) -> None:
        for name, expected in turn.shapes.items():
            if np.shape(observation[name]) != expected:
                raise EnvError(
                    f"{turn.agent}'s batched observation {name!r} does not fit its space",
                    received=f"shape {np.shape(observation[name])}",
                    expected=f"shape {expected}",
                    owner=self._where(),
                )

    def _asked(self, phase: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:
            self._raise(error, phase)

    def _where(self) -> str:
        return f"batch of games, seed {self._seed}, step {self._rounds} since reset"

    def _raise(self, error: Exception, phase: str) -> NoReturn:
        if isinstance(error, MazeError):
            if isinstance(error, EnvError):
                error.owner, error.seed = error.owner or self._where(), self._seed
            raise error
        raised = EnvError(f"its {phase} raised {type(error).__name__}: {error}", owner=self._where(), help=ALONE)
        raised.user_traceback, raised.seed = user_traceback(error), self._seed
        raise raised from error


class _Turn:
    """An agent's part of a round."""

    def __init__(self, agent: str, seat: Seat, n_envs: int) -> None:
        self.agent, self.seat = agent, seat
        self.key, agent_id = seat.actor
        self.agent_ids = np.full(n_envs, agent_id, np.int64)
        self._lead = (n_envs,)
        spaces_ = seat.observation_space.spaces
        self.shapes = {name: (n_envs, *(space.shape or ())) for name, space in spaces_.items()}

    def observation(self, raw: Any, info: Mapping[str, Any]) -> ArrayDict:
        """What the batch shows the agent, in Maze's form: name to (N, …)."""
        return self.seat.observation(raw, info, self._lead)
