"""Numbers below 1.2e-38 are zero in gradient steps, and nowhere else."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn

from maze_runtime.training import gradient_step
from maze_runtime.training.gradient_step import GradientStep
from maze_runtime.training.subnormal_numbers import subnormal_numbers_are_zero

FLUSHES = torch.set_flush_denormal(False)
pytestmark = pytest.mark.skipif(not FLUSHES, reason="the processor has no such way of working")
TINY = 1e-40


def halved():
    """Of torch, NumPy and Python: of each a number that is subnormal before and after."""
    return float(torch.tensor(TINY) * 0.5), float(np.float32(TINY) * np.float32(0.5)), 1e-310 * len("x") * 0.5


def test_they_are_zero_inside_and_what_they_were_behind_it():
    before = halved()
    with subnormal_numbers_are_zero():
        inside = halved()
        with subnormal_numbers_are_zero():
            pass
        still_inside = halved()
    assert inside == still_inside == (0.0, 0.0, 0.0)
    assert halved() == before
    assert min(before) > 0.0


def test_an_error_restores_them_as_well():
    with pytest.raises(KeyError), subnormal_numbers_are_zero():
        raise KeyError("loss")
    assert min(halved()) > 0.0


def test_who_wants_them_zero_everywhere_keeps_that():
    torch.set_flush_denormal(True)
    try:
        with subnormal_numbers_are_zero():
            pass
        assert halved() == (0.0, 0.0, 0.0)
    finally:
        torch.set_flush_denormal(False)


def unit_that_dies(steps):
    """Weights and moments of a network whose hidden unit gets gradients for a while, and then none any more."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))

    def loss(model, x):
        result = model(x).square().mean()
        return result, result.detach()[None]

    step = GradientStep(model, loss, epsilon=1e-8, max_grad_norm=0.0, compiled=False)
    generator = torch.Generator().manual_seed(1)
    for i in range(steps):
        if i == 20:
            with torch.no_grad():
                model[0].bias[1] = -1e6
        step(1e-3, torch.randn(8, 2, generator=generator))
    return step.flat.data.clone(), step.adam.first_moment.clone()


def test_moments_of_units_that_died_end_at_zero_and_weights_are_the_same(monkeypatch):
    weights, moments = unit_that_dies(1200)
    monkeypatch.setattr(gradient_step, "subnormal_numbers_are_zero", nullcontext)
    plain_weights, plain_moments = unit_that_dies(1200)
    smallest = torch.finfo(torch.float32).tiny
    is_subnormal = (plain_moments != 0.0) & (plain_moments.abs() < smallest)
    assert is_subnormal.any(), "nothing died, so nothing was shown"
    assert not moments[is_subnormal].any()
    assert torch.equal(moments[~is_subnormal], plain_moments[~is_subnormal])
    assert torch.equal(weights, plain_weights)
