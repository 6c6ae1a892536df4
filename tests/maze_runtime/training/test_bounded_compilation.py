"""The first update, in which everything is compiled: nothing is collected meanwhile, whatever becomes of it."""

import gc

import pytest
import torch

from maze_kernel.errors import MazeWarning
from maze_runtime.models.garbage import nothing_collected
from maze_runtime.training import bounded_compilation
from maze_runtime.training.bounded_compilation import BoundedCompilation


@pytest.fixture(autouse=True)
def without_the_compiler(monkeypatch):
    monkeypatch.setattr(bounded_compilation, "_not_loaded", lambda: None)


def collecting():
    return torch.tensor(float(gc.isenabled()))


def test_nothing_is_collected_while_the_first_update_is_compiled():
    update = BoundedCompilation()
    assert [float(update(collecting, collecting, lambda: None)) for _ in range(3)] == [0.0, 1.0, 1.0]
    assert (update.is_settled, update.is_eager) == (True, False)
    assert update.seconds > 0.0
    assert gc.isenabled()


def test_an_update_that_is_not_compiled_is_taken_with_collection(monkeypatch):
    monkeypatch.setattr(bounded_compilation, "MOST_OPERATIONS", 1)
    update = BoundedCompilation()
    with pytest.warns(MazeWarning, match="the update has 2 tensor operations"):
        taken = update(collecting, collecting, lambda: torch.ones(2) + 1.0)
    assert (float(taken), update.is_eager) == (1.0, True)


def test_after_an_error_of_the_loss_there_is_collection_again():
    def wrong():
        raise ValueError("of the loss")

    with pytest.raises(ValueError, match="of the loss"):
        BoundedCompilation()(wrong, collecting, lambda: None)
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with nothing_collected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
