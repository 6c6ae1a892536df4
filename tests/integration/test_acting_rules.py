"""A model may act by a rule of its own, ε-greedy here: everything that acts asks the model for its policy."""

from pathlib import Path

import numpy as np
import pytest

from maze_deployment.agent import AgentDeployment
from maze_deployment.export import export_policy
from maze_kernel import MazeError
from maze_kernel.config import experiment_from_mapping
from maze_kernel.loader import Kernel
from maze_runtime.context import RunContext
from maze_runtime.run.assembly import Assembly
from maze_testing.trainers import check_trainer

PLUGIN = Path(__file__).parents[1] / "toys" / "epsilon_greedy.py"
BEST = 8.0
"""The reward of an episode in which every action is right."""


@pytest.fixture(scope="module")
def greedy_kernel():
    return Kernel.installed(load=[PLUGIN])


@pytest.fixture(scope="module")
def context_of(greedy_kernel, tmp_path_factory):
    def make(trainer="q-learning", **overrides):
        return RunContext(
            env="identity",
            trainer=trainer,
            model="q-network",
            overrides={"vector.n_envs": 4, "evaluation.n_episodes": 3, **overrides},
            run_dir=tmp_path_factory.mktemp("runs") / "run",
            silent=True,
            kernel=greedy_kernel,
        )

    return make


@pytest.fixture(scope="module")
def trained(context_of):
    context = context_of()
    return context, context.train()


def rewards(context, **arguments):
    return [episode.total_reward for episode in context.rollout(n_episodes=6, **arguments).episodes]


def weights(result):
    return {name: tensor.numpy() for name, tensor in result.model.state_dict().items()}


@pytest.mark.slow
def test_it_explores_while_training_and_is_greedy_when_evaluated(trained):
    context, result = trained
    assert result.best_metric == BEST
    assert context.evaluate()["BaseEnvEvents/reward/mean"] == BEST


@pytest.mark.parametrize("n_workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_rollouts_follow_the_rule(trained, n_workers):
    context, _ = trained
    assert rewards(context, n_workers=n_workers) == [BEST] * 6
    explored = rewards(context, n_workers=n_workers, deterministic=False)
    assert BEST / 2 < np.mean(explored) < BEST
    assert explored == rewards(context, n_workers=1, deterministic=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "elsewhere",
    [{"workers": {"use": "subprocess", "count": 2}}, {"vector.mode": "subprocess", "vector.n_processes": 2}],
)
def test_worker_processes_change_nothing(trained, context_of, elsewhere):
    _, here = trained
    there = context_of(**elsewhere).train()
    assert there.best_metric == here.best_metric
    ours, theirs = weights(here), weights(there)
    assert ours
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name])


def test_a_restored_trainer_goes_on_with_its_exploration(greedy_kernel):
    table = {
        "name": "test",
        "env": {"use": "identity"},
        "model": {"use": "q-network"},
        "trainer": {"use": "q-learning"},
    }

    def make():
        assembly = Assembly(experiment_from_mapping(table, kernel=greedy_kernel), greedy_kernel)
        return assembly.make_trainer(assembly.trainer_context())

    check_trainer(make)


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_deployed_agent_follows_the_rule(trained, greedy_kernel, deterministic):
    context, _ = trained
    wanted = np.arange(80) % 4
    with AgentDeployment.load(context.run_dir, kernel=greedy_kernel, deterministic=deterministic) as agent:
        agent.reset(seed=0)
        actions = [agent.act({"observation": row})["action"] for row in np.eye(4, dtype=np.float32)[wanted]]
    n_explored = np.count_nonzero(np.array(actions) != wanted)
    assert n_explored == 0 if deterministic else 0 < n_explored < 40


@pytest.mark.parametrize("trainer", ["ppo", "impala", "es"])
def test_trainers_of_sampled_policies_refuse_it(context_of, trainer):
    with pytest.raises(MazeError, match="QNetwork acts by a rule of its own"):
        context_of(trainer, **{"evaluation.n_episodes": 0}).train(n_epochs=1)


def test_it_is_not_exported_as_if_it_sampled(trained, tmp_path):
    context, _ = trained
    with pytest.raises(MazeError, match="QNetwork acts by a rule of its own"):
        export_policy(context, tmp_path / "policy.pt2", format_name="torch-export")
