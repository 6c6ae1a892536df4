"""RLlib's own keys: which are taken, and how the others are refused."""

import pytest

pytest.importorskip("ray", reason="Ray is not installed")

from maze_kernel.config.load import load_experiment
from maze_kernel.errors import MazeError, RequestError
from maze_rllib.configuration import MAZE_DECIDES, configured
from maze_runtime.run.assembly import Assembly

EXPERIMENT = """name = "keys"

[env]
use = "gym"
id = "CartPole-v1"

[trainer]
use = "rllib"

[trainer.config]
gamma = 0.9
{line}
"""


@pytest.mark.parametrize("algorithm", ["PPO", "DQN", "SAC", "APPO", "IMPALA"])
def test_keys_reach_rllib(algorithm):
    config = configured(algorithm, {"gamma": 0.9, "grad_clip": 4.5, "num_env_runners": 3, "lr": [[0, 0.1], [9, 0.01]]})
    assert (config.gamma, config.grad_clip, config.num_env_runners, config.lr) == (0.9, 4.5, 3, [[0, 0.1], [9, 0.01]])


def test_a_table_of_rllib_is_merged_with_its_defaults():
    config = configured("DQN", {"replay_buffer_config": {"capacity": 7}})
    assert config.replay_buffer_config["capacity"] == 7
    assert config.replay_buffer_config["type"] == "PrioritizedEpisodeReplayBuffer"


@pytest.mark.parametrize(
    ("line", "what", "caret"),
    [
        ("train_batch_size_per_lerner = 100", "is not a key of RLlib's PPO", "train_batch_size_per_lerner"),
        ('lr = "fast"', "has the wrong type", "lr"),
        ("minibatch_size = 0.5", "has the wrong type", "minibatch_size"),
        ("num_sgd_iter = 3", "is not a key", "num_sgd_iter"),
        ("model = { fcnet_hiddens = [8] }", "the networks are those of the [model] table", "model"),
        ('batch_mode = "sometimes"', "RLlib refuses", "gamma"),
    ],
)
def test_wrong_keys_are_refused_where_they_stand(tmp_path, kernel, line, what, caret):
    path = tmp_path / "keys.toml"
    path.write_text(EXPERIMENT.format(line=line))
    assembly = Assembly(load_experiment(path, kernel=kernel), kernel)
    with pytest.raises(RequestError) as caught:
        assembly.make_trainer(assembly.trainer_context())
    error = caught.value
    assert what in error.what
    if "RLlib refuses" not in what:
        assert error.location.line == 12
        shown = error.location.source[error.location.column - 1 :][: error.location.length]
        assert shown == caret


def test_a_check_refuses_wrong_keys_and_starts_no_ray(maze, tmp_path):
    import ray

    running = ray.is_initialized()
    (tmp_path / "keys.toml").write_text(EXPERIMENT.format(line="gama = 0.5"))
    refused = maze("check", "keys.toml")
    assert refused.exit_code == 2
    assert "trainer.config.gama is not a key of RLlib's PPO" in refused.output
    assert "keys.toml:12:1" in refused.output
    assert maze("check", "keys.toml", "--set", 'trainer.config={"lr"=1e-3}').exit_code == 0
    assert ray.is_initialized() == running


def test_an_override_is_shown_as_it_was_written(tmp_path, kernel):
    path = tmp_path / "keys.toml"
    path.write_text(EXPERIMENT.format(line=""))
    loaded = load_experiment(path, kernel=kernel, overrides=["trainer.config.gama=0.5"])
    assembly = Assembly(loaded, kernel)
    with pytest.raises(RequestError, match="gama") as caught:
        assembly.make_trainer(assembly.trainer_context())
    assert caught.value.location.file == "command line"
    assert caught.value.nearest[0] == "gamma"


def test_every_key_that_is_refused_with_a_reason_is_one_of_rllib():
    """A release of RLlib that renames one leaves it a plain unknown key."""
    from maze_rllib.configuration import _keys, config_class

    known = {key for name in ("PPO", "DQN", "SAC", "APPO", "IMPALA") for key in _keys(config_class(name))}
    assert set(MAZE_DECIDES) - known <= {"vf_share_layers"}


@pytest.mark.parametrize(
    ("trainer", "tables", "what"),
    [
        ({"algorithm": "DQN"}, {"env": {"use": "maze_testing.environments:Identity", "kind": "box"}}, "these actions"),
        ({"algorithm": "DQN"}, {"env": {"use": "maze_testing.environments:MaskedDict"}}, "these actions"),
        ({"algorithm": "SAC"}, {"env": {"use": "maze_testing.environments:MaskedDict"}}, "these actions"),
        ({"algorithm": "SAC"}, {"env": {"use": "maze_testing.structured_environments:Pair"}}, "structured"),
        ({}, {"env": {"use": "maze_testing.structured_environments:ChangingTeam"}}, "know all agents"),
        ({}, {"env": {"use": "maze_testing.structured_environments:Pair"}}, "values the decisions of each agent"),
        ({}, {"wrappers": [{"use": "observation-normalization", "statistics": "running"}]}, "every step of training"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_runs(assemble, trainer, tables, what):
    assembly = assemble(trainer={"config": {}, **trainer}, **tables)
    with pytest.raises(MazeError, match=what) as caught:
        assembly.make_trainer(assembly.trainer_context())
    assert "maze-rllib" in caught.value.owner
