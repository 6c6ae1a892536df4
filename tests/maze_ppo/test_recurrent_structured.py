"""Recurrent models in structured environments: every actor's state is its own, and replays equal a slow walk."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from structured_walk import Walk, one_row

from maze_kernel.config import experiment_from_mapping
from maze_kernel.loader import Kernel
from maze_runtime.models.network_policy import NetworkPolicy
from maze_runtime.models.recurrence import BEGINS
from maze_runtime.rollout.actor_sequences import ActorSequences
from maze_runtime.rollout.structured_buffer import DecisionIndex
from maze_runtime.run.assembly import Assembly
from maze_runtime.training.train import train

PLACE = "maze_testing.structured_environments:"
GAMMA = 0.9
ENVIRONMENTS = {
    "DoorAndKey": {"n_steps": 3},
    "Pair": {"n_steps": 3, "alike": False},
    "ChangingTeam": {"n_steps": 4},
    "Hierarchy": {"n_steps": 5},
}
MODEL = {
    "use": "concat",
    "blocks": {"shown": {"use": "dense", "hidden_units": [6], "non_lin": "tanh"}},
    "recurrence": {"use": "lstm", "hidden_size": 5, "stateful": True},
    "init": "torch",
}


@pytest.fixture(scope="module")
def everything():
    return Kernel.installed()


def experiment(kernel, name, model=None, trainer=None, **tables):
    data = {
        "name": "recurrent",
        "seed": 3,
        "env": {"use": PLACE + name, **ENVIRONMENTS[name]},
        "model": {**MODEL, **(model or {})},
        "trainer": {"use": "ppo", "n_rollout_steps": 11, "gamma": GAMMA, "gae_lambda": 1.0, **(trainer or {})},
        "wrappers": [{"use": "time-limit", "max_episode_steps": 2}] if name == "Hierarchy" else [],
        "vector": {"n_envs": 3},
        "evaluation": {"n_episodes": 2},
        "loggers": [{"use": "csv"}],
        **tables,
    }
    return experiment_from_mapping(data, kernel=kernel)


def trainer_of(kernel, *arguments, **tables):
    assembly = Assembly(experiment(kernel, *arguments, **tables), kernel)
    trainer = assembly.make_trainer(assembly.trainer_context())
    trainer.start_segment(0)
    return trainer


class RememberingWalk(Walk):
    """With the states of all actors of its environment, which it forgets where an episode ends."""

    def __init__(self, model, buffer, n, carried, states):
        self.model, self.buffer, self.n, self.kind = model, buffer, n, model.critic_kind
        self.states, self.values, self.logits, self.after = states, [], [], []
        self.carried = carried
        for t in range(buffer.n_steps):
            key, observation, agent = self.decision(t)
            logits, value, after = self.advance(key, observation, agent, self.states)
            self.logits.append(logits)
            self.values.append(value + (self.carried if self.kind == "delta-state" else 0.0))
            self.states[key, int(agent)] = after
            self.after.append(dict(self.states))
            if buffer.terminated[t, n] or buffer.truncated[t, n]:
                self.states.clear()
            self.carried = 0.0 if self.over(t) else self.values[-1]

    def advance(self, key, observation, agent, states):
        zeros = {name: torch.zeros(1, *shape) for name, shape in self.model.state_shapes(key).items()}
        inputs = {**one_row(observation), **states.get((key, int(agent)), zeros), BEGINS: torch.zeros(1)}
        with torch.no_grad():
            logits, value, after = self.model.advance(key, inputs, torch.tensor([int(agent)]))
        return logits, float(value), after

    def value(self, key, observation, agent_id, before):
        value = self.advance(key, observation, agent_id, self.seen)[1]
        return value + before if self.kind == "delta-state" else value

    def final(self, t):
        self.seen = self.after[t]
        return super().final(t)

    def last(self):
        self.seen = self.states
        return super().last()


def places(batch):
    """(key, column index, step, env) of every decision that is one."""
    offset = 0
    for key, sequences in batch.sequences.items():
        index = sequences.decisions
        for row in np.flatnonzero(sequences.exists.reshape(-1)):
            yield key, offset + int(row), int(row), int(index.step[row]), int(index.env_index[row])
        offset += sequences.exists.size


@pytest.mark.parametrize("critic", ["shared-state", "step-state", "delta-state"])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_replayed_sequences_equal_a_walk_with_the_states_of_every_actor(everything, name, critic):
    """Logits, values and returns of successive rollouts, and what followed them."""
    trainer = trainer_of(everything, name, {"critic": {"use": critic}})
    states, carried, n_cut = [{}, {}, {}], [0.0, 0.0, 0.0], 0
    for _ in range(3):
        buffer = trainer.collect()
        batch = trainer.estimate(buffer)
        walks = [RememberingWalk(trainer.model, buffer, n, carried[n], states[n]) for n in range(3)]
        whole = batch.whole()
        seen = set()
        with torch.no_grad():
            evaluated = whole.evaluate(trainer.model)
            logits = {k: trainer.model.logits(k, o.observation, o.agent_id) for k, o in whole.decisions.items()}
        torch.testing.assert_close(evaluated.value[whole.weight > 0], whole.value[whole.weight > 0])
        torch.testing.assert_close(evaluated.log_prob, whole.log_prob)
        for key, column, row, t, n in places(batch):
            seen.add((t, n))
            assert walks[n].key(t) == key
            torch.testing.assert_close(
                logits[key]["choice"][row], walks[n].logits[t]["choice"][0], atol=1e-5, rtol=1e-5
            )
            assert float(batch.rows.value[column]) == pytest.approx(walks[n].values[t], abs=1e-5)
            assert float(batch.rows.returns[column]) == pytest.approx(walks[n].return_from(t, GAMMA), abs=1e-4)
        assert len(seen) == 33 == int(batch.rows.weight.sum())
        carried = [walk.carried for walk in walks]
        n_cut += len(buffer.truncations)
    assert (n_cut > 0) == (name == "Hierarchy")


@pytest.mark.parametrize("name", ENVIRONMENTS)
@pytest.mark.parametrize(
    "changes", [{}, {"critic": {"share_embedding": True}}, {"separate_agent_nets": ["agent"]}], ids=str
)
def test_the_policy_acted_on_what_the_replay_gives(everything, name, changes):
    if "separate_agent_nets" in changes and name != "Pair":
        pytest.skip("one agent a policy key")
    trainer = trainer_of(everything, name, changes)
    acted = {}
    policy = trainer._source.collector.policy
    act = policy.logits

    def spy(key, group):
        logits = act(key, group)
        for row, n in enumerate(group.env_index):
            acted.setdefault(int(n), []).append(torch.from_numpy(logits["choice"][row].copy()))
        return logits

    policy.logits = spy
    for _ in range(3):
        acted.clear()
        batch = trainer.estimate(trainer.collect())
        whole = batch.whole()
        with torch.no_grad():
            replayed = {k: trainer.model.logits(k, o.observation, o.agent_id) for k, o in whole.decisions.items()}
        for key, _, row, t, n in places(batch):
            torch.testing.assert_close(replayed[key]["choice"][row], acted[n][t], atol=1e-5, rtol=1e-5)
    assert any(bool((s != 0).any()) for states in batch.states.values() for s in states.values())


def test_minibatches_are_whole_environments_with_the_states_of_their_actors(everything):
    trainer = trainer_of(everything, "ChangingTeam", vector={"n_envs": 5})
    trainer.estimate(trainer.collect())
    batch = trainer.estimate(trainer.collect())
    parts = list(batch.minibatches(22, np.random.default_rng(0)))
    assert len(parts) == 3
    n_counted = 0
    for part in parts:
        evaluated = part.evaluate(trainer.model)
        counted = part.weight > 0
        n_counted += int(counted.sum())
        # the same numbers as in one pass over all: the states of the chosen sequences came along
        torch.testing.assert_close(evaluated.value[counted], part.value[counted], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(evaluated.log_prob[counted], part.log_prob[counted], atol=1e-5, rtol=1e-5)
    assert n_counted == 55


def test_gradients_flow_through_a_sequence_and_stop_where_an_episode_ends(everything):
    trainer = trainer_of(everything, "DoorAndKey")
    part = trainer.estimate(trainer.collect()).whole()
    own = part.decisions["door"]
    shown = own.observation["shown"].clone().requires_grad_()
    logits = trainer.model.logits("door", {**own.observation, "shown": shown}, own.agent_id)["choice"]
    n_sequences = 3
    begins = own.observation[BEGINS].view(-1, n_sequences)[:, 0]
    (second,) = torch.nonzero(begins).flatten()[:1].tolist()
    logits.view(-1, n_sequences, 3)[second - 1, 0, 0].backward(retain_graph=True)
    reached = shown.grad.view(-1, n_sequences, 3)[:, 0].abs().sum(-1) > 0
    assert reached[:second].all()
    shown.grad = None
    logits.view(-1, n_sequences, 3)[second, 0, 0].backward()
    reached = shown.grad.view(-1, n_sequences, 3).abs().sum(-1) > 0
    assert reached.nonzero().tolist() == [[second, 0]]


def test_padding_changes_no_gradient(everything):
    """The gradient of the loss of all sequences, against the sum over each of them by itself."""
    trainer = trainer_of(everything, "Hierarchy")
    batch = trainer.estimate(trainer.collect())
    model, whole = trainer.model, batch.whole()

    def gradient(parts):
        model.zero_grad()
        for part in parts:
            evaluated = part.evaluate(model)
            ((evaluated.log_prob + 0.3 * evaluated.value + 0.1 * evaluated.entropy) * part.weight).sum().backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    alone = gradient(batch.minibatches(1, np.random.default_rng(0)))
    for name, tensor in gradient([whole]).items():
        torch.testing.assert_close(tensor, alone[name], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("use", ["ppo", "a2c"])
def test_a_resumed_run_equals_the_uninterrupted_one(everything, tmp_path, use):
    trainer = {"use": use, "n_epochs": 4, "n_rollout_steps": 7, "epoch_length": 2}
    trainer |= {"batch_size": 14} if use == "ppo" else {}

    def run(run_dir=None, n_epochs=4, resume=None):
        tables = {"trainer": {**trainer, "n_epochs": n_epochs}, "checkpoint": {"every_epochs": 2}}
        loaded = experiment(everything, "Hierarchy", **tables)
        return train(loaded, everything, run_dir=run_dir, resume=resume, verbosity=-1).model.state_dict()

    before = Assembly(experiment(everything, "Hierarchy"), everything).make_model().state_dict()
    whole = run(tmp_path / "whole")
    run(tmp_path / "cut", n_epochs=2)
    resumed = run(resume=tmp_path / "cut")
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in whole.items())
    assert [name for name, tensor in before.items() if torch.equal(tensor, whole[name])] == []


def test_environments_whose_worker_was_replaced_begin_without_a_state(everything):
    values = {}
    for forgotten in ([], [1]):
        trainer = trainer_of(everything, "Pair")
        trainer.estimate(trainer.collect())
        trainer._source.collector.restarted = np.array(forgotten, np.int64)
        batch = trainer.estimate(trainer.collect())
        values[len(forgotten)] = {(key, t, n): float(batch.rows.value[c]) for key, c, _, t, n in places(batch)}
    of_others = [place for place in values[0] if place[2] != 1]
    assert all(values[0][place] == pytest.approx(values[1][place], abs=1e-6) for place in of_others)
    assert values[0] != values[1]


def test_acting_keeps_a_state_an_actor(everything):
    """Two agents of one policy key see the same and remember what each of them saw."""
    trainer = trainer_of(everything, "Pair")
    policy = NetworkPolicy(trainer.model, seed=1)
    group = trainer._source.vector_env.reset([[1], [2], [3]]).groups["agent"]
    policy.begin_episodes(np.arange(3))
    first = policy._torch_logits("agent", group)["choice"]
    group.agent_id[:] = 1
    np.testing.assert_allclose(policy._torch_logits("agent", group)["choice"], first, atol=1e-6)
    assert not np.allclose(policy._torch_logits("agent", group)["choice"], first)
    policy.begin_episodes(np.array([0]))
    again = policy._torch_logits("agent", group)["choice"]
    np.testing.assert_allclose(again[0], first[0], atol=1e-6)
    assert not np.allclose(again[1:], first[1:])


def test_sequences_of_actors_hold_every_decision_in_order():
    rng = np.random.default_rng(0)
    n = 40
    step, env = np.divmod(rng.permutation(25 * 4)[:n], 4)
    own = DecisionIndex(step, env, np.arange(n), rng.integers(3, size=n))
    ended = rng.random((25, 4)) < 0.2
    episode = np.concatenate([np.zeros((1, 4), int), ended.cumsum(0)])
    sequences = ActorSequences.of(own, episode)
    steps = sequences.decisions.step.reshape(sequences.exists.shape)
    assert sorted(sequences.decisions.row[sequences.exists.reshape(-1)]) == list(range(n))
    for b, (e, agent) in enumerate(zip(sequences.env_index, sequences.agent_id, strict=True)):
        wanted = sorted(step[(env == e) & (own.agent_id == agent)])
        assert steps[: len(wanted), b].tolist() == wanted
        before = [0, *wanted[:-1]]
        since = [ended[i:j, e].any() for i, j in zip(before, wanted, strict=True)]
        assert sequences.begins[: len(wanted), b].tolist() == since
        asked = np.arange(25)
        rows = sequences.latest(asked, np.full(25, e), np.full(25, agent))
        slow = [max((i for i, s in enumerate(wanted) if s <= t), default=-1) for t in asked]
        assert [-1 if row < 0 else row // len(sequences.env_index) for row in rows] == slow
        assert all(row % len(sequences.env_index) == b for row in rows if row >= 0)
    assert (sequences.latest(np.array([24]), np.array([3]), np.array([7])) == -1).all()
