"""Initial bias of policy heads from how often each action is taken, so that training starts from these frequencies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.errors import RequestError
from maze_perception.models.masks import require_head


def head_biases(action: spaces.Dict, frequencies: Mapping[str, Sequence[float]]) -> dict[str, Tensor]:
    """Head name to (L,) biases.

    Args:
        action: the action space of one policy key; heads of other keys are passed over.
        frequencies: head to the probability of each choice: of every value of a Discrete, of the values of every
            dimension of a MultiDiscrete one behind the other, of a 1 for every bit of a MultiBinary.

    Raises:
        RequestError: another number of probabilities, ones that are not positive, or do not sum to 1; a Box head.
    """
    return {
        head: head_bias(head, space, tuple(frequencies[head]))
        for head, space in action.spaces.items()
        if head in frequencies
    }


def check_heads(spaces_: StructuredSpaces, frequencies: Mapping[str, Sequence[float]]) -> None:
    """Refuse frequencies of a head that no policy key has.

    Raises:
        RequestError: names the head, and those that are spelt like it.
    """
    for head in frequencies:
        require_head(spaces_, head, "[model] action_frequencies")


def head_bias(head: str, space: spaces.Space[Any], frequencies: Sequence[float]) -> Tensor:
    """(L,) biases of one head; a softmax (or sigmoid) of them gives back the frequencies."""
    if isinstance(space, spaces.MultiBinary):
        _require(head, frequencies, math.prod(space.shape), below_one=True)
        # σ(b) = p where b = log(p / (1 − p))
        p = torch.tensor(frequencies)
        return (p / (1.0 - p)).log()
    if isinstance(space, spaces.Discrete):
        sizes = [int(space.n)]
    elif isinstance(space, spaces.MultiDiscrete):
        sizes = [int(n) for n in space.nvec.reshape(-1)]
    else:
        raise RequestError(
            f"[model] action_frequencies names the head {head!r}, which has no choices",
            received=str(space),
            expected="a head of Discrete, MultiDiscrete or MultiBinary",
            owner="maze-perception",
        )
    _require(head, frequencies, sum(sizes))
    for part in torch.split(torch.tensor(frequencies), sizes):
        if abs(float(part.sum()) - 1.0) > 1e-3:
            raise _wrong(head, f"{part.tolist()}, which sum to {float(part.sum()):g}", "probabilities that sum to 1")
    # softmax(log p) = p
    return torch.tensor(frequencies).log()


def _require(head: str, frequencies: Sequence[float], size: int, *, below_one: bool = False) -> None:
    if len(frequencies) != size:
        raise _wrong(head, f"{len(frequencies)} numbers", f"{size}, one a choice")
    if any(p <= 0.0 or (below_one and p >= 1.0) for p in frequencies):
        raise _wrong(head, str(list(frequencies)), "numbers between 0 and 1, without these")


def _wrong(head: str, received: str, expected: str) -> RequestError:
    return RequestError(
        f"[model] action_frequencies of the head {head!r} are no frequencies",
        received=received,
        expected=expected,
        owner="maze-perception",
    )
