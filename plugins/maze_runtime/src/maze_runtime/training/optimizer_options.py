"""Options that name an optimiser of torch by its import path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from maze_kernel.errors import RequestError


def _is_import_path(_: object, attribute: attrs.Attribute[Any], path: str) -> None:
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise RequestError(
            f"'{attribute.name}' names an optimiser by its import path",
            received=repr(path),
            expected='"package.module:Class"',
            help=f'write use = "torch.optim:{"RMSprop" if path == "torch" else path}"',
        )


def _leaves_the_rate(_: object, attribute: attrs.Attribute[Any], kwargs: Mapping[str, Any]) -> None:
    if "lr" in kwargs:
        raise ValueError(f"'{attribute.name}' has no 'lr': the learning rate is an option of its own")


@attrs.frozen(kw_only=True)
class OptimizerOptions:
    """An optimiser by import path."""

    ALIASES = {"name": "use"}  # noqa: RUF012 — as `SPELLINGS`

    use: str = attrs.field(validator=_is_import_path)
    """"package.module:Class" of a torch.optim.Optimizer whose step needs no closure, e.g. "torch.optim:AdamW"."""
    kwargs: Mapping[str, Any] = attrs.field(factory=dict, validator=_leaves_the_rate)
    """Keyword arguments of its constructor, e.g. { momentum = 0.9 }, without `lr`."""
