"""The JSON Schema of sweep files: what `maze sweep` accepts is valid, and mistakes are seen in an editor."""

import itertools
import json
import re
from pathlib import Path

import jsonschema
import pytest
import tomli

from maze_kernel.errors import ExperimentError
from maze_kernel.loader import Kernel
from maze_sweeps.sweep_reading import load_sweep
from maze_sweeps.sweep_schema import sweep_schema

ROOT = Path(__file__).parents[2]
SWEEPS = sorted((ROOT / "examples" / "sweeps").glob("*.toml"))
PAGE = (ROOT / "docs" / "how-to" / "tune.md").read_text(encoding="utf-8")
SHOWN = [block for block in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if "\nexperiment = " in f"\n{block}"]

EXPERIMENT = """
name = "pole"

[env]
use = "gym"
id = "CartPole-v1"

[[wrappers]]
use = "time-limit"
max_episode_steps = 300

[model]
use = "concat"
blocks.observation = { use = "dense" }

[trainer]
use = "ppo"
"""

FULL = """
experiment = "pole.toml"
name = "wide"
n_trials = 40
seeds = [7, 11]
metric = "-BaseEnvEvents/reward/mean"
objective = "iqm"
value = "last"
timeout_seconds = 60

[searcher]
use = "optuna"
sampler = "tpe"
pruner = "median"

[workers]
use = "subprocess"
count = 2

[confirm]
top = 3
seeds = 10

[space]
vector.n_envs = { values = [4, 8] }
model.blocks.observation.hidden_units = { values = [[16], [64, 64]] }
wrappers.time-limit.max_episode_steps = { low = 100, high = 500, step = 100 }
env.id = { values = ["CartPole-v1"] }

[[space.choices]]
label = "wide"
evaluation.n_episodes = 10

[[space.choices]]
label = "narrow"
evaluation.n_episodes = { low = 1, high = 5 }

[[space.trainer.choices]]
use = "ppo"
lr = { low = 1e-5, high = 1e-2, log = true, points = 3 }
clip_range = 0.1

[[space.trainer.choices]]
use = "sac"
tau = { low = 0.001, high = 0.1, log = true }

[[space.trainer.choices.choices]]
label = "greedy"
gamma = 0.9

[[space.trainer.choices.choices]]
label = "patient"
gamma = { values = [0.99, 0.999] }
"""


@pytest.fixture(scope="module")
def validator():
    made = json.loads(json.dumps(sweep_schema(Kernel.installed(report=False)), allow_nan=False))
    jsonschema.Draft202012Validator.check_schema(made)
    return jsonschema.Draft202012Validator(made)


@pytest.mark.parametrize("file", SWEEPS, ids=lambda path: path.name)
def test_the_examples_are_valid_and_name_the_schema(validator, file):
    text = file.read_text(encoding="utf-8")
    assert text.startswith("#:schema ./sweep.schema.json\n")
    assert list(validator.iter_errors(tomli.loads(text))) == []


def test_what_the_page_shows_is_valid(validator):
    assert len(SHOWN) >= 4
    for block in SHOWN:
        assert list(validator.iter_errors(tomli.loads(block))) == [], block


@pytest.fixture
def accepted(tmp_path):
    """Whether `maze sweep` takes a text."""
    (tmp_path / "pole.toml").write_text(EXPERIMENT)

    def is_accepted(text):
        (tmp_path / "sweep.toml").write_text(text)
        try:
            load_sweep(tmp_path / "sweep.toml")
        except ExperimentError:
            return False
        return True

    return is_accepted


def test_a_full_sweep_is_valid(validator, accepted):
    assert accepted(FULL)
    assert list(validator.iter_errors(tomli.loads(FULL))) == []


MISTAKES = [
    ("n_trials = 40", "n_trails = 40"),
    ("n_trials = 40", 'n_trials = "40"'),
    ('experiment = "pole.toml"', ""),
    ('objective = "iqm"', 'objective = "median"'),
    ("seeds = [7, 11]", "seeds = 2.5"),
    ('sampler = "tpe"', 'sampler = "tpee"'),
    ('pruner = "median"', 'prunner = "median"'),
    ("count = 2", 'count = "two"'),
    ("top = 3", "top = 0"),
    ("vector.n_envs = { values = [4, 8] }", "vektor.n_envs = { values = [4, 8] }"),
    ("vector.n_envs = { values = [4, 8] }", "vector.n_envs = { values = [] }"),
    ("vector.n_envs = { values = [4, 8] }", "vector.n_envs = { values = 4 }"),
    ("vector.n_envs = { values = [4, 8] }", "vector.n_envs = 4"),
    ("vector.n_envs = { values = [4, 8] }", "vector.n_envs = [4, 8]"),
    ("vector.n_envs = { values = [4, 8] }", "vector.n_envs = {}"),
    ("vector.n_envs = { values = [4, 8] }", "seed = { values = [4, 8] }"),
    ("step = 100", "stepp = 100"),
    ("low = 100, high = 500", "low = 100"),
    ("low = 100, high = 500", 'low = "100", high = 500'),
    ("points = 3", "points = 0"),
    ("points = 3", "step = 1e-4"),
    ('use = "ppo"', 'use = "pppo"'),
    ("clip_range = 0.1", "clip_rnage = 0.1"),
    ("tau = {", "taau = {"),
    ("lr = { low = 1e-5", "lr = { lower = 1e-5"),
]


@pytest.mark.parametrize(("right", "wrong"), MISTAKES, ids=[wrong or right for right, wrong in MISTAKES])
def test_mistakes_are_seen_in_an_editor(validator, accepted, right, wrong):
    assert right in FULL
    text = FULL.replace(right, wrong, 1)
    assert not accepted(text)
    assert not validator.is_valid(tomli.loads(text))


PLACES = ["env.id", "vector", "vector.n_envs", "wrappers", "wrappers.0", "wrappers.time-limit", "trainer", "trainer.lr"]
WRITTEN = [
    '{ values = ["CartPole-v1", 1] }',
    "{ values = [1, 2] }",
    "{ values = [{ use = 'ppo' }] }",
    "{ low = 1, high = 2 }",
    "{ low = 1e-4, high = 1e-2, log = true }",
    "{ low = { values = [1] } }",
    "{ choices = [{ label = 'a' }, { label = 'b' }] }",
    "{ choices = [{ use = 'ppo', lr.start = { values = [0.1] } }, { use = 'maze-ppo:a2c' }] }",
    "{ choices = [{ use = 'time-limit', max_episode_steps = 3 }, { use = 'log-stats' }] }",
    "{ choices = [{ low = 1e-4, high = 1e-3 }, { values = [0.01] }] }",
    "{ choices = { values = [1] } }",
    "{ start = { low = 1e-4, high = 1e-3 }, end = { values = [0.0] } }",
    "{ use = { values = ['ppo', 'a2c'] } }",
    "{ max_episode_steps = { values = [1] } }",
    "{ n_envs.choices = [{ values = [1, 2] }] }",
]


@pytest.mark.slow
def test_what_is_accepted_is_valid(validator, accepted):
    n_accepted = 0
    for place, written in itertools.product(PLACES, WRITTEN):
        text = f'experiment = "pole.toml"\n[space]\n{place} = {written}\n'
        if accepted(text):
            n_accepted += 1
            assert [error.message for error in validator.iter_errors(tomli.loads(text))] == [], text
    assert n_accepted > 15, n_accepted


def test_names_and_their_meaning_are_offered(validator):
    definitions = validator.schema["properties"]["space"]["properties"]
    trainer = definitions["trainer"]["anyOf"][-1]["properties"]
    assert trainer["gamma"]["description"].startswith("Discount a flat step")
    assert "tau" in trainer
    wrappers = definitions["wrappers"]["anyOf"][-1]["properties"]
    assert "max_episode_steps" in wrappers["time-limit"]["properties"]
    assert "n_envs" in definitions["vector"]["anyOf"][-1]["properties"]


def test_a_searcher_may_leave_its_name_away(validator, accepted):
    text = FULL.replace('use = "optuna"\nsampler = "tpe"\npruner = "median"\n', "", 1)
    assert accepted(text)
    assert validator.is_valid(tomli.loads(text))
