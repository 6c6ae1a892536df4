"""A loss and its gradient recorded once, as the tensor operations that they come down to, and run again as these.

Eager training of small networks spends more time between the operations than in them: in Python, and on the graph that
the backward pass is taken from. A gradient step of A2C on CartPole has 150 operations, which take a third of its time.
They are the same at every step, so they are written down once, forward and backward in one row, and then run one behind
the other without all that. The kernels and their order are the same, so the numbers are, too, bit for bit.

Nothing is compiled: a recording takes less than a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import torch
from torch import Tensor, nn

from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.input_form import FormTable
from maze_runtime.models.same_operations import FixedOperations
from maze_runtime.training.tape import Replay, Tape

Loss = Callable[..., tuple[Tensor, Tensor]]

N_PLAIN = 20
"""So often inputs of one form come before their gradient is recorded: short runs never wait for it."""
N_COMPARED = 3
"""So many steps a recording is compared with the gradient itself before it takes its place."""
MOST_FORMS = 32
"""Where inputs come in more forms than this, the others are never recorded."""


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
        self._operations = FixedOperations(networks, flat.parameters)
        self._forms = FormTable(_Form, most=MOST_FORMS)
        self.is_given_up = flat.data.device.type != "cpu" or not self._operations.are_marked

    def __call__(self, *inputs: Any) -> Tensor | None:
        """Write the gradient to `flat.grad`; returns the statistics (S,), or None where it has to be taken plainly."""
        if self._operations.were_changed():
            self.is_given_up = True
            return None
        tensors, form = self._forms.find(inputs)
        if tensors is None:
            self.is_given_up = True
        if tensors is None or form is None:
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

    def _record(self, form: _Form, inputs: Sequence[Any], tensors: list[Tensor]) -> Tensor:
        tape = Tape(self._tensors, tensors, draws=self._draws)
        with tape:
            gradients, statistics = self._plain(inputs)
        self._write(gradients)
        with torch.random.fork_rng(devices=[]):
            form.candidate = tape.replay(gradients, statistics, self._views, tensors)
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
            return replay(gradient, *tensors)

    def _plain(self, inputs: Sequence[Any]) -> tuple[list[Tensor], Tensor]:
        loss, statistics = self._loss(self._model, *inputs)
        gradients = torch.autograd.grad(loss, self._flat.parameters, allow_unused=True, materialize_grads=True)
        return list(gradients), statistics

    def _write(self, gradients: Sequence[Tensor]) -> None:
        torch.cat([gradient.reshape(-1) for gradient in gradients], out=self._flat.grad)
