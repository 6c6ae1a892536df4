"""Captured calculations: the numbers of plain ones, and plain calls where a capture could go wrong."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from maze_runtime.models import captured_calls
from maze_runtime.models.captured_calls import CapturedCalls
from maze_runtime.models.device_constants import DeviceConstants

N_PLAIN = 4
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


class WrittenDown(TorchDispatchMode):
    """A graph on the CPU: the operations that run while it is entered, to be run again on the same memory.

    What they write to in place is as before after that: what is captured does not happen.
    """

    def __init__(self):
        super().__init__()
        self._operations, self._before = [], []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        before = args[0].clone()
        result = function(*args, **(kwargs or {}))
        if result is args[0]:
            self._before.append((result, before))
        self._operations.append((function, args, kwargs or {}, result))
        return result

    def __exit__(self, *error):
        super().__exit__(*error)
        for tensor, before in reversed(self._before):
            tensor.copy_(before)

    def replay(self):
        for function, args, kwargs, result in self._operations:
            again = function(*args, **kwargs)
            if again is not result:
                result.copy_(again)

    def pool(self):
        return None


class Event:
    def synchronize(self):
        pass

    def record(self, stream):
        pass


@pytest.fixture(params=["pretended", pytest.param("gpu", marks=on_a_gpu)])
def make_calls(request, monkeypatch):
    """Captured calls on a GPU, and on the CPU, where graphs are pretended."""
    device = torch.device("cuda", 0)
    if request.param == "pretended":
        device, lay = torch.device("cpu"), captured_calls._side_by_side
        monkeypatch.setattr(torch.cuda, "CUDAGraph", WrittenDown)
        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
        monkeypatch.setattr(captured_calls, "_capturing", lambda graph, pool, device: graph)
        monkeypatch.setattr(captured_calls, "_side_by_side", lambda like, device, pinned=False: lay(like, device))

    def make(function, is_fixed=lambda: True):
        return CapturedCalls(function, device, is_fixed, n_plain=N_PLAIN, what="a calculation")

    return make


def nested(seed, n=4, name="x"):
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(n, 3, generator=generator)}, (torch.rand(n, generator=generator), 2.0)


def calculation(named, pair):
    rows = next(iter(named.values()))
    return {"sum": (rows * pair[0][:, None] * pair[1]).sum(1)}


def test_constants_are_copied_once_to_each_device():
    constants = DeviceConstants([torch.arange(3), torch.ones(2)])
    first, second = (constants.on(torch.device("meta")) for _ in range(2))
    assert first[0] is second[0]
    assert first[0].device.type == "meta"
    (index, _) = constants.on(torch.device("cpu"))
    assert index.tolist() == [0, 1, 2]
    assert len(constants.__getstate__()["_copies"]) == 1


def test_a_graph_gives_what_plain_calls_give(make_calls):
    calls = make_calls(calculation)
    for i in range(3 * N_PLAIN):
        n = 4 + i % 2
        found = calls(*nested(i, n))["sum"].cpu()
        torch.testing.assert_close(found, calculation(*nested(i, n))["sum"])
    assert calls.n_graphs == 2


def test_a_graph_writes_to_what_the_function_writes_to(make_calls):
    total = torch.zeros(3)

    def add(x):
        total.add_(x.to(total.dtype))
        return total * 2.0

    calls = make_calls(add)
    if calls._device.type == "cuda":
        total = total.to(calls._device)
    for i in range(2 * N_PLAIN):
        assert calls(torch.full((3,), i)).tolist() == [i * (i + 1.0)] * 3
    assert calls.n_graphs == 1


def test_nothing_is_captured_before_inputs_came_often(make_calls):
    called = []
    calls = make_calls(lambda x: called.append(len(x)) or x + 1.0)
    for _ in range(N_PLAIN):
        calls(torch.zeros(2))
    assert calls.n_graphs == 0
    for _ in range(3):
        calls(torch.zeros(2))
    assert calls.n_graphs == 1
    assert len(called) == N_PLAIN + 1


def test_nothing_is_captured_once_the_operations_may_change(make_calls):
    fixed = [True]
    calls = make_calls(lambda x: 2.0 * x, lambda: fixed[0])
    for _ in range(N_PLAIN + 1):
        calls(torch.ones(2))
    assert calls.n_graphs == 1
    fixed[0] = False
    assert calls(torch.ones(2)).tolist() == [2.0, 2.0]
    assert calls.n_graphs == 0


def test_what_has_no_form_is_called_plainly(make_calls):
    calls = make_calls(lambda x, other: x + len(other))
    for _ in range(N_PLAIN + 2):
        assert calls(torch.zeros(1), {1, 2}).tolist() == [2.0]
    assert calls.n_graphs == 0


def test_more_forms_than_are_captured_are_called_plainly(make_calls, monkeypatch):
    monkeypatch.setattr(captured_calls, "MOST_FORMS", 2)
    calls = make_calls(lambda x: x + 1.0)
    for _ in range(N_PLAIN + 2):
        for n in (1, 2, 3):
            assert calls(torch.zeros(n)).tolist() == [1.0] * n
    assert calls.n_graphs == 2


@on_a_gpu
class TestOnAGPU:
    device = torch.device("cuda", 0)

    def calls(self, function, is_fixed=lambda: True):
        return CapturedCalls(function, self.device, is_fixed, n_plain=N_PLAIN, what="a calculation")

    def test_it_draws_the_numbers_that_plain_calls_draw(self):
        def draw(x):
            return x + torch.randn_like(x) + torch.rand(x.shape, device=x.device)

        calls, x = self.calls(draw), torch.zeros(5, device=self.device)
        torch.cuda.manual_seed(3)
        found = [calls(x).clone() for _ in range(N_PLAIN + 5)]
        torch.cuda.manual_seed(3)
        assert all(torch.equal(one, draw(x)) for one in found)
        assert calls.n_graphs == 1
        torch.cuda.manual_seed(4)
        again = calls(x).clone()
        torch.cuda.manual_seed(4)
        assert torch.equal(again, draw(x))

    @pytest.mark.parametrize("wait", [lambda x: x.sum().item(), lambda x: torch.ones(2).to(x.device).sum()])
    @pytest.mark.parametrize("draws", [False, True])
    def test_one_that_waits_for_the_gpu_is_called_plainly_and_says_so_once(self, wait, draws):
        calls = self.calls(lambda x: x + wait(x) + (0.0 * torch.randn_like(x) if draws else 0.0))
        x = torch.arange(3.0, device=self.device)
        expected = x + wait(x)
        for _ in range(N_PLAIN):
            assert torch.equal(calls(x), expected)
        with pytest.warns(RuntimeWarning, match="a calculation cannot be captured"):
            assert torch.equal(calls(x), expected)
        for _ in range(3):
            assert torch.equal(calls(x), expected)
        assert calls.n_graphs == 0
        # What failed leaves nothing behind: others can still be captured, and draw
        other = self.calls(lambda x: x + torch.rand_like(x))
        for _ in range(N_PLAIN + 2):
            assert bool((other(x) >= x).all())
        assert other.n_graphs == 1
