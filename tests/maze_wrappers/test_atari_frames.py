"""The preset "atari" shows what Gymnasium's `AtariPreprocessing` shows, frame by frame."""

import gymnasium
import numpy as np
import pytest

from maze_kernel.config import experiment_from_mapping
from maze_runtime.run.assembly import Assembly

ale_py = pytest.importorskip("ale_py", reason="the games are in ale-py")
pytest.importorskip("cv2", reason="Gymnasium resizes with opencv-python")
N_STEPS = 300


def reference(game, **options):
    """Four frames together, with zeros before the first, as `FrameStackObservation` pads."""
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    env = gymnasium.make(f"ALE/{game}-v5", frameskip=1, repeat_action_probability=0.0)
    return FrameStackObservation(AtariPreprocessing(env, noop_max=1, **options), 4, padding_type="zero")


def ours(kernel, game, **life_loss):
    """One environment under the preset, with a single idle frame: the number is random, from random states apart."""
    wrappers = [
        {"use": "random-reset", "noop": {"action": 0}, "min_skip": 1, "max_skip": 1},
        *([{"use": "life-loss", **life_loss}] if life_loss else []),
        {"use": "step-skip", "n_steps": 4, "max_of": 2},
        {"use": "resize-img", "observation": "observation", "target_size": [84, 84], "method": "area"},
        {"use": "observation-stack", "n": 4},
    ]
    env = {"use": "gym", "id": f"ale_py:ALE/{game}-v5", "kwargs": {"repeat_action_probability": 0.0}}
    data = {"name": "x", "preset": "atari", "env": env, "wrappers": wrappers, "trainer": {"use": "ppo"}}
    return Assembly(experiment_from_mapping(data, kernel=kernel), kernel).make_vector_env(1, training=True)


def compare(kernel, game, ours_options, reference_options):
    """Plays both with the same random actions; returns how many episodes ended."""
    env, other = ours(kernel, game, **ours_options), reference(game, **reference_options)
    rng, ended, seed = np.random.default_rng(0), 0, 11
    row = env.reset([[seed]]).groups["0"].observation
    (name,) = row
    expected, _ = other.reset(seed=seed)
    differing = 0
    for _ in range(N_STEPS):
        distance = np.abs(row[name][0].astype(int) - expected.astype(int))
        assert distance.max() <= 1  # halves are rounded from other sums
        differing += np.count_nonzero(distance)
        action = rng.integers(other.action_space.n)
        tick = env.step({"0": {"action": np.array([action])}})
        expected, reward, terminated, truncated, _ = other.step(action)
        assert (tick.reward[0], tick.terminated[0], tick.truncated[0]) == (reward, terminated, truncated)
        row = tick.groups["0"].observation
        if terminated or truncated:
            ended += 1
            seed += 1
            row = env.reset([[seed]]).groups["0"].observation
            expected, _ = other.reset(seed=seed)
    env.close()
    assert differing < 1e-3 * N_STEPS * 4 * 84 * 84
    return ended


@pytest.mark.slow
@pytest.mark.parametrize("game", ["Pong", "SpaceInvaders"])
def test_frames_rewards_and_ends_are_gymnasiums(kernel, game):
    compare(kernel, game, {}, {})


@pytest.mark.slow
def test_a_lost_life_ends_the_episode_as_there(kernel):
    assert compare(kernel, "Breakout", {"go_on": False}, {"terminal_on_life_loss": True}) >= 2


def test_the_preset_is_the_wrappers_compared_here(kernel):
    data = {"name": "x", "preset": "atari", "env": {"id": "ale_py:ALE/Pong-v5"}, "trainer": {"use": "ppo"}}
    loaded = experiment_from_mapping(data | {"env": {"use": "gym", **data["env"]}}, kernel=kernel).experiment
    names = ["random-reset", "life-loss", "step-skip", "resize-img", "observation-stack", "reward-clipping"]
    assert [wrapper.use for wrapper in loaded.wrappers] == names
    assert [loaded.wrappers[2].option(name, None) for name in ("n_steps", "max_of", "mode")] == [4, 2, "sticky"]
    assert loaded.wrappers[3].option("method", None) == "area"


def batch_of(kernel, game, **kwargs):
    """Two games under the preset of the native batch, without idle frames."""
    kwargs = {"game": game, "repeat_action_probability": 0.0, "noop_max": 1, **kwargs}
    data = {"name": "x", "preset": "atari-batch", "env": {"use": "gym-vector", "kwargs": kwargs}}
    data["env"]["entry"] = "ale_py.vector_env:AtariVectorEnv"
    assembly = Assembly(experiment_from_mapping(data | {"trainer": {"use": "ppo"}}, kernel=kernel), kernel)
    return assembly.make_vector_env(2, training=True)


def without_idle_frames(kernel, game):
    """The preset "atari" for one game, without idle frames and ends at lost lives."""
    wrappers = [
        {"use": "step-skip", "n_steps": 4, "max_of": 2},
        {"use": "resize-img", "observation": "observation", "target_size": [84, 84], "method": "area"},
        {"use": "observation-stack", "n": 4},
        {"use": "reward-clipping"},
    ]
    env = {"use": "gym", "id": f"ale_py:ALE/{game}-v5", "kwargs": {"repeat_action_probability": 0.0}}
    data = {"name": "x", "preset": "atari", "env": env, "wrappers": wrappers, "trainer": {"use": "ppo"}}
    return Assembly(experiment_from_mapping(data, kernel=kernel), kernel).make_vector_env(1, training=True)


@pytest.mark.slow
@pytest.mark.parametrize(("game", "file_name"), [("Pong", "pong"), ("SpaceInvaders", "space_invaders")])
def test_the_native_batch_shows_what_the_preset_shows(kernel, game, file_name):
    batch, single = batch_of(kernel, file_name), without_idle_frames(kernel, game)
    assert batch.structured_spaces.action == single.structured_spaces.action
    rng = np.random.default_rng(0)
    shown = batch.reset([[3], [4]]).groups["0"].observation["observation"]
    (expected,) = single.reset([[3]]).groups["0"].observation.values()
    ended = False
    for _ in range(N_STEPS * 4):
        assert np.abs(shown[0].astype(int) - expected[0].astype(int)).max() <= 1
        action = rng.integers(batch.structured_spaces.action["0"]["action"].n)
        tick = batch.step({"0": {"action": np.array([action, 0])}})
        other = single.step({"0": {"action": np.array([action])}})
        assert tick.reward[0] == other.reward[0]
        assert (tick.terminated[0], tick.truncated[0]) == (other.terminated[0], other.truncated[0])
        if ended := bool(tick.terminated[0]):
            break
        shown = tick.groups["0"].observation["observation"]
        (expected,) = other.groups["0"].observation.values()
    assert ended
    batch.close()
    single.close()


def test_the_preset_of_the_native_batch_steps_it_whole_and_lets_lives_be_lost(kernel):
    from maze_gym.native_vector import NativeVectorEnv
    from maze_runtime.rollout.collector import innermost

    env = batch_of(kernel, "breakout", noop_max=30)
    assert isinstance(innermost(env), NativeVectorEnv)
    tick = env.reset([[0], [1]])
    assert tick.groups["0"].observation["observation"].shape == (2, 4, 84, 84)
    games = innermost(env).env
    for _ in range(200):
        _, _, terminated, _, infos = games.step(np.array([1, 1]))  # FIRE, and no move towards the ball
        assert not terminated.any()
        if infos["lives"].min() < 5:
            break
    assert infos["lives"].min() == 4
    env.close()
