"""Recordings survive the way through a Minari dataset, without a network."""

import sys

import minari
import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.errors import RequestError
from maze_runtime.datasets.transitions import flat_transitions
from maze_runtime.env.flat import flat_spaces
from maze_runtime.env.simulation import Recording
from maze_trajectories.dataset import TrajectoryDataset
from maze_trajectories.minari_datasets import export_to_minari
from maze_trajectories.minari_source import require_minari
from maze_trajectories.recording import RecordingEnv


@pytest.fixture(autouse=True)
def local_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


@pytest.fixture
def pole_file(tmp_path):
    file = tmp_path / "pole.toml"
    file.write_text('name = "pole"\n[env]\nuse = "gym"\nid = "CartPole-v1"\n[trainer]\nuse = "ppo"\n')
    return file


def assert_same(one, two):
    assert len(one) == len(two) > 0
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


def test_a_game_of_one_agent_is_a_flat_environment_under_a_name_of_its_own(maze, tmp_path):
    file = tmp_path / "game.toml"
    file.write_text('name = "game"\n[env]\nuse = "pettingzoo"\nid = "mpe2.simple_v3"\n[trainer]\nuse = "ppo"\n')
    maze("rollout", file, "--policy", "random", "--episodes", 2, "--record-to", "rec")
    done = maze("to-minari", "rec", "maze/game-v0")
    assert done.exit_code == 0, done.output
    maze("from-minari", "maze/game-v0", "--out", "back")
    recorded, back = TrajectoryDataset.open("rec"), TrajectoryDataset.open("back")
    (key,) = recorded.spaces.policy_keys
    assert key != "0"
    for one, two in zip(recorded, back, strict=True):
        assert one.actor_reward is None
        np.testing.assert_array_equal(one.reward, two.reward)
        np.testing.assert_array_equal(one.flat_step_end, two.flat_step_end)
        np.testing.assert_array_equal(one.observation[key]["observation"], two.observation["0"]["observation"])
        np.testing.assert_array_equal(one.action[key]["action"], two.action["0"]["action"])


@pytest.mark.filterwarnings("error:.*is set to None:UserWarning")
def test_observations_without_dimensions_travel_and_minari_asks_for_no_author(maze):
    maze("rollout", "FrozenLake-v1", "--episodes", 3, "--record-to", "rec")
    done = maze("to-minari", "rec", "maze/lake-v0")
    assert done.exit_code == 0, done.output
    maze("from-minari", "maze/lake-v0", "--out", "back")
    recorded = TrajectoryDataset.open("rec")
    assert_same(recorded, TrajectoryDataset.open("back"))
    for episode in recorded:
        seen = episode.observation["0"]["observation"]
        assert episode.final_observation["observation"].shape == seen.shape[1:] == ()
        assert len(flat_transitions(episode)) == len(seen)


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


@pytest.mark.parametrize("name", ["way/x", "."])
def test_a_name_that_minari_would_take_for_a_path_is_refused(counter, tmp_path, name):
    class Renamed(counter):
        structured_spaces = flat_spaces(
            spaces.Dict({name: counter.structured_spaces.observation["0"]["count"]}),
            spaces.Dict(move=spaces.Discrete(3)),
        )

        def _observation(self):
            return {name: super()._observation()["count"]}

    env = RecordingEnv(Renamed(n_steps=1), Recording(folder=tmp_path / "rec"))
    env.reset(seed=0)
    env.step({"move": 1})
    env.close()
    with pytest.raises(RequestError, match=f"what is called {name!r}"):
        export_to_minari(TrajectoryDataset.open(tmp_path / "rec"), "paths-v0")
    assert not minari.list_local_datasets()


def test_nested_spaces_become_one_array_a_leaf(maze):
    from minari.data_collector import EpisodeBuffer

    eye = spaces.Tuple((spaces.Discrete(4), spaces.Box(0, 1, (2,), np.float64)))
    observation = spaces.Dict({"at": spaces.Box(-1, 1, (1,), np.float32), "eye": eye})
    buffer = EpisodeBuffer(
        observations={"at": np.zeros((3, 1), np.float32), "eye": (np.array([1, 2, 3]), np.full((3, 2), 0.5))},
        actions=(np.array([0, 1]), np.array([1, 0])),
        rewards=np.ones(2),
        terminations=np.array([False, True]),
        truncations=np.zeros(2, bool),
    )
    action = spaces.Tuple((spaces.Discrete(2), spaces.Discrete(2)))
    minari.create_dataset_from_buffers("nested-v0", [buffer], observation_space=observation, action_space=action)
    assert "imported 1 episodes" in maze("from-minari", "nested-v0", "--out", "nested").stdout
    (episode,) = TrajectoryDataset.open("nested")
    assert set(episode.observation["0"]) == {"at", "eye_0", "eye_1"}
    np.testing.assert_array_equal(episode.observation["0"]["eye_0"], [1, 2])
    np.testing.assert_array_equal(episode.action["0"]["action_1"], [1, 0])
    np.testing.assert_array_equal(episode.final_observation["eye_1"], [0.5, 0.5])


@pytest.mark.parametrize("package", ["minari", "h5py", "PIL"])
def test_what_is_missing_is_named(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(RequestError, match=f"need the package {package}, which is not installed") as caught:
        require_minari()
    assert "maze-trajectories[minari]" in caught.value.help
