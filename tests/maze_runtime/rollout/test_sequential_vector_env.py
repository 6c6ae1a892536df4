"""The sequential vector environment: arrays, autoreset, seeds, structured groups, and errors that say where."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.contracts.env import ActorID, StructuredSpaces
from maze_kernel.errors import EnvError, RequestError, SpaceError
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv


class Line(FlatEnv):
    """Walks `length` steps; observations reuse one array and say (seed, step); a mask comes along."""

    structured_spaces = flat_spaces(
        spaces.Dict(position=spaces.Box(-np.inf, np.inf, (2,), np.float32), action_mask=spaces.MultiBinary(3)),
        spaces.Dict(move=spaces.Discrete(3), push=spaces.Box(-1, 1, (2,), np.float32)),
    )

    def __init__(self, length: int = 3, reward=lambda step: float(step), fail_at: int | None = None) -> None:
        self.length, self.reward, self.fail_at = length, reward, fail_at
        self.array, self.step_count, self.seeds, self.actions = np.zeros(2, np.float32), 0, [], []
        self.closed = False

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        self.step_count = 0
        return self._observe(), {}

    def step(self, action):
        self.actions.append({key: np.copy(value) for key, value in action.items()})
        action["push"][:] = 99  # a bad habit that must hurt nobody else
        self.step_count += 1
        if self.step_count == self.fail_at:
            raise ZeroDivisionError("physics")
        over = self.step_count >= self.length
        return self._observe(), self.reward(self.step_count), over, False, {"step": self.step_count} if over else {}

    def close(self):
        self.closed = True

    def _observe(self):
        self.array[:] = -1 if self.seeds[-1] is None else self.seeds[-1], self.step_count
        return {"position": self.array, "action_mask": np.array([1, self.step_count % 2, 1])}


def actions(n):
    return {"0": {"move": np.arange(n) % 3, "push": np.full((n, 2), 0.5, np.float32)}}


def test_observations_are_batched_and_the_final_one_is_kept():
    envs = SequentialVectorEnv([lambda: Line(2), lambda: Line(3)], keep_infos=True)
    tick = envs.reset([[5], [6]])
    assert tick.groups["0"].aligned
    assert tick.groups["0"].observation["position"].tolist() == [[5, 0], [6, 0]]
    tick = envs.step(actions(2))
    assert tick.groups["0"].observation["position"].tolist() == [[5, 1], [6, 1]]
    assert tick.groups["0"].observation["action_mask"].tolist() == [[1, 1, 1], [1, 1, 1]]
    assert not tick.final_observation
    tick = envs.step(actions(2))
    assert tick.terminated.tolist() == [True, False]
    assert tick.reward.tolist() == [2.0, 2.0]
    assert tick.reward.dtype == np.float32
    final = tick.final_observation["0"]
    assert final.env_index.tolist() == [0]
    assert final.observation["position"].tolist() == [[5, 2]]
    assert tick.groups["0"].observation["position"].tolist() == [[-1, 0], [6, 2]]
    assert tick.infos == {0: {"step": 2}}
    assert tick.awaiting_reset is None


def test_each_environment_takes_its_seeds_in_turn_then_goes_on_without():
    envs = SequentialVectorEnv([lambda: Line(1), lambda: Line(2)])
    envs.reset([[1, 2, 3], [7]])
    for _ in range(4):
        envs.step(actions(2))
    assert envs.envs[0].seeds == [1, 2, 3, None, None]
    assert envs.envs[1].seeds == [7, None, None]
    envs.reset([[9], []])
    assert envs.envs[0].seeds[-1] == 9
    assert envs.envs[1].seeds[-1] is None
    with pytest.raises(RequestError, match="number of environments"):
        envs.reset([[1]])


def test_a_tick_outlives_the_next_step():
    envs = SequentialVectorEnv([lambda: Line(9)] * 2)
    first = envs.reset([[1], [2]])
    second = envs.step(actions(2))
    kept = second.groups["0"].observation["position"].copy()
    envs.step(actions(2))
    assert (second.groups["0"].observation["position"] == kept).all()
    assert first.groups["0"].observation["position"] is not second.groups["0"].observation["position"]


def test_actions_arrive_as_the_space_says_and_the_callers_arrays_stay_unchanged():
    envs = SequentialVectorEnv([lambda: Line(9)] * 2)
    envs.reset([[0], [0]])
    given = actions(2)
    envs.step(given)
    assert (given["0"]["push"] == 0.5).all()
    assert [int(env.actions[0]["move"]) for env in envs.envs] == [0, 1]
    assert (envs.envs[1].actions[0]["push"] == 0.5).all()


@pytest.mark.parametrize("value", [2, 2.0, np.float64(2), np.float32(2), np.array(2.0), np.array([2.0]), [2.0], True])
def test_rewards_may_be_any_single_number(value):
    envs = SequentialVectorEnv([lambda: Line(9, reward=lambda _step: value)])
    envs.reset([[0]])
    assert envs.step(actions(1)).reward.tolist() == [float(value if np.ndim(value) == 0 else value[0])]


@pytest.mark.parametrize("value", [None, [1.0, 2.0], "a lot", "1.5", []])
def test_a_reward_that_is_no_number_is_refused(value):
    envs = SequentialVectorEnv([lambda: Line(9, reward=lambda _step: value)])
    envs.reset([[0]])
    with pytest.raises(EnvError, match="not one number"):
        envs.step(actions(1))


def test_an_error_names_environment_episode_seed_and_step():
    envs = SequentialVectorEnv([lambda: Line(9), lambda: Line(9, fail_at=2)])
    envs.reset([[3], [44]])
    envs.step(actions(2))
    with pytest.raises(EnvError, match=r"ZeroDivisionError: physics") as caught:
        envs.step(actions(2))
    assert "environment 1, episode 0 (seed 44), step 2" in str(caught.value)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_failing_constructor_closes_what_was_built():
    built = []

    def good():
        built.append(Line())
        return built[-1]

    def bad():
        raise OSError("no simulator")

    with pytest.raises(EnvError, match="no simulator") as caught:
        SequentialVectorEnv([good, bad])
    assert "environment 1" in str(caught.value)
    assert built[0].closed


def test_observations_that_break_the_space_are_refused():
    class Wrong(Line):
        def _observe(self):
            return {"position": np.zeros(3, np.float32), "action_mask": np.ones(3, int)}

    class Missing(Line):
        def _observe(self):
            return {"position": np.zeros(2, np.float32)}

    with pytest.raises(EnvError, match="'position' does not fit"):
        SequentialVectorEnv([Wrong]).reset([[0]])
    with pytest.raises(EnvError, match="lacks the key 'action_mask'"):
        SequentialVectorEnv([Missing]).reset([[0]])


def play(factories, n_steps):
    envs = SequentialVectorEnv(factories)
    envs.reset([[7]] * len(factories))
    for _ in range(n_steps):
        envs.step(actions(len(factories)))
    envs.close()


class Odd(Line):
    """Gives `position` of another form at one step."""

    def __init__(self, odd_at, position=0.5, length=3):
        super().__init__(length)
        self.odd_at, self.position = odd_at, position

    def _observe(self):
        observation = super()._observe()
        return {**observation, "position": self.position} if self.step_count == self.odd_at else observation


@pytest.mark.parametrize("position", [0.5, [0.5], np.zeros((1, 2), np.float32), np.array(["a", "b"]), 1j * np.ones(2)])
@pytest.mark.parametrize(("odd_at", "length"), [(1, 3), (3, 3)])
def test_first_steps_and_last_observations_that_break_the_space_are_refused(position, odd_at, length):
    with pytest.raises(EnvError, match="'position' does not fit") as caught:
        play([lambda: Line(9), lambda: Odd(odd_at, position, length)], 3)
    assert f"environment 1, episode 0 (seed 7), step {odd_at}" in str(caught.value)


def test_every_step_is_checked_where_that_is_asked_for():
    envs = SequentialVectorEnv([lambda: Odd(2, length=9)], checks_steps=True)
    envs.reset([[0]])
    envs.step(actions(1))
    with pytest.raises(EnvError, match="'position' does not fit"):
        envs.step(actions(1))


@pytest.mark.parametrize("where", ["__init__", "reset", "step", "close"])
def test_an_environment_that_exits_is_an_error_and_not_the_end(where):
    def leave(*_arguments, **_options):
        raise SystemExit(0)

    with pytest.raises(EnvError, match="raised SystemExit: 0"):
        play([type("Window", (Line,), {where: leave})], 1)


def test_environments_of_a_batch_need_equal_spaces():
    class Other(Line):
        structured_spaces = flat_spaces(spaces.Dict(x=spaces.Discrete(2)), spaces.Dict(a=spaces.Discrete(2)))

    with pytest.raises(SpaceError, match="environment 1"):
        SequentialVectorEnv([Line, Other])


class TwoStep:
    """Structured: "select" by agent 0, then "cut" by agents 0..k−1; k and the phase differ between environments."""

    structured_spaces = StructuredSpaces(
        observation={
            "select": spaces.Dict(stock=spaces.Box(0, 99, (2,), np.float32)),
            "cut": spaces.Dict(piece=spaces.Box(0, 99, (1,), np.float32), turn=spaces.Discrete(2)),
        },
        action={"select": spaces.Dict(piece=spaces.Discrete(4)), "cut": spaces.Dict(turn=spaces.Discrete(2))},
        agent_counts={"select": 1, "cut": -1},
    )

    def __init__(self, n_cutters: int, n_flat_steps: int = 2) -> None:
        self.n_cutters, self.n_flat_steps, self.log = n_cutters, n_flat_steps, []

    def reset(self, *, seed=None, options=None):
        self.position, self.flat_steps = 0, 0
        return self._observe(), {}

    def step(self, action):
        self.log.append((self.actor_id(), dict(action)))
        self.position = (self.position + 1) % (self.n_cutters + 1)
        self.flat_steps += self.position == 0
        over = self.flat_steps == self.n_flat_steps
        return self._observe(), float(self.position), False, over, {}

    def actor_id(self):
        return ActorID("select", 0) if self.position == 0 else ActorID("cut", self.position - 1)

    def is_actor_done(self):
        return self.position == 0

    def is_flat_step_end(self):
        return self.position == 0

    def get_actor_rewards(self):
        return np.arange(self.n_cutters + 1) / 10

    def render(self):
        return None

    def close(self):
        pass

    def _observe(self):
        if self.position == 0:
            return {"stock": np.array([self.n_cutters, self.flat_steps], np.float32)}
        return {"piece": np.array([self.position], np.float32), "turn": self.position % 2}


def test_structured_environments_are_grouped_by_key_and_need_not_be_in_step():
    envs = SequentialVectorEnv([lambda: TwoStep(1), lambda: TwoStep(2), lambda: TwoStep(1)])
    tick = envs.reset([[0]] * 3)
    assert list(tick.groups) == ["select"]
    assert tick.groups["select"].aligned
    tick = envs.step({"select": {"piece": np.array([1, 2, 3])}})
    assert list(tick.groups) == ["cut"]
    assert tick.groups["cut"].agent_id.tolist() == [0, 0, 0]
    assert not tick.flat_step_end.any()
    tick = envs.step({"cut": {"turn": np.array([0, 1, 0])}})
    assert list(tick.groups) == ["select", "cut"]
    assert tick.groups["select"].env_index.tolist() == [0, 2]
    assert not tick.groups["select"].aligned
    assert tick.groups["select"].observation["stock"].tolist() == [[1, 1], [1, 1]]
    assert tick.groups["cut"].env_index.tolist() == [1]
    assert tick.groups["cut"].agent_id.tolist() == [1]
    assert tick.flat_step_end.tolist() == [True, False, True]
    assert tick.actor_done.tolist() == [True, False, True]
    assert {index: rewards.tolist() for index, rewards in tick.actor_rewards.items()} == {
        0: pytest.approx([0.0, 0.1]),
        2: pytest.approx([0.0, 0.1]),
    }
    tick = envs.step({"cut": {"turn": np.array([1])}, "select": {"piece": np.array([2, 0])}})
    assert [int(env.log[-1][1].get("piece", -1)) for env in envs.envs] == [2, -1, 0]
    tick = envs.step({"cut": {"turn": np.array([0, 0])}, "select": {"piece": np.array([3])}})
    assert tick.truncated.tolist() == [True, False, True]
    final = tick.final_observation["select"]
    assert final.env_index.tolist() == [0, 2]
    assert final.observation["stock"].tolist() == [[1, 2], [1, 2]]
    assert tick.groups["select"].observation["stock"].tolist() == [[1, 0], [1, 0]]


def test_an_unknown_policy_key_is_named():
    class Lost(TwoStep):
        def actor_id(self):
            return ActorID("nobody", 0)

    with pytest.raises(EnvError, match="unknown policy key"):
        SequentialVectorEnv([lambda: Lost(1)]).reset([[0]])


class Team(FlatEnv):
    """Agents of one policy key decide in the order that is given."""

    def __init__(self, agents, n_agents=2):
        space = spaces.Dict(x=spaces.Discrete(2))
        self.structured_spaces = StructuredSpaces(
            observation={"member": space}, action={"member": space}, agent_counts={"member": n_agents}
        )
        self._agents = agents

    def reset(self, *, seed=None, options=None):
        self._n = 0
        return {"x": 0}, {}

    def step(self, action):
        self._n += 1
        return {"x": 0}, 0.0, False, False, {}

    def actor_id(self):
        return self._agents[self._n]


def decide(agents, n_agents=2):
    envs = SequentialVectorEnv([lambda: Team([ActorID("member", 0)] * 9, n_agents), lambda: Team(agents, n_agents)])
    ticks = [envs.reset([[0], [0]]), *(envs.step({"member": {"x": np.zeros(2, np.int64)}}) for _ in agents[1:])]
    return [int(tick.groups["member"].agent_id[1]) for tick in ticks]


@pytest.mark.parametrize("n_before", [0, 2])
@pytest.mark.parametrize(
    ("agent", "n_agents", "expected"),
    [
        *((agent, 2, "0 to 1") for agent in (2, -1, "1", 0.5)),
        (2**32, -1, "0 to 4294967295"),
        (-1, -1, "0 to 4294967295"),
    ],
)
def test_an_agent_that_does_not_exist_is_named(agent, n_agents, expected, n_before):
    """Its decisions would be stored as those of another environment's agent."""
    with pytest.raises(EnvError, match="agent of policy key 'member' that does not exist") as caught:
        decide([ActorID("member", 1)] * n_before + [ActorID("member", agent)], n_agents)
    assert repr(agent) in caught.value.received
    assert expected in caught.value.expected
    assert f"environment 1, episode 0 (seed 0), step {n_before}" in caught.value.owner


def test_a_policy_key_that_is_unknown_later_is_named_too():
    with pytest.raises(EnvError, match="unknown policy key") as caught:
        decide([ActorID("member", 1), ActorID("nobody", 0)])
    assert "step 1" in caught.value.owner


def test_a_plain_tuple_is_no_actor():
    with pytest.raises(EnvError, match="no ActorID") as caught:
        decide([("member", 0)])
    assert "('member', 0)" in caught.value.received


def test_agents_may_be_numbers_of_numpy_and_as_many_as_come_where_their_number_changes():
    assert decide([ActorID("member", np.int64(1)), ActorID("member", 1)]) == [1, 1]
    assert decide([ActorID("member", 1), ActorID("member", 2**32 - 1)], n_agents=-1) == [1, 2**32 - 1]


class Leaving(Team):
    """Says at its second step that `departed` left."""

    def __init__(self, departed, n_agents=2):
        super().__init__([ActorID("member", 1)] * 9, n_agents)
        self._departed = departed

    def departed_actors(self):
        return self._departed if self._n == 2 else ()


def leave(departed, n_agents=2):
    envs = SequentialVectorEnv([lambda: Leaving((), n_agents), lambda: Leaving(departed, n_agents)])
    envs.reset([[0], [0]])
    return [envs.step({"member": {"x": np.zeros(2, np.int64)}}).departed for _ in range(3)]


@pytest.mark.parametrize(
    ("departed", "wrong"),
    [
        ([ActorID("member", 0), ActorID("member", 2)], "agent of policy key 'member' that does not exist"),
        ([ActorID("member", -1)], "agent of policy key 'member' that does not exist"),
        ([ActorID("nobody", 0)], "unknown policy key"),
        (ActorID("member", 0), "no sequence of actors"),
        (["member"], "no ActorID"),
        ("member", "no sequence of actors"),
        (1, "no sequence of actors"),
    ],
)
def test_who_cannot_have_left_is_named_with_the_environment_that_says_so(departed, wrong):
    """Somebody else's series of decisions would end."""
    with pytest.raises(EnvError, match=rf"departed_actors\(\) .*{wrong}") as caught:
        leave(departed)
    assert "environment 1, episode 0 (seed 0), step 2" in caught.value.owner


def test_who_left_is_passed_on_once():
    assert leave([ActorID("member", 0), ("member", np.int64(0))]) == [{}, {1: (ActorID("member", 0),)}, {}]
    assert leave({ActorID("member", 7)}, n_agents=-1)[1] == {1: (ActorID("member", 7),)}


class Scripted(FlatEnv):
    """Actors decide in the order that is given, over and over; each sees how many decisions there were."""

    def __init__(self, actors):
        space, choice = spaces.Dict(n=spaces.Box(0, 99, (1,), np.float32)), spaces.Dict(x=spaces.Discrete(2))
        self.structured_spaces = StructuredSpaces(
            observation={"a": space, "b": space}, action={"a": choice, "b": choice}, agent_counts={"a": 3, "b": 1}
        )
        self._actors = actors

    def reset(self, *, seed=None, options=None):
        self._n = 0
        return self._observe(), {}

    def step(self, action):
        self._n += 1
        return self._observe(), 0.0, False, False, {}

    def _observe(self):
        return {"n": np.full(1, self._n, np.float32)}

    def actor_id(self):
        return self._actors[self._n % len(self._actors)]

    def is_flat_step_end(self):
        return self._n % 2 == 0


@pytest.mark.parametrize("part", [0.0, 0.1, 0.9])
def test_rows_are_those_of_each_key_in_order_whether_environments_are_in_step_or_not(part):
    """Mostly in step, sometimes, and hardly ever: each tick beside one that is grouped environment by environment."""
    rng = np.random.default_rng(3)
    actors = [ActorID("a", 0), ActorID("b", 0), ActorID("a", 2), ActorID("a", 1)]
    common = [actors[i] for i in rng.integers(4, size=60)]
    turns = [[own if rng.random() >= part else actors[rng.integers(4)] for own in common] for _ in range(5)]
    envs = SequentialVectorEnv([lambda own=own: Scripted(own) for own in turns])
    tick = envs.reset([[i] for i in range(5)])
    for n in range(60):
        expected = {}
        for index, own in enumerate(turns):
            expected.setdefault(own[n].step_key, []).append((index, own[n].agent_id))
        assert {
            key: list(zip(group.env_index.tolist(), group.agent_id.tolist(), strict=True))
            for key, group in tick.groups.items()
        } == expected
        for key, group in tick.groups.items():
            assert group.observation["n"].tolist() == [[n]] * len(expected[key])
            assert group.aligned == (len(expected[key]) == 5)
            assert group.agent_id.dtype == np.int64
        tick = envs.step({key: {"x": np.zeros(len(own), np.int64)} for key, own in expected.items()})
        assert tick.flat_step_end.tolist() == [(n + 1) % 2 == 0] * 5


def test_answers_that_an_environment_got_for_itself_alone_are_asked_for():
    env = Scripted([ActorID("a", 0)])
    env.is_actor_done = lambda: True
    envs = SequentialVectorEnv([lambda: Scripted([ActorID("a", 0)]), lambda: env])
    envs.reset([[0], [1]])
    assert envs.step({"a": {"x": np.zeros(2, np.int64)}}).actor_done.tolist() == [False, True]


def test_each_policy_key_has_one_agent_unless_the_spaces_say_otherwise():
    space = spaces.Dict(x=spaces.Discrete(2))
    both = dict.fromkeys(("a", "b"), space)
    assert StructuredSpaces(observation=both, action=both).agent_counts == {"a": 1, "b": 1}
    env = Team([])
    env.structured_spaces = StructuredSpaces(observation=both, action=both, agent_counts={"a": 3})
    with pytest.raises(EnvError, match="how many agents policy key 'b' has"):
        SequentialVectorEnv([lambda: env])


def test_a_bare_gymnasium_environment_is_refused_with_the_way_out():
    import gymnasium

    with pytest.raises(EnvError, match="no StructuredEnv") as caught:
        SequentialVectorEnv([lambda: gymnasium.make("CartPole-v1")])
    assert "maze_gym.env.GymEnv" in caught.value.help
