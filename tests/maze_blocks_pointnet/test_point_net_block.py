"""The point-net block against a loop over points."""

import numpy as np
import pytest
import torch

import maze_blocks_pointnet.plugin
from maze_kernel.config.load import select
from maze_kernel.loader import Kernel
from maze_perception.block import BlockError
from maze_testing.blocks import check_block, check_compiled_block

KERNEL = Kernel.of(maze_blocks_pointnet.plugin)
TRANSFORMED = {
    "hidden_units": [3, 5],
    "input_transform": True,
    "feature_transform": True,
    "transform_units": [4, 6],
}
CASES = {
    "plain": ({"hidden_units": [3, 5]}, [(7, 2)]),
    "one layer": ({"hidden_units": [3], "pooling": "sum"}, [(7, 2)]),
    "masked": ({"hidden_units": [3, 5], "pooling": "mean"}, [(7, 2), (7,)]),
    "transformed": (TRANSFORMED, [(7, 2), (7,)]),
}
MASK = np.array([[1, 0, 1, 1, 0, 0, 1], [1] * 7, [0, 0, 0, 0, 1, 0, 0], [0] * 7], np.int8)


def build(options, in_shapes):
    in_keys = ["points", "mask"][: len(in_shapes)]
    block = KERNEL.catalog.build(select(KERNEL, "block", {"use": "point-net", **options}), in_keys, ["out"], in_shapes)
    for name, parameter in block.named_parameters():
        if name.endswith("scale"):
            torch.nn.init.constant_(parameter, 0.8)
    return block


def run(block, points, mask=None):
    inputs = {"points": torch.as_tensor(points)} | ({} if mask is None else {"mask": torch.as_tensor(mask)})
    with torch.no_grad():
        return block(inputs)["out"].numpy()


def points(*shape):
    return np.random.default_rng(4).normal(size=shape).astype(np.float32)


def layers(module, x):
    for layer in module.linear:
        x = np.maximum(layer.weight.detach().numpy() @ x + layer.bias.detach().numpy(), 0.0)
    return x


def align(network, items):
    whole = layers(network.whole, np.max([layers(network.points, item) for item in items], axis=0))
    size = network.n_features
    change = (network.matrix.weight.detach().numpy() @ whole).reshape(size, size)
    return [item @ (np.eye(size) + network.scale.item() * change) for item in items]


def reference(block, items, pooling):
    """One set, a list of the points that exist."""
    if not items:
        return np.zeros(block.out_shapes()[0])
    if block.input_transform is not None:
        items = align(block.input_transform, items)
    items = [layers(block.first, item) for item in items]
    if block.feature_transform is not None:
        items = align(block.feature_transform, items)
    return getattr(np, pooling)([layers(block.further, item) for item in items], axis=0)


@pytest.mark.parametrize("pooling", ["max", "mean", "sum"])
@pytest.mark.parametrize("options", [{"hidden_units": [3, 5]}, {"hidden_units": [3]}, TRANSFORMED], ids=str)
def test_every_point_passes_the_same_network_and_the_set_is_pooled(options, pooling):
    block, x = build({**options, "pooling": pooling}, [(7, 2), (7,)]), points(4, 7, 2)
    expected = [reference(block, [p for p, m in zip(x[b], MASK[b], strict=True) if m], pooling) for b in range(4)]
    np.testing.assert_allclose(run(block, x, MASK), expected, atol=1e-5)
    unmasked = build({**options, "pooling": pooling}, [(7, 2)])
    unmasked.load_state_dict(block.state_dict())
    np.testing.assert_allclose(run(unmasked, x[1:2]), expected[1:2], atol=1e-5)


def test_neither_order_nor_absent_points_matter():
    block, x = build(TRANSFORMED, [(7, 2), (7,)]), points(4, 7, 2)
    order = [3, 1, 4, 0, 2, 6, 5]
    expected = run(block, x, MASK)
    np.testing.assert_allclose(run(block, x[:, order], MASK[:, order]), expected, atol=1e-6)
    hidden = torch.from_numpy(x).masked_fill(torch.from_numpy(MASK == 0)[..., None], 1e6).requires_grad_()
    out = block({"points": hidden, "mask": torch.from_numpy(MASK)})["out"]
    np.testing.assert_allclose(out.detach().numpy(), expected, atol=1e-6)
    out.sum().backward()
    assert hidden.grad.isfinite().all()
    assert (hidden.grad[torch.from_numpy(MASK == 0)] == 0).all()


def test_transforms_are_the_identity_before_training():
    block = build(TRANSFORMED, [(7, 2)])
    with torch.no_grad():
        block.input_transform.scale.zero_()
    x = torch.from_numpy(points(4, 7, 2))
    assert torch.equal(block.input_transform(x, None), x)
    fresh = KERNEL.catalog.build(
        select(KERNEL, "block", {"use": "point-net", **TRANSFORMED}), ["points"], ["out"], [(7, 2)]
    )
    assert fresh.input_transform.scale.item() == 0.0


@pytest.mark.parametrize("case", CASES)
def test_they_conform(case):
    check_block(lambda: build(*CASES[case]))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_they_compile(case):
    check_compiled_block(lambda: build(*CASES[case]))


@pytest.mark.parametrize(
    ("in_shapes", "words"),
    [
        ([(2,)], ["PointNet", "'points'", "(2,)", "2 dimensions"]),
        ([(7, 2), (6,)], ["PointNet", "'mask'", "(6,)", "(7,)", "'points'"]),
    ],
)
def test_inputs_that_do_not_fit_are_refused(in_shapes, words):
    with pytest.raises(BlockError) as caught:
        build({}, in_shapes)
    for word in words:
        assert word in caught.value.render()


def test_forward_and_backward_trace_as_one_graph():
    check_compiled_block(lambda: build(*CASES["transformed"]), backend="aot_eager")
