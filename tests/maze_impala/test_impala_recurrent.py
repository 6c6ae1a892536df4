"""Models that carry state: sequences start from what their actors remembered, and are corrected as they were acted."""

import numpy as np
import pytest
import torch

from maze_impala import structured_batch
from maze_impala.batch import LOG_PROB
from maze_impala.vtrace import vtrace
from maze_runtime.models.recurrence import BEGINS
from maze_testing.trainers import check_trainer

GRU = {"use": "gru", "hidden_size": 6, "stateful": True}
AUTO = {"use": "auto", "hidden_units": [8], "recurrence": GRU}
SHARED = {
    "use": "concat",
    "blocks": {"feature": {"use": "dense", "hidden_units": [8]}},
    "recurrence": {"use": "lstm", "hidden_size": 5, "num_layers": 2, "stateful": True},
    "critic": {"share_embedding": True},
}
REPEAT = {"env": {"use": "maze_testing.environments:RepeatFirst", "n_steps": 5}}
CUT = {**REPEAT, "wrappers": [{"use": "time-limit", "max_episode_steps": 3}]}
CASES = {"own critic": {**REPEAT, "model": AUTO}, "shared": {**CUT, "model": SHARED}, "cut": {**CUT, "model": AUTO}}


@pytest.fixture(params=CASES)
def tables(request):
    return CASES[request.param]


def walk(model, rollouts, states, n):
    """One environment, a step at a time: logits, values and states after each step, all from `states` on."""
    key = rollouts.policy_key
    now = {name: torch.from_numpy(array[n : n + 1].copy()) for name, array in states.items()}
    logits, values, after = [], [], []
    begins = 0.0
    for t in range(rollouts.n_steps):
        row = {name: torch.from_numpy(array[t, n : n + 1]) for name, array in rollouts.observation.items()}
        with torch.no_grad():
            own, value, now = model.advance(key, {**row, **now, BEGINS: torch.tensor([begins])})
        logits.append(own), values.append(float(value)), after.append(now)
        begins = float(rollouts.terminated[t, n] or rollouts.truncated[t, n] or rollouts.void[t, n])
    return logits, np.array(values), after


def value_behind(model, rollouts, observation, states):
    """V of an observation that follows the step that left these states."""
    rows = {name: torch.from_numpy(array[None]) for name, array in observation.items()}
    with torch.no_grad():
        return float(model.value(rollouts.policy_key, {**rows, **states, BEGINS: torch.zeros(1)}))


def test_batches_are_what_a_walk_through_each_environment_gives(make_trainer, tables):
    trainer = make_trainer(**tables, trainer={"epoch_length": 3, "lr": 0.05, "num_actors": 6})
    for _ in range(2):  # the second one begins amid episodes, with weights of another kind
        trainer.train_epoch()
    trainer._queue.fill(trainer._buffer)
    buffer, model = trainer._buffer, trainer.model
    rollouts, key = buffer.rollouts, buffer.rollouts.policy_key
    assert any(state.any() for state in buffer.states.values())
    batch = trainer._make_batch()
    shape = rollouts.reward.shape
    logits, value = model.logits_and_value(key, batch.observation)
    log_prob = model.distributions[key].log_prob(logits, batch.action).view(shape).detach().numpy()
    finals = {
        (step, n): {k: v[i] for k, v in rows.items()}
        for step, index, rows in rollouts.truncations
        for i, n in enumerate(index)
    }
    assert bool(finals) is ("wrappers" in tables)
    for n in range(shape[1]):
        walked, values, after = walk(model, rollouts, buffer.states, n)
        np.testing.assert_allclose(value.view(shape)[:, n].detach(), values, rtol=1e-4, atol=1e-5)
        for t in range(shape[0]):
            action = {name: torch.from_numpy(array[t, n : n + 1]) for name, array in rollouts.action.items()}
            expected = float(model.distributions[key].log_prob(walked[t], action))
            assert log_prob[t, n] == pytest.approx(expected, abs=1e-5)
        last = {name: array[n] for name, array in rollouts.last_observation.items()}
        for t in range(shape[0]):
            is_cut, is_last = (t, n) in finals, t == shape[0] - 1
            assert bool(batch.bootstraps[t, n]) is (is_cut or is_last)
            if is_cut or (is_last and not rollouts.terminated[t, n]):
                following = value_behind(model, rollouts, finals.get((t, n), last), after[t])
                assert float(batch.bootstrap[t, n]) == pytest.approx(following, abs=1e-5)


def test_states_go_on_from_rollout_to_rollout_and_say_what_was_acted(make_trainer, tables):
    """With weights that stay, the states of a rollout are those that a walk through the one before ends with."""
    trainer = make_trainer(**tables, trainer={"epoch_length": 1, "lr": 1e-30})
    trainer.train_epoch()
    model, buffer = trainer.model, trainer._buffer
    for _ in range(3):
        rollouts = buffer.rollouts
        ended = (rollouts.terminated | rollouts.truncated | rollouts.void)[-1]
        ends = [walk(model, rollouts, buffer.states, n)[2][-1] for n in range(rollouts.n_envs)]
        trainer._queue.fill(buffer)
        for name, state in buffer.states.items():
            for n, end in enumerate(ends):
                np.testing.assert_allclose(state[n], 0.0 if ended[n] else end[name][0], rtol=1e-4, atol=1e-5)
    statistics = trainer.train_epoch()
    assert statistics["ImpalaEvents/importance_ratio"] == pytest.approx(1.0, abs=1e-5)
    assert statistics["ActorCriticEvents/approx_kl"] == pytest.approx(0.0, abs=1e-8)


def test_log_probabilities_are_those_of_the_policy_that_acted(make_trainer):
    """The policy acts with states of its own, in NumPy; what is sent comes from a pass over the whole rollout."""
    trainer = make_trainer(**CASES["cut"])
    trainer.train_epoch()
    actor = trainer._queue._group._actors[0]
    acted = []
    act = actor._policy.logits

    def remember(key, group):
        logits = act(key, group)
        acted.append({name: array.copy() for name, array in logits.items()})
        return logits

    actor._policy.logits = remember
    actor._collector.collect(actor._buffer)
    columns = actor._recurrent.columns(actor._buffer)
    for t, logits in enumerate(acted):
        action = {name: torch.from_numpy(array[t]) for name, array in actor._buffer.action.items()}
        tensors = {name: torch.from_numpy(array) for name, array in logits.items()}
        expected = actor._model.distributions[actor._buffer.policy_key].log_prob(tensors, action)
        np.testing.assert_allclose(columns[LOG_PROB][t], expected, atol=1e-5)


def test_v_trace_runs_within_episodes_of_a_sequence(make_trainer, monkeypatch):
    """The loss corrects the learner's values: nothing of one episode reaches the one before it."""
    trainer = make_trainer(**CASES["cut"], trainer={"epoch_length": 1})
    seen = []
    monkeypatch.setattr(
        "maze_impala.update.vtrace", lambda *args, **kwargs: (seen.append(args), vtrace(*args, **kwargs))[1]
    )
    trainer._gradient_step._recorded = None
    trainer.train_epoch()
    *_, discount, continues = seen[0][1:]
    rollouts = trainer._buffer.rollouts
    np.testing.assert_array_equal(continues, ~(rollouts.terminated | rollouts.truncated))
    np.testing.assert_array_equal(discount > 0, ~rollouts.terminated)


@pytest.mark.parametrize("more", [{}, {"workers": {"use": "inline", "count": 3}}, {"vector": {"mode": "sequential"}}])
def test_a_restored_trainer_goes_on_bit_for_bit(assemble, more):
    def make():
        assembly = assemble(**CASES["own critic"], **more)
        return assembly.make_trainer(assembly.trainer_context())

    check_trainer(make)


def test_without_shared_memory_the_same_is_learnt(make_trainer):
    pools = ("inline", "maze_testing.by_value_pool:ByValuePool")
    trainers = [make_trainer(workers={"use": pool, "count": 2}, **CASES["shared"]) for pool in pools]
    for trainer in trainers:
        trainer.train_epoch()
    first, second = (torch.cat([p.detach().ravel() for p in one.model.parameters()]) for one in trainers)
    assert torch.equal(first, second)


@pytest.mark.learning
@pytest.mark.slow
@pytest.mark.parametrize("workers", [None, {"use": "subprocess", "count": 2, "preload": ["maze_impala.actor"]}])
def test_the_first_observation_is_remembered(make_trainer, workers):
    """Without a memory a quarter of the reward is to be had."""
    options = {"epoch_length": 100, "num_actors": 16, "actors_batch_size": 8, "n_rollout_steps": 15, "lr": 3e-3}
    given = {} if workers is None else {"workers": workers}
    trainer = make_trainer(**REPEAT, model={**AUTO, "recurrence": {**GRU, "hidden_size": 32}}, trainer=options, **given)
    rewards = [trainer.train_epoch()["BaseEnvEvents/reward/mean"] for _ in range(10)]
    assert rewards[-1] > 0.9, rewards


PLACE = "maze_testing.structured_environments:"
CUT_SOON = {"wrappers": [{"use": "time-limit", "max_episode_steps": 4}]}
MEMORIES = {"env": {"use": f"{PLACE}TwoMemories", "n_steps": 6}}
STRUCTURED = {
    "memories": {**MEMORIES, "model": AUTO},
    "delta": {**MEMORIES, "model": {**AUTO, "critic": "delta-state"}, **CUT_SOON},
    "team": {"env": f"{PLACE}ChangingTeam", "model": {**AUTO, "critic": "step-state"}, **CUT_SOON},
    "shared networks": {"env": f"{PLACE}ChangingTeam", "model": SHARED},
    "hierarchy": {"env": f"{PLACE}Hierarchy", "model": {**AUTO, "critic": "step-state"}, **CUT_SOON},
}


class Walk:
    """Every actor of every environment, one decision at a time: log pi, values and states, with weights that stay."""

    def __init__(self, model):
        self.model, self.states = model, {}

    def inputs(self, env, key, agent, observation):
        shapes = self.model.state_shapes(key)
        nothing = {name: torch.zeros(1, *shape) for name, shape in shapes.items()}
        rows = {name: torch.from_numpy(array[None]) for name, array in observation.items()}
        return {**rows, **self.states.get((env, key, agent), nothing), BEGINS: torch.zeros(1)}, torch.tensor([agent])

    def decide(self, env, key, agent, observation, action):
        """Log pi of an action and the value; the actor remembers."""
        rows = {name: torch.from_numpy(array[None]) for name, array in action.items()}
        with torch.no_grad():
            inputs, who = self.inputs(env, key, agent, observation)
            logits, value, self.states[env, key, agent] = self.model.advance(key, inputs, who)
            return float(self.model.distributions[key].log_prob(logits, rows)), float(value)

    def value(self, env, key, agent, observation):
        with torch.no_grad():
            return float(self.model.value(key, *self.inputs(env, key, agent, observation)))

    def forget(self, env):
        self.states = {who: state for who, state in self.states.items() if who[0] != env}

    def rollout(self, rollouts):
        """(T, N) log pi and what the critic gives, and what it gives behind truncated episodes and the rollout."""
        log_prob, value, final = (np.zeros(rollouts.reward.shape) for _ in range(3))
        last = np.zeros(rollouts.n_envs)
        finals = {
            (step, int(n)): (own.policy_key, int(own.agent_id[i]), {k: a[i] for k, a in own.observation.items()})
            for step, index, own in rollouts.truncations
            for i, n in enumerate(index)
        }
        for n in range(rollouts.n_envs):
            for t in range(rollouts.n_steps):
                if not rollouts.void[t, n]:
                    key, row = rollouts.policy_keys[rollouts.key_index[t, n]], rollouts.row[t, n]
                    own = [{k: a[row] for k, a in arrays.items()} for arrays in attrs_of(rollouts.tables[key])]
                    log_prob[t, n], value[t, n] = self.decide(n, key, int(rollouts.agent_id[t, n]), *own)
                if (t, n) in finals:
                    final[t, n] = self.value(n, *finals[t, n])
                if rollouts.terminated[t, n] or rollouts.truncated[t, n] or rollouts.void[t, n]:
                    self.forget(n)
            key = rollouts.policy_keys[rollouts.last_key_index[n]]
            observation = {name: array[n] for name, array in rollouts.last_observation[key].items()}
            last[n] = self.value(n, key, int(rollouts.last_agent_id[n]), observation)
        return log_prob, value, final, last


def attrs_of(table):
    return table.observation, table.action


@pytest.mark.parametrize("case", STRUCTURED)
def test_each_actor_goes_on_from_what_it_remembers(make_trainer, monkeypatch, case):
    """With weights that stay, batch after batch is what a walk through each environment from its beginning gives."""
    seen = []
    value_rollout = structured_batch.value_rollout
    monkeypatch.setattr(structured_batch, "value_rollout", lambda *a: (seen.append(value_rollout(*a)), seen[-1])[1])
    options = {"lr": 1e-30, "n_rollout_steps": 7, "num_actors": 3, "actors_batch_size": 3, "epoch_length": 1}
    trainer = make_trainer(**STRUCTURED[case], trainer=options)
    walk, n_cut, kind = Walk(trainer.model), 0, trainer.model.critic_kind
    for _ in range(5):
        trainer._queue.fill(trainer._buffer)
        rollouts = trainer._buffer.rollouts
        log_prob, value, final, last = walk.rollout(rollouts)
        np.testing.assert_allclose(trainer._buffer.log_prob[~rollouts.void], log_prob[~rollouts.void], atol=1e-5)
        batch = trainer._make_batch()
        own = []
        for key, rows in batch.decisions.items():
            logits, given = trainer.model.logits_and_value(key, rows.observation, rows.agent_id)
            own.append((trainer.model.distributions[key].log_prob(logits, rows.action), given))
        learnt = [torch.cat(column)[batch.order].detach().numpy() for column in zip(*own, strict=True)]
        places = structured_batch._in_order(rollouts, seen[-1].series if kind == "step-state" else None)
        np.testing.assert_allclose(learnt[0], log_prob[places], atol=1e-5)
        np.testing.assert_allclose(learnt[1], value[places], rtol=1e-4, atol=1e-5)
        if kind != "delta-state":
            cut = rollouts.truncated & ~rollouts.terminated
            n_cut += int(cut.sum())
            np.testing.assert_allclose(seen[-1].final_value[cut], final[cut], rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(seen[-1].last_value, last, rtol=1e-4, atol=1e-5)
    assert n_cut or kind == "delta-state" or "wrappers" not in STRUCTURED[case]


@pytest.mark.parametrize("more", [{}, {"workers": {"use": "inline", "count": 3}}])
@pytest.mark.parametrize("case", ["delta", "team"])
def test_a_restored_trainer_of_many_actors_goes_on_bit_for_bit(assemble, case, more):
    def make():
        assembly = assemble(**STRUCTURED[case], **more)
        return assembly.make_trainer(assembly.trainer_context())

    check_trainer(make)


@pytest.mark.slow
@pytest.mark.parametrize("case", [*CASES, "delta", "team"])
def test_compiled_updates_equal_eager_ones(make_trainer, case):
    tables = {**CASES, **STRUCTURED}[case]
    trainers = [make_trainer(**tables, trainer={"compile": on, "epoch_length": 4}) for on in (False, True)]
    for trainer in trainers:
        trainer.train_epoch()
    first, second = (torch.cat([p.detach().ravel() for p in one.model.parameters()]) for one in trainers)
    np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-6)


@pytest.mark.learning
@pytest.mark.slow
def test_each_policy_key_remembers_what_it_was_shown(make_trainer):
    """Without a memory of its own for each key a third of the answers after the first two are right."""
    options = {"epoch_length": 100, "num_actors": 16, "actors_batch_size": 8, "n_rollout_steps": 32, "lr": 3e-3}
    trainer = make_trainer(**MEMORIES, model={**AUTO, "recurrence": {**GRU, "hidden_size": 32}}, trainer=options)
    rewards = [trainer.train_epoch()["BaseEnvEvents/reward/mean"] for _ in range(10)]
    assert rewards[-1] > 0.9, rewards
