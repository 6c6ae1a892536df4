"""A loss and its gradient recorded once, as the tensor operations that they come down to, and run again as these.

Eager training of small networks spends more time between the operations than in them: in Python, and on the graph that
the backward pass is taken from. A gradient step of A2C on CartPole has 150 operations, which take a third of its time.
They are the same at every step, so they are written down once, forward and backward in one row, and then run one behind
the other without all that. The kernels and their order are the same, so the numbers are, too, bit for bit.

Nothing is compiled: a recording takes less than a tenth of a second.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.same_operations import hooks_of, model_runs_same_operations

Loss = Callable[..., tuple[Tensor, Tensor]]
Replay = Callable[..., Tensor]
"""`(gradient (P,), *tensors) -> statistics (S,)`; writes to the first one."""

N_PLAIN = 20
"""So often inputs of one form come before their gradient is recorded: short runs never wait for it."""
N_COMPARED = 3
"""So many steps a recording is compared with the gradient itself before it takes its place."""
MOST_FORMS = 32
"""Where inputs come in more forms than this, the others are never recorded."""
MOST_OPERATIONS = 3000
"""Longer ones are not recorded either."""
MOST_BYTES = 1 << 19
"""Operations whose results are larger than this in the mean take so long that a recording would save nothing."""

_SAME_TENSOR = {torch.ops.aten.detach.default, torch.ops.aten.alias.default}
_REFUSED = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
_PLAIN_VALUES = (str, int, float, bool, type(None), torch.dtype)


@attrs.define
class _Form:
    """Inputs of one form: how often they came, and their recording, first to be compared and then to be run."""

    n_steps: int = 0
    candidate: Replay | None = None
    replay: Replay | None = None


class RecordedGradient:
    """Gradients of one loss of one model, with a recording of its own for each form of the inputs.

    The form is everything but the numbers in tensors: their shapes, strides and types, and what is no tensor.

    Args:
        model: its parameters are views of `flat`.
        loss: `(model, *inputs) -> (loss (), statistics (S,))`, by the same operations at every call, as its model is
            marked to do (`same_operations`). It reads no tensors that change but the networks' and its inputs.
        flat: receives the gradient.
        beside: networks that the loss reads beside the model: target networks.
        draws: the loss draws from torch's own random state; the recording draws the same numbers in the same order.

    Attributes:
        is_given_up: nothing will ever be recorded: on a GPU, for other models, for inputs without a form.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        flat: FlatParameters,
        *,
        beside: Sequence[nn.Module] = (),
        draws: bool = False,
    ) -> None:
        self._model, self._loss, self._flat, self._draws = model, loss, flat, draws
        networks = (model, *beside)
        tensors = [tensor for one in networks for tensor in (*one.parameters(), *one.buffers())]
        self._tensors = list({id(tensor): tensor for tensor in tensors}.values())
        self._views = [tensor.detach() for tensor in self._tensors]
        self._hooks = [hooks for one in networks for hooks in hooks_of(one)]
        self._forms: dict[tuple[Any, ...], _Form] = {}
        self.is_given_up = flat.data.device.type != "cpu" or not all(map(model_runs_same_operations, networks))

    def __call__(self, *inputs: Any) -> Tensor | None:
        """Write the gradient to `flat.grad`; returns the statistics (S,), or None where it has to be taken plainly."""
        if self._was_changed():
            self.is_given_up = True
            return None
        tensors: list[Tensor] = []
        form = self._form_of(inputs, tensors)
        if form is None:
            return None
        if form.replay is not None:
            return self._run(form.replay, self._flat.grad, tensors)
        form.n_steps += 1
        if form.n_steps == N_PLAIN + 1:
            return self._record(form, inputs, tensors)
        return None if form.candidate is None else self._compare(form, form.candidate, inputs, tensors)

    def take(self, *inputs: Any) -> Tensor:
        """The same, and plainly where that gives None."""
        statistics = None if self.is_given_up else self(*inputs)
        if statistics is None:
            self._flat.grad.zero_()
            loss, statistics = self._loss(self._model, *inputs)
            loss.backward(inputs=self._flat.parameters)  # type: ignore[no-untyped-call]
        return statistics

    def _was_changed(self) -> bool:
        """Whether somebody hung hooks on the model, or froze a part of it, since it was made."""
        parameters = self._flat.parameters
        return any(self._hooks) or any(
            [not parameter.requires_grad or parameter._backward_hooks for parameter in parameters]  # noqa: C419 - faster
        )

    def _form_of(self, inputs: Sequence[Any], tensors: list[Tensor]) -> _Form | None:
        described: list[Any] = []
        if not _describe(inputs, described, tensors):
            self.is_given_up = True
            return None
        key = tuple(described)
        form = self._forms.get(key)
        if form is None and len(self._forms) < MOST_FORMS:
            form = self._forms[key] = _Form()
        return form

    def _record(self, form: _Form, inputs: Sequence[Any], tensors: list[Tensor]) -> Tensor:
        tape = _Tape([*self._tensors, *tensors], draws=self._draws)
        with tape:
            gradients, statistics = self._plain(inputs)
        self._write(gradients)
        with torch.random.fork_rng(devices=[]):
            scratch = torch.empty_like(self._flat.grad)
            form.candidate = tape.replay(gradients, statistics, [scratch, *self._views, *tensors])
        return statistics

    def _compare(self, form: _Form, candidate: Replay, inputs: Sequence[Any], tensors: list[Tensor]) -> Tensor:
        """Take the gradient plainly, and see whether the recording gives the same, bit for bit."""
        drawn_from = torch.get_rng_state()
        gradients, statistics = self._plain(inputs)
        self._write(gradients)
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(drawn_from)
            is_same = self._is_same(candidate, tensors, statistics)
        if not is_same:
            form.candidate = None
        elif form.n_steps == N_PLAIN + 1 + N_COMPARED:
            form.replay, form.candidate = candidate, None
        return statistics

    def _is_same(self, candidate: Replay, tensors: list[Tensor], statistics: Tensor) -> bool:
        gradient = torch.empty_like(self._flat.grad)
        try:
            recorded = self._run(candidate, gradient, tensors)
        except RuntimeError:
            return False
        return torch.equal(gradient, self._flat.grad) and torch.equal(recorded, statistics)

    def _run(self, replay: Replay, gradient: Tensor, tensors: list[Tensor]) -> Tensor:
        # As it was written down: torch would join products of matrices whose sum is taken, which rounds otherwise
        with torch.jit.optimized_execution(False), torch.inference_mode():  # type: ignore[attr-defined]
            return replay(gradient, *self._views, *tensors)

    def _plain(self, inputs: Sequence[Any]) -> tuple[list[Tensor], Tensor]:
        loss, statistics = self._loss(self._model, *inputs)
        gradients = torch.autograd.grad(loss, self._flat.parameters, allow_unused=True, materialize_grads=True)
        return list(gradients), statistics

    def _write(self, gradients: Sequence[Tensor]) -> None:
        torch.cat([gradient.reshape(-1) for gradient in gradients], out=self._flat.grad)


def _describe(value: Any, form: list[Any], tensors: list[Tensor]) -> bool:
    """Append the form of a value, and the tensors in it; False where it holds something that has no form."""
    if isinstance(value, Tensor):
        tensors.append(value)
        form.append((value.shape, value.stride(), value.dtype, value.requires_grad))
        return True
    if isinstance(value, _PLAIN_VALUES):
        form.append(value)
        return True
    if isinstance(value, dict):
        form.append(tuple(value))
        return all(_describe(own, form, tensors) for own in value.values())
    if isinstance(value, (tuple, list)):
        form.append((type(value), len(value)))
        return all(_describe(own, form, tensors) for own in value)
    return False


@attrs.frozen
class _Slot:
    """Stands for a tensor in the arguments of a recorded operation."""

    index: int


class _Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down the operations that run while it is entered, and keeps none of their results alive.

    Args:
        inputs: tensors that differ from one run to the next, in slots 0, 1, …
        draws: operations may draw random numbers.
    """

    def __init__(self, inputs: Sequence[Tensor], *, draws: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._refused = _REFUSED if draws else _REFUSED | {torch.Tag.nondeterministic_seeded}
        self._operations: list[tuple[Any, Any, Any, Any]] = []
        self._slots: Any = WeakTensorKeyDictionary()
        self._n_slots = self._n_bytes = 0
        self._constants: dict[int, Tensor] = {}
        self._is_refused = False
        for tensor in inputs:
            self._add(tensor)
        self._memory_of_inputs = {_memory_of(tensor) for tensor in inputs}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here; otherwise torch loads its whole compiler first, which takes seconds."""
        return False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self._is_refused |= any(tag in function.tags for tag in self._refused) or self._writes_to_input(function, args)
        read = self._written_down(args), self._written_down(kwargs)
        result = function(*args, **kwargs)
        for tensor in _tensors_in(result):
            if tensor not in self._slots:
                self._add(tensor)
                self._n_bytes += tensor.nbytes
        self._operations.append((function, *read, self._written_down(result)))
        return result

    def replay(self, gradients: Sequence[Tensor], statistics: Tensor, inputs: Sequence[Tensor]) -> Replay | None:
        """What was recorded as one function of a gradient to be written and the inputs, which are examples of these.

        None where it depends on more than their form, and where it would not pay.
        """
        known = all(tensor in self._slots for tensor in (*gradients, statistics))
        n_operations = len(self._operations)
        pays = n_operations <= MOST_OPERATIONS and self._n_bytes <= MOST_BYTES * n_operations
        if self._is_refused or not known or not pays:
            return None
        slots = [self._slots[tensor] for tensor in gradients]
        operations, constants, last = self._operations, self._constants, self._slots[statistics]
        spent = _spent(operations, {*slots, last})

        def run(gradient: Tensor, *tensors: Tensor) -> Tensor:
            values: dict[int, Any] = {**dict(enumerate(tensors)), **constants}
            for (function, args, kwargs, written), read_last in zip(operations, spent, strict=True):
                if function in _SAME_TENSOR:
                    _keep(written, _read(args[0], values), values)
                else:
                    _keep(written, function(*_read(args, values), **_read(kwargs, values)), values)
                for slot in read_last:
                    del values[slot]
            torch.cat([values[slot].reshape(-1) for slot in slots], out=gradient)
            result: Tensor = values[last]
            return result

        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # that tracing goes out of use
            try:
                trace: Any = torch.jit.trace
                traced: Replay = trace(run, tuple(inputs), check_trace=False)
            except Exception:  # whatever torch's tracing refuses is trained plainly
                return None
        return None if traced is run else traced  # where the user has switched tracing off

    def _add(self, tensor: Tensor) -> int:
        slot = self._slots[tensor] = self._n_slots
        self._n_slots += 1
        return slot

    def _slot_of(self, tensor: Tensor) -> _Slot:
        slot: int | None = self._slots.get(tensor)
        if slot is None:  # made outside: a constant, unless it is another view of something that changes, or a weight
            memory = {_memory_of(own) for own in self._slots.keys()}  # noqa: SIM118 - no mapping of the standard library
            self._is_refused |= _memory_of(tensor) in memory or isinstance(tensor, nn.Parameter)
            slot = self._add(tensor)
            self._constants[slot] = tensor
        return _Slot(slot)

    def _written_down(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._slot_of(value)
        if isinstance(value, (list, tuple)):
            return [self._written_down(own) for own in value]
        return {name: self._written_down(own) for name, own in value.items()} if isinstance(value, dict) else value

    def _writes_to_input(self, function: Any, args: Sequence[Any]) -> bool:
        arguments = function._schema.arguments
        written = [
            value
            for argument, value in zip(arguments, args, strict=False)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        return any(_memory_of(tensor) in self._memory_of_inputs for tensor in _tensors_in(written))


def _memory_of(tensor: Tensor) -> int:
    """Where the numbers of a tensor lie; the same for all views of them."""
    return tensor.untyped_storage().data_ptr() or -id(tensor)


def _tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [tensor for own in value for tensor in _tensors_in(own)] if isinstance(value, (list, tuple)) else []


def _read(value: Any, values: dict[int, Tensor]) -> Any:
    """Arguments as they were written down, with the tensors of this run in them."""
    if isinstance(value, _Slot):
        return values[value.index]
    if isinstance(value, list):
        return [_read(own, values) for own in value]
    return {name: _read(own, values) for name, own in value.items()} if isinstance(value, dict) else value


def _spent(operations: Sequence[tuple[Any, Any, Any, Any]], needed: set[int]) -> list[list[int]]:
    """For each operation the slots that nothing reads after it, but for those that are needed in the end."""
    seen, spent = set(needed), []
    for operation in reversed(operations):
        used = {slot.index for slot in _slots_in(operation)}
        spent.append(sorted(used - seen))
        seen |= used
    return spent[::-1]


def _slots_in(value: Any) -> Iterator[_Slot]:
    if isinstance(value, _Slot):
        yield value
    elif isinstance(value, (list, tuple)):
        for own in value:
            yield from _slots_in(own)
    elif isinstance(value, dict):
        yield from _slots_in(list(value.values()))


def _keep(written: Any, result: Any, values: dict[int, Tensor]) -> None:
    if isinstance(written, _Slot):
        values[written.index] = result
    elif isinstance(written, list):
        for own, part in zip(written, result, strict=True):
            _keep(own, part, values)
