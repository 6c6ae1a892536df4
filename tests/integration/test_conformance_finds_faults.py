"""The suites for distributions and models refuse broken ones: working first-party ones with one method spoilt."""

import copy
import sys
import types

import pytest
import torch
from gymnasium import spaces

import maze_distributions.plugin as distributions
from maze_kernel.components import load_attribute
from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.loader import Kernel
from maze_runtime.models.policy_wrapper import PolicyWrapper
from maze_runtime.run.assembly import Assembly
from maze_testing.conformance import ConformanceError
from maze_testing.distributions import check_distribution
from maze_testing.models import check_model

CATEGORICAL = next(c for c in distributions.maze_distributions() if c.name == "categorical")
SPACE = spaces.Discrete(4)


class Spoilt:
    """Another object with some attributes replaced."""

    def __init__(self, inner, **replaced):
        self._inner = inner
        self.__dict__.update(replaced)

    def __getattr__(self, name):
        return getattr(self._inner, name)


def in_place(values):
    """The same values, changed."""
    values *= 0
    return values


def categorical():
    return load_attribute(CATEGORICAL.target)(SPACE)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda d: {"mode": lambda logits: d.mode(logits) + 4}, "mode gives"),
        (lambda d: {"log_prob": lambda logits, a: d.log_prob(logits, a)[:, None]}, "log_prob has shape"),
        (lambda d: {"entropy": lambda logits: d.entropy(logits) / 0}, "entropy is not finite"),
        (lambda d: {"kl": lambda logits, other: d.kl(logits, other) + 1}, "kl of a distribution with itself"),
        (lambda d: {"temper": lambda logits, t: d.temper(logits, 1 / t)}, "lower temperature"),
        (lambda d: {"logits_shape": 4}, "logits_shape is 4"),
        (lambda d: {"sample_numpy": lambda logits, rng: d.sample_numpy(logits, rng)[:1]}, "sample_numpy gives shape"),
        (lambda d: {"sample_numpy": lambda logits, rng: d.sample_numpy(logits[:, ::-1], rng)}, "another distribution"),
        (
            lambda d: {"sample_numpy": lambda logits, rng: d.sample_numpy(in_place(logits), rng)},
            "sample_numpy.. changes",
        ),
        (lambda d: {"log_prob": lambda logits, a: d.log_prob(logits, in_place(a))}, "log_prob.. changes"),
        (lambda d: {"log_prob": lambda logits, a: d.log_prob(logits, a).double()}, "log_prob has dtype torch.float64"),
        (lambda d: {"entropy": None}, "it raised TypeError: 'NoneType' object is not callable"),
        (lambda d: {"kl": lambda logits, other: sys.exit(0)}, "it raised SystemExit: 0"),
    ],
)
def test_a_broken_distribution_is_refused(spoil, said):
    check_distribution(lambda space: categorical(), SPACE)
    with pytest.raises(ConformanceError, match=said):
        check_distribution(lambda space: Spoilt(categorical(), **spoil(categorical())), SPACE)


@pytest.fixture(scope="module")
def assembly():
    kernel = Kernel.installed()
    data = {"name": "x", "env": {"use": "gym", "id": "CartPole-v1"}, "trainer": {"use": "ppo"}}
    return Assembly(experiment_from_mapping(data, kernel=kernel), kernel)


def flat_value(model):
    original = type(model).value
    model.value = types.MethodType(lambda self, *args: original(self, *args) + 1, model)


def dead_parameter(model):
    model.unused = torch.nn.Parameter(torch.zeros(3))


def other_weights(model):
    with torch.no_grad():
        next(model.parameters()).add_(torch.rand(()))


class AlwaysSamples(PolicyWrapper):
    def act(self, policy_key, group, *, deterministic=False):
        return super().act(policy_key, group)


def sampled_modes(model):
    original = model.make_policy
    model.make_policy = lambda seed: AlwaysSamples(original(seed))


def stale_mirror(model):
    model.numpy_logits = copy.deepcopy(model).numpy_logits


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (stale_mirror, "read their memory"),
        (flat_value, "value"),
        (dead_parameter, "no gradient reaches"),
        (other_weights, "of one seed"),
        (sampled_modes, "draws something"),
    ],
)
def test_a_broken_model_is_refused(assembly, spoil, said):
    def broken():
        model = assembly.make_model()
        spoil(model)
        return model

    check_model(assembly.make_model, assembly.spaces)
    with pytest.raises(ConformanceError, match=said):
        check_model(broken, assembly.spaces)
