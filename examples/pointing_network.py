"""Networks that choose among things that are listed in any order: customers, jobs, machines."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention


class Things(nn.Module):
    """Looks at every thing beside all the others; things that are marked as absent are not seen.

    Attention over a set as in Vaswani et al. (2017), without positions.

    Args:
        obs_shapes: observation to the shape of one sample: `things` (N, D), perhaps `<things>_mask` (N,), and vectors.
        things: the name of what is listed.
        units: of every layer.
        n_layers: of attention.
        n_heads: of each of them.
    """

    def __init__(self, obs_shapes, things: str, units: int, n_layers: int, n_heads: int) -> None:
        super().__init__()
        self.things, self.n_heads = things, n_heads
        self.vectors = [name for name, shape in obs_shapes.items() if len(shape) == 1 and name != f"{things}_mask"]
        self.first = nn.Linear(obs_shapes[things][-1] + sum(obs_shapes[name][0] for name in self.vectors), units)
        self.norms = nn.ModuleList([nn.LayerNorm(units) for _ in range(2 * n_layers)])
        self.attention = nn.ModuleList([nn.Linear(units, 3 * units) for _ in range(n_layers)])
        self.mixing = nn.ModuleList([nn.Linear(units, units) for _ in range(n_layers)])
        self.dense = nn.ModuleList([_two_layers(units, 2 * units, units) for _ in range(n_layers)])

    def forward(self, observation: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Each thing (B, N, units), and the mean of those that are there (B, units)."""
        x = observation[self.things]
        mask = observation.get(f"{self.things}_mask", torch.ones_like(x[..., 0])) > 0
        around = torch.cat([observation[name] for name in self.vectors], dim=-1)
        x = self.first(torch.cat([x, around.unsqueeze(-2).expand(*x.shape[:-1], -1)], dim=-1))
        seen = (mask | ~mask.any(dim=-1, keepdim=True))[..., None, None, :]
        for i, (attention, mixing, dense) in enumerate(zip(self.attention, self.mixing, self.dense, strict=True)):
            parts = attention(self.norms[2 * i](x)).unflatten(-1, (3, self.n_heads, -1))
            query, key, value = parts.movedim(-3, 0).transpose(-3, -2).unbind(0)
            looked = scaled_dot_product_attention(query, key, value, attn_mask=seen)
            x = x + mixing(looked.transpose(-3, -2).flatten(-2))
            x = x + dense(self.norms[2 * i + 1](x))
        weights = mask.to(x.dtype).unsqueeze(-1)
        return x, (x * weights).sum(dim=-2) / weights.sum(dim=-2).clamp(min=1.0)


class Policy(nn.Module):
    """A logit for each thing where an action head chooses among them, else logits from all of them together.

    Args:
        obs_shapes, things, units, n_layers, n_heads: see `Things`.
        action_logits_shapes: action head to the shape of its logits.
    """

    def __init__(
        self, *, obs_shapes, action_logits_shapes, things: str, units: int = 48, n_layers: int = 1, n_heads: int = 3
    ) -> None:
        super().__init__()
        self.body = Things(obs_shapes, things, units, n_layers, n_heads)
        (n_things, _) = obs_shapes[things]
        self.scores = nn.ModuleDict()
        self.heads = nn.ModuleDict()
        for head, (n,) in action_logits_shapes.items():
            if n == n_things:
                self.scores[head] = _two_layers(2 * units, units, 1)
            else:
                self.heads[head] = _two_layers(units, units, n)
        for layers in (*self.scores.values(), *self.heads.values()):
            nn.init.orthogonal_(layers[-1].weight, 0.01)

    def forward(self, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        """Observations (B, ...) to logits (B, L) by head, and `together` (B, units) for the critic."""
        each, together = self.body(observation)
        beside = torch.cat([each, together.unsqueeze(-2).expand_as(each)], dim=-1)
        scores = {head: layers(beside).squeeze(-1) for head, layers in self.scores.items()}
        return scores | {head: layers(together) for head, layers in self.heads.items()} | {"together": together}


class Critic(nn.Module):
    """The value from what the policy made of all things together.

    Args:
        obs_shapes: observation to the shape of one sample, `together` among them.
    """

    def __init__(self, *, obs_shapes) -> None:
        super().__init__()
        (units,) = obs_shapes["together"]
        self.value = _two_layers(units, units, 1)

    def forward(self, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        """The value of each state, (B, 1)."""
        return {"value": self.value(observation["together"])}


def _two_layers(n_in: int, units: int, n_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(n_in, units), nn.ReLU(), nn.Linear(units, n_out))
