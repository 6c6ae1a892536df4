"""Recurrent models under PPO and A2C: sequences are replayed as they were acted, resets and all."""

import warnings

import numpy as np
import pytest
import torch

from maze_blocks_recurrent import layers, sequence_arrays
from maze_blocks_recurrent.sequence_op import advance_steps
from maze_kernel.config import experiment_from_mapping
from maze_kernel.loader import Kernel
from maze_runtime.models.network_policy import NetworkPolicy
from maze_runtime.models.recurrence import BEGINS
from maze_runtime.run.assembly import Assembly
from maze_runtime.training import recorded_gradient
from maze_runtime.training.train import train

MODEL = {
    "use": "concat",
    "blocks": {"feature": {"use": "dense", "hidden_units": [8], "non_lin": "tanh"}},
    "recurrence": {"use": "lstm", "hidden_size": 6, "stateful": True},
}


@pytest.fixture(scope="module")
def everything():
    return Kernel.installed()


PLAIN = {
    "name": "recurrent",
    "seed": 3,
    "env": {"use": "maze_testing.environments:RepeatFirst", "n_steps": 5},
    "vector": {"n_envs": 4},
    "model": MODEL,
    "trainer": {"use": "ppo", "n_rollout_steps": 12, "batch_size": 24, "epoch_length": 2},
    "evaluation": {"n_episodes": 4},
    "loggers": [{"use": "csv"}],
}


def experiment(kernel, trainer=None, **tables):
    data = {**PLAIN, **tables, "trainer": {**PLAIN["trainer"], **(trainer or {})}}
    return experiment_from_mapping(data, kernel=kernel)


def trainer_of(kernel, **changes):
    return started({**PLAIN, **changes, "trainer": {**PLAIN["trainer"], **changes.get("trainer", {})}}, kernel)


def started(data, kernel):
    assembly = Assembly(experiment_from_mapping(data, kernel=kernel), kernel)
    trainer = assembly.make_trainer(assembly.trainer_context())
    trainer.start_segment(0)
    return trainer


ENVS = [
    {"use": "maze_testing.environments:RepeatFirst", "n_steps": 5},
    {"use": "gym", "id": "CartPole-v1", "max_episode_steps": 9},  # native: rows that only reset
]


@pytest.mark.parametrize("env", ENVS, ids=["sequential", "native"])
@pytest.mark.parametrize("shared", [False, True, "feature"])
@pytest.mark.parametrize("in_numpy", [False, True])
def test_the_replay_gives_the_logits_the_policy_acted_on(everything, env, shared, in_numpy):
    trainer = trainer_of(everything, env=env, model={**MODEL, "critic": {"share_embedding": shared}})
    acted, model, policy = [], trainer.model, trainer._source.policy
    if not in_numpy:
        policy._recurrent_mirrors.clear()
    assert bool(policy._recurrent_mirrors) == in_numpy
    act = policy.logits

    def spy(key, group):
        logits = act(key, group)
        acted.append(torch.from_numpy(logits["action"].copy()))
        return logits

    policy.logits = spy
    for _ in range(2):
        acted.clear()
        batch = trainer.estimate(trainer.collect())
        rows = batch.whole()
        logits, value = model.logits_and_value("0", rows.observation)
        torch.testing.assert_close(logits["action"], torch.cat(acted), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(value, batch.rows.value)
        trainer.train_epoch()  # the next rollout is acted with other weights
    assert any(bool((state != 0).any()) for state in batch.states.values())


CELLS = {
    "lstm": {"use": "lstm", "hidden_size": 6, "stateful": True},
    "gru": {"use": "gru", "hidden_size": 6, "stateful": True},
    "two layers": {"use": "lstm", "hidden_size": 6, "stateful": True, "num_layers": 2},
}


def counting(function, n_layers):
    def counted(cell, layers, keep):
        n_layers.append(len(layers))
        return function(cell, layers, keep)

    return counted


@pytest.mark.parametrize("n_steps", [12, 64], ids=["short", "folded"])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("trainer", ["ppo", "a2c"])
def test_recorded_gradients_are_the_plain_ones_bit_for_bit(everything, monkeypatch, trainer, cell, n_steps):
    own = {"batch_size": 2 * n_steps, "n_optimization_epochs": 2} if trainer == "ppo" else {}
    data = {
        **PLAIN,
        "model": {**MODEL, "recurrence": CELLS[cell]},
        "trainer": {"use": trainer, "n_rollout_steps": n_steps, "epoch_length": 30, **own},
    }
    recorded, plain = (started(data, everything) for _ in range(2))
    n_layers = []
    for way in ("replay", "replay_gradients"):
        monkeypatch.setattr(sequence_arrays, way, counting(getattr(sequence_arrays, way), n_layers))
    recorded.train_epoch()
    gradient = recorded._gradient_step._recorded
    assert [form.replay is not None for form in gradient._forms.values()] == [True]
    assert n_layers[-1] == 2  # actor and critic side by side
    monkeypatch.setattr(recorded_gradient, "N_PLAIN", 10**9)
    plain.train_epoch()
    assert torch.equal(recorded._gradient_step.flat.data, plain._gradient_step.flat.data)


def values_one_by_one(model, buffer):
    """Values (T, N) and what follows each row (T, N), one environment and one step at a time from zero states."""
    shapes = model.state_shapes("0")
    value, following = np.zeros_like(buffer.reward), np.zeros_like(buffer.reward)
    finals = {
        (t, n): {name: array[i] for name, array in rows.items()}
        for t, index, rows in buffer.truncations
        for i, n in enumerate(index)
    }

    def one(observation, states, begins):
        inputs = {name: torch.as_tensor(array)[None] for name, array in observation.items()}
        with torch.no_grad():
            _, estimate, after = model.advance("0", {**inputs, **states, BEGINS: torch.tensor([float(begins)])})
        return float(estimate), after

    for n in range(buffer.n_envs):
        states = {name: torch.zeros(1, *shape) for name, shape in shapes.items()}
        begins = True
        for t in range(buffer.n_steps):
            value[t, n], states = one({k: a[t, n] for k, a in buffer.observation.items()}, states, begins)
            begins = buffer.terminated[t, n] or buffer.truncated[t, n] or buffer.void[t, n]
            if (t, n) in finals:
                following[t, n] = one(finals[t, n], states, False)[0]
            elif t == buffer.n_steps - 1:
                following[t, n] = one({k: a[n] for k, a in buffer.last_observation.items()}, states, begins)[0]
            else:
                following[t, n] = one({k: a[t + 1, n] for k, a in buffer.observation.items()}, states, begins)[0]
    return value, following


@pytest.mark.parametrize("env", ENVS, ids=["sequential", "native"])
def test_values_and_advantages_equal_a_slow_loop(everything, env):
    trainer = trainer_of(everything, env=env, trainer={"gamma": 0.9, "gae_lambda": 0.8})
    batch = trainer.estimate(trainer.collect())
    buffer = trainer._source.buffer
    value, following = values_one_by_one(trainer.model, buffer)
    np.testing.assert_allclose(batch.rows.value.view(value.shape), value, atol=1e-5)
    assert bool(buffer.truncations) == (env["use"] == "gym")
    advantages, carried = np.zeros_like(value), np.zeros(buffer.n_envs)
    ended = buffer.terminated | buffer.truncated
    for t in reversed(range(buffer.n_steps)):
        # δ = r + γ (1 − terminated) V' − V;  A = δ + γ λ (1 − ended) A'
        delta = buffer.reward[t] + 0.9 * ~buffer.terminated[t] * following[t] - value[t]
        carried = delta + 0.9 * 0.8 * ~ended[t] * carried
        advantages[t] = carried
    live = ~buffer.void
    np.testing.assert_allclose(batch.rows.advantages.view(value.shape)[live], advantages[live], atol=1e-5)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("env", [*ENVS, {"use": "maze_testing.structured_environments:Hierarchy"}])
def test_losses_and_gradients_are_those_of_the_steps_written_out(everything, env, cell, monkeypatch):
    """Of minibatches that begin with states and in which episodes begin."""
    model = {**MODEL, "recurrence": {**MODEL["recurrence"], "use": cell, "num_layers": 2}}
    changes = {"n_rollout_steps": 40, "batch_size": 80}
    trainer = trainer_of(everything, env=env, model=model, vector={"n_envs": 5}, trainer=changes)
    trainer.estimate(trainer.collect())
    batch = trainer.estimate(trainer.collect())
    flat = trainer._gradient_step.flat

    def learnt():
        found = []
        for minibatch in batch.minibatches(80, np.random.default_rng(2)):
            flat.grad.zero_()
            loss, statistics = trainer._algorithm.loss(trainer.model, minibatch, trainer._coefficients)
            loss.backward()
            found += [loss.detach(), statistics, flat.grad.clone()]
        return found

    in_numpy = learnt()
    written_out = []

    def steps(*arguments, native):
        written_out.append(native)
        return advance_steps(*arguments)

    monkeypatch.setattr(layers, "advance_as_one", steps)
    for fast, slow in zip(in_numpy, learnt(), strict=True):
        torch.testing.assert_close(fast, slow, atol=1e-5, rtol=1e-3)
    assert written_out
    assert not any(written_out)


def test_minibatches_are_whole_sequences_with_their_states(everything):
    trainer = trainer_of(everything)
    trainer.estimate(trainer.collect())
    batch = trainer.estimate(trainer.collect())
    seen = []
    for rows in batch.minibatches(24, np.random.default_rng(0)):
        assert rows.n_rows() == 24
        states = {name: state for name, state in rows.observation.items() if name in batch.states}
        for column in range(2):
            returns = rows.returns.view(12, 2)[:, column]
            (n,) = [i for i in range(4) if torch.equal(batch.rows.returns.view(12, 4)[:, i], returns)]
            assert all(torch.equal(state[column], batch.states[name][n]) for name, state in states.items())
            seen.append(n)
    assert sorted(seen) == [0, 1, 2, 3]


def test_acting_forgets_at_episode_ends_and_restores_its_states(everything):
    trainer = trainer_of(everything)
    policy = NetworkPolicy(trainer.model, seed=1)
    tick = trainer._source.vector_env.reset([[1], [2], [3], [4]])
    group = tick.groups["0"]
    policy.begin_episodes(np.arange(4))
    first = policy._torch_logits("0", group)["action"]
    second = policy._torch_logits("0", group)["action"]
    assert not np.allclose(first, second)
    saved = policy.state_dict()
    third = policy._torch_logits("0", group)["action"]
    policy.begin_episodes(np.array([0, 2]))
    mixed = policy._torch_logits("0", group)["action"]
    np.testing.assert_allclose(mixed[[0, 2]], first[[0, 2]], atol=1e-6)
    assert not np.allclose(mixed[[1, 3]], first[[1, 3]])
    other = NetworkPolicy(trainer.model, seed=5)
    other.load_state_dict(saved)
    np.testing.assert_allclose(other._torch_logits("0", group)["action"], third, atol=1e-6)


@pytest.mark.parametrize("use", ["ppo", "a2c"])
def test_a_resumed_recurrent_run_equals_the_uninterrupted_one(everything, tmp_path, use):
    trainer = {"use": use, "n_epochs": 4, "n_rollout_steps": 7, "epoch_length": 2}
    trainer |= {"batch_size": 14} if use == "ppo" else {}

    def run(run_dir=None, n_epochs=4, resume=None):
        loaded = experiment_from_mapping(
            {**PLAIN, "trainer": {**trainer, "n_epochs": n_epochs}, "checkpoint": {"every_epochs": 2}},
            kernel=everything,
        )
        return train(loaded, everything, run_dir=run_dir, resume=resume, verbosity=-1).model.state_dict()

    whole = run(tmp_path / "whole")
    run(tmp_path / "cut", n_epochs=2)
    resumed = run(resume=tmp_path / "cut")
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in whole.items())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "cell"),
    [(ENVS[0], "lstm"), (ENVS[1], "gru"), ({"use": "maze_testing.structured_environments:Pair"}, "gru")],
)
def test_compiled_updates_equal_eager_ones(everything, env, cell):
    """The same minibatches, filled up where environments are left over, with native rows that only reset."""
    model = {**MODEL, "recurrence": {**MODEL["recurrence"], "use": cell, "num_layers": 2}}
    found = {}
    for compiled in (False, True):
        changes = {"compile": compiled, "epoch_length": 1, "n_optimization_epochs": 2}
        trainer = trainer_of(everything, env=env, model=model, vector={"n_envs": 5}, trainer=changes)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # given up: too large, or refused by the compiler
            trainer.train_epoch()
        found[compiled] = trainer.model.state_dict()
    for name, tensor in found[False].items():
        torch.testing.assert_close(found[True][name], tensor, atol=2e-4, rtol=1e-3)


@pytest.mark.parametrize("env", [ENVS[1], {"use": "maze_testing.structured_environments:Hierarchy"}])
def test_minibatches_for_compiled_code_have_one_shape_and_count_what_others_count(everything, env):
    """Five environments two at a time: the last minibatch is filled up with decisions of weight 0."""
    counted = {}
    for compiled in (False, True):
        changes = {"compile": compiled, "n_rollout_steps": 20, "batch_size": 40}
        trainer = trainer_of(everything, env=env, vector={"n_envs": 5}, trainer=changes)
        batch = trainer.estimate(trainer.collect())
        parts = list(batch.minibatches(40, np.random.default_rng(3)))
        weights = [torch.ones_like(p.value) if p.weight is None else p.weight for p in parts]
        counted[compiled] = [part.value[weight > 0].sort().values for part, weight in zip(parts, weights, strict=True)]
        if compiled:
            assert len({len(part.value) for part in parts}) == 1
            values = [part.evaluate(trainer.model).value for part in parts]
            for value, part in zip(values, parts, strict=True):
                torch.testing.assert_close(value[part.weight > 0], part.value[part.weight > 0], atol=1e-5, rtol=1e-5)
    for eager, filled in zip(counted[False], counted[True], strict=True):
        torch.testing.assert_close(eager, filled, atol=1e-5, rtol=1e-5)


def test_environments_whose_worker_was_replaced_begin_without_a_state(everything):
    """As if their episodes had ended with the last rollout; those of the others go on."""
    values = {}
    for forgotten in ([], [1], [0, 1, 2, 3]):
        trainer = trainer_of(everything)
        trainer.estimate(trainer.collect())
        collector = trainer._source.collector
        collector.restarted = np.array(forgotten, np.int64)
        values[len(forgotten)] = trainer.estimate(trainer.collect()).whole().value.view(12, 4)
    assert torch.equal(values[1][:, [0, 2, 3]], values[0][:, [0, 2, 3]])
    assert torch.equal(values[1][:, 1], values[4][:, 1])
    assert not torch.equal(values[1][:, 1], values[0][:, 1])


@pytest.mark.parametrize("use", ["ppo", "a2c"])
def test_a_minibatch_of_resets_alone_is_no_step(everything, use):
    """With one decision a rollout, each reset of native CartPole is a sequence of its own."""
    options = {"use": use, "n_rollout_steps": 1, "epoch_length": 60} | ({"batch_size": 1} if use == "ppo" else {})
    cartpole = {"env": {"use": "gym", "id": "CartPole-v1"}, "vector": {"n_envs": 2, "mode": "native"}}
    data = {**PLAIN, **cartpole, "trainer": options}
    trainer, taken = started(data, everything), []
    step = trainer.step
    trainer.step = lambda minibatch: (taken.append(minibatch.weight), step(minibatch))[1]
    statistics = trainer.train_epoch()
    assert statistics["BaseEnvEvents/episode_count"] > 1
    assert any(weight is not None for weight in taken) or use == "ppo"
    assert all(weight is None or weight.any() for weight in taken)
