"""Images that are turned around in memory: the same numbers, and rows of them stay turned."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_runtime.models.image_layout import in_fast_layout, select_rows
from maze_runtime.models.observation_encoding import ObservationEncoder

INDEX = torch.tensor([4, 0, 0, 2])


def images(*shape, dtype=torch.uint8):
    return torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def is_turned(tensor):
    return tensor.permute(0, 2, 3, 1).is_contiguous()


def arranged(space, rows, raw=()):
    return ObservationEncoder(spaces.Dict({"seen": space}), raw).arranged({"seen": rows})["seen"]


def test_images_of_bytes_are_arranged_as_their_encoding_is_for_a_gradient():
    planes, space = images(5, 4, 9, 8), spaces.Box(0, 255, (4, 9, 8), np.uint8)
    turned = arranged(space, planes)
    assert torch.equal(turned, planes)
    assert is_turned(turned)
    assert in_fast_layout(turned).data_ptr() == turned.data_ptr()
    encoder = ObservationEncoder(spaces.Dict({"seen": space}))
    assert torch.equal(encoder.encode({"seen": turned})["seen"], encoder.encode({"seen": planes})["seen"])


def test_one_channel_lies_in_both_ways_and_is_said_to_lie_in_the_fast_one():
    """So that the layers behind lie so, too."""
    given = images(5, 1, 9, 8)
    turned = arranged(spaces.Box(0, 255, (1, 9, 8), np.uint8), given)
    assert turned.data_ptr() == given.data_ptr()
    assert torch.equal(turned, given)
    assert turned.stride() == (72, 1, 8, 1)
    out = torch.nn.Conv2d(1, 6, 3)(in_fast_layout(given).float())
    assert is_turned(out)
    assert not out.is_contiguous()
    with torch.no_grad():
        assert in_fast_layout(given) is given


@pytest.mark.parametrize(
    ("space", "given", "raw"),
    [
        (spaces.Box(0, 1, (4, 9, 8), np.uint8), images(5, 4, 9, 8), ()),
        (spaces.Box(0, 255, (9, 8, 3), np.uint8), images(5, 9, 8, 3), ()),
        (spaces.Box(0, 1, (4, 9, 8), np.float32), images(5, 4, 9, 8, dtype=torch.float32), ()),
        (spaces.Box(0, 255, (2, 4, 9, 8), np.uint8), images(5, 2, 4, 9, 8), ()),
        (spaces.Box(0, 255, (4, 9, 8), np.uint8), images(5, 4, 9, 8), ("seen",)),
    ],
    ids=["a board", "channels last", "floats", "stacks", "raw"],
)
def test_what_is_not_turned_for_a_gradient_is_left_alone(space, given, raw):
    assert arranged(space, given, raw) is given
    assert torch.equal(select_rows(given, INDEX), given.index_select(0, INDEX))


def test_rows_of_turned_images_are_turned():
    planes = images(5, 4, 9, 8)
    rows = select_rows(in_fast_layout(planes), INDEX)
    assert torch.equal(rows, planes.index_select(0, INDEX))
    assert is_turned(rows)
    assert is_turned(rows[1:3])
    assert not is_turned(select_rows(planes, INDEX))
