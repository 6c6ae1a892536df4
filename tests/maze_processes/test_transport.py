"""Frames arrive whole however the stream is cut, and large arrays travel beside what is pickled."""

import socket
import threading

import numpy as np
import pytest

from maze_processes import transport

SMALL = [(size, ()) for size in (0, 1, 20, 5)]
MIXED = [(20, ()), (65_536, ()), (65_537, ()), (3, (65_537, 300_000)), (0, ()), (70_000, (100_000,)), (1, ())]


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def _bodies(sizes):
    rng = np.random.default_rng(0)
    return [(rng.bytes(body), [rng.bytes(size) for size in buffers]) for body, buffers in sizes]


def _frames(contents):
    return [
        transport.frame(transport.VALUE, version, body, [memoryview(buffer) for buffer in buffers])
        for version, (body, buffers) in enumerate(contents)
    ]


def _receive(connection, n_frames):
    reader, found = transport.FrameReader(), []
    while len(found) < n_frames:
        found += reader.receive(connection)
    assert not reader.is_midway
    return [
        (kind, version, (bytes(body), [bytes(buffer) for buffer in buffers])) for kind, version, body, buffers in found
    ]


@pytest.mark.parametrize(("sizes", "step"), [(SMALL, 1), (SMALL, 7), (MIXED, 10_007), (MIXED, 1 << 20)])
def test_frames_arrive_whole_however_the_stream_is_cut(ends, sizes, step):
    ours, theirs = ends
    contents = _bodies(sizes)
    stream = b"".join(bytes(part) for parts in _frames(contents) for part in parts)

    def write():
        for start in range(0, len(stream), step):
            theirs.sendall(stream[start : start + step])

    writer = threading.Thread(target=write)
    writer.start()
    found = _receive(ours, len(contents))
    writer.join()
    assert found == [(transport.VALUE, version, content) for version, content in enumerate(contents)]


def test_what_is_sent_is_what_is_received(ends):
    ours, theirs = ends
    contents = _bodies([*MIXED, (10, (70_000,) * 200)])  # more buffers than one call of the socket takes

    def write():
        for parts in _frames(contents):
            transport.send(theirs, parts)

    writer = threading.Thread(target=write)
    writer.start()
    found = _receive(ours, len(contents))
    writer.join()
    assert [content for _, _, content in found] == contents


@pytest.mark.parametrize("n_bytes", [0, 5, 100_000])
def test_an_end_in_the_middle_of_a_frame_is_noticed(ends, n_bytes):
    ours, theirs = ends
    (parts,) = _frames(_bodies([(300_000, ())]))
    theirs.sendall(b"".join(parts)[:n_bytes])
    theirs.close()
    with pytest.raises(EOFError):
        _receive(ours, 1)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_large_array_is_not_pickled_and_not_copied(order):
    array = np.asarray(np.arange(100_000.0).reshape(100, 1000), order=order)
    body, buffers = transport.encode_apart({"large": array, "small": np.arange(3)}, copy=False)
    assert len(body) < 1000
    (buffer,) = buffers
    assert np.shares_memory(np.frombuffer(buffer, np.uint8), array)
    decoded = transport.decode(body, [memoryview(bytearray(buffer))])
    np.testing.assert_array_equal(decoded["large"], array)
    assert decoded["small"].tolist() == [0, 1, 2]
    assert decoded["large"].flags.writeable


def test_the_arrays_of_a_call_may_change_once_it_is_made():
    array = np.zeros(100_000)
    _, (buffer,) = transport.encode_apart(array, copy=True)
    array[:] = 1
    assert not np.frombuffer(buffer).any()
