"""Lists of seeds as they are written on the command line and in files: `0,1,2`, `0-9`, `0-4,10`."""

from __future__ import annotations

import re

from maze_kernel.errors import RequestError

_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_MAX_SEEDS = 10_000


def parse_seeds(text: str) -> tuple[int, ...]:
    """The seeds that a text lists, in its order.

    Raises:
        RequestError: it is no list of seeds, names one twice, or more than ten thousand.
    """
    seeds: list[int] = []
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise _error(text, f"{part.strip()!r} is no seed and no range of seeds")
        first, last = int(match[1]), int(match[2] or match[1])
        if len(seeds) + last - first >= _MAX_SEEDS:
            raise _error(text, f"these are more than {_MAX_SEEDS} seeds")
        seeds += range(first, last + 1)
    if len(set(seeds)) < len(seeds):
        twice = next(seed for seed in seeds if seeds.count(seed) > 1)
        raise _error(text, f"seed {twice} is named twice")
    return tuple(seeds)


def _error(text: str, what: str) -> RequestError:
    return RequestError(what, received=text[:80], expected="seeds and ranges of them, e.g. 0,1,2 or 0-9")
