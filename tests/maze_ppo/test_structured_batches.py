"""Rows of structured rollouts: values, advantages and log-probabilities against a walk through one environment."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces

sys.path.insert(0, str(Path(__file__).parents[1]))

from structured_walk import Walk

from maze_distributions.categorical import Categorical
from maze_ppo.a2c import A2C
from maze_ppo.flat_batch import FlatBatch
from maze_ppo.losses import normalize_advantages
from maze_ppo.options import A2COptions, PPOOptions
from maze_ppo.ppo import PPO
from maze_ppo.structured_batch import StructuredBatch, by_distribution, logits_and_values
from maze_ppo.structured_estimator import StructuredEstimator
from maze_runtime.models.action_distribution import ProductDistribution, one_where_alike
from maze_runtime.rollout.decision_tensors import DecisionTensors

PLACE = "maze_testing.structured_environments:"
GAMMA = 0.9
ENVIRONMENTS = {
    "DoorAndKey": {"n_steps": 3},
    "Pair": {"n_steps": 3, "alike": False},
    "ChangingTeam": {"n_steps": 4},
    "ChangingTeam expels": {"n_steps": 4, "expels": True},
    "Hierarchy": {"n_steps": 5},
}


@pytest.fixture
def collected(make_trainer):
    """`collected(environment, critic)` -> (trainer, [(buffer, rows by policy key) of successive rollouts])."""

    def collect(name, critic, **options):
        trainer = make_trainer(
            env={"use": PLACE + name.split()[0], **ENVIRONMENTS[name]},
            model={"use": "auto", "hidden_units": [8], "init": "torch", "critic": critic, **options},
            trainer={"use": "ppo", "n_rollout_steps": 11, "gamma": GAMMA, "gae_lambda": 1.0},
            wrappers=[{"use": "time-limit", "max_episode_steps": 2}] if name == "Hierarchy" else [],
            vector={"n_envs": 3},
        )
        trainer.start_segment(0)
        for _ in range(3):
            buffer = trainer.collect()
            yield trainer, buffer, trainer.estimate(buffer)

    return collect


@pytest.mark.parametrize("critic", ["shared-state", "step-state", "delta-state"])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_returns_match_a_walk_through_each_environment(collected, name, critic):
    carried = [0.0, 0.0, 0.0]
    n_cut = n_expelled = 0
    for trainer, buffer, rows in collected(name, critic):
        walks = [Walk(trainer.model, buffer, n, carried[n]) for n in range(3)]
        assert len(rows.value) == 33
        for key, batch in rows.by_key().items():
            own = buffer.decisions(key)
            for i, (t, n) in enumerate(zip(own.step, own.env_index, strict=True)):
                assert float(batch.value[i]) == pytest.approx(walks[n].values[t], abs=1e-5)
                assert float(batch.returns[i]) == pytest.approx(walks[n].return_from(t, GAMMA), abs=1e-4)
                assert float(batch.advantages[i] + batch.value[i]) == pytest.approx(float(batch.returns[i]), abs=1e-5)
        carried = [walk.carried for walk in walks]
        n_cut += len(buffer.truncations)
        n_expelled += len(buffer.departures)
    assert (n_cut > 0) == (name == "Hierarchy")
    assert (n_expelled > 0) == (name == "ChangingTeam expels")


def test_log_probabilities_are_those_of_each_agents_network(collected):
    for trainer, _, rows in collected("Pair", "step-state", separate_agent_nets=["agent"]):
        batch, agents = rows.by_key()["agent"], rows.decisions["agent"].agent_id
        for i in range(batch.n_rows()):
            row = {name: tensor[i : i + 1] for name, tensor in batch.observation.items()}
            network = trainer.model.policies["key_agent"].networks[int(agents[i])]
            logits = network(row)["choice"][0].detach().log_softmax(-1)
            assert float(batch.log_prob[i]) == pytest.approx(float(logits[batch.action["choice"][i]]), abs=1e-5)


def structured_batch(sizes, *, with_weights=False, with_base=False):
    """Every column holds the number of its row, from 0 on in the first policy key and from 100 on in the second."""
    own = {key: torch.arange(100.0 * i, 100.0 * i + n) for i, (key, n) in enumerate(sizes.items())}
    decisions = {key: DecisionTensors({"x": rows}, {"a": rows}, rows.long()) for key, rows in own.items()}
    rows = torch.cat(list(own.values()))
    weight = torch.ones_like(rows) if with_weights else None
    return StructuredBatch(decisions, rows, rows, rows, rows, weight, rows if with_base else None)


@pytest.mark.parametrize("with_weights", [False, True])
@pytest.mark.parametrize("with_base", [False, True])
def test_minibatches_cover_every_row_of_every_key_once(with_weights, with_base):
    rows = structured_batch({"often": 37, "seldom": 3}, with_weights=with_weights, with_base=with_base)
    parts = list(rows.minibatches(10, np.random.default_rng(0)))
    assert len(parts) == 4
    drawn = torch.cat([part.value if part.weight is None else part.value[part.weight > 0] for part in parts])
    torch.testing.assert_close(drawn.sort().values, rows.value)
    for key in rows.decisions:
        counted = [part.decisions[key].n_rows() if key in part.decisions else 0 for part in parts]
        assert max(counted) - min(counted) <= (0 if with_weights else 1)


def test_no_minibatch_is_without_a_decision():
    rows = structured_batch({"often": 3, "seldom": 2})
    parts = list(rows.minibatches(1, np.random.default_rng(0)))
    assert [len(part.value) for part in parts] == [1] * 5
    torch.testing.assert_close(torch.cat([part.value for part in parts]).sort().values, rows.value)
    filled = structured_batch({"often": 3, "seldom": 2}, with_weights=True).minibatches(1, np.random.default_rng(0))
    assert [part.value[part.weight > 0].tolist() for part in filled] == [part.value.tolist() for part in parts]


@pytest.mark.parametrize("size", [1, 2, 7, 10, 60])
def test_filled_minibatches_count_about_as_many_decisions_each(size):
    rows = structured_batch({"often": 37, "seldom": 3, "sometimes": 14}, with_weights=True)
    counted = [float(part.weight.sum()) for part in rows.minibatches(size, np.random.default_rng(0))]
    assert sum(counted) == 54
    assert max(counted) - min(counted) <= 1


@pytest.mark.parametrize("with_weights", [False, True])
def test_a_minibatch_keeps_the_columns_of_a_decision_together(with_weights):
    rows = structured_batch({"often": 37, "seldom": 13}, with_weights=with_weights, with_base=True)
    for part in rows.minibatches(10, np.random.default_rng(0)):
        for column in (part.log_prob, part.value, part.advantages, part.returns, part.base_value):
            expected = torch.cat([own.observation["x"] for own in part.decisions.values()])
            torch.testing.assert_close(column, expected)
        for key, own in part.decisions.items():
            assert bool((own.observation["x"] >= 100).all()) == (key == "seldom")
            torch.testing.assert_close(own.action["a"].long(), own.agent_id)


@pytest.mark.parametrize("with_weights", [False, True])
@pytest.mark.parametrize(
    "algorithm",
    [PPO(PPOOptions(normalize_advantages=False)), A2C(A2COptions(normalize_advantages=False))],
    ids=["ppo", "a2c"],
)
def test_the_loss_is_the_sum_of_what_each_policy_key_loses(collected, algorithm, with_weights):
    """Minibatches with unequal shares of the policy keys against flat batches of one key at a time."""
    coefficients = torch.tensor([1.0, 0.5, -0.01])
    for trainer, _, rows in collected("Hierarchy", "shared-state"):
        rows = rows._replace(weight=torch.ones_like(rows.value) if with_weights else None)
        for part in rows.minibatches(10, np.random.default_rng(0)):
            total, statistics = algorithm.loss(trainer.model, part, coefficients)
            alone = [algorithm.loss(trainer.model, batch, coefficients) for batch in part.by_key().values()]
            torch.testing.assert_close(total, torch.stack([own for own, _ in alone]).sum())
            own = torch.stack([own for _, own in alone])
            n_together = own.shape[1]
            torch.testing.assert_close(statistics[:n_together], own.mean(dim=0))
            by_key = dict(zip(trainer.model.distributions, statistics[n_together:].split(3), strict=True))
            for key, terms in zip(part.by_key(), own[:, :3], strict=True):
                torch.testing.assert_close(by_key.pop(key), terms)
            assert all(bool(absent.isnan().all()) for absent in by_key.values())


@pytest.mark.parametrize(
    "algorithm",
    [PPO(PPOOptions(normalize_advantages=False)), A2C(A2COptions(normalize_advantages=False))],
    ids=["ppo", "a2c"],
)
def test_a_policy_key_that_has_fillers_alone_in_a_minibatch_does_not_count_there(collected, algorithm):
    """Minibatches that are filled up, of keys that rarely decide, against their decisions without the fillers."""
    coefficients, n_alone = torch.tensor([1.0, 0.5, -0.01]), 0
    for trainer, _, rows in collected("Hierarchy", "shared-state"):
        rows = rows._replace(weight=torch.ones_like(rows.value))
        n_minibatches = min(own.n_rows() for own in rows.decisions.values()) + 3
        for part in rows._split(n_minibatches, np.random.default_rng(0)):
            total, statistics = algorithm.loss(trainer.model, part, coefficients)
            deciding = {key: _without_fillers(own) for key, own in part.by_key().items() if own.weight.any()}
            n_alone += len(part.decisions) - len(deciding)
            alone = [algorithm.loss(trainer.model, own, coefficients) for own in deciding.values()]
            torch.testing.assert_close(total, torch.stack([own for own, _ in alone]).sum())
            own = torch.stack([own for _, own in alone])
            n_together = own.shape[1]
            torch.testing.assert_close(statistics[:n_together], own.mean(dim=0))
            by_key = dict(zip(trainer.model.distributions, statistics[n_together:].split(3), strict=True))
            for key, terms in zip(deciding, own[:, :3], strict=True):
                torch.testing.assert_close(by_key.pop(key), terms)
            assert all(bool(absent.isnan().all()) for absent in by_key.values())
    assert n_alone, "every key decides in every minibatch: nothing is shown"


def _without_fillers(batch):
    counts = batch.weight.bool()
    columns = {name: getattr(batch, name)[counts] for name in ("log_prob", "value", "advantages", "returns")}
    observation, action = (
        {name: own[counts] for name, own in part.items()} for part in (batch.observation, batch.action)
    )
    return FlatBatch(batch.policy_key, observation, action, **columns)


@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
def test_advantages_are_normalised_over_all_policy_keys(collected, algorithm):
    make = {"ppo": lambda **options: PPO(PPOOptions(**options)), "a2c": lambda **options: A2C(A2COptions(**options))}
    coefficients = torch.tensor([1.0, 0.5, -0.01])
    for trainer, _, rows in collected("Hierarchy", "shared-state"):
        total, _ = make[algorithm](normalize_advantages=True).loss(trainer.model, rows, coefficients)
        normalised = rows._replace(advantages=normalize_advantages(rows.advantages))
        expected, _ = make[algorithm](normalize_advantages=False).loss(trainer.model, normalised, coefficients)
        torch.testing.assert_close(total, expected)
        assert abs(float(normalised.by_key()["worker"].advantages.mean())) > 1e-3


class TwoPolicies:
    """A stub of an actor-critic: logits are the observation's numbers, times two in the second policy key."""

    def __init__(self, n_choices):
        made = {key: ProductDistribution({"a": Categorical(spaces.Discrete(n))}) for key, n in n_choices.items()}
        self.distributions = one_where_alike(made)

    def logits_and_value(self, policy_key, observation, agent_id=None):
        n_choices = self.distributions[policy_key].heads["a"].logits_shape[0]
        logits = observation["x"][:, :n_choices] * (2.0 if policy_key == "second" else 1.0)
        return {"a": logits}, logits.sum(-1)


def two_policies_decide(sizes):
    generator = torch.Generator().manual_seed(0)
    decisions = {
        key: DecisionTensors(
            {"x": torch.randn(n, 3, generator=generator, requires_grad=True)},
            {"a": torch.randint(2, (n,), generator=generator)},
            torch.zeros(n, dtype=torch.long),
        )
        for key, n in sizes.items()
    }
    columns = torch.randn(4, sum(sizes.values()), generator=generator)
    return StructuredBatch(decisions, *columns)


@pytest.mark.parametrize("n_choices", [{"first": 3, "second": 3}, {"first": 3, "second": 2}])
@pytest.mark.parametrize("sizes", [{"first": 6, "second": 6}, {"second": 4, "first": 9}, {"second": 5}])
def test_distributions_of_one_kind_are_evaluated_at_once_as_each_alone(n_choices, sizes):
    model, batch = TwoPolicies(n_choices), two_policies_decide(sizes)
    is_shared = model.distributions["first"] is model.distributions["second"]
    assert is_shared == (n_choices["first"] == n_choices["second"])
    logits, _ = logits_and_values(model, batch.decisions)
    n_parts = len(by_distribution(model, logits, batch.decisions))
    assert n_parts == (1 if is_shared or len(sizes) == 1 else 2)
    evaluated = batch.evaluate(model)
    alone = [own.evaluate(model) for own in batch.by_key().values()]
    for column, of_keys in zip(evaluated, zip(*alone, strict=True), strict=True):
        assert torch.equal(column, torch.cat(of_keys))
    # Means by key, in the order of the model and NaN for a key without a decision
    loss = PPO(PPOOptions()).loss(model, batch, torch.tensor([1.0, 0.5, -0.01]))
    columns = torch.randn(3, batch.value.shape[0])
    means = batch.with_means_by_key(torch.zeros(2), columns, ("first", "second"))[2:].split(3)
    pieces = dict(zip(sizes, columns.split(list(sizes.values()), dim=1), strict=True))
    for key, own in zip(("first", "second"), means, strict=True):
        expected = pieces[key].mean(1) if key in sizes else torch.full((3,), float("nan"))
        torch.testing.assert_close(own, expected, equal_nan=True)
    assert loss[1].shape == (11,)


def test_a_model_without_a_joint_pass_trains_alike(collected):
    for trainer, _, rows in collected("Hierarchy", "shared-state"):

        class OneByOne:
            logits_and_value = trainer.model.logits_and_value

        logits, value = logits_and_values(trainer.model, rows.decisions)
        own_logits, own_value = logits_and_values(OneByOne(), rows.decisions)
        torch.testing.assert_close(value, own_value)
        torch.testing.assert_close(logits, own_logits)


def test_carried_values_are_forgotten_when_episodes_start_anew(collected):
    trainer, buffer, _ = next(iter(collected("DoorAndKey", "delta-state")))
    estimator: StructuredEstimator = trainer._estimator
    assert buffer.last_key_index.tolist() == [1, 1, 1]
    assert estimator._advantages._carried.any()
    trainer.start_segment(1)
    assert estimator._advantages._carried is None
