"""Masks of allowed discrete actions, wherever an environment keeps them, as observation keys `<head>_mask`.

A mask is a MultiBinary observation: one bit an action of a Discrete head, the bits of all dimensions one after the
other for a MultiDiscrete head, one a bit for a MultiBinary head, whose bit is 0 where its mask is. A non-Dict action
space has the head `action`, so its mask is `action_mask`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.catalog import nearest
from maze_kernel.errors import EnvError, RequestError
from maze_runtime.env.mask_reading import action_masks

METHODS = ("action_masks", "valid_action_mask", "action_mask")
INFO_KEY = "action_mask"


def head_sizes(action_space: spaces.Dict) -> dict[str, int]:
    """Mask bits of each head that can have a mask."""
    sizes = {}
    for head, space in action_space.spaces.items():
        if isinstance(space, spaces.Discrete):
            sizes[head] = int(space.n)
        elif isinstance(space, spaces.MultiDiscrete):
            sizes[head] = int(np.sum(space.nvec))
        elif isinstance(space, spaces.MultiBinary):
            sizes[head] = int(np.prod(space.shape))
    return sizes


def mask_method(env: Any) -> Callable[[], Any] | None:
    """The environment's mask method, whichever of the three usual names it has."""
    for name in METHODS:
        method = _attribute(env, name)
        if callable(method):
            return method  # type: ignore[no-any-return]
    return None


def _attribute(env: Any, name: str) -> Any:
    getter = getattr(env, "get_wrapper_attr", None)
    try:
        return getter(name) if getter is not None else getattr(env, name)
    except AttributeError:
        return None


_BOOL = np.dtype(np.bool_)


class MaskReader:
    """Reads the mask of each tick from `info` or from a method.

    Args:
        sizes: mask bits by head, from `head_sizes`.
        method: where the mask comes from; None: `info["action_mask"]`.
        example: a mask as the environment gave it at reset; decides which heads have one.

    Raises:
        EnvError: the example fits no head.
    """

    def __init__(self, sizes: Mapping[str, int], method: Callable[[], Any] | None, example: Any) -> None:
        self._sizes = dict(sizes)
        self.method = method
        self.heads = tuple(self._by_head(example, ()))
        shapes = [(f"{head}_mask", (size,)) for head, size in sizes.items()]
        self._only = shapes[0] if len(shapes) == 1 else ("", (-1,))

    @property
    def spaces(self) -> dict[str, spaces.MultiBinary]:
        """The observation keys it adds."""
        return {f"{head}_mask": spaces.MultiBinary(self._sizes[head]) for head in self.heads}

    def add_to(self, observation: dict[str, Any], info: Mapping[str, Any], ended: bool) -> None:
        """Put the masks of one environment into its new observation; all ones where an episode's last info has none."""
        raw = self.method() if self.method is not None else info.get(INFO_KEY)
        name, shape = self._only
        if type(raw) is np.ndarray and raw.dtype is _BOOL and raw.shape == shape:
            observation[name] = raw.astype(np.int8)  # what `split` comes to
        elif raw is not None:
            observation.update(self.split(raw, ()))
        elif ended:
            observation.update(self.all_allowed(()))
        else:
            raise EnvError(
                "the action mask was there at reset and is missing now",
                received=f"info with the keys {sorted(map(str, info))}",
                expected=f"info[{INFO_KEY!r}] after every step",
            )

    def all_allowed(self, lead: tuple[int, ...]) -> dict[str, np.ndarray]:
        """Masks that forbid nothing, with leading dimensions `lead`."""
        return {f"{head}_mask": np.ones((*lead, self._sizes[head]), np.int8) for head in self.heads}

    def split(self, raw: Any, lead: tuple[int, ...]) -> dict[str, np.ndarray]:
        """The environment's own form to one int8 array a head."""
        by_head = self._by_head(raw, lead)
        if missing := [head for head in self.heads if head not in by_head]:
            raise EnvError(f"the action mask of head {missing[0]!r} is missing")
        return {f"{head}_mask": by_head[head] for head in self.heads}

    def _by_head(self, raw: Any, lead: tuple[int, ...]) -> dict[str, np.ndarray]:
        sizes = self._sizes
        if not isinstance(raw, np.ndarray) and isinstance(raw, Mapping):  # asking for a mapping takes a microsecond
            _require_heads(raw, sizes)
            return {head: _flat(raw[head], lead, sizes[head], head) for head in sizes if head in raw}
        if len(sizes) == 1:
            ((head, size),) = sizes.items()
            return {head: _flat(raw, lead, size, head)}
        if isinstance(raw, (list, tuple)) and len(raw) == len(sizes):
            return {head: _flat(part, lead, size, head) for part, (head, size) in zip(raw, sizes.items(), strict=True)}
        together = _flat(raw, lead, sum(sizes.values()), "all heads")
        parts = np.split(together, np.cumsum(list(sizes.values()))[:-1], axis=-1)
        return dict(zip(sizes, parts, strict=True))


def first_row(mask: Any) -> Any:
    """That of a batch's first row: of masks by head, or by head or dimension in a list, each."""
    if isinstance(mask, Mapping):
        return {
            head: first_row(part)
            for head, part in mask.items()
            if not str(head).startswith("_") and np.ravel(mask.get(f"_{head}", True))[0]
        }
    is_list = isinstance(mask, (list, tuple)) and all(_ndim(part) == 2 or _is_list_of(part, 2) for part in mask)
    return [first_row(part) for part in mask] if is_list else mask[0]


def _is_list_of(raw: Any, n_dims: int) -> bool:
    """Whether these are masks in a list, of which each has so many dimensions."""
    return isinstance(raw, (list, tuple)) and bool(raw) and all(_ndim(part) == n_dims for part in raw)


def _ndim(value: Any) -> int:
    try:
        return np.ndim(value)
    except ValueError:  # rows of different lengths
        return -1


def _require_heads(raw: Mapping[Any, Any], sizes: Mapping[str, int]) -> None:
    """Gymnasium's batches add keys of their own, with an underscore before the name."""
    wrong = [str(head) for head in raw if head not in sizes and not str(head).startswith("_")]
    if wrong:
        raise EnvError(
            f"the action mask names {wrong[0]!r}, which is no action head that can be masked",
            received=", ".join(map(str, raw)),
            expected=f"some of {', '.join(sizes)}",
            nearest=nearest(wrong[0], sizes),
            owner="maze-gym",
        )


def refuse_unread_mask(info: Mapping[str, Any], action_space: spaces.Dict) -> None:
    """Refuse a mask in `info` that nobody reads, rather than let the policy take forbidden actions.

    Raises:
        EnvError: `info["action_mask"]` is there.
    """
    if info.get(INFO_KEY) is not None:
        raise EnvError(
            f"info[{INFO_KEY!r}] holds a mask that "
            + ("was not there at the first reset" if head_sizes(action_space) else "fits no action head"),
            received=f"the action space {action_space}",
            expected="a mask from the first reset on, of a Discrete, MultiDiscrete or MultiBinary action",
            owner="maze-gym",
            help='set action_mask = "none" if it is to be ignored',
        )


def _flat(raw: Any, lead: tuple[int, ...], size: int, head: str) -> np.ndarray:
    """A mask, or a list of one mask a dimension, as int8 of shape (*lead, size)."""
    if isinstance(raw, np.ndarray) and raw.dtype == np.bool_ and raw.shape == (*lead, size):
        return raw.astype(np.int8)
    if _is_list_of(raw, len(lead) + 1):
        raw = np.concatenate([np.asarray(part) for part in raw], axis=-1)
    try:
        mask = np.asarray(raw)
    except ValueError as error:
        raise EnvError(
            f"the action mask of head {head!r} is no array: {error}",
            received=repr(raw)[:200],
            expected=f"shape {(*lead, size)}, or a list with the mask of each dimension",
        ) from error
    if mask.shape != (*lead, size) and mask.size == int(np.prod(lead, dtype=int)) * size:
        mask = mask.reshape(*lead, size)
    if mask.shape != (*lead, size):
        raise EnvError(
            f"the action mask of head {head!r} has the wrong size",
            received=f"shape {mask.shape}",
            expected=f"shape {(*lead, size)}: one entry an action",
        )
    return np.asarray(mask != 0, np.int8)


def find_mask_reader(
    env: Any,
    wanted: str,
    observation: Mapping[str, spaces.Space[Any]],
    action_space: spaces.Dict,
    probe: Callable[[], Any],
) -> MaskReader | None:
    """The reader that `action_mask = wanted` asks for; None where the observation holds the mask or there is none.

    Args:
        probe: resets the environment and returns its info; called only where masks can come from info or method.
    """
    sizes = head_sizes(action_space)
    if wanted == "none" or (wanted in ("auto", "observation") and mask_in_observation(observation, action_space)):
        return None
    if wanted in ("auto", "info", "method") and sizes:
        info = probe()
        if wanted != "method" and isinstance(info, Mapping) and info.get(INFO_KEY) is not None:
            return MaskReader(sizes, None, info[INFO_KEY])
        method = mask_method(env) if wanted != "info" else None
        if method is not None:
            return MaskReader(sizes, method, method())
    if wanted == "auto":
        return None
    raise RequestError(
        f"the environment gives no action mask by {wanted!r}",
        expected=f"{'a Discrete, MultiDiscrete or MultiBinary action' if not sizes else _where(wanted)} at reset",
        option="action_mask",
        owner="maze-gym",
        help='set action_mask = "auto", or give the mask at reset and after every step',
    )


def mask_in_observation(observation: Mapping[str, spaces.Space[Any]], action_space: spaces.Dict) -> bool:
    """Whether an observation is the mask of a head, so that nothing else is read."""
    return bool(action_masks(spaces.Dict(dict(observation)), action_space))


def _where(wanted: str) -> str:
    return {
        "observation": f"the observation key {INFO_KEY!r}",
        "info": f"info[{INFO_KEY!r}]",
        "method": " or ".join(f"{name}()" for name in METHODS),
    }[wanted]
