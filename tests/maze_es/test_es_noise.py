"""Perturbations: independent, without a period, the same for the same index everywhere."""

import numpy as np
import pytest

from maze_es.noise import NoiseTable, SeededVectors, fill_table
from maze_kernel.errors import RequestError


@pytest.fixture
def table():
    table = np.empty(1 << 18, np.float32)
    fill_table(table, 3)
    return table


def test_the_table_has_no_period(table):
    """The autocorrelation at every lag is that of independent numbers."""
    spectrum = np.abs(np.fft.rfft(table - table.mean(), 2 * len(table))) ** 2
    correlation = np.fft.irfft(spectrum)[: len(table) // 2] / (table.var() * len(table))
    assert np.abs(correlation[1:]).max() < 6.0 / np.sqrt(len(table))
    assert len(np.unique(table)) > 0.98 * len(table)


def test_the_table_is_standard_normal(table):
    assert table.mean() == pytest.approx(0.0, abs=0.01)
    assert table.std() == pytest.approx(1.0, abs=0.01)


def test_the_same_seed_fills_the_same_table(table):
    again, other = np.empty_like(table), np.empty_like(table)
    fill_table(again, 3)
    fill_table(other, 4)
    np.testing.assert_array_equal(again, table)
    assert np.abs(np.corrcoef(other, table)[0, 1]) < 0.02


def test_table_indices_reach_both_ends():
    noise = NoiseTable(np.arange(12, dtype=np.float32), 10)
    indices = noise.draw_indices(np.random.default_rng(0), 100)
    assert set(indices) == {0, 1, 2}
    np.testing.assert_array_equal(noise.vectors(np.array([2]))[0], np.arange(2, 12))


def test_a_table_shorter_than_a_perturbation_is_refused():
    with pytest.raises(RequestError, match="too short"):
        NoiseTable(np.zeros(10, np.float32), 10)


def test_seeded_vectors_differ_by_index_and_repeat_for_the_same():
    noise = SeededVectors(2000)
    indices = noise.draw_indices(np.random.default_rng(0), 20)
    vectors = noise.vectors(indices)
    np.testing.assert_array_equal(SeededVectors(2000).vectors(indices), vectors)
    correlation = np.corrcoef(vectors) - np.eye(20)
    assert np.abs(correlation).max() < 0.12
    assert vectors.std() == pytest.approx(1.0, abs=0.02)
