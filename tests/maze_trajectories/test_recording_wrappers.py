"""Episodes recorded by wrappers, from an experiment as a user writes it."""

from pathlib import Path

import numpy as np
import pytest

from maze_kernel.config import experiment_from_mapping
from maze_kernel.errors import ExperimentError, RequestError
from maze_runtime.context import RunContext
from maze_runtime.run.assembly import Assembly
from maze_trajectories.dataset import TrajectoryDataset
from maze_viewing.viewer import view_page

CUTTING = {"use": "cutting-2d", "version": "masked", "max_episode_steps": 4}
SHORT = {"n_epochs": 1, "epoch_length": 1, "n_rollout_steps": 12}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def play(wrapper, n_episodes=3, **how):
    context = RunContext(env=CUTTING, wrappers=[wrapper], silent=True)
    return context.rollout(n_episodes, policy="cutting-2d-greedy", **how)


def files_below(folder):
    return {path.relative_to(folder).parts[0] for path in Path(folder).rglob("*") if path.is_file()}


def test_whole_episodes_are_recorded_and_can_be_chosen():
    played = play({"use": "trajectory-recording", "folder": "all"})
    dataset = TrajectoryDataset.open("all")
    assert {info.seed for info in dataset.infos()} == {result.seed for result in played.episodes}
    assert all(episode.observation["select"]["inventory"].shape == (4, 200, 2) for episode in dataset)
    assert dataset.maze_episode(0).steps[0].maze_state.current_demand == [60, 33]
    # An environment resets once more after each episode: of the six episodes that begin every fourth is kept.
    play({"use": "trajectory-recording", "folder": "some", "every_episodes": 4})
    assert len(TrajectoryDataset.open("some")) == 2


@pytest.mark.slow
def test_the_same_episodes_recorded_again_are_added(tmp_path):
    """Equal seeds give equal episodes, identifiers included; none of them may replace another."""
    for n_files in (3, 6, 9):
        play({"use": "trajectory-recording", "folder": "again"}, n_workers=2 if n_files == 9 else 1)
        assert len(TrajectoryDataset.open("again")) == n_files
    assert not [path for path in (tmp_path / "again").iterdir() if path.suffix not in (".json", ".safetensors")]


def test_actions_alone_can_be_replayed():
    played = play("action-recording", n_episodes=1)
    dataset = TrajectoryDataset.open("actions")
    (episode,) = dataset
    assert episode.observation == {}
    assert dataset.maze_episode(0) is None
    assert len(episode.action["cut"]["cut_order"]) == 4
    np.testing.assert_allclose(episode.reward.sum(), played.episodes[0].total_reward)
    again = RunContext(env=CUTTING, silent=True).rollout(1, policy={"use": "replay", "path": "actions"})
    assert again.episodes[0].total_reward == played.episodes[0].total_reward


def test_actions_alone_are_no_transitions():
    RunContext(env="CartPole-v1", wrappers=["action-recording"], silent=True).rollout(1, policy="random")
    with pytest.raises(RequestError, match="only actions were recorded"):
        TrajectoryDataset.open("actions").flat_transitions()


def test_a_run_keeps_everything_its_wrappers_write(tmp_path):
    wrappers = ["trajectory-recording", "action-recording", "observation-normalization"]
    context = RunContext(
        env={"use": "gym", "id": "CartPole-v1", "render_mode": "rgb_array"},
        wrappers=[*wrappers[:2], {"use": "video-recording", "every_episodes": 1000, "max_frames": 3}, wrappers[2]],
        overrides={"trainer": SHORT, "vector.n_envs": 2, "evaluation.n_episodes": 1},
        run_dir="runs/one",
        silent=True,
    )
    context.train()
    assert files_below(tmp_path) == {"runs"}
    assert {"trajectories", "actions", "videos"} <= files_below("runs/one")
    recorded = TrajectoryDataset.open("runs/one")
    # What normalisation was estimated from is no episode of the run: two environments play 12 steps, one evaluates.
    assert sum(info.n_env_steps for info in recorded.infos()) <= 24 + 500
    RunContext.load("runs/one", silent=True).rollout(2)
    assert len(TrajectoryDataset.open("runs/one")) == len(recorded) + 2
    assert files_below(tmp_path) == {"runs"}


@pytest.mark.slow
def test_recordings_of_a_run_are_shown_with_pictures():
    context = RunContext(
        env=CUTTING,
        wrappers=["trajectory-recording"],
        overrides={"trainer": SHORT, "evaluation.n_episodes": 1, "vector.n_envs": 1},
        run_dir="run",
        silent=True,
    )
    context.train()
    n_recorded = len(TrajectoryDataset.open("run"))
    page = view_page("run")
    assert "data:image/png" in page
    assert "no pictures" not in page
    assert len(TrajectoryDataset.open("run")) == n_recorded


@pytest.mark.parametrize("wrapper", ["trajectory-recording", "action-recording", "video-recording"])
@pytest.mark.parametrize("folder", ["/tmp/elsewhere", "../elsewhere", "~/elsewhere", "checkpoints", "a\\b", ""])
def test_folders_outside_of_the_run_are_refused(wrapper, folder):
    with pytest.raises(ExperimentError, match="folder"):
        RunContext(env=CUTTING, wrappers=[{"use": wrapper, "folder": folder}], silent=True)


def test_a_link_out_of_the_run_is_refused(kernel, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "actions").symlink_to(tmp_path / "outside")
    data = {"name": "linked", "env": CUTTING, "wrappers": [{"use": "action-recording"}], "trainer": {"use": "ppo"}}
    loaded = experiment_from_mapping(data, kernel=kernel)
    with pytest.raises(RequestError, match="a link leads out"):
        Assembly(loaded, kernel, tmp_path / "inside").env_factory()()
