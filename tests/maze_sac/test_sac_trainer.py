"""SAC as a user sees it: reproducible, resumable, honest about what it cannot train, and its temperature moves."""

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.errors import NonFiniteError, RequestError, SpaceError
from maze_runtime.env.flat import FlatEnv
from maze_runtime.models.masking import MaskError
from maze_runtime.training import recorded_gradient
from maze_testing.environments import MaskedDict
from maze_testing.trainers import check_trainer

SMALL = {"use": "sac", "epoch_length": 6, "batch_size": 16, "initial_buffer_size": 40, "replay_buffer_size": 200}
MODEL = {"use": "auto", "hidden_units": [16]}
IDENTITY = "maze_testing.environments:Identity"
ENVS = {
    "continuous": {"use": "gym", "id": "Pendulum-v1"},
    "discrete": {"use": "gym", "id": "CartPole-v1"},
    "multi-discrete": {"use": IDENTITY, "kind": "multi-discrete"},
    "masked": {"use": "maze_testing.environments:MaskedDict"},
    "mixed": {"use": f"{__file__.rsplit('/', 1)[-1][:-3]}:Mixed"},
    "team": {"use": "maze_testing.structured_environments:ChangingTeam"},
    "two keys": {"use": "two_keys:SignThenSize"},
}


class Mixed(FlatEnv):
    """Choose the sign of the observation and copy its size."""

    structured_spaces = StructuredSpaces(
        observation={"0": spaces.Dict({"observation": spaces.Box(-1.0, 1.0, (1,), np.float32)})},
        action={"0": spaces.Dict({"sign": spaces.Discrete(2), "size": spaces.Box(0.0, 1.0, (1,), np.float32)})},
    )

    def __init__(self):
        self._rng = np.random.default_rng()
        self._t = 0

    def _next(self):
        self._target = self._rng.uniform(-1.0, 1.0)
        return {"observation": np.array([self._target], np.float32)}

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._t = 0
        return self._next(), {}

    def step(self, action):
        right = int(action["sign"]) == int(self._target > 0)
        reward = float(right) - abs(float(action["size"][0]) - abs(self._target))
        self._t += 1
        return self._next(), reward, self._t % 8 == 0, False, {}


class NothingAllowedInTheEnd(MaskedDict):
    """The last observation of an episode, which is cut or terminated, allows nothing."""

    def __init__(self, *, truncates):
        super().__init__()
        self._truncates = truncates

    def step(self, action):
        observation, reward, ends, _, info = super().step(action)
        if ends:
            observation["pick_mask"][:] = 0
        return observation, reward, ends and not self._truncates, ends and self._truncates, info


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, __file__.rsplit("/", 1)[-1][:-3], sys.modules[__name__])


def tables(kind, **options):
    return {"env": ENVS[kind], "model": MODEL, "trainer": {**SMALL, **options}}


def weights(trainer):
    return torch.cat([parameter.detach().reshape(-1) for parameter in trainer.model.parameters()])


@pytest.mark.parametrize("kind", list(ENVS))
def test_it_passes_the_conformance_of_trainers(assemble, kind):
    assembly = assemble(**tables(kind))
    check_trainer(lambda: assembly.make_trainer(assembly.trainer_context()), n_epochs=2, off_policy=True)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(make_trainer):
    runs = [make_trainer(**tables("continuous"), seed=seed) for seed in (1, 1, 2)]
    for trainer in runs:
        trainer.train_epoch()
    assert torch.equal(weights(runs[0]), weights(runs[1]))
    assert not torch.equal(weights(runs[0]), weights(runs[2]))


@pytest.mark.parametrize("kind", ["continuous", "two keys", "team"])
def test_workers_collect_what_is_learnt_from_on_any_pool(make_trainer, kind):
    learnt = []
    for pool in ("inline", "maze_testing.by_value_pool:ByValuePool"):
        where = {"vector": {"n_envs": 3, "mode": "workers"}, "workers": {"use": pool, "count": 2}}
        trainer = make_trainer(**tables(kind, n_rollout_steps=4), **where)
        statistics = [trainer.train_epoch(), trainer.train_epoch()]
        trainer.start_segment(2)
        statistics.append(trainer.train_epoch())
        steps = [epoch["SACEvents/buffer_size"] for epoch in statistics]
        assert 40 <= steps[0] < steps[1] < steps[2]
        learnt.append(weights(trainer))
    assert torch.equal(*learnt)


def test_the_process_wide_generator_is_left_alone(make_trainer):
    trainer = make_trainer(**tables("continuous"))
    torch.manual_seed(3)
    wanted = torch.rand(2)
    torch.manual_seed(3)
    trainer.train_epoch()
    assert torch.equal(torch.rand(2), wanted)


def test_the_first_epoch_fills_the_buffer_first(make_trainer):
    trainer = make_trainer(**tables("continuous"))
    statistics = trainer.train_epoch()
    assert trainer.env_steps == 40 + 6 * 2
    assert statistics["SACEvents/buffer_size"] == 52
    assert statistics["SACEvents/n_updates"] == 12
    assert trainer.train_epoch()["SACEvents/n_updates"] == 24


def test_an_iteration_makes_as_many_updates_as_it_is_told(make_trainer):
    trainer = make_trainer(**tables("continuous", num_batches_per_iter=3))
    assert trainer.train_epoch()["SACEvents/n_updates"] == 6 * 3


def test_rows_that_only_reset_are_not_stored(make_trainer):
    """Native CartPole spends a row on every reset."""
    trainer = make_trainer(**tables("discrete", replay_buffer_size=5000), vector={"n_envs": 4, "mode": "native"})
    statistics = trainer.train_epoch()
    assert statistics["BaseEnvEvents/episode_count"] > 0
    assert statistics["SACEvents/buffer_size"] == trainer.env_steps


@pytest.mark.parametrize("kind", ["continuous", "two keys", "team"])
def test_rollouts_that_are_not_split_are_drawn_whole(make_trainer, kind):
    options = {"n_rollout_steps": 4, "batch_size": 8, "split_rollouts_into_transitions": False}
    trainer = make_trainer(**tables(kind, **options))
    trainer.train_epoch()
    for batch in trainer._experience.sample(8, np.random.default_rng(0)).values():
        assert len(batch.transitions.reward) == 32
    split = make_trainer(**tables(kind, **{**options, "n_rollout_steps": 1}))
    split.train_epoch()
    whole = make_trainer(**tables(kind, **{**options, "n_rollout_steps": 1, "split_rollouts_into_transitions": True}))
    whole.train_epoch()
    assert torch.equal(weights(split), weights(whole))


def test_statistics_have_the_documented_tags(make_trainer):
    statistics = make_trainer(**tables("continuous")).train_epoch()
    wanted = "critic_loss policy_loss q_value entropy entropy_coef critic_grad_norm policy_grad_norm learning_rate"
    assert {f"SACEvents/{name}" for name in wanted.split()} <= set(statistics)
    assert {"Timing/rollout_seconds", "Timing/update_seconds", "Timing/updates_per_second"} <= set(statistics)
    assert all(np.isfinite(value) for value in statistics.values())


def test_alpha_starts_at_entropy_coef_and_moves_towards_the_target_entropy(make_trainer):
    alphas = []
    for multiplier in (-50.0, 50.0):  # an entropy above, then below anything a Box of one dimension can have
        options = {"entropy_coef_lr": 0.1, "entropy_coef": 0.5, "target_entropy_multiplier": multiplier}
        trainer = make_trainer(**tables("continuous", **options))
        trainer.train_epoch()
        alphas.append(trainer.train_epoch()["SACEvents/entropy_coef"])
    assert alphas[0] > 0.55
    assert alphas[1] < 0.45


class Copies(FlatEnv):
    """Copy half of the observation, in a unit of its own; `half_width` is where the actions end."""

    def __init__(self, *, half_width=1.0):
        self.structured_spaces = StructuredSpaces(
            observation={"0": spaces.Dict({"observation": spaces.Box(-1.0, 1.0, (1,))})},
            action={"0": spaces.Dict({"action": spaces.Box(-half_width, half_width, (1,))})},
        )
        self._half_width = half_width
        self._rng = np.random.default_rng()

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._n_steps = 0
        return self._observe(), {}

    def step(self, action):
        reward = -abs(float(action["action"][0]) / self._half_width - float(self._shown[0]) / 2)
        self._n_steps += 1
        return self._observe(), reward, self._n_steps == 20, False, {}

    def _observe(self):
        self._shown = self._rng.uniform(-1.0, 1.0, 1).astype(np.float32)
        return {"observation": self._shown}


def test_the_unit_in_which_actions_are_counted_changes_nothing_that_is_learnt(make_trainer):
    """Half widths are powers of two, so that nothing but the last places of sums may differ."""
    told = []
    for half_width in (1.0, 2.0**-8, 2.0**10):
        env = {"use": f"{__name__}:Copies", "half_width": half_width}
        trainer = make_trainer(env=env, model=MODEL, trainer={**SMALL, "entropy_coef_lr": 0.01})
        statistics = [trainer.train_epoch() for _ in range(3)][-1]
        told.append([statistics[f"SACEvents/{name}"] for name in ("entropy", "entropy_coef", "q_value", "policy_loss")])
    assert told[1] == pytest.approx(told[0], rel=1e-3, abs=1e-3)
    assert told[2] == pytest.approx(told[0], rel=1e-3, abs=1e-3)


def test_alpha_stays_without_tuning(make_trainer):
    trainer = make_trainer(**tables("continuous", entropy_tuning=False, entropy_coef=0.37))
    trainer.train_epoch()
    assert trainer.train_epoch()["SACEvents/entropy_coef"] == pytest.approx(0.37)


def test_target_networks_follow_by_tau_at_the_interval(make_trainer):
    one = {"num_batches_per_iter": 1}
    trainer = make_trainer(**tables("continuous", tau=0.25, target_update_interval=3, epoch_length=2, **one))
    target = trainer._update._target.flats[0]
    before = target.clone()
    trainer.train_epoch()
    assert torch.equal(target, before)
    trainer.options = trainer.options.__class__(**{**SMALL_OPTIONS, "epoch_length": 1, **one})
    trainer.train_epoch()
    torch.testing.assert_close(target, 0.75 * before + 0.25 * trainer._update.critic_flat.data)


SMALL_OPTIONS = {name: value for name, value in SMALL.items() if name != "use"}


def test_policy_keys_have_statistics_and_temperatures_of_their_own(make_trainer):
    statistics = make_trainer(**tables("two keys")).train_epoch()
    for name in ("entropy", "entropy_coef", "q_value", "critic_loss", "policy_loss"):
        parts = [statistics[f"SACEvents/{name}/{key}"] for key in ("sign", "size")]
        assert statistics[f"SACEvents/{name}"] == pytest.approx(np.mean(parts), rel=1e-5)
    assert statistics["SACEvents/entropy/sign"] != statistics["SACEvents/entropy/size"]
    for name in ("critic_grad_norm", "policy_grad_norm"):
        parts = [statistics[f"SACEvents/{name}/{key}"] for key in ("sign", "size")]
        # Of one update |g|² is the sum over the keys of theirs; a mean over updates lies between them
        assert max(parts) <= statistics[f"SACEvents/{name}"] <= sum(parts)


def test_networks_of_single_agents_are_refused(make_trainer):
    pair = {"use": "maze_testing.structured_environments:Pair"}
    with pytest.raises(RequestError, match="networks of their own"):
        make_trainer(env=pair, trainer=SMALL, model={**MODEL, "separate_agent_nets": ["agent"]})


def test_a_buffer_too_small_for_a_team_is_refused_when_the_team_has_grown(make_trainer):
    trainer = make_trainer(**tables("team", replay_buffer_size=12))
    with pytest.raises(RequestError, match="too small for a team") as refusal:
        trainer.train_epoch()
    assert "replay_buffer_size" in refusal.value.help


def test_a_distribution_without_gradients_is_refused(make_trainer, monkeypatch):
    from maze_distributions.squashed_gaussian import SquashedGaussian

    sample = SquashedGaussian.sample
    monkeypatch.setattr(SquashedGaussian, "sample", lambda self, logits, generator=None: sample(self, logits).detach())
    with pytest.raises(SpaceError, match="reparameterised"):
        make_trainer(**tables("continuous"))


def test_sharing_embeddings_is_refused(make_trainer):
    model = {"use": "concat", "blocks": {"f": {"use": "dense"}}, "critic": {"share_embedding": True}}
    with pytest.raises(RequestError, match="share_embedding"):
        make_trainer(**{**tables("continuous"), "model": model})


@pytest.mark.parametrize("hidden", [None, {"use": "dense", "hidden_units": [8]}])
def test_q_networks_of_the_concat_template_read_the_action_before_an_activation(make_trainer, hidden):
    model = {"use": "concat", "blocks": {"f": {"use": "dense", "hidden_units": [8], "non_lin": "tanh"}}}
    if hidden:
        model["hidden"] = hidden
    trainer = make_trainer(**{**tables("continuous"), "model": model})
    critic = trainer.model.action_value_critic("0")
    action = torch.tensor([[-1.0], [0.0], [1.0]])
    q = critic({"observation": torch.ones(3, 3)}, action)[0]
    assert not math.isclose(float(q[2] - q[1]), float(q[1] - q[0]), rel_tol=1e-3)
    trainer.train_epoch()


def test_a_non_finite_batch_stops_and_leaves_the_weights(make_trainer):
    trainer = make_trainer(**tables("continuous"))
    trainer.train_epoch()
    before = weights(trainer).clone()
    trainer._experience.replay["0"]._memory.reward.fill(np.nan)
    with pytest.raises(NonFiniteError) as failure:
        trainer.train_epoch()
    assert torch.isfinite(weights(trainer)).all()
    n_policy = len(trainer._update.policy_flat.data)
    assert len(before) > n_policy
    assert np.isnan(failure.value.batch["reward"]).any()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["continuous", "two keys"])
def test_memory_is_flat_once_the_replay_buffer_is_full(make_trainer, assert_flat, kind):
    trainer = make_trainer(**tables(kind))
    assert_flat(trainer.train_epoch, warm_up=50, n=200)


@pytest.mark.parametrize("initial", ["random", "policy"])
def test_a_truncated_observation_whose_mask_forbids_everything_is_refused_as_it_is_when_acting(make_trainer, initial):
    """Its value would be that of choosing among forbidden options; a terminated one has no value."""
    env = {"use": f"{__name__}:NothingAllowedInTheEnd"}
    options = {"initial_sampling_policy": initial, "epoch_length": 20, "initial_buffer_size": 8, "batch_size": 4}
    trainer = make_trainer(env={**env, "truncates": True}, trainer={"use": "sac", **options})
    with pytest.raises(MaskError, match=r"'pick'.*truncated") as caught:
        trainer.train_epoch()
    assert "terminate the episode" in caught.value.render()
    make_trainer(env={**env, "truncates": False}, trainer={"use": "sac", **options}).train_epoch()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_trains(make_trainer):
    trainer = make_trainer(**tables("continuous", device="cuda"))
    before = weights(trainer).clone()
    trainer.train_epoch()
    assert weights(trainer).is_cuda
    assert not torch.equal(weights(trainer), before)


@pytest.mark.parametrize("kind", list(ENVS))
def test_recorded_updates_are_the_plain_ones_bit_for_bit(make_trainer, monkeypatch, kind):
    recorded, plain = (make_trainer(**tables(kind, epoch_length=60, num_batches_per_iter=1)) for _ in range(2))
    recorded.train_epoch()
    update = recorded._update
    gradients = (update._critic_gradient, update._policy_gradient)
    assert all(any(form.replay is not None for form in one._forms.values()) for one in gradients)
    monkeypatch.setattr(recorded_gradient, "N_PLAIN", 10**9)
    plain.train_epoch()
    assert torch.equal(weights(recorded), weights(plain))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "target_update_interval"), [("discrete", 1), ("discrete", 2)])
def test_compiled_updates_equal_eager_ones(make_trainer, kind, target_update_interval):
    """Updates with a single choice draw no noise, so both see the same numbers."""
    options = {"epoch_length": 3, "tau": 0.2, "target_update_interval": target_update_interval}
    eager = make_trainer(**tables(kind, **options))
    compiled = make_trainer(**tables(kind, **options, compile=True))
    before = eager._update._target.flats[0].clone()
    eager.train_epoch()
    compiled.train_epoch()
    np.testing.assert_allclose(weights(eager), weights(compiled), rtol=1e-3, atol=1e-5)
    targets = [trainer._update._target.flats[0] for trainer in (eager, compiled)]
    np.testing.assert_allclose(*targets, rtol=1e-3, atol=1e-5)
    assert not torch.equal(targets[0], before)


@pytest.mark.parametrize("kind", ["continuous", "two keys"])
def test_updates_too_large_to_compile_are_the_eager_ones(make_trainer, monkeypatch, kind):
    monkeypatch.setattr("maze_runtime.training.bounded_compilation.MOST_OPERATIONS", 10)
    eager, bounded = make_trainer(**tables(kind)), make_trainer(**tables(kind, compile=True))
    eager.train_epoch()
    with pytest.warns(RuntimeWarning, match="tensor operations"):
        bounded.train_epoch()
    assert torch.equal(weights(eager), weights(bounded))
    targets = [trainer._update._target.flats[0] for trainer in (eager, bounded)]
    assert torch.equal(*targets)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["continuous", "multi-discrete", "mixed", "two keys"])
def test_compiled_updates_are_reproducible(make_trainer, kind):
    runs = [make_trainer(**tables(kind, compile=True)) for _ in range(2)]
    before = weights(runs[0]).clone()
    for trainer in runs:
        trainer.train_epoch()
    assert torch.isfinite(weights(runs[0])).all()
    assert not torch.equal(weights(runs[0]), before)
    assert torch.equal(weights(runs[0]), weights(runs[1]))


def test_the_readme_lists_every_option(kernel):
    from pathlib import Path

    from maze_kernel.config import describe

    readme = (Path(__file__).parents[2] / "maze_sac" / "README.md").read_text()
    description = describe(kernel, "trainer", "sac")
    section = readme.partition("### `sac`\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
    stated = {name.removeprefix("| "): (default, meaning.removesuffix(" |")) for name, _, default, meaning in rows}
    assert stated == {f"`{row.name}`": (f"`{row.default}`", row.meaning) for row in description.options}


def test_numbers_below_the_smallest_normal_ones_are_zero_in_an_update(make_trainer, monkeypatch):
    if not torch.set_flush_denormal(False):
        pytest.skip("the processor has no such way of working")
    trainer, seen, subnormal = make_trainer(**tables("continuous")), [], np.float64(1e-310)
    plain = trainer._update._eager
    monkeypatch.setattr(trainer._update, "_eager", lambda batches: seen.append(subnormal * 1.0) or plain(batches))
    trainer.train_epoch()
    assert set(seen) == {0.0}
    assert subnormal * 1.0 > 0.0
