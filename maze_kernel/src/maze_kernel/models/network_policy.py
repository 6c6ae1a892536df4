"""A network that acts: the NumPy side of an actor-critic, with its own random state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from maze_kernel.env.contract import PolicyKey
from maze_kernel.env.tick import ArrayDict, Group
from maze_kernel.models.contract import ActorCritic


class NetworkPolicy:
    """Acts with the current weights of `model`.

    Small dense networks on the CPU are evaluated by their NumPy mirror, which reads the parameters' own memory:
    half the cost of a torch call at rollout batch sizes. Everything else runs in torch's inference mode.
    Actions are drawn in NumPy either way, so both take the same ones and a fully masked head is an error.

    Args:
        model: an actor-critic; its weights are read, never changed.
        seed: of the action samples.
        mirror: False forces the torch path.
    """

    def __init__(self, model: ActorCritic, seed: int = 0, *, mirror: bool = True) -> None:
        self.model = model
        self._is_flat = model.spaces.is_flat
        self._mirrors = {key: model.numpy_logits(key) if mirror else None for key in model.spaces.policy_keys}
        self._device = next(iter(model.parameters()), torch.empty(0)).device  # type: ignore[attr-defined]
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Restart the random stream."""
        self._rng = np.random.default_rng(seed)

    def draw_seeds(self, n_seeds: int) -> list[int]:
        """Seeds for copies of this policy elsewhere, from its random stream."""
        seeds: list[int] = self._rng.integers(1 << 31, size=n_seeds).tolist()
        return seeds

    @property
    def is_mirrored(self) -> bool:
        """Every policy key acts in NumPy."""
        return all(mirror is not None for mirror in self._mirrors.values())

    def begin_episodes(self, env_index: np.ndarray) -> None:
        """Feed-forward networks carry nothing from step to step."""

    def act(self, policy_key: PolicyKey, group: Group, *, deterministic: bool = False) -> ArrayDict:
        """Actions (n, ...) by head for the rows of `group`."""
        mirror = self._mirrors[policy_key]
        if mirror is None:
            logits = self._torch_logits(policy_key, group)
        else:
            logits = mirror(group.observation) if self._is_flat else mirror(group.observation, group.agent_id)
        distribution = self.model.distributions[policy_key]
        return distribution.mode_numpy(logits) if deterministic else distribution.sample_numpy(logits, self._rng)

    def _torch_logits(self, policy_key: PolicyKey, group: Group) -> ArrayDict:
        with torch.inference_mode():
            observation = {
                name: torch.from_numpy(np.ascontiguousarray(array)).to(self._device)
                for name, array in group.observation.items()
            }
            agent_id = None if self.model.spaces.is_flat else torch.from_numpy(group.agent_id).to(self._device)
            logits = self.model.logits(policy_key, observation, agent_id)
            return {name: tensor.cpu().numpy() for name, tensor in logits.items()}

    def state_dict(self) -> dict[str, Any]:
        """The random state."""
        return {"rng": self._rng.bit_generator.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._rng.bit_generator.state = state["rng"]
