"""Convolution blocks against loops in NumPy."""

import itertools

import numpy as np
import pytest
import torch

import maze_blocks_conv.plugin
import maze_perception.plugin
from maze_kernel.config.load import select
from maze_kernel.errors import RequestError
from maze_kernel.loader import Kernel
from maze_perception.block import BlockError
from maze_testing.blocks import check_block, check_compiled_block

KERNEL = Kernel.of(maze_perception.plugin, maze_blocks_conv.plugin)
SMALL = {"hidden_channels": [3, 4], "hidden_kernels": [3, 2], "hidden_strides": [2, 1]}
CASES = {
    "strided-convolution": (SMALL, (2, 9, 7)),
    "strided-convolution-dense": ({**SMALL, "hidden_units": [6, 5]}, (2, 9, 7)),
    "nature-cnn": ({"hidden_units": [5]}, (2, 36, 40)),
    "vgg-convolution": ({"hidden_channels": [3, 4], "use_batch_norm": True}, (2, 9, 8)),
    "vgg-convolution-dense": ({"hidden_channels": [3, 4], "hidden_units": [6, 5]}, (2, 9, 8)),
    "vgg-convolution-gap": ({"hidden_channels": [3, 4]}, (2, 9, 8)),
    "self-attention-conv": ({"embed_dim": 3}, (4, 3, 5)),
}


def build(name, options, in_shape):
    return KERNEL.catalog.build(select(KERNEL, "block", {"use": name, **options}), ["image"], ["out"], [in_shape])


def run(block, x):
    with torch.no_grad():
        return block({"image": torch.from_numpy(x)})["out"].numpy()


def images(*shape):
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def convolve(x, weight, bias, stride=1, dilation=1, padding=0):
    """One image (C, *positions) by sums over windows."""
    n_dims = x.ndim - 1
    x = np.pad(x, [(0, 0), *[(padding, padding)] * n_dims])
    kernel = weight.shape[2:]
    sizes = [(x.shape[d + 1] - dilation * (kernel[d] - 1) - 1) // stride + 1 for d in range(n_dims)]
    out = np.empty((weight.shape[0], *sizes), np.float64)
    for position in itertools.product(*map(range, sizes)):
        window = tuple(
            slice(p * stride, p * stride + dilation * (k - 1) + 1, dilation)
            for p, k in zip(position, kernel, strict=True)
        )
        out[(slice(None), *position)] = (weight * x[(slice(None), *window)]).sum(tuple(range(1, weight.ndim))) + bias
    return out


def weights(block):
    return {name: parameter.detach().numpy() for name, parameter in block.named_parameters()}


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_strided_convolutions_are_sums_over_windows(n_dims):
    options = {
        "convolution_dimension": n_dims,
        "hidden_channels": [3, 4],
        "hidden_kernels": [3, 2],
        "hidden_strides": [2, 1],
        "hidden_dilations": [1, 2],
        "hidden_paddings": [1, 0],
        "non_lin": "tanh",
    }
    shape = (2, 7, 9, 6)[: n_dims + 1]
    block = build("strided-convolution", options, shape)
    w, x = weights(block), images(2, *shape)
    expected = []
    for image in x:
        first = np.tanh(convolve(image, w["convolutions.0.weight"], w["convolutions.0.bias"], stride=2, padding=1))
        expected.append(np.tanh(convolve(first, w["convolutions.1.weight"], w["convolutions.1.bias"], dilation=2)))
    np.testing.assert_allclose(run(block, x), expected, atol=1e-5)
    assert block.out_shapes() == (np.shape(expected)[1:],)


def pool_pairs(x):
    channels, height, width = x.shape
    x = x[:, : height // 2 * 2, : width // 2 * 2]
    return x.reshape(channels, height // 2, 2, width // 2, 2).max((2, 4))


@pytest.mark.parametrize("use_batch_norm", [False, True])
def test_vgg_stages_convolve_twice_and_pool(use_batch_norm):
    block = build("vgg-convolution", {"hidden_channels": [3, 4], "use_batch_norm": use_batch_norm}, (2, 9, 6))
    block.eval()
    state = block.state_dict()
    for name, tensor in state.items():
        if "norms" in name and tensor.dtype == torch.float32:
            tensor.uniform_(0.5, 2.0)
    s = {name: tensor.numpy() for name, tensor in state.items()}
    x = images(3, 2, 9, 6)
    expected = []
    for y in x:
        for stage, layer in itertools.product(range(2), range(2)):
            at = f"stages.{stage}.convolutions.{layer}"
            y = convolve(y, s[f"{at}.weight"], s.get(f"{at}.bias", 0.0), padding=1)
            if use_batch_norm:
                norm = {k: s[f"stages.{stage}.norms.{layer}.{k}"][:, None, None] for k in NORM}
                y = (y - norm["running_mean"]) / np.sqrt(norm["running_var"] + 1e-5) * norm["weight"] + norm["bias"]
            y = np.maximum(y, 0.0)
            y = pool_pairs(y) if layer == 1 else y
        expected.append(y)
    np.testing.assert_allclose(run(block, x), expected, atol=1e-4)


NORM = ("running_mean", "running_var", "weight", "bias")


@pytest.mark.parametrize(
    ("joint", "body"),
    [("strided-convolution-dense", "strided-convolution"), ("vgg-convolution-dense", "vgg-convolution")],
)
def test_joint_blocks_put_dense_layers_behind_the_flattened_map(joint, body):
    options, shape = CASES[joint]
    block = build(joint, options, shape)
    inner = build(body, {key: value for key, value in options.items() if key != "hidden_units"}, shape)
    inner.load_state_dict(block.state_dict(), strict=False)
    x, w = images(4, *shape), weights(block)
    expected = run(inner, x).reshape(4, -1)
    for layer in range(2):
        expected = np.maximum(expected @ w[f"layers.linear.{layer}.weight"].T + w[f"layers.linear.{layer}.bias"], 0.0)
    np.testing.assert_allclose(run(block, x), expected, atol=1e-5)


def test_gap_averages_the_map():
    options, shape = CASES["vgg-convolution-gap"]
    block = build("vgg-convolution-gap", options, shape)
    inner = build("vgg-convolution", options, shape)
    inner.load_state_dict(block.state_dict())
    x = images(4, *shape)
    np.testing.assert_allclose(run(block, x), run(inner, x).mean((2, 3)), atol=1e-6)


@pytest.mark.parametrize("residual", [True, False])
def test_attention_mixes_the_values_of_all_positions(residual):
    block = build("self-attention-conv", {"embed_dim": 3, "add_input_to_output": residual}, (4, 3, 5))
    if residual:
        assert np.array_equal(run(block, images(2, 4, 3, 5)), images(2, 4, 3, 5))
        torch.nn.init.constant_(block.gamma, 0.7)
    w, x = weights(block), images(2, 4, 3, 5)
    flat = x.reshape(2, 4, 15).astype(np.float64)
    q, k, v = (
        np.einsum("oc,bcp->bpo", w[f"{n}.weight"][:, :, 0, 0], flat) + w[f"{n}.bias"] for n in ("query", "key", "value")
    )
    scores = np.exp(q @ k.transpose(0, 2, 1))
    attended = (scores / scores.sum(-1, keepdims=True) @ v).transpose(0, 2, 1).reshape(x.shape)
    np.testing.assert_allclose(run(block, x), x + 0.7 * attended if residual else attended, atol=1e-5)


@pytest.mark.parametrize("name", ["strided-convolution", "vgg-convolution-gap"])
def test_either_channel_order_gives_the_same(name):
    options, (channels, height, width) = CASES[name]
    first = build(name, options, (channels, height, width))
    last = build(name, {**options, "channel_order": "last"}, (height, width, channels))
    last.load_state_dict(first.state_dict())
    x = images(3, 2, channels, height, width)
    np.testing.assert_allclose(run(last, np.moveaxis(x, -3, -1)), run(first, x), atol=1e-6)


def test_a_set_of_images_is_convolved_one_by_one():
    block = build("vgg-convolution-gap", CASES["vgg-convolution-gap"][0], (5, 2, 9, 8))
    x = images(3, 5, 2, 9, 8)
    assert block.out_shapes() == ((5, 4),)
    np.testing.assert_allclose(run(block, x)[:, 2], run(block, x[:, 2:3])[:, 0], atol=1e-6)


def test_the_default_is_the_network_of_atari():
    block = build("strided-convolution-dense", {}, (4, 84, 84))
    assert block.map_shape == (64, 7, 7)
    assert block.out_shapes() == ((512,),)
    assert sum(parameter.numel() for parameter in block.parameters()) == 1684128


@pytest.mark.parametrize("order", ["auto", "last"])
def test_the_network_of_atari_by_name_is_the_same_network(order):
    torch.manual_seed(0)
    named = build("nature-cnn", {"channel_order": order}, (84, 84, 4))
    spelt = build("strided-convolution-dense", {"channel_order": "last"}, (84, 84, 4))
    spelt.load_state_dict(named.state_dict())
    x = images(2, 84, 84, 4)
    np.testing.assert_array_equal(run(named, x), run(spelt, x))
    planes = build("nature-cnn", {}, (4, 84, 84))
    planes.load_state_dict(named.state_dict())
    np.testing.assert_allclose(run(named, x), run(planes, np.ascontiguousarray(np.moveaxis(x, -1, 1))), atol=1e-6)


def test_the_fast_layout_of_images_changes_no_output_or_gradient():
    from torch.nn import functional

    block = build("nature-cnn", {"hidden_units": [6]}, (4, 36, 44))
    x = torch.from_numpy(images(3, 4, 36, 44))
    block({"image": x})["out"].square().sum().backward()
    maps, copies = x, [parameter.detach().clone().requires_grad_() for parameter in block.parameters()]
    for layer, stride in enumerate((4, 2, 1)):
        maps = torch.relu(functional.conv2d(maps, copies[2 * layer], copies[2 * layer + 1], stride))
    expected = torch.relu(functional.linear(maps.flatten(1), copies[6], copies[7]))
    expected.square().sum().backward()
    torch.testing.assert_close(block({"image": x})["out"], expected)
    for parameter, copy in zip(block.parameters(), copies, strict=True):
        torch.testing.assert_close(parameter.grad, copy.grad)


def test_training_takes_batch_statistics():
    block = build("vgg-convolution", {"hidden_channels": [3], "use_batch_norm": True}, (2, 4, 4))
    block.out_shapes()
    before = block.stages[0].norms[0].running_mean.clone()
    assert torch.equal(before, torch.zeros(3))
    block({"image": torch.randn(8, 2, 4, 4) + 3.0})
    assert not torch.equal(block.stages[0].norms[0].running_mean, before)


def test_every_block_is_in_the_list():
    names = {entry.component.name for entry in KERNEL.catalog.entries("block") if "conv" in entry.component.target}
    assert names == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_they_conform(name):
    check_block(lambda: build(name, *CASES[name]))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_they_compile(name):
    check_compiled_block(lambda: build(name, *CASES[name]))


@pytest.mark.parametrize(
    ("name", "options", "shape", "words"),
    [
        ("strided-convolution", {}, (84, 84, 3), ["StridedConvolution", "'image'", "(84, 84, 3)", "layer 0"]),
        ("strided-convolution", {}, (3, 20, 20), ["layer 2", "(1, 1)", "(3, 20, 20)"]),
        ("strided-convolution", {}, (20, 20), ["StridedConvolution", "(20, 20)", "3 dimensions"]),
        ("vgg-convolution", {}, (3, 4, 4), ["VGGConvolution", "stage 2", "(1, 1)"]),
        ("self-attention-conv", {}, (4,), ["SelfAttentionConv", "(4,)"]),
    ],
)
def test_images_that_do_not_fit_are_refused(name, options, shape, words):
    with pytest.raises(BlockError) as caught:
        build(name, options, shape)
    for word in words:
        assert word in caught.value.render()


@pytest.mark.parametrize(
    "options",
    [
        {"hidden_channels": [3, 4]},
        {"hidden_strides": [0, 1, 1]},
        {"hidden_paddings": [-1, 0, 0]},
        {"convolution_dimension": 4},
        {"hidden_channels": []},
    ],
)
def test_layers_that_do_not_match_are_refused(options):
    with pytest.raises(RequestError):
        select(KERNEL, "block", {"use": "strided-convolution", **options})


def test_forward_and_backward_trace_as_one_graph():
    check_compiled_block(lambda: build("self-attention-conv", *CASES["self-attention-conv"]), backend="aot_eager")
