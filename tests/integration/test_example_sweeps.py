"""The sweeps in `examples/sweeps` hold."""

from pathlib import Path

import pytest

SWEEPS = sorted((Path(__file__).parents[2] / "examples" / "sweeps").glob("*.toml"))


@pytest.mark.parametrize("file", SWEEPS, ids=lambda path: path.name)
def test_every_value_that_may_be_chosen_fits_the_experiment(file):
    from maze_sweeps.sweep_reading import load_sweep
    from maze_sweeps.sweeping import dry_run

    sweep = load_sweep(file)
    assert len(dry_run(sweep)) == sweep.file.n_trials
