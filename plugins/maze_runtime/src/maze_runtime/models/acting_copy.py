"""Networks that act on the CPU while they are trained on a GPU."""

from __future__ import annotations

import copy
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from maze_kernel.contracts.env import PolicyKey
from maze_runtime.models.capabilities import AdvancesInNumPy
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.flat_state import buffers_of

FlatT = TypeVar("FlatT", FlatParameters, None)


class ActingCopy(Generic[FlatT]):
    """Who acts: small networks by a copy on the CPU, where NumPy answers sooner than a GPU could be asked.

    A copy is made where the model is on another device and every policy has a NumPy mirror; else the model acts itself.

    Args:
        model: being trained, on its device.
        flat: parameters of it that change, those of the policies among them; None: anything may.

    Attributes:
        model: who acts.
        flat: the parameters of who acts that change.
    """

    def __init__(self, model: Any, flat: FlatT) -> None:
        self.model = model
        self.flat: FlatT = flat
        self._trained, self._changing = model, flat
        if _is_on_cpu(next(model.parameters(), None) if flat is None else flat.data):
            return
        on_cpu = copy.deepcopy(model).to(torch.device("cpu"))
        if not all(_acts_in_numpy(on_cpu, key) for key in on_cpu.spaces.policy_keys):
            return
        self.model, self._buffers = on_cpu, buffers_of(model)
        if flat is not None:
            taken = {id(parameter) for parameter in flat.parameters}
            pairs = zip(model.parameters(), on_cpu.parameters(), strict=True)
            self.flat = FlatParameters(on_cpu, [copied for own, copied in pairs if id(own) in taken])
            shapes = [[own.shape for own in each.parameters] for each in (self.flat, flat)]
            assert shapes[0] == shapes[1], "another order"

    def refresh(self) -> None:
        """Take the newest weights, once a rollout."""
        if self.model is self._trained:
            return
        if self.flat is None or self._changing is None:
            self.model.load_state_dict(self._trained.state_dict())
        else:
            self.flat.data.copy_(self._changing.data)
            if self._buffers:
                own, trained = self.model.state_dict(), self._trained.state_dict()
                for name in self._buffers:
                    own[name].copy_(trained[name])


def _is_on_cpu(weights: Tensor | None) -> bool:
    return weights is None or weights.device.type == "cpu"


def _acts_in_numpy(model: Any, policy_key: PolicyKey) -> bool:
    if model.numpy_logits(policy_key) is not None:
        return True
    return isinstance(model, AdvancesInNumPy) and model.numpy_advance(policy_key) is not None
