"""What a network of a user's own keeps beside its parameters is saved, restored and followed like these."""

import pytest

from maze_testing.trainers import check_trainer, make_trainer

MODEL = {
    "use": "concat",
    "blocks": {"seen": {"use": "torch-model", "module": "running_mean:RunningMean"}},
    "hidden": {"use": "dense", "hidden_units": [8]},
}
ON_POLICY = {"epoch_length": 2, "n_rollout_steps": 8}
OFF_POLICY = {"epoch_length": 6, "batch_size": 8, "initial_buffer_size": 40, "replay_buffer_size": 200}
TRAINERS = {
    "ppo": ON_POLICY,
    "a2c": ON_POLICY,
    "impala": ON_POLICY,
    "sac": OFF_POLICY,
    "td3": OFF_POLICY,
    "dqn": OFF_POLICY,
}


WORKERS = {"vector": {"n_envs": 2, "mode": "workers"}, "workers": {"use": "inline"}}


def trainer_of(use, **tables):
    env = {"use": "gym", "id": "CartPole-v1" if use == "dqn" else "Pendulum-v1"}
    return make_trainer({"use": use, **TRAINERS[use]}, env=env, n_envs=2, model=MODEL, **tables)


@pytest.mark.parametrize("use", TRAINERS)
def test_a_restored_trainer_goes_on_like_the_one_that_never_stopped(use):
    check_trainer(lambda: trainer_of(use), off_policy=TRAINERS[use] is OFF_POLICY)


@pytest.mark.parametrize("use", ["ppo", "a2c", "sac"])
def test_it_does_so_with_rollouts_of_workers(use):
    check_trainer(lambda: trainer_of(use, **WORKERS), off_policy=TRAINERS[use] is OFF_POLICY)


@pytest.mark.parametrize("use", ["sac", "td3"])
def test_target_networks_have_those_of_the_networks_that_they_follow(use):
    trainer = trainer_of(use)
    trainer.start_segment(0)
    trainer.train_epoch()
    target = means(trainer.state_dict()["update"]["target"])
    assert target
    assert 0.0 not in target
    assert target <= means(trainer.model.state_dict())


def means(state):
    return {float(mean) for name, mean in state.items() if name.endswith("mean")}
