"""PPO's loss and its gradient against equations 7 and 9 written out, minibatch by minibatch of real rollouts."""

import numpy as np
import pytest
import torch

from maze_kernel.config import experiment_from_mapping
from maze_kernel.loader import Kernel
from maze_runtime.run.assembly import Assembly

EPSILON = 0.2


def by_hand(model, minibatch, policy_coef, value_coef, entropy_coef):
    """Schulman et al. 2017, equations 7 and 9, with decisions that weigh nothing left out."""
    if minibatch.weight is not None:
        kept = torch.nonzero(minibatch.weight)[:, 0]
        minibatch = minibatch.select(kept)._replace(weight=None)
    centred = minibatch.advantages - minibatch.advantages.mean()
    advantages = centred / (centred.square().mean().sqrt() + 1e-8)
    new = minibatch.evaluate(model)
    ratio = (new.log_prob - minibatch.log_prob).exp()
    surrogate = torch.minimum(ratio * advantages, ratio.clamp(1.0 - EPSILON, 1.0 + EPSILON) * advantages)
    value_loss = (new.value - minibatch.returns).square().mean()
    return -policy_coef * surrogate.mean() + value_coef * value_loss - entropy_coef * new.entropy.mean()


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_loss_and_gradient_are_those_of_the_paper(env):
    kernel = Kernel.installed()
    options = {"n_rollout_steps": 64, "batch_size": 128, "epoch_length": 2, "clip_range": EPSILON, "lr": 3e-3}
    data = {"name": "loss", "env": {"use": "gym", "id": env}, "trainer": {"use": "ppo", **options}}
    assembly = Assembly(experiment_from_mapping(data, kernel=kernel), kernel)
    trainer = assembly.make_trainer(assembly.trainer_context())
    trainer.start_segment(0)
    trainer.train_epoch()
    batch = trainer.estimate(trainer.collect())
    parameters = [own for own in trainer.model.parameters() if own.requires_grad]
    coefficients = [getattr(trainer.options, f"{name}_coef") for name in ("policy_loss", "value_loss", "entropy")]
    n_filled = 0
    for epoch in range(4):
        for minibatch in batch.minibatches(128, np.random.default_rng(epoch)):
            n_filled += minibatch.weight is not None
            loss, _ = trainer._algorithm.loss(trainer.model, minibatch, trainer._coefficients)
            expected = by_hand(trainer.model, minibatch, *coefficients)
            torch.testing.assert_close(loss, expected)
            gradients = [torch.autograd.grad(result, parameters, allow_unused=True) for result in (loss, expected)]
            for ours, theirs in zip(*gradients, strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)
            trainer.step(minibatch)
    assert (n_filled > 0) == (env == "CartPole-v1")
    trainer.close()
