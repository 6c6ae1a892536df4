"""What trainers, rollouts and deployment ask of a model.

Two layers. `ActorCritic` is torch: networks by policy key, logits and values with gradients; trainers use it.
`Policy` is NumPy: observations in, actions out, with its own random state and, for recurrent networks, one hidden
state an environment; collectors, evaluation, rollouts and deployment use it. Heuristic and random policies
implement only `Policy`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import numpy as np

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.vector import ArrayDict, Group

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from maze_kernel.contracts.transform import Transform

    TensorDict = dict[str, Tensor]


class Distribution(Protocol):
    """A probability distribution over one action head, as pure functions of its logits.

    There is no object a step: `logits` (B, L) come first in every method. Log-probabilities and entropies of a
    multi-dimensional head are sums over its dimensions, shape (B,).
    """

    logits_shape: tuple[int, ...]
    """Required logits a sample: (L,)."""

    def sample(self, logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(B, ...) actions as the space has them; reparameterised (gradients flow) where the distribution can be."""
        ...

    def mode(self, logits: Tensor) -> Tensor: ...

    def log_prob(self, logits: Tensor, action: Tensor) -> Tensor: ...

    def entropy(self, logits: Tensor) -> Tensor: ...

    def kl(self, logits: Tensor, other_logits: Tensor) -> Tensor:
        """KL(logits ‖ other_logits), (B,)."""
        ...

    def temper(self, logits: Tensor, temperature: float) -> Tensor:
        """Logits of a more deterministic (temperature < 1) or more random (> 1) distribution."""
        ...

    def sample_numpy(self, logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Like `sample`, for the rollout mirror: (B, L) float32 logits to (B, ...) actions."""
        ...

    def mode_numpy(self, logits: np.ndarray) -> np.ndarray: ...


class ActionDistribution(Protocol):
    """The product distribution over the heads of one policy key's Dict action: sums over heads."""

    heads: Mapping[str, Distribution]

    def logits_shapes(self) -> dict[str, tuple[int, ...]]: ...

    def sample(self, logits: TensorDict, generator: torch.Generator | None = None) -> TensorDict: ...

    def mode(self, logits: TensorDict) -> TensorDict: ...

    def log_prob(self, logits: TensorDict, action: TensorDict) -> Tensor: ...

    def entropy(self, logits: TensorDict) -> Tensor: ...

    def log_prob_and_entropy(self, logits: TensorDict, action: TensorDict) -> tuple[Tensor, Tensor]:
        """Both, (B,) each, sharing what they have in common."""
        ...

    def kl(self, logits: TensorDict, other_logits: TensorDict) -> Tensor: ...

    def sample_numpy(self, logits: ArrayDict, rng: np.random.Generator) -> ArrayDict:
        """Like `sample`, on arrays."""
        ...

    def mode_numpy(self, logits: ArrayDict) -> ArrayDict:
        """Like `mode`, on arrays."""
        ...


class ActorCritic(Protocol):
    """A `torch.nn.Module` with one policy network a policy key (or agent) and a critic.

    `parameters()` are every trained tensor; `state_dict()` is what a checkpoint stores. A model may also say in
    `critic_kind` what its values mean in a structured environment; without it that is "shared-state".

    - "shared-state": the state, whoever decides; "step-state": the state for the actor that decides.
    - "delta-state": like "shared-state", but `value` gives the difference to the value at the decision before in the
      same flat step; the first one of a flat step is whole.
    - "state-action": its actions, see `ActionValueModel`; "shared-state-action": likewise, whoever decides.
    """

    spaces: StructuredSpaces
    distributions: Mapping[PolicyKey, ActionDistribution]

    def logits(self, policy_key: PolicyKey, observation: TensorDict, agent_id: Tensor | None = None) -> TensorDict:
        """Head name to (B, L) logits, masks applied; `observation` holds (B, ...) tensors in the space's dtype."""
        ...

    def value(self, policy_key: PolicyKey, observation: TensorDict, agent_id: Tensor | None = None) -> Tensor:
        """State values (B,), or what `critic_kind` makes of them."""
        ...

    def logits_and_value(
        self, policy_key: PolicyKey, observation: TensorDict, agent_id: Tensor | None = None
    ) -> tuple[TensorDict, Tensor]:
        """Both in one pass; shared layers run once."""
        ...

    def numpy_logits(self, policy_key: PolicyKey) -> Any | None:
        """A function that mirrors `logits` in NumPy, or None where a block has no mirror.

        It maps an observation (and, in structured environments, the agents (B,)) to logits, arrays by name. It reads
        the parameters' memory, so it follows every in-place update on the CPU.
        """
        ...

    def policy_state_dict(self) -> dict[str, Tensor]:
        """The part a rollout needs: policy networks without critics."""
        ...

    def make_policy(self, seed: int) -> Policy:
        """What acts with this model's weights as they are at each decision: the model's own acting rule.

        Training, evaluation, rollouts and deployment ask for it alike, wherever the model has travelled.
        `network_policy.NetworkPolicy` samples from the distributions. A policy may explore by another rule, ε-greedy
        for one; asked to be deterministic it never does. Exploration that changes during training is an attribute of
        the policy, set by the trainer that asked for it; everywhere else the policy explores as it was made.

        Args:
            seed: of everything that is drawn.
        """
        ...


class Policy(Protocol):
    """Decides for a group of environments; NumPy in, NumPy out."""

    def act(self, policy_key: PolicyKey, group: Group, *, deterministic: bool = False) -> ArrayDict:
        """Actions by head, rows as in the group: (n, ...) arrays in the action space's dtype."""
        ...

    def begin_episodes(self, env_index: np.ndarray) -> None:
        """New episodes start in these environments: forget their hidden state."""
        ...

    def seed(self, seed: int) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        """Random (and hidden) state, JSON values and arrays; not the weights."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


@attrs.frozen(kw_only=True)
class ModelContext:
    """What the target of a model component is built from.

    `catalog` looks up blocks and distributions by name. `critic` is what the trainer asks for: "state-value", or
    "state-action" for a model that also implements `ActionValueModel`.
    """

    spaces: StructuredSpaces
    catalog: Any
    seed: int = 0
    critic: str = "state-value"


@attrs.frozen(kw_only=True)
class PolicyContext:
    """What the target of a policy component is built from."""

    spaces: StructuredSpaces
    seed: int = 0
    env: Any | None = None
    """One environment of the kind it will act in, for policies that read more than observations."""
    transforms: tuple[Transform, ...] = ()
    """What stands between that environment and the policy, innermost first; bound to its spaces."""
