"""What SAC needs of an action space: probabilities of every choice, reparameterised numbers, the target entropy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn.functional import logsigmoid

from maze_kernel.contracts.model import ActionDistribution, Distribution
from maze_kernel.errors import SpaceError
from maze_runtime.models.action_encoding import ActionEncoder, segments_of
from maze_runtime.models.capabilities import SamplesWithLogProb
from maze_runtime.models.tensor_dict import TensorDict

OWNER = "maze-sac"


class ActionHeads:
    """The heads of a Dict action under the distributions of a model.

    Args:
        space: of the only policy key.
        distribution: over it.
        encoder: the layout of encoded actions.

    Attributes:
        is_discrete: every head chooses; expectations are exact.
        is_mixed: some heads choose and some are numbers.

    Raises:
        SpaceError: a Box head whose distribution gives no gradients, or a choice whose logits are no log-probabilities.
    """

    def __init__(self, space: spaces.Dict, distribution: ActionDistribution, encoder: ActionEncoder) -> None:
        self.encoder = encoder
        self.is_discrete = encoder.is_enumerable
        self.is_mixed = bool(encoder.choices) and not self.is_discrete
        # Plain values: compiled code reads no space objects.
        self._segments = {name: segments_of(space[name]) for name in encoder.choices}
        self._bits = {name for name in encoder.choices if isinstance(space[name], spaces.MultiBinary)}
        self._distribution = distribution
        for name in encoder.numbers:
            _require_gradient(name, space[name], distribution.heads[name])
        for name in encoder.choices:
            self._require_log_probabilities(name, space[name])
        heads = distribution.heads
        self._draws = {name: _draw(head, with_log_prob=name in encoder.numbers) for name, head in heads.items()}

    def log_probs(self, logits: TensorDict) -> Tensor:
        """Log-probability of every option of every choice, (B, K)."""
        parts = [self._log_probs(name, logits[name]) for name in self.encoder.choices]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def sample(self, logits: TensorDict) -> tuple[Tensor, Tensor]:
        """Encoded actions (B, A), with gradients through the numbers, and the log-density (B,) of the encoded numbers.

        Bounded numbers count from −1 to 1, so that the unit an action is given in changes neither the worth of
        entropy nor whether its target can be reached.
        """
        action, numbers = {}, []
        for name, draw in self._draws.items():
            action[name], log_prob = draw(logits[name])
            if log_prob is not None:
                numbers.append(log_prob)
        total = numbers[0]
        for term in numbers[1:]:
            total = total + term
        if self.encoder.log_scale:
            total = total + self.encoder.log_scale
        return self.encoder.encode(action), total

    def draw_choices(self, logits: TensorDict) -> Tensor:
        """One-hots (B, K) of an action of heads that all choose, without gradients."""
        return self.encoder.encode({name: draw(logits[name].detach())[0] for name, draw in self._draws.items()})

    def chosen(self, encoded: Tensor, log_probs: Tensor) -> Tensor:
        """Log-probability of the choices in encoded actions, (B,)."""
        return (encoded[:, : self.encoder.n_choices] * log_probs).sum(-1)

    def target_entropy(self, multiplier: float) -> float:
        """Multiplier times (−1 a Box dimension from −1 to 1, 0.98 log n a choice of n), in nats.

        Source: Haarnoja et al. 2018b, appendix D; Christodoulou 2019, section 5.
        """
        n_numbers = self.encoder.size - self.encoder.n_choices
        return multiplier * (0.98 * sum(math.log(n) for n in self.encoder.segments) - n_numbers)

    def _log_probs(self, name: str, logits: Tensor) -> Tensor:
        if name in self._bits:
            return bit_log_probs(logits)
        return choice_log_probs(logits, self._segments[name])

    def _require_log_probabilities(self, name: str, space: spaces.Space[Any]) -> None:
        """Compare the head's own log-probability of a few actions with ours."""
        head = self._distribution.heads[name]
        rng = np.random.default_rng(0)
        logits = torch.from_numpy(rng.standard_normal((4, *head.logits_shape)).astype(np.float32))
        action = head.mode(logits)
        alone = ActionEncoder(spaces.Dict({name: space}))
        try:
            ours = (alone.encode({name: action}) * self._log_probs(name, logits)).sum(-1)
            fits = torch.allclose(ours, head.log_prob(logits, action), rtol=1e-3, atol=1e-4)
        except RuntimeError:
            fits = False
        if not fits:
            raise SpaceError(
                f"sac cannot read the probabilities of action head {name!r}",
                received=f"{type(head).__name__} over {space}",
                expected="categorical, multi-categorical or bernoulli logits",
                owner=OWNER,
                help="leave the head its default distribution",
            )


def _draw(head: Distribution, *, with_log_prob: bool) -> Callable[[Tensor], tuple[Tensor, Tensor | None]]:
    """Logits (B, L) to a sample and, where asked for, its log-probability (B,)."""
    if not with_log_prob:
        return lambda logits: (head.sample(logits), None)
    if isinstance(head, SamplesWithLogProb):
        return head.sample_and_log_prob

    def draw(logits: Tensor) -> tuple[Tensor, Tensor]:
        sample = head.sample(logits)
        return sample, head.log_prob(logits, sample)

    return draw


def choice_log_probs(logits: Tensor, segments: list[int]) -> Tensor:
    """Log-probability of every option of choices of `segments` options, (B, K) to (B, K)."""
    parts = [part.log_softmax(-1) for part in torch.split(logits, segments, dim=-1)]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def bit_log_probs(logits: Tensor) -> Tensor:
    """Log-probability of 0 and of 1 of every bit, (B, D) to (B, 2D)."""
    return torch.stack((logsigmoid(-logits), logsigmoid(logits)), dim=-1).flatten(1)


def _require_gradient(name: str, space: spaces.Space[Any], head: Any) -> None:
    logits = torch.zeros((1, *head.logits_shape), requires_grad=True)
    with torch.random.fork_rng(devices=[]):
        sample = head.sample(logits)
    if not sample.requires_grad:
        raise SpaceError(
            f"sac needs reparameterised samples of action head {name!r}",
            received=f"{type(head).__name__} over {space}",
            expected="a distribution whose samples carry gradients, such as squashed-gaussian",
            owner=OWNER,
        )
