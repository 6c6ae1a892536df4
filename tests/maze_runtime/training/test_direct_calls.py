"""Code of torch's compiler that is called without it, beside the function itself."""

import weakref

import pytest
import torch
from torch import nn

from maze_runtime.training import direct_calls
from maze_runtime.training.direct_calls import DirectCalls
from maze_runtime.training.gradient_step import GradientStep


class Watched(DirectCalls):
    """Counts calls that go through the compiler; the code is the graph as it was written down."""

    def __init__(self, function):
        self.n_by_compiler = 0
        super().__init__(
            lambda backend: self._count(torch.compile(function, fullgraph=True, backend=backend)), graph_as_is
        )

    def _count(self, compiled):
        def run(*inputs):
            self.n_by_compiler += 1
            return compiled(*inputs)

        return run


def graph_as_is(graph, examples):
    return graph.forward


@pytest.fixture(autouse=True)
def forget_compiled_code():
    yield
    torch._dynamo.reset()


def inputs(seed, n=5):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(n, 3, generator=generator)}, (torch.randn(n, generator=generator), 2.0)


def test_direct_calls_give_what_the_function_gives_and_change_what_it_changes():
    layer = nn.Linear(3, 1)

    def function(state, named, pair):
        result = (layer(named["x"])[:, 0] * pair[0] * pair[1] + state).sum()
        state.add_(result)
        return torch.stack([result, result.square()])

    state, alone = torch.zeros(()), torch.zeros(())
    with torch.no_grad():
        calls = Watched(function)
        for i in range(6):
            layer.weight.fill_(0.1 * i)  # read where it is, not as it was
            assert torch.equal(calls(state, *inputs(i)), function(alone, *inputs(i)))
            assert torch.equal(state, alone)
    assert calls.n_by_compiler == 1


def test_each_form_goes_through_the_compiler_once():
    calls = Watched(lambda named, pair: (named["x"].sum(1) * pair[0] * pair[1]).sum())
    for i in range(4):
        for n in (5, 7, 2):
            named, pair = inputs(i, n)
            torch.testing.assert_close(calls(named, pair), (named["x"].sum(1) * pair[0] * 2.0).sum())
    assert calls.n_by_compiler == 3


def test_another_number_that_is_no_tensor_is_another_form():
    calls = Watched(lambda x, y, factor: (x * factor + y).sum())
    results = [float(calls(torch.ones(3), torch.zeros(3), factor)) for factor in (1, 2, 3, 1, 2, 3)]
    assert results == [3.0, 6.0, 9.0, 3.0, 6.0, 9.0]
    assert calls.n_by_compiler == 3


def test_more_forms_than_are_kept_stay_with_the_compiler(monkeypatch):
    monkeypatch.setattr(direct_calls, "MOST_FORMS", 1)
    calls = Watched(lambda x, y: (x + y).sum())
    for _ in range(3):
        for n in (2, 3):
            assert calls(torch.ones(n), torch.zeros(n)) == n
    assert calls.n_by_compiler == 1 + 3


def test_one_tensor_in_two_places_stays_with_the_compiler():
    calls = Watched(lambda x, y: (x * 2.0 + y).sum())
    one, other = torch.ones(3), torch.zeros(3)
    assert [float(calls(one, one)) for _ in range(2)] == [9.0, 9.0]
    assert float(calls(one, other)) == 6.0
    assert float(calls(other, one)) == 3.0


def test_a_function_that_leaves_tensors_elsewhere_stays_with_the_compiler():
    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x):
            self.mean = 0.5 * self.mean + 0.5 * x.mean(0)  # a new tensor at every call
            return (x - self.mean).sum()

    module, alone = Mean(), Mean()
    calls = Watched(lambda x: module(x))
    for i in range(4):
        x = inputs(i)[0]["x"]
        assert torch.equal(calls(x), alone(x))
        assert torch.equal(module.mean, alone.mean)
    assert calls.n_by_compiler == 4


def test_inputs_without_a_form_stay_with_the_compiler():
    class Scale:
        factor = 3.0

    calls = Watched(lambda x, scale: (x * scale.factor).sum())
    assert [float(calls(torch.ones(2), Scale())) for _ in range(3)] == [6.0] * 3
    assert calls.n_by_compiler == 3


def test_an_error_leaves_the_next_calls_as_they_are():
    calls = Watched(lambda x, y: (x @ y).sum())
    with pytest.raises(Exception, match=r"size|shape"):
        calls(torch.ones(2, 3), torch.ones(2, 3))
    for _ in range(2):
        assert calls(torch.ones(2, 3), torch.ones(3, 2)) == 12.0
        with pytest.raises(Exception, match=r"size|shape"):
            calls(torch.ones(2, 3), torch.ones(2, 3))


def test_inputs_are_not_held():
    calls = Watched(lambda x, y: (x + y).sum())
    gone = []
    for _ in range(3):
        x = torch.ones(3)
        calls(x, torch.zeros(3))
        gone.append(weakref.ref(x))
        del x
    assert all(one() is None for one in gone[1:])
    assert gone[0]() is None


@pytest.mark.slow
@pytest.mark.parametrize("n_sizes", [1, 2])
def test_compiled_gradient_steps_are_the_same_numbers_directly_and_by_the_compiler(n_sizes, monkeypatch):
    """With two sizes to the last place: the compiler may take the code that was made for the second for the first."""

    def train(n_steps=6):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        step = GradientStep(model, squared_error, epsilon=1e-8, max_grad_norm=0.5, compiled=True)
        generator = torch.Generator().manual_seed(1)
        batches = [torch.randn(7 + i % n_sizes, 4, generator=generator) for i in range(n_steps)]
        numbers = [step(1e-2, batch[:, :3].contiguous(), batch[:, 3].contiguous()) for batch in batches]
        return torch.cat([*numbers, step.flat.data])

    def squared_error(model, x, y):
        loss = (model(x)[:, 0] - y).square().mean()
        return loss, loss.detach().reshape(1)

    made = []
    plain = direct_calls._direct_call
    monkeypatch.setattr(direct_calls, "_direct_call", lambda *given: made.append(plain(*given)) or made[-1])
    directly = train()
    assert len(made) == n_sizes
    assert None not in made
    monkeypatch.setattr(direct_calls, "_direct_call", lambda *_: None)
    by_the_compiler = train()
    torch.testing.assert_close(directly, by_the_compiler)
    assert n_sizes > 1 or torch.equal(directly, by_the_compiler)
