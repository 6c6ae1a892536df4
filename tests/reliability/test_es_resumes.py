"""Promise 2 for ES: stopped and resumed runs of every kind; models with a state are refused."""

import pytest
from resume_matrix import VARIANTS, assert_resumes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

OPTIONS = {"use": "es", "n_rollouts_per_update": 4}


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name not in ("recurrent",)])
def test_a_stopped_run_that_goes_on_equals_the_undisturbed_one(kernel, tmp_path, monkeypatch, variant):
    options = {**OPTIONS, **({"noise_stddev": {"start": 0.2, "end": 0.05}} if variant == "schedule" else {})}
    assert_resumes(kernel, tmp_path, monkeypatch, variant, options)
