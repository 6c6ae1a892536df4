"""Which observation masks which action head, whether the head's distribution obeys it, and names that mislead."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.catalog import nearest
from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.model import ModelContext
from maze_kernel.errors import Location, RequestError, SpaceError
from maze_runtime.env.mask_reading import ANY_HEAD, mask_names
from maze_runtime.models.action_distribution import ProductDistribution, make_action_distribution
from maze_runtime.models.distribution_rule import DistributionRule
from maze_runtime.models.masked_choices import n_choices, require_obeys_masks

OWNER = "maze-perception"
SUFFIX = "_mask"


def find_masks(observation: spaces.Dict, action: spaces.Dict) -> dict[str, str]:
    """Head name to the observation that masks it, as `mask_names` says.

    Raises:
        SpaceError: `action_mask` where several heads can be masked, or a mask that has not one entry a choice.
    """
    masks = mask_names(observation, action)
    maskable = [head for head, space in action.spaces.items() if n_choices(space)]
    if ANY_HEAD in observation.spaces and ANY_HEAD not in masks.values() and len(maskable) > 1:
        raise SpaceError(
            f"it is not clear which action head the observation {ANY_HEAD!r} masks",
            received=f"heads {', '.join(repr(head) for head in maskable)}",
            expected=f"one mask a head, named {maskable[0]}_mask and so on",
            owner=OWNER,
        )
    for head in maskable:
        for name in {f"{head}{SUFFIX}", ANY_HEAD} & observation.spaces.keys() if head not in masks else ():
            raise SpaceError(
                f"the observation {name!r} has the name of a mask of the action head {head!r}, and not its size",
                received=str(observation[name]),
                expected=f"{n_choices(action[head])} entries, one a choice",
                owner=OWNER,
                help="correct the mask; an observation that networks shall read has another name",
            )
    return masks


def action_distributions(
    context: ModelContext, rules: Iterable[DistributionRule]
) -> dict[PolicyKey, ProductDistribution]:
    """The distributions of all policy keys.

    Raises:
        RequestError: a rule names a head that no policy key has.
        SpaceError: an observation looks like the mask of a head and has the name of none, or has an @ in its name, or
            the distribution of a masked head does not obey it; and what `make_action_distribution` raises.
    """
    spaces_, rules = context.spaces, tuple(rules)
    for rule in rules:
        if rule.action is not None:
            require_head(spaces_, rule.action, "[[model.distributions]]", rule.use.location)
    _refuse_at_signs(spaces_)
    _refuse_misspelt_masks(spaces_)
    made = {key: make_action_distribution(space, context.catalog, rules) for key, space in spaces_.action.items()}
    for key, space in spaces_.action.items():
        for head in find_masks(spaces_.observation[key], space):
            require_obeys_masks(head, space[head], made[key].heads[head])
    return made


def require_head(spaces_: StructuredSpaces, head: str, table: str, location: Location | None = None) -> None:
    """Refuse a table that names an action head which no policy key has.

    Raises:
        RequestError: with the nearest names.
    """
    heads = sorted({name for action in spaces_.action.values() for name in action.spaces})
    if head not in heads:
        near = nearest(head, heads)
        raise RequestError(
            f"{table} names the action head {head!r}, which does not exist",
            location=location,
            expected=None if near else f"one of {', '.join(heads)}",
            nearest=near,
            owner=OWNER,
        )


def _refuse_at_signs(spaces_: StructuredSpaces) -> None:
    """Refuse an @ in the name of an observation: networks that policy keys share call their inputs `name@key`."""
    for name in sorted({name for observation in spaces_.observation.values() for name in observation.spaces}):
        if "@" in name:
            raise SpaceError(
                f"the observation {name!r} has an @ in its name, which models keep for names of their own",
                expected="another name",
                owner=OWNER,
                help="rename it in the environment, or in a wrapper around it",
            )


def _refuse_misspelt_masks(spaces_: StructuredSpaces) -> None:
    """Refuse an observation `…_mask` with one bit a choice of a head that nothing masks, or of all these heads."""
    heads = {head for action in spaces_.action.values() for head in action.spaces}
    for key, observation in spaces_.observation.items():
        action = spaces_.action[key]
        masked = find_masks(observation, action)
        free = {head: n for head in action.spaces if head not in masked and (n := n_choices(action[head]))}
        for name, space in observation.spaces.items():
            stem = name.removesuffix(SUFFIX)
            belongs = stem in heads or any(other.startswith(stem) for other in observation.spaces if other != name)
            if stem == name or belongs or not _is_bits(space) or name == ANY_HEAD:
                continue
            n_bits, masks = math.prod(space.shape or ()), [f"{head}{SUFFIX}" for head in free]
            of_one = n_bits in free.values()
            if of_one or (free and n_bits == sum(free.values())):
                raise SpaceError(
                    f"the observation {name!r} looks like a mask and has the name of no action head",
                    received=str(space),
                    expected=f"{' or '.join(map(repr, masks))} for the mask of an action"
                    if of_one
                    else f"one mask a head: {', '.join(map(repr, masks))}",
                    nearest=nearest(name, masks) if of_one else (),
                    owner=OWNER,
                    help="rename it; an observation that networks shall read has another ending",
                )


def _is_bits(space: spaces.Space[Any]) -> bool:
    if isinstance(space, spaces.Box):
        return bool(np.all(space.low == 0) and np.all(space.high == 1))
    return isinstance(space, spaces.MultiBinary)
