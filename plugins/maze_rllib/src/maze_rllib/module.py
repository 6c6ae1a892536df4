"""RLlib's modules around a Maze model: what PPO, IMPALA, APPO and DQN call instead of networks of RLlib's making.

Each holds a copy of the whole `ActorCritic`. RLlib sends flat logits to and fro; the model's own networks, blocks,
masks and distributions decide. SAC's is in `soft_actor_critic`.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.core.rl_module.apis import TARGET_NETWORK_ACTION_DIST_INPUTS, QNetAPI, TargetNetworkAPI, ValueFunctionAPI
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.utils.schedules.scheduler import Scheduler
from torch import Tensor

from maze_kernel.contracts.model import ActorCritic
from maze_rllib.distribution import MazeDistribution, distribution_class, join_logits
from maze_runtime.models.masking import MASKED_LOGIT, MaskError
from maze_runtime.models.tensor_dict import TensorDict

MODEL = "actor_critic"
"""Name of the model inside a module, and of its entry in `model_config`."""
POLICY_KEY = "policy_key"
"""Name of the entry of `model_config` that says which policy key a module decides for."""


class MazeModule(TorchRLModule):  # type: ignore[misc,unused-ignore]
    """What all modules share: the model, and how a batch of RLlib's becomes an observation."""

    actor_critic: Any

    def setup(self) -> None:
        """Called by RLlib once the module is made."""
        model: ActorCritic = copy.deepcopy(self.model_config[MODEL])
        self.policy_key: str = self.model_config[POLICY_KEY]
        self.actor_critic = model
        self._names = tuple(model.spaces.observation[self.policy_key].spaces)
        self._distribution = distribution_class(model.distributions[self.policy_key])

    def get_inference_action_dist_cls(self) -> type[MazeDistribution]:
        """The class that makes distributions of logits, for acting and for learning."""
        return self._distribution

    def observation(self, batch: dict[str, Any], column: str = Columns.OBS) -> TensorDict:
        """Name to (B, ...) tensors."""
        observation = batch[column]
        return dict(observation) if isinstance(observation, dict) else {self._names[0]: observation}

    def joined_logits(self, batch: dict[str, Any], column: str = Columns.OBS, model: Any = None) -> Tensor:
        """Logits (B, L) of all heads."""
        model = self.actor_critic if model is None else model
        return join_logits(model.logits(self.policy_key, self.observation(batch, column)))

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {Columns.ACTION_DIST_INPUTS: self.joined_logits(batch)}


class ActorCriticModule(MazeModule, ValueFunctionAPI):  # type: ignore[misc,unused-ignore]
    """For PPO and IMPALA: logits, and the critic's values from the same pass."""

    def _forward_train(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        logits, value = self.actor_critic.logits_and_value(self.policy_key, self.observation(batch))
        # What RLlib hands to `compute_values` as embeddings are the values themselves.
        return {Columns.ACTION_DIST_INPUTS: join_logits(logits), Columns.EMBEDDINGS: value}

    def compute_values(self, batch: dict[str, Any], embeddings: Tensor | None = None) -> Tensor:
        """State values (B,)."""
        if embeddings is not None:
            return embeddings
        value: Tensor = self.actor_critic.value(self.policy_key, self.observation(batch))
        return value


class TargetedActorCriticModule(ActorCriticModule, TargetNetworkAPI):  # type: ignore[misc,unused-ignore]
    """For APPO, which clips against the policy of some updates ago."""

    def make_target_networks(self) -> None:
        """A copy that follows."""
        self._target = make_target_network(self.actor_critic)

    def get_target_network_pairs(self) -> list[tuple[Any, Any]]:
        """The model and its copy."""
        return [(self.actor_critic, self._target)]

    def forward_target(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The copy's logits."""
        return {TARGET_NETWORK_ACTION_DIST_INPUTS: self.joined_logits(batch, model=self._target)}


class QNetworkModule(MazeModule, QNetAPI, TargetNetworkAPI):  # type: ignore[misc,unused-ignore]
    """For DQN: the logits of the one head, a Discrete, are its action values.

    Explores ε-greedily among what is allowed.

    Source: Mnih et al. 2015; van Hasselt, Guez, Silver 2016 for `double_q`.
    """

    def setup(self) -> None:
        """Called by RLlib once the module is made."""
        super().setup()
        schedule = self.model_config["epsilon"]
        self._epsilon = Scheduler(fixed_value_or_schedule=schedule, framework=self.framework)
        self._is_double = bool(self.model_config["double_q"])

    def make_target_networks(self) -> None:
        """A copy that follows."""
        self._target = make_target_network(self.actor_critic)

    def get_target_network_pairs(self) -> list[tuple[Any, Any]]:
        """The model and its copy."""
        return [(self.actor_critic, self._target)]

    def compute_q_values(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """Action values (B, A) under RLlib's name for them."""
        return {"qf_preds": self.joined_logits(batch)}

    def forward_target(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """The copy's action values."""
        return {"qf_preds": self.joined_logits(batch, model=self._target)}

    def _forward_inference(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        with torch.no_grad():
            return {Columns.ACTIONS: self.joined_logits(batch).argmax(dim=-1)}

    def _forward_exploration(self, batch: dict[str, Any], t: int = 0, **_: Any) -> dict[str, Any]:
        self._epsilon.update(t)
        epsilon = float(self._epsilon.get_current_value())
        with torch.no_grad():
            values = self.joined_logits(batch)
            explores = torch.rand(len(values), device=values.device) < epsilon
            return {Columns.ACTIONS: torch.where(explores, _allowed(values), values.argmax(dim=-1))}

    def _forward_train(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        values = self.joined_logits(batch)
        with torch.no_grad():
            target = self.joined_logits(batch, Columns.NEXT_OBS, self._target)
            following = self.joined_logits(batch, Columns.NEXT_OBS) if self._is_double else target
        return {"qf_preds": values, "qf_target_next_preds": target, "qf_next_preds": following}


def _allowed(values: Tensor) -> Tensor:
    """One choice a row (B,), uniform over those that no mask forbids.

    Raises:
        MaskError: a row where all are forbidden.
    """
    allowed = (values > 0.5 * MASKED_LOGIT).float()
    if not bool(allowed.any(dim=-1).all()):
        raise MaskError(
            "an action mask forbids every choice",
            expected="at least one allowed choice",
            help="allow one choice (a no-op, say) in every state, or end the episode there",
        )
    return torch.multinomial(allowed, 1).squeeze(-1)
