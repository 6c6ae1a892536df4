"""Evaluating many members at once gives what each gives alone."""

import attrs
import numpy as np
import pytest
import torch
from torch import nn

from maze_es.members import MemberPolicy
from maze_es.population import policy_parameters
from maze_kernel.contracts.vector import Group
from maze_runtime.models.network_policy import NetworkPolicy

PROBE = "maze_testing.environments:"
CASES = {
    "cartpole": {},
    "pendulum": {"env": {"use": "gym", "id": "Pendulum-v1"}},
    "masked": {"env": {"use": PROBE + "MaskedDict"}},
    "multi-discrete": {"env": {"use": PROBE + "Identity", "kind": "multi-discrete"}},
    "two keys": {"env": {"use": "maze_testing.structured_environments:Hierarchy"}},
}


def group_of(observation, rows=None):
    """The observation as a group of all members, or of some."""
    n = len(next(iter(observation.values())))
    rows = np.arange(n) if rows is None else np.array(rows)
    some = {name: array[rows] for name, array in observation.items()}
    return Group(rows, np.zeros(len(rows), np.int64), some, aligned=len(rows) == n)


def observations(model, n_rows, seed=0, key=None):
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(0, 2, (n_rows, *space.shape)).astype(space.dtype)
        if np.issubdtype(space.dtype, np.integer)
        else rng.normal(size=(n_rows, *space.shape)).astype(space.dtype)
        for name, space in model.spaces.observation[key or model.spaces.policy_keys[0]].items()
    }


def members(model, n_members, how=None):
    flat = policy_parameters(model)
    policy = MemberPolicy(model, flat, n_members, how)
    noise = np.random.default_rng(1).normal(size=(n_members, len(flat.data))).astype(np.float32)
    weights = flat.data.numpy() + 0.3 * noise
    policy.load(weights)
    return policy, weights, flat


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("how", ["numpy", "traced", "vmap", "one-by-one"])
def test_every_way_gives_what_each_member_gives_alone(assemble, case, how):
    model = assemble(**CASES[case]).make_model()
    policy, weights, flat = members(model, 5, how)
    for key in model.spaces.policy_keys:
        batch = observations(model, 5, key=key)
        together, some = policy.logits(key, group_of(batch)), policy.logits(key, group_of(batch, [1, 4]))
        center = flat.data.clone()
        for i in range(5):
            flat.data.copy_(torch.from_numpy(weights[i]))
            tensors = {name: torch.from_numpy(array[i : i + 1]) for name, array in batch.items()}
            for head, logits in model.logits(key, tensors).items():
                np.testing.assert_allclose(together[head][i], logits[0].detach(), rtol=1e-4, atol=1e-5)
                if i in (1, 4):
                    np.testing.assert_allclose(some[head][[1, 4].index(i)], logits[0].detach(), rtol=1e-4, atol=1e-5)
            flat.data.copy_(center)


@pytest.mark.parametrize("case", CASES)
def test_first_party_models_take_the_fastest_way(assemble, case):
    policy, _, _ = members(assemble(**CASES[case]).make_model(), 3)
    assert set(policy.how.values()) == {"numpy"}


CARRIED = {
    "gru": {"model": {"use": "auto", "recurrence": {"use": "gru", "hidden_size": 5, "stateful": True}}},
    "two layers": {
        "model": {"use": "auto", "recurrence": {"use": "lstm", "hidden_size": 4, "num_layers": 2, "stateful": True}}
    },
    "two memories": {
        "env": {"use": "maze_testing.structured_environments:TwoMemories"},
        "model": {"use": "auto", "recurrence": {"use": "lstm", "hidden_size": 4, "stateful": True}},
    },
}


@pytest.mark.parametrize("case", CARRIED)
@pytest.mark.parametrize("how", ["numpy", "traced", "vmap", "one-by-one"])
def test_every_member_carries_the_state_that_it_would_carry_alone(assemble, case, how):
    """Steps in which all decide or some do, actors of one environment in turn, episodes that begin in between."""
    model = assemble(**CARRIED[case]).make_model()
    policy, weights, flat = members(model, 4, how)
    center = flat.data.clone()
    alone = [NetworkPolicy(model, mirror=False) for _ in range(4)]
    policy.begin_episodes(np.arange(4))
    rng = np.random.default_rng(3)
    for step in range(12):
        key = model.spaces.policy_keys[step % len(model.spaces.policy_keys)]
        rows = [0, 1, 2, 3] if step % 3 else [1, 3]
        group = group_of(observations(model, 4, seed=step, key=key), rows)
        group = attrs.evolve(group, agent_id=rng.integers(2, size=len(rows)))
        together = policy.logits(key, group)
        for row, member in enumerate(rows):
            flat.data.copy_(torch.from_numpy(weights[member]))
            own = {name: array[row : row + 1] for name, array in group.observation.items()}
            expected = alone[member].logits(key, Group(np.zeros(1, np.int64), group.agent_id[row : row + 1], own))
            assert set(together) == set(expected)
            for head, logits in expected.items():
                np.testing.assert_allclose(together[head][row], logits[0], rtol=1e-4, atol=1e-5)
        flat.data.copy_(center)
        if step in (4, 7):
            policy.begin_episodes(np.array([1, 2]))
            for member in (1, 2):
                alone[member].begin_episodes(np.zeros(1, np.int64))


@pytest.mark.parametrize("case", CARRIED)
def test_recurrent_models_take_the_fastest_way_too(assemble, case):
    policy, _, _ = members(assemble(**CARRIED[case]).make_model(), 3)
    assert set(policy.how.values()) == {"numpy"}


def test_new_observations_and_new_weights_are_not_baked_in(assemble):
    model = assemble().make_model()
    policy, weights, _ = members(model, 4)
    first = policy.logits("0", group_of(observations(model, 4)))["action"].copy()
    other = policy.logits("0", group_of(observations(model, 4, seed=9)))["action"].copy()
    policy.load(weights * 1.5)
    louder = policy.logits("0", group_of(observations(model, 4)))["action"]
    assert not np.allclose(first, other)
    assert not np.allclose(first, louder)


def test_a_network_that_cannot_be_batched_is_played_one_by_one(assemble):
    model = assemble().make_model()
    original = model._policy["0"]

    class Stubborn(nn.Module):
        def forward(self, inputs):
            scale = 2.0 if float(inputs["observation"].sum()) > 0 else 1.0
            return {name: scale * tensor for name, tensor in original(inputs).items()}

    model._policy["0"] = Stubborn()
    policy, weights, flat = members(model, 3)
    assert policy.how == {"0": "one-by-one"}
    before = flat.data.clone()
    batch = observations(model, 3)
    together = policy.logits("0", group_of(batch))["action"]
    assert torch.equal(flat.data, before)
    flat.data.copy_(torch.from_numpy(weights[2]))
    row = torch.from_numpy(batch["observation"][2:])
    np.testing.assert_allclose(together[2:], model.logits("0", {"observation": row})["action"].detach(), rtol=1e-5)


def test_equal_members_act_like_the_policy_itself(assemble):
    assembly = assemble()
    model = assembly.make_model()
    flat = policy_parameters(model)
    policy = MemberPolicy(model, flat, 4)
    policy.load(np.repeat(flat.data.numpy()[None], 4, axis=0))
    env = assembly.make_vector_env(4)
    group = env.reset([[seed] for seed in range(4)]).groups["0"]
    own = NetworkPolicy(model, 5)
    policy.seed(5)
    for deterministic in (True, False):
        np.testing.assert_array_equal(
            policy.act("0", group, deterministic=deterministic)["action"],
            own.act("0", group, deterministic=deterministic)["action"],
        )
    env.close()


def test_critics_are_not_perturbed(assemble):
    model = assemble().make_model()
    flat = policy_parameters(model)
    assert len(flat.data) == sum(parameter.numel() for parameter in model.policies.parameters())
