"""A target network moves towards its network and is saved."""

import torch
from torch import nn

from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.target_network import TargetNetwork


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))


def changed(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
        model[1].running_mean.add_(2.0)


def test_it_moves_by_its_share_and_no_gradient_reaches_it():
    model = network()
    target = TargetNetwork(model)
    before = [parameter.clone() for parameter in target.network.parameters()]
    changed(model)
    assert all(torch.equal(a, b) for a, b in zip(before, target.network.parameters(), strict=True))
    target.follow(0.25)
    for old, new in zip(before, target.network.parameters(), strict=True):
        torch.testing.assert_close(new, old + 0.25)
        assert not new.requires_grad
    torch.testing.assert_close(target.network[1].running_mean, model[1].running_mean)
    target.follow()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), target.network.parameters(), strict=True))


def test_it_is_restored():
    model = network()
    target = TargetNetwork(model)
    state = target.state_dict()
    changed(model)
    target.follow()
    target.load_state_dict({name: tensor.numpy() for name, tensor in state.items()})
    for name, tensor in target.network.state_dict().items():
        assert torch.equal(tensor, state[name])


def test_with_parameters_in_buffers_it_moves_as_without():
    plain, flat = network(), network()
    flats = [FlatParameters(flat, flat[0].parameters())]  # those of the normalisation lie in none
    targets = TargetNetwork(plain), TargetNetwork(flat, flats)
    for model in (plain, flat):
        changed(model)
    for target in targets:
        target.follow(0.3)
    state = targets[0].state_dict()
    assert state.keys() == targets[1].state_dict().keys()
    assert all(torch.equal(tensor, state[name]) for name, tensor in targets[1].state_dict().items())
    targets[1].load_state_dict(TargetNetwork(network()).state_dict())
    targets[1].follow()
    assert all(torch.equal(a, b) for a, b in zip(flat.parameters(), targets[1].network.parameters(), strict=True))


def test_a_buffer_that_the_network_replaces_is_followed():
    model = network()
    target = TargetNetwork(model)
    model[1].running_mean = torch.full((3,), 5.0)
    target.follow()
    assert target.network[1].running_mean.tolist() == [5.0, 5.0, 5.0]
