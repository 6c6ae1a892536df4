"""Who acts before the first update: any policy, in sight of the environments, and only then."""

from typing import ClassVar

import numpy as np
import pytest
import torch

from maze_kernel.config import load_experiment
from maze_kernel.errors import MazeError, RequestError
from maze_runtime.rollout.heuristic import Heuristic
from maze_testing.trainers import check_trainer

SMALL = {"use": "sac", "epoch_length": 6, "batch_size": 16, "initial_buffer_size": 40, "replay_buffer_size": 200}
MODEL = {"use": "auto", "hidden_units": [16]}


class Steering(Heuristic):
    """Draws a size with its own random stream and pushes against the spin; counts what it decided."""

    made: ClassVar = []

    def __init__(self, context, *, strength=1.0):
        super().__init__(context)
        self.strength, self.n_decided, self.n_begun, self.saw = strength, 0, 0, set()
        self.made.append(self)

    def begin_episodes(self, env_index):
        self.n_begun += len(env_index)

    def act_one(self, observation, moment):
        self.n_decided += 1
        self.saw.add(type(moment.env).__name__)
        speed = float(observation["observation"][2])
        return np.array([-np.sign(speed) * self.strength * self.rng.uniform(0.1, 1.0)], np.float32)


@pytest.fixture
def steered(make_trainer, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "steering_of_this_test", sys.modules[__name__])
    monkeypatch.setattr(Steering, "made", [])

    def build(**options):
        policy = {"use": "steering_of_this_test:Steering", "strength": 0.5}
        where = {name: options.pop(name) for name in ("vector", "workers", "seed") if name in options}
        return make_trainer(model=MODEL, trainer={**SMALL, "initial_sampling_policy": policy, **options}, **where)

    return build


def test_the_first_transitions_are_those_of_the_policy(steered):
    trainer = steered()
    trainer.train_epoch()
    (policy,) = Steering.made
    assert policy.n_decided == 40
    assert policy.n_begun == 2
    replay = trainer._experience.replay["0"]
    memory = replay._memory
    rows = memory.valid
    speed, torque = memory.observation["observation"][rows][:, 2], memory.action["action"][rows][:, 0]
    first = np.concatenate([np.arange(26) < 20] * 2)
    assert np.array_equal(np.sign(torque)[first], -np.sign(speed)[first])
    assert np.all(np.abs(torque[first]) <= 0.5)
    assert not np.array_equal(np.sign(torque)[~first], -np.sign(speed)[~first])
    trainer.train_epoch()
    trainer.start_segment(2)
    trainer.train_epoch()
    assert policy.n_decided == 40


def test_it_sees_the_environments_of_this_process(steered):
    steered().train_epoch()
    (policy,) = Steering.made
    assert policy.saw == {"GymEnv"}


def test_it_is_reproducible_and_resumed_runs_are_the_undisturbed_ones(steered):
    check_trainer(steered, n_epochs=2, off_policy=True)
    runs = [steered(seed=seed) for seed in (1, 1, 2)]
    for trainer in runs:
        trainer.train_epoch()
    weights = [torch.cat([p.detach().reshape(-1) for p in trainer.model.parameters()]) for trainer in runs]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_an_object_from_python_serves(make_trainer):
    from maze_kernel.contracts.env import StructuredSpaces
    from maze_kernel.contracts.model import PolicyContext

    spaces = make_trainer(model=MODEL, trainer=SMALL)._context.spaces
    assert isinstance(spaces, StructuredSpaces)
    policy = Steering(PolicyContext(spaces=spaces))
    make_trainer(model=MODEL, trainer={**SMALL, "initial_sampling_policy": policy}).train_epoch()
    assert policy.n_decided == 40


def test_workers_know_random_actions_and_the_network_only(steered):
    where = {"vector": {"n_envs": 3, "mode": "workers"}, "workers": {"use": "inline", "count": 2}}
    with pytest.raises(RequestError, match="workers cannot collect with the policy") as refusal:
        steered(**where, n_rollout_steps=4)
    assert "subprocess" in refusal.value.help
    steered(**where, n_rollout_steps=4, initial_sampling_policy={"use": "random"}).train_epoch()


@pytest.mark.parametrize(
    ("written", "complaint", "hint"),
    [
        ('"rndom"', "is not one of its values", "did you mean: random"),
        ('{ use = "rndom" }', "no policy is called 'rndom'", "did you mean: random"),
        ('{ use = "random", strength = 2 }', "strength", "initial_sampling_policy"),
    ],
)
def test_mistakes_are_shown_where_they_stand(kernel, tmp_path, written, complaint, hint):
    file = tmp_path / "experiment.toml"
    env = '[env]\nuse = "gym"\nid = "Pendulum-v1"'
    file.write_text(f'name = "x"\n{env}\n[trainer]\nuse = "sac"\ninitial_sampling_policy = {written}\n')
    with pytest.raises(MazeError) as error:
        load_experiment(file, kernel=kernel)
    text = error.value.render()
    assert complaint in text
    assert hint in text
    assert "experiment.toml:7:" in text
    assert "^" in text
