"""Something is learnt, by `maze train` and with Maze's networks."""

from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray is not installed")

pytestmark = [pytest.mark.learning, pytest.mark.timeout(1200)]

REPLAY = """replay_buffer_config = { type = "EpisodeReplayBuffer", capacity = 20_000 }
num_steps_sampled_before_learning_starts = 300
min_sample_timesteps_per_iteration = 500
rollout_fragment_length = 1
train_batch_size_per_learner = 64
"""
KEYS = {
    "PPO": "lr = 3e-3\ntrain_batch_size_per_learner = 512\nminibatch_size = 64\nnum_epochs = 6\nvf_clip_param = 1e4\n",
    "DQN": REPLAY + "lr = 1e-3\nepsilon = [[0, 1.0], [1_500, 0.05]]\ntarget_network_update_freq = 100\n",
    "SAC": REPLAY + "actor_lr = 3e-3\ncritic_lr = 3e-3\nalpha_lr = 3e-3\ngamma = 0.5\n",
    "APPO": "lr = 3e-3\ntrain_batch_size_per_learner = 500\n",
    "IMPALA": "lr = 3e-3\ntrain_batch_size_per_learner = 500\n",
}
EXPERIMENT = """
name = "learning"
seed = 1
[env]
{env}
[vector]
n_envs = {n_envs}
[model]
use = "auto"
hidden_units = [64, 64]
[evaluation]
n_episodes = 10
[trainer]
use = "rllib"
algorithm = "{algorithm}"
max_env_steps = {steps}
[trainer.config]
{keys}
"""
IDENTITY = 'use = "maze_testing.environments:Identity"'


EXAMPLES = Path(__file__).parents[2] / "examples"


def best_of(result):
    """The mean reward of the best evaluation of a command `maze train`."""
    return float(result.output.rsplit("best mean reward ", 1)[1].split()[0])


@pytest.fixture
def best(maze, tmp_path):
    """The mean reward of the best evaluation."""

    def run(algorithm, env, steps, keys=None, n_envs=1):
        text = EXPERIMENT.format(
            algorithm=algorithm, env=env, steps=steps, keys=KEYS[algorithm] if keys is None else keys, n_envs=n_envs
        )
        (tmp_path / "experiment.toml").write_text(text)
        result = maze("train", "experiment.toml", "--out", "run")
        assert result.exit_code == 0, result.output
        return best_of(result)

    return run


@pytest.mark.parametrize("algorithm", KEYS)
def test_the_wanted_choice_is_learnt(best, algorithm):
    assert best(algorithm, IDENTITY, 2000 if algorithm == "SAC" else 6000) >= 7.5  # of 8


def test_the_wanted_number_is_learnt_by_sac(best):
    assert best("SAC", f'{IDENTITY}\nkind = "box"', 2000) >= 6.5  # of 8; at random about 3.5


def test_cartpole_by_ppo(best):
    assert best("PPO", 'use = "gym"\nid = "CartPole-v1"', 20_000, n_envs=8) >= 475


def test_cartpole_by_dqn(maze, tmp_path):
    """As the example is; seed 0 was there after 42 644 steps."""
    result = maze("train", EXAMPLES / "cartpole_rllib_dqn.toml", "--out", "run")
    assert result.exit_code == 0, result.output
    assert best_of(result) >= 475
