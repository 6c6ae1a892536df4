"""Games are played as PettingZoo plays them: observations, turns, rewards, agents that leave."""

from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from mpe2 import simple_speaker_listener_v4, simple_spread_v3
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.classic import connect_four_v3, tictactoe_v3
from pettingzoo.test import api_test, parallel_api_test
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.errors import EnvError, MazeError, RequestError
from maze_kernel.loader import Kernel
from maze_pettingzoo.credit import Ledger
from maze_pettingzoo.env import PettingZooEnv, adapt, make_env
from maze_pettingzoo.making import as_turns
from maze_pettingzoo.options import PettingZooOptions
from maze_runtime.env.batching import scalar_reward
from maze_runtime.rollout.episodes import run_episodes
from maze_runtime.rollout.random_policy import RandomPolicy
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_testing.envs import check_env

FOUR = "pettingzoo.classic.connect_four_v3"
SPREAD = "mpe2.simple_spread_v3"


def build(game_id, **options):
    return make_env(PettingZooOptions(id=game_id, **options))


class Leaving(ParallelEnv):
    """Three agents at once; agent i leaves after i + 2 rounds with its number as its last reward. Masks are in info."""

    metadata: ClassVar = {"name": "leaving"}
    render_mode = None

    def __init__(self):
        self.possible_agents = [f"runner_{i}" for i in range(3)]
        self.observation_spaces = {agent: spaces.Box(0, 9, (1,), np.float64) for agent in self.possible_agents}
        self.action_spaces = {agent: spaces.Discrete(2, start=1) for agent in self.possible_agents}

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    def reset(self, seed=None, options=None):
        self.agents, self.round = list(self.possible_agents), 0
        self.taken = []
        return self._seen(), {agent: {"action_mask": np.array([1, 1], np.int8)} for agent in self.agents}

    def step(self, actions):
        self.taken.append(dict(actions))
        self.round += 1
        out = {agent: self.round >= int(agent[-1]) + 2 for agent in self.agents}
        results = (
            self._seen(),
            {agent: float(agent[-1]) if out[agent] else -1.0 for agent in self.agents},
            out,
            dict.fromkeys(self.agents, False),
            {agent: {"action_mask": np.array([1, self.round % 2], np.int8)} for agent in self.agents},
        )
        self.agents = [agent for agent in self.agents if not out[agent]]
        return results

    def _seen(self):
        return {agent: np.array([self.round], np.float64) for agent in self.agents}


@pytest.mark.parametrize(
    ("game_id", "options"),
    [
        (FOUR, {}),
        (FOUR, {"random_agents": ("player_1",)}),
        (FOUR, {"rewards": "team"}),
        (SPREAD, {"rewards": "team", "kwargs": {"max_cycles": 6}}),
        (SPREAD, {"kwargs": {"max_cycles": 6, "continuous_actions": True}}),
        ("mpe2.simple_speaker_listener_v4", {"kwargs": {"max_cycles": 5}}),
        ("mpe2.simple_tag_v3", {"kwargs": {"max_cycles": 5}}),
        (Leaving, {}),
        (Leaving, {"rewards": "team"}),
    ],
    ids=str,
)
def test_games_conform(game_id, options):
    check_env(lambda: build(game_id, **options), n_steps=60)


def test_the_games_pass_the_tests_of_pettingzoo():
    """So what is played below is a game as PettingZoo means it."""
    parallel_api_test(Leaving(), num_cycles=20)
    api_test(build(Leaving).game, num_cycles=20)


def play_by_hand(game, seed, choose):
    """PettingZoo's own loop: (agent, observation) of every decision, and each agent's total reward."""
    decisions, total = [], {}
    game.reset(seed=seed)
    for agent in game.agent_iter():
        observation, reward, terminated, truncated, info = game.last()
        total[agent] = total.get(agent, 0.0) + reward
        action = None if terminated or truncated else choose(observation, info)
        if action is not None:
            decisions.append((agent, observation, action))
        game.step(action)
    return decisions, total


def first_allowed(rng, n, mask):
    allowed = np.arange(n) if mask is None else np.flatnonzero(mask)
    return int(rng.choice(allowed))


@pytest.mark.parametrize("rewards", ["own", "team"])
@pytest.mark.parametrize(
    ("make_game", "game_id", "n_actions"),
    [
        (connect_four_v3.env, FOUR, 7),
        (tictactoe_v3.env, "pettingzoo.classic.tictactoe_v3", 9),
        (lambda: simple_spread_v3.env(max_cycles=7), SPREAD, 5),
    ],
    ids=["connect four", "tic-tac-toe", "spread"],
)
def test_a_game_is_that_of_pettingzoos_own_loop(make_game, game_id, n_actions, rewards):
    kwargs = {"max_cycles": 7} if game_id == SPREAD else {}
    env = build(game_id, rewards=rewards, kwargs=kwargs)
    agents = {seat.actor: agent for agent, seat in env._seats.items()}
    for seed in range(3):
        rng = np.random.default_rng(seed)

        def choose(seen, info, rng=rng):
            mask = seen["action_mask"] if isinstance(seen, dict) else info.get("action_mask")
            return first_allowed(rng, n_actions, mask)

        decisions, total = play_by_hand(make_game(), seed, choose)
        observation, _ = env.reset(seed=seed)
        paid, over = 0.0, False
        for agent, seen, action in decisions:
            assert not over
            assert agents[env.actor_id()] == agent
            expected = seen if isinstance(seen, dict) else {"observation": seen}
            for name, array in expected.items():
                np.testing.assert_array_equal(observation[name], np.asarray(array, observation[name].dtype))
            observation, reward, terminated, truncated, _ = env.step({"action": action})
            paid += reward
            over = terminated or truncated
        assert over
        assert paid == pytest.approx(sum(total.values()))
        assert truncated == (game_id == SPREAD)
        if rewards == "own":
            returns = own_returns(env.get_actor_rewards(), [agent for agent, _, _ in decisions])
            assert returns == pytest.approx(total)


def own_returns(rewards, agents):
    """What each agent's first decision is worth: the sum of all rewards from there on."""
    assert len(rewards) == len(agents)
    sums = np.cumsum(rewards[::-1])[::-1]
    return {agent: float(sums[agents.index(agent)]) for agent in set(agents)}


class Louder(OrderEnforcingWrapper):
    """A subclass of a wrapper that only checks, which does more."""

    def last(self, observe=True):
        observation, reward, *rest = super().last(observe)
        return (observation, 10 * reward, *rest)


@pytest.mark.parametrize(
    ("game", "steps_inside", "reads_inside"),
    [
        (simple_spread_v3.env(), True, True),
        (simple_spread_v3.env(continuous_actions=True), False, True),
        (connect_four_v3.env(), False, False),
        (as_turns(simple_spread_v3.parallel_env()), True, True),
        (Louder(simple_spread_v3.raw_env()), False, False),
    ],
)
def test_wrappers_that_only_check_are_passed_by(game, steps_inside, reads_inside):
    env = PettingZooEnv(game)
    assert (env._access._stepped is game.unwrapped) == steps_inside
    assert (env._access.read is game.unwrapped) == reads_inside


@pytest.mark.parametrize("action", [7, -1, np.int64(5)])
def test_an_action_that_a_game_asserts_not_to_get_is_refused(action):
    env = build(SPREAD)
    env.reset(seed=0)
    with pytest.raises(EnvError, match="agent_0 was given an action that the game does not have") as caught:
        env.step({"action": action})
    assert caught.value.expected == "Discrete(5)"


def test_a_game_is_drawn_after_steps_past_its_wrappers():
    env = build(SPREAD, render_mode="rgb_array")
    env.reset(seed=0)
    env.step({"action": 1})
    assert env.render().shape == (700, 700, 3)
    env.close()


def test_the_winner_is_paid_and_the_loser_pays():
    env = build(FOUR)
    env.reset(seed=0)
    for column in (0, 1, 0, 1, 0, 1):
        assert env.step({"action": column})[1:4] == (0.0, False, False)
        assert not env.is_flat_step_end()
    assert env.step({"action": 0})[1:4] == (0.0, True, False)  # +1 and −1: nothing together
    assert env.is_flat_step_end()
    from_here_on = np.cumsum(env.get_actor_rewards()[::-1])[::-1]
    assert from_here_on.tolist() == [1, -1, 1, -1, 1, -1, 1]


def test_masks_forbid_full_columns():
    env = build(FOUR)
    observation, _ = env.reset(seed=0)
    assert env.structured_spaces.observation["player"]["action_mask"] == spaces.MultiBinary(7)
    for _ in range(6):
        observation = env.step({"action": 3})[0]
    assert observation["action_mask"].tolist() == [1, 1, 1, 0, 1, 1, 1]


def test_agents_that_are_out_are_stepped_over():
    game = Leaving()
    env = build(lambda: game, rewards="team")
    observation, _ = env.reset(seed=0)
    order, paid, left, others, rounds, over = [], [], [], [], 0, False
    while not over:
        order.append(env.actor_id().agent_id)
        assert observation["action_mask"].tolist() == [1, 1 if rounds == 0 else rounds % 2]
        observation, reward, terminated, truncated, _ = env.step({"action": 0})
        over = terminated or truncated
        rounds += env.is_flat_step_end()
        paid.append(reward)
        left.append(env.is_actor_done())
        others.append([actor.agent_id for actor in env.departed_actors()])
    assert not any(left)
    assert others == [[], [], [], [], [], [0], [], [1], []]  # runner_2 is the last one, and ends the episode
    assert order == [0, 1, 2, 0, 1, 2, 1, 2, 2]
    assert rounds == 4
    assert sum(paid) == -1 + 0 + -2 + 1 + -3 + 2
    assert (terminated, truncated) == (True, False)
    assert game.taken[0] == {"runner_0": 1, "runner_1": 1, "runner_2": 1}  # its actions start at 1


class Coming(Leaving):
    """In each round those are in the game whom the plan names; it is over with the plan."""

    def __init__(self, *plan):
        super().__init__()
        self.plan = [[f"runner_{number}" for number in numbers] for numbers in plan]

    def reset(self, seed=None, options=None):
        super().reset(seed, options)
        self.agents = list(self.plan[0])
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions):
        assert list(actions) == self.agents
        self.round += 1
        is_over = self.round == len(self.plan)
        following = [] if is_over else self.plan[self.round]
        every = list(dict.fromkeys([*self.agents, *following]))
        out = {agent: agent not in following for agent in every}
        self.agents = every
        seen = self._seen()
        self.agents = list(following)
        return seen, dict.fromkeys(every, 1.0), out, dict.fromkeys(every, False), {agent: {} for agent in every}


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (["0", "01", "01", "0", "0"], [(0, []), (0, []), (1, []), (0, []), (1, [1]), (0, []), (0, [])]),
        (["01", "12", "2", "2"], [(0, []), (1, [0]), (1, []), (2, [1]), (2, []), (2, [])]),
        (["01", "0", "01", "0"], [(0, []), (1, [1]), (0, []), (0, []), (1, [1]), (0, [])]),
    ],
    ids=["joins and dies", "one after the other", "comes back"],
)
def test_agents_that_join_are_departed_when_they_leave_and_not_before(plan, expected):
    env = PettingZooEnv(as_turns(Coming(*plan)), PettingZooOptions(id="", rewards="team"))
    env.reset(seed=0)
    found, over = [], False
    while not over:
        acted = env.actor_id().agent_id
        _, _, over, _, _ = env.step({"action": np.int64(0)})
        left = [actor.agent_id for actor in env.departed_actors()]
        found.append((acted, sorted(left + [acted] * env.is_actor_done())))
    assert found == expected


def test_own_rewards_of_agents_that_leave_at_different_times():
    env = build(Leaving)
    env.reset(seed=0)
    agents, over = [], False
    while not over:
        agents.append(env.actor_id().agent_id)
        _, _, terminated, truncated, _ = env.step({"action": 0})
        over = terminated or truncated
    assert own_returns(env.get_actor_rewards(), agents) == {0: -1.0 + 0, 1: -2.0 + 1, 2: -3.0 + 2}


@pytest.mark.parametrize("rewards", ["own", "team"])
def test_the_only_agent_of_a_game_ends_a_step_with_each_decision(rewards):
    env = build("mpe2.simple_v3", rewards=rewards, kwargs={"max_cycles": 5})
    env.reset(seed=1)
    told = [(env.step({"action": 0})[3], env.is_flat_step_end(), env.get_actor_rewards()) for _ in range(5)]
    assert told == [(False, True, None)] * 4 + [(True, True, None)]


def test_what_is_paid_before_the_first_decision_is_nobodys_merit():
    ledger = Ledger()
    ledger.pay("b", 5.0)
    ledger.decide("a")
    ledger.pay("a", 1.0)
    ledger.decide("b")
    ledger.pay("b", -2.0)
    assert ledger.rewards().tolist() == [3.0, -2.0]


def test_agents_are_gathered_into_policies():
    def keys(game_id, **options):
        return dict(build(game_id, **options).structured_spaces.agent_counts)

    assert keys(FOUR) == {"player": 2}
    assert keys(FOUR, policies={"player_1": "rival"}) == {"player": 1, "rival": 1}
    assert keys(SPREAD) == {"agent": 3}
    assert keys("mpe2.simple_speaker_listener_v4") == {"speaker": 1, "listener": 1}
    assert keys("mpe2.simple_tag_v3") == {"adversary": 3, "agent": 1}


def test_random_agents_play_within_their_masks_and_repeat_with_the_seed():
    env = build(FOUR, random_agents=("player_0",))
    policy = RandomPolicy(PolicyContext(spaces=env.structured_spaces))
    batch = SequentialVectorEnv([lambda: env])
    runs = []
    for _ in range(2):
        policy.seed(1)
        runs.append(run_episodes(batch, policy, list(range(30)), deterministic=False))
    assert runs[0] == runs[1]
    outcomes = {result.total_reward for result in runs[0]}
    assert {1.0, -1.0} <= outcomes <= {1.0, 0.0, -1.0}


def test_any_way_of_naming_a_game_works():
    games = [FOUR, "pettingzoo.classic.connect_four_v3:env", connect_four_v3.env, connect_four_v3.env()]
    for game in games:
        assert build(game).structured_spaces.policy_keys == ("player",)
    assert build("mpe2.simple_spread_v3:parallel_env").structured_spaces.policy_keys == ("agent",)


def test_a_game_given_as_an_instance_is_copied():
    game = Leaving()
    for env in (build(game), build(game)):
        env.reset(seed=0)
    assert not hasattr(game, "taken"), "a reset of a copy reached the game that was given"


def test_every_game_has_lists_and_tables_of_its_own():
    given = {"board": [[0]]}

    class Board(Leaving):
        def __init__(self, board):
            super().__init__()
            board[0].append(1)
            self.board = board

    games = [build(Board, kwargs=given).game.unwrapped for _ in range(2)]
    assert [game.board for game in games] == [[[0, 1]]] * 2
    assert given == {"board": [[0]]}


def test_games_made_by_factories_are_adapted():
    kernel = Kernel.installed()
    tables = {"name": "game", "trainer": {"use": "ppo"}}
    from maze_runtime.run.assembly import Assembly

    for factory in (simple_speaker_listener_v4.parallel_env, connect_four_v3.env):
        loaded = experiment_from_mapping({**tables, "env": factory}, kernel=kernel)
        assert isinstance(Assembly(loaded, kernel).env_factory()(), PettingZooEnv)
    assert adapt(object()) is None


@pytest.mark.parametrize(
    ("game_id", "options", "error", "message"),
    [
        (
            "pettingzoo.classic.connect_five_v1",
            {},
            RequestError,
            "no module pettingzoo.classic.connect_five",
        ),
        ("pettingzoo.utils:nothing", {}, RequestError, "has no nothing"),
        (FOUR, {"kwargs": {"columns": 9}}, RequestError, "does not take these kwargs"),
        (FOUR, {"random_agents": ("player_7",)}, RequestError, "no agent 'player_7'"),
        (dict, {}, EnvError, "something else"),
        (
            "mpe2.simple_tag_v3",
            {"policies": {"agent_0": "adversary"}},
            RequestError,
            "unlike spaces",
        ),
    ],
)
def test_a_wrong_request_is_explained(game_id, options, error, message):
    with pytest.raises(error, match=message) as raised:
        build(game_id, **options)
    assert isinstance(raised.value, MazeError)


@pytest.mark.parametrize(
    ("game_id", "nearest"),
    [
        ("pettingzoo.classic.connect_four_v2", ("pettingzoo.classic.connect_four_v3",)),
        ("mpe2.simple_spred_v3", ("mpe2.simple_spread_v3",)),
        ("mpe2.nothing_of_the_kind", ()),
        ("no_such_package.game_v1", ()),
        ("no_such_game_v1", ()),
    ],
)
def test_another_version_of_a_game_is_named(game_id, nearest):
    with pytest.raises(RequestError, match="there is no module") as raised:
        build(game_id)
    assert raised.value.nearest == nearest


def test_frames_are_the_games_own():
    env = build(FOUR, render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape[-1] == 3
    env.close()
    assert isinstance(env.game, AECEnv)


class Folding(AECEnv):
    """Two agents in turn; action 1 ends the game and costs its agent a point; the mask of the other agent is zero."""

    metadata: ClassVar = {"name": "folding"}
    render_mode = None

    def __init__(self, n_actions=2):
        super().__init__()
        self.possible_agents = ["left", "right"]
        self.n_actions = n_actions

    def observation_space(self, agent):
        return spaces.Dict({"seen": spaces.Box(0, 99, (1,), np.float32), "action_mask": spaces.MultiBinary(2)})

    def action_space(self, agent):
        return spaces.Discrete(2)

    def observe(self, agent):
        is_waiting = not self.agents or agent != self.agent_selection or self.terminations[agent]
        mask = np.zeros(2, np.int8) if is_waiting else np.arange(2) < self.n_actions
        return {"seen": np.array([self.turn], np.float32), "action_mask": mask.astype(np.int8)}

    def reset(self, seed=None, options=None):
        self.agents, self.turn = list(self.possible_agents), 0
        self.rewards, self._cumulative_rewards = (dict.fromkeys(self.agents, 0.0) for _ in range(2))
        self.terminations, self.truncations = (dict.fromkeys(self.agents, False) for _ in range(2))
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = "right"

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self.turn += 1
        self._cumulative_rewards[agent] = 0
        self.rewards = {other: -1.0 if other == agent and action == 1 else 0.0 for other in self.agents}
        if action == 1:
            self.terminations = dict.fromkeys(self.agents, True)
        self.agent_selection = "left" if agent == "right" else "right"
        self._accumulate_rewards()


def test_a_game_that_is_over_before_anyone_decides_is_no_episode():
    env = PettingZooEnv(Folding(), PettingZooOptions(id="", random_agents=("right",)))
    turns = set()
    for seed in range(40):
        observation, _ = env.reset(seed=seed)
        assert observation["action_mask"].tolist() == [1, 1]
        again, _ = env.reset(seed=seed)
        assert np.array_equal(observation["seen"], again["seen"])
        while True:
            observation, reward, terminated, _, _ = env.step({"action": np.int64(0)})
            if terminated:
                break
            assert observation["action_mask"].any()
        assert reward == 0
        turns.add(float(observation["seen"][0]))
    assert len(turns) > 2


def test_games_that_nobody_decides_are_refused():
    env = PettingZooEnv(Folding(), PettingZooOptions(id="", random_agents=("left", "right")))
    with pytest.raises(EnvError, match="before another agent decides") as caught:
        env.reset(seed=0)
    assert "random_agents" in caught.value.help


class Waiting(Leaving):
    """Agents take their choices in turn, though all are asked; those that wait have a mask of zeros."""

    def _masks(self):
        return {agent: {"action_mask": np.full(2, int(agent[-1]) == self.round % 3, np.int8)} for agent in self.agents}

    def reset(self, seed=None, options=None):
        observations, _ = super().reset(seed, options)
        return observations, self._masks()

    def step(self, actions):
        self.taken.append(dict(actions))
        self.round += 1
        truncated = dict.fromkeys(self.agents, self.round == 7)
        infos = self._masks()
        rewards = {agent: float(infos[agent]["action_mask"].any()) for agent in self.agents}
        results = (self._seen(), rewards, dict.fromkeys(self.agents, False), truncated, infos)
        self.agents = [] if self.round == 7 else self.agents
        return results


@pytest.mark.parametrize("rewards", ["own", "team"])
def test_an_agent_whose_mask_is_zero_is_not_asked(rewards):
    game = Waiting()
    env = PettingZooEnv(as_turns(game), PettingZooOptions(id="", rewards=rewards))
    observation, _ = env.reset(seed=0)
    asked = []
    while True:
        assert observation["action_mask"].all()
        asked.append(env.actor_id().agent_id)
        observation, _, _, truncated, _ = env.step({"action": np.int64(1)})
        if truncated:
            break
    assert asked == [0, 1, 2, 0, 1, 2, 0]
    assert [taken[f"runner_{agent}"] for taken, agent in zip(game.taken, asked, strict=True)] == [2] * 7


class Guessing(Folding):
    """The right player guesses a coin that the game throws; the left one sees whether it did."""

    def reset(self, seed=None, options=None):
        super().reset(seed, options)
        self.coin = np.random.default_rng(seed).integers(2)  # as Gymnasium's seeding does

    def step(self, action):
        if not self.terminations[self.agent_selection]:
            self.turn, self.agent_selection = int(action == self.coin) - 1, "left"


def test_random_agents_do_not_draw_what_the_game_draws():
    env = PettingZooEnv(Guessing(), PettingZooOptions(id="", random_agents=("right",)))
    seen = [float(env.reset(seed=seed)[0]["seen"][0]) for seed in range(200)]
    assert np.mean([number == 0 for number in seen]) == pytest.approx(0.5, abs=4 * 0.5 / 200**0.5)


@pytest.mark.slow
def test_poker_against_a_player_that_may_fold_first():
    pytest.importorskip("rlcard", reason="rlcard is not installed: pip install 'pettingzoo[classic]'")
    env = build("pettingzoo.classic.leduc_holdem_v4", random_agents=("player_1",))
    rng = np.random.default_rng(0)
    for seed in range(60):
        observation, _ = env.reset(seed=seed)
        is_over = False
        while not is_over:
            choice = rng.choice(np.flatnonzero(observation["action_mask"]))
            observation, _, terminated, truncated, _ = env.step({"action": np.int64(choice)})
            is_over = terminated or truncated
            assert is_over or observation["action_mask"].any()


class Pair(gymnasium.Env):
    """Two agents that are paid for taking the number the other one sees; the second may be given a mask."""

    observation_space = spaces.Tuple([spaces.Box(0, 1, (1,)), spaces.Box(0, 1, (2,))])
    action_space = spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)])

    def __init__(self, rewards="list", n_steps=3):
        self.rewards, self.n_steps, self.taken = rewards, n_steps, []

    def _seen(self):
        self.bits = self.np_random.integers(2, size=2)
        return np.array([self.bits[0]], np.float32), np.array([self.bits[1]] * 2, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._seen(), {}

    def step(self, action):
        self.taken.append(tuple(int(choice) for choice in action))
        self.time += 1
        paid = [float(action[0] == self.bits[1]), float(action[1] == self.bits[0])]
        is_over = self.time == self.n_steps
        return self._seen(), paid if self.rewards == "list" else sum(paid), is_over, False, {}


@pytest.mark.parametrize("rewards", ["list", "number"])
def test_a_gymnasium_environment_of_a_team_is_a_game(rewards):
    inner = Pair(rewards)
    env = PettingZooEnv(as_turns(inner), PettingZooOptions(id="", rewards="team"))
    assert set(env.structured_spaces.observation) == {"agent_0", "agent_1"}
    for seed in range(3):
        inner.taken.clear()
        env.reset(seed=seed)
        bits, total, expected = inner.bits.copy(), 0.0, 0.0
        for step in range(3):
            assert env.actor_id().step_key == "agent_0"
            _, reward, over, _, _ = env.step({"action": np.int64(1)})
            total += reward
            assert not over
            assert env.actor_id().step_key == "agent_1"
            _, reward, over, _, _ = env.step({"action": np.int64(step % 2)})
            total += reward
            expected += float(bits[1] == 1) + float(bits[0] == step % 2)
            bits = inner.bits.copy()
        assert over
        assert total == pytest.approx(expected)
        assert inner.taken == [(1, 0), (1, 1), (1, 0)]


@pytest.mark.parametrize("rewards", ["team", "own"])
def test_a_single_reward_is_shared_by_those_that_are_in_the_game(rewards):
    class Parting(Pair):
        """Pays the team 1 a step; the second agent is out after the second of four."""

        def step(self, action):
            seen = super().step(action)[0]
            return seen, 1.0, [False, self.time >= 2], [self.time == 4, False], {}

    env = PettingZooEnv(as_turns(Parting()), PettingZooOptions(id="", rewards=rewards))
    env.reset(seed=0)
    paid, agents, over = [], [], False
    while not over:
        agents.append(env.actor_id().step_key)
        _, reward, terminated, truncated, _ = env.step({"action": np.int64(0)})
        paid.append(reward)
        over = terminated or truncated
    assert sum(paid) == 4.0
    if rewards == "own":
        assert own_returns(env.get_actor_rewards(), agents) == {"agent_0": 3.0, "agent_1": 1.0}


def test_a_team_is_named_by_its_gymnasium_id():
    gymnasium.register("maze-test/Pair-v0", entry_point=Pair)
    try:
        env = build("maze-test/Pair-v0", kwargs={"n_steps": 1})
        env.reset(seed=0)
        _, _, over, _, _ = env.step({"action": np.int64(0)})
        assert not over
        assert env.step({"action": np.int64(0)})[2]
        check_env(lambda: build("maze-test/Pair-v0"))
    finally:
        del gymnasium.registry["maze-test/Pair-v0"]


def test_an_environment_of_one_agent_is_no_game():
    with pytest.raises(EnvError, match="Tuples") as caught:
        build("CartPole-v1")
    assert 'use = "gym"' in caught.value.help


def test_a_list_of_rewards_names_the_way_to_play_a_team():
    with pytest.raises(EnvError, match="not one number") as caught:
        scalar_reward([1.0, 2.0])
    assert 'use = "pettingzoo"' in caught.value.help
    with pytest.raises(EnvError, match="not one number") as caught:
        scalar_reward(None)
    assert caught.value.help is None


@pytest.mark.parametrize("kind", [AECEnv, ParallelEnv])
def test_a_game_without_names_of_its_agents_is_refused(kind):
    with pytest.raises(EnvError, match="the game has no possible_agents and no metadata"):
        as_turns(type("Bare", (kind,), {})())
