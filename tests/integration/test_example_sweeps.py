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


def test_a_dry_run_leaves_no_study_in_a_database(tmp_path):
    from maze_sweeps.sweep_reading import sweep_from_mapping
    from maze_sweeps.sweeping import dry_run

    database = tmp_path / "studies.db"
    sweep = sweep_from_mapping(
        {
            "experiment": {"name": "pole", "env": {"use": "gym", "id": "CartPole-v1"}, "trainer": {"use": "ppo"}},
            "n_trials": 3,
            "searcher": {"use": "optuna", "storage": f"sqlite:///{database}"},
            "space": {"trainer.lr": {"low": 1e-4, "high": 1e-2, "log": True}},
        }
    )
    assert len(dry_run(sweep)) == 3
    assert not database.exists()
