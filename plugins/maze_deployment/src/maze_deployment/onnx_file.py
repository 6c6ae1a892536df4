"""A traced policy as an ONNX file. Its packages are optional: `pip install 'maze-deployment[export]'`."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from maze_kernel.contracts.vector import ArrayDict
from maze_kernel.errors import MazeError, RequestError

if TYPE_CHECKING:
    from torch.export import ExportedProgram

PACKAGES = ("onnx", "onnxscript", "onnxruntime")


def require_packages() -> None:
    """Refuse early what cannot work.

    Raises:
        RequestError: a package is not installed.
    """
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise RequestError(
            f"export to ONNX needs {', '.join(missing)}, not installed here",
            help="pip install 'maze-deployment[export]', or use --format torch-export",
        )


def encode(program: ExportedProgram, inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
    """The content of an ONNX file with these names.

    Raises:
        MazeError: an operation has no ONNX form.
    """
    import torch

    try:
        with _quiet():
            onnx_program = torch.onnx.export(program, dynamo=True, verbose=False, external_data=False)
    except Exception as error:
        raise MazeError(
            f"the policy has no ONNX form: {type(error).__name__}",
            received=str(error).strip().splitlines()[0][:300] if str(error).strip() else None,
            help="use --format torch-export",
        ) from error
    assert onnx_program is not None
    graph = onnx_program.model.graph
    for value, name in zip([*graph.inputs, *graph.outputs], [*inputs, *outputs], strict=True):
        value.name = name
    content: bytes = onnx_program.model_proto.SerializeToString()
    return content


def run(content: bytes, inputs: ArrayDict, names: Sequence[Sequence[str]]) -> list[ArrayDict]:
    """What an ONNX file gives, from onnxruntime on the CPU.

    Args:
        content: of the file.
        inputs: by their names in the file.
        names: how to call the outputs, one group behind the other.
    """
    import onnxruntime  # type: ignore[import-untyped,unused-ignore]

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    results = iter(session.run(None, dict(inputs)))
    return [{name: next(results) for name in group} for group in names]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep back what the exporter says about itself."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
