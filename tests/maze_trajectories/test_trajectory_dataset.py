"""What is recorded comes back, in the spaces and dtypes of the environment."""

import json

import attrs
import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.contracts.env import ActorID
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import EnvError, RequestError, SpaceError, TrajectoryError
from maze_runtime.env.flat import flat_spaces
from maze_runtime.env.simulation import Recording
from maze_trajectories.builder import EpisodeBuilder
from maze_trajectories.dataset import TrajectoryDataset
from maze_trajectories.episode_file import encode_episode, read_episode
from maze_trajectories.recording import RecordingEnv
from maze_trajectories.stored_spaces import spaces_from_data, spaces_to_data
from maze_wrappers.observation_stack import ObservationStack
from maze_wrappers.options import ObservationStackOptions


class Double(Transform):
    """Observations doubled; moves count from one outside."""

    def bind(self, inner):
        (key,) = inner.policy_keys
        action = spaces.Dict({**inner.action[key].spaces, "move": spaces.Discrete(3, start=1)})
        return flat_spaces(inner.observation[key], action)

    def observation(self, policy_key, observation):
        return {"count": observation["count"] * 2}

    def action(self, policy_key, action):
        return {**action, "move": action["move"] - 1}

    def reverse_action(self, policy_key, action):
        return {**action, "move": action["move"] + 1}


def test_a_flat_episode_comes_back(record_counter):
    dataset = TrajectoryDataset.open(record_counter(2))
    assert len(dataset) == 2
    assert [info.seed for info in dataset.infos()] == [10, 11]
    episode = dataset[1]
    assert (episode.info.n_decisions, episode.info.n_env_steps, len(episode)) == (4, 4, 4)
    assert episode.info.terminated
    assert not episode.info.truncated
    assert episode.info.policy == "clock"
    np.testing.assert_array_equal(episode.observation["0"]["count"], [[0, 0], [1, -1], [2, -2], [3, -3]])
    assert episode.observation["0"]["count"].dtype == np.float32
    np.testing.assert_array_equal(episode.action["0"]["move"], [0, 1, 2, 0])
    assert episode.action["0"]["push"].shape == (4, 2)
    np.testing.assert_allclose(episode.reward, [0, 0.1, 0.2, 0])
    assert episode.info.total_reward == pytest.approx(0.3)
    np.testing.assert_array_equal(episode.terminated, [False, False, False, True])
    np.testing.assert_array_equal(episode.final_observation["count"], [4, -4])


@pytest.mark.parametrize("n_rewards", [1, 3])
def test_divided_rewards_that_are_not_one_a_decision_are_refused(n_rewards):
    """Too many would replace those of the flat step before."""
    space = spaces.Dict({"x": spaces.Discrete(2)})
    actor, builder = ActorID("0", 0), EpisodeBuilder(flat_spaces(space, space))
    for _ in range(2):  # flat steps
        builder.result(actor, 1.0, False, False, flat_step_end=False)
        builder.result(actor, 1.0, False, False, actor_rewards=[2.0, 0.0])
    builder.result(actor, 1.0, False, False, flat_step_end=False)
    with pytest.raises(EnvError, match="one reward a sub-step") as refusal:
        builder.result(actor, 1.0, False, False, actor_rewards=[2.0] * n_rewards)
    assert refusal.value.received == f"{n_rewards} rewards"
    assert refusal.value.expected.startswith("2:")


def test_what_was_recorded_twice_is_one_episode(record_counter, tmp_path):
    """Of the same seed and the same to the bit; where anything differs, or the seed does, both are kept."""
    record_counter(2, folder="twice/a")
    record_counter(3, folder="twice/b")
    dataset = TrajectoryDataset.open(tmp_path / "twice")
    assert [info.seed for info in dataset.infos()] == [10, 11, 10, 11, 12]
    alone = dataset.without_copies()
    assert alone.files == dataset.subset([0, 1, 4]).files
    episode = read_episode(alone.files[0])
    other = {"0": {**episode.observation["0"], "count": episode.observation["0"]["count"] + 1}}
    alone.files[0].write_bytes(encode_episode(attrs.evolve(episode, observation=other)))
    assert dataset.without_copies().files == dataset.subset([0, 1, 2, 4]).files


def test_the_spaces_come_back():
    structured = flat_spaces(
        spaces.Dict(
            {
                "z": spaces.Box(-np.inf, np.inf, (3,), np.float32),
                "a": spaces.Box(np.array([0.0, -1.5]), np.array([np.inf, 2.5]), dtype=np.float64),
                "image": spaces.Box(0, 255, (4, 4, 3), np.uint8),
            }
        ),
        spaces.Dict(
            {
                "d": spaces.Discrete(5, start=-2),
                "m": spaces.MultiDiscrete([3, 4]),
                "b": spaces.MultiBinary(7),
                "bb": spaces.MultiBinary([2, 3]),
            }
        ),
    )
    text = json.dumps(spaces_to_data(structured), allow_nan=False)
    back = spaces_from_data(json.loads(text))
    assert back == structured
    assert list(back.observation["0"].spaces) == list(structured.observation["0"].spaces)


def test_flat_transitions_end_with_the_final_observation(record_counter):
    steps = TrajectoryDataset.open(record_counter(2)).flat_transitions()
    assert len(steps) == 8
    np.testing.assert_array_equal(steps.next_observation["count"][:, 0], [1, 2, 3, 4, 1, 2, 3, 4])
    np.testing.assert_array_equal(steps.observation["count"][:, 0], [0, 1, 2, 3, 0, 1, 2, 3])
    np.testing.assert_array_equal(steps.episode, [0, 0, 0, 0, 1, 1, 1, 1])
    np.testing.assert_array_equal(np.flatnonzero(steps.terminated), [3, 7])
    assert not steps.truncated.any()
    assert steps.reward.dtype == np.float32


def test_an_episode_that_was_cut_off_is_written_and_its_last_step_counts_as_truncated(counter, tmp_path):
    env = RecordingEnv(counter(), Recording(folder=tmp_path))
    env.reset(seed=1)
    env.step({"move": 1, "push": np.zeros(2)})
    env.reset()
    env.close()
    (episode,) = TrajectoryDataset.open(tmp_path)
    assert (episode.info.terminated, episode.info.truncated, episode.info.error) == (False, False, None)
    steps = TrajectoryDataset.open(tmp_path).flat_transitions()
    np.testing.assert_array_equal(steps.truncated, [True])
    np.testing.assert_array_equal(steps.next_observation["count"], [[1, -1]])


def test_an_episode_that_failed_is_kept_with_its_error(record_counter, tmp_path):
    with pytest.raises(RuntimeError, match="wheel"):
        record_counter(1, fails_at=3)
    (episode,) = TrajectoryDataset.open(tmp_path / "recording")
    assert episode.info.error == "RuntimeError: the wheel came off"
    assert (episode.info.seed, len(episode), episode.final_key) == (10, 2, None)
    assert len(episode.observation["0"]["count"]) == 2
    assert len(TrajectoryDataset.open(tmp_path / "recording").flat_transitions()) == 1


def test_episodes_pass_through_the_transforms_of_an_experiment(record_counter):
    dataset = TrajectoryDataset.open(record_counter(1)).through([Double()])
    (episode,) = dataset
    np.testing.assert_array_equal(episode.observation["0"]["count"][:, 0], [0, 2, 4, 6])
    np.testing.assert_array_equal(episode.final_observation["count"], [8, -8])
    np.testing.assert_array_equal(episode.action["0"]["move"], [1, 2, 3, 1])
    assert dataset.spaces.action["0"]["move"] == spaces.Discrete(3, start=1)


def test_a_transform_without_a_way_back_is_refused(record_counter):
    class OneWay(Double):
        reverse_action = Transform.reverse_action

    with pytest.raises(EnvError, match="OneWay does not say how a recorded action maps back"):
        TrajectoryDataset.open(record_counter(1)).through([OneWay()])[0]


def test_transforms_with_a_memory_see_the_episode_in_its_order(record_counter):
    stack = ObservationStack(ObservationStackOptions(n=3))
    (episode,) = TrajectoryDataset.open(record_counter(1)).through([stack])
    seen = episode.observation["0"]["count"]
    assert seen.shape == (4, 3, 2)
    np.testing.assert_array_equal(seen[:, :, 0], [[0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3]])
    np.testing.assert_array_equal(episode.final_observation["count"][:, 0], [2, 3, 4])


def test_a_structured_episode_keeps_its_decisions_apart_and_in_order(cutting_env, tmp_path):
    env = RecordingEnv(cutting_env("masked", steps=3), Recording(folder=tmp_path))
    env.reset(seed=3)
    for _ in range(3):
        env.step({"piece_idx": 0})
        env.step({"cut_rotation": 0, "cut_order": 1})
    (episode,) = TrajectoryDataset.open(tmp_path)
    assert episode.policy_keys == ("select", "cut")
    np.testing.assert_array_equal(episode.decisions_of("select"), [0, 2, 4])
    np.testing.assert_array_equal(episode.decisions_of("cut"), [1, 3, 5])
    np.testing.assert_array_equal(episode.flat_step_end, [False, True] * 3)
    assert (episode.info.n_decisions, episode.info.n_env_steps) == (6, 3)
    assert episode.observation["select"]["inventory"].shape == (3, 200, 2)
    assert episode.observation["cut"]["cut_rotation_mask"].shape == (3, 2)
    np.testing.assert_array_equal(episode.action["cut"]["cut_order"], [1, 1, 1])
    assert episode.final_key == "select"
    assert episode.actor_reward.sum() == pytest.approx(episode.reward.sum())
    with pytest.raises(RequestError, match="flat"):
        TrajectoryDataset.open(tmp_path).flat_transitions()


def test_datasets_split_by_whole_episodes(record_counter):
    dataset = TrajectoryDataset.open(record_counter(5))
    first, rest = dataset.split(0.6, seed=1)
    assert (len(first), len(rest)) == (3, 2)
    assert {*first.files, *rest.files} == set(dataset.files)
    assert dataset.split(0.6, seed=1)[0].files == first.files
    assert [len(part) for part in dataset.split(1.0)] == [4, 1]


def test_several_recordings_are_one_dataset_if_their_spaces_agree(record_counter, cutting_env, tmp_path):
    one, two = record_counter(1, "runs/x/trajectories/a"), record_counter(2, "runs/x/trajectories/b")
    assert len(TrajectoryDataset.open([one, two])) == 3
    assert len(TrajectoryDataset.open(tmp_path / "runs" / "x")) == 3
    assert len(TrajectoryDataset.open(next(two.glob("*.safetensors")))) == 1
    env = RecordingEnv(cutting_env(), Recording(folder=tmp_path / "other"))
    env.reset()
    env.step({"piece_idx": 0})
    env.close()
    with pytest.raises(SpaceError, match="different spaces"):
        TrajectoryDataset.open([one, tmp_path / "other"])


def test_one_folder_holds_episodes_of_one_environment(record_counter, cutting_env):
    folder = record_counter(1)
    env = RecordingEnv(cutting_env(), Recording(folder=folder))
    env.reset()
    env.step({"piece_idx": 0})
    with pytest.raises(TrajectoryError, match="other spaces"):
        env.close()


def test_nothing_recorded_says_how_to_record(tmp_path):
    with pytest.raises(RequestError, match="no recorded episodes") as caught:
        TrajectoryDataset.open(tmp_path)
    assert "maze rollout" in caught.value.help
    with pytest.raises(RequestError, match="there is no recording"):
        TrajectoryDataset.open(tmp_path / "nowhere")


@pytest.mark.parametrize("damage", [b"", b"\x08\x00\x00\x00\x00\x00\x00\x00{}      ", b"not a file of episodes"])
def test_a_damaged_episode_is_named(record_counter, damage):
    folder = record_counter(1)
    file = next(folder.glob("*.safetensors"))
    file.write_bytes(damage)
    with pytest.raises(TrajectoryError, match=file.name):
        TrajectoryDataset.open(folder)[0]


def test_another_format_is_refused_with_the_way_out(record_counter):
    folder = record_counter(1)
    manifest = folder / "trajectories.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    with pytest.raises(TrajectoryError, match="no recording this Maze can read") as caught:
        TrajectoryDataset.open(folder)
    assert caught.value.received == "format 99"


def test_a_last_observation_that_was_stored_with_a_dimension_too_many_gets_the_shape_of_the_others(maze, tmp_path):
    maze("rollout", "FrozenLake-v1", "--episodes", 1, "--record-to", "rec")
    (file,) = (tmp_path / "rec").glob("*.safetensors")
    episode = read_episode(file)
    before = {name: array.reshape(1) for name, array in episode.final_observation.items()}
    file.write_bytes(encode_episode(attrs.evolve(episode, final_observation=before)))
    np.testing.assert_array_equal(
        read_episode(file).final_observation["observation"], episode.final_observation["observation"]
    )
    assert read_episode(file).final_observation["observation"].shape == ()
