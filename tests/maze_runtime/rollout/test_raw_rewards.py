"""What environments pay is reported beside what wrappers make of it, here and in workers, and while an epoch runs."""

import pytest

from maze_kernel.contracts.logger import Progress
from maze_runtime.rollout.episode_statistics import EpisodeReturns

SHAPED = [{"use": "log-stats"}, {"use": "reward-scaling", "scale": 0.5}, {"use": "return-normalization"}]


def tables(wrappers, **vector):
    return {
        "env": {"use": "gym", "id": "Pendulum-v1"},
        "wrappers": wrappers,
        "vector": {"n_envs": 4, **vector},
        "trainer": {"use": "ppo", "n_rollout_steps": 300, "epoch_length": 2},
    }


@pytest.mark.slow
@pytest.mark.parametrize("vector", [{}, {"mode": "subprocess", "n_processes": 2}], ids=["here", "in processes"])
def test_rewards_before_the_first_wrapper_that_shapes_them_are_reported(assemble, vector):
    assembly = assemble(**tables(SHAPED, **vector))
    trainer = assembly.make_trainer(assembly.trainer_context())
    trainer.start_segment(0)
    statistics = {**trainer.train_epoch(), **assembly.training_batches.drain_event_statistics()}
    trainer.close()
    for name in ("mean", "std", "min", "max", "median"):
        inside = statistics[f"LogStatsEvents/reward/{name}"]
        assert statistics[f"BaseEnvEvents/raw_reward/{name}"] == pytest.approx(inside)
    assert abs(statistics["BaseEnvEvents/raw_reward/mean"]) > 10 * abs(statistics["BaseEnvEvents/reward/mean"])


INSIDE = [{"use": "reward-scaling", "scale": 0.5}, {"use": "step-skip", "n_steps": 1, "mode": "sticky"}]
OUTSIDE = [*INSIDE, {"use": "reward-scaling", "scale": 10.0}]
ES = {"use": "es", "n_epochs": 1, "n_rollouts_per_update": 4}
PLACES = {
    "here": {},
    "in processes": {"vector": {"n_envs": 4, "mode": "subprocess", "n_processes": 2}},
    "on workers": {"vector": {"n_envs": 4, "mode": "workers"}, "workers": {"use": "inline", "count": 2}},
    "by IMPALA": {
        "trainer": {
            "use": "impala",
            "n_rollout_steps": 300,
            "epoch_length": 3,
            "num_actors": 2,
            "actors_batch_size": 2,
        },
        "workers": {"use": "inline", "count": 2},
    },
    "by ES": {"trainer": ES},
    "by ES on workers": {"trainer": ES, "workers": {"use": "inline", "count": 2}},
}


@pytest.mark.parametrize("wrappers", [INSIDE, OUTSIDE, OUTSIDE[2:]], ids=["inside", "inside and outside", "outside"])
@pytest.mark.parametrize(
    "place", [pytest.param(place, marks=pytest.mark.slow) if "processes" in place else place for place in PLACES]
)
def test_what_environments_pay_is_told_wherever_wrappers_shape_it(assemble, place, wrappers):
    """Also where they stand around single environments, while the epoch runs and at its end."""
    assembly, told = assemble(**{**tables(wrappers), **PLACES[place]}), []
    trainer = assembly.make_trainer(assembly.trainer_context(lambda sign: told.append((sign, raw(sign)))))

    def raw(sign):
        return assembly.training_batches.mean_raw_reward(sign.reward)

    trainer.start_segment(0)
    statistics = {**trainer.train_epoch(), **assembly.training_batches.drain_event_statistics()}
    assert raw(Progress(env_steps=0, fraction=0.0)) is None, "it goes on to the next epoch"
    trainer.close()
    scale = 0.5 ** (len(wrappers) > 1) * 10.0 ** (len(wrappers) != 2)
    paid = statistics["BaseEnvEvents/raw_reward/mean"]
    assert paid * scale == pytest.approx(statistics["BaseEnvEvents/reward/mean"], rel=1e-4)
    assert -2000 < paid < -500
    known = [own for _, own in told if own is not None]
    assert known
    assert all(-2000 < own < -500 for own in known)


def test_where_no_wrapper_shapes_rewards_there_is_nothing_beside_them(assemble):
    assembly = assemble(**tables([{"use": "log-stats"}]))
    trainer = assembly.make_trainer(assembly.trainer_context())
    trainer.start_segment(0)
    statistics = {**trainer.train_epoch(), **assembly.training_batches.drain_event_statistics()}
    trainer.close()
    assert not any("raw_reward" in tag for tag in statistics)
    assert assembly.training_batches.mean_raw_reward(-3.0) == -3.0


def test_signs_of_life_can_tell_what_the_environments_paid_so_far(assemble):
    assembly, told = assemble(**tables(SHAPED)), []

    def hear(progress: Progress):
        told.append((progress.reward, assembly.training_batches.mean_raw_reward(progress.reward)))

    trainer = assembly.make_trainer(assembly.trainer_context(hear))
    trainer.start_segment(0)
    trainer.train_epoch()
    trainer.close()
    assert told[0] == (None, None)
    learnt_from, paid = told[-1]
    assert learnt_from > -100
    assert -2000 < paid < -500
    assert assembly.training_batches.mean_raw_reward(None) == pytest.approx(paid, rel=0.5)


def test_the_mean_so_far_is_that_of_the_episodes_since_the_last_drain():
    returns = EpisodeReturns(1)
    assert returns.mean() is None
    returns._finished_returns += [1.0, 2.0]
    assert returns.mean() == 1.5
    returns._finished_returns += [6.0]
    assert returns.mean() == returns.mean() == 3.0
    returns._finished_lengths += [1, 1, 1]
    returns.drain()
    assert returns.mean() is None
