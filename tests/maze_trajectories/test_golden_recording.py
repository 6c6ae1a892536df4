"""Recordings of earlier releases keep loading: `golden/<version>` was written once and never again."""

from pathlib import Path

import numpy as np
import pytest

from maze_cutting2d.env import make_env
from maze_cutting2d.options import CuttingOptions
from maze_cutting2d.states import CuttingState
from maze_trajectories.dataset import TrajectoryDataset

RELEASES = sorted((Path(__file__).parent / "golden").iterdir())


@pytest.mark.parametrize("folder", RELEASES, ids=lambda folder: folder.name)
def test_a_recording_of_an_earlier_release_is_read_whole(folder):
    dataset = TrajectoryDataset.open(folder)
    (episode,) = dataset
    assert episode.info.seed == 1230903229
    assert (episode.info.n_decisions, episode.info.n_env_steps, episode.info.truncated) == (6, 3, True)
    assert episode.policy_keys == ("select", "cut")
    np.testing.assert_array_equal(episode.key_index, [0, 1] * 3)
    np.testing.assert_array_equal(episode.observation["select"]["piece_idx_mask"].sum(axis=1), [1, 3, 2])
    assert dataset.spaces.action["select"]["piece_idx"].n == 4
    maze_episode = dataset.maze_episode(0, make_env(CuttingOptions(version="masked")).core_env)
    assert all(type(step.maze_state) is CuttingState for step in maze_episode.steps)
    assert maze_episode.steps[0].maze_state.current_demand == (60, 33)
    assert "CuttingEvents/valid_cut" in [event.name for event in maze_episode.steps[1].events]
