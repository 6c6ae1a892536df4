"""Conformance of perception blocks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from maze_testing.conformance import change_parameters, require, same


def check_block(factory: Callable[[], Any], *, leading: tuple[tuple[int, ...], ...] = ((1,), (5,), (3, 4))) -> None:
    """Shapes are as announced under any leading dimensions, gradients flow, the state survives, a NumPy form follows.

    Args:
        factory: builds the block; called twice.
        leading: leading dimensions it must serve.

    Raises:
        ConformanceError: naming the rule that is broken.
    """
    block = factory()
    require(isinstance(block, torch.nn.Module), "a block must be a torch.nn.Module")
    block.eval()
    out_shapes = dict(zip(block.out_keys, (tuple(shape) for shape in block.out_shapes()), strict=True))
    for dims in leading:
        inputs = _inputs(block, dims)
        before = {key: tensor.detach().clone() for key, tensor in inputs.items()}
        outputs = block(inputs)
        require(same(before, inputs), "forward() changes its inputs in place")
        require(set(block.out_keys) <= set(outputs), f"forward() lacks outputs of {block.out_keys}")
        for key, shape in out_shapes.items():
            found = tuple(outputs[key].shape)
            require(found == (*dims, *shape), f"output {key!r} has shape {found}, announced {(*dims, *shape)}")
    _check_rows(block, inputs, leading[-1])
    _check_gradients(block, leading[0])
    _check_state(factory, block, inputs)
    _check_mirror(block)


def _inputs(block: Any, dims: tuple[int, ...]) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    pairs = zip(block.in_keys, block.in_shapes, strict=True)
    return {key: torch.rand(*dims, *shape, generator=generator) for key, shape in pairs}


def _check_rows(block: Any, inputs: dict[str, torch.Tensor], dims: tuple[int, ...]) -> None:
    whole = block(inputs)
    flat = {key: tensor.flatten(0, len(dims) - 1) for key, tensor in inputs.items()}
    rows = block(flat)
    for key in block.out_keys:
        agrees = torch.allclose(whole[key].flatten(0, len(dims) - 1), rows[key], atol=1e-5)
        require(agrees, f"output {key!r} depends on how the samples are arranged in leading dimensions")

    first = block({key: tensor[:1] for key, tensor in flat.items()})
    for key in block.out_keys:
        agrees = torch.allclose(first[key], rows[key][:1], atol=1e-5)
        require(agrees, f"output {key!r} of a sample depends on the others of its batch")


def _check_mirror(block: Any) -> None:
    make = getattr(block, "make_mirror", None)
    mirror = make() if make is not None else None
    if mirror is None:
        return
    _compare_mirror(block, mirror, "gives another output {!r}")
    change_parameters(block)
    _compare_mirror(
        block,
        mirror,
        "keeps to old parameters in the output {!r} when they change: it has to read their memory, no copy",
    )


def _compare_mirror(block: Any, mirror: Any, rule: str) -> None:
    inputs = _inputs(block, (5,))
    arrays = mirror({key: tensor.numpy() for key, tensor in inputs.items()})
    for key, expected in block(inputs).items():
        agrees = torch.allclose(torch.from_numpy(arrays[key]), expected, rtol=1e-4, atol=1e-5)
        require(agrees, f"the NumPy form of the block {rule.format(key)}")


def _check_gradients(block: Any, dims: tuple[int, ...]) -> None:
    parameters = dict(block.named_parameters())
    if not parameters:
        return
    block.zero_grad()
    sum(output.square().sum() for output in block(_inputs(block, dims)).values()).backward()
    dead = [name for name, parameter in parameters.items() if parameter.requires_grad and parameter.grad is None]
    require(not dead, f"no gradient reaches the parameters {', '.join(dead)}")


def _check_state(factory: Callable[[], Any], block: Any, inputs: dict[str, torch.Tensor]) -> None:
    again = factory()
    again.load_state_dict(block.state_dict())
    again.eval()
    with torch.no_grad():
        require(same(block(inputs), again(inputs)), "a block restored from state_dict() gives other outputs")


def check_compiled_block(factory: Callable[[], Any], *, device: str = "cpu", backend: str = "inductor") -> None:
    """torch.compile gives one graph with the block's outputs and gradients.

    Args:
        factory: builds the block.
        device: where it runs.
        backend: "inductor" generates code and takes seconds, so mark its test `slow`; "aot_eager" traces forward and
            backward and runs them in torch.

    Raises:
        ConformanceError: naming the rule that is broken.
    """
    block = factory().to(device)
    block.eval()
    inputs = {key: tensor.to(device) for key, tensor in _inputs(block, (3, 4)).items()}
    eager = _outputs_and_gradients(block, block, inputs)
    torch.compiler.reset()
    compiled = _outputs_and_gradients(block, torch.compile(block, fullgraph=True, backend=backend), inputs)
    for name, expected in eager.items():
        agrees = torch.allclose(compiled[name], expected, rtol=1e-3, atol=1e-4)
        require(agrees, f"torch.compile changes the {name}")


def _outputs_and_gradients(block: Any, forward: Any, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    block.zero_grad()
    outputs = forward(inputs)
    found = {f"output {key!r}": outputs[key].detach().clone() for key in block.out_keys}
    if any(True for _ in block.parameters()):
        sum(outputs[key].square().sum() for key in block.out_keys).backward()
        found |= {f"gradient of {name}": parameter.grad.clone() for name, parameter in block.named_parameters()}
    return found


class _Positional(torch.nn.Module):
    """A block from tensors to a tuple of tensors, which is what ONNX knows."""

    def __init__(self, block: Any) -> None:
        super().__init__()
        self.block = block

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs = self.block(dict(zip(self.block.in_keys, tensors, strict=True)))
        return tuple(outputs[key] for key in self.block.out_keys)


def check_exported_block(factory: Callable[[], Any], folder: Path) -> None:
    """The block in ONNX gives the same outputs for any batch size. Needs onnx, onnxscript and onnxruntime.

    Args:
        factory: builds the block.
        folder: where the file is written.

    Raises:
        ConformanceError: ONNX Runtime computes something else.
    """
    import onnxruntime  # type: ignore[import-untyped,unused-ignore]

    block = factory()
    block.eval()
    tensors = tuple(_inputs(block, (2,)).values())
    batch = tuple({0: torch.export.Dim("batch")} for _ in tensors)
    program = torch.onnx.export(_Positional(block).eval(), tensors, dynamo=True, dynamic_shapes=(batch,), verbose=False)
    assert program is not None
    program.save(folder / "block.onnx")
    session = onnxruntime.InferenceSession(folder / "block.onnx", providers=["CPUExecutionProvider"])
    inputs = _inputs(block, (5,))
    expected = block(inputs)
    arrays = [tensor.numpy() for tensor in inputs.values()]
    names = [node.name for node in session.get_inputs()]
    found = session.run(None, dict(zip(names, arrays, strict=True)))
    for key, array in zip(block.out_keys, found, strict=True):
        agrees = torch.allclose(torch.from_numpy(array), expected[key], rtol=1e-3, atol=1e-4)
        require(agrees, f"ONNX changes the output {key!r}")
