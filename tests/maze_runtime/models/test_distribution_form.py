"""A distribution that gives all environments the result of one row is refused when it is built."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_distributions.gaussian import DiagonalGaussian
from maze_distributions.options import GaussianOptions
from maze_kernel.errors import SpaceError
from maze_runtime.models.distribution_form import require_a_result_a_row

BOX = spaces.Box(-1, 1, (2,), np.float32)


def with_method(name, change):
    def changed(self, *args):
        return change(getattr(DiagonalGaussian, name)(self, *args))

    return type("Own", (DiagonalGaussian,), {name: changed})(BOX, GaussianOptions())


@pytest.mark.parametrize(
    ("name", "change", "received"),
    [
        ("sample_numpy", lambda actions: actions[:1], r"sample_numpy: shape \(1, 2\)"),
        ("mode_numpy", lambda actions: actions[0], r"mode_numpy: shape \(2,\)"),
        ("sample", lambda actions: actions[:, :1], r"sample: shape \(7, 1\)"),
        ("log_prob", lambda numbers: numbers.mean(), r"log_prob: shape \(\)"),
        ("log_prob", lambda numbers: numbers[:, None], r"log_prob: shape \(7, 1\)"),
        ("entropy", lambda numbers: float(numbers.mean()), "entropy: float"),
    ],
)
def test_results_of_another_shape_are_refused_with_head_and_owner(name, change, received):
    with pytest.raises(SpaceError, match=received) as caught:
        require_a_result_a_row("thrust", BOX, with_method(name, change), "rockets 1.0")
    assert "'thrust'" in caught.value.what
    assert caught.value.owner == "rockets 1.0"


def test_a_distribution_without_a_shape_of_its_logits_is_refused():
    own = DiagonalGaussian(BOX, GaussianOptions())
    own.logits_shape = 4
    with pytest.raises(SpaceError, match="logits_shape = 4"):
        require_a_result_a_row("thrust", BOX, own, None)


def test_the_trial_draws_nothing_from_the_random_state_of_torch():
    before = torch.get_rng_state()
    require_a_result_a_row("thrust", BOX, DiagonalGaussian(BOX, GaussianOptions()), None)
    assert torch.equal(torch.get_rng_state(), before)
