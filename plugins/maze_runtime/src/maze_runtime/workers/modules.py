"""Which modules a worker cannot import by name, so that what they define must travel to it by value."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Callable, Container
from types import ModuleType


def is_importable(package: str) -> bool:
    """Whether a fresh interpreter on this machine finds a top-level package; nothing is imported."""
    if package in sys.builtin_module_names or package in sys.stdlib_module_names:
        return True
    for finder in sys.meta_path:
        try:
            spec: importlib.machinery.ModuleSpec | None = finder.find_spec(package, None)
        except Exception:
            continue
        if spec is not None:
            return True
    return False


def modules_to_ship(
    registered: Container[str] = (), can_import: Callable[[str], bool] = is_importable
) -> list[ModuleType]:
    """Modules of this process that a worker lacks: a plugin file beside the experiment, a test file.

    Args:
        registered: names of modules that travel by value already.
        can_import: whether the workers find a top-level package; a pool on other machines asks those.
    """
    answers: dict[str, bool] = {}
    found = []
    for name, module in list(sys.modules.items()):
        if getattr(module, "__file__", None) is None or name in ("__main__", "__mp_main__") or name in registered:
            continue
        root = name.partition(".")[0]
        if root not in answers:
            answers[root] = can_import(root)
        if not answers[root] and isinstance(module, ModuleType) and module.__name__ == name:
            found.append(module)
    return found
