"""Pre-processors against slow NumPy or Pillow, their names, and what they refuse."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from PIL import Image

from maze_kernel.catalog import build
from maze_kernel.config.load import experiment_from_mapping, select
from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.errors import RequestError
from maze_runtime.env.flat import flat_spaces
from maze_runtime.run.assembly import Assembly
from maze_wrappers.resize_img import coverage, exact, interpolation

ACTION = spaces.Dict(action=spaces.Discrete(2))


def bound(kernel, name, space, **options):
    transform = build(select(kernel, "wrapper", {"use": name, "observation": "x", **options}))
    outer = transform.bind(flat_spaces(spaces.Dict(x=space), ACTION)).observation["0"]
    return lambda value: transform.observation("0", {"x": value}), outer


@pytest.mark.parametrize("size", [(96, 96), (7, 31), (50, 80)], ids=str)
@pytest.mark.parametrize("colour", [True, False], ids=["rgb", "gray"])
def test_resized_images_look_like_those_of_pillow(kernel, size, colour):
    rng = np.random.default_rng(0)
    shape = (50, 40, 3) if colour else (50, 40)
    images = rng.integers(0, 256, (4, *shape), dtype=np.uint8)
    resize, outer = bound(kernel, "resize-img", spaces.Box(0, 255, shape, np.uint8), target_size=list(size))
    result = resize(images)["x-resize_img"]
    assert result.shape[1:] == outer["x-resize_img"].shape == (*size, *shape[2:])
    assert result.dtype == np.uint8
    for image, resized in zip(images, result, strict=True):
        wanted = np.asarray(Image.fromarray(image).resize(size[::-1], Image.Resampling.BILINEAR), np.int64)
        assert np.abs(resized.astype(np.int64) - wanted).max() <= 1
    first, _ = bound(
        kernel, "resize-img", spaces.Box(0, 255, (3, 50, 40), np.uint8), target_size=list(size), channels_first=True
    )
    if colour:
        np.testing.assert_array_equal(first(images.transpose(0, 3, 1, 2))["x-resize_img"], result.transpose(0, 3, 1, 2))


def test_gray_is_what_pillow_calls_luminance(kernel):
    image = np.random.default_rng(0).integers(0, 256, (9, 8, 3), dtype=np.uint8)
    gray, outer = bound(kernel, "rgb2gray", spaces.Box(0, 255, (9, 8, 3), np.uint8))
    wanted = np.asarray(Image.fromarray(image).convert("L"), np.int64)
    assert np.abs(gray(image)["x-rgb2gray"].astype(np.int64) - wanted).max() <= 1
    assert outer["x-rgb2gray"] == spaces.Box(0, 255, (9, 8), np.uint8)
    first, _ = bound(kernel, "rgb2gray", spaces.Box(0, 255, (3, 9, 8), np.uint8), rgb_dim=0)
    np.testing.assert_array_equal(first(image.transpose(2, 0, 1))["x-rgb2gray"], gray(image)["x-rgb2gray"])


def test_categories_become_one_hot_vectors(kernel):
    one_hot, outer = bound(kernel, "one-hot", spaces.Discrete(4, start=-1))
    assert one_hot(np.array([-1, 2, 0]))["x-one_hot"].tolist() == np.eye(4)[[0, 3, 1]].tolist()
    assert one_hot(0)["x-one_hot"].tolist() == [0, 1, 0, 0]
    assert outer["x-one_hot"] == spaces.Box(0, 1, (4,), np.float32)
    one_hot, _ = bound(kernel, "one-hot", spaces.MultiDiscrete([2, 3]))
    assert one_hot(np.array([1, 2]))["x-one_hot"].tolist() == [0, 1, 0, 0, 1]


def test_shapes_change_and_bounds_follow(kernel):
    low = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    box = spaces.Box(low, low + 1)
    batch = np.stack([low, low + 1])
    flatten, outer = bound(kernel, "flatten", box)
    assert outer["x-flatten"].low.tolist() == list(range(24))
    assert flatten(batch)["x-flatten"].shape == (2, 24)
    flatten, outer = bound(kernel, "flatten", box, n_dims=2)
    assert flatten(batch)["x-flatten"].shape == (2, 2, 12)
    transpose, outer = bound(kernel, "transpose", box, axes=[2, 0, 1])
    assert outer["x-transpose"].low[3, 1, 2] == low[1, 2, 3]
    assert transpose(batch)["x-transpose"][1, 3, 1, 2] == low[1, 2, 3] + 1
    for dim, shape in ((0, (1, 2, 3, 4)), (-1, (2, 3, 4, 1)), (-3, (2, 1, 3, 4))):
        unsqueeze, outer = bound(kernel, "unsqueeze", box, dim=dim)
        assert outer["x-unsqueeze"].shape == unsqueeze(low)["x-unsqueeze"].shape == shape
        assert unsqueeze(batch)["x-unsqueeze"].shape == (2, *shape)


def test_pre_processors_chain_by_name_and_keep_originals(kernel):
    chain = [
        {"use": "rgb2gray", "observation": "observation", "keep_original": True},
        {"use": "resize-img", "observation": "observation-rgb2gray", "target_size": [8, 8]},
        {"use": "unsqueeze", "observation": "observation-rgb2gray-resize_img", "dim": 0},
    ]
    data = {
        "name": "pixels",
        "env": {"use": "maze_testing.environments:TwoStep"},
        "trainer": {"use": "ppo"},
        "wrappers": chain,
    }
    image = spaces.Box(0, 255, (12, 10, 3), np.uint8)
    transforms = Assembly(experiment_from_mapping(data, kernel=kernel), kernel).make_transforms()
    seen = flat_spaces(spaces.Dict(observation=image), ACTION)
    observation = {"observation": image.sample()}
    for transform in transforms:
        seen = transform.bind(seen)
        observation = transform.observation("0", observation)
    assert set(observation) == {"observation", "observation-rgb2gray-resize_img-unsqueeze"}
    assert seen.observation["0"]["observation-rgb2gray-resize_img-unsqueeze"].shape == (1, 8, 8)


@pytest.mark.parametrize(
    ("name", "space", "options", "message"),
    [
        ("flatten", spaces.Discrete(3), {}, "cannot be flattened"),
        ("one-hot", spaces.Box(0, 1), {}, "only categories"),
        ("rgb2gray", spaces.Box(0, 1, (4, 4, 4)), {}, "no three colours"),
        ("rgb2gray", spaces.Box(0, 1, (3,)), {}, "cannot be served"),
        ("transpose", spaces.Box(0, 1, (4, 4)), {"axes": [0, 0]}, "no order"),
        ("unsqueeze", spaces.Box(0, 1, (4, 4)), {"dim": 3}, "does not exist"),
        ("resize-img", spaces.Box(0, 1, (4,)), {"target_size": [2, 2]}, "cannot be served"),
        ("flatten", spaces.Box(0, 1), {"observation": "y"}, "no observation 'y'"),
    ],
)
def test_what_cannot_be_served_is_refused_in_words(kernel, name, space, options, message):
    with pytest.raises(RequestError, match=message):
        bound(kernel, name, space, **options)


@pytest.mark.parametrize(
    ("name", "space", "options"),
    [
        ("flatten", spaces.Box(0, 1, (3, 4, 2)), {"n_dims": 2}),
        ("one-hot", spaces.Discrete(4, start=1), {}),
        ("one-hot", spaces.MultiDiscrete([2, 3]), {"keep_original": True}),
        ("resize-img", spaces.Box(0, 255, (9, 8, 3), np.uint8), {"target_size": [4, 11]}),
        ("resize-img", spaces.Box(-1, 1, (9, 8)), {"target_size": [4, 11]}),
        ("transpose", spaces.Box(0, 1, (3, 4, 2)), {"axes": [2, 0, 1]}),
        ("unsqueeze", spaces.Box(0, 1, (3, 4)), {"dim": -2}),
        ("rgb2gray", spaces.Box(0, 255, (9, 8, 3), np.uint8), {}),
    ],
)
def test_exported_policies_pre_process_alike(kernel, name, space, options):
    transform = build(select(kernel, "wrapper", {"use": name, "observation": "x", **options}))
    transform.bind(flat_spaces(spaces.Dict(x=space), ACTION))
    batch = np.stack([np.asarray(space.sample()) for _ in range(5)])
    wanted = transform.observation("0", {"x": batch})
    exported = transform.export_observation("0", {"x": torch.from_numpy(batch)})
    assert wanted.keys() == exported.keys()
    for key, value in wanted.items():
        tolerance = 1 if value.dtype == np.uint8 else 1e-5
        np.testing.assert_allclose(exported[key].numpy().astype(float), value.astype(float), atol=tolerance)
        assert exported[key].numpy().dtype == value.dtype


@pytest.mark.parametrize(
    ("name", "first", "second", "options"),
    [
        ("one-hot", spaces.Discrete(3, start=1), spaces.Discrete(4), {}),
        ("flatten", spaces.Box(0, 1, (2, 2)), spaces.Box(0, 1, (3,)), {}),
        ("unsqueeze", spaces.Box(0, 1, (3,)), spaces.Box(0, 1, (2, 2)), {"dim": 0}),
        ("rgb2gray", spaces.Box(0, 255, (4, 3, 3), np.uint8), spaces.Box(0, 1, (4, 3, 3)), {}),
        (
            "resize-img",
            spaces.Box(0, 255, (4, 4), np.uint8),
            spaces.Box(0, 255, (8, 6), np.uint8),
            {"target_size": [2, 2]},
        ),
    ],
    ids=["one-hot", "flatten", "unsqueeze", "rgb2gray", "resize-img"],
)
def test_each_policy_key_is_pre_processed_by_its_own_space(kernel, name, first, second, options):
    seen = {"a": spaces.Dict(x=first), "b": spaces.Dict(x=second)}
    transform = build(select(kernel, "wrapper", {"use": name, "observation": "x", **options}))
    inner = StructuredSpaces(observation=seen, action=dict.fromkeys(seen, ACTION), agent_counts=dict.fromkeys(seen, 1))
    outer = transform.bind(inner).observation
    alone, _ = zip(*(bound(kernel, name, space["x"], **options) for space in seen.values()), strict=True)
    for (key, space), process in zip(seen.items(), alone, strict=True):
        sample = np.asarray(space["x"].sample())
        processed = transform.observation(key, {"x": sample})
        assert outer[key].contains(processed)
        np.testing.assert_array_equal(processed[f"x-{transform.tag}"], process(sample)[f"x-{transform.tag}"])
        exported = transform.export_observation(key, {"x": torch.from_numpy(sample[None])})
        np.testing.assert_array_equal(exported[f"x-{transform.tag}"].numpy()[0], processed[f"x-{transform.tag}"])


@pytest.mark.parametrize("space", [spaces.Discrete(4, start=1), spaces.MultiDiscrete([2, 3])])
def test_an_empty_batch_becomes_one_hot_vectors_too(kernel, space):
    transform = build(select(kernel, "wrapper", {"use": "one-hot", "observation": "x"}))
    transform.bind(flat_spaces(spaces.Dict(x=space), ACTION))
    nothing = np.zeros((0, *(space.shape or ())), space.dtype)
    outer = transform.observation("0", {"x": nothing})
    exported = transform.export_observation("0", {"x": torch.from_numpy(nothing)})
    assert {key: value.shape for key, value in outer.items()} == {key: value.shape for key, value in exported.items()}
    assert all(len(value) == 0 for value in outer.values())


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 2)], ids=str)
def test_exported_policies_choose_the_same_bins(kernel, shape):
    transform = build(select(kernel, "wrapper", {"use": "discretize-actions", "n_bins": 4}))
    outer = transform.bind(flat_spaces(spaces.Dict(), spaces.Dict(action=spaces.Box(-2, 6, shape)))).action["0"]
    batch = np.stack([outer["action"].sample() for _ in range(7)])
    wanted = transform.action("0", {"action": batch})["action"]
    exported = transform.export_action("0", {"action": torch.from_numpy(batch)})["action"]
    np.testing.assert_allclose(exported.numpy(), wanted, atol=1e-6)


@pytest.mark.parametrize("method", ["linear", "area"])
@pytest.mark.parametrize("target", [[84, 84], [30, 11], [300, 200]])
def test_resized_bytes_are_those_of_exact_sums(kernel, method, target):
    options = {"target_size": target, "method": method}
    images = np.random.default_rng(0).integers(0, 256, (3, 210, 160), np.uint8)
    images[0] = 255
    resize, _ = bound(kernel, "resize-img", spaces.Box(0, 255, (210, 160), np.uint8), **options)
    weights = {"linear": interpolation, "area": coverage}[method]
    rows, columns = exact(weights(210, target[0])), exact(weights(160, target[1]))
    expected = np.clip(np.rint(rows @ images.astype(np.float64) @ columns.T), 0, 255).astype(np.uint8)
    np.testing.assert_array_equal(resize(images)["x-resize_img"], expected)
