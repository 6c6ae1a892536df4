"""Three small tasks whose observations are an image, a set and a graph, for `perception_learning.py`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import Action, Observation
from maze_runtime.env.flat import FlatEnv, flat_spaces

StepResult = tuple[Observation, float, bool, bool, dict[str, Any]]

N_POINTS, N_NODES, N_LINKS = 10, 8, 20


def lava_gap(*, tile_size: int = 6) -> gymnasium.Env[Any, Any]:
    """MiniGrid-LavaGapS5-v0 seen from above in colours: reach the goal through the gap in the lava."""
    import minigrid  # noqa: F401
    from minigrid.wrappers import ImgObsWrapper, RGBImgObsWrapper

    env = gymnasium.make("MiniGrid-LavaGapS5-v0", max_episode_steps=50)
    return ImgObsWrapper(RGBImgObsWrapper(env, tile_size=tile_size))


class Foraging(FlatEnv):
    """Walk among food (+1) and poison (−1) in a random order; both are seen as points relative to the walker.

    Observation: points (10, 3): place (2) and kind (1: food, −1: poison), those that exist in the mask.
    """

    structured_spaces = flat_spaces(
        spaces.Dict(points=spaces.Box(-2.0, 2.0, (N_POINTS, 3), np.float32), points_mask=spaces.MultiBinary(N_POINTS)),
        spaces.Dict(direction=spaces.Discrete(4)),
    )
    _MOVES = np.array([[0.2, 0.0], [-0.2, 0.0], [0.0, 0.2], [0.0, -0.2]])

    def __init__(self, *, n_steps: int = 32) -> None:
        self._n_steps = n_steps
        self._rng = np.random.default_rng()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._t = 0
        self._place = np.zeros(2)
        self._points = self._rng.uniform(-1.0, 1.0, (N_POINTS, 2))
        self._kind = self._rng.choice([-1.0, 1.0], N_POINTS)
        return self._observe(), {}

    def step(self, action: Action) -> StepResult:
        self._t += 1
        self._place = np.clip(self._place + self._MOVES[int(action["direction"])], -1.0, 1.0)
        reached = np.linalg.norm(self._points - self._place, axis=1) < 0.2
        reward = float(self._kind[reached].sum())
        self._points, self._kind = self._points[~reached], self._kind[~reached]
        return self._observe(), reward, False, self._t == self._n_steps, {}

    def _observe(self) -> Observation:
        order = self._rng.permutation(len(self._points))
        points, mask = np.zeros((N_POINTS, 3), np.float32), np.zeros(N_POINTS, np.int8)
        points[: len(order), :2] = self._points[order] - self._place
        points[: len(order), 2] = self._kind[order]
        mask[: len(order)] = 1
        return {"points": points, "points_mask": mask}


class Distances(FlatEnv):
    """Say how far two marked nodes of a random graph lie apart: 1 link, 2 links or more. Reward 1 if right.

    Observation: nodes (8, 1): 1 where marked; edge_links (20, 2), both directions of every link.
    """

    structured_spaces = flat_spaces(
        spaces.Dict(
            nodes=spaces.Box(0.0, 1.0, (N_NODES, 1), np.float32),
            edge_links=spaces.Box(-1, N_NODES - 1, (N_LINKS, 2), np.int64),
        ),
        spaces.Dict(distance=spaces.Discrete(3)),
    )

    def __init__(self, *, n_steps: int = 16) -> None:
        self._n_steps = n_steps
        self._rng = np.random.default_rng()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._t = 0
        return self._draw(), {}

    def step(self, action: Action) -> StepResult:
        reward = float(int(action["distance"]) == self._answer)
        self._t += 1
        return self._draw(), reward, False, self._t == self._n_steps, {}

    def _draw(self) -> Observation:
        """A graph and two nodes, every answer equally often."""
        wanted = int(self._rng.integers(3))
        while True:
            pairs = [(i, j) for i in range(N_NODES) for j in range(i)]
            chosen = [pairs[i] for i in self._rng.choice(len(pairs), N_LINKS // 2, replace=False)]
            adjacency = np.zeros((N_NODES, N_NODES), bool)
            for i, j in chosen:
                adjacency[i, j] = adjacency[j, i] = True
            a, b = self._rng.choice(N_NODES, 2, replace=False)
            near = 0 if adjacency[a, b] else (1 if (adjacency[a] & adjacency[b]).any() else 2)
            if near == wanted:
                break
        self._answer = wanted
        nodes = np.zeros((N_NODES, 1), np.float32)
        nodes[[a, b]] = 1.0
        links = np.array([*chosen, *((j, i) for i, j in chosen)])
        return {"nodes": nodes, "edge_links": links[self._rng.permutation(len(links))]}
