"""The networks made for the cutting problem: the model contract, masks, and one rule for all slots."""

import numpy as np
import pytest
import torch

from maze_cutting2d.env import make_env
from maze_cutting2d.networks import make_cutting_model
from maze_cutting2d.options import CuttingOptions
from maze_kernel.contracts.model import ModelContext
from maze_kernel.loader import Kernel
from maze_testing.models import check_model

N_SLOTS = 6


@pytest.fixture(params=["flat", "structured", "masked"])
def spaces(request):
    options = CuttingOptions(
        version=request.param, max_pieces_in_inventory=N_SLOTS, observation={"use": "inventory", "scaled": True}
    )
    return make_env(options).structured_spaces


def build(spaces):
    context = ModelContext(spaces=spaces, catalog=Kernel.installed().catalog, seed=1)
    return make_cutting_model(context, hidden_units=(8, 8))


def test_the_model_conforms(spaces):
    check_model(lambda: build(spaces), spaces)


def test_a_piece_is_scored_alike_in_every_slot(spaces):
    key = spaces.policy_keys[0]
    model = build(spaces)
    torch.manual_seed(0)
    pieces = torch.rand(1, N_SLOTS, 2)
    order = torch.randperm(N_SLOTS)
    observation = {
        "inventory": pieces,
        "inventory_size": torch.ones(1, 1),
        "ordered_piece": torch.rand(1, 2),
        "piece_idx_mask": torch.ones(1, N_SLOTS),
    }
    moved = {**observation, "inventory": pieces[:, order]}
    logits, value = model.logits_and_value(key, observation)
    moved_logits, moved_value = model.logits_and_value(key, moved)
    torch.testing.assert_close(logits["piece_idx"][:, order], moved_logits["piece_idx"])
    torch.testing.assert_close(value, moved_value)
    assert len(np.unique(logits["piece_idx"].detach().numpy().round(6))) == N_SLOTS
