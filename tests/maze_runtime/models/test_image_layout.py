"""Images that are turned around in memory: the same numbers, and rows of them stay turned."""

import pytest
import torch

from maze_runtime.models.image_layout import in_fast_layout, select_rows, turned_once

INDEX = torch.tensor([4, 0, 0, 2])


def images(*shape, dtype=torch.uint8):
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def is_turned(tensor):
    return tensor.permute(0, 2, 3, 1).is_contiguous()


def test_bytes_in_planes_are_turned_as_a_gradient_wants_them():
    planes = images(5, 4, 9, 8)
    turned = turned_once(planes)
    assert torch.equal(turned, planes)
    assert is_turned(turned)
    assert in_fast_layout(turned).data_ptr() == turned.data_ptr()


@pytest.mark.parametrize(
    "given",
    [
        images(5, 9, 8, 3),
        images(5, 1, 9, 8),
        images(5, 4, 9, 8, dtype=torch.float32),
        images(5, 9, 8),
        images(5, 2, 4, 9, 8),
        images(5, 7),
    ],
    ids=["channels last", "one channel", "floats", "no channels", "stacks", "numbers"],
)
def test_anything_else_is_left_alone(given):
    assert turned_once(given) is given
    assert torch.equal(select_rows(given, INDEX), given.index_select(0, INDEX))


def test_rows_of_turned_images_are_turned():
    planes = images(5, 4, 9, 8)
    rows = select_rows(turned_once(planes), INDEX)
    assert torch.equal(rows, planes.index_select(0, INDEX))
    assert is_turned(rows)
    assert is_turned(rows[1:3])
    assert not is_turned(select_rows(planes, INDEX))
