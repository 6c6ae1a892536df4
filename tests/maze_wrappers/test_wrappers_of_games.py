"""What video games ask for: lives, idle frames, first actions, screens that flicker, images by area."""

import numpy as np
import pytest
from gymnasium import spaces

from maze_cutting2d.env import make_env
from maze_cutting2d.options import CuttingOptions
from maze_kernel.catalog import build
from maze_kernel.config.load import select
from maze_kernel.errors import EnvError, RequestError
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_wrappers.resize_img import coverage


class Game(FlatEnv):
    """Two lives of three steps each; shows game, step and the last action."""

    structured_spaces = flat_spaces(
        spaces.Dict(
            screen=spaces.Box(0, 255, (3,), np.uint8), button=spaces.Discrete(4), button_mask=spaces.MultiBinary(4)
        ),
        spaces.Dict(action=spaces.Discrete(4)),
    )

    def __init__(self):
        self.games = 0
        self._screen = np.zeros(3, np.uint8)

    def reset(self, *, seed=None, options=None):
        self.games += 1
        self._steps, self._action, self.taken = 0, 0, []
        return self._look(), self._info()

    def step(self, action):
        self._steps += 1
        self._action = int(action["action"])
        self.taken.append(self._action)
        return self._look(), 1.0, self._steps == 6, False, self._info()

    def clone_from(self, other):
        self.games, self._steps, self._action = other.games, other._steps, other._action
        self.taken = list(other.taken)

    def _info(self):
        return {"lives": 2 - self._steps // 3}

    def _look(self):
        self._screen[:] = self.games, self._steps, 9 * (self._steps % 2)  # the last one flickers
        return {"screen": self._screen, "button": self._action, "button_mask": np.ones(4, np.int8)}


def wrapped(kernel, use, env=None, **options):
    return build(select(kernel, "wrapper", {"use": use, **options}), env or Game())


def play(env, n_steps, action=0):
    """Screens from a reset on, and after which steps the episode ended."""
    screens = [env.reset(seed=0)[0]["screen"].tolist()]
    ends = []
    for step in range(n_steps):
        observation, _, terminated, truncated, _ = env.step({"action": action})
        screens.append(observation["screen"].tolist())
        if terminated or truncated:
            ends.append(step)
            assert env.reset()[0]["screen"][1] in (0, observation["screen"][1])
    return screens, ends


def test_a_lost_life_ends_the_episode_and_the_game_goes_on(kernel):
    screens, ends = play(wrapped(kernel, "life-loss"), 9)
    assert ends == [2, 5, 8]
    assert [screen[:2] for screen in screens] == [
        [1, 0], [1, 1], [1, 2], [1, 3], [1, 4], [1, 5], [1, 6], [2, 1], [2, 2], [2, 3]
    ]  # fmt: skip


def test_without_going_on_each_life_begins_a_game(kernel):
    screens, ends = play(wrapped(kernel, "life-loss", go_on=False), 6)
    assert ends == [2, 5]
    assert [screen[:2] for screen in screens] == [[1, 0], [1, 1], [1, 2], [1, 3], [2, 1], [2, 2], [2, 3]]


def test_a_seed_begins_a_game(kernel):
    env = wrapped(kernel, "life-loss")
    env.reset(seed=0)
    while not env.step({"action": 0})[2]:
        pass
    assert env.reset(seed=1)[0]["screen"].tolist()[:2] == [2, 0]


def test_a_clone_knows_its_lives(kernel):
    env, twin = wrapped(kernel, "life-loss"), wrapped(kernel, "life-loss")
    env.reset(seed=0)
    env.step({"action": 0})
    twin.reset(seed=0)
    twin.clone_from(env)
    assert [twin.step({"action": 0})[2] for _ in range(2)] == [False, True]


def test_lives_that_nobody_counts_are_refused(kernel):
    with pytest.raises(RequestError, match="counts no lives") as refusal:
        wrapped(kernel, "life-loss", key="hearts").reset()
    assert refusal.value.option == "key"


class Quiet(Game):
    """Says nothing at its reset, as Maze environments do."""

    def reset(self, *, seed=None, options=None):
        return super().reset()[0], {}


def test_lives_are_counted_from_the_first_step_where_a_reset_says_nothing(kernel):
    env = wrapped(kernel, "life-loss", env=Quiet())
    env.reset(seed=0)
    assert [env.step({"action": 0})[2] for _ in range(3)] == [False, False, True]
    env = wrapped(kernel, "life-loss", env=Quiet(), key="hearts")
    env.reset()
    with pytest.raises(RequestError, match="counts no lives"):
        env.step({"action": 0})


def test_lives_count_in_training_only():
    from maze_wrappers.options import LifeLossOptions

    assert LifeLossOptions().training_only


def test_idle_steps_before_an_episode_are_the_given_ones(kernel):
    env = wrapped(kernel, "random-reset", noop={"action": 3}, min_skip=1, max_skip=5)
    skipped = []
    for seed in range(30):
        env.reset(seed=seed)
        skipped.append(len(env.env.taken))
        assert set(env.env.taken) == {3}
    assert set(skipped) == {1, 2, 3, 4, 5}
    with pytest.raises(RequestError, match="no action 'jump'") as refusal:
        wrapped(kernel, "random-reset", noop={"jump": 1})
    assert refusal.value.option == "noop"


def test_first_actions_are_taken_after_each_reset_and_count_nothing(kernel):
    env = wrapped(kernel, "first-actions", actions=[{"action": 1}, {"action": 2}])
    for _ in range(2):
        observation, _ = env.reset()
        assert env.env.taken == [1, 2]
        assert observation["screen"][1] == 2
    assert sum(env.step({"action": 0})[1] for _ in range(4)) == 4
    again = wrapped(kernel, "first-actions", actions=[{"action": 1}] * 7)
    assert again.reset()[0]["screen"].tolist()[:2] == [2, 1]  # six end the first game
    with pytest.raises(RequestError, match="actions is no action"):
        wrapped(kernel, "first-actions", actions=[{"action": 9}])


def test_first_actions_follow_a_lost_life_where_the_game_goes_on(kernel):
    env = wrapped(kernel, "first-actions", actions=[{"action": 1}, {"action": 2}], key="lives")
    env.reset()
    observation, reward, terminated, truncated, info = env.step({"action": 3})  # the third step loses a life
    assert env.env.taken == [1, 2, 3, 1, 2]
    assert (observation["screen"].tolist()[:2], info["lives"]) == ([1, 5], 1)
    assert (reward, terminated, truncated) == (3, False, False)  # with what the two were paid
    _, reward, terminated, *_ = env.step({"action": 3})
    assert (reward, terminated, env.env.taken) == (1, True, [1, 2, 3, 1, 2, 3])  # nothing after the end
    costly = wrapped(kernel, "first-actions", actions=[{"action": 1}] * 3, key="lives")
    costly.reset()  # which costs a life already
    assert costly.step({"action": 0})[4]["lives"] == 1
    assert costly.env.taken == [1, 1, 1, 0]
    with pytest.raises(RequestError, match="info has no 'hearts'") as refusal:
        wrapped(kernel, "first-actions", actions=[], key="hearts").reset()
    assert refusal.value.option == "key"
    assert "first-actions" in refusal.value.owner


def test_flickering_screens_are_joined(kernel):
    env = wrapped(kernel, "step-skip", n_steps=3, max_of=2)
    env.reset()
    observation, reward, *_ = env.step({"action": 2})
    assert observation["screen"].tolist() == [1, 3, 9]
    assert observation["button"] == 2
    assert reward == 3
    last = wrapped(kernel, "step-skip", n_steps=2)
    last.reset()
    assert last.step({"action": 2})[0]["screen"].tolist() == [1, 2, 0]
    joined = wrapped(kernel, "step-skip", n_steps=2, max_of=2)
    joined.reset()
    assert joined.step({"action": 2})[0]["screen"].tolist() == [1, 2, 9]


def test_a_maximum_of_recorded_states_is_refused(kernel):
    env = make_env(CuttingOptions(version="flat", max_episode_steps=9))
    skip = wrapped(kernel, "step-skip", env, n_steps=2, max_of=2)
    skip.reset(seed=0)
    with pytest.raises(EnvError, match="maximum of several"):
        skip.to_spaces("0", env.get_maze_state())


def test_a_maximum_over_more_steps_than_there_are_is_refused(kernel):
    with pytest.raises(RequestError, match="max_of 5 is above n_steps 4"):
        select(kernel, "wrapper", {"use": "step-skip", "max_of": 5})


@pytest.mark.parametrize(("size", "target"), [(210, 84), (160, 84), (7, 3), (5, 5), (3, 8)])
def test_area_weights_are_shares_of_a_new_pixel(size, target):
    found, n_parts = coverage(size, target), size * target
    # Each new pixel as `size` equal parts, each old one as `target` of them: parts lie in one old pixel whole.
    wanted = np.zeros((target, size))
    for part in range(n_parts):
        wanted[part // size, part // target] += 1 / size
    np.testing.assert_allclose(found, wanted, atol=1e-6)
