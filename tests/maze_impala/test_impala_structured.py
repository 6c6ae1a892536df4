"""V-trace along series of decisions: structured rollouts against a walk through one environment at a time."""

import sys
from pathlib import Path

import attrs
import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from structured_walk import Walk

from maze_impala import update
from maze_impala.options import ImpalaOptions
from maze_impala.structured_batch import make_structured_batch

PLACE = "maze_testing.structured_environments:"
GAMMA = 0.9
ENVIRONMENTS = {
    "DoorAndKey": {"n_steps": 3, "divided": True},
    "Pair": {"n_steps": 3, "alike": False},
    "ChangingTeam": {"n_steps": 4},
    "ChangingTeam expels": {"n_steps": 4, "expels": True},
    "Hierarchy": {"n_steps": 5},
}
CRITICS = ["shared-state", "step-state", "delta-state"]
CPU = torch.device("cpu")


@pytest.fixture
def learner(make_trainer):
    """A trainer of five actors in two workers whose batches are cut across them; the weights move far in an update."""

    def build(name, critic, **tables):
        options = {"n_rollout_steps": 11, "num_actors": 5, "actors_batch_size": 4, "epoch_length": 1, "lr": 0.1}
        return make_trainer(
            env={"use": PLACE + name.split()[0], **ENVIRONMENTS[name]},
            model={"use": "auto", "hidden_units": [8], "init": "torch", "critic": critic, **tables.pop("model", {})},
            trainer={**options, "gamma": GAMMA, **tables.pop("trainer", {})},
            wrappers=[{"use": "time-limit", "max_episode_steps": 2}] if name == "Hierarchy" else [],
            workers={"use": "inline", "count": 2},
        )

    return build


def walks_of(trainer):
    buffer = trainer._buffer
    return [Walk(trainer.model, buffer.rollouts, n, float(buffer.carried[n])) for n in range(buffer.n_filled)]


def corrected(walk, log_mu, clip_rho, clip_pg_rho):
    """Targets, advantages and ratios of an environment's decisions, from the last one back; equation 1, section 4.2."""
    targets, advantages, ratios = {}, {}, {}
    for k in reversed(range(walk.buffer.n_steps)):
        paid, discount, value, following = walk.follow(k, GAMMA)
        ratio = ratios[k] = np.exp(walk.log_prob(k) - log_mu[k])
        correction = 0.0 if following is None else targets[following] - walk.values[following]
        delta = min(clip_rho, ratio) * (paid + discount * value - walk.values[k])
        targets[k] = walk.values[k] + delta + discount * min(1.0, ratio) * correction
        advantages[k] = min(clip_pg_rho, ratio) * (paid + discount * (value + correction) - walk.values[k])
    return targets, advantages, ratios


def rows_in_order(walks):
    """(environment, decision) of every row: by environment, actor and time, or by environment and time."""
    by_actor = walks[0].kind == "step-state"
    places = [(n, k) for n, walk in enumerate(walks) for k in range(walk.buffer.n_steps)]

    def place(row):
        n, k = row
        buffer = walks[n].buffer
        return (n, buffer.key_index[k, n], buffer.agent_id[k, n], k) if by_actor else (n, k)

    return sorted(places, key=place)


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize("name", ENVIRONMENTS)
@pytest.mark.parametrize("clips", [(1.0, 1.0), (0.8, 0.0)])
def test_targets_and_advantages_match_a_walk_through_each_environment(learner, monkeypatch, name, critic, clips):
    trainer, results = learner(name, critic), []
    vtrace = update.vtrace
    monkeypatch.setattr(
        update, "vtrace", lambda *args, **kwargs: results.append(vtrace(*args, **kwargs)) or results[-1]
    )
    options = attrs.evolve(trainer.options, vtrace_clip_rho_threshold=clips[0], vtrace_clip_pg_rho_threshold=clips[1])
    limits = [clip or np.inf for clip in clips]
    seen = {"ratio": [], "cut": 0, "ended": 0, "left": 0, "expelled": 0, "carried": 0}
    for _ in range(3):
        trainer.train_epoch()
        trainer._queue.fill(trainer._buffer)
        buffer, walks = trainer._buffer, walks_of(trainer)
        results.clear()
        update.structured_loss(options)(trainer.model, trainer._make_batch(), torch.ones(3))
        expected = [corrected(walk, buffer.log_prob[:, n], *limits) for n, walk in enumerate(walks)]
        rows = rows_in_order(walks)
        assert len(rows) == 44
        for i, wanted in enumerate(([e[0] for e in expected], [e[1] for e in expected])):
            np.testing.assert_allclose(results[0][i], [wanted[n][k] for n, k in rows], rtol=1e-4, atol=1e-4)
        seen["ratio"] += [ratio for _, _, ratios in expected for ratio in ratios.values()]
        seen["cut"] += len(buffer.rollouts.truncations)
        seen["ended"] += int(buffer.rollouts.terminated[:-1].sum())
        seen["left"] += int(buffer.rollouts.actor_done.sum())
        seen["expelled"] += len(buffer.rollouts.departures)
        seen["carried"] += int((buffer.carried != 0).sum())
    assert min(seen["ratio"]) < 0.9
    assert max(seen["ratio"]) > 1.1
    assert (seen["cut"] > 0) == (name == "Hierarchy")
    assert (seen["ended"] > 0) == (name != "Hierarchy")
    assert (seen["left"] > 0) == name.startswith("ChangingTeam")
    assert (seen["expelled"] > 0) == (name == "ChangingTeam expels")
    assert (seen["carried"] > 0) == (critic == "delta-state")


@pytest.mark.parametrize("critic", CRITICS)
def test_the_loss_is_the_sum_over_policy_keys_of_means_over_their_decisions(learner, critic):
    trainer = learner("Hierarchy", critic)
    trainer.train_epoch()
    trainer._queue.fill(trainer._buffer)
    walks = walks_of(trainer)
    sums = {"manager": [], "worker": []}
    for n, walk in enumerate(walks):
        targets, advantages, _ = corrected(walk, trainer._buffer.log_prob[:, n], 1.0, 1.0)
        for k, target in targets.items():
            sums[walk.key(k)].append((-walk.log_prob(k) * advantages[k], (target - walk.values[k]) ** 2))
    n_rows = sum(len(own) for own in sums.values())
    of_rows = np.sum([np.sum(own, axis=0) for own in sums.values()], axis=0) / n_rows
    means = np.array([np.mean(own, axis=0) for own in sums.values()])
    assert len(sums["manager"]) != len(sums["worker"])
    loss, statistics = update.structured_loss(trainer.options)(
        trainer.model, trainer._make_batch(), torch.tensor([0.7, 0.4, 0.0])
    )
    assert float(loss.detach()) == pytest.approx(0.7 * means[:, 0].sum() + 0.4 * means[:, 1].sum(), abs=1e-4)
    named = dict(zip(update.STATISTICS, statistics.tolist(), strict=False))
    assert [named["policy_loss"], named["value_loss"]] == pytest.approx(of_rows.tolist(), abs=1e-4)
    by_key = statistics[len(update.STATISTICS) + 1 :].reshape(2, len(update.KEY_STATISTICS))
    values = {
        key: [value for walk in walks for k, value in enumerate(walk.values) if walk.key(k) == key] for key in sums
    }
    assert list(sums) == list(trainer.model.distributions)
    np.testing.assert_allclose(by_key[:, :2], means, atol=1e-4)
    np.testing.assert_allclose(by_key[:, 3], [np.mean(values[key]) for key in sums], atol=1e-4)


def test_a_delta_critic_learns_its_difference_alone(learner):
    """What comes from the decision before is a constant: the critic's gradient is that of each row's own output."""
    trainer = learner("DoorAndKey", "delta-state")
    trainer.train_epoch()
    trainer._queue.fill(trainer._buffer)
    batch = trainer._make_batch()
    loss, _ = update.structured_loss(trainer.options)(trainer.model, batch, torch.tensor([0.0, 1.0, 0.0]))
    parameters = list(trainer.model.critics.parameters())
    found = torch.cat([gradient.reshape(-1) for gradient in torch.autograd.grad(loss, parameters)])
    expected = torch.zeros_like(found)
    counts = dict.fromkeys(batch.decisions, 0)
    rows = []
    for n, walk in enumerate(walks_of(trainer)):
        targets, _, _ = corrected(walk, trainer._buffer.log_prob[:, n], 1.0, 1.0)
        for k, target in targets.items():
            key, observation, agent = walk.decision(k)
            counts[key] += 1
            rows.append((key, observation, agent, 2.0 * (walk.values[k] - target)))
    for key, observation, agent, slope in rows:
        tensors = {name: torch.as_tensor(array)[None] for name, array in observation.items()}
        output = trainer.model.value(key, tensors, torch.tensor([int(agent)])).sum()
        gradients = torch.autograd.grad(output, parameters, allow_unused=True)
        flat = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, gradients, strict=True)]
        expected += slope / counts[key] * torch.cat([gradient.reshape(-1) for gradient in flat])
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def test_carried_values_are_those_of_the_rollout_before(learner):
    """Eleven decisions end within a flat step of two; without updates the weights stay those of the actors."""
    trainer = learner("DoorAndKey", "delta-state", trainer={"actors_batch_size": 5})
    carried = [0.0] * 5
    for _ in range(3):
        trainer._queue.fill(trainer._buffer)
        walks = walks_of(trainer)
        np.testing.assert_allclose(trainer._buffer.carried, carried, atol=1e-5)
        carried = [walk.carried for walk in walks]
    assert any(carried)
    trainer.start_segment(1)
    trainer._queue.fill(trainer._buffer)
    assert not trainer._buffer.carried.any()


@pytest.mark.parametrize(("name", "own"), [("Pair", ["agent"]), ("Hierarchy", [])])
def test_log_probabilities_of_the_actors_are_those_of_each_agents_network(learner, name, own):
    """Before the first update learner and actors have the same weights, so every ratio is 1."""
    trainer = learner(name, "step-state", model={"separate_agent_nets": own})
    trainer._queue.fill(trainer._buffer)
    walks = walks_of(trainer)
    found = [[walk.log_prob(k) for k in range(11)] for walk in walks]
    np.testing.assert_allclose(trainer._buffer.log_prob.T, found, atol=1e-5)


def test_rewards_of_every_sub_step_are_clipped_and_count(learner):
    trainer = learner("Pair", "shared-state")
    trainer._queue.fill(trainer._buffer)
    rollouts = trainer._buffer.rollouts
    assert rollouts.actor_reward[~rollouts.flat_step_end].sum() > 0
    rollouts.actor_reward *= 3.0
    how = {"gamma": GAMMA, "reward_clipping": "abs_one"}
    batch = make_structured_batch(trainer._buffer, trainer.model, CPU, **how)
    np.testing.assert_array_equal(batch.reward, np.minimum(rollouts.actor_reward, 1.0).T.reshape(-1))


def test_filling_up_for_compiled_code_changes_no_loss_and_no_gradient(learner):
    trainer = learner("Hierarchy", "shared-state")
    trainer._queue.fill(trainer._buffer)
    how = {"gamma": GAMMA, "reward_clipping": "none"}
    results = []
    for fixed_size in (False, True):
        batch = make_structured_batch(trainer._buffer, trainer.model, CPU, **how, fixed_size=fixed_size)
        loss, statistics = update.structured_loss(ImpalaOptions())(trainer.model, batch, torch.tensor([1.0, 0.5, 0.01]))
        gradients = torch.autograd.grad(loss, list(trainer.model.parameters()))
        parts = [loss[None], statistics, *(gradient.reshape(-1) for gradient in gradients)]
        results.append(torch.cat(parts).detach())
        sizes = [len(own.agent_id) for own in batch.decisions.values()]
        assert fixed_size == all(size % 16 == 0 for size in sizes)
    torch.testing.assert_close(*results)
