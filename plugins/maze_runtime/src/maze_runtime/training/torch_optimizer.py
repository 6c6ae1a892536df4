"""Makes any optimiser of torch, or one of the user's, and takes its state apart, so that a resumed run is exact."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from maze_kernel.errors import RequestError
from maze_runtime.training.optimizer_options import OptimizerOptions


def torch_optimizer(options: OptimizerOptions, parameters: Sequence[nn.Parameter], owner: str) -> torch.optim.Optimizer:
    """The optimiser of these parameters; its caller sets the learning rate of its groups before each step.

    Args:
        options: which one.
        parameters: whose gradients its caller fills; none is changed here.
        owner: of the option `optimizer`, for messages.

    Raises:
        RequestError: there is none, it refuses its arguments or these parameters, or wants the loss several times.
    """
    make = options.load(owner)
    try:
        optimizer = make(list(parameters), **options.kwargs)
    except Exception as error:
        raise _refused(
            f"the optimiser {options.use!r} cannot be made: {error}",
            owner,
            received=", ".join(f"{name}={value!r}" for name, value in options.kwargs.items()) or "no arguments",
            help="its arguments stand in kwargs; the learning rate is an option of its own",
        ) from error
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise _refused(
            f"{options.use!r} makes no optimiser",
            owner,
            received=type(optimizer).__name__,
            expected="a torch.optim.Optimizer",
        )
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise _refused(
            f"the optimiser {options.use!r} asks for the loss several times a step",
            owner,
            expected="one whose step() needs no closure, such as torch.optim:AdamW",
        )
    _try_out(make, options, parameters, owner)
    return optimizer


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """What it keeps of each parameter, by the parameter's number: copies of tensors, and numbers."""
    return {str(index): _copied(own) for index, own in optimizer.state_dict()["state"].items()}


def load_optimizer_state(optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Restore what `optimizer_state` returned."""
    groups = optimizer.state_dict()["param_groups"]
    own = {int(index): _copied(values) for index, values in state.items()}
    optimizer.load_state_dict({"state": own, "param_groups": groups})


def _copied(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.detach().clone() if isinstance(value, Tensor) else value for name, value in state.items()}


def _try_out(make: Any, options: OptimizerOptions, parameters: Sequence[nn.Parameter], owner: str) -> None:
    """A step of zeros of the same shapes finds out what the class cannot do."""
    zeros = [nn.Parameter(torch.zeros_like(parameter)) for parameter in parameters]
    for parameter in zeros:
        parameter.grad = torch.zeros_like(parameter)
    try:
        make(zeros, **options.kwargs).step()
    except Exception as error:
        raise _refused(
            f"the optimiser {options.use!r} refuses to step: {type(error).__name__}: {error}",
            owner,
            help="choose one that needs dense gradients only, such as torch.optim:AdamW",
        ) from error


def _refused(what: str, owner: str, **more: Any) -> RequestError:
    return RequestError(what, option="optimizer", owner=owner, **more)
