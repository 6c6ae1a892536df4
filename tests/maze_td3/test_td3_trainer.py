"""TD3 as a user sees it: resumable, exploring within bounds, honest about what it cannot train; DDPG as a setting."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.vector import Group
from maze_kernel.errors import NonFiniteError, RequestError, SpaceError
from maze_runtime.training import recorded_gradient
from maze_td3.exploration import GaussianNoise
from maze_testing.trainers import check_trainer

SMALL = {"use": "td3", "epoch_length": 6, "batch_size": 16, "initial_buffer_size": 40, "replay_buffer_size": 200}
MODEL = {"use": "auto", "hidden_units": [16]}
IDENTITY = "maze_testing.environments:Identity"
DDPG = {"twin": False, "policy_delay": 1, "target_noise": 0.0}
ENVS = {
    "pendulum": {"use": "gym", "id": "Pendulum-v1"},
    "box": {"use": IDENTITY, "kind": "box"},
    "two keys": {"use": "two_keys:RepeatThenError"},
}


def tables(kind="pendulum", **options):
    return {"env": ENVS[kind], "model": MODEL, "trainer": {**SMALL, **options}}


def weights(trainer):
    return torch.cat([parameter.detach().reshape(-1) for parameter in trainer.model.parameters()])


@pytest.mark.parametrize("options", [{}, {**DDPG, "exploration_correlation": 0.85}], ids=["td3", "ddpg"])
@pytest.mark.parametrize("kind", list(ENVS))
def test_it_passes_the_conformance_of_trainers(assemble, kind, options):
    assembly = assemble(**tables(kind, **options))
    check_trainer(lambda: assembly.make_trainer(assembly.trainer_context()), n_epochs=2, off_policy=True)


def test_the_first_epoch_fills_the_buffer_first(make_trainer):
    trainer = make_trainer(**tables())
    statistics = trainer.train_epoch()
    assert trainer.env_steps == 40 + 6 * 2
    assert statistics["TD3Events/buffer_size"] == 52
    assert statistics["TD3Events/n_updates"] == 12


def test_an_iteration_makes_as_many_updates_as_it_is_told(make_trainer):
    assert make_trainer(**tables(num_batches_per_iter=1)).train_epoch()["TD3Events/n_updates"] == 6


def test_policy_keys_have_statistics_of_their_own(make_trainer):
    statistics = make_trainer(**tables("two keys")).train_epoch()
    for name in ("critic_loss", "q_value", "policy_loss"):
        parts = [statistics[f"TD3Events/{name}/{key}"] for key in ("repeat", "judge")]
        assert statistics[f"TD3Events/{name}"] == pytest.approx(np.mean(parts), rel=1e-5)
    assert statistics["TD3Events/critic_grad_norm"] > 0
    assert statistics["TD3Events/policy_grad_norm"] > 0


def test_the_network_that_the_policy_climbs_is_the_first_of_the_twins(make_trainer):
    critic = make_trainer(**tables()).model.action_value_critic("0")
    rng = np.random.default_rng(0)
    observation = {"observation": torch.from_numpy(rng.normal(size=(5, 3)).astype(np.float32))}
    action = torch.from_numpy(rng.normal(size=(5, 1)).astype(np.float32))
    values = critic(observation, action)
    torch.testing.assert_close(critic.first(observation, action), values[0])
    assert not torch.allclose(values[0], values[1])


class Middle:
    """A policy that always says the same."""

    def __init__(self, value):
        self._value = np.array(value, np.float32)

    def act(self, policy_key, group, *, deterministic=False):
        assert deterministic
        return {"a": np.repeat(self._value[None], len(group.env_index), axis=0)}

    def seed(self, seed):
        pass

    def begin_episodes(self, env_index):
        pass


@pytest.mark.parametrize("none", [np.inf, np.finfo(np.float32).max])
def test_noise_is_measured_in_half_widths_and_cut_to_the_bounds(none):
    low, high = np.array([-2.0, -none], np.float32), np.array([4.0, none], np.float32)
    box = spaces.Dict(a=spaces.Box(low, high))
    policy = GaussianNoise(Middle([1.0, 7.0]), StructuredSpaces(observation={"0": spaces.Dict()}, action={"0": box}))
    policy.seed(0)
    group = Group(np.arange(4000), np.zeros(4000, np.int64), {})
    policy.scale = 0.1
    drawn = policy.act("0", group)["a"]
    np.testing.assert_allclose(drawn.mean(0), [1.0, 7.0], atol=0.02)
    np.testing.assert_allclose(drawn.std(0), [0.3, 0.1], rtol=0.05)
    policy.scale = 5.0
    assert (policy.act("0", group)["a"][:, 0].min(), policy.act("0", group)["a"][:, 0].max()) == (-2.0, 4.0)
    np.testing.assert_array_equal(policy.act("0", group, deterministic=True)["a"], [[1.0, 7.0]] * 4000)


def explored(n_steps, correlation, n_agents=1, n_envs=2, episode=None):
    """(T, rows) noise of scale 1 of a policy that always says 0, of all agents of all environments."""
    spaces_ = StructuredSpaces(
        observation={"0": spaces.Dict()}, action={"0": spaces.Dict(a=spaces.Box(-np.inf, np.inf, (1,), np.float32))}
    )
    policy = GaussianNoise(Middle([0.0]), spaces_, correlation)
    policy.seed(0)
    policy.scale = 1.0
    env_index, agent_id = np.repeat(np.arange(n_envs), n_agents), np.tile(np.arange(n_agents), n_envs)
    rows = []
    for step in range(n_steps):
        if episode and step % episode == 0:
            policy.begin_episodes(np.array([1]))
        parts = [
            policy.act("0", Group(env_index[i : i + 1], agent_id[i : i + 1], {}))["a"] for i in range(len(env_index))
        ]
        rows.append(np.concatenate(parts)[:, 0])
    return np.array(rows)


@pytest.mark.parametrize("correlation", [0.0, 0.85])
def test_noise_of_an_actor_is_correlated_from_decision_to_decision(correlation):
    noise = explored(6000, correlation, n_agents=2)
    np.testing.assert_allclose(noise.std(0), 1.0, atol=0.06)
    for lag in (1, 3):
        of_each = [np.corrcoef(column[:-lag], column[lag:])[0, 1] for column in noise.T]
        np.testing.assert_allclose(of_each, correlation**lag, atol=0.06)
    between = np.corrcoef(noise.T) - np.eye(4)
    assert np.abs(between).max() < 0.12


def test_correlated_noise_begins_anew_with_every_episode():
    noise = explored(6000, 0.85, episode=2)
    going_on, ending = noise[0::2], noise[1::2]
    within = [np.corrcoef(going_on[:, i], ending[:, i])[0, 1] for i in range(2)]
    across = [np.corrcoef(ending[:-1, i], going_on[1:, i])[0, 1] for i in range(2)]
    np.testing.assert_allclose(within, 0.85, atol=0.05)
    np.testing.assert_allclose(across, [0.85, 0.0], atol=0.06)
    np.testing.assert_allclose(noise.std(0), 1.0, atol=0.06)


def test_without_correlation_the_noise_is_the_plain_one_bit_for_bit():
    plain = np.random.default_rng(0).standard_normal((50, 2), np.float32)
    np.testing.assert_array_equal(explored(50, 0.0), plain)


def test_choices_are_refused(make_trainer):
    with pytest.raises(SpaceError, match="cannot choose among the options") as refusal:
        make_trainer(**{**tables(), "env": {"use": "gym", "id": "CartPole-v1"}})
    assert "dqn" in refusal.value.help


def test_networks_of_single_agents_are_refused(make_trainer):
    pair = {"use": "maze_testing.structured_environments:Pair"}
    with pytest.raises((RequestError, SpaceError)):
        make_trainer(env=pair, trainer=SMALL, model={**MODEL, "separate_agent_nets": ["agent"]})


def test_one_pair_of_q_networks_for_all_keys_is_refused(make_trainer):
    with pytest.raises(RequestError, match="Q networks of each policy key"):
        make_trainer(**{**tables("two keys"), "model": {**MODEL, "critic": "shared-state"}})


def test_a_non_finite_batch_stops_and_leaves_the_weights(make_trainer):
    trainer = make_trainer(**tables())
    trainer.train_epoch()
    trainer._collector.replay["0"]._memory.reward.fill(np.nan)
    with pytest.raises(NonFiniteError) as failure:
        trainer.train_epoch()
    assert torch.isfinite(weights(trainer)).all()
    assert np.isnan(failure.value.batch["reward"]).any()


def test_a_small_task_is_learnt(make_trainer):
    options = {"epoch_length": 500, "batch_size": 64, "initial_buffer_size": 500, "replay_buffer_size": 5000}
    model = {"use": "auto", "hidden_units": [64, 64], "non_lin": "relu"}
    trainer = make_trainer(
        **{**tables("two keys", **options, gamma=0.5, tau=0.02, exploration_noise=0.2), "model": model}
    )
    rewards = [trainer.train_epoch()["BaseEnvEvents/reward/mean"] for _ in range(2)]
    # At random about −11; the noise of exploration alone costs 8 · 0.8 · (0.2 + 0.4) = 3.84.
    assert rewards[-1] > -4.4, rewards


@pytest.mark.parametrize("kind", list(ENVS))
def test_recorded_updates_are_the_plain_ones_bit_for_bit(make_trainer, monkeypatch, kind):
    recorded, plain = (make_trainer(**tables(kind, epoch_length=60, num_batches_per_iter=1)) for _ in range(2))
    recorded.train_epoch()
    update = recorded._update
    gradients = (update._critic_step._recorded, update._policy_step._recorded)
    assert all(any(form.replay is not None for form in one._forms.values()) for one in gradients)
    monkeypatch.setattr(recorded_gradient, "N_PLAIN", 10**9)
    plain.train_epoch()
    assert torch.equal(weights(recorded), weights(plain))


@pytest.mark.slow
def test_compiled_updates_come_to_the_same(make_trainer):
    learnt = []
    for compiled in (False, True):
        trainer = make_trainer(**tables("two keys", compile=compiled))
        trainer.train_epoch()
        learnt.append(weights(trainer))
    torch.testing.assert_close(*learnt, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_memory_is_flat_once_the_replay_buffer_is_full(make_trainer, assert_flat):
    trainer = make_trainer(**tables())
    assert_flat(trainer.train_epoch, warm_up=50, n=200)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_trains(make_trainer):
    trainer = make_trainer(**tables(device="cuda"))
    before = weights(trainer).clone()
    trainer.train_epoch()
    assert weights(trainer).is_cuda
    assert not torch.equal(weights(trainer), before)
