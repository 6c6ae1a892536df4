"""Pytest fixtures. Use them by writing `from maze_testing.fixtures import isolated_kernel` in a conftest.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from maze_kernel.loader import Kernel


@pytest.fixture
def isolated_kernel() -> Callable[..., Kernel]:
    """`isolated_kernel(plugin, ...)` is a kernel with these plugins and nothing that is installed.

    It fails the test if one of them cannot be loaded.
    """

    def make(*plugins: Any) -> Kernel:
        kernel = Kernel.of(*plugins)
        failed = [f"{plugin.name}: {plugin.cause}" for plugin in kernel.plugins if plugin.status == "failed"]
        assert not failed, f"plugins that do not load: {'; '.join(failed)}"
        return kernel

    return make
