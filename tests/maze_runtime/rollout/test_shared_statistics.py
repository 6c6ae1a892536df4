"""Running statistics of several workers: what all of them saw, once, in their order, and whoever trains there."""

import json

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import RequestError
from maze_runtime.env.flat import flat_spaces
from maze_runtime.rollout.shared_statistics import SharedStatistics, WorkersStatistics, own_copies
from maze_wrappers.observation_normalization import ObservationNormalization
from maze_wrappers.options import ObservationNormalizationOptions, ReturnNormalizationOptions
from maze_wrappers.return_normalization import ReturnNormalization

SPACES = flat_spaces(spaces.Dict(x=spaces.Box(-np.inf, np.inf, (3,))), spaces.Dict(a=spaces.Discrete(2)))
N_ENVS = 4
SCALED = [
    {"use": "observation-normalization", "statistics": "running", "clip_range": [-10.0, 10.0]},
    {"use": "return-normalization"},
]


def bound():
    options = ObservationNormalizationOptions(statistics="running")
    transforms = [ObservationNormalization(options), ReturnNormalization(ReturnNormalizationOptions(gamma=0.9))]
    for transform in transforms:
        transform.bind(SPACES)
    return transforms


def steps(rng, transforms, n_steps):
    """What a worker's batch shows: observations (steps, N, 3) and rewards (steps, N), in one run of episodes."""
    xs = (rng.normal(size=(n_steps, N_ENVS, 3)) * [1, 10, 100]).astype(np.float32)
    rewards = rng.normal(size=(n_steps, N_ENVS)).astype(np.float32)
    for x, reward in zip(xs, rewards, strict=True):
        for transform in transforms:
            transform.observe_step({"0": {"x": x}}, reward, np.zeros(N_ENVS, bool))
    return xs.reshape(-1, 3).astype(np.float64)


def test_the_run_knows_what_all_workers_saw_and_each_of_them_goes_on_from_there():
    run, rng = bound(), np.random.default_rng(0)
    shared = SharedStatistics(run, "test", "or not")
    copies = [own_copies(run) for _ in range(3)]
    workers = [WorkersStatistics(own) for own in copies]
    for worker in workers:
        worker.begin(shared.now())
    seen = []
    for _rollout in range(4):
        told = shared.now()
        for own, worker in zip(copies, workers, strict=True):
            worker.follow(told)
            seen.append(steps(rng, own, 50))
        shared.merge([worker.take() for worker in workers])
        state = run[0].state_dict()["estimated"]["x"]
        everything = np.concatenate(seen)
        assert state["count"] == len(everything) == run[1].state_dict()["count"]
        np.testing.assert_allclose(state["mean"], everything.mean(0), rtol=1e-9)
        np.testing.assert_allclose(state["m2"] / state["count"], everything.var(0), rtol=1e-9)
        observation = {"x": everything[:5].astype(np.float32)}
        wanted = (everything[:5] - everything.mean(0)) / everything.std(0)
        np.testing.assert_allclose(run[0].observation("0", observation)["x"], wanted, rtol=1e-4, atol=1e-5)
    for worker in workers:
        worker.follow(shared.now())
    for own in copies:
        np.testing.assert_equal([one.state_dict() for one in own], [one.state_dict() for one in run])


def test_a_worker_learns_by_itself_meanwhile_unless_it_holds():
    run, rng = bound(), np.random.default_rng(1)
    shared = SharedStatistics(run, "test", "or not")
    free, held = own_copies(run), own_copies(run)
    workers = [WorkersStatistics(free), WorkersStatistics(held, holds=True)]
    for own, worker in zip((free, held), workers, strict=True):
        worker.begin(shared.now())
        steps(rng, own, 300)
    assert free[0].state_dict()["estimated"]["x"]["count"] == free[1].state_dict()["count"] == 1200
    assert held[0].state_dict()["estimated"] == {}
    assert held[1].state_dict()["count"] == 0
    assert held[1].reward(np.float64(3.0)) == pytest.approx(3.0)
    shared.merge([worker.take() for worker in workers])
    assert run[1].state_dict()["count"] == 2400
    assert all(not partial for partial in workers[1].take())


def test_states_that_are_not_newer_are_passed_over_and_a_new_beginning_takes_any():
    run, rng = bound(), np.random.default_rng(2)
    shared = SharedStatistics(run, "test", "or not")
    own = own_copies(run)
    worker = WorkersStatistics(own)
    first = shared.now()
    worker.begin(first)
    steps(rng, own, 10)
    worker.follow(first)
    assert own[1].state_dict()["count"] == 40
    shared.merge([worker.take()])
    newer = shared.now()
    worker.follow(newer)
    worker.follow(first)
    assert own[1].state_dict()["count"] == 40
    worker.begin(first)
    assert own[1].state_dict()["count"] == 0
    assert own[0].state_dict()["estimated"] == {}
    assert all(not partial for partial in worker.take())
    worker.follow(newer)
    assert own[1].state_dict()["count"] == 40


def test_what_is_told_to_workers_is_not_changed_by_what_comes_later():
    run, rng = bound(), np.random.default_rng(3)
    shared = SharedStatistics(run, "test", "or not")
    own = own_copies(run)
    worker = WorkersStatistics(own)
    worker.begin(shared.now())
    steps(rng, own, 10)
    shared.merge([worker.take()])
    told = shared.now()
    before = json.dumps(told.states, default=np.ndarray.tolist)
    worker.follow(told)
    steps(rng, own, 500)
    shared.merge([worker.take()])
    assert json.dumps(told.states, default=np.ndarray.tolist) == before


class Counting(Transform):
    def observe_step(self, *arguments):
        pass


def test_statistics_that_cannot_be_brought_together_are_refused_with_what_to_write():
    with pytest.raises(RequestError, match="Counting keeps running statistics") as caught:
        SharedStatistics([Counting()], "somebody", "or do something else")
    assert caught.value.owner == "somebody"
    assert "Counting.take_partial" in caught.value.help
    assert "or do something else" in caught.value.help
    with pytest.raises(NotImplementedError):
        Transform().take_partial()


def test_without_running_statistics_nothing_travels():
    shared = SharedStatistics([Transform()], "test", "")
    assert shared.now() is None
    worker = WorkersStatistics([Transform()])
    worker.begin(None)
    worker.follow(None)
    shared.merge([worker.take(), worker.take()])


SMALL = {
    "ppo": {"epoch_length": 2, "n_rollout_steps": 16},
    "impala": {"epoch_length": 3, "num_actors": 4, "n_rollout_steps": 8, "actors_batch_size": 4},
    "es": {"n_rollouts_per_update": 6, "noise": {"use": "seeded"}},
}


@pytest.fixture
def train(assemble):
    """Weights after two epochs, and the statistics of the run."""

    def run(use, workers, mode=None, **tables):
        vector = {"n_envs": 4, **({"mode": mode} if mode else {})}
        env = {"use": "gym", "id": "CartPole-v1"}
        assembly = assemble(env=env, trainer={"use": use, **SMALL[use]}, workers=workers, vector=vector, **tables)
        trainer = assembly.make_trainer(assembly.trainer_context())
        try:
            for epoch in range(2):
                trainer.start_segment(epoch)
                trainer.train_epoch()
        finally:
            trainer.close()
        weights = torch.cat([own.detach().reshape(-1) for own in trainer.model.parameters()])
        return weights, assembly.transform_states(), trainer.env_steps

    return run


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("use", ["ppo", "impala", "es"])
def test_trainers_share_them_wherever_the_workers_are(train, use, count):
    mode = "workers" if use == "ppo" else None
    pools = ("inline", "maze_testing.by_value_pool:ByValuePool")
    learnt = [train(use, {"use": pool, "count": count}, mode, wrappers=SCALED) for pool in pools]
    assert torch.equal(learnt[0][0], learnt[1][0])
    np.testing.assert_equal(learnt[0][1], learnt[1][1])
    weights, (observations, returns), n_steps = learnt[0]
    count = observations["estimated"]["observation"]["count"]
    assert count > returns["count"] >= n_steps > 0
    assert np.abs(observations["estimated"]["observation"]["mean"]).max() > 0
    plain, _, _ = train(use, {"use": "inline", "count": 1}, mode, wrappers=[])
    assert not torch.equal(weights, plain)


def test_es_learns_the_same_from_one_worker_as_without_any(train):
    weights, states, _ = train("es", None, wrappers=SCALED)
    there, of_them, _ = train("es", {"use": "maze_testing.by_value_pool:ByValuePool", "count": 1}, wrappers=SCALED)
    assert torch.equal(weights, there)
    np.testing.assert_equal(states, of_them)


@pytest.mark.parametrize(("use", "mode"), [("ppo", "workers"), ("impala", None), ("es", None)])
def test_the_defaults_of_a_trainer_scale_on_workers_too(train, use, mode):
    _, states, _ = train(use, {"use": "inline", "count": 2}, mode)
    assert states[0]["estimated"]["observation"]["count"] > 0
    assert len(states) == (1 if use == "es" else 2)
