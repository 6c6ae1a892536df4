"""Rules around the policy: from a file, wherever the policy acts, and what is refused."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from maze_es.population import Pairs
from maze_kernel.cli.app import make_app
from maze_kernel.config import load_experiment
from maze_kernel.errors import ComponentError, MazeError, RequestError
from maze_runtime.training.train import train

README = (Path(__file__).parents[2] / "maze_es" / "README.md").read_text()
(CATCH,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
(TRAINER,) = (table for table in re.findall(r"```toml\n(.*?)```", README, re.DOTALL) if "policy_wrapper" in table)

OTHERS = '''

class Started(PolicyWrapper):
    """Notes which environments begin episodes."""

    def __init__(self, policy):
        super().__init__(policy)
        self.started = []

    def begin_episodes(self, env_index):
        super().begin_episodes(env_index)
        self.started += env_index.tolist()


def no_policy(policy):
    return print


def broken(policy):
    raise ValueError("out of order")
'''

FILE = """
name = "rules"

[env]
use = "gym"
id = "CartPole-v1"

[vector]
n_envs = 4

[evaluation]
n_episodes = 4

"""

SMALL = """
n_epochs = 1
n_rollouts_per_update = 8
noise = { use = "seeded" }
"""


@pytest.fixture
def rules(tmp_path, monkeypatch):
    """A folder with the experiment and the module of the README, which can be imported."""
    (tmp_path / "pole_rules.py").write_text(CATCH + OTHERS)
    (tmp_path / "rules.toml").write_text(FILE + TRAINER + SMALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("pole_rules", None)


def maze(*arguments):
    return CliRunner().invoke(make_app(), list(arguments))


def test_a_file_puts_rules_around_the_policy(rules, kernel):
    """In training and evaluation: without them an untrained network falls soon."""
    lengths = {}
    for limit in (0.0, 1e9):
        overrides = [f"trainer.policy_wrapper.limit={limit}", 'loggers=[{use="csv"}]']
        loaded = load_experiment(rules / "rules.toml", overrides=overrides, kernel=kernel)
        result = train(loaded, kernel, run_dir=rules / f"run-{limit}", verbosity=-1)
        lengths[limit] = (result.env_steps / 8, result.best_metric)
    assert min(lengths[0.0]) > 200.0, lengths
    assert max(lengths[1e9]) < 100.0, lengths


def test_the_rules_stay_with_the_run(rules):
    """Rollouts act through them, name the file where they need it, and an export, which would lose them, is refused."""
    assert maze("train", "rules.toml", "--out", "run").exit_code == 0
    refused = maze("rollout", "run", "--episodes", "2")
    assert refused.exit_code == 2
    assert "pole_rules:Catch names code to import" in refused.output
    played = maze("rollout", "run", "--experiment", "rules.toml", "--episodes", "2", "--json")
    assert json.loads(played.stdout)["reward"]["mean"] > 60.0
    exported = maze("export", "run", "--out", "policy.pt2", "--experiment", "rules.toml", "--format", "torch-export")
    assert exported.exit_code == 2
    assert "a policy with rules around it cannot be exported" in exported.output


@pytest.mark.parametrize("tables", [{"vector": {"n_envs": 3, "mode": "sequential"}}, {"workers": {"use": "inline"}}])
def test_every_way_to_play_goes_through_the_rules(rules, make_trainer, tables):
    trainer = make_trainer(trainer={"policy_wrapper": {"use": "pole_rules:Catch", "limit": 0.0}}, **tables)
    assert trainer.train_epoch()["BaseEnvEvents/episode_length/mean"] > 200.0


def test_the_rules_hear_of_every_member(rules, make_trainer):
    trainer = make_trainer(
        trainer={"policy_wrapper": {"use": "pole_rules:Started"}}, vector={"n_envs": 2, "mode": "sequential"}
    )
    population = trainer._population
    population.play(
        trainer._flat.data.numpy(),
        Pairs(noise_indices=np.arange(3), env_seeds=np.arange(3), policy_seed=0, noise_stddev=0.1),
    )
    started = population._policy.started
    assert min(started.count(0), started.count(1)) >= 3


@pytest.mark.parametrize(
    ("wrapper", "error", "message"),
    [
        ({"use": "pole_rules:no_policy"}, RequestError, "does not return a policy"),
        ({"use": "pole_rules:broken"}, ComponentError, "out of order"),
        ({"use": "pole_rules:Absent"}, MazeError, "has no Absent"),
        ({"use": "pole_rules:Catch", "limits": 1.0}, MazeError, "limits is not an option"),
        ({"use": "pole_rules:Catch", "limit": "wide"}, MazeError, "wide"),
        ({"use": "balance"}, MazeError, "no policy-wrapper is called 'balance'"),
    ],
)
def test_what_cannot_be_put_around_is_refused(rules, make_trainer, wrapper, error, message):
    with pytest.raises(error, match=message) as caught:
        make_trainer(trainer={"policy_wrapper": wrapper})
    assert "maze describe policy-wrapper" not in str(caught.value)
