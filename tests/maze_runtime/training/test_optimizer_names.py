"""A misspelt optimiser is answered with the nearest one that there is, of the trainer's own or of torch."""

import pytest

from maze_kernel.config import experiment_from_mapping
from maze_kernel.errors import MazeError

TRAINERS = {
    "es": {"use": "es"},
    "bc": {"use": "bc", "demonstrations": {"path": "recordings/none"}},
}


@pytest.mark.parametrize(
    ("trainer", "name", "meant"),
    [
        ("es", "adamm", '"adam"'),
        ("es", "SDG", '"sgd"'),
        ("es", "rmsprop", '"torch.optim:RMSprop"'),
        ("bc", "adamm", '"torch.optim:Adam"'),
        ("bc", "adamw", '"torch.optim:AdamW"'),
    ],
)
def test_the_nearest_optimiser_is_named(kernel, trainer, name, meant):
    table = {**TRAINERS[trainer], "optimizer": {"use": name}}
    data = {"name": "x", "env": {"use": "gym", "id": "CartPole-v1"}, "trainer": table}
    with pytest.raises(MazeError, match=f"did you mean use = {meant}"):
        experiment_from_mapping(data, kernel=kernel)


def test_where_none_is_near_what_is_taken_is_said(kernel):
    for trainer, text in (("es", 'write "adam", "sgd", or an import path'), ("bc", "write an import path such as")):
        table = {**TRAINERS[trainer], "optimizer": {"use": "torch"}}
        data = {"name": "x", "env": {"use": "gym", "id": "CartPole-v1"}, "trainer": table}
        with pytest.raises(MazeError, match=text):
            experiment_from_mapping(data, kernel=kernel)


def test_every_optimiser_that_is_suggested_is_one_of_torch():
    import torch

    from maze_runtime.training.optimizer_options import OF_TORCH

    assert all(issubclass(getattr(torch.optim, name), torch.optim.Optimizer) for name in OF_TORCH)
