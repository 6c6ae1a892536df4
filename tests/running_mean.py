"""A layer with running statistics: what training leaves in it are no parameters."""

import torch
from torch import Tensor, nn


class RunningMean(nn.Module):
    """Subtracts a mean that follows what it sees while it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean.lerp_(x.detach().mean() + 5, 0.1)
        return x - self.mean
