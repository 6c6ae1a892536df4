"""What a rollout writes and shows: episodes that are cut, events of Gymnasium environments, films, windows."""

import csv
from pathlib import Path

import numpy as np
import pytest

from maze_cutting2d.conversions import CuttingHeads, InventoryObservation
from maze_cutting2d.core_env import CuttingCoreEnv
from maze_cutting2d.options import CuttingOptions
from maze_cutting2d.rewards import DefaultReward
from maze_kernel.errors import RequestError
from maze_runtime.context import RunContext
from maze_runtime.env.flat import FlatEnv
from maze_runtime.env.maze_env import MazeEnv
from maze_runtime.env.renderer import Renderer
from maze_runtime.playing.roll_out import RolloutOptions, roll_out
from maze_runtime.rollout import video
from maze_runtime.rollout.video import FilmedEnv
from maze_testing.environments import Identity

CUTTING = {"use": "cutting-2d", "max_episode_steps": 30}
SMALL = """
name = "small"
[env]
use = "gym"
id = "CartPole-v1"
[vector]
n_envs = 2
[trainer]
use = "ppo"
n_epochs = 1
epoch_length = 1
n_rollout_steps = 16
[evaluation]
n_episodes = 1
"""


def rows(folder, name):
    with open(folder / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def rolled(env, folder=None, n_episodes=3, **options):
    context = RunContext(env=env, wrappers=["log-stats"], silent=True)
    options = RolloutOptions(n_episodes=n_episodes, events_dir=folder, seed=3, **options)
    return roll_out(context.loaded, context.kernel, options, policy="random")


def test_episodes_that_are_cut_count_with_statistics_kpis_and_events(tmp_path):
    result = rolled(CUTTING, tmp_path / "events", max_steps=7)
    assert [(e.length, e.terminated, e.truncated) for e in result.episodes] == [(7, False, False)] * 3
    replenished = rows(tmp_path / "events", "InventoryEvents.piece_replenished")
    assert result.events["BaseEnvEvents/kpi/mean/raw_piece_usage_per_step"] == pytest.approx(len(replenished) / 21)
    assert len(rows(tmp_path / "events", "BaseEnvEvents.kpi")) >= 3
    assert {row["episode"] for row in replenished} <= {"0", "1", "2"}
    assert max(int(row["step"]) for row in replenished) <= 6
    assert result.events["LogStatsEvents/episode_length/mean"] == 7
    assert result.events["LogStatsEvents/reward/mean"] == pytest.approx(result.summary["reward"]["mean"])


def test_a_cut_changes_nothing_of_what_comes_before_it(tmp_path):
    whole, cut = rolled(CUTTING), rolled(CUTTING, max_steps=30)
    assert [e.total_reward for e in cut.episodes] == [e.total_reward for e in whole.episodes]
    assert all(e.truncated for e in cut.episodes)  # the environment's own limit came as early
    assert cut.events == pytest.approx(whole.events)


def test_structured_episodes_are_cut_between_steps():
    result = rolled({**CUTTING, "version": "structured"}, max_steps=4)
    assert [episode.length for episode in result.episodes] == [4] * 3
    assert result.events["LogStatsEvents/episode_length/mean"] == 4


def test_event_files_of_gymnasium_environments_hold_rewards_and_actions(tmp_path):
    result = rolled("Pendulum-v1", tmp_path / "events", max_steps=5)
    assert sorted(file.name for file in (tmp_path / "events").iterdir()) == ["action.csv", "reward.csv"]
    rewards = rows(tmp_path / "events", "reward")
    assert rewards[0].keys() == {"episode", "seed", "step", "value"}
    for number, episode in enumerate(result.episodes):
        own = [row for row in rewards if row["episode"] == str(number)]
        assert [row["step"] for row in own] == list("01234")
        assert {row["seed"] for row in own} == {str(episode.seed)}
        assert sum(float(row["value"]) for row in own) == pytest.approx(episode.total_reward, rel=1e-5)
    actions = rows(tmp_path / "events", "action")
    assert len(actions) == 15
    assert actions[0].keys() == {"episode", "seed", "step", "action.0"}


def test_of_several_policies_rewards_say_whose_they_are(tmp_path):
    env = {"use": "pettingzoo", "id": "pettingzoo.classic.tictactoe_v3"}
    pytest.importorskip("pettingzoo")
    rolled(env, tmp_path / "events", n_episodes=1)
    rewards = rows(tmp_path / "events", "reward")
    assert rewards[0].keys() == {"episode", "seed", "step", "policy_key", "agent", "value"}
    assert {row["agent"] for row in rewards} == {"0", "1"}
    (name,) = {row["policy_key"] for row in rewards}
    assert len(rows(tmp_path / "events", f"action-{name}")) == len(rewards)


def test_a_folder_that_would_be_empty_is_not_made_and_not_announced(maze):
    Path("failing_env.py").write_text(
        "from maze_testing.environments import Identity\n\n\nclass Failing(Identity):\n"
        "    def reset(self, *, seed=None, options=None):\n        raise ArithmeticError('never')\n"
    )
    done = maze("rollout", "failing_env:Failing", "--episodes", 2, "--events")
    assert done.exit_code == 1
    assert "no events were written" in done.stdout
    assert "events in" not in done.stdout
    assert not Path("events").exists()


class Grey(Renderer):
    def render(self, maze_state, maze_action, events, **arguments):
        return np.full((16, 20, 3), 10 + 10 * (maze_action is not None), np.uint8)


class DrawnCore(CuttingCoreEnv):
    def get_renderer(self):
        return Grey()


class BlindCore(CuttingCoreEnv):
    def get_renderer(self):
        return None


def make_env(core, *, n_steps: int = 4):
    options = CuttingOptions(max_episode_steps=n_steps)
    parts = core(options), InventoryObservation(options), CuttingHeads(options)
    return MazeEnv(*parts, reward_aggregator=DefaultReward())


def drawn(*, n_steps: int = 4):
    return make_env(DrawnCore, n_steps=n_steps)


def blind(*, n_steps: int = 4):
    return make_env(BlindCore, n_steps=n_steps)


@pytest.fixture
def films(monkeypatch):
    """What is written, instead of encoding it."""
    written = {}
    monkeypatch.setattr(
        "maze_runtime.rollout.runner.write_video", lambda path, frames, _rate: written.update({path.name: list(frames)})
    )
    return written


def test_films_of_a_maze_environment_need_its_renderer_alone(films, tmp_path):
    context = RunContext(env={"use": f"{__name__}:drawn"}, silent=True)
    context.rollout(2, policy="random", video_dir=tmp_path)
    assert len(films) == 2
    for frames in films.values():
        assert [frame.max() for frame in frames] == [10, 20, 20, 20, 20]  # the last step is in it, the next reset not


def test_without_renderer_and_render_mode_it_says_what_is_missing(tmp_path):
    context = RunContext(env={"use": f"{__name__}:blind"}, silent=True)
    with pytest.raises(Exception, match="it has no renderer and no option render_mode") as caught:
        context.rollout(1, policy="random", video_dir=tmp_path)
    assert "get_renderer" in caught.value.help


@pytest.fixture
def screen(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    shown = []

    class Screen:
        def show(self, picture):
            shown.append(picture)

        def close(self):
            shown.append(None)

    monkeypatch.setattr(video, "Window", Screen)
    return shown


def test_a_maze_environment_is_shown_in_a_window(screen):
    rolled({"use": f"{__name__}:drawn"}, n_episodes=1, render=True)
    assert [frame.max() for frame in screen[:5]] == [10, 20, 20, 20, 20]
    assert screen[-1] is None


def test_a_rollout_from_python_cuts_and_shows_episodes_as_the_command_does(screen):
    context = RunContext(env={"use": f"{__name__}:drawn"}, silent=True)
    result = context.rollout(1, policy="random", max_steps=2, render=True)
    assert [episode.length for episode in result.episodes] == [2]
    assert [frame.max() for frame in screen[:2]] == [10, 20]
    assert screen[-1] is None
    context.rollout(1, policy="random", max_steps=2)
    assert sum(frame is None for frame in screen) == 1
    with pytest.raises(RequestError, match="max_steps= is 0"):
        context.rollout(1, policy="random", max_steps=0)


def test_the_window_itself_shows_pictures_of_any_size(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pygame = pytest.importorskip("pygame")
    window = video.Window()
    for shape in ((16, 20, 3), (16, 20, 3), (30, 40, 3)):
        picture = np.zeros(shape, np.uint8)
        picture[0, -1] = 255
        window.show(picture)
        seen = pygame.surfarray.array3d(pygame.display.get_surface())
        assert np.array_equal(np.swapaxes(seen, 0, 1), picture)
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    window.show(picture)
    assert pygame.display.get_surface() is None
    window.show(picture)  # it stays closed
    assert pygame.display.get_surface() is None
    window.close()


@pytest.mark.parametrize("policy", [[], ["--policy", "random"]], ids=["trained", "random"])
def test_a_policy_is_shown_in_the_window_of_gymnasium(maze, monkeypatch, policy):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    Path("small.toml").write_text(SMALL)
    assert maze("train", "small.toml", "--out", "run").exit_code == 0
    done = maze("rollout", "run", "--render", "--episodes", 2, "--max-steps", 3, *policy)
    assert done.exit_code == 0, done.output
    assert "failed" not in done.output


class Counting(FlatEnv):
    """Draws how many steps it took."""

    def __init__(self):
        inner = Identity()
        self.structured_spaces, self.n = inner.structured_spaces, 0

    def reset(self, *, seed=None, options=None):
        self.n = 0
        return {}, {}

    def step(self, action):
        self.n += 1
        return {}, 0.0, self.n == 2, False, {}

    def render(self):
        return np.full((2, 2, 3), self.n, np.uint8)


def test_an_episode_that_was_only_begun_is_no_film():
    env = FilmedEnv(Counting(), keep=True, show=False)
    env.reset()
    env.step({})
    env.step({})
    env.reset()
    assert [frame.max() for frame in env.take()] == [0, 1, 2]
    env.reset()
    assert env.take() == []


def test_the_wrapper_writes_no_film_of_a_reset_either(monkeypatch, tmp_path):
    from maze_wrappers import video_recording
    from maze_wrappers.options import VideoRecordingOptions

    written = []
    monkeypatch.setattr(video_recording, "write_video", lambda _path, frames, _rate: written.append(len(frames)))
    env = video_recording.VideoRecording(Counting(), VideoRecordingOptions())
    env.write_below(tmp_path)
    env.reset()
    env.step({})
    env.step({})
    env.reset()  # as a batch does at once
    env.close()
    assert written == [3]
