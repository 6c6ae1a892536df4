"""A resumed run with another budget says which schedules go on from another value than they ended with."""

import attrs
import pytest

from maze_dqn.options import DQNOptions
from maze_kernel.config.load import experiment_from_mapping
from maze_runtime.training.checkpoint import Checkpoint
from maze_runtime.training.resume import note_of_schedules
from maze_runtime.training.schedules import Schedule, values_over_budget


def experiment(kernel, **options):
    return experiment_from_mapping(
        {"name": "cart", "env": {"use": "gym", "id": "CartPole-v1"}, "trainer": {"use": "dqn", **options}},
        kernel=kernel,
    )


FALLING = {"start": 5e-4, "end": 0.0}


EPOCHS, STEPS = {"n_epochs": 4, "max_env_steps": 0}, {"n_epochs": 0, "max_env_steps": 1000}


@pytest.mark.parametrize(
    ("before", "changes", "said"),
    [
        ({**EPOCHS, "lr": FALLING}, {"n_epochs": 8}, ["lr from 0 to 0.00025"]),
        (EPOCHS, {"n_epochs": 40}, ["epsilon from 0.05 to 0.6833", "importance_exponent from 1 to 0.46"]),
        (STEPS, {"max_env_steps": 2000}, ["epsilon from 0.6833 to 0.8417"]),
        ({**EPOCHS, "epsilon": 0.1, "importance_exponent": 0.5}, {"n_epochs": 8}, []),
        ({**EPOCHS, "lr": FALLING}, {"patience": 3}, []),
    ],
)
def test_values_before_and_after_are_named(kernel, before, changes, said):
    checkpoint = Checkpoint(epoch=4, model={}, trainer={"env_steps": 100})
    note = note_of_schedules(
        experiment(kernel, **before).resolved, experiment(kernel, **{**before, **changes}), checkpoint
    )
    assert bool(note) == bool(said)
    assert all(text in note for text in said), note


def test_schedules_in_tables_and_over_a_part_of_the_budget_have_their_values():
    @attrs.frozen
    class Optimizer:
        step_size: Schedule

    @attrs.frozen
    class Options:
        optimizer: Optimizer
        flat: Schedule
        number: float

    options = Options(Optimizer(Schedule(start=1.0, end=0.0)), Schedule(start=1.0, end=1.0), 3.0)
    assert values_over_budget(options, 0.25) == {"optimizer.step_size": 0.75}
    values = values_over_budget(DQNOptions(exploration_fraction=0.5), 0.25)
    assert values == pytest.approx({"epsilon": 0.525, "importance_exponent": 0.55})
    assert values_over_budget({"n_epochs": 3}, 0.5) == {}
