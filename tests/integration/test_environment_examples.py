"""The experiments of `examples/environments`: each is listed, valid, and trains where its package is installed."""

import os
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import jsonschema
import pytest
import tomli
from packaging.requirements import Requirement

from maze_kernel.config import load_experiment, schema
from maze_runtime.playing.players import load_checkpoint
from maze_runtime.playing.roll_out import RolloutOptions, roll_out
from maze_runtime.training.train import train

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "examples/environments").glob("*.toml"))
PAGE = (ROOT / "docs/how-to/environments-of-others.md").read_text(encoding="utf-8")
SHORT = ("trainer.max_env_steps=200", "evaluation.n_episodes=1", "evaluation.every_epochs=1", "loggers=[]")
ON_POLICY = ("vector.n_envs=2", "trainer.epoch_length=3", "trainer.n_rollout_steps=40", "trainer.batch_size=40")
OFF_POLICY = ("trainer.epoch_length=200", "trainer.initial_buffer_size=100", "trainer.batch_size=32")


def needs(file):
    """What the head of the file says to install: the first is the package, others are what it asks for."""
    return (
        re.search(r"^#.*Needs: pip install (.+)$", file.read_text(encoding="utf-8"), re.M)[1].replace("'", "").split()
    )


def skip_without(file):
    """Skip where a package is missing, one of its extra, or one of another version than the example wants."""
    for text in needs(file):
        asked = Requirement(text)
        wanted = [asked] + [Requirement("rlcard")] * ("classic" in asked.extras)
        for requirement in wanted:
            try:
                installed = version(requirement.name)
            except PackageNotFoundError:
                pytest.skip(f"needs pip install {text}")
            if not requirement.specifier.contains(installed):
                pytest.skip(f"needs pip install {text}, and {requirement.name} is {installed}")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_is_valid_and_on_the_page(kernel, file):
    assert load_experiment(file, kernel=kernel).experiment.name
    made = jsonschema.Draft202012Validator(schema(kernel))
    assert [error.message for error in made.iter_errors(tomli.loads(file.read_text(encoding="utf-8")))] == []
    (row,) = [line for line in PAGE.splitlines() if line.startswith("|") and f"environments/{file.name})" in line]
    for package in needs(file):
        assert package in row


def test_all_that_the_page_lists_exists():
    named = set(re.findall(r"environments/(\w+\.toml)\)", PAGE))
    assert named == {file.name for file in FILES}
    assert len(named) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_trains_and_plays(kernel, tmp_path, file):
    skip_without(file)
    own = OFF_POLICY if file.stem.endswith(("_sac", "_dqn")) else ON_POLICY
    loaded = load_experiment(file, overrides=[*SHORT, *own], kernel=kernel)
    result = train(loaded, kernel, run_dir=tmp_path / "run", verbosity=-1)
    assert result.outcome.status == "done"
    assert result.env_steps >= 200
    last = load_checkpoint(tmp_path / "run", "last")
    played = roll_out(loaded, kernel, RolloutOptions(n_episodes=1, max_steps=50), checkpoint=last)
    assert [episode.error for episode in played.episodes] == [None]


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_runs_as_it_stands_for_a_minute(kernel, tmp_path, file):
    skip_without(file)
    seconds = float(os.environ.get("MAZE_EXAMPLE_SECONDS", "60"))
    result = train(load_experiment(file, kernel=kernel), kernel, run_dir=tmp_path, verbosity=-1, max_seconds=seconds)
    assert result.outcome.status == "done"
    assert result.env_steps > 0
    assert all(parameter.isfinite().all() for parameter in result.model.parameters())
