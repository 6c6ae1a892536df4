"""Rectified convolutions of networks that act: the numbers of torch, and torch itself for all that they do not know."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from maze_blocks_conv.joint import NatureCNN
from maze_blocks_conv.options import NatureCNNOptions, StridedConvolutionOptions
from maze_blocks_conv.strided import StridedConvolution
from maze_perception.blocks.image import ImageFeatures
from maze_runtime.models.processor import HAS_VECTORS
from maze_runtime.native import rectified
from maze_runtime.native.convolutions import convolutions_library
from maze_runtime.native.rectified import rectified_convolutions


@pytest.fixture
def calls(monkeypatch):
    """How many convolutions were computed in C++."""
    if convolutions_library() is None or not HAS_VECTORS:
        pytest.skip("no compiler here, or another processor")
    counted = []
    run = rectified._convolved
    monkeypatch.setattr(rectified, "_convolved", lambda *given: counted.append(1) or run(*given))
    return counted


def rectified_by_torch(layers, x):
    for layer in layers:
        x = layer(x).relu()
    return x


LAYERS = [nn.Conv2d(4, 32, 8, 4), nn.Conv2d(32, 64, 4, 2, bias=False), nn.Conv2d(64, 64, 3, padding=1)]


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("n_images", [4, 31])
def test_they_give_the_numbers_of_torch(calls, n_images, layout):
    images = torch.rand(n_images, 4, 84, 84).contiguous(memory_format=layout)
    with torch.no_grad():
        found, wanted = rectified_convolutions(LAYERS, images), rectified_by_torch(LAYERS, images)
    assert len(calls) == 3
    assert found.shape == wanted.shape
    assert (found - wanted).abs().max() < 1e-5 * wanted.abs().max()


class Doubled(nn.Conv2d):
    def forward(self, x):
        return 2.0 * super().forward(x)


def hooked():
    layer = nn.Conv2d(16, 16, 3)
    layer.register_forward_hook(lambda module, inputs, out: out + 1.0)
    return layer


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(16, 16, 3, groups=2),
        nn.Conv2d(16, 16, 3, dilation=2),
        nn.Conv2d(16, 16, 3, padding=1, padding_mode="reflect"),
        nn.Conv2d(16, 16, 3, padding="same"),
        nn.Conv2d(16, 16, (3, 2)),
        nn.Conv2d(16, 16, 3, padding=(0, 1)),
        nn.Conv2d(16, 20, 3),
        nn.Conv2d(16, 16, 5),
        Doubled(16, 16, 3),
        hooked(),
    ],
)
def test_layers_of_another_kind_are_torchs(calls, layer):
    images = torch.rand(8, 16, 12, 12)
    with torch.no_grad():
        assert torch.equal(rectified_convolutions([layer], images), layer(images).relu())
    assert not calls


@pytest.mark.parametrize("shape", [(8, 20, 12, 12), (8, 16, 2, 2)])
def test_what_does_not_fit_is_refused_by_torch(calls, shape):
    with torch.no_grad(), pytest.raises(RuntimeError, match=r"channels|size"):
        rectified_convolutions([nn.Conv2d(16, 16, 3)], torch.rand(*shape))
    with torch.no_grad():
        single = rectified_convolutions([nn.Conv2d(16, 16, 3)], torch.rand(16, 12, 12))
    assert single.shape == (16, 10, 10)
    assert not calls


class Watched(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, _types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def test_who_watches_operations_sees_those_of_torch(calls):
    with torch.no_grad(), Watched():
        rectified_convolutions([nn.Conv2d(16, 16, 3)], torch.rand(8, 16, 12, 12))
    assert not calls


def test_where_gradients_are_wanted_or_operations_traced_they_are_torchs(calls):
    images, layer = torch.rand(8, 16, 12, 12), nn.Conv2d(16, 16, 3)
    constant = nn.Conv2d(16, 16, 3).requires_grad_(False)
    assert rectified_convolutions([layer], images).requires_grad
    with torch.no_grad():
        traced = torch.jit.trace(lambda x: rectified_convolutions([constant], x), images, check_trace=False)
        assert torch.equal(traced(images), constant(images).relu())
        stacked = torch.func.vmap(lambda x: rectified_convolutions([layer], x))(images[None])
        assert torch.allclose(stacked[0], layer(images).relu())
        doubled = rectified_convolutions([nn.Conv2d(16, 16, 3).double()], images.double())
        assert doubled.dtype == torch.float64
        with torch.autocast("cpu", torch.bfloat16):
            assert rectified_convolutions([layer], images).dtype == torch.bfloat16
    assert not calls
    with torch.no_grad():
        rectified_convolutions([layer], images)
    assert calls


@pytest.mark.parametrize(
    "block",
    [
        ImageFeatures(["x"], ["y"], [(84, 84, 4)]),
        NatureCNN(["x"], ["y"], [(4, 84, 84)], NatureCNNOptions()),
        NatureCNN(["x"], ["y"], [(84, 84, 4)], NatureCNNOptions(channel_order="last")),
    ],
    ids=["auto", "planes", "channels last"],
)
def test_blocks_act_by_them_once_their_updates_are_compiled(calls, block):
    images = torch.rand(8, *block.in_shapes[0])
    with torch.no_grad():
        before = block({"x": images})["y"]
        assert not calls
        block.prepare_for_compilation()
        after = block({"x": images})["y"]
    assert len(calls) == 3
    assert torch.allclose(before, after, atol=1e-5)
    assert block({"x": images})["y"].requires_grad
    assert len(calls) == 3


@pytest.mark.parametrize("changed", [{"non_lin": "tanh"}, {"convolution_dimension": 1}])
def test_blocks_with_another_activation_or_dimension_do_not(calls, changed):
    n_dims = changed.get("convolution_dimension", 2)
    options = StridedConvolutionOptions(hidden_channels=(16,), hidden_kernels=(3,), hidden_strides=(1,), **changed)
    block = StridedConvolution(["x"], ["y"], [(16, *(20,) * n_dims)], options)
    block.prepare_for_compilation()
    x = torch.rand(8, *block.in_shapes[0])
    activation = functional.relu if n_dims == 1 else torch.tanh
    with torch.no_grad():
        assert torch.allclose(block({"x": x})["y"], activation(block.convolutions[0](x)), atol=1e-6)
    assert not calls
