"""Threads that step groups of environments give what one environment after the other gives."""

from functools import partial

import numpy as np
import pytest

from maze_acme.options import ThreadsOptions
from maze_acme.threaded_vector import threaded_batch
from maze_kernel.errors import RequestError
from maze_testing.vectors import check_vector_mode


@pytest.mark.parametrize("n_threads", [1, 2, 3, 9])
def test_the_transitions_are_those_of_the_sequential_mode(n_threads):
    check_vector_mode(partial(threaded_batch, options=ThreadsOptions(n_threads=n_threads)))


def test_training_does_not_depend_on_the_mode(context_of):
    how = {"trainer.n_steps": 20, "model.use": "acme-q-network", "trainer.n_epochs": 2}
    runs = [
        context_of("acme-q-learning", mode, **how, **{"vector.mode": mode, **options}).train()
        for mode, options in (("sequential", {}), ("acme-threads", {"vector.n_threads": 3}))
    ]
    one, other = (run.model.state_dict() for run in runs)
    assert one
    for name, tensor in one.items():
        np.testing.assert_array_equal(tensor.numpy(), other[name].numpy())


def test_a_wrong_option_is_named_with_its_owner(context_of):
    with pytest.raises(RequestError) as caught:
        context_of("acme-q-learning", **{"vector.mode": "acme-threads", "vector.n_thread": 3}).train()
    text = str(caught.value)
    assert "n_thread" in text
    assert "n_threads" in text
    assert "maze_acme" in text
