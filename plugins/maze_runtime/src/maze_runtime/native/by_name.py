"""Operations of torch whose C++ is called by compiled code without Python in between."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from maze_runtime.native.library import build_library

Shims = dict[Any, list[str]]
"""Operations, and how their functions are declared in compiled code."""

_FIRST_RELEASE = "2.13"
"""Of torch, with which this was tried; releases before may know the option for code that is compiled ahead alone."""


class _CachedShims(dict[Any, list[str]]):
    """Those which the compiler's cache on disk writes down without failing at operations."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _CachedShims, (), {"functions": [*self.values()]}

    def __deepcopy__(self, _memo: Any) -> _CachedShims:
        return self


def shims_option(shims: Shims) -> dict[str, Any]:
    """The compiler's option by which it finds them; none where there are no shims."""
    return {"aot_inductor.custom_ops_to_c_shims": _CachedShims(shims)} if shims else {}


def shims_of(library: ctypes.CDLL | None, parameters: Mapping[Any, str]) -> Shims:
    """Give compiled code the functions of a library; none where that is not possible.

    Args:
        library: its functions are called as the operations are; see `by_name.cpp`. None: there is none.
        parameters: what the function of each operation takes, as C has it.
    """
    if library is None or torch.__version__ < _FIRST_RELEASE:
        return {}
    from torch._inductor import config  # takes seconds, and eager runs load it nowhere

    if not hasattr(config.aot_inductor, "custom_ops_to_c_shims"):
        return {}
    named = build_library(Path(__file__).with_name("by_name.cpp"), by_name=True)
    if named is None:
        return {}
    shims = {}
    for operation, takes in parameters.items():
        name = operation._schema.name.split("::")[1]
        function = ctypes.cast(getattr(library, name), ctypes.c_void_p)
        ctypes.c_void_p.in_dll(named, f"{name}_at").value = function.value
        shims[operation] = [f"int32_t aoti_torch_cpu_{name}({takes})"]
    return shims
