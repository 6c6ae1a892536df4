"""Distributions over one choice of n, and over several independent choices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from maze_distributions.shapes import flatten_action, unflatten_action
from maze_kernel.errors import SpaceError
from maze_runtime.models.device_constants import DeviceConstants
from maze_runtime.models.masking import MASKED_BELOW, MASKED_LOGIT, check_rows
from maze_runtime.models.same_operations import same_operations
from maze_runtime.native.choices import ChoiceSampler, can_draw

if TYPE_CHECKING:
    from maze_runtime.models.capabilities import ArraySampler

_TINY = 1e-20


def _gumbel_argmax(logits: Tensor, generator: torch.Generator | None) -> Tensor:
    """argmax(logits − log E), E ~ Exp(1), is a draw from softmax(logits) (the Gumbel-max trick)."""
    noise = torch.empty_like(logits).exponential_(generator=generator)
    return (logits - (noise + _TINY).log()).argmax(-1)


def _gumbel_argmax_numpy(logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    noise = rng.standard_exponential(logits.shape, dtype=np.float32)
    noise += _TINY
    np.log(noise, out=noise)
    np.subtract(logits, noise, out=noise)
    choice: np.ndarray = noise.argmax(-1)
    return choice


def _entropy(log_probabilities: Tensor) -> Tensor:
    """H = −Σ p log p; a masked entry contributes 0 · (large finite) = 0."""
    return -(log_probabilities.exp() * log_probabilities).sum(-1)


def _temper(logits: Tensor, temperature: float) -> Tensor:
    """Logits (..., n) of softmax(logits / T), the highest 0: small ones are no masks, and masks stay."""
    tempered = (logits - logits.amax(-1, keepdim=True)) / temperature
    return torch.where(logits <= MASKED_BELOW, logits, tempered.clamp(min=MASKED_LOGIT))


def _kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    """KL = Σ p (log p − log q)."""
    return (log_p.exp() * (log_p - log_q)).sum(-1)


@same_operations
class Categorical:
    """One of n choices with probabilities softmax(logits).

    Args:
        space: a Discrete space; actions count from its `start`.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        if not isinstance(space, spaces.Discrete):
            raise SpaceError("categorical cannot serve this action space", received=str(space), expected="Discrete")
        self.start = int(space.start)
        self.logits_shape = (int(space.n),)

    def sample(self, logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(B, n) to (B,) int64."""
        return self._to_space(_gumbel_argmax(logits, generator))

    def mode(self, logits: Tensor) -> Tensor:
        """The most likely choice, (B,) int64."""
        return self._to_space(logits.argmax(-1))

    def log_prob(self, logits: Tensor, action: Tensor) -> Tensor:
        """(B, n), (B,) to (B,)."""
        return self._pick(logits.log_softmax(-1), action)

    def entropy(self, logits: Tensor) -> Tensor:
        """(B, n) to (B,), in nats."""
        return _entropy(logits.log_softmax(-1))

    def log_prob_and_entropy(self, logits: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Both from one log-softmax."""
        log_probabilities = logits.log_softmax(-1)
        return self._pick(log_probabilities, action), _entropy(log_probabilities)

    def kl(self, logits: Tensor, other_logits: Tensor) -> Tensor:
        """KL(logits ‖ other_logits), (B,)."""
        return _kl(logits.log_softmax(-1), other_logits.log_softmax(-1))

    def temper(self, logits: Tensor, temperature: float) -> Tensor:
        """softmax(logits / T)."""
        return _temper(logits, temperature)

    def sample_numpy(self, logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Like `sample`; a fully masked row raises MaskError."""
        check_rows(logits)
        choice = _gumbel_argmax_numpy(logits, rng)
        return choice + self.start if self.start else choice

    def native_sampler(self) -> ArraySampler | None:
        """See `DrawsNatively`."""
        if not can_draw():
            return None
        draw, start = ChoiceSampler(self.logits_shape), self.start

        def sample(logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            choice = draw(logits, rng)
            if choice is None:
                return self.sample_numpy(logits, rng)
            return choice[:, 0] + start if start else choice[:, 0].copy()

        return sample

    def mode_numpy(self, logits: np.ndarray) -> np.ndarray:
        """Like `mode`; a fully masked row raises MaskError."""
        check_rows(logits)
        choice: np.ndarray = logits.argmax(-1)
        return choice + self.start if self.start else choice

    def _to_space(self, choice: Tensor) -> Tensor:
        return choice + self.start if self.start else choice

    def _pick(self, log_probabilities: Tensor, action: Tensor) -> Tensor:
        choice = action.long()
        if self.start:
            choice = choice - self.start
        return log_probabilities.gather(-1, choice.unsqueeze(-1)).squeeze(-1)


@same_operations
class MultiCategorical:
    """K independent choices; the logits of the dimensions stand one behind the other.

    Args:
        space: a MultiDiscrete space of any shape; log-probability, entropy and KL are sums over its dimensions.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        if not isinstance(space, spaces.MultiDiscrete):
            raise SpaceError(
                "multi-categorical cannot serve this action space", received=str(space), expected="MultiDiscrete"
            )
        sizes = np.asarray(space.nvec, dtype=np.int64).reshape(-1)
        self.shape = tuple(space.nvec.shape)
        self.dtype = space.dtype
        self._sizes = sizes
        self._width = int(sizes.max())
        # A plain number: compiled code cannot guard NumPy arrays.
        self._n_choices = len(sizes)
        self.logits_shape = (int(sizes.sum()),)
        start = np.asarray(space.start, dtype=np.int64).reshape(-1)
        self._start_array = start if start.any() else None
        self._start = DeviceConstants([torch.from_numpy(start)]) if start.any() else None
        index = self._padded_index()
        self._index = None if index is None else DeviceConstants([torch.from_numpy(index)])
        # Where each logit stands among the rows; what is left is padding.
        self._places = None if index is None else np.flatnonzero(index < self.logits_shape[0])

    def _padded_index(self) -> np.ndarray | None:
        """(K · width,) positions that spread uneven dimensions into equal rows; L stands for a padding entry."""
        if (self._sizes == self._width).all():
            return None
        index = np.full((len(self._sizes), self._width), self.logits_shape[0], dtype=np.int64)
        position = 0
        for row, size in enumerate(self._sizes.tolist()):
            index[row, :size] = np.arange(position, position + size)
            position += size
        return index.reshape(-1)

    def sample(self, logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(B, L) to (B, *shape) int64."""
        return self._to_space(_gumbel_argmax(self._rows(logits), generator))

    def mode(self, logits: Tensor) -> Tensor:
        """The most likely choice of each dimension, (B, *shape) int64."""
        return self._to_space(self._rows(logits).argmax(-1))

    def log_prob(self, logits: Tensor, action: Tensor) -> Tensor:
        """(B, L), (B, *shape) to (B,)."""
        return self._pick(self._rows(logits).log_softmax(-1), action)

    def entropy(self, logits: Tensor) -> Tensor:
        """(B, L) to (B,), in nats."""
        return _entropy(self._rows(logits).log_softmax(-1)).sum(-1)

    def log_prob_and_entropy(self, logits: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Both from one log-softmax."""
        log_probabilities = self._rows(logits).log_softmax(-1)
        return self._pick(log_probabilities, action), _entropy(log_probabilities).sum(-1)

    def kl(self, logits: Tensor, other_logits: Tensor) -> Tensor:
        """KL(logits ‖ other_logits), (B,)."""
        return _kl(self._rows(logits).log_softmax(-1), self._rows(other_logits).log_softmax(-1)).sum(-1)

    def temper(self, logits: Tensor, temperature: float) -> Tensor:
        """softmax(logits / T) in each dimension."""
        tempered = _temper(self._rows(logits), temperature).flatten(-2)
        if self._places is None:
            return tempered
        return tempered.index_select(-1, torch.from_numpy(self._places).to(logits.device))

    def sample_numpy(self, logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Like `sample`; a fully masked dimension raises MaskError."""
        rows = self._rows_numpy(logits)
        check_rows(rows)
        return self._to_space_numpy(_gumbel_argmax_numpy(rows, rng))

    def native_sampler(self) -> ArraySampler | None:
        """See `DrawsNatively`."""
        if not can_draw():
            return None
        draw = ChoiceSampler(self._sizes.tolist())

        def sample(logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            choice = draw(logits, rng)
            return self.sample_numpy(logits, rng) if choice is None else self._to_space_numpy(choice.copy())

        return sample

    def mode_numpy(self, logits: np.ndarray) -> np.ndarray:
        """Like `mode`; a fully masked dimension raises MaskError."""
        rows = self._rows_numpy(logits)
        check_rows(rows)
        return self._to_space_numpy(rows.argmax(-1))

    def _rows(self, logits: Tensor) -> Tensor:
        """(..., L) to (..., K, width); padding has the masked logit."""
        if self._index is not None:
            (index,) = self._index.on(logits.device)
            logits = torch.nn.functional.pad(logits, (0, 1), value=MASKED_LOGIT).index_select(-1, index)
        return logits.reshape(*logits.shape[:-1], self._n_choices, self._width)

    def _rows_numpy(self, logits: np.ndarray) -> np.ndarray:
        if self._places is not None:
            padded = np.empty((*logits.shape[:-1], self._n_choices * self._width), logits.dtype)
            padded.fill(MASKED_LOGIT)
            padded[..., self._places] = logits
            logits = padded
        return logits.reshape(*logits.shape[:-1], self._n_choices, self._width)

    def _to_space(self, choice: Tensor) -> Tensor:
        if self._start is not None:
            choice = choice + self._start.on(choice.device)[0]
        return unflatten_action(choice, self.shape)

    def _to_space_numpy(self, choice: np.ndarray) -> np.ndarray:
        if self._start_array is not None:
            choice = choice + self._start_array
        return choice.astype(self.dtype, copy=False).reshape(*choice.shape[:-1], *self.shape)

    def _pick(self, log_probabilities: Tensor, action: Tensor) -> Tensor:
        choice = flatten_action(action.long(), self.shape, self._n_choices)
        if self._start is not None:
            choice = choice - self._start.on(choice.device)[0]
        return log_probabilities.gather(-1, choice.unsqueeze(-1)).squeeze(-1).sum(-1)
