"""What blocks cost: forward and backward of a network built from them, against the same network written by hand.

The networks are policies of the `concat` model: one vector and dense layers; an image beside two vectors; a history. By
hand is a `torch.nn.Module` as one would write it for this one purpose, with the same weights, on the same tensors.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from maze_kernel.config.load import select
from maze_kernel.contracts.model import ModelContext
from maze_kernel.loader import Kernel
from maze_runtime.env.flat import flat_spaces

VECTOR = {"use": "dense", "hidden_units": [64, 64], "non_lin": "tanh"}
IMAGE = {"use": "strided-convolution-dense", "hidden_channels": [16, 32], "hidden_kernels": [4, 3]}
IMAGE |= {"hidden_strides": [2, 2], "hidden_units": [128]}


class Vector(nn.Module):
    """Two dense layers and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        return self.layers(inputs["x"])


class Mixed(nn.Module):
    """Convolutions, and dense layers for each of two vectors, concatenated; a dense layer and a head."""

    def __init__(self) -> None:
        super().__init__()
        convolutions = [nn.Conv2d(3, 16, 4, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten()]
        self.image = nn.Sequential(*convolutions, nn.Linear(32 * 7 * 7, 128), nn.ReLU())
        self.x = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.y = nn.Sequential(nn.Linear(5, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.out = nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        parts = [self.image(inputs["image"]), self.x(inputs["x"]), self.y(inputs["y"])]
        return self.out(torch.cat(parts, -1))


class History(nn.Module):
    """Gated recurrent units over ten steps, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(8, 64, batch_first=True)
        self.out = nn.Linear(64, 4)

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        return self.out(self.gru(inputs["history"])[1][0])


BOXES = {"x": (8,), "y": (5,), "image": (3, 32, 32), "history": (10, 8)}
WORK: dict[str, tuple[type[nn.Module], tuple[str, ...], dict[str, Any]]] = {
    "dense, one vector": (Vector, ("x",), {"blocks": {"x": VECTOR}}),
    "image beside two vectors": (
        Mixed,
        ("image", "x", "y"),
        {"blocks": {"image": IMAGE, "x": VECTOR, "y": VECTOR}, "hidden": {"use": "dense", "hidden_units": [64]}},
    ),
    "history of ten steps": (History, ("history",), {"blocks": {"history": {"use": "gru-last-step"}}}),
}


def from_blocks(kernel: Kernel, names: tuple[str, ...], table: dict[str, Any]) -> nn.Module:
    """The policy network of a `concat` model."""
    observation = spaces.Dict({name: spaces.Box(-1.0, 1.0, BOXES[name]) for name in names})
    structured = flat_spaces(observation, spaces.Dict(action=spaces.Discrete(4)))
    selection = select(kernel, "model", {"use": "concat", **table})
    model = kernel.catalog.build(selection, ModelContext(spaces=structured, catalog=kernel.catalog))
    policy: nn.Module = model.policies["key_0"]
    return policy


def give_weights(blocks: nn.Module, by_hand: nn.Module) -> None:
    """The same weights for both; layers come in the same order."""
    with torch.no_grad():
        for ours, theirs in zip(blocks.parameters(), by_hand.parameters(), strict=True):
            theirs.copy_(ours)


def both(network: nn.Module, forward: Callable[[dict[str, Tensor]], Tensor], inputs: dict[str, Tensor]) -> None:
    """Forward and backward, gradients thrown away as an optimiser does."""
    network.zero_grad(set_to_none=True)
    forward(inputs).square().mean().backward()


def seconds(run: Callable[[], None], n_repeats: int) -> float:
    """Of `n_repeats` runs."""
    start = time.perf_counter()
    for _ in range(n_repeats):
        run()
    return time.perf_counter() - start


def measure(kernel: Kernel, name: str, batch: int, rounds: int) -> tuple[float, float, float]:
    """Microseconds by hand, microseconds of blocks (medians), and the median of the ratios of neighbours."""
    kind, names, table = WORK[name]
    blocks, by_hand = from_blocks(kernel, names, table), kind()
    give_weights(blocks, by_hand)
    inputs = {key: torch.rand(batch, *BOXES[key]) for key in names}
    torch.testing.assert_close(blocks(inputs)["action"], by_hand(inputs))
    runs = [lambda: both(by_hand, by_hand, inputs), lambda: both(blocks, lambda x: blocks(x)["action"], inputs)]
    n_repeats = max(5, int(0.05 / (seconds(runs[0], 20) / 20)))
    figures: list[list[float]] = [[], []]
    for round_ in range(rounds):
        for which in (0, 1) if round_ % 2 == 0 else (1, 0):
            figures[which].append(seconds(runs[which], n_repeats) / n_repeats * 1e6)
    ratio = statistics.median(ours / theirs for theirs, ours in zip(*figures, strict=True))
    return statistics.median(figures[0]), statistics.median(figures[1]), ratio


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    kernel = Kernel.installed()
    print("| forward and backward | batch | by hand, µs | blocks, µs | ÷ by hand |\n|---|---|---|---|---|")
    for name in WORK:
        for batch in (8, 256):
            theirs, ours, ratio = measure(kernel, name, batch, arguments.rounds)
            print(f"| {name} | {batch} | {theirs:,.0f} | {ours:,.0f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
