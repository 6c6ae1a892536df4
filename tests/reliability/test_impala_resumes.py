"""Promise 2 for deterministic IMPALA: stopped and resumed runs of every kind; models with a state are refused."""

import pytest
from resume_matrix import VARIANTS, assert_resumes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

OPTIONS = {
    "use": "impala",
    "deterministic": True,
    "epoch_length": 2,
    "n_rollout_steps": 16,
    "num_actors": 2,
    "actors_batch_size": 2,
}


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name not in ("recurrent",)])
def test_a_stopped_run_that_goes_on_equals_the_undisturbed_one(kernel, tmp_path, monkeypatch, variant):
    options = {**OPTIONS, **({"lr": {"start": 1e-3, "end": 0.0}} if variant == "schedule" else {})}
    assert_resumes(kernel, tmp_path, monkeypatch, variant, options)


@pytest.mark.parametrize("burn_in", [1, 2, 3])
def test_a_run_goes_on_before_and_after_the_end_of_the_burn_in_and_there(kernel, tmp_path, monkeypatch, burn_in):
    """It is stopped after the second epoch."""
    assert_resumes(kernel, tmp_path, monkeypatch, "plain", {**OPTIONS, "critic_burn_in_epochs": burn_in})
