"""Convolutions in C++: the numbers of double precision, and where compiled code takes them."""

import ctypes
import itertools

import numpy as np
import pytest
import torch
from aten_handles import handle_of, tensor_of
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional

from maze_runtime.models.processor import HAS_VECTORS
from maze_runtime.native import convolutions
from maze_runtime.native.by_name import shims_of
from maze_runtime.native.convolutions import (
    SOURCE,
    ConvolutionSizes,
    native_convolution,
    native_convolutions_shims,
    native_filter_gradients,
    native_gradients,
)
from maze_runtime.native.library import build_library
from maze_runtime.training.compiled_convolutions import NativeConvolutions
from maze_runtime.training.graph_nodes import InTurn

SHAPES = [
    # images, channels, units, height, width, kernel, stride, padding, points
    (3, 4, 32, 84, 84, 8, 4, 0, 4),
    (12, 32, 64, 20, 20, 4, 2, 0, 4),
    (26, 64, 64, 9, 9, 3, 1, 0, 6),
    (5, 16, 16, 7, 12, 3, 1, 1, 4),  # wider than high, with an edge around
    (5, 16, 32, 11, 6, 3, 1, 1, 6),
    (2, 3, 16, 23, 21, 8, 4, 0, 4),  # 12 of 16 numbers in a row, pixels that belong to no output
    (2, 5, 16, 10, 10, 3, 1, 2, 6),
    (3, 8, 48, 9, 9, 4, 2, 0, 4),
    (1, 16, 16, 3, 3, 3, 1, 0, 4),  # one output
    (2, 24, 16, 8, 8, 2, 1, 0, 4),
]


def convolved(x, weight, bias, stride, padding):
    """(B, O, H', W'), tap by tap."""
    kernel = weight.shape[2]
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    height, width = ((size - kernel) // stride + 1 for size in padded.shape[2:])
    out = np.zeros((len(x), len(weight), height, width)) + bias[:, None, None]
    for a, b in itertools.product(range(kernel), repeat=2):
        seen = padded[:, :, a : a + stride * height : stride, b : b + stride * width : stride]
        out += np.einsum("bchw,oc->bohw", seen, weight[:, :, a, b])
    return out


def convolved_back(gradient, x, weight, stride, padding):
    """Gradients of x, weight and bias, tap by tap."""
    kernel, (height, width) = weight.shape[2], gradient.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    of_padded, of_weight = np.zeros(padded.shape), np.zeros(weight.shape)
    for a, b in itertools.product(range(kernel), repeat=2):
        seen = np.s_[:, :, a : a + stride * height : stride, b : b + stride * width : stride]
        of_padded[seen] += np.einsum("bohw,oc->bchw", gradient, weight[:, :, a, b])
        of_weight[:, :, a, b] = np.einsum("bohw,bchw->oc", gradient, padded[seen])
    inside = np.s_[padding : padded.shape[2] - padding, padding : padded.shape[3] - padding]
    return of_padded[:, :, *inside], of_weight, gradient.sum((0, 2, 3))


def turned(images):
    return torch.as_tensor(images).contiguous(memory_format=torch.channels_last)


@pytest.fixture(scope="module")
def library():
    built = build_library(SOURCE, calls_torch=True)
    if built is None or not HAS_VECTORS:
        pytest.skip("no compiler here, or another processor")
    return built


def call(function, tensors, numbers, n_made):
    made = [ctypes.c_void_p() for _ in range(n_made)]
    assert not function(*tensors, *numbers, *map(ctypes.byref, made))
    return [tensor_of(own) for own in made]


def optional(tensor):
    return None if tensor is None else ctypes.byref(handle_of(tensor))


def forward(library, x, weight, bias, stride, padding, points, *, threads=1, scale=1.0, rectified=False):
    tensors = handle_of(x), handle_of(weight), optional(bias)
    numbers = (
        *map(ctypes.c_int64, (stride, padding, points, threads)),
        ctypes.c_double(scale),
        ctypes.c_int32(rectified),
    )
    return call(library.native_convolution, tensors, numbers, 1)[0]


def gradients(library, gradient, x, weight, out, stride, padding, points, *, threads=1):
    tensors = handle_of(gradient), handle_of(x), handle_of(weight), optional(out)
    numbers = map(ctypes.c_int64, (stride, padding, points, threads))
    return call(library.native_convolution_gradients, tensors, numbers, 3)


def filter_gradients(library, gradient, x, weight, out, stride, padding, points, *, threads=1, scale=1.0):
    tensors = handle_of(gradient), handle_of(x), handle_of(weight), optional(out)
    numbers = *map(ctypes.c_int64, (stride, padding, points, threads)), ctypes.c_double(scale)
    return call(library.native_convolution_filter_gradients, tensors, numbers, 2)


def drawn(shape):
    n, channels, units, height, width, kernel, stride, padding, _ = shape
    numbers = np.random.default_rng(sum(shape))
    x, weight = (
        numbers.normal(size=(n, channels, height, width)),
        numbers.normal(size=(units, channels, kernel, kernel)),
    )
    bias = numbers.normal(size=units)
    gradient = numbers.normal(size=convolved(x, weight, bias, stride, padding).shape)
    return [own.astype(np.float32) for own in (x, weight, bias, gradient)]


def assert_near(found, exact):
    assert found.shape == exact.shape
    assert np.abs(found.numpy() - exact).max() <= 1e-5 * np.abs(exact).max()


@pytest.mark.parametrize("shape", SHAPES)
def test_outputs_and_gradients_are_those_of_double_precision(library, shape):
    stride, padding, points = shape[6:]
    x, weight, bias, gradient = drawn(shape)
    doubles = [own.astype(np.float64) for own in (x, weight, bias, gradient)]
    images, filters, of_out = turned(x), torch.as_tensor(weight), turned(gradient)
    exact = convolved(*doubles[:3], stride, padding)
    out = forward(library, images, filters, torch.as_tensor(bias), stride, padding, points)
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert_near(out, exact)
    assert_near(forward(library, images, filters, None, stride, padding, points), exact - doubles[2][:, None, None])

    of_all = convolved_back(doubles[3], *doubles[:2], stride, padding)
    for found, wanted in zip(
        gradients(library, of_out, images, filters, None, stride, padding, points), of_all, strict=True
    ):
        assert_near(found, wanted)
    of_weight, of_bias = filter_gradients(library, of_out, images, filters, None, stride, padding, points, scale=0.5)
    assert_near(of_weight, 0.5 * of_all[1])
    assert_near(of_bias, of_all[2])


@pytest.mark.parametrize("shape", [own for own in SHAPES if own[1] < 16])
def test_bytes_count_what_they_are_told_and_may_be_in_one_colour(library, shape):
    stride, padding, points = shape[6:]
    x, weight, bias, gradient = drawn(shape)
    as_bytes = np.random.default_rng(0).integers(0, 256, x.shape).astype(np.uint8)
    as_bytes[:, :, x.shape[2] // 3 :] = 87
    as_bytes[-1] = 0
    for pixels in (as_bytes, np.full_like(as_bytes, 255), np.zeros_like(as_bytes)):
        numbers = pixels.astype(np.float64) / 255
        exact = np.maximum(convolved(numbers, weight.astype(np.float64), bias, stride, padding), 0)
        arguments = turned(pixels), torch.as_tensor(weight)
        out = forward(
            library, *arguments, torch.as_tensor(bias), stride, padding, points, scale=1 / 255, rectified=True
        )
        assert_near(out, exact)
        passed = np.where(exact > 0, gradient, 0.0)
        _, of_weight, of_bias = convolved_back(passed, numbers, weight.astype(np.float64), stride, padding)
        found = filter_gradients(library, turned(gradient), *arguments, out, stride, padding, points, scale=1 / 255)
        assert_near(found[0], of_weight)
        assert_near(found[1], of_bias)


@pytest.mark.parametrize("share", [0.05, 0.4, 0.97, 1.0])
@pytest.mark.parametrize("shape", [SHAPES[1], SHAPES[2], SHAPES[4], SHAPES[7]])
def test_channels_and_units_that_are_silent_change_nothing(library, shape, share):
    stride, padding, points = shape[6:]
    x, weight, bias, gradient = drawn(shape)
    numbers = np.random.default_rng(1)
    x[:, numbers.random(x.shape[1]) < share] = 0.0
    x[: len(x) // 2, numbers.random(x.shape[1]) < share] = -0.0
    silent = numbers.random(gradient.shape[1]) < share
    gradient[-1, silent] = 0.0
    images, filters = turned(x), torch.as_tensor(weight)
    exact = convolved(*(own.astype(np.float64) for own in (x, weight, bias)), stride, padding)
    assert_near(forward(library, images, filters, torch.as_tensor(bias), stride, padding, points), exact)
    out = np.where(silent[:, None, None], 0.0, np.abs(exact)).astype(np.float32)
    passed = np.where(out > 0, gradient, 0.0)
    of_all = convolved_back(passed.astype(np.float64), x.astype(np.float64), weight.astype(np.float64), stride, padding)
    found = gradients(library, turned(gradient), images, filters, turned(out), stride, padding, points)
    for own, wanted in zip(found, of_all, strict=True):
        assert np.abs(own.numpy() - wanted).max() <= 1e-5 * max(1.0, np.abs(wanted).max())


@pytest.mark.parametrize("threads", [2, 3, 9])
@pytest.mark.parametrize("shape", SHAPES[:2])
def test_threads_divide_the_images(library, shape, threads):
    stride, padding, points = shape[6:]
    images, filters, bias, of_out = map(torch.as_tensor, drawn(shape))
    images, of_out = turned(images), turned(of_out)
    settings = stride, padding, points
    alone = forward(library, images, filters, bias, *settings)
    assert torch.equal(alone, forward(library, images, filters, bias, *settings, threads=threads))
    of_x, *others = gradients(library, of_out, images, filters, alone, *settings)
    found, *sums = gradients(library, of_out, images, filters, alone, *settings, threads=threads)
    assert torch.equal(found, of_x)
    for own, wanted in zip(sums, others, strict=True):
        assert_near(own, wanted.numpy())
    again = gradients(library, of_out, images, filters, alone, *settings, threads=threads)
    assert all(map(torch.equal, again, (found, *sums)))


def test_what_is_not_a_number_arrives(library):
    x, weight, bias, gradient = drawn(shape := SHAPES[1])
    settings = shape[6:]
    x[3, 5, 7, 9] = np.nan
    images, filters = turned(x), torch.as_tensor(weight)
    out = forward(library, images, filters, torch.as_tensor(bias), *settings, rectified=True)
    wanted = functional.conv2d(images, filters, stride=2).isnan()
    assert wanted.any()
    assert out.isnan()[wanted].all()
    assert out[:3].isfinite().all()
    of_x, _, of_bias = gradients(library, turned(np.full_like(gradient, np.nan)), images, filters, out, *settings)
    assert of_x.isnan().any()
    assert of_bias.isnan().any()


def test_another_number_of_points_is_an_error(library):
    x, weight, bias, _ = map(torch.as_tensor, drawn(shape := SHAPES[1]))
    made = ctypes.c_void_p()
    tensors = handle_of(turned(x)), handle_of(weight), optional(bias)
    numbers = *map(ctypes.c_int64, (*shape[6:8], 6, 1)), ctypes.c_double(1.0), ctypes.c_int32(0)
    assert library.native_convolution(*tensors, *numbers, ctypes.byref(made)) == 1


def sizes_of(n_images=256, **changed):
    own = {"channels": 32, "units": 64, "out_height": 9, "out_width": 9, "kernel": 4, "stride": 2, "padding": 0}
    return ConvolutionSizes(n_images=n_images, **(own | changed))


@pytest.mark.parametrize(
    ("changed", "points"),
    [
        ({}, 4),
        ({"channels": 4, "units": 32, "kernel": 8, "stride": 4, "out_height": 20, "out_width": 20}, 4),
        ({"channels": 64, "kernel": 3, "stride": 1, "out_height": 7, "out_width": 7}, 6),
        ({"channels": 64, "kernel": 3, "stride": 1, "out_height": 2, "out_width": 2}, 4),
        ({"channels": 1, "kernel": 8, "stride": 4, "out_height": 20, "out_width": 20}, 0),  # 4 of 16 numbers in a row
        ({"units": 65}, 0),
        ({"kernel": 3}, 0),
        ({"padding": 1}, 0),
        ({"kernel": 5, "stride": 1}, 0),
        ({"kernel": 1, "stride": 1}, 0),
        ({"n_images": 1}, 0),
    ],
)
def test_they_are_taken_where_they_save_products(changed, points):
    assert sizes_of(**changed).points() == points


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def exchanged(function, *inputs):
    traced = make_fx(function, tracing_mode="fake")(*inputs)
    NativeConvolutions()(traced.graph)
    traced.recompile()
    return traced, [node.target for node in traced.graph.nodes if node.op == "call_function"]


def layers(images, first, second, bias):
    """Bytes through two rectified convolutions, and the gradients of all parameters."""
    x = torch.ops.prims.convert_element_type.default(images, torch.float32) * (1 / 255)
    hidden = functional.conv2d(x, first, bias, 4).relu()
    out = functional.conv2d(hidden, second, bias, 2).relu()
    zero = torch.full((), 0.0)
    gradient = torch.where(out <= 0, zero, out)
    none, one = [0, 0], [1, 1]
    of_hidden, of_second, _ = torch.ops.aten.convolution_backward(
        gradient, hidden, second, [32], [2, 2], none, one, False, none, 1, [True] * 3
    )
    of_hidden = torch.where(hidden <= 0, zero, of_hidden)
    _, of_first, of_bias = torch.ops.aten.convolution_backward(
        of_hidden, x, first, [32], [4, 4], none, one, False, none, 1, [False, True, True]
    )
    return out, of_first, of_second, of_bias


def test_bytes_and_rectifiers_are_taken_along(threads):
    threads(1)
    images = turned(torch.randint(0, 256, (8, 4, 52, 52), dtype=torch.uint8))
    inputs = images, torch.randn(32, 4, 8, 8), torch.randn(32, 32, 4, 4), torch.randn(32)
    traced, targets = exchanged(layers, *inputs)
    assert [targets.count(own) for own in (native_convolution, native_gradients, native_filter_gradients)] == [2, 1, 1]
    assert torch.ops.prims.convert_element_type.default not in targets
    assert torch.ops.aten.relu.default not in targets
    assert targets.count(torch.ops.aten.where.self) == 0
    for found, wanted in zip(traced(*inputs), layers(*inputs), strict=True):
        assert torch.allclose(found, wanted, rtol=1e-4, atol=1e-4 * float(wanted.abs().max()))


def of(n_images=8, channels=16, size=12, dtype=torch.float32, layout=torch.channels_last):
    return torch.randn(n_images, channels, size, size).to(dtype).contiguous(memory_format=layout)


@pytest.mark.parametrize(
    ("x", "weight", "settings"),
    [
        (of(layout=torch.contiguous_format), torch.randn(16, 16, 3, 3), {}),
        (of(dtype=torch.float64), torch.randn(16, 16, 3, 3).double(), {}),
        (of(), torch.randn(16, 8, 3, 3), {"groups": 2}),
        (of(), torch.randn(16, 16, 3, 3), {"dilation": 2}),
        (of(), torch.randn(16, 16, 3, 2), {}),
        (of(), torch.randn(16, 16, 3, 3), {"padding": (0, 1)}),
        (of(), of(16, 16, 3), {}),
    ],
    ids=["planes", "double", "groups", "dilation", "not square", "two paddings", "turned filters"],
)
def test_others_stay_with_torch(threads, x, weight, settings):
    threads(1)
    _, targets = exchanged(lambda x, weight: functional.conv2d(x, weight, **settings), x, weight)
    assert native_convolution not in targets


def test_one_of_the_usual_kind_does_not_stay(threads):
    for n_threads in (1, 2):
        threads(n_threads)
        traced, targets = exchanged(functional.conv2d, of(), torch.randn(16, 16, 3, 3))
        assert native_convolution in targets
        assert [node.args[6] for node in traced.graph.nodes if node.target is native_convolution] == [n_threads]


def test_an_output_that_others_read_is_not_rectified(threads):
    threads(1)
    x, weight = of(), torch.randn(16, 16, 3, 3)

    def both(x, weight):
        out = functional.conv2d(x, weight)
        return out.relu(), out

    traced, targets = exchanged(both, x, weight)
    assert torch.ops.aten.relu.default in targets
    assert all(map(torch.equal, traced(x, weight), both(x, weight)))


def test_code_with_and_without_them_is_told_apart(threads):
    threads(1)
    alone = NativeConvolutions().uuid()
    threads(2)
    assert alone != NativeConvolutions().uuid()


def test_without_a_compiler_there_are_none(monkeypatch):
    monkeypatch.setattr(convolutions, "convolutions_library", lambda: None)
    assert native_convolutions_shims.__wrapped__() == {}
    assert shims_of(None, {}) == {}


@pytest.mark.slow
@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_compiled_update_gives_the_gradients_of_torch(library, threads, monkeypatch, n_threads):
    from maze_runtime.training.gradient_step import GradientStep

    threads(n_threads)
    found = []
    monkeypatch.setattr(
        NativeConvolutions,
        "__call__",
        lambda own, graph, run=NativeConvolutions.__call__: found.append(run(own, graph)),
    )

    monkeypatch.setattr(InTurn, "uuid", lambda _: None)  # nothing comes out of the cache on disk

    def network():
        torch.manual_seed(0)
        convolutions = [
            nn.Conv2d(4, 32, 8, 4),
            nn.ReLU(),
            nn.Conv2d(32, 32, 4, 2),
            nn.ReLU(),
            nn.Conv2d(32, 32, 3, padding=1),
        ]
        return nn.Sequential(*convolutions, nn.ELU(), nn.Flatten(), nn.Linear(32 * 9, 1))

    def loss(model, images, y):
        x = images.permute(0, 3, 1, 2).float() * (1 / 255)
        error = (model(x).squeeze(-1) - y).square().mean()
        return error, error.detach().reshape(1)

    images, y = torch.randint(0, 256, (32, 36, 36, 4), dtype=torch.uint8), torch.randn(32)
    weights = []
    for compiled in (False, True):
        step = GradientStep(model := network(), loss, epsilon=1e-2, max_grad_norm=0.0, compiled=compiled)
        for _ in range(3):
            step(0.01, images, y)
        weights.append(torch.cat([own.detach().flatten() for own in model.parameters()]))
    assert found
    assert torch.allclose(*weights, atol=2e-5)
    assert not torch.allclose(
        weights[0], torch.cat([own.detach().flatten() for own in network().parameters()]), atol=1e-3
    )
