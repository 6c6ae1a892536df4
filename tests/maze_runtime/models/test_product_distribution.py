"""Dict actions: sums over heads, errors that name the head, rules that choose distributions."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_distributions.categorical import Categorical, MultiCategorical
from maze_distributions.squashed_gaussian import SquashedGaussian
from maze_kernel.errors import RequestError, SpaceError
from maze_kernel.loader import Kernel
from maze_kernel.selection import Selection
from maze_runtime.models.action_distribution import (
    ProductDistribution,
    make_action_distribution,
    one_where_alike,
    space_word,
)
from maze_runtime.models.distribution_rule import DistributionRule
from maze_runtime.models.masking import MASKED_LOGIT, MaskError

HEADS = {"kind": Categorical(spaces.Discrete(3)), "force": SquashedGaussian(spaces.Box(-1.0, 1.0, (2,)))}


def logits(seed=0):
    rng = np.random.default_rng(seed)
    return {
        name: torch.from_numpy(rng.normal(0, 1, (4, *head.logits_shape)).astype(np.float32))
        for name, head in HEADS.items()
    }


def test_log_prob_entropy_and_kl_are_sums_over_heads():
    product, one, other = ProductDistribution(HEADS), logits(), logits(1)
    action = product.sample(one, torch.Generator().manual_seed(0))
    for name in ("log_prob", "kl"):
        second = action if name == "log_prob" else other
        expected = sum(getattr(head, name)(one[key], second[key]) for key, head in HEADS.items())
        torch.testing.assert_close(getattr(product, name)(one, second), expected)
    expected = sum(head.entropy(one[key]) for key, head in HEADS.items())
    torch.testing.assert_close(product.entropy(one), expected)
    log_prob, entropy = product.log_prob_and_entropy(one, action)
    torch.testing.assert_close(log_prob, product.log_prob(one, action))
    torch.testing.assert_close(entropy, expected)
    assert product.logits_shapes() == {"kind": (3,), "force": (4,)}


def make(**heads):
    kinds = {spaces.Discrete: Categorical, spaces.MultiDiscrete: MultiCategorical, spaces.Box: SquashedGaussian}
    return ProductDistribution({name: kinds[type(space)](space) for name, space in heads.items()})


def discrete(n, start=0):
    return spaces.Discrete(n, start=start)


def test_distributions_that_are_alike_become_one():
    made = {
        "one": make(a=discrete(3), b=spaces.Box(-1.0, 1.0, (2,))),
        "same": make(a=discrete(3), b=spaces.Box(-1.0, 1.0, (2,))),
        "wider": make(a=discrete(3), b=spaces.Box(-2.0, 2.0, (2,))),
        "turned": make(b=spaces.Box(-1.0, 1.0, (2,)), a=discrete(3)),
        "many": make(a=spaces.MultiDiscrete([2, 3])),
        "as many": make(a=spaces.MultiDiscrete([2, 3])),
        "others": make(a=spaces.MultiDiscrete([3, 2])),
        "from one": make(a=discrete(3, start=1)),
        "from nothing": make(a=discrete(3)),
        "renamed": make(c=discrete(3)),
    }
    chosen = one_where_alike(made)
    assert list(chosen) == list(made)
    kept = {key: next(name for name, own in chosen.items() if own is chosen[key]) for key in made}
    assert kept == {**{key: key for key in made}, "same": "one", "as many": "many"}


class Counting(Categorical):
    """Not marked to run the same operations at every call: two of them may differ in what no setting shows."""


def test_distributions_that_may_change_stay_apart():
    made = {key: ProductDistribution({"a": Counting(discrete(3))}) for key in ("one", "two")}
    assert one_where_alike(made) == made


def test_a_fully_masked_head_is_named():
    product = ProductDistribution(HEADS)
    arrays = {name: value.numpy() for name, value in logits().items()}
    arrays["kind"][2] = MASKED_LOGIT
    for call in (lambda: product.sample_numpy(arrays, np.random.default_rng(0)), lambda: product.mode_numpy(arrays)):
        with pytest.raises(MaskError, match="'kind'"):
            call()


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_a_temperature_must_be_positive(temperature):
    with pytest.raises(RequestError, match="temperature"):
        ProductDistribution(HEADS).temper(logits(), temperature)


@pytest.mark.parametrize(
    ("space", "word"),
    [
        (spaces.Discrete(2), "Discrete"),
        (spaces.Box(-1.0, 1.0, (2,)), "BoundedBox"),
        (spaces.Box(np.array([0.0, 0.0]), np.array([1.0, np.inf])), "PartlyBoundedBox"),
        (spaces.Box(-np.inf, 5.0, ()), "PartlyBoundedBox"),
        (spaces.Box(-np.inf, np.inf, (2,)), "UnboundedBox"),
        (spaces.Box(-np.finfo(np.float32).max, np.finfo(np.float32).max, (2,)), "UnboundedBox"),
        (spaces.MultiBinary(2), "MultiBinary"),
    ],
)
def test_words_of_spaces(space, word):
    assert space_word(space) == word


def test_rules_match_by_space_and_by_head_name():
    beta = Selection(kind="distribution", use="beta", target="maze_distributions.beta:Beta", options={}, owner="test")
    box = DistributionRule(use=beta, space="Box")
    assert box.matches("any", "BoundedBox")
    assert box.matches("any", "UnboundedBox")
    assert not box.matches("any", "Discrete")
    named = DistributionRule(use=beta, action="force")
    assert named.matches("force", "BoundedBox")
    assert not named.matches("kind", "BoundedBox")
    assert DistributionRule(use=beta).matches("anything", "Discrete")


@pytest.mark.parametrize("head", [spaces.Box(-1, 1, (0,)), spaces.Box(-1, np.inf, (3, 0))])
def test_a_head_without_a_number_is_refused(head):
    with pytest.raises(SpaceError, match="action head 'push' holds no numbers") as caught:
        make_action_distribution(spaces.Dict(pick=spaces.Discrete(2), push=head), Kernel.installed().catalog)
    assert caught.value.received == str(head)
    assert caught.value.help.startswith("leave it out")


def test_a_head_that_its_default_refuses_is_named_and_has_no_line_that_nobody_wrote():
    space = spaces.Dict(order=spaces.Box(1e6, np.inf, (1,)))
    with pytest.raises(SpaceError, match=r"action head 'order'.*so far from 0") as caught:
        make_action_distribution(space, Kernel.installed().catalog)
    assert caught.value.location is None
