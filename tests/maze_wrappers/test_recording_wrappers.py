"""Episodes recorded by wrappers, from an experiment as a user writes it."""

import numpy as np
import pytest

from maze_kernel.api import RunContext
from maze_kernel.errors import RequestError
from maze_kernel.trajectories.dataset import TrajectoryDataset

CUTTING = {"use": "cutting-2d", "version": "masked", "max_episode_steps": 4}


def play(wrapper, n_episodes=3):
    context = RunContext(env=CUTTING, wrappers=[wrapper], silent=True)
    return context.rollout(n_episodes, policy="cutting-2d-greedy")


def test_whole_episodes_are_recorded_and_can_be_chosen(tmp_path):
    played = play({"use": "trajectory-recording", "folder": str(tmp_path / "all")})
    dataset = TrajectoryDataset.open(tmp_path / "all")
    assert {info.seed for info in dataset.infos()} == {result.seed for result in played.episodes}
    assert all(episode.observation["select"]["inventory"].shape == (4, 200, 2) for episode in dataset)
    assert dataset.maze_episode(0).steps[0].maze_state.current_demand == [60, 33]
    # An environment resets once more after each episode: of the six episodes that begin every fourth is kept.
    play({"use": "trajectory-recording", "folder": str(tmp_path / "some"), "every_episodes": 4})
    assert len(TrajectoryDataset.open(tmp_path / "some")) == 2


def test_actions_alone_can_be_replayed(tmp_path):
    folder = tmp_path / "actions"
    played = play({"use": "action-recording", "folder": str(folder)}, n_episodes=1)
    dataset = TrajectoryDataset.open(folder)
    (episode,) = dataset
    assert episode.observation == {}
    assert dataset.maze_episode(0) is None
    assert len(episode.action["cut"]["cut_order"]) == 4
    np.testing.assert_allclose(episode.reward.sum(), played.episodes[0].total_reward)
    again = RunContext(env=CUTTING, silent=True).rollout(1, policy={"use": "replay", "path": str(folder)})
    assert again.episodes[0].total_reward == played.episodes[0].total_reward


def test_actions_alone_are_no_transitions(tmp_path):
    env = {"use": "gym", "id": "CartPole-v1"}
    wrapper = {"use": "action-recording", "folder": str(tmp_path / "actions")}
    RunContext(env=env, wrappers=[wrapper], silent=True).rollout(1, policy="random")
    with pytest.raises(RequestError, match="only actions were recorded"):
        TrajectoryDataset.open(tmp_path / "actions").flat_transitions()
