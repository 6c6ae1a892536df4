"""Masks: which head they belong to, and distributions that keep to them or are refused by name."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_distributions.bernoulli import Bernoulli
from maze_distributions.categorical import Categorical, MultiCategorical
from maze_kernel.contracts.vector import Group
from maze_kernel.errors import SpaceError
from maze_runtime.env.flat import flat_spaces
from maze_runtime.models.masked_choices import require_obeys_masks
from maze_runtime.models.masking import MASKED_LOGIT, mask_logits
from maze_testing.distributions import check_distribution

VECTOR = spaces.Box(-1.0, 1.0, (4,))
CHOICE = spaces.Discrete(3, start=2)


class Own(Categorical):
    """A distribution of one's own: obeys masks as it is."""


class Clipped(Categorical):
    """Clips logits, so that a masked one is no longer out of reach."""

    def sample_numpy(self, logits, rng):
        return super().sample_numpy(np.clip(logits, -1.0, 1.0), rng)


class Greedy(Categorical):
    """Forgets the mask in its mode."""

    def mode(self, logits):
        return torch.full((len(logits),), self.start)


class Wide(Categorical):
    """Twice as many logits as choices."""

    def __init__(self, space):
        super().__init__(space)
        self.logits_shape = (2 * space.n,)


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "own_distributions_of_tests", sys.modules[__name__])


def build(make_model, name, **observation):
    structured = flat_spaces(spaces.Dict(x=VECTOR, **observation), spaces.Dict(pick=CHOICE))
    rule = {"use": f"own_distributions_of_tests:{name}"}
    return make_model(structured, {"use": "auto", "distributions": [rule]} if name else {"use": "auto"})


def test_a_distribution_of_ones_own_obeys_a_mask(make_model):
    model = build(make_model, "Own", pick_mask=spaces.MultiBinary(3))
    policy = model.make_policy(0)
    observation = {"x": np.zeros((200, 4), np.float32), "pick_mask": np.tile(np.array([0, 1, 1], np.int8), (200, 1))}
    group = Group(np.arange(200), np.zeros(200, np.int64), observation)
    assert set(policy.act("0", group)["pick"].tolist()) == {3, 4}


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("Clipped", "sample_numpy takes forbidden choices"),
        ("Greedy", "mode takes forbidden choices"),
        ("Wide", "6 logits for a mask of 3 entries"),
    ],
)
def test_a_distribution_that_does_not_obey_is_refused_by_name(make_model, name, fault):
    build(make_model, name)  # nothing is masked
    with pytest.raises(SpaceError) as caught:
        build(make_model, name, pick_mask=spaces.MultiBinary(3))
    for word in ("'pick'", name, fault, "action_mask"):
        assert word in caught.value.render()


@pytest.mark.parametrize(
    ("space", "made"),
    [
        (spaces.Discrete(300), Categorical),
        (spaces.MultiDiscrete([2, 5, 3]), MultiCategorical),
        (spaces.MultiDiscrete(np.array([[2, 4], [3, 1]]), start=np.array([[1, 0], [0, 7]])), MultiCategorical),
        (spaces.MultiBinary((2, 3)), Bernoulli),
    ],
)
def test_the_built_in_ones_obey(space, made):
    check_distribution(made, space, masked=True)


def test_the_probe_leaves_random_state_alone():
    before = torch.random.get_rng_state()
    require_obeys_masks("pick", CHOICE, Own(CHOICE))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("name", ["action", "piick", "legal"])
def test_a_mask_whose_name_fits_no_head_is_refused(make_model, name):
    with pytest.raises(SpaceError) as caught:
        build(make_model, "", **{f"{name}s_mask": spaces.MultiBinary(3)})
    assert f"'{name}s_mask'" in caught.value.what
    assert "'pick_mask'" in caught.value.render()


def test_one_mask_for_the_choices_of_several_heads_is_refused(make_model):
    heads = spaces.Dict(row=spaces.Discrete(2), column=spaces.Discrete(3))
    observation = spaces.Dict(x=VECTOR, slots_mask=spaces.MultiBinary(5))
    with pytest.raises(SpaceError, match="'slots_mask' looks like a mask") as caught:
        make_model(flat_spaces(observation, heads), {"use": "auto"})
    assert "one mask a head: 'row_mask', 'column_mask'" in caught.value.render()


def test_masks_of_observations_and_other_bits_are_read_as_ever(make_model):
    points = spaces.Box(-1.0, 1.0, (3,))
    build(make_model, "", points=points, points_mask=spaces.MultiBinary(3))
    build(make_model, "", doors_mask=spaces.MultiBinary(5))
    build(make_model, "", action_mask=spaces.MultiBinary(3))


@pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.float32, torch.int64])
def test_compiled_masks_are_the_plain_ones(dtype):
    logits, mask = torch.randn(6, 5), (torch.rand(6, 5) < 0.5).to(dtype)

    def loss(logits):
        masked = mask_logits(logits, mask)
        return masked.log_softmax(-1).exp().square().sum(), masked

    gradient = torch.func.grad(loss, has_aux=True)
    (found, masked), (expected, plain) = torch.compile(gradient, backend="aot_eager")(logits), gradient(logits)
    assert torch.equal(masked, plain)
    assert (masked[mask == 0] == MASKED_LOGIT).all()
    torch.testing.assert_close(found, expected)
