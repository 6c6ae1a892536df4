"""Other optimisers than Adam: by import path, on the schedule, cut, saved and refused like it."""

import numpy as np
import pytest
import torch

from maze_kernel.config import load_experiment
from maze_kernel.errors import MazeError, RequestError
from maze_runtime.run.assembly import Assembly
from maze_testing.environments import Identity
from maze_testing.trainers import check_trainer

SGD = {"use": "torch.optim:SGD", "kwargs": {"momentum": 0.9}}


def weights(trainer):
    return torch.cat([p.detach().reshape(-1) for p in trainer.model.parameters() if p.requires_grad]).clone()


def test_momentum_is_that_of_the_formula(identity_recording, make_trainer):
    """v ← μ v + g, θ ← θ − lr v, with g cut to the norm; in float64, from the gradients of the same minibatches."""
    options = {"optimizer": SGD, "lr": {"start": 0.5, "end": 0.1}, "n_epochs": 3, "max_grad_norm": 0.05}
    folder = identity_recording()
    trainer = make_trainer(folder, trainer={**options, "batch_size": 16})
    step, taken = trainer._step, []
    original = step._optimizer.step

    def record():
        taken.append((step._optimizer.param_groups[0]["lr"], step.flat.grad.clone().double().numpy()))
        original()

    step._optimizer.step = record
    theta, velocity = step.flat.data.clone().double().numpy(), 0.0
    for _ in range(3):
        trainer.train_epoch()
    rates = [rate for rate, _ in taken]
    assert rates[0] == 0.5
    assert 0.1 < rates[-1] < rates[len(rates) // 2] < 0.5
    for rate, gradient in taken:
        assert np.linalg.norm(gradient) < 0.0501
        velocity = 0.9 * velocity + gradient
        theta = theta - rate * velocity
    np.testing.assert_allclose(step.flat.data.numpy(), theta, rtol=1e-4, atol=1e-6)


def test_adam_by_its_path_learns_what_adam_learns(identity_recording, make_trainer):
    folder, adam = identity_recording(), {"use": "torch.optim:Adam", "kwargs": {"eps": 1e-8}}
    runs = [make_trainer(folder, trainer={"lr": 1e-2, **more}) for more in ({}, {"optimizer": adam})]
    for trainer in runs:
        for _ in range(3):
            trainer.train_epoch()
    torch.testing.assert_close(weights(runs[0]), weights(runs[1]), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "optimizer",
    [
        SGD,
        {"use": "torch.optim:AdamW", "kwargs": {"weight_decay": 0.01, "betas": [0.8, 0.9]}},
        {"use": "torch.optim:RMSprop"},
        {"use": "torch.optim:Adafactor"},
    ],
    ids=lambda optimizer: optimizer["use"],
)
def test_it_conforms_to_the_trainer_suite(identity_recording, assemble, optimizer):
    assembly = assemble(identity_recording(), trainer={"optimizer": optimizer, "lr": 0.05, "batch_size": 16})
    check_trainer(lambda: assembly.make_trainer(assembly.trainer_context()))


def test_numbers_below_the_smallest_normal_ones_are_zero_in_a_step(identity_recording, make_trainer, monkeypatch):
    if not torch.set_flush_denormal(False):
        pytest.skip("the processor has no such way of working")
    trainer, seen, subnormal = make_trainer(identity_recording(), trainer={"optimizer": SGD}), [], np.float64(1e-310)
    plain = trainer._step._optimizer.step
    monkeypatch.setattr(trainer._step._optimizer, "step", lambda: seen.append(subnormal * 1.0) or plain())
    trainer.train_epoch()
    assert set(seen) == {0.0}
    assert subnormal * 1.0 > 0.0


def test_a_gradient_that_is_not_finite_changes_nothing(identity_recording, make_trainer):
    trainer = make_trainer(identity_recording(), trainer={"optimizer": SGD})
    trainer.train_epoch()
    before = trainer._step.flat.data.clone()
    statistics = trainer._step(0.1, *_poisoned(trainer))
    assert not statistics[-1].isfinite()
    assert torch.equal(trainer._step.flat.data, before)


def _poisoned(trainer):
    batch = trainer._minibatches.batch(0, 0)
    for rows in batch.values():
        for column in rows.observation.values():
            column.fill_(float("nan"))
    return (batch,)


@pytest.mark.parametrize(
    ("optimizer", "words"),
    [
        ({"use": "torch.optim:Adamm"}, r"torch.optim has no Adamm(.|\n)*torch.optim:Adam"),
        ({"use": "torch.optim:SGD", "kwargs": {"momentun": 0.9}}, "momentun"),
        ({"use": "torch.optim:SGD", "kwargs": {"momentum": -1.0}}, "momentum value"),
        ({"use": "torch.optim:LBFGS"}, "several times a step"),
        ({"use": "builtins:list"}, "makes no optimiser"),
    ],
)
def test_what_cannot_be_used_is_refused(identity_recording, make_trainer, optimizer, words):
    with pytest.raises(RequestError, match=words) as refusal:
        make_trainer(identity_recording(), trainer={"optimizer": optimizer})
    assert refusal.value.option in ("optimizer", "optimizer.use")


def start(file, kernel):
    assembly = Assembly(load_experiment(file, kernel=kernel), kernel)
    return assembly.make_trainer(assembly.trainer_context())


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('optimizer = { use = "torch.optim:SGD" }\ncompile = true', "is not compiled"),
        ('optimizer = { use = "torch.optim:SGD", kwargs = { lr = 1.0 } }', "an option of its own"),
        ("top_k = [0]", "numbers >= 1"),
        ('optimizer = { use = "torch.optim:LBFGS" }', "several times a step"),
    ],
)
def test_mistakes_are_shown_where_they_stand(identity_recording, kernel, tmp_path, lines, words):
    file, data = tmp_path / "experiment.toml", f'demonstrations = {{ path = "{identity_recording()}" }}'
    env = f'[env]\nuse = "{Identity.__module__}:Identity"'
    file.write_text(f'name = "x"\n{env}\n[trainer]\nuse = "bc"\n{data}\n{lines}\n')
    with pytest.raises(MazeError) as error:
        start(file, kernel)
    text = error.value.render()
    assert words in text
    assert "experiment.toml:7:" in text
    assert "^" in text
