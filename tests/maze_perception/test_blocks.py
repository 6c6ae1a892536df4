"""The blocks: shapes, NumPy twins, leading dimensions, errors."""

import numpy as np
import pytest
import torch

from maze_kernel.config.load import select
from maze_kernel.errors import RequestError
from maze_perception.block import BlockError
from maze_perception.blocks.image import ImageFeatures
from maze_perception.mirror import ACTIVATIONS
from maze_runtime.models.masking import MASKED_LOGIT

ONE = [
    ({"use": "dense", "hidden_units": [5, 3]}, (4,), (3,)),
    ({"use": "dense", "hidden_units": [5], "bias": False}, (4,), (5,)),
    ({"use": "dense", "hidden_units": [5]}, (2, 4), (2, 5)),
    ({"use": "flatten"}, (2, 3), (6,)),
    ({"use": "flatten", "num_flatten_dims": 2}, (2, 3, 4), (2, 12)),
    ({"use": "flatten-dense", "hidden_units": [7]}, (2, 3), (7,)),
    ({"use": "flatten-dense", "hidden_units": [7], "num_flatten_dims": 2}, (5, 2, 3), (5, 7)),
    ({"use": "linear-output", "output_units": 3}, (4,), (3,)),
    ({"use": "linear-output", "output_units": 3, "bias": False}, (4,), (3,)),
    ({"use": "global-average-pooling"}, (3, 4, 5), (3,)),
    ({"use": "slice", "index": -1, "dim": -2}, (3, 4), (4,)),
]


def build(kernel, table, in_shapes, out_keys=("out",)):
    in_keys = [f"in{index}" for index in range(len(in_shapes))]
    return kernel.catalog.build(select(kernel, "block", table), in_keys, out_keys, in_shapes)


@pytest.mark.parametrize(("table", "in_shape", "out_shape"), ONE, ids=lambda value: str(value))
def test_one_input_blocks(kernel, table, in_shape, out_shape):
    block = build(kernel, table, [in_shape])
    assert block.out_shapes() == (out_shape,)
    x = torch.randn(6, *in_shape)
    batch = block({"in0": x})["out"]
    assert batch.shape == (6, *out_shape)
    torch.testing.assert_close(block({"in0": x[0]})["out"], batch[0])
    torch.testing.assert_close(block({"in0": x.reshape(2, 3, *in_shape)})["out"], batch.reshape(2, 3, *out_shape))
    mirror = block.make_mirror()
    if mirror is not None:
        np.testing.assert_allclose(mirror({"in0": x.numpy()})["out"], batch.detach(), atol=1e-5)
    else:
        assert len(in_shape) > 1


@pytest.mark.parametrize("non_lin", sorted(ACTIVATIONS))
def test_activations_match_in_numpy_even_far_out(kernel, non_lin):
    block = build(kernel, {"use": "dense", "hidden_units": [8, 8], "non_lin": non_lin}, [(4,)])
    x = torch.randn(16, 4) * torch.logspace(-2, 3, 16)[:, None]
    mirror = block.make_mirror()
    if non_lin == "gelu":
        assert mirror is None
        return
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_allclose(
            mirror({"in0": x.numpy()})["out"], block({"in0": x})["out"].detach(), rtol=1e-4, atol=1e-5
        )


def test_dense_layers_are_linear_maps_with_activations(kernel):
    block = build(kernel, {"use": "dense", "hidden_units": [5, 3], "non_lin": "tanh"}, [(4,)])
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    w1, b1, w2, b2 = (parameter.detach().numpy() for parameter in block.parameters())
    expected = np.tanh(np.tanh(x @ w1.T + b1) @ w2.T + b2)
    np.testing.assert_allclose(block({"in0": torch.from_numpy(x)})["out"].detach(), expected, atol=1e-6)


def test_mirrors_follow_updates_in_place_and_moved_storage(kernel):
    block = build(kernel, {"use": "dense", "hidden_units": [5]}, [(4,)])
    mirror = block.make_mirror()
    x = torch.randn(3, 4)
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.mul_(2.0)
    np.testing.assert_allclose(mirror({"in0": x.numpy()})["out"], block({"in0": x})["out"].detach(), atol=1e-5)
    for parameter in block.parameters():
        parameter.data = torch.randn_like(parameter)
    np.testing.assert_allclose(mirror({"in0": x.numpy()})["out"], block({"in0": x})["out"].detach(), atol=1e-5)


def test_mirrors_serve_many_batch_sizes(kernel):
    block = build(kernel, {"use": "dense", "hidden_units": [5, 5]}, [(4,)])
    mirror = block.make_mirror()
    for rows in [*range(1, 14), 3, 1]:
        x = torch.randn(rows, 4)
        np.testing.assert_allclose(mirror({"in0": x.numpy()})["out"], block({"in0": x})["out"].detach(), atol=1e-5)


def test_concatenation_joins_in_order_and_names_misfits(kernel):
    block = build(kernel, {"use": "concatenation"}, [(2,), (3,)])
    first, second = torch.ones(4, 2), torch.zeros(4, 3)
    joined = block({"in0": first, "in1": second})["out"]
    assert joined.tolist() == [[1, 1, 0, 0, 0]] * 4
    assert block.make_mirror()({"in0": first.numpy(), "in1": second.numpy()})["out"].tolist() == joined.tolist()
    with pytest.raises(BlockError, match="'in1'") as caught:
        build(kernel, {"use": "concatenation"}, [(2, 3), (4, 4)])
    assert "(4, 4)" in caught.value.received


def test_action_masking_hides_choices_of_discrete_and_multi_discrete_heads(kernel):
    for mask_shape in ((4,), (2, 2)):
        block = build(kernel, "action-masking", [(4,), mask_shape])
        logits = torch.randn(3, 4)
        mask = torch.tensor([1, 0, 1, 0], dtype=torch.int8).expand(3, 4).reshape(3, *mask_shape)
        masked = block({"in0": logits, "in1": mask})["out"]
        assert (masked[:, [1, 3]] == MASKED_LOGIT).all()
        assert torch.equal(masked[:, [0, 2]], logits[:, [0, 2]])
        mirrored = block.make_mirror()({"in0": logits.numpy(), "in1": mask.numpy()})["out"]
        np.testing.assert_array_equal(mirrored, masked)
    with pytest.raises(BlockError, match="one entry a logit"):
        build(kernel, "action-masking", [(4,), (3,)])


def multiply_adds(block):
    """Of one image: every weight of a convolution at every position, every other weight once."""
    outputs = {}
    for layer in block.convolutions:
        layer.register_forward_hook(lambda module, _inputs, output: outputs.update({module: output}))
    block.out_shapes()
    block({key: torch.zeros(1, *shape) for key, shape in zip(block.in_keys, block.in_shapes, strict=True)})
    convolved = [
        layer.weight.numel() * outputs[layer][0, 0].numel()
        for layer in block.convolutions
        if layer in outputs and hasattr(layer, "weight")
    ]
    return sum(convolved) + sum(layer.weight.numel() for layer in block.dense.linear)


@pytest.mark.parametrize(
    "shape", [(84, 84, 3), (4, 84, 84), (8, 8), (8, 9, 3), (10, 10, 4), (20, 30, 1), (3, 35, 35), (64, 96), (3, 64, 64)]
)
def test_image_features_take_any_size_in_either_channel_order_at_no_more_than_the_cost_of_atari_frames(shape):
    torch.manual_seed(0)
    block = ImageFeatures(["x"], ["y"], [shape])
    assert block.out_shapes() == ((512,),)
    assert multiply_adds(block) <= multiply_adds(ImageFeatures(["x"], ["y"], [(4, 84, 84)]))
    x = torch.rand(2, 3, *shape)
    y = block({"x": x})["y"]
    assert y.shape == (2, 3, 512)
    torch.testing.assert_close(y[1, 2], block({"x": x[1, 2]})["y"])


def test_image_features_of_large_images_end_in_few_positions():
    for shape in ((210, 160, 3), (3, 128, 128), (480, 640, 3), (8, 200)):
        block = ImageFeatures(["x"], ["y"], [shape])
        assert block({"x": torch.zeros(1, *shape)})["y"].shape == (1, 512)
        assert block.dense.linear[0].in_features <= 64 * 100


def test_image_features_of_atari_frames_are_the_network_of_mnih_and_others():
    block = ImageFeatures(["x"], ["y"], [(4, 84, 84)])
    assert sum(parameter.numel() for parameter in block.parameters()) == 1_684_128
    torch.manual_seed(0)
    x = torch.rand(2, 4, 84, 84)
    maps = x
    for layer in block.convolutions:
        maps = layer(maps)
    expected = torch.relu(block.dense.linear[0](maps.movedim(1, -1).flatten(1)))
    torch.testing.assert_close(block({"x": x})["y"], expected)
    last = ImageFeatures(["x"], ["y"], [(84, 84, 4)])
    last.load_state_dict(block.state_dict())
    torch.testing.assert_close(last({"x": x.movedim(1, -1)})["y"], expected)


@pytest.mark.parametrize(
    ("table", "shape"),
    [
        ({"use": "dense"}, ()),
        ({"use": "flatten", "num_flatten_dims": 3}, (2, 2)),
        ({"use": "flatten-dense", "num_flatten_dims": 3}, (2, 2)),
        ({"use": "slice", "index": 3}, (3,)),
        ({"use": "global-average-pooling"}, (3, 3)),
    ],
)
def test_impossible_shapes_are_refused_with_the_input_named(kernel, table, shape):
    with pytest.raises(BlockError, match="in0") as caught:
        build(kernel, table, [shape])
    assert str(shape) in caught.value.received


def test_options_out_of_range_are_refused(kernel):
    for table in (
        {"use": "dense", "hidden_units": []},
        {"use": "dense", "hidden_units": [0]},
        {"use": "linear-output"},
    ):
        with pytest.raises(RequestError):
            build(kernel, table, [(3,)])
