"""Copies that act on the CPU: the actions of the newest weights. That they are elsewhere is pretended here."""

import numpy as np
import pytest
import torch

from maze_kernel.contracts.vector import Group
from maze_runtime.models import acting_copy
from maze_runtime.models.acting_copy import ActingCopy
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.network_policy import NetworkPolicy

OBSERVATIONS = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
MEMORY = {"use": "lstm", "hidden_size": 4, "stateful": True}


@pytest.fixture
def make_model(assemble):
    def make(critic="state", **model):
        trainer = {"use": "sac" if critic == "state-action" else "ppo"}
        tables = {"model": {"use": "auto", "hidden_units": [8], **model}, "trainer": trainer, "wrappers": []}
        return assemble(**tables).make_model()

    return make


@pytest.fixture
def elsewhere(monkeypatch):
    monkeypatch.setattr(acting_copy, "_is_on_cpu", lambda weights: False)


def logits(model):
    group = Group(env_index=np.arange(5), agent_id=np.zeros(5, np.int64), observation={"observation": OBSERVATIONS})
    return NetworkPolicy(model).logits("0", group)["action"].copy()


def move(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1)


@pytest.mark.parametrize("critic", ["state", "state-action"])
def test_a_copy_acts_by_the_weights_it_was_refreshed_with(make_model, elsewhere, critic):
    model = make_model(critic)
    owned = set(model.policy_state_dict())
    flat = FlatParameters(model, [own for name, own in model.named_parameters() if name in owned])
    acting = ActingCopy(model, flat)
    assert acting.model is not model
    before = logits(model)
    assert np.array_equal(logits(acting.model), before)
    move(model)
    assert np.array_equal(logits(acting.model), before)
    acting.refresh()
    assert np.array_equal(logits(acting.model), logits(model))
    assert not np.array_equal(logits(model), before)
    assert torch.equal(acting.flat.data, flat.data)
    assert acting.flat.data.data_ptr() != flat.data.data_ptr()


def test_all_weights_are_taken_where_nobody_says_which_change(make_model, elsewhere):
    model = make_model()
    acting = ActingCopy(model, None)
    move(model)
    acting.refresh()
    found = acting.model.state_dict()
    assert all(torch.equal(tensor, found[name]) for name, tensor in model.state_dict().items())


def test_networks_with_a_state_are_copied_too(make_model, elsewhere):
    model = make_model(recurrence=MEMORY)
    assert ActingCopy(model, None).model is not model


def test_what_has_no_form_in_numpy_acts_itself(assemble, elsewhere):
    layer = {"use": "torch-model", "module": "torch.nn:Linear", "kwargs": {"in_features": 4, "out_features": 4}}
    network = {"use": "concat", "blocks": {"observation": layer}}
    model = assemble(model=network, trainer={"use": "ppo"}, wrappers=[]).make_model()
    acting = ActingCopy(model, None)
    assert acting.model is model
    acting.refresh()


def test_on_the_cpu_the_model_acts_itself(make_model):
    model = make_model()
    flat = FlatParameters(model)
    acting = ActingCopy(model, flat)
    acting.refresh()
    assert acting.model is model
    assert acting.flat is flat
