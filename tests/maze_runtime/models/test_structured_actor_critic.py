"""The actor-critic with networks that are plain torch modules of a plugin author."""

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from maze_distributions.categorical import Categorical
from maze_kernel.contracts.env import StructuredSpaces
from maze_runtime.models.action_distribution import ProductDistribution
from maze_runtime.models.actor_critic import KeyNetworks, StructuredActorCritic
from maze_runtime.models.observation_encoding import ObservationEncoder

OBSERVATION = spaces.Dict(x=spaces.Discrete(3))
ACTION = spaces.Dict(move=spaces.Discrete(2))


class Net(nn.Module):
    """One linear layer from `source` to `target`, counting its calls."""

    def __init__(self, source, target, n_in, n_out):
        super().__init__()
        self.layer, self.source, self.target, self.calls = nn.Linear(n_in, n_out), source, target, 0

    def forward(self, tensors):
        self.calls += 1
        return {self.target: self.layer(tensors[self.source])}


class MirroredNet(Net):
    def make_mirror(self):
        weight, bias = self.layer.weight.detach().numpy(), self.layer.bias.detach().numpy()
        return lambda arrays: {self.target: arrays[self.source] @ weight.T + bias}


def make(policy, shared=None, source="x", n_in=3):
    structured = StructuredSpaces(observation={"0": OBSERVATION}, action={"0": ACTION})
    networks = KeyNetworks(
        encoder=ObservationEncoder(OBSERVATION),
        policy=policy,
        critic=Net(source, "value", n_in, 1),
        shared=shared,
    )
    distribution = ProductDistribution({"move": Categorical(ACTION["move"])})
    return StructuredActorCritic(structured, {"0": distribution}, {"0": networks})


def test_logits_and_values_of_one_hot_observations():
    model = make(Net("x", "move", 3, 2))
    observation = {"x": torch.tensor([0, 2])}
    logits, value = model.logits_and_value("0", observation)
    policy, critic = model.policies["key_0"].layer, model.critics["key_0"].layer
    torch.testing.assert_close(logits["move"], policy.weight.T[[0, 2]] + policy.bias)
    torch.testing.assert_close(value, critic.weight[0, [0, 2]] + critic.bias)
    torch.testing.assert_close(model.value("0", observation, agent_id=torch.zeros(2)), value)


def test_a_network_without_a_mirror_has_none():
    assert make(Net("x", "move", 3, 2)).numpy_logits("0") is None
    shared = Net("x", "features", 3, 4)
    assert make(MirroredNet("features", "move", 4, 2), shared, "features", 4).numpy_logits("0") is None


def test_mirrors_chain_through_shared_layers_which_run_once():
    shared = MirroredNet("x", "features", 3, 4)
    model = make(MirroredNet("features", "move", 4, 2), shared, "features", 4)
    observation = np.array([0, 1, 2])
    logits, _ = model.logits_and_value("0", {"x": torch.from_numpy(observation)})
    assert shared.calls == 1
    mirrored = model.numpy_logits("0")({"x": observation})
    np.testing.assert_allclose(mirrored["move"], logits["move"].detach(), atol=1e-6)


def test_the_policy_state_leaves_the_critic_out():
    shared = Net("x", "features", 3, 4)
    model = make(Net("features", "move", 4, 2), shared, "features", 4)
    names = set(model.policy_state_dict())
    assert names == {f"{part}.key_0.layer.{kind}" for part in ("shared", "policies") for kind in ("weight", "bias")}
    assert set(model.state_dict()) - names == {"critics.key_0.layer.weight", "critics.key_0.layer.bias"}
