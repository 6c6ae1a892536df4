"""A wrapper that keeps statistics must see the whole batch."""

import pytest

from maze_kernel.config import experiment_from_mapping
from maze_kernel.errors import RequestError
from maze_kernel.loader import Kernel
from maze_kernel.run.assembly import Assembly

NORMALIZATION, LIMIT = {"use": "observation-normalization"}, {"use": "time-limit", "max_episode_steps": 9}


def assemble(*wrappers):
    kernel = Kernel.installed()
    data = {
        "name": "order",
        "env": {"use": "gym", "id": "CartPole-v1"},
        "trainer": {"use": "ppo"},
        "wrappers": list(wrappers),
    }
    return Assembly(experiment_from_mapping(data, kernel=kernel), kernel)


def test_statistics_inside_an_env_wrapper_are_refused_with_the_way_out():
    with pytest.raises(RequestError, match="observation-normalization") as refusal:
        assemble(NORMALIZATION, LIMIT)
    assert "behind 'time-limit'" in refusal.value.help


def test_statistics_outside_of_it_are_shared_by_the_batch():
    assert len(assemble(LIMIT, NORMALIZATION).transforms) == 1
