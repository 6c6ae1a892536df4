"""The natively vectorised form of an environment gets its options as the environment itself does."""

import attrs
import pytest

from maze_kernel import hookimpl
from maze_kernel.components import EnvComponent
from maze_kernel.config import select
from maze_kernel.loader import Kernel
from maze_runtime.run.batch_factory import native_form


@attrs.frozen(kw_only=True)
class RowOptions:
    """Options of `with-class`."""

    length: int = 3
    """Of the row."""


class Rows:
    """Two environments with a native form: one with an options class, one without."""

    MAZE_PLUGIN_API = 1

    @staticmethod
    @hookimpl
    def maze_envs():
        here = f"{__name__}:"
        yield EnvComponent(name="plain", target=f"{here}plain", vector_target=f"{here}plain_batch")
        yield EnvComponent(
            name="with-class",
            target=f"{here}with_class",
            vector_target=f"{here}with_class_batch",
            options=f"{here}RowOptions",
        )


def plain(*, length: int = 3):
    return length


def plain_batch(n_envs, *, length: int = 3):
    return n_envs, length


def with_class(options):
    return options.length


def with_class_batch(n_envs, options):
    return n_envs, options.length


@pytest.mark.parametrize("name", ["plain", "with-class"])
def test_its_options_arrive_with_and_without_an_options_class(name):
    kernel = Kernel.of(Rows)
    selection = select(kernel, "env", {"use": name, "length": 7})
    assert native_form(kernel.catalog, selection)(4) == (4, 7)
