"""Attention blocks against nn.MultiheadAttention and loops in NumPy."""

import numpy as np
import pytest
import torch
from torch import nn

import maze_blocks_attention.plugin
from maze_kernel.config.load import select
from maze_kernel.loader import Kernel
from maze_perception.block import BlockError
from maze_testing.blocks import check_block, check_compiled_block

KERNEL = Kernel.of(maze_blocks_attention.plugin)
CASES = {
    "self": ("multi-head-attention", {"num_heads": 2}, [(5, 4)]),
    "self masked": ("multi-head-attention", {"num_heads": 2, "masked": True}, [(5, 4), (5,)]),
    "cross": ("multi-head-attention", {"num_heads": 2, "embed_dim": 6, "bias": False}, [(2, 4), (5, 3)]),
    "cross masked": ("multi-head-attention", {"num_heads": 2, "masked": True}, [(2, 4), (5, 3), (5, 7), (5,)]),
    "sequence": ("self-attention-seq", {"add_input_to_output": False, "embed_dim": 6}, [(5, 4)]),
    "sequence masked": ("self-attention-seq", {"num_heads": 2}, [(5, 4), (5,)]),
}


def build(name, options, in_shapes):
    in_keys = [f"in{index}" for index in range(len(in_shapes))]
    return KERNEL.catalog.build(select(KERNEL, "block", {"use": name, **options}), in_keys, ["out"], in_shapes)


def run(block, *arrays):
    with torch.no_grad():
        return block({f"in{index}": torch.as_tensor(array) for index, array in enumerate(arrays)})["out"].numpy()


def normal(*shape):
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


def linear(layer, x):
    bias = 0.0 if layer.bias is None else layer.bias.detach().numpy()
    return x @ layer.weight.detach().numpy().T + bias


def attend(heads, queries, keys, values, mask):
    """One sample, one head and one query at a time."""
    q, k, v = linear(heads.query, queries), linear(heads.key, keys), linear(heads.value, values)
    size = q.shape[1] // heads.num_heads
    out = np.zeros_like(q)
    for start in range(0, q.shape[1], size):
        part = slice(start, start + size)
        for row in range(len(q)):
            seen = [item for item in range(len(k)) if mask[item]]
            weights = np.exp([q[row, part] @ k[item, part] / np.sqrt(size) for item in seen])
            for weight, item in zip(weights, seen, strict=True):
                out[row, part] += weight / weights.sum() * v[item, part]
    return linear(heads.out, out)


MASK = np.array([[1, 0, 1, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0]], np.int8)


@pytest.mark.parametrize("case", ["self", "self masked", "cross", "cross masked"])
def test_queries_take_the_values_of_visible_keys(case):
    name, options, in_shapes = CASES[case]
    block = build(name, options, in_shapes)
    arrays = [normal(4, *shape) for shape in in_shapes]
    mask = np.ones_like(MASK)
    if "masked" in options:
        arrays[-1] = mask = MASK
    tensors = arrays[: -1 if "masked" in options else None]
    queries, keys, values = (tensors[min(index, len(tensors) - 1)] for index in range(3))
    expected = [attend(block.heads, queries[b], keys[b], values[b], mask[b]) for b in range(4)]
    np.testing.assert_allclose(run(block, *arrays), expected, atol=1e-5)


def test_it_equals_the_attention_of_torch():
    block = build("multi-head-attention", {"num_heads": 2, "masked": True}, [(3, 4), (5, 6), (5, 7), (5,)])
    other = nn.MultiheadAttention(4, 2, kdim=6, vdim=7, batch_first=True)
    heads = block.heads
    with torch.no_grad():
        other.in_proj_bias.uniform_(-1, 1)
        other.out_proj.bias.uniform_(-1, 1)
        for layer, weight, bias in zip(
            (heads.query, heads.key, heads.value),
            (other.q_proj_weight, other.k_proj_weight, other.v_proj_weight),
            other.in_proj_bias.chunk(3),
            strict=True,
        ):
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)
        heads.out.load_state_dict(other.out_proj.state_dict())
        arrays = [normal(3, 3, 4), normal(3, 5, 6), normal(3, 5, 7)]
        hidden = torch.from_numpy(MASK[:3] == 0)
        expected = other(*map(torch.from_numpy, arrays), key_padding_mask=hidden, need_weights=False)[0]
    np.testing.assert_allclose(run(block, *arrays, MASK[:3]), expected.numpy(), atol=1e-5)


@pytest.mark.parametrize("residual", [True, False])
def test_items_of_a_sequence_look_at_each_other(residual):
    block = build("self-attention-seq", {"num_heads": 2, "add_input_to_output": residual}, [(5, 4), (5,)])
    x = normal(4, 5, 4)
    expected = np.stack([residual * x[b] + attend(block.heads, x[b], x[b], x[b], MASK[b]) for b in range(4)])
    np.testing.assert_allclose(run(block, x, MASK), expected * MASK[..., None], atol=1e-5)


@pytest.mark.parametrize("case", ["self masked", "cross masked", "sequence masked"])
def test_hidden_items_have_no_influence_and_no_gradient(case):
    name, options, in_shapes = CASES[case]
    block = build(name, options, in_shapes)
    arrays = [torch.from_numpy(normal(4, *shape)) for shape in in_shapes[:-1]]
    items = arrays[-1].requires_grad_()
    out = block({f"in{i}": x for i, x in enumerate([*arrays, torch.from_numpy(MASK)])})["out"]
    assert out.isfinite().all()
    visible = MASK.any(-1)
    rows = torch.from_numpy(MASK != 0) if in_shapes[0] == in_shapes[-2] else torch.ones(4, 2, dtype=torch.bool)
    out[rows].square().sum().backward()
    assert items.grad.isfinite().all()
    assert (items.grad[torch.from_numpy(MASK == 0)] == 0).all()
    assert (items.grad[torch.from_numpy(MASK != 0)] != 0).any(-1).all()
    assert visible.tolist() == [True, True, True, False]


def test_the_order_of_a_set_does_not_matter():
    block = build("self-attention-seq", {}, [(5, 4)])
    x, order = normal(2, 5, 4), [3, 1, 4, 0, 2]
    np.testing.assert_allclose(run(block, x[:, order]), run(block, x)[:, order], atol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_they_conform(case):
    check_block(lambda: build(*CASES[case]))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_they_compile(case):
    check_compiled_block(lambda: build(*CASES[case]))


@pytest.mark.parametrize(
    ("name", "options", "in_shapes", "words"),
    [
        ("multi-head-attention", {"num_heads": 3}, [(5, 4)], ["MultiHeadAttention", "4", "3", "(5, 4)"]),
        ("multi-head-attention", {}, [(4,)], ["MultiHeadAttention", "'in0'", "(4,)", "2 dimensions"]),
        ("multi-head-attention", {}, [(5, 4), (3, 4), (2, 4)], ["'in2'", "(2, 4)", "(3, 4)", "'in1'"]),
        ("multi-head-attention", {"masked": True}, [(5, 4), (3, 4), (5,)], ["'in2'", "(5,)", "(3,)", "'in1'"]),
        ("multi-head-attention", {}, [(5, 4)] * 4, ["1 to 3 inputs", "queries, keys, values"]),
        ("self-attention-seq", {}, [(5, 4), (4,)], ["SelfAttentionSeq", "'in1'", "(4,)", "(5,)", "'in0'"]),
    ],
)
def test_inputs_that_do_not_fit_are_refused(name, options, in_shapes, words):
    with pytest.raises(BlockError) as caught:
        build(name, options, in_shapes)
    for word in words:
        assert word in caught.value.render()


def test_forward_and_backward_trace_as_one_graph():
    check_compiled_block(lambda: build(*CASES["cross masked"]), backend="aot_eager")
