"""Sequences cut at episode begins and laid in columns: every row once, in its order, with its state."""

import numpy as np
import pytest

from maze_blocks_recurrent.sequence_folding import find_fold


def keep_of(n_steps, n_sequences, *begins):
    keep = np.ones((n_steps, n_sequences, 1), np.float32)
    for step, sequence in begins:
        keep[step, sequence] = 0.0
    return keep


def random_keep(seed, share):
    rng = np.random.default_rng(seed)
    return (rng.random((90, 5, 1)) > share).astype(np.float32)


@pytest.mark.parametrize("share", [0.1, 0.2, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_every_row_stands_once_behind_the_one_before_it(seed, share):
    keep = random_keep(seed, share)
    fold = find_fold(keep)
    numbers = np.arange(1.0, 451.0).reshape(90, 5, 1)
    folded = fold.of_steps(numbers)
    assert np.array_equal(fold.back(folded), numbers)
    assert sorted(folded[folded > 0]) == list(numbers.reshape(-1))
    kept = fold.of_steps(keep)
    for length, column in np.argwhere(folded[1:, :, 0] > 0):
        if kept[length + 1, column, 0]:
            # the row one step before, of the same sequence
            assert folded[length + 1, column, 0] - folded[length, column, 0] == 5
    assert np.array_equal(folded[0, fold.sequences, 0], numbers[0, :, 0])
    states = fold.of_states(np.arange(1.0, 6.0)[:, None])
    assert states[fold.sequences, 0].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert states.sum() == 15.0


def test_columns_are_as_long_as_the_longest_piece_and_well_filled():
    fold = find_fold(keep_of(100, 2, (30, 0), (60, 0), (90, 0), (50, 1)))
    assert fold.shape == (50, 5)
    rng = np.random.default_rng(0)
    n_longest, n_columns = find_fold((rng.random((128, 8, 1)) > 0.05).astype(np.float32)).shape
    assert n_longest * n_columns < 1.2 * 128 * 8 + 8 * n_longest


def test_sequences_that_would_hardly_become_shorter_stay_as_they_are():
    assert find_fold(keep_of(100, 2)) is None
    assert find_fold(keep_of(100, 2, (0, 0), (50, 0))) is None
    assert find_fold(keep_of(100, 2, (10, 0), (10, 1))) is None
    assert find_fold(keep_of(4, 2, (2, 0), (2, 1))) is None
