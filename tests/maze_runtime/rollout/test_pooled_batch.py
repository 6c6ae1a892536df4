"""The vector mode "workers": the rollouts of mode "subprocess", on any pool; what it refuses; workers that die."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from maze_kernel.config import experiment_from_mapping
from maze_kernel.contracts.capabilities import ReportsBatchStatistics, capability
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import EnvError, NonFiniteError, RequestError
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.policy_wrapper import PolicyWrapper
from maze_runtime.rollout.collector import collector_for, innermost
from maze_runtime.rollout.pooled_batch import PooledBatch
from maze_runtime.rollout.remote_collector import RemoteCollector
from maze_runtime.training.training_run import TrainingRun
from maze_runtime.workers.inline import InlinePool
from maze_testing.environments import Identity
from maze_testing.trainers import check_trainer
from maze_testing.vectors import Wanderer

SMALL = {"epoch_length": 2, "n_rollout_steps": 16}
PLACE = "maze_testing.structured_environments:"
WALK = {"use": "maze_testing.vectors:Wanderer"}
POOL = {"use": "inline", "count": 2}
BY_VALUE = {"use": "maze_testing.by_value_pool:ByValuePool", "count": 2}
ESTIMATED = {"use": "observation-normalization", "n_estimation_steps": 60}


@pytest.fixture(autouse=True)
def importable_by_workers(monkeypatch):
    """Workers look for modules where their caller does, and the environments of these tests stand in this one."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))


@pytest.fixture
def default_tables():
    return {
        "env": WALK,
        "trainer": {"use": "ppo", **SMALL},
        "vector": {"n_envs": 5, "mode": "workers"},
        "workers": POOL,
        "wrappers": [],
    }


@pytest.fixture
def train(assemble):
    """Weights after two segments, and the statistics of each epoch."""

    def run(**tables):
        assembly = assemble(**tables)
        trainer = assembly.make_trainer(assembly.trainer_context())
        try:
            assembly.estimate_transforms()
            statistics = []
            for epoch in range(2):
                trainer.start_segment(epoch)
                statistics.append(trainer.train_epoch())
        finally:
            trainer.close()
        return torch.cat([parameter.detach().reshape(-1) for parameter in trainer.model.parameters()]), statistics

    return run


@pytest.fixture
def subprocess_mode(monkeypatch):
    """Tables of the mode "subprocess", whose workers are in this process for once, with the one thread they take."""
    monkeypatch.setattr("torch.set_num_threads", lambda _n_threads: None)
    monkeypatch.setattr("maze_processes.subprocess_mode._stepping_pool", lambda _context: InlinePool())
    return lambda n_processes: {"vector": {"n_envs": 5, "mode": "subprocess", "n_processes": n_processes}}


STRUCTURED = [
    {"env": {"use": f"{PLACE}{name}"}, "model": {"use": "auto", "hidden_units": [8], "critic": critic}}
    for name, critic in (("Hierarchy", "shared-state"), ("DoorAndKey", "delta-state"), ("Pair", "step-state"))
]


@pytest.mark.parametrize(
    ("trainer", "workers"),
    [
        ("ppo", POOL),
        ("a2c", BY_VALUE),
        *(
            pytest.param(trainer, workers, marks=pytest.mark.slow)
            for trainer in ("ppo", "a2c")
            for workers in ({**POOL, "count": 3}, {**BY_VALUE, "count": 9})
        ),
    ],
)
def test_the_same_is_learnt_as_in_processes_that_collect_by_themselves(train, subprocess_mode, workers, trainer):
    expected, _ = train(trainer={"use": trainer}, **subprocess_mode(workers["count"]))
    weights, statistics = train(trainer={"use": trainer}, workers=workers)
    assert torch.equal(weights, expected)
    assert statistics[1]["BaseEnvEvents/episode_count"] > 0


@pytest.mark.parametrize("tables", STRUCTURED)
def test_structured_environments_are_learnt_alike(train, subprocess_mode, tables):
    expected, _ = train(**tables, **subprocess_mode(2))
    assert torch.equal(train(**tables)[0], expected)
    assert torch.equal(train(**tables, workers=BY_VALUE)[0], expected)


def test_estimated_statistics_travel_to_the_workers(train):
    weights, _ = train(wrappers=[ESTIMATED])
    assert torch.equal(train(wrappers=[ESTIMATED], workers=BY_VALUE)[0], weights)
    assert not torch.equal(train()[0], weights)


def test_running_statistics_are_shared_as_in_processes_that_collect_by_themselves(train, subprocess_mode):
    wrappers = [{"use": "observation-normalization", "statistics": "running"}, {"use": "return-normalization"}]
    expected, _ = train(wrappers=wrappers, **subprocess_mode(2))
    assert torch.equal(train(wrappers=wrappers)[0], expected)
    assert torch.equal(train(wrappers=wrappers, workers=BY_VALUE)[0], expected)
    assert not torch.equal(train()[0], expected)


def test_a_model_that_does_not_act_in_numpy_acts_in_workers(train):
    env = {"use": "maze_testing.environments:Identity"}
    model = {"use": "auto", "recurrence": {"use": "gru", "hidden_size": 8, "stateful": True}}
    weights, statistics = train(env=env, model=model)
    assert torch.equal(train(env=env, model=model, workers=BY_VALUE)[0], weights)
    assert np.isfinite(statistics[1]["ActorCriticEvents/policy_loss"])


def test_it_passes_the_conformance_of_trainers(assemble):
    def make():
        assembly = assemble(workers=BY_VALUE)
        return assembly.make_trainer(assembly.trainer_context())

    check_trainer(make)


def test_events_of_the_workers_reach_the_loop(assemble):
    assembly = assemble(env={"use": "cutting-2d"}, wrappers=[{"use": "time-limit", "max_episode_steps": 6}])
    trainer = assembly.make_trainer(assembly.trainer_context())
    trainer.start_segment(0)
    trainer.train_epoch()
    (batch,) = assembly.training_batches._batches
    assert isinstance(innermost(batch), PooledBatch)
    assert capability(batch, ReportsBatchStatistics) is not None
    assert any("InventoryEvents" in tag for tag in assembly.training_batches.drain_event_statistics())
    trainer.close()


# What is refused, before anything is stepped


def test_without_a_pool_the_mode_is_refused(assemble):
    with pytest.raises(RequestError, match="has none") as caught:
        assemble(workers=None).trainer_context().make_vector_env()
    assert "maze-processes" in caught.value.help


class Watching(Transform):
    """Learns from steps and keeps it to itself."""

    def observe_step(self, *arguments):
        pass


def test_statistics_that_nobody_can_bring_together_are_refused(assemble):
    assembly = assemble(wrappers=[{"use": f"{__name__}:Watching"}])
    with pytest.raises(RequestError, match=r"Watching keeps running statistics") as caught:
        assembly.make_trainer(assembly.trainer_context())
    assert 'mode = "workers"' in caught.value.owner
    assert '"subprocess"' in caught.value.help


def test_a_policy_with_a_rule_of_its_own_is_refused(assemble):
    context = assemble().trainer_context()
    batch = context.make_vector_env()
    policy = PolicyWrapper(context.make_policy(context.make_model(), 0))
    with pytest.raises(RequestError, match="a rule of its own"):
        innermost(batch).make_collector(batch, policy, None, 4)
    batch.close()


@pytest.mark.parametrize("workers", [POOL, BY_VALUE])
def test_single_steps_are_refused(assemble, workers):
    batch = assemble(workers=workers).trainer_context().make_vector_env()
    for call in (lambda: batch.reset([[0]] * 5), lambda: innermost(batch).step({})):
        with pytest.raises(RequestError, match="single steps") as caught:
            call()
        assert "subprocess" in caught.value.help
    batch.close()


# What fails in a worker


class Odd(Identity):
    """Environment 4 of a batch, known by its seed, fails in some way at its third step."""

    def __init__(self, *, how: str, folder: str):
        super().__init__()
        self._how, self._folder, self._n_steps = how, Path(folder), 0

    def reset(self, *, seed=None, options=None):
        self._first = seed if seed is not None else self._first
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self._n_steps += 1
        observation, reward, *ends = super().step(action)
        if self._n_steps == 3 and self._is_the_first_here():
            if self._how == "raise":
                raise ValueError("the bridge is out")
            while self._how == "hang":
                time.sleep(600)
            if self._how == "exit":
                os._exit(3)
            reward = float("nan")
        return observation, reward, *ends

    def _is_the_first_here(self):
        """Whether nobody has failed in this folder before."""
        try:
            (self._folder / "failed").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def odd(how, folder):
    return {"use": f"{__name__}:Odd", "how": how, "folder": str(folder)}


@pytest.mark.parametrize("workers", [POOL, BY_VALUE])
def test_an_environment_that_raises_is_named(train, tmp_path, workers):
    with pytest.raises(EnvError, match="the bridge is out") as caught:
        train(env=odd("raise", tmp_path), workers=workers)
    assert "environment 0, episode" in caught.value.owner


def test_a_number_that_is_not_finite_is_named(train, tmp_path):
    with pytest.raises(NonFiniteError, match="reward of environment 0"):
        train(env=odd("nan", tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("max_restarts", [0, 1])
def test_a_worker_that_dies_is_replaced_if_the_pool_gives_another(train, tmp_path, max_restarts):
    workers = {"use": "subprocess", "count": 2, "max_restarts": max_restarts, "backoff_seconds": 0.05}
    workers["preload"] = ["maze_runtime.rollout.collecting_actor"]
    env = odd("exit", tmp_path)
    if max_restarts == 0:
        with pytest.raises(EnvError, match="exited with code 3") as caught:
            train(env=env, workers=workers)
        assert caught.value.owner in ("environments 0 to 1", "environments 2 to 4")
        return
    with pytest.warns(RuntimeWarning, match="start new episodes in another"):
        weights, statistics = train(env=env, workers=workers)
    assert torch.isfinite(weights).all()
    assert [np.isfinite(epoch["ActorCriticEvents/value_loss"]) for epoch in statistics] == [True, True]


@pytest.mark.slow
def test_an_environment_that_never_returns_is_found(train, tmp_path):
    vector = {"n_envs": 5, "mode": "workers", "step_timeout_seconds": 8.0}
    with pytest.raises(EnvError, match="did not answer 'collect' within 8 s") as caught:
        train(env=odd("hang", tmp_path), vector=vector, workers={"use": "subprocess", "count": 2})
    assert "environments" in caught.value.owner
    assert "in step" in caught.value.remote_traceback


def test_the_collector_is_the_batch_s_own(assemble):
    assembly = assemble()
    trainer = assembly.make_trainer(assembly.trainer_context())
    assert isinstance(trainer._source.collector, RemoteCollector)
    assert innermost(trainer._source.vector_env).bounds == [0, 2, 5]
    assert Wanderer.structured_spaces == innermost(trainer._source.vector_env).structured_spaces
    trainer.close()


@pytest.mark.parametrize(
    ("count", "timeout_seconds", "seconds"), [(2, 60.0, 1.0), (400, 60.0, 4.0), (2, 2.0, 0.5), (400, 8.0, 2.0)]
)
def test_many_workers_answer_less_often_within_their_deadline(assemble, count, timeout_seconds, seconds):
    tables = {"n_envs": 400, "mode": "workers", "step_timeout_seconds": timeout_seconds}
    assembly = assemble(vector=tables, workers={**POOL, "count": count})
    model = assembly.make_model()
    vector_env = assembly.make_vector_env(400)
    collector_for(vector_env, assembly.make_policy(model, 0), FlatParameters(model), 16)
    assert innermost(vector_env)._rollouts._plan.call_seconds == seconds
    vector_env.close()


class TakesSteps:
    """A trainer that says nothing of how it uses its batch."""

    def __init__(self, _context):
        raise AssertionError("not to be built")


class Collects(TakesSteps):
    collects_rollouts = True


@pytest.fixture
def trained_by(kernel, default_tables):
    def load(trainer):
        tables = {**default_tables, "name": "modes", "trainer": {"use": f"{__name__}:{trainer.__name__}"}}
        return experiment_from_mapping(tables, kernel=kernel)

    return load


def test_a_trainer_that_takes_single_steps_is_refused_before_there_is_a_run(trained_by, kernel, tmp_path):
    seen = []
    with pytest.raises(RequestError, match="takes single steps") as caught:
        TrainingRun(trained_by(TakesSteps), kernel, run_dir=tmp_path / "run", on_run_dir=seen.append)
    assert 'mode = "workers"' in caught.value.received
    assert all(name in caught.value.expected for name in ("ppo", "sac", "impala"))
    assert (seen, list(tmp_path.iterdir())) == ([], [])


WITHOUT_WORKERS = """
name = "modes"
[env]
use = "gym"
id = "CartPole-v1"
[vector]
n_envs = 2
mode = "workers"
[trainer]
use = "ppo"
"""


def test_checking_a_file_refuses_what_training_would(maze, tmp_path):
    (tmp_path / "modes.toml").write_text(WITHOUT_WORKERS)
    for command in ("check", "train"):
        refused = maze(command, "modes.toml")
        assert refused.exit_code == 2
        assert "modes.toml:8:" in refused.output
        assert "no [workers] table" in refused.output
        assert "ok (" not in refused.output
    assert not (tmp_path / "runs").exists()
    pool = ["--set", 'workers.use="inline"']
    assert "modes.toml: ok (modes: env gym," in maze("check", "modes.toml", *pool).output
    refused = maze("check", "modes.toml", *pool, "--set", 'trainer.use="dqn"')
    assert refused.exit_code == 2
    assert "takes single steps" in refused.output


def test_a_trainer_that_lets_workers_collect_may_have_a_run(trained_by, kernel, tmp_path):
    TrainingRun(trained_by(Collects), kernel, run_dir=tmp_path / "run")
    assert (tmp_path / "run").is_dir()
