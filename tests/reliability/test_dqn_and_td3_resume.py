"""Promise 2 for DQN and TD3: stopped and resumed runs of every kind; models with a state are refused."""

import pytest
from resume_matrix import VARIANTS, assert_resumes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DQN = {"use": "dqn", "epoch_length": 20, "initial_buffer_size": 40, "batch_size": 16, "prioritized": True}
TD3 = {"use": "td3", "epoch_length": 20, "initial_buffer_size": 40, "batch_size": 16, "n_step": 3}
SCHEDULE = {"lr": {"start": 1e-3, "end": 0.0}}


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name not in ("recurrent",)])
def test_a_stopped_run_of_dqn_that_goes_on_equals_the_undisturbed_one(kernel, tmp_path, monkeypatch, variant):
    assert_resumes(kernel, tmp_path, monkeypatch, variant, DQN | (SCHEDULE if variant == "schedule" else {}))


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name not in ("recurrent", "structured")])
def test_a_stopped_run_of_td3_that_goes_on_equals_the_undisturbed_one(kernel, tmp_path, monkeypatch, variant):
    trainer = TD3 | (SCHEDULE if variant == "schedule" else {})
    assert_resumes(kernel, tmp_path, monkeypatch, variant, trainer, env="Pendulum-v1")
