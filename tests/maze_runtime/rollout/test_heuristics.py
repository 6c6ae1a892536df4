"""Policies of one method: what they see, what they may answer, and planning in clones of what is played."""

import json
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from maze_gym.env import GymEnv
from maze_kernel.config import experiment_from_mapping, select
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.contracts.vector import Group
from maze_kernel.errors import ComponentError, EnvError
from maze_runtime.env.flat import flat_spaces
from maze_runtime.playing.roll_out import RolloutOptions, roll_out
from maze_runtime.rollout.heuristic import Heuristic

SPACES = flat_spaces(
    spaces.Dict(light=spaces.Box(-1.0, 1.0, (2,))),
    spaces.Dict(turn=spaces.Discrete(3), push=spaces.Box(-1.0, 1.0, (2,), np.float32)),
)
GROUP = Group(
    env_index=np.arange(3), agent_id=np.zeros(3, np.int64), observation={"light": np.eye(3, 2, dtype=np.float32)}
)


class Answers(Heuristic):
    """Gives back what it was made with."""

    def __init__(self, context, *, answer):
        super().__init__(context)
        self.answer = answer

    def act_one(self, observation, moment):
        return self.answer(observation) if callable(self.answer) else self.answer


def act(answer):
    return Answers(PolicyContext(spaces=SPACES), answer=answer).act("0", GROUP)


def test_rows_become_arrays_of_the_dtypes_of_the_spaces():
    actions = act(lambda observation: {"turn": int(observation["light"][0]), "push": [0, 1]})
    assert actions["turn"].tolist() == [1, 0, 0]
    assert actions["push"].shape == (3, 2)
    assert [array.dtype for array in actions.values()] == [np.int64, np.float32]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (1, "returned other heads than the action has"),
        ({"turn": 1}, "returned other heads than the action has"),
        ({"turn": 3, "push": [0, 0]}, "returned a value of 'turn' that its space does not have"),
        ({"turn": 1.5, "push": [0, 0]}, "returned a value of 'turn' that its space does not have"),
        ({"turn": None, "push": [0, 0]}, "returned a value of 'turn' that its space does not have"),
        ({"turn": 0, "push": [0, 2]}, "returned a value of 'push' that its space does not have"),
        ({"turn": 0, "push": [0]}, "returned a value of 'push' that its space does not have"),
    ],
)
def test_what_is_no_action_is_refused_by_the_name_of_the_policy(answer, said):
    with pytest.raises(ComponentError, match=rf"Answers\.act_one {said}") as caught:
        act(answer)
    assert caught.value.expected


MASKED = {
    "discrete": (spaces.Discrete(3, start=-1), [0, 1, 1], [0, 1], [-1]),
    "dimensions": (spaces.MultiDiscrete([2, 3]), [0, 1, 1, 0, 1], [[1, 0], [1, 2]], [[0, 0], [1, 1]]),
    "matrix": (spaces.MultiDiscrete([[2, 2]], start=[[0, 5]]), [1, 0, 0, 1], [[[0, 6]]], [[[1, 6]], [[0, 5]]]),
    "bits": (spaces.MultiBinary((2, 2)), [[0, 1], [1, 0]], [[[0, 1], [0, 0]]], [[[1, 0], [0, 0]]]),
    "nothing is allowed": (spaces.Discrete(2), [0, 0], [0, 1], []),
    "no mask, of another size": (spaces.Discrete(2), [1, 0, 0], [0, 1], []),
}


@pytest.mark.parametrize("name", ["move_mask", "action_mask"])
@pytest.mark.parametrize("case", MASKED)
def test_an_action_that_its_mask_forbids_is_refused(case, name):
    space, mask, allowed, forbidden = MASKED[case]
    mask = np.array(mask, np.int8)
    seen = flat_spaces(
        spaces.Dict({name: spaces.MultiBinary(mask.shape)}),
        spaces.Dict(move=space, push=spaces.Box(-1.0, 1.0, (1,))),
    )
    group = Group(env_index=np.arange(1), agent_id=np.zeros(1, np.int64), observation={name: mask[None]})

    def act_masked(answer):
        policy = Answers(PolicyContext(spaces=seen), answer={"move": answer, "push": [0.0]})
        return policy.act("0", group)["move"].tolist()

    assert [act_masked(answer) for answer in allowed] == [[answer] for answer in allowed]
    for answer in forbidden:
        with pytest.raises(ComponentError, match="returned a value of 'move' that its mask forbids") as caught:
            act_masked(answer)
        assert f"{name!r} allows" in caught.value.expected


class Planner(Heuristic):
    """CartPole: of both actions the one after which pushing where the pole leans lasts longest."""

    def __init__(self, context, *, n_steps: int = 30, plans: bool = True):
        super().__init__(context)
        self.n_steps = n_steps if plans else 0

    def act_one(self, observation, moment):
        return int(np.argmax([self.lasts(moment, action) for action in (0, 1)]))

    def lasts(self, moment, action):
        env = self.clone(moment)
        for step in range(self.n_steps):
            observation, _, terminated, _, _ = env.step({"action": action})
            if terminated:
                return step
            action = int(observation["observation"][2] + observation["observation"][3] > 0)
        return self.n_steps


def experiment(kernel, **env):
    return experiment_from_mapping(
        {
            "name": "planned",
            "env": {"use": "gym", "id": "CartPole-v1", "max_episode_steps": 60, **env},
            "trainer": {"use": "ppo"},
        },
        kernel=kernel,
    )


def rewards(kernel, options=None, **rollout):
    policy = {"use": f"{__name__}:Planner", **(options or {})}
    result = roll_out(experiment(kernel), kernel, RolloutOptions(n_episodes=3, **rollout), policy=policy)
    assert [episode.error for episode in result.episodes] == [None] * 3
    return [episode.total_reward for episode in result.episodes]


def test_a_planner_looks_ahead_in_a_classic_gymnasium_environment(kernel):
    assert rewards(kernel) == [60.0] * 3


def test_planning_changes_nothing_in_what_is_played(kernel):
    played = rewards(kernel, {"plans": False})  # it clones as often, and always takes action 0
    assert max(played) < 15
    zeros = roll_out(experiment(kernel), kernel, RolloutOptions(n_episodes=3), policy={"use": f"{__name__}:Zero"})
    assert played == [episode.total_reward for episode in zeros.episodes]


def test_what_is_recorded_is_planned_in_too(kernel, tmp_path):
    assert rewards(kernel, record_dir=tmp_path / "recorded") == [60.0] * 3


class Zero(Heuristic):
    def act_one(self, observation, moment):
        return 0


class Sighted(Heuristic):
    """Writes down what it sees of the environment, and cuts as the state says."""

    seen: ClassVar[list] = []

    def act_one(self, observation, moment):
        state = moment.maze_state
        self.seen.append((state, moment.env, moment.policy_key, moment.agent_id))
        return {head: space.dtype.type(0) for head, space in moment.action_space.items()}


def test_a_policy_sees_the_maze_state_and_the_environment(kernel):
    loaded = experiment_from_mapping(
        {"name": "cut", "env": {"use": "cutting-2d"}, "trainer": {"use": "ppo"}}, kernel=kernel
    )
    Sighted.seen.clear()
    roll_out(
        loaded,
        kernel,
        RolloutOptions(n_episodes=1, max_steps=3),
        policy=select(kernel, "policy", {"use": f"{__name__}:Sighted"}),
    )
    assert len(Sighted.seen) == 3
    for state, env, key, agent in Sighted.seen:
        assert type(state).__name__ == "CuttingState"
        assert type(env).__name__ == "MazeEnv"
        assert (key, agent) == ("0", 0)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "MountainCar-v0", "Acrobot-v1", "FrozenLake-v1"])
def test_a_clone_goes_on_as_the_original(env_id):
    original, clone = GymEnv(gymnasium.make(env_id)), GymEnv(gymnasium.make(env_id))
    original.reset(seed=3)
    clone.reset(seed=4)
    actions = original.structured_spaces.action["0"]
    actions.seed(0)
    for _ in range(3):
        original.step(actions.sample())
    clone.clone_from(original)
    before = json.dumps(original.env.unwrapped.np_random.bit_generator.state, default=str)
    for _ in range(3):
        clone.step(actions.sample())
    assert json.dumps(original.env.unwrapped.np_random.bit_generator.state, default=str) == before
    clone.clone_from(original)
    for _ in range(5):
        action = actions.sample()
        (seen, *rest), (copied, *others) = original.step(action), clone.step(action)
        assert {name: np.asarray(value).tolist() for name, value in seen.items()} == {
            name: np.asarray(value).tolist() for name, value in copied.items()
        }
        assert rest == others
        if rest[1]:
            break


def test_a_drawn_environment_is_cloned_without_its_window(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    original, clone = (GymEnv(gymnasium.make("CartPole-v1", render_mode="rgb_array")) for _ in range(2))
    original.reset(seed=1)
    assert original.render().shape[2] == 3
    clone.clone_from(original)
    assert clone.env.unwrapped.screen is None
    clone.step({"action": 1})
    assert original.render().shape[2] == 3


def test_a_simulation_that_cannot_be_copied_says_so():
    pytest.importorskip("Box2D")
    original, clone = GymEnv(gymnasium.make("LunarLander-v3")), GymEnv(gymnasium.make("LunarLander-v3"))
    original.reset(seed=1)
    with pytest.raises(EnvError, match="the environment cannot be cloned") as caught:
        clone.clone_from(original)
    assert "LunarLander" in caught.value.received
