"""A vector mode that a plugin brings: where the experiment's batches come from, and where they do not."""

import sys
import types

import pytest

from maze_kernel import hookimpl
from maze_kernel.components import VectorComponent
from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.loader import Kernel
from maze_runtime.env.batch_guard import BatchGuard
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.run.assembly import Assembly
from maze_runtime.training.evaluation import Evaluator

WALK = "maze_testing.vectors:Wanderer"


class Labelled(SequentialVectorEnv):
    def __init__(self, context, *, label: str = "none"):
        super().__init__([context.env_factory] * context.n_envs, first_index=context.first_index)
        self.label, self.context = label, context


@pytest.fixture
def assemble(monkeypatch):
    """An assembly whose experiment selects the mode "labelled", with these words in its record."""
    module = types.ModuleType("labelling")
    module.Labelled = Labelled
    module.MAZE_PLUGIN_API = 1
    monkeypatch.setitem(sys.modules, "labelling", module)

    def build(**said):
        def maze_vectors():
            yield VectorComponent(name="labelled", target="labelling:Labelled", **said)

        module.maze_vectors = hookimpl(maze_vectors)
        installed = Kernel.installed()
        kernel = Kernel.of(module)
        kernel.catalog = type(kernel.catalog)((*installed.plugins, *kernel.plugins))
        data = {
            "name": "labels",
            "env": {"use": WALK},
            "trainer": {"use": "ppo"},
            "wrappers": [],
            "vector": {"n_envs": 3, "mode": "labelled", "label": "blue"},
            "evaluation": {"n_episodes": 2},
        }
        return Assembly(experiment_from_mapping(data, kernel=kernel), kernel)

    return build


def innermost(batch):
    while isinstance(batch, BatchGuard):
        batch = batch.vector_env
    return batch


def test_training_steps_in_the_mode_with_its_options(assemble):
    batch = innermost(assemble().trainer_context().make_vector_env())
    assert (type(batch), batch.label, batch.n_envs) == (Labelled, "blue", 3)
    assert batch.context.training
    assert not batch.context.has_workers


@pytest.mark.parametrize(("in_process", "expected"), [(True, Labelled), (False, SequentialVectorEnv)])
def test_workers_step_in_the_mode_unless_it_needs_processes_of_its_own(assemble, in_process, expected):
    batch = innermost(assemble(in_process=in_process).trainer_context().make_actor_envs(2, 5))
    assert type(batch) is expected
    assert batch.first_index == 5


@pytest.mark.parametrize(("for_evaluation", "expected"), [(True, Labelled), (False, SequentialVectorEnv)])
def test_evaluation_steps_in_the_mode_where_it_asks_for_that(assemble, for_evaluation, expected):
    assembly = assemble(for_evaluation=for_evaluation)
    evaluator = Evaluator(assembly)
    evaluator.play(assembly.make_model())
    batch = innermost(evaluator._local._vector_env)
    assert type(batch) is expected
    assert expected is SequentialVectorEnv or not batch.context.training
    evaluator.close()
