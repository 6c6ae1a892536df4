"""Conformance of perception blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from maze_runtime.models.recurrence import BEGINS, STATE, next_state_name
from maze_testing.conformance import change_parameters, require, same, suite, unchanged

_N_STEPS, _N_SEQUENCES = 4, 3
"""What a block that carries state is given at once."""


@suite
def check_block(factory: Callable[[], Any], *, leading: tuple[tuple[int, ...], ...] = ((1,), (5,), (3, 4))) -> None:
    """Shapes are as announced under any leading dimensions, gradients flow, the state survives, a NumPy form follows.

    A block that carries state from step to step is given T steps of B sequences at once, and gives the same one by one.

    Args:
        factory: builds the block; called twice.
        leading: leading dimensions it must serve; one that carries state is given rows.

    Raises:
        ConformanceError: naming the rule that is broken.
    """
    block = factory()
    require(isinstance(block, torch.nn.Module), "a block must be a torch.nn.Module")
    block.eval()
    if carries_state := any(key.startswith(STATE) for key in block.in_keys):
        require(BEGINS in block.in_keys, f"it carries state and does not read {BEGINS}")
        inputs = _steps(block, _N_STEPS)
        _check_outputs(block, inputs, (_N_STEPS * _N_SEQUENCES,))
        _check_steps(block, inputs)
        _check_sequences(block, inputs)
    else:
        for dims in leading:
            _check_outputs(block, _inputs(block, dims), dims)
        inputs = _inputs(block, leading[-1])
        _check_rows(block, inputs, leading[-1])
    _check_gradients(block, inputs if carries_state else _inputs(block, leading[0]))
    _check_state(factory, block, inputs)
    _check_mirror(block)


def _check_outputs(block: Any, inputs: dict[str, torch.Tensor], dims: tuple[int, ...]) -> None:
    """Keys, shapes and numbers as announced; inputs are left alone."""
    shapes = block.out_shapes()
    announced = isinstance(shapes, Sequence) and len(shapes) == len(block.out_keys)
    require(announced, f"out_shapes() is {shapes!r}, not one shape an output of {block.out_keys}")
    outputs = unchanged("forward()", block, inputs)
    require(isinstance(outputs, Mapping), f"forward() gives {type(outputs).__name__}, not a dict of outputs")
    require(set(block.out_keys) <= set(outputs), f"forward() lacks outputs of {block.out_keys}")
    for key, shape in zip(block.out_keys, shapes, strict=True):
        output, wanted = outputs[key], (*dims, *shape)
        found = tuple(output.shape)
        require(found == wanted, f"output {key!r} has shape {found}, announced {wanted}")
        require(output.dtype == torch.float32, f"output {key!r} has dtype {output.dtype}, not torch.float32")


def _inputs(block: Any, dims: tuple[int, ...]) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    pairs = zip(block.in_keys, block.in_shapes, strict=True)
    inputs = {key: torch.rand(*dims, *shape, generator=generator) for key, shape in pairs}
    if BEGINS in inputs:
        inputs[BEGINS] = (inputs[BEGINS] > 0.7).float()
        inputs[BEGINS][0] = 1.0
    return inputs


def _steps(block: Any, n_steps: int) -> dict[str, torch.Tensor]:
    """Inputs of T steps of B sequences: the state before the first step (B, S), everything else (T·B, ...)."""
    inputs = _inputs(block, (n_steps * _N_SEQUENCES,))
    return {key: value[:_N_SEQUENCES] if key.startswith(STATE) else value for key, value in inputs.items()}


def _check_steps(block: Any, inputs: dict[str, torch.Tensor]) -> None:
    """T steps at once are T single steps, each with the state after the one before."""
    whole = block(inputs)
    states = {key: value for key, value in inputs.items() if key.startswith(STATE)}
    for step in range(_N_STEPS):
        rows = slice(step * _N_SEQUENCES, (step + 1) * _N_SEQUENCES)
        outputs = block({key: states.get(key, value[rows]) for key, value in inputs.items()})
        for key in block.out_keys:
            agrees = torch.allclose(outputs[key], whole[key][rows], rtol=1e-4, atol=1e-5)
            require(agrees, f"output {key!r} of {_N_STEPS} steps at once differs from the steps one by one")
        missing = [key for key in states if next_state_name(key) not in outputs]
        require(not missing, f"forward() lacks the states after {', '.join(missing)}")
        states = {key: outputs[next_state_name(key)] for key in states}
    begins = inputs[BEGINS][:_N_SEQUENCES].bool()
    forgotten = {key: value.clone() for key, value in inputs.items()}
    for key in states:
        forgotten[key][begins] = 0.0
    agrees = all(torch.allclose(block(forgotten)[key], whole[key], atol=1e-5) for key in block.out_keys)
    require(agrees, f"the state counts where {BEGINS} says that an episode begins")


def _check_sequences(block: Any, inputs: dict[str, torch.Tensor]) -> None:
    """A sequence does not see the others of its batch."""
    whole = block(inputs)
    first = {key: value[:1] if key.startswith(STATE) else value[::_N_SEQUENCES] for key, value in inputs.items()}
    for key, output in block(first).items():
        agrees = torch.allclose(output, whole[key][::_N_SEQUENCES], rtol=1e-4, atol=1e-5)
        require(agrees, f"output {key!r} of a sequence depends on the others of its batch")


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


def _check_gradients(block: Any, inputs: dict[str, torch.Tensor]) -> None:
    parameters = dict(block.named_parameters())
    if not parameters:
        return
    block.zero_grad()
    sum(output.square().sum() for output in block(inputs).values()).backward()
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
