"""Choices drawn in C++: those that NumPy draws from the same random numbers."""

import numpy as np
import pytest
from gymnasium import spaces

from maze_distributions.categorical import Categorical, MultiCategorical
from maze_distributions.gaussian import DiagonalGaussian
from maze_runtime.models.action_distribution import ProductDistribution, native_sampler_of
from maze_runtime.models.masking import MASKED_LOGIT, MaskError
from maze_runtime.models.same_operations import same_operations
from maze_runtime.native import choices
from maze_runtime.native.choices import ChoiceSampler, choices_library

SPACES = [
    spaces.Discrete(2),
    spaces.Discrete(50),
    spaces.Discrete(17, start=-3),
    spaces.MultiDiscrete([4, 4, 4]),
    spaces.MultiDiscrete([3, 70, 1, 5]),
    spaces.MultiDiscrete([[3, 4], [5, 2]], dtype=np.int32, start=[[1, 0], [0, 9]]),
]


@pytest.fixture(autouse=True)
def on_such_a_processor(monkeypatch):
    monkeypatch.setattr(choices, "HAS_VECTORS", True)
    if choices_library() is None:
        pytest.skip("no compiler here")


def distribution_of(space):
    return Categorical(space) if isinstance(space, spaces.Discrete) else MultiCategorical(space)


def logits_for(distribution, n_rows, scale=3.0):
    rng = np.random.default_rng(n_rows)
    return (scale * rng.normal(size=(n_rows, *distribution.logits_shape))).astype(np.float32)


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("n_rows", [1, 8, 20_000])
def test_they_are_those_of_numpy(space, n_rows):
    distribution = distribution_of(space)
    logits, (rng, same) = logits_for(distribution, n_rows), (np.random.default_rng(7) for _ in range(2))
    found, wanted = distribution.native_sampler()(logits, rng), distribution.sample_numpy(logits, same)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    # Two logits may be as good as equal, where either logarithm rounds in its own way
    assert (found != wanted).sum() <= 1e-5 * found.size
    assert rng.bit_generator.state == same.bit_generator.state


def test_logits_may_be_masked_wide_apart_and_of_another_type():
    distribution = Categorical(spaces.Discrete(50))
    sample, rng = distribution.native_sampler(), np.random.default_rng(0)
    logits = logits_for(distribution, 5_000, scale=30.0).astype(np.float64)
    logits[:, ::3] = MASKED_LOGIT
    same = np.random.default_rng(0)
    drawn = sample(logits, rng)
    np.testing.assert_array_equal(drawn, distribution.sample_numpy(logits.astype(np.float32), same))
    assert (drawn % 3 != 0).all()


def test_a_row_without_a_choice_is_an_error_that_names_its_head():
    product = ProductDistribution({"gear": Categorical(spaces.Discrete(4)), "turn": distribution_of(SPACES[4])})
    logits = {name: logits_for(head, 6) for name, head in product.heads.items()}
    logits["turn"][4, 3:73] = MASKED_LOGIT
    with pytest.raises(MaskError, match="action head 'turn' forbids every choice") as raised:
        product.native_sampler()(logits, np.random.default_rng(0))
    assert "row (4, 1)" in raised.value.received


def test_what_is_no_number_is_taken_as_numpy_takes_it():
    distribution = Categorical(spaces.Discrete(40))
    logits = logits_for(distribution, 3)
    logits[1, [7, 30]] = np.nan
    logits[2] = np.inf
    assert distribution.native_sampler()(logits, np.random.default_rng(0))[1:].tolist() == [7, 0]
    assert distribution.sample_numpy(logits, np.random.default_rng(0))[1:].tolist() == [7, 0]


@pytest.mark.parametrize("space", [SPACES[0], SPACES[2], SPACES[4]], ids=str)
def test_drawn_actions_stay_as_they_are(space):
    distribution = distribution_of(space)
    sample, rng = distribution.native_sampler(), np.random.default_rng(0)
    batches = [logits_for(distribution, n_rows) for n_rows in (8, 8, 3, 8)]
    drawn = [sample(logits, rng) for logits in batches]
    same = np.random.default_rng(0)
    for actions, logits in zip(drawn, batches, strict=True):
        np.testing.assert_array_equal(actions, distribution.sample_numpy(logits, same))


@same_operations
class Lazy(Categorical):
    def sample_numpy(self, logits, rng):
        return np.zeros(len(logits), np.int64)


def test_heads_that_offer_nothing_draw_as_before():
    heads = {
        "lazy": Lazy(spaces.Discrete(9)),
        "force": DiagonalGaussian(spaces.Box(-1.0, 1.0, (2,))),
        "gear": Categorical(spaces.Discrete(4)),
    }
    product = ProductDistribution(heads)
    logits = {name: logits_for(head, 8) for name, head in heads.items()}
    found = product.native_sampler()(logits, np.random.default_rng(0))
    wanted = product.sample_numpy(logits, np.random.default_rng(0))
    assert list(found) == list(wanted)
    for name in heads:
        np.testing.assert_array_equal(found[name], wanted[name])
    assert ProductDistribution({"lazy": heads["lazy"], "force": heads["force"]}).native_sampler() is None


class Greedy(ProductDistribution):
    def sample_numpy(self, logits, rng):
        return self.mode_numpy(logits)


class Renamed(Categorical):
    """Draws as it inherits to."""


def test_whoever_draws_otherwise_is_not_asked_for_what_it_inherits():
    heads = {"gear": Categorical(spaces.Discrete(4))}
    assert native_sampler_of(ProductDistribution(heads)) is not None
    assert native_sampler_of(Greedy(heads)) is None
    assert native_sampler_of(Renamed(spaces.Discrete(4))) is not None
    assert native_sampler_of(object()) is None


@pytest.mark.parametrize("missing", ["the compiler", "the vectors"])
def test_without_compiler_or_vectors_there_is_none(missing, monkeypatch):
    if missing == "the compiler":
        monkeypatch.setattr(choices, "choices_library", lambda: None)
    else:
        monkeypatch.setattr(choices, "HAS_VECTORS", False)
    assert all(distribution_of(space).native_sampler() is None for space in SPACES)


def test_draws_follow_the_probabilities():
    sampler, rng = ChoiceSampler([3, 2]), np.random.default_rng(0)
    shares = np.array([0.7, 0.2, 0.1, 0.05, 0.95])
    taken = sampler(np.tile(np.log(shares), (200_000, 1)), rng)
    assert np.bincount(taken[:, 0]) / 200_000 == pytest.approx(shares[:3], abs=0.005)
    assert np.bincount(taken[:, 1]) / 200_000 == pytest.approx(shares[3:], abs=0.005)
