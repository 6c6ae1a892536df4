"""A network that acts: the NumPy side of an actor-critic, with its own random state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast, final

import numpy as np
import torch
from torch import Tensor, nn

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.vector import ArrayDict, Group
from maze_kernel.errors import RequestError
from maze_runtime.models.capabilities import AdvancesInNumPy, RecurrentModel, SamplesDistributions, SamplesNatively
from maze_runtime.models.captured_calls import CapturedCalls
from maze_runtime.models.evaluation_mode import evaluation_mode
from maze_runtime.models.recurrence import BEGINS, ActingStates, carries_state, is_of_critic
from maze_runtime.models.recurrent_mirror import RecurrentMirror
from maze_runtime.models.same_operations import FixedOperations

N_PLAIN = 50
"""Evaluations often end before a number of rows was met so often."""
_TRAIN_OTHERWISE = "train it with the trainer that it was written for"


@final
class NetworkPolicy:
    """Acts with the current weights of `model`: samples its distributions, or takes their modes.

    Small networks on the CPU are evaluated by their NumPy mirror, which reads the parameters' own memory: half the cost
    of a torch call at rollout batch sizes, a fifth with a recurrent layer. Everything else runs in torch's inference
    and evaluation mode, on a GPU as one CUDA graph. Actions are drawn from NumPy's random numbers in any case, in C++
    where updates are compiled, so all take the same ones and a fully masked head is an error.

    Args:
        model: an actor-critic; its weights are read, never changed.
        seed: of the action samples.
        mirror: False forces the torch path.

    Attributes:
        last_logits: of the last `act`; the next one may overwrite them.
        last_value: (n,) of the rows of the last `act`, after `keep_values`.
    """

    def __init__(self, model: ActorCritic, seed: int = 0, *, mirror: bool = True) -> None:
        self.model = model
        self._modules = tuple(cast(nn.Module, model).modules())
        self._is_flat = model.spaces.is_flat
        self._samplers = _native_samplers(model) if mirror else {}
        self._mirrors = {key: model.numpy_logits(key) if mirror else None for key in model.spaces.policy_keys}
        self._evaluate: Callable[..., Any] = self._evaluate_plainly
        self._step: Callable[..., Any] = self._advance_plainly
        device = next(iter(model.parameters()), torch.empty(0)).device  # type: ignore[attr-defined]
        if device.type == "cuda":
            is_fixed = FixedOperations([cast(nn.Module, model)]).are_fixed
            self._evaluate, self._step = (
                CapturedCalls(function, device, is_fixed, n_plain=N_PLAIN, what="acting")
                for function in (self._evaluate_plainly, self._advance_plainly)
            )
        self._states = acting_states(model)
        self._recurrent_mirrors = _recurrent_mirrors(model, self._states) if mirror else {}
        self.last_logits: ArrayDict = {}
        self.last_value = np.zeros(0, np.float32)
        self._keeps_values = False
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Restart the random stream."""
        self._rng = np.random.default_rng(seed)

    def draw_seeds(self, n_seeds: int) -> list[int]:
        """See `SamplesDistributions`, which this policy offers."""
        seeds: list[int] = self._rng.integers(1 << 31, size=n_seeds).tolist()
        return seeds

    @property
    def is_mirrored(self) -> bool:
        """Every policy key acts in NumPy."""
        return all(mirror is not None for mirror in self._mirrors.values())

    def keep_values(self) -> bool:
        """Leave values in `last_value` from now on, where they cost little; returns whether that is so.

        It is where policy and critic share layers that run in torch and carry no state: images above all.
        """
        shares = getattr(self.model, "shares_layers", None)
        key = self.model.spaces.policy_keys[0]
        plain = self._is_flat and self._mirrors[key] is None and not carries_state(self.model, key)
        self._keeps_values = bool(plain and shares is not None and shares(key))
        return self._keeps_values

    def begin_episodes(self, env_index: np.ndarray) -> None:
        """Forget the states of these environments; feed-forward networks have none."""
        for states in self._states.values():
            states.clear(env_index)

    def act(self, policy_key: PolicyKey, group: Group, *, deterministic: bool = False) -> ArrayDict:
        """Actions (n, ...) by head for the rows of `group`."""
        logits = self.last_logits = self.logits(policy_key, group)
        distribution = self.model.distributions[policy_key]
        if deterministic:
            return distribution.mode_numpy(logits)
        sample = self._samplers.get(policy_key, distribution.sample_numpy)
        return sample(logits, self._rng)

    def logits(self, policy_key: PolicyKey, group: Group) -> ArrayDict:
        """Logits (n, L) by head, masks applied; recurrent networks go on by one step."""
        mirror = self._mirrors[policy_key]
        if mirror is None:
            advance = self._recurrent_mirrors.get(policy_key)
            return self._torch_logits(policy_key, group) if advance is None else self._go_on(policy_key, group, advance)
        mirrored: ArrayDict = mirror(group.observation) if self._is_flat else mirror(group.observation, group.agent_id)
        return mirrored

    def _go_on(self, policy_key: PolicyKey, group: Group, advance: RecurrentMirror) -> ArrayDict:
        """`_advance` in NumPy."""
        states = self._states[policy_key]
        before = states.read(group.env_index, group.agent_id)
        before[BEGINS] = np.zeros(len(group.env_index), np.float32)
        logits, after = advance({**group.observation, **before})
        states.write(group.env_index, group.agent_id, after)
        return logits

    def _torch_logits(self, policy_key: PolicyKey, group: Group) -> ArrayDict:
        with torch.inference_mode():
            observation = {
                name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in group.observation.items()
            }
            agent_id = None if self.model.spaces.is_flat else torch.from_numpy(group.agent_id)
            if policy_key in self._states:
                logits = self._advance(policy_key, group, observation, agent_id)
            else:
                logits, value = self._evaluate(policy_key, observation, agent_id)
                if value is not None:
                    self.last_value = value.cpu().numpy()
            return {name: tensor.cpu().numpy() for name, tensor in logits.items()}

    def _advance(
        self, policy_key: PolicyKey, group: Group, observation: dict[str, Tensor], agent_id: Tensor | None
    ) -> dict[str, Tensor]:
        """Logits of one step, from the states of the group's rows, which are kept for the next one."""
        states = self._states[policy_key]
        before = states.read(group.env_index, group.agent_id)
        inputs = {**observation, **{name: torch.from_numpy(rows) for name, rows in before.items()}}
        inputs[BEGINS] = torch.zeros(len(group.env_index))
        logits: dict[str, Tensor]
        logits, after = self._step(policy_key, inputs, agent_id)
        states.write(group.env_index, group.agent_id, {name: after[name].cpu().numpy() for name in before})
        return logits

    def _evaluate_plainly(
        self, policy_key: PolicyKey, observation: dict[str, Tensor], agent_id: Tensor | None
    ) -> tuple[dict[str, Tensor], Tensor | None]:
        """Logits by head, and values (n,) where they are kept."""
        with evaluation_mode(self._modules):
            if self._keeps_values:
                return self.model.logits_and_value(policy_key, observation)
            return self.model.logits(policy_key, observation, agent_id), None

    def _advance_plainly(
        self, policy_key: PolicyKey, inputs: dict[str, Tensor], agent_id: Tensor | None
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Logits by head, and states after the step."""
        recurrent = cast(RecurrentModel, self.model)
        with evaluation_mode(self._modules):
            logits, _, after = recurrent.advance(policy_key, inputs, agent_id, with_value=False)
        return logits, after

    def state_dict(self) -> dict[str, Any]:
        """The random state, and the states of recurrent networks."""
        state: dict[str, Any] = {"rng": self._rng.bit_generator.state}
        if self._states:
            state["states"] = {key: states.state_dict() for key, states in self._states.items()}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._rng.bit_generator.state = state["rng"]
        for key, states in self._states.items():
            states.load_state_dict(state["states"][key])


def require_sampling(model: ActorCritic, owner: str, help: str = _TRAIN_OTHERWISE) -> None:
    """Refuse a model that acts by a rule of its own, for whoever takes its distributions for what acts.

    Raises:
        RequestError: its policy does not offer `SamplesDistributions`.
    """
    policy = model.make_policy(0)
    if not isinstance(policy, SamplesDistributions):
        raise RequestError(
            f"{type(model).__name__} acts by a rule of its own, not by its action distributions",
            received=f"the policy {type(policy).__name__}",
            expected="a model whose policy samples from its distributions",
            owner=owner,
            help=help,
        )


def _native_samplers(model: ActorCritic) -> dict[PolicyKey, Callable[[ArrayDict, np.random.Generator], ArrayDict]]:
    """By policy key, where the model offers one."""
    if not isinstance(model, SamplesNatively):
        return {}
    samplers = {key: model.native_sampler(key) for key in model.spaces.policy_keys}
    return {key: sampler for key, sampler in samplers.items() if sampler is not None}


def acting_states(model: ActorCritic) -> dict[PolicyKey, ActingStates]:
    """Where the states that acting needs are kept, for the policy keys whose networks carry any."""
    recurrent = cast(RecurrentModel, model)
    keys = [key for key in model.spaces.policy_keys if carries_state(model, key)]
    shapes = {key: _without_critic(recurrent.state_shapes(key)) for key in keys}
    return {key: ActingStates(own) for key, own in shapes.items() if own}


def _recurrent_mirrors(model: ActorCritic, policy_keys: Iterable[PolicyKey]) -> dict[PolicyKey, RecurrentMirror]:
    """NumPy forms of networks that carry state, of the policy keys that have one."""
    if not isinstance(model, AdvancesInNumPy):
        return {}
    mirrors = {key: model.numpy_advance(key) for key in policy_keys}
    return {key: mirror for key, mirror in mirrors.items() if mirror is not None}


def _without_critic(shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    return {name: shape for name, shape in shapes.items() if not is_of_critic(name)}
