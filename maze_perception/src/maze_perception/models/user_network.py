"""A network of the user's as a block: constructed with the shapes it asks for or copied, checked on zeros."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from maze_kernel.errors import RequestError
from maze_perception.block import BlockError, PerceptionBlock, Shape, TensorDict, run_on_zeros
from maze_perception.inner_blocks import Inner, inner_blocks
from maze_perception.options import NetworkOptions


class UserNetwork(PerceptionBlock):
    """A module of the user's, called with what it understands.

    Without further word a class whose constructor takes `obs_shapes` gets a dict of tensors; another one the tensors,
    one behind the other.

    Args:
        module: the user's.
        in_shapes: observation to shape of one sample.
        out_shapes: output to shape that it must give; what it gives besides is found by a pass of zeros.
        takes_dict: how it is called.
        taken: names that nothing it gives may have, besides those of what it reads.

    Attributes:
        name: of its class.
        found_shapes: all that it gives, to the shape of one sample.
    """

    def __init__(
        self,
        module: nn.Module,
        in_shapes: Mapping[str, Shape],
        out_shapes: Mapping[str, Shape],
        takes_dict: bool,
        taken: Iterable[str] = (),
    ) -> None:
        super().__init__(tuple(in_shapes), tuple(map(self.out_key, out_shapes)), tuple(in_shapes.values()))
        self.module, self.name = module, type(module).__name__
        self._required, self._takes_dict = tuple(out_shapes), takes_dict
        self.found_shapes = self._check(out_shapes, {*self.in_keys, *taken})
        self._names = tuple(self.found_shapes)
        self.out_keys = tuple(map(self._key_of, self._names))

    @staticmethod
    def out_key(name: str) -> str:
        """The tensor that holds the output `name` that was asked for; an observation may have the same name."""
        return f"network/{name}"

    @classmethod
    def build(
        cls,
        options: NetworkOptions,
        in_shapes: Mapping[str, Shape],
        out_name: str,
        out_shapes: Mapping[str, Shape],
        *,
        taken: Iterable[str] = (),
    ) -> UserNetwork:
        """Construct or copy the user's network, imported; `out_name` is the argument that `out_shapes` is given as."""
        offered = {"obs_shapes": dict(in_shapes), out_name: dict(out_shapes)}
        make: Any = options.use
        if isinstance(make, nn.Module):
            module, takes_shapes = _copy(make, options), _accepts(type(make), "obs_shapes")
        else:
            accepted = {name: value for name, value in offered.items() if _accepts(make, name)}
            module, takes_shapes = _made(make, {**accepted, **options.kwargs}, out_name), "obs_shapes" in accepted
        takes_dict = takes_shapes if options.inputs == "auto" else options.inputs == "dict"
        return cls(module, in_shapes, out_shapes, takes_dict=takes_dict, taken=taken)

    def forward(self, inputs: TensorDict) -> TensorDict:
        """(B, ...) tensors by name to (B, ...) tensors by `out_keys`: what it gives besides keeps its name."""
        outputs = self._call(inputs)
        return dict(zip(self.out_keys, (outputs[name] for name in self._names), strict=True))

    def out_shapes(self) -> tuple[Shape, ...]:
        """Shapes of one sample, in the order of `out_keys`."""
        return tuple(self.found_shapes.values())

    def inner_blocks(self, name: str) -> Inner:
        """Its layers as they are drawn, and the shapes between them."""
        return inner_blocks(name, self, self.module)

    def _key_of(self, name: str) -> str:
        return self.out_key(name) if name in self._required else name

    def _call(self, inputs: TensorDict) -> TensorDict:
        if self._takes_dict:
            result = self.module({key: inputs[key] for key in self.in_keys})
        else:
            result = self.module(*(inputs[key] for key in self.in_keys))
        return result if isinstance(result, dict) else self._named(result)

    def _named(self, result: Any) -> TensorDict:
        tensors = (result,) if isinstance(result, Tensor) else result
        if not isinstance(tensors, (tuple, list)) or len(tensors) != len(self._required):
            raise BlockError(
                f"{self.name} gives other outputs than it was asked for",
                received=f"{len(tensors)} tensors" if isinstance(tensors, (tuple, list)) else type(result).__name__,
                expected=f"a dict, or a tensor for each of {list(self._required)}",
            )
        return dict(zip(self._required, tensors, strict=True))

    def _check(self, out_shapes: Mapping[str, Shape], taken: set[str]) -> dict[str, Shape]:
        """Shapes of everything it gives: what it must give, then the rest."""
        outputs = run_on_zeros(self.name, self.module, self._call, dict(zip(self.in_keys, self.in_shapes, strict=True)))
        for name, output in outputs.items():
            self._require_rows(name, output)
        found = {name: tuple(tensor.shape[1:]) for name, tensor in outputs.items()}
        for name, shape in out_shapes.items():
            if found.get(name) != tuple(shape):
                raise BlockError(
                    f"{self.name} gives {name!r} in the wrong shape",
                    received=f"{found[name]}" if name in found else f"only {', '.join(map(repr, found))}",
                    expected=f"{name!r} of shape {tuple(shape)} for each sample",
                    help="build the layer from the shapes that the constructor is given",
                )
        extra = {name: shape for name, shape in found.items() if name not in out_shapes}
        for name in extra:
            if name in taken:
                raise BlockError(
                    f"{self.name} gives {name!r}, which is an observation already",
                    help="return what the critic shall share under a name of its own",
                )
        return {**{name: tuple(shape) for name, shape in out_shapes.items()}, **extra}

    def _require_rows(self, name: str, output: Any) -> None:
        """Refuse what it gives for two samples where that is no tensor of two rows in single precision.

        What was not asked for may be integers.
        """
        is_tensor = isinstance(output, Tensor)
        is_counted = is_tensor and (output.dtype.is_floating_point or name in self._required)
        is_other = is_counted and output.dtype != torch.float32
        if not is_tensor or is_other or output.shape[:1] != (2,):
            raise BlockError(
                f"{self.name} gives {name!r}, which is no tensor with one row a sample",
                received=f"shape {tuple(output.shape)}, {output.dtype} for two samples of zeros"
                if is_tensor
                else type(output).__name__,
                expected=f"a tensor (B, ...) of {torch.float32}",
                help="what is averaged over the batch, or is no tensor, is left out of what forward returns",
            )


def _copy(module: nn.Module, options: NetworkOptions) -> nn.Module:
    """A copy with its weights, so that training does not change what the caller holds."""
    if options.kwargs:
        raise RequestError(
            f"kwargs are for a constructor, and {type(module).__qualname__} is constructed already",
            received=", ".join(options.kwargs),
            owner="maze-perception",
        )
    return copy.deepcopy(module)


def _made(make: Any, arguments: Mapping[str, Any], out_name: str) -> nn.Module:
    named = getattr(make, "__qualname__", None) or type(make).__qualname__
    try:
        module = make(**arguments)
    except (TypeError, KeyError, IndexError, ValueError, AttributeError) as error:
        raise RequestError(
            f"{named} cannot be constructed: {type(error).__name__}: {error}",
            received=", ".join(f"{name}={value!r}" for name, value in arguments.items()),
            owner="maze-perception",
            help="its constructor may take obs_shapes and " + out_name + "; give the rest in kwargs",
        ) from error
    if not isinstance(module, nn.Module):
        raise RequestError(
            f"{named} does not make a torch.nn.Module", received=type(module).__name__, owner="maze-perception"
        )
    return module


def _accepts(make: Any, name: str) -> bool:
    """Whether a constructor takes an argument, by name or by **kwargs."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(parameter.name == name or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
