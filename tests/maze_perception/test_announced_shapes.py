"""A block that does not give what it announces is refused by its own name when the model is built."""

import pytest
import torch
from torch import nn

from maze_perception.block import BlockError
from maze_perception.graph import GraphBuilder


class Eight(nn.Module):
    """A linear layer of eight units; `change` is made of its output."""

    def __init__(self, change, shapes, in_keys, out_keys, in_shapes):
        super().__init__()
        self.in_keys, self.out_keys, self.in_shapes = tuple(in_keys), tuple(out_keys), tuple(in_shapes)
        self.change, self.shapes = change, shapes
        self.linear = nn.Linear(in_shapes[0][-1], 8)

    def forward(self, inputs):
        return self.change({self.out_keys[0]: self.linear(inputs[self.in_keys[0]])})

    def out_shapes(self):
        return self.shapes


def build(change=lambda outputs: outputs, shapes=((8,),)):
    builder = GraphBuilder({"state": (3,)})
    builder.add("mine", lambda *keys: Eight(change, shapes, *keys), ["state"], "features")
    return builder.build(["features"])


@pytest.mark.parametrize(
    ("change", "shapes", "said"),
    [
        (lambda outputs: outputs, ((5,),), r"Eight does not give what it announces as 'features'"),
        (lambda outputs: {key: value.double() for key, value in outputs.items()}, ((8,),), "float64"),
        (lambda outputs: {key: value[:1] for key, value in outputs.items()}, ((8,),), r"shape \(1, 8\)"),
        (lambda outputs: {"other": 1}, ((8,),), "does not give its output 'features'"),
        (lambda outputs: torch.zeros(2, 8), ((8,),), "does not give its output 'features'"),
    ],
)
def test_the_block_is_named(change, shapes, said):
    with pytest.raises(BlockError, match=said) as caught:
        build(change, shapes)
    assert "block 'mine'" in caught.value.what


def test_what_is_announced_truly_is_built():
    assert build()({"state": torch.zeros(4, 3)})["features"].shape == (4, 8)
