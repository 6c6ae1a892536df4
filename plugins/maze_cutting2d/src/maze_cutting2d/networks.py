"""Networks made for this problem: each piece of the inventory is scored by one small network, whatever its slot.

A dense network sees the inventory as one long vector and has to learn the same rule two hundred times. Here the slots
share their weights, so a rule learnt in one slot holds in all. For use as a model by its import path:
`[model] use = "maze_cutting2d.networks:make_cutting_model"`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from maze_kernel.contracts.model import ModelContext
from maze_kernel.contracts.vector import ArrayDict
from maze_runtime.models.action_distribution import make_action_distribution
from maze_runtime.models.actor_critic import KeyNetworks, StructuredActorCritic
from maze_runtime.models.masking import mask_logits, mask_logits_numpy
from maze_runtime.models.observation_encoding import ObservationEncoder
from maze_runtime.models.tensor_dict import TensorDict

Mirror = Callable[[ArrayDict], ArrayDict]

POLICY_HEAD_GAIN = 0.01


def make_cutting_model(context: ModelContext, *, hidden_units: tuple[int, ...] = (32, 32)) -> StructuredActorCritic:
    """The target of the model: policies and critics for any version of "cutting-2d" with scaled observations.

    Args:
        context: of the model.
        hidden_units: units a layer, of every network.
    """
    networks, distributions = {}, {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(context.seed)
        for key, space in context.spaces.action.items():
            observation = context.spaces.observation[key]
            masks = {head: f"{head}_mask" for head in space if f"{head}_mask" in observation.spaces}
            distributions[key] = make_action_distribution(space, context.catalog)
            logits = {head: shape[0] for head, shape in distributions[key].logits_shapes().items()}
            scores_pieces = "inventory" in observation.spaces
            networks[key] = KeyNetworks(
                encoder=ObservationEncoder(observation, raw=masks.values()),
                policy=PiecePolicy(logits, masks, hidden_units)
                if scores_pieces
                else CutPolicy(logits, masks, hidden_units),
                critic=InventoryCritic(hidden_units) if scores_pieces else CutCritic(hidden_units),
            )
    return StructuredActorCritic(context.spaces, distributions, networks, critic_kind="delta-state")


class _Layers(nn.Module):
    """Dense layers with ReLU and a linear output, in torch and in NumPy."""

    def __init__(self, n_in: int, hidden_units: tuple[int, ...], n_out: int, gain: float) -> None:
        super().__init__()
        sizes = (n_in, *hidden_units, n_out)
        layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
        for layer in layers:
            nn.init.orthogonal_(layer.weight, gain if layer is layers[-1] else 2.0**0.5)
            nn.init.zeros_(layer.bias)
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        output: Tensor = self.layers[-1](x)
        return output

    def make_mirror(self) -> Callable[[np.ndarray], np.ndarray]:
        layers = [layer for layer in self.layers if isinstance(layer, nn.Linear)]
        weights = [(layer.weight.detach().numpy().T, layer.bias.detach().numpy()) for layer in layers]

        def run(x: np.ndarray) -> np.ndarray:
            for weight, bias in weights[:-1]:
                x = np.maximum(x @ weight + bias, 0.0)
            output: np.ndarray = x @ weights[-1][0] + weights[-1][1]
            return output

        return run


class Stock(nn.Module):
    """The mean of what the pieces of the inventory are, each beside the order; empty slots do not count."""

    def __init__(self, hidden_units: tuple[int, ...]) -> None:
        super().__init__()
        self.piece = _Layers(4, hidden_units[:-1], hidden_units[-1], 2.0**0.5)

    def forward(self, pairs: Tensor) -> Tensor:
        """Pieces beside the order (B, P, 4) to (B, hidden_units[-1])."""
        is_piece = (pairs[..., :2].sum(dim=-1, keepdim=True) > 0).to(pairs.dtype)
        return (torch.relu(self.piece(pairs)) * is_piece).sum(dim=-2) / is_piece.sum(dim=-2).clamp(min=1.0)

    def make_mirror(self) -> Callable[[np.ndarray], np.ndarray]:
        """The same in NumPy."""
        piece = self.piece.make_mirror()

        def run(pairs: np.ndarray) -> np.ndarray:
            is_piece = (pairs[..., :2].sum(axis=-1, keepdims=True) > 0).astype(pairs.dtype)
            total = (np.maximum(piece(pairs), 0.0) * is_piece).sum(axis=-2)
            mean: np.ndarray = total / np.maximum(is_piece.sum(axis=-2), 1.0)
            return mean

        return run


class PiecePolicy(nn.Module):
    """Scores every slot from its piece and the order; further heads read the whole inventory and the order.

    Args:
        n_logits: head to its number of logits.
        masks: head to the observation that masks it.
        hidden_units: units a layer.
    """

    def __init__(self, n_logits: Mapping[str, int], masks: Mapping[str, str], hidden_units: tuple[int, ...]) -> None:
        super().__init__()
        self._masks = dict(masks)
        self._others = {head: n for head, n in n_logits.items() if head != "piece_idx"}
        self.score = _Layers(4, hidden_units, 1, POLICY_HEAD_GAIN)
        if self._others:
            self.stock = Stock(hidden_units)
            n_others = sum(self._others.values())
            self.others = _Layers(hidden_units[-1] + 2, hidden_units[-1:], n_others, POLICY_HEAD_GAIN)

    def forward(self, inputs: TensorDict) -> TensorDict:
        """inventory (B, P, 2) and ordered_piece (B, 2) to logits by head."""
        pieces, order = inputs["inventory"], inputs["ordered_piece"]
        pairs = torch.cat([pieces, order.unsqueeze(-2).expand_as(pieces)], dim=-1)
        logits = {"piece_idx": self.score(pairs).squeeze(-1)}
        if self._others:
            others = self.others(torch.cat([self.stock(pairs), order], dim=-1))
            logits |= dict(zip(self._others, others.split(list(self._others.values()), dim=-1), strict=True))
        for head, mask in self._masks.items():
            logits[head] = mask_logits(logits[head], inputs[mask])
        return logits

    def make_mirror(self) -> Mirror:
        """The same in NumPy, for rollouts."""
        score = self.score.make_mirror()
        how_to_cut = self._mirror_of_others() if self._others else None

        def run(inputs: ArrayDict) -> ArrayDict:
            pieces, order = inputs["inventory"], inputs["ordered_piece"]
            pairs = np.concatenate([pieces, np.broadcast_to(order[..., None, :], pieces.shape)], axis=-1)
            logits = {"piece_idx": score(pairs)[..., 0]}
            if how_to_cut is not None:
                logits |= how_to_cut(pairs, order)
            for head, mask in self._masks.items():
                logits[head] = mask_logits_numpy(logits[head], inputs[mask])
            return logits

        return run

    def _mirror_of_others(self) -> Callable[[np.ndarray, np.ndarray], ArrayDict]:
        stock, others = self.stock.make_mirror(), self.others.make_mirror()
        cuts = np.cumsum(list(self._others.values()))[:-1]

        def run(pairs: np.ndarray, order: np.ndarray) -> ArrayDict:
            logits = others(np.concatenate([stock(pairs), order], axis=-1))
            return dict(zip(self._others, np.split(logits, cuts, axis=-1), strict=True))

        return run


class CutPolicy(nn.Module):
    """How to cut, from the piece that was selected and the order."""

    def __init__(self, n_logits: Mapping[str, int], masks: Mapping[str, str], hidden_units: tuple[int, ...]) -> None:
        super().__init__()
        self._n_logits, self._masks = dict(n_logits), dict(masks)
        self.layers = _Layers(4, hidden_units, sum(n_logits.values()), POLICY_HEAD_GAIN)

    def forward(self, inputs: TensorDict) -> TensorDict:
        """selected_piece and ordered_piece (B, 2) to logits by head."""
        outputs = self.layers(torch.cat([inputs["selected_piece"], inputs["ordered_piece"]], dim=-1))
        logits = dict(zip(self._n_logits, outputs.split(list(self._n_logits.values()), dim=-1), strict=True))
        for head, mask in self._masks.items():
            logits[head] = mask_logits(logits[head], inputs[mask])
        return logits

    def make_mirror(self) -> Mirror:
        """The same in NumPy, for rollouts."""
        layers, cuts = self.layers.make_mirror(), np.cumsum(list(self._n_logits.values()))[:-1]

        def run(inputs: ArrayDict) -> ArrayDict:
            outputs = layers(np.concatenate([inputs["selected_piece"], inputs["ordered_piece"]], axis=-1))
            logits = dict(zip(self._n_logits, np.split(outputs, cuts, axis=-1), strict=True))
            for head, mask in self._masks.items():
                logits[head] = mask_logits_numpy(logits[head], inputs[mask])
            return logits

        return run


class InventoryCritic(nn.Module):
    """Values the inventory: what its pieces are worth together, and how many there are."""

    def __init__(self, hidden_units: tuple[int, ...]) -> None:
        super().__init__()
        self.stock = Stock(hidden_units)
        self.value = _Layers(hidden_units[-1] + 3, hidden_units[-1:], 1, 1.0)

    def forward(self, inputs: TensorDict) -> TensorDict:
        """inventory (B, P, 2), inventory_size (B, 1) and ordered_piece (B, 2) to {"value": (B, 1)}."""
        pieces, order = inputs["inventory"], inputs["ordered_piece"]
        pairs = torch.cat([pieces, order.unsqueeze(-2).expand_as(pieces)], dim=-1)
        return {"value": self.value(torch.cat([self.stock(pairs), order, inputs["inventory_size"]], dim=-1))}


class CutCritic(nn.Module):
    """What the choice of a piece changes in the value of the inventory."""

    def __init__(self, hidden_units: tuple[int, ...]) -> None:
        super().__init__()
        self.layers = _Layers(4, hidden_units, 1, 1.0)

    def forward(self, inputs: TensorDict) -> TensorDict:
        """selected_piece and ordered_piece (B, 2) to {"value": (B, 1)}."""
        return {"value": self.layers(torch.cat([inputs["selected_piece"], inputs["ordered_piece"]], dim=-1))}
