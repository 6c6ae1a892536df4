"""`step-skip` around teams: who leaves, who is paid what, who has to decide, and what masks forbid."""

import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.contracts.env import ActorID, StructuredSpaces
from maze_kernel.errors import EnvError
from maze_runtime.env.flat import FlatEnv
from maze_testing.envs import check_env
from maze_testing.structured_environments import ChangingTeam, DoorAndKey
from maze_wrappers.options import StepSkipOptions
from maze_wrappers.step_skip import StepSkip


class Shift(FlatEnv):
    """Hour by hour those of `plan` decide. Whoever is in `leaves` (hour, worker) leaves by that decision.

    Worker w earns 10 ** w in each sub-step of an hour, paid at its end; `divided` says so.
    """

    structured_spaces = StructuredSpaces(
        observation={"w": spaces.Dict(hour=spaces.Box(0, 99, (1,), np.float32), task_mask=spaces.MultiBinary(3))},
        action={"w": spaces.Dict(task=spaces.Discrete(3))},
        agent_counts={"w": -1},
    )

    def __init__(self, plan, leaves=(), divided=True, forbidden=()):
        self.plan, self.leaves, self.is_divided, self.forbidden = plan, leaves, divided, forbidden

    def reset(self, *, seed=None, options=None):
        self.hour, self.place, self.done, self.end = 0, 0, False, True
        self.tasks = []
        return self.observe(), {}

    def step(self, action):
        worker = self.plan[self.hour][self.place]
        self.tasks.append((self.hour, worker, action["task"]))
        self.done = (self.hour, worker) in self.leaves
        self.place += 1
        self.end = self.place == len(self.plan[self.hour])
        self.parts = [10.0**w for w in self.plan[self.hour]]
        if self.end:
            self.hour, self.place = self.hour + 1, 0
        over = self.hour == len(self.plan)
        return self.observe(), sum(self.parts) if self.end else 0.0, over, False, {}

    def observe(self):
        mask = np.ones(3, np.int8)
        mask[[task for hour, task in self.forbidden if hour == self.hour]] = 0
        return {"hour": np.float32([self.hour]), "task_mask": mask}

    def actor_id(self):
        return ActorID("w", (self.plan[self.hour] if self.hour < len(self.plan) else [0])[self.place])

    def is_actor_done(self):
        return self.done

    def is_flat_step_end(self):
        return self.end

    def get_actor_rewards(self):
        return self.parts if self.is_divided else None


def play(shift, n_steps, **options):
    """For each decision who took it, the reward, who left, and what the decisions of a finished flat step are paid."""
    env = StepSkip(shift, StepSkipOptions(n_steps=n_steps, **options))
    env.reset(seed=0)
    rows, over = [], False
    while not over:
        actor = env.actor_id().agent_id
        _, reward, over, _, _ = env.step({"task": 1})
        left = [one.agent_id for one in env.departed_actors()]
        paid = env.get_actor_rewards() if env.is_flat_step_end() else None
        rows.append((actor, reward, env.is_actor_done(), left, None if paid is None else paid.tolist()))
    return rows


def test_who_leaves_by_a_skipped_decision_of_its_own_has_left():
    plan = [[0, 1], [0, 1], [1], [1], [1], [1]]
    assert [row[:4] for row in play(Shift(plan, leaves={(1, 0)}), 3)] == [
        (0, 0.0, False, []),
        (1, 11.0 + 11.0 + 10.0, False, [0]),
        (1, 30.0, False, []),
    ]
    plan = [[0, 1], [0, 1], [0], [0]]
    assert [row[:4] for row in play(Shift(plan, leaves={(1, 1)}), 3)][:2] == [(0, 0.0, False, []), (1, 23.0, True, [])]


def test_skipped_rewards_go_to_whoever_took_the_sub_step():
    plan = [[0, 1, 2], [0, 2], [2, 0, 0], [0, 2]]
    rows = play(Shift(plan, leaves={(0, 1)}), 3)
    assert rows[2][4] == [1 + 1 + 2, 10, 300]
    assert rows[4][4] == [1, 100]
    undivided = play(Shift(plan, divided=False), 3)
    assert [row[4] for row in undivided] == [None] * 5
    assert [row[1] for row in undivided] == [row[1] for row in rows] == [0, 0, 111 + 101 + 102, 0, 101]


@pytest.mark.parametrize("mode", ["sticky", "noop"])
def test_a_newcomer_in_the_middle_of_a_flat_step_decides_and_nothing_is_lost(mode):
    rows = play(Shift([[0], [0, 2, 1], [0, 1, 2], [0, 1, 2]]), 2, mode=mode, noop={"task": 0})
    assert [row[0] for row in rows] == [0, 2, 1, 0, 1, 2]
    assert [row[4] for row in rows] == [None, None, [1 + 1 + 1, 200, 20], None, None, [1, 10, 100]]
    assert sum(row[1] for row in rows) == sum(sum(row[4]) for row in rows if row[4]) == 334


def test_whoever_comes_back_under_the_same_number_decides_anew():
    shift = Shift([[0, 1], [0, 1], [0, 1]], leaves={(0, 0)})
    rows = play(shift, 3)
    assert [row[0] for row in rows] == [0, 1, 0, 1]
    assert [row[2] for row in rows] == [True, False, False, False]


@pytest.mark.parametrize("mode", ["sticky", "noop"])
def test_a_masked_action_is_not_repeated(mode):
    skipped = 1 if mode == "sticky" else 2
    shift = Shift([[0, 1]] * 5, forbidden={(2, skipped)})
    rows = play(shift, 5, mode=mode, noop={"task": 2})
    assert [row[0] for row in rows] == [0, 1, 0, 1]
    assert [taken for hour, _, taken in shift.tasks if hour == 3] == [skipped, skipped]
    assert [row[4] for row in rows] == [None, [2, 20], None, [3, 30]]


def test_rewards_that_do_not_fit_are_the_environments_fault():
    class Short(Shift):
        def get_actor_rewards(self):
            return [1.0]

    with pytest.raises(EnvError, match="one reward a sub-step") as caught:
        play(Short([[0, 1]] * 2), 2)
    assert "(2,)" in caught.value.expected


@pytest.mark.parametrize("env", [DoorAndKey, lambda: DoorAndKey(divided=True), lambda: ChangingTeam(expels=True)])
def test_structured_environments_conform_with_skipped_steps(env):
    check_env(lambda: StepSkip(env(), StepSkipOptions(n_steps=3)))
