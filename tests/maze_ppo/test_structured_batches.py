"""Rows of structured rollouts: values, advantages and log-probabilities against a walk through one environment."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from structured_walk import Walk

from maze_ppo.batch import Batch
from maze_ppo.structured_batch import KeyedBatch, StructuredRows

PLACE = "maze_kernel.testing.structured_environments:"
GAMMA = 0.9
ENVIRONMENTS = {
    "DoorAndKey": {"n_steps": 3},
    "Pair": {"n_steps": 3, "alike": False},
    "ChangingTeam": {"n_steps": 4},
    "Hierarchy": {"n_steps": 5},
}


@pytest.fixture
def collected(make_trainer):
    """`collected(environment, critic)` -> (trainer, [(buffer, rows by policy key) of successive rollouts])."""

    def collect(name, critic, **options):
        trainer = make_trainer(
            env={"use": PLACE + name, **ENVIRONMENTS[name]},
            model={"use": "auto", "hidden_units": [8], "init": "torch", "critic": critic, **options},
            trainer={"use": "ppo", "n_rollout_steps": 11, "gamma": GAMMA, "gae_lambda": 1.0},
            wrappers=[{"use": "time-limit", "max_episode_steps": 2}] if name == "Hierarchy" else [],
            vector={"n_envs": 3},
        )
        trainer.start_segment(0)
        for _ in range(3):
            buffer = trainer._experience.collect()
            yield trainer, buffer, trainer._structured.batch(buffer)

    return collect


@pytest.mark.parametrize("critic", ["shared-state", "step-state", "delta-state"])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_returns_match_a_walk_through_each_environment(collected, name, critic):
    carried = [0.0, 0.0, 0.0]
    n_cut = 0
    for trainer, buffer, rows in collected(name, critic):
        walks = [Walk(trainer.model, buffer, n, carried[n]) for n in range(3)]
        assert sum(batch.n_rows() for batch in rows.batches.values()) == 33
        for key, batch in rows.batches.items():
            own = buffer.decisions(key)
            for i, (t, n) in enumerate(zip(own.step, own.env_index, strict=True)):
                assert float(batch.value[i]) == pytest.approx(walks[n].values[t], abs=1e-5)
                assert float(batch.returns[i]) == pytest.approx(walks[n].return_from(t, GAMMA), abs=1e-4)
                assert float(batch.advantages[i] + batch.value[i]) == pytest.approx(float(batch.returns[i]), abs=1e-5)
        carried = [walk.carried for walk in walks]
        n_cut += len(buffer.truncations)
    assert (n_cut > 0) == (name == "Hierarchy")


def test_log_probabilities_are_those_of_each_agents_network(collected):
    for trainer, _, rows in collected("Pair", "step-state", separate_agent_nets=["agent"]):
        batch = rows.batches["agent"]
        for i in range(batch.n_rows()):
            row = {name: tensor[i : i + 1] for name, tensor in batch.observation.items()}
            network = trainer.model.policies["key_agent"].networks[int(batch.agent_id[i])]
            logits = network(row)["choice"][0].detach().log_softmax(-1)
            assert float(batch.log_prob[i]) == pytest.approx(float(logits[batch.action["choice"][i]]), abs=1e-5)


def batch_of(n_rows, first, *, weight=None):
    column = torch.arange(first, first + n_rows, dtype=torch.float32)
    return Batch({"x": column}, {"a": column}, column, column, column, column, weight=weight)


@pytest.mark.parametrize("with_weights", [False, True])
def test_minibatches_cover_every_row_of_every_key_once(with_weights):
    sizes = {"often": 37, "seldom": 3}
    rows = KeyedBatch(
        {
            key: batch_of(n, 100 * i, weight=torch.ones(n) if with_weights else None)
            for i, (key, n) in enumerate(sizes.items())
        }
    )
    parts = list(rows.minibatches(10, np.random.default_rng(0)))
    assert len(parts) == 4
    for key, batch in rows.batches.items():
        own = [part.batches[key] for part in parts if key in part.batches]
        drawn = torch.cat([part.value if part.weight is None else part.value[part.weight > 0] for part in own])
        torch.testing.assert_close(drawn.sort().values, batch.value)
        counted = [part.n_rows() for part in own]
        assert max(counted) - min(counted) <= (0 if with_weights else 1)


def test_carried_values_are_forgotten_when_episodes_start_anew(collected):
    trainer, buffer, _ = next(iter(collected("DoorAndKey", "delta-state")))
    structured: StructuredRows = trainer._structured
    assert buffer.last_key_index.tolist() == [1, 1, 1]
    assert structured._carried.any()
    trainer.start_segment(1)
    assert structured._carried is None
