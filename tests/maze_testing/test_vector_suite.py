"""The built-in vector modes pass their suite, and the suite refuses what it is there to refuse."""

from functools import partial

import numpy as np
import pytest

from maze_kernel.components import load_attribute
from maze_kernel.contracts.vector import VectorContext
from maze_kernel.errors import RequestError
from maze_processes.pool import SubprocessPool
from maze_processes.subprocess_mode import subprocess_batch
from maze_processes.vector_options import SubprocessVectorOptions
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.rollout.vector_modes import auto_batch, native_batch, sequential_batch
from maze_runtime.workers.inline import InlinePool
from maze_runtime.workers.options import WorkersOptions
from maze_testing.by_value_pool import ByValuePool
from maze_testing.conformance import ConformanceError
from maze_testing.environments import Endless
from maze_testing.vectors import check_vector_mode


@pytest.mark.parametrize("make", [sequential_batch, auto_batch])
def test_modes_of_this_process(make):
    check_vector_mode(make)


@pytest.mark.slow
def test_subprocesses():
    check_vector_mode(partial(subprocess_batch, options=SubprocessVectorOptions(n_processes=2)))


class Ordinary(SequentialVectorEnv):
    def __init__(self, context):
        super().__init__([context.env_factory] * context.n_envs)


class ResetsWithTheSameSeed(Ordinary):
    def reset(self, seeds):
        return super().reset([own[:1] for own in seeds])


class AddsReward(Ordinary):
    def step(self, actions):
        tick = super().step(actions)
        tick.reward = tick.reward + np.float32(1)
        return tick


class OneBuffer(Ordinary):
    def reset(self, seeds):
        self._first = super().reset(seeds)
        return self._first

    def step(self, actions):
        tick = super().step(actions)
        for key, group in tick.groups.items():
            for name, array in group.observation.items():
                if key in self._first.groups and len(self._first.groups[key].observation[name]) == len(array):
                    self._first.groups[key].observation[name][...] = array
        return tick


class ForgetsToClose(Ordinary):
    def close(self):
        self.envs = []


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Ordinary, None),
        (ResetsWithTheSameSeed, "groups of tick"),
        (AddsReward, "reward of tick 1 "),
        (OneBuffer, "overwritten by the next"),
        (ForgetsToClose, "closes 0 of 5"),
    ],
)
def test_broken_modes_are_refused(make, said):
    if said is None:
        check_vector_mode(make)
        return
    with pytest.raises(ConformanceError, match=said):
        check_vector_mode(make)


def context(**fields):
    return VectorContext(**{"n_envs": 3, "env_factory": Endless, "make_workers": InlinePool, **fields})


def test_without_a_native_form_the_native_mode_says_what_is_missing():
    with pytest.raises(RequestError, match="no native form"):
        native_batch(context())
    wrapped = context(native=lambda n_envs: SequentialVectorEnv([Endless] * n_envs), is_wrapped=True)
    with pytest.raises(RequestError, match="single environments"):
        native_batch(wrapped)
    assert auto_batch(wrapped).n_envs == 3


@pytest.mark.parametrize(
    ("make_workers", "takes_it"),
    [(partial(SubprocessPool, WorkersOptions(count=1)), True), (InlinePool, False), (ByValuePool, False)],
)
def test_subprocess_takes_the_experiments_pool_where_it_steps_in_parallel(make_workers, takes_it):
    pools = []

    def make():
        pools.append(make_workers())
        return pools[-1]

    batch = subprocess_batch(context(make_workers=make, has_workers=True), SubprocessVectorOptions(n_processes=2))
    assert (batch._own_pool is pools[0]) is takes_it
    assert batch.reset([[0], [1], [2]]).reward.shape == (3,)
    batch.close()


def test_every_installed_mode_can_be_imported(kernel):
    modes = kernel.catalog.entries("vector")
    assert {entry.component.name for entry in modes} >= {"native", "sequential", "subprocess"}
    assert all(callable(load_attribute(entry.component.target)) for entry in modes)
