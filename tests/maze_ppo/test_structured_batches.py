"""Rows of structured rollouts: values, advantages and log-probabilities against a walk through one environment."""

import numpy as np
import pytest
import torch

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


class Walk:
    """One environment of a rollout, decision by decision; values from the model, one observation at a time."""

    def __init__(self, trainer, buffer, n, carried):
        self.model, self.buffer, self.n = trainer.model, buffer, n
        self.kind = trainer.model.critic_kind
        self.values, self.carried = [], carried
        for t in range(buffer.n_steps):
            table = buffer.tables[self.key(t)].observation
            row = {name: array[buffer.row[t, n]] for name, array in table.items()}
            self.values.append(self.value(self.key(t), row, buffer.agent_id[t, n], self.carried))
            over = self.over(t)
            self.carried = 0.0 if over else self.values[-1]

    def key(self, t):
        return self.buffer.policy_keys[self.buffer.key_index[t, self.n]]

    def actor(self, t):
        return self.key(t), int(self.buffer.agent_id[t, self.n])

    def over(self, t):
        flags = (self.buffer.flat_step_end, self.buffer.terminated, self.buffer.truncated)
        return any(array[t, self.n] for array in flags)

    def value(self, key, observation, agent_id, before):
        with torch.no_grad():
            tensors = {name: torch.as_tensor(array)[None] for name, array in observation.items()}
            value = float(self.model.value(key, tensors, torch.tensor([int(agent_id)])))
        return value + before if self.kind == "delta-state" else value

    def final(self, t):
        """(actor, value) of the final observation of the episode that was cut at t."""
        for step, index, final in self.buffer.truncations:
            if step == t and self.n in index:
                (row,) = np.flatnonzero(index == self.n)
                observation = {name: array[row] for name, array in final.observation.items()}
                before = 0.0 if self.buffer.flat_step_end[t, self.n] else self.values[t]
                agent = int(final.agent_id[row])
                return (final.policy_key, agent), self.value(final.policy_key, observation, agent, before)
        raise AssertionError("a cut episode without a final observation")

    def last(self):
        key, agent = (
            self.buffer.policy_keys[self.buffer.last_key_index[self.n]],
            int(self.buffer.last_agent_id[self.n]),
        )
        observation = {name: array[self.n] for name, array in self.buffer.last_observation[key].items()}
        return (key, agent), self.value(key, observation, agent, self.carried)

    def return_from(self, k):
        """Bootstrapped Monte Carlo return of decision k: for the state's critic, or for the one who decided."""
        by_actor, actor = self.kind == "step-state", self.actor(k)
        total, discount, newest = 0.0, 1.0, self.values[k]
        for t in range(k, self.buffer.n_steps):
            if by_actor and self.actor(t) == actor:
                newest = self.values[t]
            total += discount * float(self.buffer.actor_reward[t, self.n])
            if by_actor and self.actor(t) == actor and self.buffer.actor_done[t, self.n]:
                return total
            discount *= GAMMA if self.buffer.flat_step_end[t, self.n] else 1.0
            if self.buffer.terminated[t, self.n]:
                return total
            if self.buffer.truncated[t, self.n]:
                follower, value = self.final(t)
                return total + discount * (value if not by_actor or follower == actor else newest)
        follower, value = self.last()
        return total + discount * (value if not by_actor or follower == actor else newest)


@pytest.mark.parametrize("critic", ["shared-state", "step-state", "delta-state"])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_returns_match_a_walk_through_each_environment(collected, name, critic):
    carried = [0.0, 0.0, 0.0]
    n_cut = 0
    for trainer, buffer, rows in collected(name, critic):
        walks = [Walk(trainer, buffer, n, carried[n]) for n in range(3)]
        assert sum(batch.n_rows() for batch in rows.batches.values()) == 33
        for key, batch in rows.batches.items():
            own = buffer.decisions(key)
            for i, (t, n) in enumerate(zip(own.step, own.env_index, strict=True)):
                assert float(batch.value[i]) == pytest.approx(walks[n].values[t], abs=1e-5)
                assert float(batch.returns[i]) == pytest.approx(walks[n].return_from(t), abs=1e-4)
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
