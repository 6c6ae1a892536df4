"""Recorded gradients: the numbers of plain steps bit for bit, and none where a recording could go wrong."""

import copy
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.same_operations import model_runs_same_operations, same_operations
from maze_runtime.training import recorded_gradient, tape
from maze_runtime.training.gradient_step import GradientStep
from maze_runtime.training.recorded_gradient import RecordedGradient

ENOUGH = recorded_gradient.N_PLAIN + 1 + recorded_gradient.N_COMPARED


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))


def squared_error(model, batch, weight):
    loss = weight[0] * (model(batch["x"]).squeeze(-1) - batch["y"]).square().mean()
    return loss, torch.stack([loss, weight[0]]).detach()


def data(seed, n_rows=7):
    generator = torch.Generator().manual_seed(seed)
    batch = {"x": torch.randn(n_rows, 3, generator=generator), "y": torch.randn(n_rows, generator=generator)}
    return batch, torch.rand(1, generator=generator)


def make(model, loss=squared_error, *, recorded=True, **more):
    return GradientStep(model, loss, epsilon=1e-8, max_grad_norm=0.3, compiled=False, recorded=recorded, **more)


def replays(step):
    return sum(form.replay is not None for form in step._recorded._forms.values())


def both(model, loss, n_steps, sizes=(7,)):
    """Steps with and without recording, which have to be the same; returns the former."""
    plain, recorded = make(copy.deepcopy(model), loss, recorded=False), make(model, loss)
    for i in range(n_steps):
        inputs = data(i, sizes[i % len(sizes)])
        assert torch.equal(plain(0.01, *inputs), recorded(0.01, *inputs))
    assert torch.equal(plain.flat.data, recorded.flat.data)
    return recorded


def test_steps_are_the_same_bit_for_bit_and_are_recorded():
    assert replays(both(network(), squared_error, ENOUGH)) == 1
    assert replays(both(network(), squared_error, ENOUGH - 1)) == 0
    assert replays(both(network(), squared_error, 3 * ENOUGH)) == 1


def test_every_shape_has_a_recording_of_its_own():
    assert replays(both(network(), squared_error, 3 * ENOUGH, sizes=(7, 4, 1))) == 3


def test_only_so_many_shapes_are_kept(monkeypatch):
    monkeypatch.setattr(recorded_gradient, "MOST_FORMS", 2)
    assert replays(both(network(), squared_error, 3 * ENOUGH, sizes=(7, 4, 1))) == 2


def test_operations_on_much_data_are_never_recorded(monkeypatch):
    monkeypatch.setattr(tape, "MOST_BYTES", 1000)
    assert replays(both(network(), squared_error, 2 * ENOUGH, sizes=(7, 1000))) == 1


def test_parameters_that_are_not_reached_or_not_trained_keep_their_gradient_of_nothing():
    model = network()
    model.append(nn.Linear(1, 2))

    def loss(model, batch, weight):
        return squared_error(model[:3], batch, weight)

    assert replays(both(model, loss, 2 * ENOUGH)) == 1
    model = network()
    step = make(model, parameters=model[0].parameters())
    before = model[2].weight.clone()
    for i in range(2 * ENOUGH):
        step(0.01, *data(i))
    assert replays(step) == 1
    assert torch.equal(model[2].weight, before)


def test_weights_that_are_loaded_meanwhile_count():
    step, other = make(network()), nn.Linear(3, 5)
    plain = make(copy.deepcopy(step._model), recorded=False)
    for i in range(2 * ENOUGH):
        if i == ENOUGH + 3:
            step._model[0].load_state_dict(other.state_dict())
            plain._model[0].load_state_dict(other.state_dict())
        assert torch.equal(step(0.01, *data(i)), plain(0.01, *data(i)))


def test_parameters_that_are_frozen_meanwhile_stay_as_they_are():
    step = make(network())
    for i in range(2 * ENOUGH):
        if i == ENOUGH + 3:
            step._model[2].requires_grad_(requires_grad=False)
            before = step.flat.data.clone()
        step(0.01, *data(i))
    gradient = step.flat.grad
    assert torch.count_nonzero(gradient[-6:]) == 0
    assert torch.count_nonzero(gradient[:-6]) > 0
    assert not torch.equal(step.flat.data, before)


def test_long_losses_are_never_recorded(monkeypatch):
    monkeypatch.setattr(tape, "MOST_OPERATIONS", 10)
    assert replays(both(network(), squared_error, 2 * ENOUGH)) == 0


class Counts(nn.Linear):
    """Doubles its outputs from its hundredth call on: what no recording would know."""

    n_calls = 0

    def forward(self, x):
        self.n_calls += 1
        return super().forward(x) * (2.0 if self.n_calls > 40 else 1.0)


def test_modules_that_do_not_say_so_are_never_recorded():
    model = nn.Sequential(Counts(3, 5), nn.Tanh(), nn.Linear(5, 1))
    assert not model_runs_same_operations(model)
    assert replays(both(model, squared_error, 2 * ENOUGH)) == 0


def test_a_mark_is_not_inherited():
    marked = same_operations(type("Marked", (nn.Linear,), {}))
    child = type("Child", (marked,), {})
    assert model_runs_same_operations(marked(2, 2))
    assert not model_runs_same_operations(child(2, 2))


HOOKS = [
    lambda model, hook: model[0].register_forward_hook(hook),
    lambda model, hook: model[2].register_forward_pre_hook(hook),
    lambda model, hook: model.register_full_backward_hook(hook),
    lambda model, hook: model[0].weight.register_hook(hook),
]


@pytest.mark.parametrize("hang", HOOKS)
@pytest.mark.parametrize("begin", [0, 1, ENOUGH + 5])
def test_hooks_of_a_user_are_always_called(hang, begin):
    calls = []
    step = make(network())
    for i in range(begin + 2 * ENOUGH):
        if i == begin:
            hang(step._model, lambda *_: calls.append(1))
        step(0.01, *data(i))
    assert len(calls) == 2 * ENOUGH


def test_networks_beside_the_model_are_no_constants():
    """A target network changes between the steps."""
    target = network()

    def loss(model, batch, weight):
        return squared_error(model, {**batch, "y": target(batch["x"]).detach().squeeze(-1)}, weight)

    step = make(network(), loss)
    for i in range(2 * ENOUGH):
        step(0.01, *data(i))
    assert replays(step) == 0


def test_networks_beside_the_model_are_followed_where_they_are_named():
    def make_with_target(*, recorded):
        target = network()

        def loss(model, batch, weight):
            return squared_error(model, {**batch, "y": target(batch["x"]).detach().squeeze(-1)}, weight)

        step = make(network(), loss, recorded=recorded)
        step.also_reads(target)
        return step, target

    (plain, its_target), (recorded, target) = make_with_target(recorded=False), make_with_target(recorded=True)
    for i in range(2 * ENOUGH):
        inputs = data(i)
        assert torch.equal(plain(0.01, *inputs), recorded(0.01, *inputs))
        for one, followed in ((target, recorded._model), (its_target, plain._model)):
            with torch.no_grad():
                torch._foreach_lerp_(list(one.parameters()), list(followed.parameters()), 0.1)
    assert replays(recorded) == 1
    assert torch.equal(plain.flat.data, recorded.flat.data)


def test_a_network_beside_the_model_with_python_code_is_never_recorded():
    target = nn.Sequential(Counts(3, 1))
    step = make(
        network(), lambda model, batch, weight: squared_error(model, {**batch, "y": target(batch["x"])[:, 0]}, weight)
    )
    step.also_reads(target)
    assert step._recorded.is_given_up


def test_a_network_beside_the_model_that_gets_a_hook_is_taken_plainly():
    target, calls = network(), []

    def loss(model, batch, weight):
        return squared_error(model, {**batch, "y": target(batch["x"]).detach().squeeze(-1)}, weight)

    step = make(network(), loss)
    step.also_reads(target)
    for i in range(2 * ENOUGH):
        if i == ENOUGH + 3:
            target.register_forward_hook(lambda *_: calls.append(1))
        step(0.01, *data(i))
    assert len(calls) == ENOUGH - 3


def noisy(model, batch, weight):
    return squared_error(model, {**batch, "x": batch["x"] + torch.empty_like(batch["x"]).normal_()}, weight)


def test_losses_that_draw_take_the_same_random_numbers_where_they_say_so():
    drawn = []
    for is_recorded in (False, True):
        model = network()
        flat = FlatParameters(model)
        gradient = RecordedGradient(model, noisy, flat, draws=True)
        gradient.is_given_up = not is_recorded
        torch.manual_seed(5)
        drawn.append([(gradient.take(*data(i)), flat.grad.clone()) for i in range(2 * ENOUGH)])
        drawn[-1].append((torch.rand(1), torch.zeros(0)))
    assert sum(form.replay is not None for form in gradient._forms.values()) == 1
    for plain, recorded in zip(*drawn, strict=True):
        assert all(map(torch.equal, plain, recorded))


def drops(model, batch, weight):
    dropped = {**batch, "x": nn.functional.dropout(batch["x"])}
    return squared_error(model, dropped, weight)


def looks(model, batch, weight):
    return squared_error(model, batch, weight if weight.item() > 0.5 else 2.0 * weight)


def writes(model, batch, weight):
    weight.add_(1.0)
    return squared_error(model, batch, weight)


def chooses(model, batch, weight):
    rows = batch["y"] > 0.0
    return squared_error(model, {"x": batch["x"][rows], "y": batch["y"][rows]}, weight)


@pytest.mark.parametrize("loss", [drops, noisy, looks, writes, chooses])
def test_losses_that_depend_on_more_than_shapes_are_never_recorded(loss):
    step = make(network(), loss)
    for i in range(2 * ENOUGH):
        step(0.01, *data(i))
    assert replays(step) == 0


def test_a_recording_that_differs_is_never_used():
    """A loss that breaks its promise is found out while both are taken."""
    calls = []

    def changes(model, batch, weight):
        calls.append(1)
        return squared_error(model, batch, weight * float(len(calls)))

    step, plain = make(network(), changes), make(network(), squared_error, recorded=False)
    for i in range(2 * ENOUGH):
        batch, weight = data(i)
        assert torch.equal(step(0.01, batch, weight)[:1], plain(0.01, batch, weight * float(i + 1))[:1])
    assert replays(step) == 0


def test_inputs_that_have_no_form_are_taken_plainly():
    step = make(network(), lambda model, thing: squared_error(model, *thing.data))

    class Thing:
        def __init__(self, seed):
            self.data = data(seed)

    for i in range(2 * ENOUGH):
        step(0.01, Thing(i))
    assert step._recorded.is_given_up


def test_training_goes_on_plainly_where_torch_cannot_trace(monkeypatch):
    def refuses(*_arguments, **_options):
        raise NotImplementedError("gone")

    monkeypatch.setattr(torch.jit, "trace", refuses)
    assert replays(both(network(), squared_error, 2 * ENOUGH)) == 0


def test_recording_does_not_load_the_compiler():
    """Which takes seconds and 70 MB."""
    code = """
import sys, torch
from torch import nn
from maze_runtime.training.gradient_step import GradientStep

def loss(model, x):
    error = model(x).square().mean()
    return error, error.detach()[None]

step = GradientStep(nn.Linear(3, 1), loss, epsilon=1e-8, max_grad_norm=0.0, compiled=False, recorded=True)
for i in range(40):
    step(0.01, torch.full((4, 3), float(i)))
(form,) = step._recorded._forms.values()
assert form.replay is not None
assert "torch._dynamo" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory of the process is read as Linux tells it")
def test_recording_keeps_no_result_longer_than_a_plain_step_does():
    """A chain of 60 results of 4 MB, of which two are alive at a time."""
    code = """
import resource, torch
from torch import nn
from maze_runtime.training import tape
from maze_runtime.training.gradient_step import GradientStep

tape.MOST_BYTES = 1 << 30

def loss(model, x):
    with torch.no_grad():
        chain = x.repeat(1, 1000)
        for _ in range(60):
            chain = chain + 1.0
        scale = chain.mean()
    error = (model(x) * scale).square().mean()
    return error, error.detach()[None]

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

step = GradientStep(nn.Linear(1, 1), loss, epsilon=1e-8, max_grad_norm=0.0, compiled=False, recorded=True)
x = torch.ones(1000, 1)
step(0.01, x)
before = peak()
for _ in range(40):
    step(0.01, x)
(form,) = step._recorded._forms.values()
assert form.replay is not None
assert peak() - before < 80, (before, peak())
"""
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "1000000"}  # what is freed goes back at once
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
