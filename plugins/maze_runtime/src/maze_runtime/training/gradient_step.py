"""One optimiser step on flat parameters, eager or compiled: loss, backward, non-finite guard, clipping, Adam."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value

from maze_kernel.errors import RequestError
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.training.bounded_compilation import BoundedCompilation
from maze_runtime.training.captured_update import captured_update
from maze_runtime.training.compiled_update import compile_update
from maze_runtime.training.flat_adam import AdamState, FlatAdam
from maze_runtime.training.gradient_norms import GradientNorms
from maze_runtime.training.recorded_gradient import RecordedGradient
from maze_runtime.training.subnormal_numbers import subnormal_numbers_are_zero

LossFunction = Callable[..., tuple[Tensor, Tensor]]
"""`(model, *tensors) -> (loss (), statistics (S,))`."""


_OF_BATCH_NORM = "more than 1 value per channel when training"
"""What torch says of a batch that cannot be normalised."""


class _Loss(nn.Module):
    """A loss as a module, so that `functional_call` can swap the parameters of the model in it."""

    def __init__(self, model: nn.Module, loss: LossFunction) -> None:
        super().__init__()
        self.model = model
        self._loss = loss

    def forward(self, *inputs: Any) -> tuple[Tensor, Tensor]:
        return self._loss(self.model, *inputs)


class GradientStep:
    """Adam on the parameters of a model as one flat vector.

    A gradient with NaN or infinity leaves weights and moments as they were and is reported in the norm: nothing
    non-finite ever reaches a weight.

    Args:
        model: trained; its parameters become views of one buffer.
        loss: `(model, *inputs) -> (loss, statistics)`.
        epsilon: of Adam.
        max_grad_norm: 0: off.
        compiled: compile everything into one function; the first call takes a while. An update that is too large, or
            that the compiler refuses, is run eagerly, with a warning that says why. Modules with a method
            `prepare_for_compilation()` are told before.
        parameters: those of the model that are trained, for several optimisers on one model or to leave a part alone;
            None: all that need a gradient. The loss sees the others as constants.
        norms_of: parts of these by the names of their gradient norms, which every step returns as well.
        recorded: the loss runs the same operations at every call and reads no tensors that change but the model's, its
            inputs and those of the networks that `also_reads` names, so that eager steps may run a recording of it, or
            on a GPU the graph that was captured of it.

    Attributes:
        norms: the names of what a step returns behind the loss function's statistics.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: LossFunction,
        *,
        epsilon: float,
        max_grad_norm: float,
        compiled: bool,
        parameters: Iterable[nn.Parameter] | None = None,
        norms_of: Mapping[str, Iterable[nn.Parameter]] | None = None,
        recorded: bool = False,
    ) -> None:
        self.flat = FlatParameters(model, parameters)
        self._part_norms = GradientNorms(self.flat, norms_of or {})
        self.norms = ("grad_norm", *self._part_norms.names)
        self.adam = FlatAdam(self.flat, epsilon=epsilon, max_grad_norm=max_grad_norm)
        self._inputs = None if parameters is None else self.flat.parameters
        self._compilation = BoundedCompilation() if compiled else None
        for module in model.modules() if compiled else ():
            if hasattr(module, "prepare_for_compilation"):
                module.prepare_for_compilation()  # type: ignore[operator]
        self._loss = loss
        self._model = model
        self._recorded = RecordedGradient(model, loss, self.flat) if recorded else None
        self._learning_rate = math.nan
        self._held: list[tuple[slice, Tensor]] = []
        run = self._compiled_step() if compiled else self._eager_step
        self._run = captured_update(run, [model], [self.flat], self._compilation, recorded=recorded)

    def also_reads(self, network: nn.Module) -> None:
        """Let recordings follow a network that the loss reads beside the model; to be called before the first step."""
        if self._recorded is not None:
            self._recorded = RecordedGradient(self._model, self._loss, self.flat, beside=[network])

    def __call__(self, learning_rate: float, *inputs: Any) -> Tensor:
        """Take one step; returns the loss function's statistics, the gradient norm and those of its parts.

        (S + len(norms),)

        Raises:
            RequestError: a layer normalises by its batch, and that is a single decision.
        """
        if learning_rate != self._learning_rate:
            self._learning_rate = learning_rate
            self.adam.learning_rate.fill_(learning_rate)
        try:
            with subnormal_numbers_are_zero():
                statistics = self._run(*inputs)
        except ValueError as error:
            if _OF_BATCH_NORM in str(error):
                raise _single_decision(error) from error
            raise
        for part, weights in self._held:
            self.flat.data[part].copy_(weights)
        return statistics

    def _eager_step(self, *inputs: Any) -> Tensor:
        statistics = self._recorded_statistics(inputs)
        if statistics is None:
            self.flat.grad.zero_()
            loss, statistics = self._loss(self._model, *inputs)
            loss.backward(inputs=self._inputs)  # type: ignore[no-untyped-call]
        of_parts = self._part_norms()
        return torch.cat([statistics, torch.stack([self.adam.step(), *of_parts])])

    def _recorded_statistics(self, inputs: Sequence[Any]) -> Tensor | None:
        if self._recorded is None or self._recorded.is_given_up:
            return None
        return self._recorded(*inputs)

    def _compiled_step(self) -> Callable[..., Tensor]:
        step: Callable[..., Tensor] = compile_update(_functional_step(self), self.flat)

        def run(*inputs: Any) -> Tensor:
            assert self._compilation is not None
            return self._compilation(
                lambda: step(self.adam.tensors(), *inputs),
                lambda: self._eager_step(*inputs),
                lambda: self._differentiate(*inputs),
            )

        return run

    def _differentiate(self, *inputs: Any) -> None:
        """Loss and gradient of a copy, so that no buffer of the model changes either."""
        model = copy.deepcopy(self._model)
        loss, _ = self._loss(model, *inputs)
        torch.autograd.grad(loss, [own for own in model.parameters() if own.requires_grad], allow_unused=True)

    def phase(self) -> str:
        """What the next step will spend its time on: "compile" or "update"."""
        return "update" if self._compilation is None or self._compilation.is_settled else "compile"

    def take_compile_seconds(self) -> float:
        """Seconds spent compiling since the last call."""
        if self._compilation is None:
            return 0.0
        seconds, self._compilation.seconds = self._compilation.seconds, 0.0
        return seconds

    def hold(self, parameters: Iterable[nn.Parameter]) -> None:
        """Leave these as they are from the next step on, and all others to the steps again."""
        self._held = [(part, self.flat.data[part].clone()) for part in self.flat.slices_of(parameters)]

    def begin_anew(self) -> None:
        """Let Adam forget its moments and step count, because the loss is another one from now on."""
        self.adam.begin_anew()

    def state_dict(self) -> dict[str, Any]:
        """Moments and step count, copies."""
        return self.adam.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.adam.load_state_dict(state)


def _single_decision(error: ValueError) -> RequestError:
    return RequestError(
        "a network normalises by its batch, as BatchNorm does, and a gradient step has a single decision for it",
        received=str(error),
        expected="two decisions or more in every gradient step",
        help="collect more of them for a step (vector.n_envs, trainer.n_rollout_steps or trainer.batch_size), "
        "or use LayerNorm",
    )


def _functional_step(step: GradientStep) -> Callable[..., Tensor]:
    module = _Loss(step._model, step._loss)
    trained = {id(parameter) for parameter in step.flat.parameters}
    named = dict(step._model.named_parameters())
    names = [f"model.{name}" for name, parameter in named.items() if id(parameter) in trained]
    constants = {f"model.{name}": parameter for name, parameter in named.items() if id(parameter) not in trained}
    split, update = step.flat.split, step.adam.functional()

    def run(state: AdamState, *inputs: Any) -> Tensor:
        def loss(parameters: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
            others = {name: parameter.detach() for name, parameter in constants.items()}
            together = {**others, **dict(zip(names, parameters, strict=True))}
            result: tuple[Tensor, Tensor] = functional_call(module, together, inputs)
            return result

        gradients, (_, statistics) = grad_and_value(loss, has_aux=True)(tuple(split(state[0])))
        gradient = torch.cat([part.reshape(-1) for part in gradients])
        norm = update(*state, gradient)
        return torch.cat([statistics, torch.stack([norm, *step._part_norms(gradient)])])

    return run
