"""Options that name an optimiser of torch by its import path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from maze_kernel.catalog import nearest
from maze_kernel.errors import RequestError
from maze_runtime.env.importing import imported

OF_TORCH = (
    *("Adadelta", "Adafactor", "Adagrad", "Adam", "Adamax", "AdamW"),
    *("ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"),
)
"""Classes of `torch.optim` whose step needs no closure, to suggest one; others are taken as well."""


def _is_import_path(options: object, attribute: attrs.Attribute[Any], path: str) -> None:
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise RequestError(
            f"'{attribute.name}' names an optimiser by its import path",
            received=repr(path),
            expected='"package.module:Class"',
            help=_suggestion(path, getattr(options, "OWN_NAMES", ())),
        )


def _suggestion(path: str, own_names: tuple[str, ...]) -> str:
    """What may have been meant: one of the trainer's own optimisers, or one of torch."""
    near = nearest(path, own_names) or tuple(f"torch.optim:{name}" for name in nearest(path, OF_TORCH))
    if near:
        return f'did you mean use = "{near[0]}"?'
    others = "".join(f'"{name}", ' for name in own_names)
    return f'write {others}or an import path such as use = "torch.optim:RMSprop"'.replace("write or", "write")


def _leaves_the_rate(_: object, attribute: attrs.Attribute[Any], kwargs: Mapping[str, Any]) -> None:
    if "lr" in kwargs:
        raise ValueError(f"'{attribute.name}' has no 'lr': the learning rate is an option of its own")


@attrs.frozen(kw_only=True)
class OptimizerOptions:
    """An optimiser by import path. A class that inherits this may name optimisers of its trainer, `OWN_NAMES`."""

    ALIASES = {"name": "use"}  # noqa: RUF012 — as `SPELLINGS`

    use: str = attrs.field(validator=_is_import_path)
    """"package.module:Class" of a torch.optim.Optimizer whose step needs no closure, e.g. "torch.optim:AdamW"."""
    kwargs: Mapping[str, Any] = attrs.field(factory=dict, validator=_leaves_the_rate)
    """Keyword arguments of its constructor, e.g. { momentum = 0.9 }, without `lr`."""

    def load(self, owner: str | None = None) -> Any:
        """Import the class.

        Args:
            owner: of the option, for messages; None: whoever places the error says it.

        Raises:
            RequestError: there is none; its module fails.
        """
        return imported(self.use, owner=owner, option="optimizer.use")

    def check_ready(self) -> None:
        """See `maze_runtime.run.before_training.ChecksReadiness.check_ready`."""
        self.load()
