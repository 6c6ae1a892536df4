"""Observations in their space's dtype to what networks read, in torch and in NumPy."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_kernel.errors import SpaceError
from maze_runtime.models.observation_encoding import ObservationEncoder

CASES = {
    "floats": (spaces.Box(-9, 9, (2,)), [1.5, -2.0], [1.5, -2.0]),
    "doubles": (spaces.Box(-9, 9, (2,), np.float64), [1.5, -2.0], [1.5, -2.0]),
    "number": (spaces.Box(-9, 9, ()), 2.5, [2.5]),
    "bytes": (spaces.Box(0, 255, (2, 1), np.uint8), [[255], [51]], [[1.0], [0.2]]),
    "integers": (spaces.Box(-9, 9, (2,), np.int64), [3, -4], [3.0, -4.0]),
    "bits": (spaces.MultiBinary(3), [1, 0, 1], [1.0, 0.0, 1.0]),
    "choice": (spaces.Discrete(3), 2, [0.0, 0.0, 1.0]),
    "choice-start": (spaces.Discrete(3, start=-1), -1, [1.0, 0.0, 0.0]),
    "choices": (spaces.MultiDiscrete([2, 3]), [1, 0], [0.0, 1.0, 1.0, 0.0, 0.0]),
    "grid": (spaces.MultiDiscrete([[2], [2]], start=[[0], [5]]), [[1], [5]], [0.0, 1.0, 1.0, 0.0]),
}


@pytest.mark.parametrize(("space", "value", "expected"), CASES.values(), ids=list(CASES))
def test_encodings(space, value, expected):
    encoder = ObservationEncoder(spaces.Dict(x=space))
    batch = np.stack([np.asarray(value, space.dtype)] * 3)
    in_numpy = encoder.encode_numpy({"x": batch})["x"]
    in_torch = encoder.encode({"x": torch.from_numpy(batch)})["x"]
    assert in_numpy.dtype == np.float32
    assert in_torch.dtype == torch.float32
    assert in_numpy.shape == in_torch.shape == (3, *encoder.shapes["x"])
    for result in (in_numpy, in_torch):
        np.testing.assert_allclose(result, [expected] * 3, rtol=1e-6)


@pytest.mark.parametrize("space", [spaces.Box(-1, 1, (0,)), spaces.Box(-1, 1, (3, 0))])
def test_an_observation_without_a_number_is_refused(space):
    with pytest.raises(SpaceError, match="'x' holds no numbers"):
        ObservationEncoder(spaces.Dict(x=space))


@pytest.mark.parametrize("shape", [(4, 9, 8), (9, 8, 4), (9, 8)])
@pytest.mark.parametrize("with_gradients", [True, False])
def test_images_lie_as_convolutions_want_them_and_are_the_same(shape, with_gradients):
    encoder = ObservationEncoder(spaces.Dict(x=spaces.Box(0, 255, shape, np.uint8)))
    batch = np.random.default_rng(0).integers(0, 256, (5, *shape), dtype=np.uint8)
    images, sequences = torch.from_numpy(batch), torch.from_numpy(batch)[:, None]
    with torch.set_grad_enabled(with_gradients):
        encoded, in_sequences = (encoder.encode({"x": given})["x"] for given in (images, sequences))
    assert torch.equal(encoded, images.float().mul_(1.0 / 255.0))
    assert torch.equal(in_sequences[:, 0], encoded)
    assert in_sequences.is_contiguous()
    is_turned = shape == (4, 9, 8) and with_gradients
    assert encoded.permute(0, 2, 3, 1).is_contiguous() if is_turned else encoded.is_contiguous()


def test_raw_entries_and_the_input_stay_as_they_are():
    encoder = ObservationEncoder(spaces.Dict(mask=spaces.MultiBinary(2), x=spaces.Discrete(2)), raw=["mask"])
    observation = {"mask": np.ones((1, 2), np.int8), "x": np.zeros(1, np.int64)}
    encoded = encoder.encode_numpy(observation)
    assert encoded["mask"] is observation["mask"]
    assert observation["x"].shape == (1,)


@pytest.mark.parametrize(
    ("space", "width"),
    [(spaces.Discrete(3), 3), (spaces.MultiDiscrete([2, 3]), 5), (spaces.MultiDiscrete([[2], [3]]), 5)],
)
def test_an_empty_batch_is_encoded_too(space, width):
    encoder = ObservationEncoder(spaces.Dict(x=space))
    rows = np.zeros((0, *(space.shape or ())), np.int64)
    assert encoder.encode_numpy({"x": rows})["x"].shape == (0, width)
    assert encoder.encode({"x": torch.from_numpy(rows)})["x"].shape == (0, width)


def test_spaces_without_encoding_are_named():
    with pytest.raises(SpaceError, match="'words'"):
        ObservationEncoder(spaces.Dict(words=spaces.Text(3)))
