"""Networks of one policy key that each belong to one agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from maze_kernel.contracts.vector import ArrayDict
from maze_kernel.errors import MazeError, RequestError
from maze_runtime.models.recurrence import STATE, state_shapes_of
from maze_runtime.models.tensor_dict import TensorDict

Mirror = Callable[[ArrayDict], ArrayDict]


def refuse_agent_networks(model: Any, owner: str) -> None:
    """For trainers whose batches do not say which agent decided.

    Raises:
        RequestError: the model has networks of single agents.
    """
    if any(isinstance(module, AgentNetworks) for module in model.modules()):
        raise RequestError(
            "the agents of a policy key have networks of their own",
            received="separate_agent_nets in [model]",
            expected="one network for all agents of a key",
            owner=owner,
            help="leave separate_agent_nets out, or choose another trainer",
        )


class AgentNetworks(nn.Module):
    """Sends each row to the network of its agent.

    Args:
        networks: of agents 0, 1, …; each maps a dict of tensors to a dict of tensors.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    @property
    def state_shapes(self) -> dict[str, tuple[int, ...]]:
        """The states that each agent's network reads."""
        return state_shapes_of(self.networks[0])

    def forward(self, inputs: TensorDict, agent_id: Tensor | None) -> TensorDict:
        """(B, ...) tensors by name, and the agent of each row (B,), to (B, ...) tensors by name.

        States have a row a sequence, whose rows are one agent's; see `models.recurrence`. The only agent of a flat
        environment is not named.

        Raises:
            MazeError: no agents given where there are several, or one without a network.
        """
        if agent_id is None:
            if len(self.networks) == 1:
                return self.networks[0](inputs)  # type: ignore[no-any-return]
            raise MazeError("these networks belong to one agent each", help="say which agent decides: pass agent_id")
        if torch.compiler.is_compiling():
            return _choose([network(inputs) for network in self.networks], agent_id)
        outputs: TensorDict = {}
        for agent in torch.unique(agent_id).tolist():
            rows = (agent_id == agent).nonzero().squeeze(-1)
            network = self._network(agent)
            if len(rows) == len(agent_id):
                return network(inputs)  # type: ignore[no-any-return]
            own = network({name: _rows_of(name, tensor, rows, agent_id, agent) for name, tensor in inputs.items()})
            for name, tensor in own.items():
                whole = outputs.get(name, tensor.new_zeros(len(agent_id), *tensor.shape[1:]))
                outputs[name] = whole.index_copy(0, rows, tensor)
        return outputs

    def _network(self, agent: int) -> Any:
        if not 0 <= agent < len(self.networks):
            raise MazeError(
                f"agent {agent} has no network",
                expected=f"0 to {len(self.networks) - 1}",
                help="number the agents of a policy key from 0 on, or let them share a network",
            )
        return self.networks[agent]


def _rows_of(name: str, tensor: Tensor, rows: Tensor, agent_id: Tensor, agent: int) -> Tensor:
    return tensor[agent_id[: len(tensor)] == agent] if name.startswith(STATE) else tensor[rows]


def _choose(outputs: list[TensorDict], agent_id: Tensor) -> TensorDict:
    """Row by row from the network of its agent; every network has seen every row, so that shapes are fixed."""
    rows = torch.arange(agent_id.shape[0], device=agent_id.device)  # `len` would be a constant of what is traced
    return {name: torch.stack([output[name] for output in outputs])[agent_id, rows] for name in outputs[0]}


def mirror_by_agent(mirrors: Sequence[Mirror]) -> Callable[..., ArrayDict]:
    """`AgentNetworks` in NumPy, from what mirrors each agent's network."""

    def run(observation: ArrayDict, agent_id: np.ndarray | None = None) -> ArrayDict:
        if agent_id is None:
            return mirrors[0](observation)
        first = int(agent_id[0])
        if (agent_id == first).all():
            return mirrors[first](observation)
        outputs: ArrayDict = {}
        for agent in np.unique(agent_id).tolist():
            rows = agent_id == agent
            for name, array in mirrors[agent]({name: array[rows] for name, array in observation.items()}).items():
                outputs.setdefault(name, np.zeros((len(rows), *array.shape[1:]), array.dtype))[rows] = array
        return outputs

    return run
