"""Which distribution reads the logits of each action head: to another one the same weights mean something else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from torch import nn

from maze_runtime.models.action_distribution import space_word

AUTO = "auto"
"""The value of options that choose by the trainer; what they choose shows in the shapes of weights."""


@attrs.frozen(kw_only=True)
class HeadDistribution:
    """The distribution of one action head, as plain data.

    Attributes:
        use: as an experiment names it; its class where the model built it by itself.
        kind: "module:Class" of it.
        space: the word of its space, see `space_word`.
        n_logits: how many numbers it reads.
        options: its options; empty where the model built it by itself.
    """

    use: str
    kind: str
    space: str
    n_logits: int
    options: dict[str, Any]

    def changed_options(self, other: HeadDistribution) -> dict[str, tuple[Any, Any]]:
        """Option to its value in both, where these differ and neither is "auto"."""
        both = {name: (own, other.options[name]) for name, own in self.options.items() if name in other.options}
        return {name: values for name, values in both.items() if values[0] != values[1] and AUTO not in values}


def head_distributions(model: Any) -> dict[str, dict[str, HeadDistribution]]:
    """Policy key to action head to its distribution; empty for models that have none."""
    return {
        str(key): {name: _of(name, head, distribution, model.spaces.action[key]) for name, head in heads.items()}
        for key, distribution in getattr(model, "distributions", {}).items()
        if isinstance(heads := getattr(distribution, "heads", None), Mapping)
    }


def _of(name: str, head: Any, distribution: Any, space: Mapping[str, Any]) -> HeadDistribution:
    kind = f"{type(head).__module__}:{type(head).__qualname__}"
    table = dict(getattr(distribution, "tables", {}).get(name, {"use": kind}))
    use = str(table.pop("use"))
    return HeadDistribution(
        use=use, kind=kind, space=space_word(space[name]), n_logits=int(head.logits_shape[0]), options=table
    )


def head_layers(network: nn.Module) -> dict[str, list[str]]:
    """Action head to the paths of the modules that give its logits and nothing else.

    These say so by an attribute `action_head`.

    >>> layer = nn.Linear(2, 2)
    >>> layer.action_head = "steer"
    >>> head_layers(nn.Sequential(nn.Linear(3, 2), layer))
    {'steer': ['1']}
    """
    found: dict[str, list[str]] = {}
    for path, module in network.named_modules():
        head = getattr(module, "action_head", None)
        if isinstance(head, str):
            found.setdefault(head, []).append(path)
    return found
