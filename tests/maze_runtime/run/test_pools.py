"""The pool of an experiment, with its own number of workers and with another."""

import pytest

from maze_kernel.config.load import select
from maze_kernel.errors import RequestError
from maze_runtime.run.pools import make_pool, with_count
from maze_testing.by_value_pool import ByValuePool


def test_without_a_workers_table_everything_runs_here():
    with make_pool(None) as pool:
        assert not pool.is_parallel


def test_without_a_workers_table_a_number_of_workers_takes_the_default_pool(kernel):
    with make_pool(with_count(kernel.catalog, None, 3)) as pool:
        assert pool.is_parallel
        assert pool.n_workers == 3


@pytest.mark.parametrize("use", ["inline", "maze_testing.by_value_pool:ByValuePool"])
def test_a_number_of_workers_replaces_that_of_the_experiment(kernel, use):
    selection = select(kernel, "workers", {"use": use, "count": 2})
    pools = [make_pool(chosen) for chosen in (selection, with_count(kernel.catalog, selection, 5))]
    assert [pool.n_workers for pool in pools] == [2, 5]


class Two(ByValuePool):
    def __init__(self):
        super().__init__()


def test_a_pool_without_a_count_is_named(kernel):
    selection = select(kernel, "workers", {"use": f"{__name__}:Two"})
    with pytest.raises(RequestError, match=r"Two.*no option count"):
        with_count(kernel.catalog, selection, 3)
