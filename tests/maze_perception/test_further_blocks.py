"""Blocks that pool under masks, combine, pick, encode, or call the user's own code."""

import numpy as np
import pytest
import torch
from torch import nn

from maze_kernel.config.load import select
from maze_kernel.errors import RequestError
from maze_perception.block import BlockError
from maze_perception.inference import InferenceBlock
from maze_testing.blocks import check_compiled_block

RNG = np.random.default_rng(0)

CASES = {
    "masked-global-pooling": ({}, [(5, 3), (5,)]),
    "correlation": ({}, [(4,), (3, 4)]),
    "repeat-to-match": ({}, [(3,), (5, 2)]),
    "multi-index-slicing": ({"indices": [2, 0, -1]}, [(4,)]),
    "one-hot": ({"n_classes": 3}, [(2, 2)]),
    "functional": ({"function": "torch:softmax", "kwargs": {"dim": -1}}, [(4,)]),
    "torch-model": (
        {
            "module": "torch.nn:Bilinear",
            "kwargs": dict.fromkeys(("in1_features", "in2_features"), 3) | {"out_features": 2},
        },
        [(3,), (3,)],
    ),
}


def build(kernel, name, options, in_shapes, out_keys=("out",)):
    in_keys = [f"in{index}" for index in range(len(in_shapes))]
    return kernel.catalog.build(select(kernel, "block", {"use": name, **options}), in_keys, out_keys, in_shapes)


def run(kernel, name, options, *arrays):
    block = build(kernel, name, options, [array.shape[1:] for array in arrays])
    tensors = {f"in{index}": torch.as_tensor(array) for index, array in enumerate(arrays)}
    return block(tensors)["out"].detach().numpy()


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("pooling", ["mean", "sum", "max"])
def test_pooling_reduces_what_the_mask_lets_through(kernel, pooling):
    x, mask = normal(6, 5, 3), RNG.integers(0, 2, (6, 5)).astype(np.int8)
    mask[0], mask[1] = 0, 1
    expected = np.zeros((6, 3), np.float32)
    for row in range(1, 6):
        items = [x[row, item] for item in range(5) if mask[row, item]]
        if items:
            expected[row] = getattr(np, pooling)(items, axis=0)
    np.testing.assert_allclose(run(kernel, "masked-global-pooling", {"pooling": pooling}, x, mask), expected, atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "sum", "max"])
def test_absent_items_may_hold_anything_and_get_no_gradient(kernel, pooling):
    block = build(kernel, "masked-global-pooling", {"pooling": pooling}, [(3, 2), (3,)])
    x = torch.randn(2, 3, 2)
    x[0, 1] = torch.nan
    x.requires_grad_()
    out = block({"in0": x, "in1": torch.tensor([[1, 0, 1], [0, 0, 0]])})["out"]
    out.sum().backward()
    assert out.isfinite().all()
    assert torch.equal(out[1], torch.zeros(2))
    assert x.grad.isfinite().all()
    assert (x.grad[0, 1] == 0).all()


def test_pooling_over_images_of_a_set(kernel):
    x, mask = normal(2, 4, 3, 3), np.array([[1, 1, 0, 0], [0, 0, 0, 1]])
    expected = np.stack([x[0, :2].mean(0), x[1, 3]])
    np.testing.assert_allclose(run(kernel, "masked-global-pooling", {"dim": -3}, x, mask), expected, atol=1e-6)


def test_correlation_is_a_sum_of_products(kernel):
    context, items = normal(6, 4), normal(6, 3, 4)
    expected = np.stack([[context[b] @ items[b, n] for n in range(3)] for b in range(6)])
    np.testing.assert_allclose(run(kernel, "correlation", {}, context, items), expected, atol=1e-5)
    np.testing.assert_allclose(
        run(kernel, "correlation", {"reduce": False}, items, context), items * context[:, None], atol=1e-6
    )


def test_repeating_inserts_or_stretches_a_dimension(kernel):
    x, items = normal(6, 3), normal(6, 5, 2)
    repeated = run(kernel, "repeat-to-match", {}, x, items)
    assert repeated.shape == (6, 5, 3)
    np.testing.assert_array_equal(repeated, np.repeat(x[:, None], 5, axis=1))
    wide = normal(6, 5, 1)
    np.testing.assert_array_equal(run(kernel, "repeat-to-match", {"dim": -1}, wide, items), np.repeat(wide, 2, axis=-1))


def test_slicing_takes_the_positions_in_order(kernel):
    x = normal(6, 4, 3)
    options = {"indices": [2, 0, -1], "dim": -2}
    np.testing.assert_array_equal(run(kernel, "multi-index-slicing", options, x), x[:, [2, 0, 3]])


def test_one_hots_of_classes_and_zeros_of_others(kernel):
    encoded = run(kernel, "one-hot", {"n_classes": 3}, np.array([[0.0, 2.0], [1.0, 7.0]], np.float32))
    assert encoded.tolist() == [[[1, 0, 0], [0, 0, 1]], [[0, 1, 0], [0, 0, 0]]]


def test_functions_get_their_arguments(kernel):
    x = normal(6, 4)
    shares = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    np.testing.assert_allclose(run(kernel, "functional", CASES["functional"][0], x), shares, atol=1e-6)
    both = build(kernel, "functional", {"function": "torch:aminmax", "kwargs": {"dim": -1}}, [(4,)], ("low", "high"))
    outputs = both({"in0": torch.from_numpy(x)})
    np.testing.assert_array_equal(outputs["high"], x.max(-1))
    assert both.out_shapes() == ((), ())


def test_modules_are_trained_with_the_rest(kernel):
    options = {"module": "torch.nn:Linear", "kwargs": {"in_features": 4, "out_features": 2}}
    block = build(kernel, "torch-model", options, [(4,)])
    x = normal(3, 2, 4)
    weight, bias = (parameter.detach().numpy() for parameter in block.parameters())
    np.testing.assert_allclose(
        block({"in0": torch.from_numpy(x)})["out"].detach().numpy(), x @ weight.T + bias, atol=1e-5
    )
    joined = InferenceBlock({"mine": block}, {"in0": (4,)}, ["out"])
    assert len(list(joined.parameters())) == 2


class Named(nn.Module):
    def forward(self, x):
        return {"low": x - 1, "out": x + 1, "more": x}


def test_modules_may_name_their_outputs(kernel):
    path = f"{Named.__module__}:Named"
    import sys

    sys.modules.setdefault(Named.__module__, sys.modules[__name__])
    block = build(kernel, "torch-model", {"module": path}, [(2,)], ("out", "low"))
    outputs = block({"in0": torch.zeros(3, 5, 2)})
    assert {key: (value.shape, value.unique().item()) for key, value in outputs.items()} == {
        "out": ((3, 5, 2), 1.0),
        "low": ((3, 5, 2), -1.0),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_they_compile(kernel, name):
    check_compiled_block(lambda: build(kernel, name, *CASES[name]))


@pytest.mark.parametrize(
    ("name", "options", "in_shapes", "words"),
    [
        ("masked-global-pooling", {}, [(5, 3), (4,)], ["'in1'", "(4,)", "(5,)"]),
        ("masked-global-pooling", {}, [(5, 3), (5,), (5,)], ["MaskedGlobalPooling", "features, mask", "in2"]),
        ("masked-global-pooling", {}, [(5,), (5,)], ["'in0'", "(5,)"]),
        ("correlation", {}, [(3,), (4,)], ["'in0'", "(3,)", "(4,)"]),
        ("correlation", {}, [(1,), (4,)], ["(1,)", "(4,)", "equal last"]),
        ("repeat-to-match", {}, [(2, 3), (5, 2)], ["'in0'", "(2, 3)", "(5, 2)"]),
        ("multi-index-slicing", {"indices": [0, 4]}, [(4,)], ["'in0'", "4", "(4,)"]),
        ("multi-index-slicing", {"indices": [0], "dim": -2}, [(4,)], ["'in0'", "(4,)"]),
        ("functional", {"function": "torch:no_such_function"}, [(4,)], ["functional", "no_such_function"]),
        (
            "functional",
            {"function": "torch:pi"},
            [(4,)],
            ["functional", "float", "is not a class or function"],
        ),
        ("torch-model", {"module": "no_such_package:Net"}, [(4,)], ["torch-model", "no_such_package"]),
        ("torch-model", {"module": "torch:zeros", "kwargs": {"size": [2]}}, [(4,)], ["torch-model", "Tensor"]),
    ],
)
def test_misfits_name_block_received_and_expected(kernel, name, options, in_shapes, words):
    with pytest.raises(RequestError) as caught:
        build(kernel, name, options, in_shapes)
    for word in words:
        assert word in caught.value.render()


def test_other_outputs_than_promised_are_refused(kernel):
    block = build(kernel, "functional", {"function": "torch:aminmax", "kwargs": {"dim": -1}}, [(4,)])
    with pytest.raises(BlockError, match="Functional") as caught:
        block({"in0": torch.zeros(2, 4)})
    assert caught.value.received == "2 tensors"


@pytest.mark.parametrize(
    "table", [{"use": "multi-index-slicing", "indices": []}, {"use": "one-hot", "n_classes": 1}, {"use": "functional"}]
)
def test_options_out_of_range_are_refused(kernel, table):
    with pytest.raises(RequestError):
        select(kernel, "block", table)
