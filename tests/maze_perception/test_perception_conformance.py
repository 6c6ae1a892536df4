"""The kernel's conformance suites on the blocks and models of this plugin."""

import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.config.load import select
from maze_kernel.contracts.env import StructuredSpaces
from maze_runtime.env.flat import flat_spaces
from maze_testing.blocks import check_block
from maze_testing.models import check_model

BLOCKS = {
    "dense": ({"hidden_units": [5, 3]}, [(4,)]),
    "flatten": ({"num_flatten_dims": 2}, [(2, 3, 2)]),
    "flatten-dense": ({"hidden_units": [5]}, [(2, 3)]),
    "concatenation": ({}, [(2,), (3,)]),
    "linear-output": ({"output_units": 2}, [(4,)]),
    "action-masking": ({}, [(4,), (2, 2)]),
    "global-average-pooling": ({}, [(3, 4, 4)]),
    "slice": ({"index": 1}, [(3, 2)]),
    "multi-index-slicing": ({"indices": [2, 0]}, [(4,)]),
    "masked-global-pooling": ({"pooling": "max"}, [(5, 3), (5,)]),
    "correlation": ({}, [(4,), (3, 4)]),
    "repeat-to-match": ({}, [(3,), (5, 2)]),
    "one-hot": ({"n_classes": 3}, [(2, 2)]),
    "functional": ({"function": "torch:tanh"}, [(4,)]),
    "torch-model": ({"module": "torch.nn:Linear", "kwargs": {"in_features": 4, "out_features": 2}}, [(4,)]),
}


def test_every_block_is_in_the_list(kernel):
    assert {entry.component.name for entry in kernel.catalog.entries("block")} == set(BLOCKS)


@pytest.mark.parametrize("name", BLOCKS)
def test_every_block_conforms(kernel, name):
    options, in_shapes = BLOCKS[name]
    selection = select(kernel, "block", {"use": name, **options})
    in_keys = [f"in{index}" for index in range(len(in_shapes))]
    check_block(lambda: kernel.catalog.build(selection, in_keys, ["out"], in_shapes))


VECTOR = spaces.Dict(x=spaces.Box(-1.0, 1.0, (3,)), y=spaces.Discrete(4))
MIXED = spaces.Dict(kind=spaces.Discrete(2), force=spaces.Box(-1.0, 1.0, (2,)), bits=spaces.MultiBinary(2))
IMAGE = spaces.Dict(screen=spaces.Box(0, 255, (32, 32, 3), np.uint8), x=spaces.Box(-1.0, 1.0, (3,)))
STRUCTURED = StructuredSpaces(
    observation={"first": VECTOR, "second": IMAGE},
    action={"first": MIXED, "second": spaces.Dict(move=spaces.MultiDiscrete([2, 3]))},
    agent_counts={"first": 1, "second": 2},
)
CONCAT = {"use": "concat", "blocks": {"feature": {"use": "flatten-dense", "hidden_units": [8]}}}


@pytest.mark.parametrize("structured", [flat_spaces(VECTOR, MIXED), flat_spaces(IMAGE, MIXED), STRUCTURED])
@pytest.mark.parametrize("table", ["auto", CONCAT, {**CONCAT, "critic": {"share_embedding": True}}], ids=str)
def test_every_model_conforms(make_model, structured, table):
    check_model(lambda: make_model(structured, table, seed=3), structured)
