"""Numbers of policy keys get their names."""

import pytest
import torch

from maze_runtime.training.key_statistics import named_by_key


def test_one_key_has_plain_names():
    assert named_by_key(("loss", "norm"), ("0",), torch.tensor([1.0, 2.0])) == {"loss": 1.0, "norm": 2.0}


def test_several_keys_have_their_mean_and_each_its_own():
    named = named_by_key(("loss", "norm"), ("a", "b"), torch.tensor([1.0, 2.0, 5.0, 4.0]))
    assert named == {"loss": 3.0, "norm": 3.0, "loss/a": 1.0, "norm/a": 2.0, "loss/b": 5.0, "norm/b": 4.0}
    assert list(named)[:2] == ["loss", "norm"]


def test_numbers_that_are_missing_are_an_error():
    with pytest.raises(RuntimeError):
        named_by_key(("loss", "norm"), ("a", "b"), torch.zeros(3))
