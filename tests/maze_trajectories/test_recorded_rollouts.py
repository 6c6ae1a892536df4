"""`maze rollout --record` and `--replay`, in this process and in others."""

import gc
import json
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.errors import PluginError, RequestError
from maze_kernel.loader import Kernel
from maze_runtime.context import RunContext
from maze_runtime.env.simulation import Recording
from maze_runtime.playing.recorder import make_recorder
from maze_runtime.playing.roll_out import RolloutOptions, replay, roll_out
from maze_trajectories.dataset import TrajectoryDataset
from maze_trajectories.recording import RecordingEnv

PENDULUM = {
    "name": "swing",
    "env": {"use": "gym", "id": "Pendulum-v1"},
    "wrappers": [{"use": "observation-normalization", "statistics": "running"}],
    "vector": {"n_envs": 2},
    "trainer": {"use": "ppo", "n_epochs": 1, "epoch_length": 1, "n_rollout_steps": 16, "batch_size": 16},
    "evaluation": {"n_episodes": 1},
}


def contents(folder):
    """File name to arrays; ids of episodes differ from run to run."""
    dataset = TrajectoryDataset.open(folder)
    return {file.name: (episode.action, episode.reward) for file, episode in zip(dataset.files, dataset, strict=True)}


@pytest.mark.slow
def test_recording_is_the_same_with_any_number_of_workers(maze, cutting_file):
    for workers, folder in ((1, "one"), (2, "two")):
        done = maze("rollout", cutting_file, "--episodes", 4, "--record-to", folder, "--workers", workers)
        assert done.exit_code == 0, done.output
        assert f"recorded in {folder}" in done.stdout
    one, two = contents("one"), contents("two")
    assert list(one) == list(two)
    assert len(one) == 4
    for name, (action, reward) in one.items():
        np.testing.assert_array_equal(reward, two[name][1])
        np.testing.assert_array_equal(action["select"]["piece_idx"], two[name][0]["select"]["piece_idx"])


@pytest.mark.slow
def test_a_heuristic_is_recorded_and_replayed(maze, cutting_file, cutting_env):
    done = maze("rollout", cutting_file, "--policy", "cutting-2d-greedy", "--episodes", 2, "--record")
    (folder,) = Path("trajectories/cut").iterdir()
    assert str(folder) in done.stdout
    again = maze("rollout", cutting_file, "--replay", folder, "--workers", 2, "--record-to", "again")
    assert again.exit_code == 0, again.output
    assert "2 of 2 episodes came out as they were recorded" in again.stdout
    first, second = TrajectoryDataset.open(folder), TrajectoryDataset.open("again")
    assert [info.policy for info in second.infos()] == ["replay", "replay"]
    core_env = cutting_env().core_env
    for index in range(2):
        assert first.maze_episode(index, core_env) == second.maze_episode(index, core_env)


def test_what_a_recording_says_about_itself(maze, cutting_file):
    maze("rollout", cutting_file, "--episodes", 1, "--record-to", "here")
    about = json.loads(Path("here/trajectories.json").read_text())
    assert about["format"] == 1
    assert about["policy"] == "random"
    assert about["experiment"]["env"]["version"] == "masked"


def test_a_trained_run_records_observations_inside_of_its_wrappers_and_replays(tmp_path):
    context = RunContext(
        env={"use": "gym", "id": "Pendulum-v1", "max_episode_steps": 20},
        wrappers=PENDULUM["wrappers"],
        overrides={key: PENDULUM[key] for key in ("vector", "trainer", "evaluation")},
        run_dir=tmp_path / "run",
        silent=True,
    )
    context.train()
    played = context.rollout(2, record_dir=tmp_path / "recording")
    dataset = TrajectoryDataset.open(tmp_path / "recording")
    raw = np.concatenate([episode.observation["0"]["observation"] for episode in dataset])
    np.testing.assert_allclose(raw[:, 0] ** 2 + raw[:, 1] ** 2, 1.0, rtol=1e-5)
    np.testing.assert_allclose(
        [episode.reward.sum() for episode in dataset], [result.total_reward for result in played.episodes], rtol=1e-5
    )
    kernel = Kernel.installed()
    mapping = {**PENDULUM, "env": {**PENDULUM["env"], "max_episode_steps": 20}}
    loaded = experiment_from_mapping(mapping, kernel=kernel)
    again = replay(loaded, kernel, tmp_path / "recording", RolloutOptions())
    assert (again.different_seeds, again.n_left_out) == ([], 0)
    assert [result.total_reward for result in again.episodes] == [result.total_reward for result in played.episodes]


def fragile(tmp_path):
    (tmp_path / "fragile.py").write_text(
        "from maze_testing.environments import Endless\n\n\n"
        "class Fragile(Endless):\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        self.bad = seed is not None and seed % 2\n"
        "        return super().reset(seed=seed)\n\n"
        "    def step(self, action):\n"
        "        if self.bad and self._t == 2:\n"
        "            raise RuntimeError('the belt snapped')\n"
        "        return super().step(action)\n"
    )
    file = tmp_path / "fragile.toml"
    file.write_text('name = "fragile"\n[env]\nuse = "fragile:Fragile"\n[trainer]\nuse = "ppo"\n')
    return file


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_failing_episodes_are_counted_named_and_kept(maze, tmp_path, workers):
    done = maze("rollout", fragile(tmp_path), "--episodes", 6, "--record-to", "rec", "--workers", workers, "--json")
    assert done.exit_code == 1
    data = json.loads(done.stdout)
    failed = {episode["seed"] for episode in data["episodes"] if episode["error"]}
    assert failed == {episode["seed"] for episode in data["episodes"] if episode["seed"] % 2}
    assert 0 < len(failed) == data["n_failed"] < 6
    assert all(f"failed: episode with seed {seed}" in done.stderr for seed in failed)
    infos = TrajectoryDataset.open("rec").infos()
    assert {info.seed for info in infos if info.error} == failed
    assert len(infos) == 6
    assert all(info.n_decisions == (2 if info.error else 5) for info in infos)


def test_a_replay_that_comes_out_differently_is_reported(maze, cutting_file):
    maze("rollout", cutting_file, "--episodes", 2, "--record-to", "rec")
    longer = cutting_file.with_name("longer.toml")
    longer.write_text(cutting_file.read_text().replace("max_episode_steps = 5", "max_episode_steps = 7"))
    done = maze("rollout", longer, "--replay", "rec")
    assert done.exit_code == 1
    assert "ends after 10 decisions, but the environment goes on" in done.stderr
    assert "  help: replay in the environment, with the options, that it was recorded in" in done.stderr
    assert "maze check" not in done.stderr  # the environment did not fail
    assert "0 of 2 episodes came out as they were recorded" in done.stdout
    other = cutting_file.with_name("flat.toml")
    other.write_text(cutting_file.read_text().replace("masked", "flat"))
    done = maze("rollout", other, "--replay", "rec")
    assert done.exit_code == 2
    assert done.stderr.count("other actions than the environment has") == 1
    assert "  = received: " in done.stderr


def test_episodes_cut_by_max_steps_replay_as_far_as_they_were_recorded(maze, cutting_file):
    maze("rollout", cutting_file, "--episodes", 2, "--max-steps", 3, "--record-to", "rec")
    assert [info.n_env_steps for info in TrajectoryDataset.open("rec").infos()] == [3, 3]
    assert "2 of 2 episodes" in maze("rollout", cutting_file, "--replay", "rec").stdout


def test_episodes_of_training_can_be_played_again(maze):
    """Also those that began by themselves; two evaluations play the same seed with other actions."""
    Path("pole.toml").write_text(
        """
name = "pole"
wrappers = [{ use = "trajectory-recording" }]
env = { use = "gym", id = "CartPole-v1" }
vector = { n_envs = 2 }
trainer = { use = "ppo", n_epochs = 2, epoch_length = 1, n_rollout_steps = 60 }
evaluation = { n_episodes = 1 }
"""
    )
    assert maze("train", "pole.toml", "--out", "run").exit_code == 0
    infos = TrajectoryDataset.open("run").infos()
    n_cut = sum(not info.terminated for info in infos)
    assert len({info.seed for info in infos}) == len(infos) - 1
    assert len(infos) - n_cut >= 6
    done = maze("rollout", "pole.toml", "--replay", "run")
    assert f"{len(infos) - n_cut} of {len(infos) - n_cut} episodes came out as they were recorded" in done.stdout
    assert f"{n_cut} left out" in done.stderr


def test_wrong_requests_start_nothing(maze, cutting_file, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("x")
    refused = maze("rollout", cutting_file, "--record-to", "full")
    assert refused.exit_code == 2
    assert "exists and is not empty" in refused.stderr
    assert os.listdir("full") == ["thesis.txt"]
    assert maze("rollout", cutting_file, "--replay", "nowhere").exit_code == 2
    assert "exclude each other" in maze("rollout", cutting_file, "--replay", "x", "--policy", "random").stderr


def test_recording_says_which_distribution_is_missing(tmp_path):
    loaded = experiment_from_mapping(PENDULUM, kernel=Kernel.installed())
    with pytest.raises(PluginError, match="trajectory-recording") as caught:
        make_recorder(loaded, Kernel([]), tmp_path / "rec", "random", [1])
    assert "pip install maze-trajectories" in caught.value.help


def test_replaying_an_unknown_seed_says_how_to_replay(maze, cutting_file, tmp_path):
    maze("rollout", cutting_file, "--episodes", 1, "--record-to", "rec")
    kernel = Kernel.installed()
    mapping = {"name": "x", "env": {"use": "cutting-2d", "version": "masked"}, "trainer": {"use": "ppo"}}
    loaded = experiment_from_mapping(mapping, kernel=kernel)
    result = roll_out(loaded, kernel, RolloutOptions(n_episodes=1), policy={"use": "replay", "path": "rec"}, seeds=[5])
    assert "was recorded with seed 5" in result.episodes[0].error


def test_an_episode_without_a_seed_cannot_be_replayed(counter, tmp_path):
    env = RecordingEnv(counter(), Recording(folder=tmp_path))
    env.reset()
    env.step({"move": 1, "push": np.zeros(2)})
    env.close()
    kernel = Kernel.installed()
    loaded = experiment_from_mapping(PENDULUM, kernel=kernel)
    with pytest.raises(RequestError, match="without a seed"):
        replay(loaded, kernel, tmp_path, RolloutOptions())
    with pytest.raises(PluginError, match="no dataset is called 'trajectories'") as caught:
        replay(loaded, Kernel([]), tmp_path, RolloutOptions())
    assert "pip install maze-trajectories" in caught.value.help


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_episodes(counter, tmp_path):
    env = RecordingEnv(counter(n_steps=20), Recording(folder=tmp_path))

    def play(n_episodes):
        for seed in range(n_episodes):
            env.reset(seed=seed)
            while not env.step({"move": 1, "push": np.zeros(2)})[2]:
                pass

    play(5)
    tracemalloc.start()
    used = []
    for n_episodes in (20, 200):
        play(n_episodes)
        gc.collect()
        used.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert used[1] - used[0] < 40_000
