"""A policy as one torch module from raw observations to actions: what an exported file holds."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import RequestError

TensorDict = dict[str, Tensor]


class PolicyGraph(nn.Module):
    """Transforms, encoding, policy network, masks, the mode of the distribution, and transforms of the action.

    Args:
        model: its critics are left out.
        policy_key: the policy that acts.
        transforms: innermost first, bound, with the statistics to use.
        heads: of the environment's action, in the order of its space.

    Raises:
        RequestError: a transform has no form in torch.
    """

    def __init__(
        self, model: ActorCritic, policy_key: PolicyKey, transforms: Sequence[Transform], *, heads: Sequence[str]
    ) -> None:
        super().__init__()
        self.policy_key, self.heads = policy_key, tuple(heads)
        for transform in transforms:
            _require_torch_form(transform)
        self.model = _without_critics(model)
        self._transforms = tuple(transforms)
        self._distribution = model.distributions[policy_key]

    def forward(self, observation: TensorDict) -> tuple[TensorDict, TensorDict]:
        """(B, ...) observations of the environment, by key, to (B, ...) actions for it and (B, L) logits, by head."""
        key = self.policy_key
        for transform in self._transforms:
            observation = transform.export_observation(key, observation)
        logits = self.model.logits(key, observation)  # type: ignore[operator]
        action: TensorDict = self._distribution.mode(logits)
        for transform in reversed(self._transforms):
            action = transform.export_action(key, action)
        return {head: action[head] for head in self.heads}, logits


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
