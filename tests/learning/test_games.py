"""PPO on games of several agents: connect four against itself, and partners who spread out."""

from pathlib import Path

import pytest

from maze_kernel.config import load_experiment
from maze_runtime.playing.players import load_checkpoint
from maze_runtime.playing.roll_out import RolloutOptions, roll_out
from maze_runtime.training.train import train

pytestmark = [pytest.mark.learning, pytest.mark.slow, pytest.mark.timeout(1800)]

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def load(kernel):
    def of(name, *overrides):
        return load_experiment(EXAMPLES / name, overrides=['loggers=[{use="csv"}]', *overrides], kernel=kernel)

    return of


def rewards(loaded, kernel, n_episodes, run_dir=None, checkpoint="best"):
    """Of each episode, by the policy of a run; without one at random."""
    weights = None if run_dir is None else load_checkpoint(run_dir, checkpoint)
    result = roll_out(loaded, kernel, RolloutOptions(n_episodes=n_episodes), checkpoint=weights)
    return [episode.total_reward for episode in result.episodes]


def test_self_play_beats_the_random_player_from_both_seats(kernel, load, tmp_path):
    train(load("connect_four_ppo.toml"), kernel, run_dir=tmp_path / "run", verbosity=-1)
    for opponent in ("player_1", "player_0"):
        game = load("connect_four_against_random.toml", f'env.random_agents=["{opponent}"]')
        won = sum(reward > 0 for reward in rewards(game, kernel, 100, tmp_path / "run", "last"))
        assert won >= 75, f"{won} of 100 games against a random {opponent}"  # 92 to 94 with seeds 0 to 2


def test_partners_learn_to_spread(kernel, load, tmp_path):
    loaded = load("simple_spread_ppo.toml")
    train(loaded, kernel, run_dir=tmp_path / "run", verbosity=-1)
    trained, at_random = rewards(loaded, kernel, 50, tmp_path / "run"), rewards(loaded, kernel, 50)
    assert sum(trained) / 50 > sum(at_random) / 50 + 10  # 18 to 20 with seeds 0 to 2
