"""Components that Python callers give as objects in place of a name."""

from __future__ import annotations

from typing import Any

from maze_kernel.config import complaints
from maze_kernel.config.problems import show_value
from maze_kernel.config.reading import INVALID, Reader, Scope
from maze_kernel.selection import Selection


def selection_of_object(value: Any, kind: str, scope: Scope, reader: Reader) -> Any:
    """A Selection as it is, or one that stands for an instance; INVALID with a problem recorded for what is neither."""
    if isinstance(value, Selection):
        if value.kind == kind:
            return value
        reader.problems.add(scope.path, f"{{path}} must be a {kind}", received=f"a {value.kind}", help=scope.help)
        return INVALID
    if value is None or isinstance(value, (bool, int, float, list, tuple)):
        reader.problems.add(
            scope.path,
            f"{{path}} must select a {kind}",
            received=show_value(value),
            expected="a name, a table with use, or an object",
            help=f"choose one of {complaints.some(reader.choices(kind))}",
        )
        return INVALID
    if kind == "env" and not callable(value):
        reader.problems.add(
            scope.path,
            "{path} must be a factory, because every copy of an environment is built anew",
            received=type(value).__name__,
            expected="a function without arguments that returns an environment",
            help="pass env=lambda: MyEnv(...)",
        )
        return INVALID
    named = value if hasattr(value, "__qualname__") else type(value)
    target = f"{named.__module__}:{named.__qualname__}"
    return Selection(kind=kind, use=target, target=target, options={}, owner=f"{target} (given)", instance=value)
