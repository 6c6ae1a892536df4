"""What toy components build, and things that `use = "toy_targets:..."` can name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from toy_options import DenseOptions

if TYPE_CHECKING:
    from nowhere import Imaginary

NOT_CALLABLE = 3


def build(*arguments: Any) -> tuple[Any, ...]:
    return arguments


def no_options(*arguments: Any) -> None:
    return None


def pool(*, count: int = 2) -> int:
    """A pool.

    Args:
        count: actors at the same time.
    """
    return count


class PlainWrapper:
    """Wraps plainly.

    Args:
        env: what is wrapped.
        strength: how much,
            over two lines.
        mode: which way.
    """

    def __init__(self, env: Imaginary, *, strength: float, mode: Literal["up", "down"] = "up", hook: Any = print):
        self.env, self.strength, self.mode = env, strength, mode


def make_env(width=3, *, height: int, ratio: float = 1, labels: tuple[str, ...] = ("a",), other: Imaginary = None):
    return width, height, ratio, labels


def make_free(**options):
    return options


class WithOptions:
    def __init__(self, context: Imaginary, *, options: DenseOptions) -> None:
        self.options = options
