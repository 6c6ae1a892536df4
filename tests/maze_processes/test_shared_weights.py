"""The board that carries weights: two slots, written in turn."""

import os

import numpy as np
import pytest

from maze_processes.shared_memory import WeightsBoard, create_descriptor


@pytest.fixture
def boards():
    descriptor = create_descriptor("test-weights")
    yield WeightsBoard(descriptor), WeightsBoard(descriptor)
    os.close(descriptor)


def test_the_version_asked_for_is_read_while_it_is_there(boards):
    writer, reader = boards
    for version in (1, 2, 3):
        writer.write(np.full(5, version, np.float32), version)
    for version in (2, 3):
        flat, found = reader.read(version)
        assert (flat.tolist(), flat.dtype, found) == ([float(version)] * 5, np.float32, version)


def test_an_overwritten_version_gives_the_newest(boards):
    writer, reader = boards
    for version in (1, 2, 3):
        writer.write(np.full(5, version), version)
    flat, found = reader.read(1)
    assert (flat.tolist(), found) == ([3] * 5, 3)


def test_size_and_type_may_change(boards):
    writer, reader = boards
    for version, flat in enumerate((np.ones(3, np.float32), np.arange(4000.0), np.arange(2, dtype=np.int64)), start=1):
        writer.write(flat, version)
        copy, found = reader.read(version)
        np.testing.assert_array_equal(copy, flat)
        assert (copy.dtype, found) == (flat.dtype, version)


def test_what_was_read_does_not_change_later(boards):
    writer, reader = boards
    writer.write(np.ones(3), 1)
    flat, _ = reader.read(1)
    writer.write(np.zeros(3), 2)
    writer.write(np.zeros(3), 3)
    assert flat.tolist() == [1.0] * 3


def test_the_newest_version_is_known_from_the_beginning(boards):
    writer, reader = boards
    assert reader.newest() == 0
    for version in (1, 5, 6):
        writer.write(np.ones(3), version)
        assert reader.newest() == version
