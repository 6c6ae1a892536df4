"""Small structured environments that must be learnt; the best return of every episode is known.

Each is a `StructuredEnv` with keyword-only options, so an experiment takes it as
`use = "maze_testing.structured_environments:DoorAndKey"`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import Action, ActorID, Observation, PolicyKey, StructuredSpaces
from maze_runtime.env.flat import FlatEnv

StepResult = tuple[Observation, float, bool, bool, dict[str, Any]]

N_CHOICES = 3


def _spaces(sizes: Mapping[PolicyKey, int], agents: Mapping[PolicyKey, int], n_actions: int) -> StructuredSpaces:
    """Vectors of the given sizes, and one choice a policy key."""
    return StructuredSpaces(
        observation={key: spaces.Dict(shown=spaces.Box(0.0, 1.0, (n,), np.float32)) for key, n in sizes.items()},
        action={key: spaces.Dict(choice=spaces.Discrete(n_actions)) for key in sizes},
        agent_counts=dict(agents),
    )


def _one_hot(index: int) -> Observation:
    shown = np.zeros(N_CHOICES, np.float32)
    shown[index] = 1.0
    return {"shown": shown}


class _Seeded(FlatEnv):
    """Keeps a random generator and counts flat steps."""

    def __init__(self, n_steps: int) -> None:
        self._n_steps = n_steps
        self._time = 0
        self._rng = np.random.default_rng()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._time = 0
        self._begin()
        return self._observe(), {}

    def _begin(self) -> None:
        raise NotImplementedError

    def _observe(self) -> Observation:
        raise NotImplementedError

    def _draw(self) -> int:
        return int(self._rng.integers(N_CHOICES))


class DoorAndKey(_Seeded):
    """Two decisions a step, the second depends on the first: "door" is shown the right door, "key" only the door taken.

    Reward 1 where the door is right and the key is that of the door (the next number). At most `n_steps`.

    Args:
        n_steps: an episode.
        divided: give the reward by `get_actor_rewards`, half to each decision.
    """

    structured_spaces = _spaces({"door": N_CHOICES, "key": N_CHOICES}, {"door": 1, "key": 1}, N_CHOICES)

    def __init__(self, *, n_steps: int = 8, divided: bool = False) -> None:
        super().__init__(n_steps)
        self._divided = divided
        self._door: int | None = None
        self._reward = 0.0

    def _begin(self) -> None:
        self._door, self._right = None, self._draw()

    def step(self, action: Action) -> StepResult:
        choice = int(action["choice"])
        if self._door is None:
            self._door = choice
            return self._observe(), 0.0, False, False, {}
        self._reward = float(self._door == self._right and choice == (self._door + 1) % N_CHOICES)
        self._door, self._right = None, self._draw()
        self._time += 1
        return self._observe(), self._reward, self._time == self._n_steps, False, {}

    def actor_id(self) -> ActorID:
        return ActorID("door" if self._door is None else "key", 0)

    def is_flat_step_end(self) -> bool:
        return self._door is None

    def get_actor_rewards(self) -> Any | None:
        return np.array([self._reward / 2, self._reward / 2], np.float32) if self._divided else None

    def _observe(self) -> Observation:
        return _one_hot(self._right if self._door is None else self._door)


class Pair(_Seeded):
    """Two agents of one policy key act in turn; each is shown a number and wants an answer. At most 2 · `n_steps`.

    Args:
        n_steps: an episode.
        alike: both want the number itself, so one network serves both. Otherwise agent 1 wants the next number
            and neither is told who it is: only networks of their own learn that.
    """

    structured_spaces = _spaces({"agent": N_CHOICES}, {"agent": 2}, N_CHOICES)

    def __init__(self, *, n_steps: int = 8, alike: bool = True) -> None:
        super().__init__(n_steps)
        self._alike = alike
        self._agent = 0

    def _begin(self) -> None:
        self._agent, self._number = 0, self._draw()

    def step(self, action: Action) -> StepResult:
        wanted = self._number if self._alike else (self._number + self._agent) % N_CHOICES
        reward = float(int(action["choice"]) == wanted)
        self._agent, self._number = 1 - self._agent, self._draw()
        self._time += self._agent == 0
        return self._observe(), reward, self._time == self._n_steps, False, {}

    def actor_id(self) -> ActorID:
        return ActorID("agent", self._agent)

    def is_flat_step_end(self) -> bool:
        return self._agent == 0

    def _observe(self) -> Observation:
        return _one_hot(self._number)


class ChangingTeam(_Seeded):
    """A team that changes in size: members come and go, and may leave early, which earns them nothing more.

    Each is shown a number and gets 1 for answering it; the last choice means leaving. Members come one a step from
    the third step on, and stay for three decisions. At most `best_return`.

    Args:
        n_steps: an episode.
        expels: whoever chooses 0 sends the newest other member away.
    """

    STAY = 3
    structured_spaces = _spaces({"member": N_CHOICES}, {"member": -1}, N_CHOICES + 1)

    def __init__(self, *, n_steps: int = 8, expels: bool = False) -> None:
        super().__init__(n_steps)
        self._expels = expels
        self._expelled: tuple[ActorID, ...] = ()
        self.best_return = 2 * self.STAY + sum(min(self.STAY, n_steps - time) for time in range(2, n_steps))
        self._left: dict[int, int] = {}

    def _begin(self) -> None:
        self._left = {0: self.STAY, 1: self.STAY}
        self._waiting, self._next_id = [0, 1], 2
        self._done, self._step_end, self._number = False, True, self._draw()

    def step(self, action: Action) -> StepResult:
        member, choice = self._waiting.pop(0), int(action["choice"])
        reward = float(choice == self._number)
        self._left[member] -= 1
        self._done = choice == N_CHOICES or self._left[member] == 0
        if self._done:
            del self._left[member]
        self._expelled = self._expel(member) if self._expels and choice == 0 else ()
        self._step_end = not self._waiting
        if self._step_end:
            self._advance()
        self._number = self._draw()
        return self._observe(), reward, self._time == self._n_steps, False, {}

    def _expel(self, member: int) -> tuple[ActorID, ...]:
        others = [other for other in self._left if other != member]
        if not others:
            return ()
        del self._left[max(others)]
        self._waiting = [other for other in self._waiting if other in self._left]
        return (ActorID("member", max(others)),)

    def departed_actors(self) -> tuple[ActorID, ...]:
        return self._expelled

    def _advance(self) -> None:
        self._time += 1
        if self._time >= 2 or not self._left:
            self._left[self._next_id] = self.STAY
            self._next_id += 1
        self._waiting = sorted(self._left)

    def actor_id(self) -> ActorID:
        return ActorID("member", self._waiting[0])

    def is_actor_done(self) -> bool:
        return self._done

    def is_flat_step_end(self) -> bool:
        return self._step_end

    def _observe(self) -> Observation:
        return _one_hot(self._number)


class Hierarchy(_Seeded):
    """An option for a while: "manager" is shown the number wanted and picks an option, "worker" only sees the option.

    Each of the worker's steps is worth 1 if the option is the number and the worker answers with the next number.
    An option lasts 1 to 4 steps, at random, so environments get out of step. At most `n_steps`.

    Args:
        n_steps: an episode.
    """

    LONGEST = 4
    structured_spaces = _spaces({"manager": N_CHOICES, "worker": N_CHOICES}, {"manager": 1, "worker": 1}, N_CHOICES)

    def __init__(self, *, n_steps: int = 10) -> None:
        super().__init__(n_steps)
        self._option: int | None = None

    def _begin(self) -> None:
        self._option, self._wanted, self._step_end = None, self._draw(), True

    def step(self, action: Action) -> StepResult:
        choice = int(action["choice"])
        self._step_end = self._option is not None
        if self._option is None:
            self._option, self._left = choice, int(self._rng.integers(1, self.LONGEST + 1))
            return self._observe(), 0.0, False, False, {}
        reward = float(self._option == self._wanted and choice == (self._option + 1) % N_CHOICES)
        self._time += 1
        self._left -= 1
        if self._left == 0:
            self._option, self._wanted = None, self._draw()
        return self._observe(), reward, self._time == self._n_steps, False, {}

    def actor_id(self) -> ActorID:
        return ActorID("manager" if self._option is None else "worker", 0)

    def is_flat_step_end(self) -> bool:
        return self._step_end

    def _observe(self) -> Observation:
        return _one_hot(self._wanted if self._option is None else self._option)


class TwoMemories(_Seeded):
    """Two policy keys decide in turn; each is shown a number of its own at first and nothing later, and must repeat it.

    Reward 1 / (2 · `n_steps`) for each right answer: 1 a whole episode. Without a memory of its own for each key a
    third of the answers after the first two are right.

    Args:
        n_steps: an episode.
    """

    structured_spaces = _spaces({"left": N_CHOICES, "right": N_CHOICES}, {"left": 1, "right": 1}, N_CHOICES)

    def __init__(self, *, n_steps: int = 8) -> None:
        super().__init__(n_steps)
        self._turn = 0

    def _begin(self) -> None:
        self._turn, self._numbers = 0, (self._draw(), self._draw())

    def step(self, action: Action) -> StepResult:
        reward = float(int(action["choice"]) == self._numbers[self._turn]) / (2 * self._n_steps)
        self._turn = 1 - self._turn
        self._time += self._turn == 0
        return self._observe(), reward, self._time == self._n_steps, False, {}

    def actor_id(self) -> ActorID:
        return ActorID(("left", "right")[self._turn], 0)

    def is_flat_step_end(self) -> bool:
        return self._turn == 0

    def _observe(self) -> Observation:
        if self._time == 0:
            return _one_hot(self._numbers[self._turn])
        return {"shown": np.zeros(N_CHOICES, np.float32)}
