"""Recordings survive the way through a Minari dataset, without a network."""

import numpy as np
import pytest

from maze_kernel.trajectories.dataset import TrajectoryDataset

minari = pytest.importorskip("minari")
pytest.importorskip("h5py")


@pytest.fixture(autouse=True)
def local_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


@pytest.fixture
def pole_file(tmp_path):
    file = tmp_path / "pole.toml"
    file.write_text('name = "pole"\n[env]\nuse = "gym"\nid = "CartPole-v1"\n[trainer]\nuse = "ppo"\n')
    return file


def assert_same(one, two):
    assert len(one) == len(two)
    assert dict(one.spaces.observation) == dict(two.spaces.observation)
    assert dict(one.spaces.action) == dict(two.spaces.action)
    for first, second in zip(one, two, strict=True):
        assert first.info.seed == second.info.seed
        for group in ("observation", "action"):
            for name, array in getattr(first, group)["0"].items():
                back = getattr(second, group)["0"][name]
                assert back.dtype == array.dtype
                np.testing.assert_array_equal(back, array)
        for name in ("reward", "terminated", "flat_step_end"):
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
        for name, array in first.final_observation.items():
            np.testing.assert_array_equal(second.final_observation[name], array)


def test_a_gymnasium_recording_goes_there_and_back(maze, pole_file):
    maze("rollout", pole_file, "--episodes", 3, "--record-to", "rec")
    done = maze("to-minari", "rec", "maze/pole-v0")
    assert done.exit_code == 0, done.output
    assert "exported 3 episodes" in done.stdout
    theirs = minari.load_dataset("maze/pole-v0")
    (episode,) = theirs.sample_episodes(1)
    assert episode.observations.shape == (len(episode.rewards) + 1, 4)
    assert theirs.total_steps == sum(len(recorded) for recorded in TrajectoryDataset.open("rec"))
    assert "imported 3 episodes" in maze("from-minari", "maze/pole-v0", "--out", "back").stdout
    assert_same(TrajectoryDataset.open("rec"), TrajectoryDataset.open("back"))


def test_several_names_and_an_episode_that_was_cut_off(maze, record_counter, tmp_path):
    record_counter(2, n_steps=5)
    file = sorted((tmp_path / "recording").glob("*.safetensors"))[0]
    assert file.exists()
    assert maze("to-minari", "recording", "counter-v1").exit_code == 0
    maze("from-minari", "counter-v1", "--out", "back")
    assert_same(TrajectoryDataset.open("recording"), TrajectoryDataset.open("back"))


def test_an_episode_that_was_cut_off_ends_as_truncated(maze, pole_file):
    maze("rollout", pole_file, "--episodes", 1, "--max-steps", 4, "--record-to", "rec")
    maze("to-minari", "rec", "cut-v0")
    (episode,) = minari.load_dataset("cut-v0").iterate_episodes()
    np.testing.assert_array_equal(episode.truncations, [False, False, False, True])
    np.testing.assert_array_equal(episode.terminations, [False] * 4)


def test_what_cannot_travel_is_refused(maze, cutting_file, record_counter):
    maze("rollout", cutting_file, "--episodes", 1, "--record-to", "rec")
    refused = maze("to-minari", "rec", "cut-v0")
    assert refused.exit_code == 2
    assert "cannot hold a structured environment" in refused.stderr
    record_counter(1)
    assert "an id like maze/" in maze("to-minari", "recording", "no version").stderr
    done = maze("to-minari", "recording", "one-v0")
    assert done.exit_code == 0, done.output
    assert "already" in maze("to-minari", "recording", "one-v0").stderr
    assert "no Minari dataset 'two-v0'" in maze("from-minari", "two-v0", "--out", "x").stderr
    assert "not empty" in maze("from-minari", "one-v0", "--out", "recording").stderr
