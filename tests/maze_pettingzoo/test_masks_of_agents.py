"""Masks of agents in every form: of several heads and dimensions, in `info` and observations, of one game and many."""

from typing import ClassVar

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, iterate
from pettingzoo import ParallelEnv

from maze_kernel.contracts.model import PolicyContext
from maze_kernel.errors import EnvError
from maze_pettingzoo.batch_of_games import make_env
from maze_pettingzoo.env import PettingZooEnv
from maze_pettingzoo.making import as_turns
from maze_pettingzoo.options import PettingZooOptions, PettingZooVectorOptions
from maze_pettingzoo.vector_games import make_vector_env
from maze_runtime.rollout.episodes import run_episodes
from maze_runtime.rollout.random_policy import RandomPolicy
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv

AGENTS = ["p_0", "p_1"]
TWO, THREE = np.array([1, 0], np.int8), np.array([0, 1, 1], np.int8)
"""Masks of two heads, or of two dimensions."""
PAIR = spaces.Dict(x=spaces.Discrete(2), y=spaces.Discrete(3, start=1))
ALL = np.concatenate([TWO, THREE])


def both(first, second):
    return TWO[first] == THREE[second] == 1


def of_numbers(action):
    return both(*np.ravel(action))


def of_heads(action):
    return both(action["x"], action["y"] - 1)


FORMS = {
    "numbers": (spaces.MultiDiscrete([2, 3]), ALL, of_numbers),
    "numbers, a list": (spaces.MultiDiscrete([2, 3], dtype=np.int32), [TWO, THREE], of_numbers),
    "numbers of a matrix": (spaces.MultiDiscrete([[2], [3]]), [TWO, THREE], of_numbers),
    "bits": (spaces.MultiBinary((2, 2)), np.eye(2, dtype=np.int8), lambda action: action[0, 1] == action[1, 0] == 0),
    "dict": (PAIR, {"x": TWO, "y": THREE}, of_heads),
    "dict, one of its heads": (PAIR, {"y": THREE}, lambda action: THREE[action["y"] - 1]),
    "dict, all in one": (PAIR, ALL, of_heads),
    "dict with a box": (
        spaces.Dict(x=spaces.Discrete(2), z=spaces.Box(-1, 1, (2,))),
        {"x": TWO},
        lambda action: TWO[action["x"]],
    ),
    "tuple": (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]), (TWO, THREE), lambda action: both(*action)),
}
"""An action space, a mask, and which actions it allows."""
BOX = spaces.Box(-1, 1, (2,)), TWO, lambda action: True
N_ALLOWED = {"bits": 4, "dict, one of its heads": 4, "dict with a box": 60}
"""Different actions of 60; two unless it is said."""


def mask_space(mask):
    if isinstance(mask, dict):
        return spaces.Dict({name: mask_space(part) for name, part in mask.items()})
    if isinstance(mask, (list, tuple)):
        return spaces.Tuple([mask_space(part) for part in mask])
    return spaces.MultiBinary(mask.shape)


class Choosing(ParallelEnv):
    """Agents act within one mask, five times; those of `begins` are there from the start, others from time 2 on."""

    metadata: ClassVar = {"name": "choosing"}
    render_mode = None

    def __init__(self, form, place="info", begins=AGENTS, agents=AGENTS):
        self.possible_agents, self.begins = list(agents), begins
        self.actions, self.mask, self.is_allowed = FORMS[form] if form != "box" else BOX
        self.place = place

    def observation_space(self, agent):
        seen = spaces.Box(0, 9, (1,), np.float32)
        return seen if self.place != "observation" else spaces.Dict(seen=seen, action_mask=mask_space(self.mask))

    def action_space(self, agent):
        return self.actions

    def reset(self, seed=None, options=None):
        self.time, self.agents = 0, list(self.begins)
        return self.seen(), self.infos()

    def step(self, actions):
        assert all(self.actions.contains(action) for action in actions.values())
        assert all(self.is_allowed(action) for action in actions.values())
        self.time += 1
        if self.time == 2:
            self.agents = list(self.possible_agents)
        cut = dict.fromkeys(self.agents, self.time == 5)
        result = self.seen(), dict.fromkeys(self.agents, 1.0), dict.fromkeys(self.agents, False), cut, self.infos()
        if self.time == 5:
            self.agents = []
        return result

    def seen(self):
        seen = np.full(1, self.time, np.float32)
        return {
            agent: seen if self.place != "observation" else {"seen": seen, "action_mask": self.mask}
            for agent in self.agents
        }

    def infos(self):
        return {agent: {"action_mask": self.mask} if self.place == "info" else {} for agent in self.agents}


def play(env, n_episodes=3):
    policy = RandomPolicy(PolicyContext(spaces=env.structured_spaces))
    return run_episodes(SequentialVectorEnv([lambda: env]), policy, list(range(n_episodes)), deterministic=False)


@pytest.mark.parametrize("random_agents", [(), ("p_1",)])
@pytest.mark.parametrize("place", ["info", "observation"])
@pytest.mark.parametrize("form", FORMS)
def test_masks_in_every_form_reach_who_decides(form, place, random_agents):
    env = PettingZooEnv(as_turns(Choosing(form, place)), PettingZooOptions(id="", random_agents=random_agents))
    seen, _ = env.reset(seed=0)
    found = np.concatenate([seen[key] for key in sorted(env._seats["p_0"].mask_keys)], axis=None)
    one_head = {"dict, one of its heads": THREE, "dict with a box": TWO, "bits": np.eye(2).ravel()}
    assert found.tolist() == one_head.get(form, ALL).tolist()
    assert all(env.structured_spaces.observation["p"][key].contains(seen[key]) for key in seen if key != "seen")
    assert len(play(env)) == 3


@pytest.mark.parametrize("form", FORMS)
def test_random_agents_take_all_that_is_allowed(form):
    env = PettingZooEnv(as_turns(Choosing(form)), PettingZooOptions(id="", random_agents=("p_1",)))
    env.reset(seed=0)
    assert len({str(env._random_action("p_1")) for _ in range(60)}) == N_ALLOWED.get(form, 2)


@pytest.mark.parametrize("agents", [AGENTS, ["first", "second"]], ids=["one policy", "two policies"])
@pytest.mark.parametrize("form", FORMS)
def test_an_agent_that_joins_later_has_the_masks_of_those_before(form, agents):
    env = PettingZooEnv(as_turns(Choosing(form, begins=agents[:1], agents=agents)))
    joined = env._seats[agents[1]]
    if agents == AGENTS:
        assert joined.observation_space == env._seats["p_0"].observation_space
    assert len(play(env)) == 3


class Late(Choosing):
    """Who is in `late` has masks from time 2 on only."""

    def __init__(self, form, late, **kwargs):
        super().__init__(form, **kwargs)
        self.late, self.is_allowed = late, lambda action: True

    def infos(self):
        return {agent: {} if agent in self.late and self.time < 2 else info for agent, info in super().infos().items()}


@pytest.mark.parametrize(
    ("game", "step", "words"),
    [
        (Late("numbers", AGENTS), 4, ["agent 0 of policy 'p'", "was not there at the first reset", "with ones"]),
        (Late("bits", ["b"], begins=["a"], agents=["a", "b"]), None, []),
        (Late("dict", ["a"], begins=["a"], agents=["a", "b"]), 2, ["agent 0 of policy 'a'", "was not there"]),
        (Choosing("box"), 0, ["fits no action head", "a Box cannot be masked"]),
    ],
    ids=["later", "joins later", "only who joins", "box"],
)
def test_a_mask_that_nobody_reads_is_refused(game, step, words):
    env = PettingZooEnv(as_turns(game), PettingZooOptions(id="", rewards="team"))
    if not words:
        play(env)
        return
    with pytest.raises(EnvError) as caught:
        play(env)
    assert all(word in caught.value.render() for word in words), caught.value.render()
    assert f"step {step}" in caught.value.render()


class ManyChoosing:
    """A batch of such games."""

    def __init__(self, num_envs, form, place):
        self.num_envs, self.place = num_envs, place
        self.metadata = {"autoreset_mode": AutoresetMode.DISABLED}
        self.possible_agents = list(AGENTS)
        self.one = Choosing(form, place)
        self.observation_space, self.action_space = self.one.observation_space, self.one.action_space

    def reset(self, *, seed=None, options=None):
        if options is None:
            self.time = np.zeros(self.num_envs)
        self.time[(options or {}).get("reset_mask", slice(None))] = 0
        return self.seen(), self.infos()

    def step(self, actions):
        assert all(self.one.is_allowed(action) for taken in actions.values() for action in self.rows(taken))
        self.time += 1
        never = np.zeros(self.num_envs, bool)
        return self.seen(), dict.fromkeys(AGENTS, never + 1.0), never, self.time == 5, self.infos()

    def rows(self, taken):
        return iterate(batch_space(self.action_space("p_0"), self.num_envs), taken)

    def seen(self):
        seen = self.time[:, None].astype(np.float32)
        mask = self.of_all(self.one.mask)
        return dict.fromkeys(AGENTS, seen if self.place == "info" else {"seen": seen, "action_mask": mask})

    def infos(self):
        return dict.fromkeys(AGENTS, {"action_mask": self.of_all(self.one.mask)} if self.place == "info" else {})

    def of_all(self, mask):
        if isinstance(mask, dict):
            return {name: self.of_all(part) for name, part in mask.items()}
        if isinstance(mask, (list, tuple)):
            return tuple(self.of_all(part) for part in mask)
        return np.repeat(mask[None], self.num_envs, axis=0)


@pytest.mark.parametrize("place", ["info", "observation"])
@pytest.mark.parametrize("form", FORMS)
def test_masks_of_many_games_are_those_of_one(form, place):
    options = PettingZooVectorOptions(entry=lambda num_envs: ManyChoosing(num_envs, form, place))
    single, batch = make_env(options), make_vector_env(3, options)
    assert single.structured_spaces == batch.structured_spaces
    assert len(play(single, 2)) == 2
    policy = RandomPolicy(PolicyContext(spaces=batch.structured_spaces))
    tick = batch.reset([[0]] * 3)
    expected = single.reset(seed=0)[0]
    for key in single._seats["p_0"].mask_keys:
        assert tick.groups["p"].observation[key].tolist() == [expected[key].tolist()] * 3
    for _ in range(15):
        tick = batch.step({"p": policy.act("p", tick.groups["p"])})
