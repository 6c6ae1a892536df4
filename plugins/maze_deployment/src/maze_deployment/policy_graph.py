"""A policy as one torch module from raw observations to actions: what an exported file holds."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Literal, cast

import torch
from gymnasium import spaces
from torch import Tensor, nn

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import RequestError
from maze_runtime.models.capabilities import RecurrentModel
from maze_runtime.models.recurrence import BEGINS, carries_state, is_of_critic
from maze_runtime.models.tensor_dict import TensorDict

_FLOATS = {"float16": torch.float16, "float32": torch.float32, "float64": torch.float64}

STATE, NEXT_STATE = "state", "next_state"
"""What the names of states begin with where they go into a file and where they leave it."""
ACTOR = "actor"
"""What the name of the agent who decides begins with where it goes into a file."""


def state_names(model: ActorCritic, policy_key: PolicyKey) -> dict[str, str]:
    """The states that acting needs, by their names outside: "policy.recurrence" to "policy:state/model/recurrence"."""
    if not carries_state(model, policy_key):
        return {}
    names = [name for name in cast(RecurrentModel, model).state_shapes(policy_key) if not is_of_critic(name)]
    return {name.replace(":state/", ".").replace(".model/", "."): name for name in names}


def n_agents(model: ActorCritic, policy_key: PolicyKey) -> int:
    """How many agents of a key have networks of their own, so that a file is told who decides; 0: it is not."""
    own: int = model.n_agent_networks(policy_key) if hasattr(model, "n_agent_networks") else 0
    return own if own > 1 else 0


class PolicyGraph(nn.Module):
    """Transforms, encoding, policy network, masks, the mode of the distribution, and transforms of the action.

    Args:
        model: its critics are left out.
        policy_key: the policy that acts.
        transforms: innermost first, bound, with the statistics to use.
        action_space: of the environment; numbers leave in the dtypes it has.

    Attributes:
        heads: of the environment's action, in the order of its space.
        state_shapes: of what the policy carries from step to step, by its name outside; empty: it carries nothing.
        n_agents: see the function.

    Raises:
        RequestError: a transform has no form in torch.
    """

    def __init__(
        self, model: ActorCritic, policy_key: PolicyKey, transforms: Sequence[Transform], *, action_space: spaces.Dict
    ) -> None:
        super().__init__()
        self.policy_key, self.heads = policy_key, tuple(action_space.spaces)
        for transform in transforms:
            _require_torch_form(transform)
        self.model = _without_critics(model)
        self._transforms = tuple(transforms)
        self._dtypes = {head: _FLOATS.get(str(space.dtype)) for head, space in action_space.spaces.items()}
        self._distribution = model.distributions[policy_key]
        self.n_agents = n_agents(model, policy_key)
        self._states = state_names(model, policy_key)
        inner = cast(RecurrentModel, model).state_shapes(policy_key) if self._states else {}
        self.state_shapes = {name: inner[own] for name, own in self._states.items()}

    def forward(
        self, observation: TensorDict, states: TensorDict | None = None, *, agent_id: Tensor | None = None
    ) -> tuple[TensorDict, ...]:
        """One step of B episodes.

        Args:
            observation: (B, ...) of the environment, by key.
            states: (B, S) after the step before, zero where an episode begins; None where there are none.
            agent_id: (B,) int64, who decides; None where agents have no networks of their own.

        Returns:
            (B, ...) actions for the environment and (B, L) logits, by head; and the states (B, S) where there are any.
        """
        key = self.policy_key
        for transform in self._transforms:
            observation = transform.export_observation(key, observation)
        if states is None:
            logits, after = self.model.logits(key, observation, agent_id), None  # type: ignore[operator]
        else:
            logits, after = self._advance(observation, states, agent_id)
        action: TensorDict = self._distribution.mode(logits)
        for transform in reversed(self._transforms):
            action = transform.export_action(key, action)
        actions = {head: action[head].to(self._dtypes[head] or action[head].dtype) for head in self.heads}
        return (actions, logits) if after is None else (actions, logits, after)

    def _advance(
        self, observation: TensorDict, states: TensorDict, agent_id: Tensor | None
    ) -> tuple[TensorDict, TensorDict]:
        inner = {own: states[name] for name, own in self._states.items()}
        inner[BEGINS] = torch.zeros_like(next(iter(inner.values()))[:, 0])
        logits, _, after = self.model.advance(  # type: ignore[operator]
            self.policy_key, {**observation, **inner}, agent_id, with_value=False
        )
        return logits, {name: after[own] for name, own in self._states.items()}


def _require_torch_form(transform: Transform) -> None:
    kind = type(transform)
    if not transform.reports and transform.memory(1) is not None:
        raise RequestError(
            f"the wrapper {kind.__name__} remembers earlier steps, so a policy inside it cannot be exported",
            owner=kind.__module__,
            help="deploy the run with AgentDeployment, which keeps the memory",
        )
    parts: tuple[Literal["observation", "action"], ...] = ("observation", "action")
    for part in parts:
        if transform.changes(part) and not transform.exports(part):
            raise RequestError(
                f"the wrapper {kind.__name__} has no form in torch, so a policy inside it cannot be exported",
                owner=kind.__module__,
                help=f"write {kind.__name__}.export_{part}, or deploy the run with AgentDeployment",
            )


def _without_critics(model: ActorCritic) -> nn.Module:
    """The model without the parts that acting does not need; it shares the weights of the others."""
    needed = model.policy_state_dict()
    clone: nn.Module = copy.copy(model)  # type: ignore[assignment]
    parts = {
        name: part
        for name, part in clone.named_children()
        if any(other.startswith(f"{name}.") for other in needed) or not part.state_dict()
    }
    clone._modules = dict(parts)
    return clone.eval()
