"""Joining blocks by their keys."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from maze_perception.block import BlockError, PerceptionBlock
from maze_perception.blocks.dense import Dense, LinearOutput
from maze_perception.blocks.general import Concatenation
from maze_perception.inference import InferenceBlock
from maze_perception.options import ConcatenationOptions, DenseOptions, LinearOutputOptions

INPUTS = {"position": (3,), "speed": (2,)}


def dense(source, target, size=3, units=4):
    return Dense([source], [target], [(size,)], DenseOptions(hidden_units=(units,)))


def graph():
    return {
        "head": LinearOutput(["joined"], ["logits"], [(8,)], LinearOutputOptions(output_units=2)),
        "join": Concatenation(["p", "s"], ["joined"], [(4,), (4,)], ConcatenationOptions()),
        "of position": dense("position", "p"),
        "of speed": dense("speed", "s", size=2),
        "unused": dense("joined", "nothing", size=8),
    }


def inputs(rows=5):
    return {"position": torch.randn(rows, 3), "speed": torch.randn(rows, 2)}


def test_blocks_run_in_the_order_their_keys_demand():
    blocks = graph()
    joined = InferenceBlock(blocks, INPUTS, ["logits"])
    x = inputs()
    p, s = blocks["of position"](x)["p"], blocks["of speed"](x)["s"]
    expected = blocks["head"].linear(torch.cat([p, s], -1))
    result = joined(x)
    assert list(result) == ["logits"]
    torch.testing.assert_close(result["logits"], expected)
    assert joined.shapes["joined"] == (8,)


def test_unused_blocks_leave_no_parameters():
    joined = InferenceBlock(graph(), INPUTS, ["logits"])
    assert "unused" not in joined.order
    counted = sum(parameter.numel() for parameter in joined.parameters())
    assert counted == (3 * 4 + 4) + (2 * 4 + 4) + (8 * 2 + 2)
    only = InferenceBlock(graph(), INPUTS, ["p"])
    assert only.order == ("of position",)
    assert set(only({"position": torch.zeros(1, 3)})) == {"p"}


def test_blocks_whose_names_differ_in_dots_alone_are_all_registered():
    names = ["a.b", "a-b", "a.b-", "c.d"]
    blocks = {name: dense("position", f"out {name}") for name in names}
    joined = InferenceBlock(blocks, INPUTS, list(reversed([f"out {name}" for name in names])))
    assert {name: joined.blocks[f"{name}_block"] for name in ("a-b", "c-d")} == {
        "a-b": blocks["a-b"],
        "c-d": blocks["c.d"],
    }
    assert sum(p.numel() for p in joined.parameters()) == len(names) * (3 * 4 + 4)
    again = InferenceBlock(blocks, INPUTS, [f"out {name}" for name in names])
    assert joined.state_dict().keys() == again.state_dict().keys()


def test_outputs_can_be_renamed():
    result = InferenceBlock(graph(), INPUTS, {"action": "logits"})(inputs())
    assert list(result) == ["action"]


def test_the_mirror_equals_the_module_and_a_copy_is_independent():
    joined = InferenceBlock(graph(), INPUTS, ["logits", "p"])
    x = inputs()
    twin = copy.deepcopy(joined)
    with torch.no_grad():
        for parameter in joined.parameters():
            parameter.add_(0.1)
    for module in (joined, twin):
        arrays = module.make_mirror()({name: value.numpy() for name, value in x.items()})
        for name, value in module(x).items():
            np.testing.assert_allclose(arrays[name], value.detach(), atol=1e-5)
    assert not torch.allclose(joined(x)["logits"], twin(x)["logits"])


@pytest.mark.parametrize(
    ("change", "outputs", "words"),
    [
        ({"again": dense("speed", "p", size=2)}, ["logits"], ["'of position'", "'again'", "'p'"]),
        ({"again": dense("speed", "position", size=2)}, ["logits"], ["'again'", "'position'"]),
        ({}, ["nowhere"], ["'nowhere'"]),
        ({"of speed": dense("velocity", "s", size=2)}, ["logits"], ["'of speed'", "'velocity'"]),
        ({"of speed": dense("logits", "s", size=2)}, ["logits"], ["'head'", "'join'", "'of speed'", "circle"]),
        (
            {"of speed": dense("speed", "s", size=2, units=9)},
            ["logits"],
            ["'join'", "'s'", "(9,)", "(4,)", "'of speed'"],
        ),
        ({"of speed": dense("speed", "s", size=7)}, ["logits"], ["'of speed'", "(2,)", "(7,)", "observation"]),
    ],
)
def test_graphs_that_do_not_join_name_the_block(change, outputs, words):
    with pytest.raises(BlockError) as caught:
        InferenceBlock({**graph(), **change}, INPUTS, outputs)
    for word in words:
        assert word in caught.value.render()


def test_a_wrong_input_at_run_time_names_reader_and_shapes():
    joined = InferenceBlock(graph(), INPUTS, ["logits"])
    with pytest.raises(BlockError) as caught:
        joined({"position": torch.zeros(5, 4), "speed": torch.zeros(5, 2)})
    for word in ("'of position'", "'position'", "(5, 4)", "(3,)"):
        assert word in caught.value.render()
    with pytest.raises(BlockError, match="'speed'"):
        joined({"position": torch.zeros(5, 3)})


def test_any_module_with_keys_is_a_block():
    class Doubling(nn.Module):
        in_keys, out_keys, in_shapes = ("position",), ("doubled",), ((3,),)

        def forward(self, tensors):
            return {"doubled": 2 * tensors["position"]}

    joined = InferenceBlock({"doubling": Doubling()}, INPUTS, ["doubled"])
    assert joined.shapes["doubled"] == (3,)
    assert joined.make_mirror() is None
    assert torch.equal(joined({"position": torch.ones(2, 3)})["doubled"], torch.full((2, 3), 2.0))


def test_a_block_without_its_output_is_refused():
    class Forgetful(PerceptionBlock):
        def forward(self, tensors):
            return {"other": tensors["position"]}

    with pytest.raises(BlockError, match="'promised'"):
        InferenceBlock({"f": Forgetful(["position"], ["promised"], [(3,)])}, INPUTS, ["promised"])
