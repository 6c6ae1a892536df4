"""Passes over episodes: what is in them, in which order, and what is in memory."""

from collections import Counter

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_bc.data import Decisions, split_episodes
from maze_bc.minibatches import Cursor, Minibatches
from maze_bc.parts import PassSettings
from maze_kernel.contracts.env import StructuredSpaces
from maze_runtime.env.seeding import SeedTree

LENGTHS = [7, 1, 12, 5, 9, 16]


class Numbered:
    """Every decision observes 100 times its episode plus its step; "slow" decides every third time."""

    def __init__(self, keys=("fast",)):
        space = spaces.Dict({"n": spaces.Box(-np.inf, np.inf, (1,), np.float32)})
        self.spaces = StructuredSpaces(
            observation=dict.fromkeys(keys, space),
            action=dict.fromkeys(keys, spaces.Dict({"a": spaces.Discrete(1000)})),
            agent_counts=dict.fromkeys(keys, 1),
        )
        self.lengths = LENGTHS
        self.reads = []
        self.expected = []
        self._keys = keys

    def expect(self, episodes):
        self.expected.append(list(episodes))

    def read(self, index):
        self.reads.append(index)
        number = 100 * index + np.arange(LENGTHS[index])
        if len(self._keys) == 1:
            return {"fast": _decisions(number)}
        return {"fast": _decisions(number[np.arange(len(number)) % 3 > 0]), "slow": _decisions(number[::3])}

    def close(self):
        return


def _decisions(number):
    return Decisions({"n": number[:, None].astype(np.float32)}, {"a": number}, np.zeros(len(number), np.int64), number)


def make(demonstrations, episodes=(0, 2, 3, 5), *, batch_size=8, memory_rows=1000, seed=1, **options):
    targets = dict.fromkeys(demonstrations.spaces.policy_keys, lambda action: action)
    settings = PassSettings(
        targets=targets,
        batch_size=batch_size,
        memory_rows=memory_rows,
        seeds=SeedTree(seed),
        device=torch.device("cpu"),
    )
    return Minibatches(demonstrations, list(episodes), settings, **options)


def a_pass(minibatches, pass_index=0):
    return [minibatches.batch(pass_index, index) for index in range(minibatches.n_batches(pass_index))]


def numbers(batch):
    kept = [rows.action["a"] if rows.weight is None else rows.action["a"][rows.weight > 0] for rows in batch.values()]
    return torch.cat(kept).tolist()


def everything(episodes):
    return sorted(100 * index + step for index in episodes for step in range(LENGTHS[index]))


@pytest.mark.parametrize("keys", [("fast",), ("fast", "slow")])
@pytest.mark.parametrize("memory_rows", [1000, 17])
@pytest.mark.parametrize("fixed_size", [False, True])
def test_a_pass_holds_every_decision_once_and_of_these_episodes_only(keys, memory_rows, fixed_size):
    minibatches = make(Numbered(keys), memory_rows=memory_rows, fixed_size=fixed_size)
    for pass_index in range(3):
        batches = a_pass(minibatches, pass_index)
        assert sorted(number for batch in batches for number in numbers(batch)) == everything((0, 2, 3, 5))
        assert max(len(numbers(batch)) for batch in batches) <= 8 + len(keys) - 1
        for batch in batches:
            for rows in batch.values():
                np.testing.assert_array_equal(rows.observation["n"][:, 0], rows.action["a"])


def test_minibatches_are_of_nearly_equal_size():
    sizes = Counter(len(numbers(batch)) for batch in a_pass(make(Numbered())))
    assert set(sizes) == {8}
    assert {len(numbers(batch)) for batch in a_pass(make(Numbered(), (0, 3, 4)))} == {7}


@pytest.mark.parametrize("fixed_size", [False, True])
def test_no_minibatch_is_without_a_decision(fixed_size):
    batches = a_pass(make(Numbered(("fast", "slow")), batch_size=1, fixed_size=fixed_size))
    assert [len(numbers(batch)) for batch in batches] == [1] * sum(LENGTHS[index] for index in (0, 2, 3, 5))


def test_fixed_sizes_give_compiled_code_one_shape():
    for keys in (("fast",), ("fast", "slow")):
        batches = a_pass(make(Numbered(keys), (0, 2, 4), fixed_size=True))
        assert len({tuple((key, rows.n_rows) for key, rows in batch.items()) for batch in batches}) == 1


@pytest.mark.parametrize("memory_rows", [1000, 17])
def test_passes_differ_and_follow_from_seed_and_place_alone(memory_rows):
    first, again, other = (make(Numbered(), memory_rows=memory_rows, seed=seed) for seed in (1, 1, 2))
    shown = [[numbers(batch) for batch in a_pass(first, index)] for index in range(2)]
    assert shown[0] != shown[1]
    assert shown[0] != [numbers(batch) for batch in a_pass(other)]
    assert numbers(again.batch(1, 2)) == shown[1][2]
    assert numbers(again.batch(0, 1)) == shown[0][1]


def test_what_fits_is_read_once():
    demonstrations = Numbered()
    minibatches = make(demonstrations)
    for pass_index in range(3):
        a_pass(minibatches, pass_index)
    list(minibatches.in_order(4))
    assert not minibatches.is_streamed
    assert sorted(demonstrations.reads) == [0, 2, 3, 5]


def test_what_does_not_fit_is_read_in_parts_whose_episodes_change():
    demonstrations = Numbered()
    minibatches = make(demonstrations, memory_rows=20)
    assert minibatches.is_streamed
    a_pass(minibatches, 0)
    first = list(demonstrations.reads)
    a_pass(minibatches, 1)
    second = demonstrations.reads[len(first) :]
    assert sorted(first) == sorted(second) == [0, 2, 3, 5]
    assert first != second


def test_a_part_is_half_of_the_memory_and_the_next_one_is_read_meanwhile():
    demonstrations = Numbered()
    minibatches = make(demonstrations, memory_rows=20)
    parts = [part.episodes for part in minibatches._parts.plan(0)]
    assert all(len(part) == 1 or sum(LENGTHS[index] for index in part) <= 10 for part in parts)
    assert len(parts) > 1
    a_pass(minibatches, 0)
    asked = [parts[0]]
    for part in parts[1:]:
        asked += [part, part]  # ahead, and when it is wanted
    assert demonstrations.expected == asked


@pytest.mark.parametrize("memory_rows", [1000, 17])
def test_validation_sees_every_decision_in_order(memory_rows):
    batches = list(make(Numbered(), memory_rows=memory_rows).in_order(4))
    assert [number for batch in batches for number in numbers(batch)] == everything((0, 2, 3, 5))
    assert max(len(numbers(batch)) for batch in batches) == 4


def test_a_cursor_goes_on_where_it_was():
    cursor = Cursor(make(Numbered()))
    for _ in range(7):
        cursor.take()
    other = Cursor(make(Numbered()))
    other.load_state_dict(cursor.state_dict())
    assert (other.pass_index, other.batch_index) == (1, 2)
    assert [numbers(other.take()) for _ in range(6)] == [numbers(cursor.take()) for _ in range(6)]


def test_episodes_are_split_whole():
    for percentage, n_validation in ((0.0, 0), (1.0, 1), (20.0, 2), (50.0, 5)):
        training, validation = split_episodes(10, percentage, np.random.default_rng(0))
        assert len(validation) == n_validation
        assert sorted(training + validation) == list(range(10))
    assert split_episodes(2, 90.0, np.random.default_rng(0))[0]
