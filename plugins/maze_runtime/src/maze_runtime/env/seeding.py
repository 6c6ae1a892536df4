"""One seed, and every random stream of a run derived from it by name.

Streams are independent of each other and of the order in which they are asked for.
"""

from __future__ import annotations

import hashlib

import numpy as np


class SeedTree:
    """Named children of a root seed.

    >>> tree = SeedTree(7)
    >>> tree.seed("train-envs", 3) == SeedTree(7).seed("train-envs", 3)
    True
    >>> tree.seed("train-envs", 3) == tree.seed("train-envs", 4)
    False
    """

    def __init__(self, root: int, path: tuple[int, ...] = ()) -> None:
        self.root = root
        self._path = path

    def child(self, *names: str | int) -> SeedTree:
        """The subtree under these names."""
        return SeedTree(self.root, (*self._path, *(_key(name) for name in names)))

    def sequence(self, *names: str | int) -> np.random.SeedSequence:
        """The `numpy.random.SeedSequence` at these names."""
        return np.random.SeedSequence(self.root, spawn_key=self.child(*names)._path)

    def seeds(self, n_seeds: int, *names: str | int) -> list[int]:
        """n seeds in [0, 2**31), for environments and libraries that take small integers."""
        return [int(word) >> 1 for word in self.sequence(*names).generate_state(n_seeds, np.uint32)]

    def seed(self, *names: str | int) -> int:
        """One seed in [0, 2**31)."""
        return self.seeds(1, *names)[0]

    def generator(self, *names: str | int) -> np.random.Generator:
        """A NumPy generator of its own."""
        return np.random.default_rng(self.sequence(*names))


def _key(name: str | int) -> int:
    if isinstance(name, int):
        return name
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")
