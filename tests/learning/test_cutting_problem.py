"""The cutting problem: PPO solves it with masks, and two decisions a step learn it better than one."""

from pathlib import Path

import pytest

from maze_kernel.config import load_experiment
from maze_kernel.training.loop import train

pytestmark = [pytest.mark.learning, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"
INVALID_EVERY_TIME = -360.0
"""The return of a policy whose every action fails."""


@pytest.fixture
def best_return(kernel, tmp_path):
    def of(version, n_epochs):
        overrides = ["seed=0", 'loggers=[{use="csv"}]', f"trainer.n_epochs={n_epochs}"]
        loaded = load_experiment(EXAMPLES / f"cutting2d_{version}.toml", overrides=overrides, kernel=kernel)
        return train(loaded, kernel, run_dir=tmp_path / version, verbosity=-1).best_metric

    return of


@pytest.mark.timeout(900)
def test_with_masks_33_raw_pieces_or_fewer_are_used(best_return):
    # A return of -32: 32 raw pieces were cut, and one more replaced the last of them.
    assert best_return("masked", 6) >= -32.0


@pytest.mark.timeout(1800)
def test_structured_learns_what_flat_does_not_in_the_same_steps(best_return):
    structured, flat = best_return("structured", 20), best_return("flat", 20)
    assert structured > flat > INVALID_EVERY_TIME
