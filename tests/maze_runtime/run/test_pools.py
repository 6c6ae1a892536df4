"""The pool of an experiment, with its own number of workers and with another."""

import pytest

from maze_kernel.config.load import select
from maze_kernel.errors import PluginError, RequestError
from maze_kernel.loader import Kernel
from maze_runtime.context import RunContext
from maze_runtime.run.pools import make_pool, with_count
from maze_runtime.workers.options import WorkersOptions
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


def test_without_a_default_pool_the_distribution_that_brings_one_is_named():
    kernel = Kernel.of("maze_runtime.plugin")
    with pytest.raises(PluginError, match="no plugin provides a default") as caught:
        with_count(kernel.catalog, None, 3)
    assert "pip install maze-processes" in caught.value.help


class Two(ByValuePool):
    def __init__(self):
        super().__init__()


def test_a_pool_without_a_count_is_named(kernel):
    selection = select(kernel, "workers", {"use": f"{__name__}:Two"})
    with pytest.raises(RequestError, match=r"Two.*no option count"):
        with_count(kernel.catalog, selection, 3)


class Flat(ByValuePool):
    """A pool whose workers cannot have workers of their own."""

    working = False

    def __init__(self, *, count: int = 2):
        assert not Flat.working, "a worker asks for workers"
        super().__init__(WorkersOptions(count=count))

    def spawn(self, *args):
        group = super().spawn(*args)
        call = group.call

        def call_at_work(*args, **how):
            Flat.working = True
            try:
                return call(*args, **how)
            finally:
                Flat.working = False

        group.call = call_at_work
        return group


def test_workers_that_play_start_no_workers(kernel, tmp_path):
    context = RunContext(
        env="CartPole-v1",
        trainer="ppo",
        overrides={
            "vector.n_envs": 2,
            "evaluation.n_episodes": 0,
            "trainer.n_epochs": 1,
            "trainer.epoch_length": 1,
            "workers": {"use": f"{__name__}:Flat"},
        },
        run_dir=tmp_path / "run",
        silent=True,
        kernel=kernel,
    )
    context.train()
    assert [episode.error for episode in context.rollout(n_episodes=2, n_workers=2).episodes] == [None, None]
