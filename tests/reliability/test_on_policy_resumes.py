"""Promise 2 for PPO and A2C: stopped and resumed runs of every kind."""

import pytest
from resume_matrix import VARIANTS, assert_resumes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

OPTIONS = {
    "ppo": {"epoch_length": 2, "n_rollout_steps": 16, "batch_size": 16},
    "a2c": {"epoch_length": 2, "n_rollout_steps": 16},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("trainer", OPTIONS)
def test_a_stopped_run_that_goes_on_equals_the_undisturbed_one(kernel, tmp_path, monkeypatch, trainer, variant):
    options = {"use": trainer, **OPTIONS[trainer]}
    if variant == "schedule":
        options |= {"lr": {"start": 1e-3, "end": 0.0}}
    assert_resumes(kernel, tmp_path, monkeypatch, variant, options)


@pytest.mark.parametrize("burn_in", [1, 2, 3])
@pytest.mark.parametrize("trainer", OPTIONS)
def test_a_run_goes_on_before_and_after_the_end_of_the_burn_in_and_there(
    kernel, tmp_path, monkeypatch, trainer, burn_in
):
    """It is stopped after the second epoch."""
    options = {"use": trainer, **OPTIONS[trainer], "critic_burn_in_epochs": burn_in}
    assert_resumes(kernel, tmp_path, monkeypatch, "plain", options)
