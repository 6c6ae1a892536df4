"""Buffers that do not fit into memory are refused, or warned of before they are filled."""

import warnings

import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.contracts.env import FLAT_KEY
from maze_kernel.errors import RequestError
from maze_replay import room
from maze_replay.collector import TransitionStore
from maze_runtime.env.flat import flat_spaces

SPACES = flat_spaces(
    spaces.Dict(image=spaces.Box(0, 255, (96, 96, 3), np.uint8)), spaces.Dict(move=spaces.Box(-1, 1, (2,)))
)


def store(size):
    return TransitionStore(SPACES, 2, gamma=0.99, size=size)


def test_what_the_system_refuses_is_said_in_words():
    with pytest.raises(RequestError, match="does not fit into memory") as caught:
        store(10**13)
    assert "replay_buffer_size = 10000000000000" in caught.value.received
    assert "smaller" in caught.value.help


def test_a_buffer_that_will_not_fit_is_warned_of_with_one_that_does(monkeypatch):
    monkeypatch.setattr(room, "free_memory", lambda: 100 * 2**20)
    with pytest.warns(RuntimeWarning, match=r"replay_buffer_size = 3000 fits") as said:
        made = store(4000)
    n_bytes = made.replay[FLAT_KEY].n_bytes
    assert n_bytes == 4000 * (96 * 96 * 3 + 2 * 4 + 4 + 4 + 1)
    assert f"{n_bytes / 2**30:.1f} GiB" in str(said[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store(3000)


def test_free_memory_is_that_of_the_container_where_it_has_less(monkeypatch, tmp_path):
    monkeypatch.setattr(room, "_CONTAINER", tmp_path)
    machine = room.free_memory()
    assert machine is None or machine > 0
    for name, text in (("max", "5000"), ("current", "3500"), ("stat", "anon 2000\nactive_file 700\ninactive_file 300")):
        (tmp_path / f"memory.{name}").write_text(f"{text}\n")
    assert room.free_memory() == 5000 - 3500 + 1000
    (tmp_path / "memory.max").write_text("max\n")
    assert room.free_memory() == pytest.approx(machine, rel=0.5)


def test_a_machine_that_does_not_say_what_is_free_says_what_it_has(monkeypatch, tmp_path):
    monkeypatch.setattr(room, "_MEMINFO", tmp_path / "nothing")
    monkeypatch.setattr(room, "_CONTAINER", tmp_path)
    monkeypatch.setattr(room.os, "sysconf", lambda name: {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}[name])
    assert room.free_memory() == 4_096_000


@pytest.mark.parametrize(("number", "rounded"), [(2906.0, 2000), (0.3, 1), (99.9, 90), (1_000_000.0, 1_000_000)])
def test_proposals_are_round_and_fit(number, rounded):
    assert room._rounded_down(number) == rounded
