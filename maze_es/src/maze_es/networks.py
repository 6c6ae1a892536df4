"""Stacked weights: row i of a batch of observations passes through a network with row i of the weights.

Four ways, the fastest that works for a model is taken: a trace of the `vmap`ped network as NumPy calls, the trace in
torch, the `vmap`ped network itself, one member after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from maze_es.numpy_graph import Arrays, numpy_form
from maze_es.tracing import trace_in_two
from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import ActorCritic
from maze_runtime.models.capabilities import RecurrentModel
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.recurrence import BEGINS

Function = Callable[..., tuple[Tensor, ...]]
"""(N, P) weights and (N, …) inputs to (N, …) outputs: see `MemberNetworks`."""

_SMALL_MEMBER = 50_000
"""Weights of one member below which NumPy is faster than torch."""


class MemberNetworks(Protocol):
    """Row i of the inputs through the network with row i of the weights.

    Inputs are observations and then states, outputs logits and then the states after the step; each in the order of
    names.
    """

    def load(self, weights: Tensor) -> None:
        """Take the weights (N, P), in the order of `FlatParameters`."""
        ...

    def __call__(self, inputs: Arrays) -> Arrays:
        """(N, …) inputs to (N, …) outputs."""
        ...


class InNumPy:
    """The operations of a `vmap`ped network in NumPy; what depends on weights alone is computed when they change.

    Raises:
        NotImplementedError: an operation has no NumPy form, or the network is large or not on the CPU.
    """

    def __init__(self, function: Function, weights: Tensor, example: Arrays) -> None:
        if weights.device.type != "cpu" or weights.shape[1] > _SMALL_MEMBER:
            raise NotImplementedError("torch is faster")
        self._prepare, run = trace_in_two(function, weights, _tensors(example, weights))
        self._run = numpy_form(run)

    @torch.no_grad()
    def load(self, weights: Tensor) -> None:
        """See `MemberNetworks.load`."""
        self._prepared = [np.ascontiguousarray(tensor.numpy()) for tensor in self._prepare(weights)]

    def __call__(self, inputs: Arrays) -> Arrays:
        """See `MemberNetworks`."""
        return self._run(*self._prepared, *inputs)


class Traced:
    """The same in torch."""

    def __init__(self, function: Function, weights: Tensor, example: Arrays) -> None:
        self._prepare, self._run = trace_in_two(function, weights, _tensors(example, weights))

    @torch.no_grad()
    def load(self, weights: Tensor) -> None:
        """See `MemberNetworks.load`."""
        self._weights = weights
        self._prepared = self._prepare(weights)

    @torch.no_grad()
    def __call__(self, inputs: Arrays) -> Arrays:
        """See `MemberNetworks`."""
        return _arrays(self._run(*self._prepared, *_tensors(inputs, self._weights)))


class Batched:
    """All members in one call of a `vmap`ped network."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def load(self, weights: Tensor) -> None:
        """See `MemberNetworks.load`."""
        self._weights = weights

    @torch.no_grad()
    def __call__(self, inputs: Arrays) -> Arrays:
        """See `MemberNetworks`."""
        return _arrays(self._function(self._weights, *_tensors(inputs, self._weights)))


class OneByOne:
    """One member after the other, for networks that cannot be batched; leaves the model's weights as they were."""

    def __init__(self, function: Function, flat: FlatParameters) -> None:
        self._function = function
        self._flat = flat

    def load(self, weights: Tensor) -> None:
        """See `MemberNetworks.load`."""
        self._weights = weights

    @torch.no_grad()
    def __call__(self, inputs: Arrays) -> Arrays:
        """See `MemberNetworks`."""
        center = self._flat.data.clone()
        tensors = _tensors(inputs, self._weights)
        try:
            rows = [self._row(i, tensors) for i in range(len(self._weights))]
        finally:
            self._flat.data.copy_(center)
        return _arrays(tuple(torch.cat(column) for column in zip(*rows, strict=True)))

    def _row(self, index: int, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        self._flat.data.copy_(self._weights[index])
        return self._function(*(tensor[index : index + 1] for tensor in inputs))


def choose_networks(
    model: ActorCritic,
    key: PolicyKey,
    flat: FlatParameters,
    states: Sequence[str],
    example: Arrays,
    how: str | None,
) -> tuple[str, MemberNetworks]:
    """How the networks are evaluated, and the networks; a way that fails or disagrees with one-by-one is passed over.

    Args:
        model: gives the architecture; its weights are left as they are.
        key: whose logits.
        flat: the weights of `model` that differ from member to member.
        states: names of the states that the networks of this policy key carry.
        example: inputs (N, …).
        how: "numpy", "traced", "vmap" or "one-by-one"; None: the fastest.
    """
    network = _Step(model, key, states)
    one_by_one = OneByOne(network, flat)
    # Weights unlike each other, so that a mix-up of members cannot pass.
    factors = torch.linspace(0.5, 1.5, len(example[0]), device=flat.data.device)
    weights = factors[:, None] * flat.data
    ways: dict[str, Callable[[], MemberNetworks]] = {
        "numpy": lambda: InNumPy(_stacked(network, flat), weights, example),
        "traced": lambda: Traced(_stacked(network, flat), weights, example),
        "vmap": lambda: Batched(_stacked(network, flat)),
        "one-by-one": lambda: one_by_one,
    }
    if how is not None:
        return how, ways[how]()
    one_by_one.load(weights)
    expected = one_by_one(example)
    for name in ("numpy", "traced", "vmap"):
        try:
            networks = ways[name]()
            networks.load(weights)
            agree = all(_equal(networks(example), expected) for _ in range(2))
        except Exception:  # whatever torch raises for an operation it cannot trace or batch
            continue
        if agree:
            return name, networks
    return "one-by-one", one_by_one


def _tensors(arrays: Arrays, like: Tensor) -> tuple[Tensor, ...]:
    """Tensors that share memory with the arrays where they can."""
    tensors = tuple(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays)
    return tensors if like.device.type == "cpu" else tuple(tensor.to(like.device) for tensor in tensors)


def _arrays(tensors: Sequence[Tensor]) -> Arrays:
    return tuple(tensor.cpu().numpy() for tensor in tensors)


def _equal(outputs: Arrays, expected: Arrays) -> bool:
    return all(np.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(outputs, expected, strict=True))


class _Step(nn.Module):
    """One step of a model as a forward pass of `MemberNetworks`, for one member: inputs of one row."""

    def __init__(self, model: ActorCritic, key: PolicyKey, states: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        self._key = key
        self._states = tuple(states)
        self._names = (*model.spaces.observation[key].spaces, *self._states)
        self._heads = tuple(model.distributions[key].heads)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        named = dict(zip(self._names, inputs, strict=True))
        if not self._states:
            logits = self.model.logits(self._key, named)
            return tuple(logits[head] for head in self._heads)
        # States are zero where an episode begins, so no step has to be told that one does.
        named[BEGINS] = torch.zeros(1, device=named[self._states[0]].device)
        logits, _, after = cast(RecurrentModel, self.model).advance(self._key, named, with_value=False)
        return (*(logits[head] for head in self._heads), *(after[name] for name in self._states))


def _stacked(network: _Step, flat: FlatParameters) -> Function:
    """The network as a function of stacked weights."""
    trained = {id(parameter) for parameter in flat.parameters}
    names = [name for name, parameter in network.named_parameters() if id(parameter) in trained]

    def one(weights: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        parameters = dict(zip(names, flat.split(weights), strict=True))
        outputs = functional_call(network, parameters, tuple(tensor.unsqueeze(0) for tensor in inputs))
        return tuple(tensor.squeeze(0) for tensor in outputs)

    stacked: Function = vmap(one)
    return stacked
