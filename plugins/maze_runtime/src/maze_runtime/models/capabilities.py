"""What a model, a policy or a distribution may offer beyond its contract: trainers ask for it, or go the plain way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import ActorCritic

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor

    from maze_kernel.contracts.vector import ArrayDict
    from maze_runtime.models.native_evaluation import NativeEvaluation
    from maze_runtime.models.recurrent_mirror import RecurrentMirror

    TensorDict = dict[str, Tensor]
    ArraySampler = Callable[[np.ndarray, np.random.Generator], np.ndarray]


@runtime_checkable
class SamplesWithLogProb(Protocol):
    """What a distribution may offer beside `Distribution`: samples whose log-probability needs no inversion."""

    def sample_and_log_prob(self, logits: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """What `sample` returns, (B, ...), and its log-probability (B,), both with gradients."""
        ...


class DrawsNatively(Protocol):
    """What a distribution may offer beside `Distribution`: samples drawn in C++, for steps of a few rows."""

    def native_sampler(self) -> ArraySampler | None:
        """`sample_numpy` for one thread, with the same random numbers; None where there is no compiler."""
        ...


@runtime_checkable
class EvaluatesKeysTogether(Protocol):
    """What a model may offer beside `ActorCritic`: rows of several policy keys at once, where their networks share."""

    def logits_and_values(
        self, observations: Mapping[PolicyKey, TensorDict], agent_ids: Mapping[PolicyKey, Tensor]
    ) -> tuple[dict[PolicyKey, TensorDict], Tensor]:
        """Like `logits_and_value` for the rows (B_k, ...) of each policy key.

        Returns:
            Logits by policy key, and values (B,): one key's rows behind the other's, in the order of `observations`.
        """
        ...


@runtime_checkable
class ArrangesObservations(Protocol):
    """What a model may offer beside `ActorCritic`: how it would lay observations out in memory for a gradient."""

    def arranged(self, policy_key: PolicyKey, observation: TensorDict) -> TensorDict:
        """The same numbers (B, ...) in that layout, for observations that several gradients are taken of."""
        ...


@runtime_checkable
class GroupsParameters(Protocol):
    """What a model may offer beside `ActorCritic`: which of its parameters serve which policy key, for statistics."""

    def parameters_by_key(self) -> dict[str, dict[PolicyKey, list[torch.nn.Parameter]]]:
        """By role, "policy" or "critic", and policy key.

        Layers that both roles share are the policy's; what serves several keys is left out.
        """
        ...


@runtime_checkable
class NamesHeadLayers(Protocol):
    """What a model may offer beside `ActorCritic`: which weights make the logits of which action head."""

    def head_layers(self, policy_key: PolicyKey) -> dict[str, list[str]]:
        """Action head to the paths of the modules that give its logits and nothing else; of heads that have such."""
        ...


class ActionValues(Protocol):
    """Twin Q networks of one policy key, a `torch.nn.Module`.

    Attributes:
        action_encoder: turns actions into what the networks read.
    """

    action_encoder: Any

    def __call__(self, observation: TensorDict, encoded_action: Tensor | None = None) -> Tensor:
        """Action values: (2, B, K) of every choice, or (2, B) of the encoded actions (B, A)."""
        ...

    def first(self, observation: TensorDict, encoded_action: Tensor) -> Tensor:
        """Values of the first network alone, (B,), for a policy that climbs it."""
        ...


class ActionValueModel(ActorCritic, Protocol):
    """An actor-critic whose critics are twin Q networks; it has no state values."""

    def action_value_critic(self, policy_key: PolicyKey) -> ActionValues:
        """The twins of one policy key, a part of the model: their parameters are among the model's."""
        ...


class RecurrentModel(ActorCritic, Protocol):
    """An actor-critic whose networks may carry state from step to step of an episode; see `models.recurrence`.

    Where `state_shapes` is not empty, every method of `ActorCritic` wants more in `observation`: each state (B, S)
    before the first of T steps of B sequences, and `recurrence.BEGINS` (T·B,). All other entries have T·B rows.
    """

    def state_shapes(self, policy_key: PolicyKey) -> dict[str, tuple[int, ...]]:
        """Name to shape (S,) of each state, zero where an episode begins; those of the critic begin with "critic:"."""
        ...

    def advance(
        self, policy_key: PolicyKey, observation: TensorDict, agent_id: Tensor | None = None, *, with_value: bool = True
    ) -> tuple[TensorDict, Tensor | None, TensorDict]:
        """Logits, values (T·B,) and each state (T·B, S) after each row; without values, without the critic's states."""
        ...


@runtime_checkable
class AdvancesInNumPy(Protocol):
    """What a `RecurrentModel` may offer for acting on the CPU."""

    def numpy_advance(self, policy_key: PolicyKey) -> RecurrentMirror | None:
        """One step of `advance` without values, in NumPy; None where acting carries no state or a block cannot.

        Ask after the last move of the parameters to another device or dtype. In-place updates are followed.
        """
        ...


@runtime_checkable
class EvaluatesOutsideTorch(Protocol):
    """What a model may offer beside `ActorCritic`, while its updates are compiled."""

    def native_evaluation(self, policy_key: PolicyKey) -> NativeEvaluation | None:
        """Logits and values of a flat environment's rows, where that takes less time than torch; else None.

        Ask after the last move of the parameters to another device or dtype. In-place updates are followed.
        """
        ...


@runtime_checkable
class SamplesNatively(Protocol):
    """What a model may offer beside `ActorCritic`, while its updates are compiled."""

    def native_sampler(self, policy_key: PolicyKey) -> Callable[[ArrayDict, np.random.Generator], ArrayDict] | None:
        """`sample_numpy` of a policy key's distribution, partly in C++, for one thread; None: not so."""
        ...


@runtime_checkable
class SamplesDistributions(Protocol):
    """What a policy may offer beside `Policy`: every action is a sample of its model's distributions, or their mode.

    Whoever has the model and a seed can then act in its place: workers that collect by themselves, a population of
    perturbed weights, an exported file. A policy with another rule must not offer it, nor inherit from one that does.
    """

    model: ActorCritic

    @property
    def is_mirrored(self) -> bool:
        """Every policy key acts in NumPy."""
        ...

    def draw_seeds(self, n_seeds: int) -> list[int]:
        """Seeds for copies of this policy elsewhere, from its random stream."""
        ...
