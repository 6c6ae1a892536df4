"""How worker pools write functions and classes that the other side cannot import: by value.

For pools that send objects to workers of their own.
"""

from __future__ import annotations

import io
import pickle
from collections import ChainMap
from collections.abc import Callable
from types import CodeType
from typing import Any, ClassVar

import cloudpickle  # type: ignore[import-untyped]


def code_from(file_name: str, make: Callable[..., CodeType], arguments: tuple[Any, ...]) -> CodeType:
    """Code that was sent by value, with the name of its file."""
    return make(*arguments).replace(co_filename=file_name)


def _reduce_code(code: CodeType) -> tuple[Callable[..., CodeType], tuple[Any, ...]]:
    """What cloudpickle makes of it, and the file's name: from version 3.1.3 on it leaves that out of tracebacks."""
    return code_from, (code.co_filename, *cloudpickle.Pickler.dispatch_table[CodeType](code))


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    dispatch_table: ClassVar[Any] = ChainMap({CodeType: _reduce_code}, cloudpickle.Pickler.dispatch_table)


def dumps(value: Any, buffer_callback: Callable[[pickle.PickleBuffer], Any] | None = None) -> bytes:
    """An object as bytes, which `pickle.loads` reads.

    Args:
        buffer_callback: takes the memory of large arrays, or returns True to leave it inside (pickle protocol 5).
    """
    with io.BytesIO() as file:
        _Pickler(file, protocol=5, buffer_callback=buffer_callback).dump(value)
        return file.getvalue()
