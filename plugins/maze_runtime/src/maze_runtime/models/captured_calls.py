"""Calculations on a GPU captured once as a CUDA graph, and started as a whole from then on.

A small network's update has hundreds of kernels. Python takes longer to start each of them than the GPU to run it, so
most of the time the GPU waits. A graph of them all is started by one call. The kernels and their order are the same.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import torch
from torch import Tensor

from maze_kernel.errors import MazeWarning
from maze_runtime.models.garbage import nothing_collected
from maze_runtime.models.input_form import FormTable, tensors_in, with_tensors

MOST_FORMS = 32
"""Where inputs come in more forms than this, calculations with the others are never captured."""
_ALIGNMENT = 64
"""Bytes; any type of number may begin at a multiple of it."""


@attrs.define
class _Captured:
    """Inputs of one form: how often they came, and the graph with the tensors that it reads and writes."""

    n_calls: int = 0
    graph: Any = None
    inputs: _Inputs | None = None
    outputs: Any = None


class _Inputs:
    """Where a graph reads its inputs. Those that come from the CPU lie side by side, and are written in one transfer.

    Args:
        given: an example; the others come from the same devices.
        device: of the graph.
    """

    def __init__(self, given: Sequence[Tensor], device: torch.device) -> None:
        self._is_sent = [tensor.device.type == "cpu" for tensor in given]
        sent = [tensor for tensor, is_sent in zip(given, self._is_sent, strict=True) if is_sent]
        self._buffer, views = _side_by_side(sent, device)
        # Two, so that one can be filled while the other is under way
        self._staged = [_side_by_side(sent, torch.device("cpu"), pinned=True) for _ in range(2)]
        self._under_way: list[Any] = [torch.cuda.Event() for _ in range(2)]  # type: ignore[no-untyped-call]
        self._turn = 0
        remaining = iter(views)
        self.tensors = [
            next(remaining) if is_sent else torch.empty_like(tensor)
            for tensor, is_sent in zip(given, self._is_sent, strict=True)
        ]

    def write(self, given: Sequence[Tensor]) -> None:
        """Take the numbers of other tensors of the same form."""
        self._turn = turn = 1 - self._turn
        staged, views = self._staged[turn]
        self._under_way[turn].synchronize()
        places = iter(views)
        for own, tensor, is_sent in zip(self.tensors, given, self._is_sent, strict=True):
            (next(places) if is_sent else own).copy_(tensor)
        if views:
            self._buffer.copy_(staged, non_blocking=True)
            self._under_way[turn].record(torch.cuda.current_stream(self._buffer.device))


def _side_by_side(like: Sequence[Tensor], device: torch.device, *, pinned: bool = False) -> tuple[Tensor, list[Tensor]]:
    """Memory for tensors of these shapes and types, and the tensors in it."""
    ends = list(itertools.accumulate(-(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT for tensor in like))
    memory = torch.empty(ends[-1] if ends else 0, dtype=torch.uint8, device=device, pin_memory=pinned)
    starts = [0, *ends][: len(like)]
    return memory, [
        memory[start : start + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
        for start, tensor in zip(starts, like, strict=True)
    ]


class CapturedCalls:
    """A function of tensors, with a CUDA graph of its own for each form of its inputs.

    A function that waits for the GPU, or reads what is not there yet, cannot be captured: a warning says why, and it is
    called plainly from then on.

    Args:
        function: of tensors in nested dicts, tuples and lists, and of plain values; what it returns holds tensors
            likewise. It runs the same operations at every call with inputs of one form and reads no tensors that change
            but its inputs and those that are written in place. It may draw from torch's own random state.
        device: a GPU.
        is_fixed: asked at every call whether that is so still; after the first no nothing is captured any more.
        n_plain: so often inputs of one form come before the function is captured: libraries choose their kernels
            meanwhile, and capturing takes as long as some hundred kernels.
        what: it is called, in the warning.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        device: torch.device,
        is_fixed: Callable[[], bool],
        *,
        n_plain: int,
        what: str,
    ) -> None:
        self._function, self._device, self._is_fixed = function, device, is_fixed
        self._n_plain, self._what = n_plain, what
        self._forms = FormTable(_Captured, most=MOST_FORMS)
        self._pool: Any = None
        self._is_given_up = False

    @property
    def n_graphs(self) -> int:
        """How many forms were captured."""
        return sum(form.graph is not None for form in self._forms.values())

    def __call__(self, *inputs: Any) -> Any:
        """What the function makes of these inputs; tensors on the CPU are moved to the device.

        The next call with inputs of the same form may overwrite it.
        """
        tensors, form = self._form(inputs)
        if form is None:
            return self._plainly(inputs)
        if form.graph is None:
            form.n_calls += 1
            if form.n_calls <= self._n_plain or not self._capture(form, inputs, tensors):
                return self._plainly(inputs)
        assert form.inputs is not None
        form.inputs.write(tensors)
        form.graph.replay()
        return form.outputs

    def _form(self, inputs: Any) -> tuple[list[Tensor], _Captured | None]:
        if self._is_given_up:
            return [], None
        tensors, form = self._forms.find(inputs) if self._is_fixed() else (None, None)
        if tensors is None or any(tensor.requires_grad for tensor in tensors):
            self._give_up()
            return [], None
        return tensors, form

    def _plainly(self, inputs: Any) -> Any:
        tensors = tensors_in(inputs)
        if tensors is not None and any(tensor.device != self._device for tensor in tensors):
            inputs = with_tensors(inputs, iter([tensor.to(self._device) for tensor in tensors]))
        return self._function(*inputs)

    def _capture(self, form: _Captured, inputs: Any, tensors: list[Tensor]) -> bool:
        own = _Inputs(tensors, self._device)
        own.write(tensors)
        graph = torch.cuda.CUDAGraph()
        try:
            with _capturing(graph, self._pool, self._device):
                outputs = self._function(*with_tensors(inputs, iter(own.tensors)))
        except RuntimeError as error:
            self._give_up()
            with _capturing(torch.cuda.CUDAGraph(), None, self._device):
                pass  # torch's random state still took every draw for a part of the graph that failed
            reason = (str(_first(error)) or type(error).__name__).splitlines()[0]
            warnings.warn(
                f"{self._what} cannot be captured as one CUDA graph ({reason}); its kernels are started one by one",
                MazeWarning,
                stacklevel=2,
            )
            return False
        form.graph, form.inputs, form.outputs = graph, own, outputs
        self._pool = graph.pool()
        return True

    def _give_up(self) -> None:
        self._is_given_up = True
        self._forms.clear()


def _first(error: BaseException) -> BaseException:
    """What went wrong at first; ending the capture then fails, too."""
    return error if error.__context__ is None else _first(error.__context__)


@contextmanager
def _capturing(graph: Any, pool: Any, device: torch.device) -> Iterator[None]:
    stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    # A graph that is thrown away while another is captured spoils that
    with nothing_collected(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The CUDA Graph is empty")
        # Both, because a graph that fails leaves its own stream behind as the current one
        with torch.cuda.stream(stream), torch.cuda.graph(graph, pool, stream, "thread_local"):
            yield
