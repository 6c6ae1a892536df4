"""What holds for every distribution: shapes, extremes, temperature, NumPy twins, masks, tracing."""

import itertools

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_distributions.bernoulli import Bernoulli
from maze_distributions.beta import Beta
from maze_distributions.categorical import Categorical, MultiCategorical
from maze_distributions.gaussian import DiagonalGaussian
from maze_distributions.options import GaussianOptions
from maze_distributions.partly_squashed_gaussian import PartlySquashedGaussian
from maze_distributions.squashed_gaussian import SquashedGaussian
from maze_kernel.errors import SpaceError
from maze_runtime.models.masking import MASKED_LOGIT, MaskError, mask_logits

UNEVEN = spaces.Box(np.array([-1.0, 0.0, -1e-4], np.float32), np.array([1.0, 100.0, 1e-4], np.float32))
PARTLY_BOUNDED = spaces.Box(
    np.array([[-1.0, 0.0, -np.inf], [-np.inf, 40.0, -3.0]], np.float32),
    np.array([[1.0, np.inf, np.inf], [0.5, np.inf, 7.0]], np.float32),
)
CASES = {
    "categorical": (Categorical, spaces.Discrete(4)),
    "categorical-start": (Categorical, spaces.Discrete(4, start=3)),
    "multi-categorical": (MultiCategorical, spaces.MultiDiscrete([3, 3])),
    "multi-categorical-uneven": (MultiCategorical, spaces.MultiDiscrete([[2, 4], [3, 2]], start=[[1, 0], [0, 5]])),
    "bernoulli": (Bernoulli, spaces.MultiBinary((2, 2))),
    "diagonal-gaussian": (DiagonalGaussian, spaces.Box(-np.inf, np.inf, (2, 2))),
    "squashed-gaussian": (SquashedGaussian, spaces.Box(-2.0, 2.0, (2,))),
    "squashed-gaussian-uneven": (SquashedGaussian, UNEVEN),
    "squashed-gaussian-scalar": (SquashedGaussian, spaces.Box(-2.0, 2.0, ())),
    "partly-squashed-gaussian": (PartlySquashedGaussian, PARTLY_BOUNDED),
    "partly-squashed-gaussian-scalar": (PartlySquashedGaussian, spaces.Box(0.0, np.inf, ())),
    "beta": (Beta, spaces.Box(-2.0, 2.0, (2,))),
    "beta-uneven": (Beta, UNEVEN),
}


@pytest.fixture(params=CASES, ids=str)
def case(request):
    kind, space = CASES[request.param]
    return kind(space), space


def logits_for(distribution, rows=5, seed=0, scale=1.0):
    values = np.random.default_rng(seed).normal(0, scale, (rows, *distribution.logits_shape))
    return torch.from_numpy(values.astype(np.float32))


def test_samples_and_modes_lie_in_the_space(case):
    distribution, space = case
    logits = logits_for(distribution, rows=64, scale=3.0)
    rng = np.random.default_rng(0)
    batches = [distribution.sample(logits).numpy(), distribution.mode(logits).numpy()]
    batches += [distribution.sample_numpy(logits.numpy(), rng), distribution.mode_numpy(logits.numpy())]
    for batch in batches:
        assert batch.shape == (64, *space.shape)
        assert all(space.contains(_as_element(space, row)) for row in batch)
    for batch in batches[2:]:
        assert batch.dtype == space.dtype


def _as_element(space, row):
    return np.int64(row) if isinstance(space, spaces.Discrete) else row.astype(space.dtype)


def test_numpy_modes_equal_torch_modes(case):
    distribution, _ = case
    logits = logits_for(distribution, rows=32)
    np.testing.assert_allclose(distribution.mode_numpy(logits.numpy()), distribution.mode(logits), rtol=1e-5, atol=1e-6)


def test_numpy_and_torch_samples_have_the_same_moments(case):
    distribution, _ = case
    logits = logits_for(distribution, rows=1)
    many = logits.expand(40_000, -1)
    torch.manual_seed(1)
    ours = distribution.sample(many).double().numpy().reshape(40_000, -1)
    theirs = distribution.sample_numpy(many.numpy(), np.random.default_rng(1)).astype(np.float64).reshape(40_000, -1)
    spread = ours.std(0)
    np.testing.assert_array_less(np.abs(ours.mean(0) - theirs.mean(0)), 0.04 * spread + 1e-9)
    np.testing.assert_array_less(np.abs(spread - theirs.std(0)), 0.04 * spread + 1e-9)


def test_log_probability_and_entropy_agree_with_samples(case):
    """Monte Carlo: E[−log p(sample)] is the entropy."""
    distribution, _ = case
    logits = logits_for(distribution, rows=1).expand(40_000, -1)
    torch.manual_seed(2)
    surprise = -distribution.log_prob(logits, distribution.sample(logits)).double()
    error = surprise.std().item() / 200
    assert distribution.entropy(logits[:1]).item() == pytest.approx(surprise.mean().item(), abs=5 * error + 1e-4)


def test_combined_log_prob_and_entropy_equals_the_two(case):
    distribution, _ = case
    logits = logits_for(distribution)
    action = distribution.sample(logits)
    log_prob, entropy = distribution.log_prob_and_entropy(logits, action)
    torch.testing.assert_close(log_prob, distribution.log_prob(logits, action))
    torch.testing.assert_close(entropy, distribution.entropy(logits))
    assert log_prob.shape == entropy.shape == (5,)


def test_same_generator_seed_gives_the_same_samples(case):
    distribution, _ = case
    logits = logits_for(distribution)
    first, second = (distribution.sample(logits, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second)
    arrays = [distribution.sample_numpy(logits.numpy(), np.random.default_rng(3)) for _ in range(2)]
    np.testing.assert_array_equal(*arrays)


def test_lower_temperature_puts_every_sample_nearer_the_mode_of_a_squashed_gaussian():
    """Its entropy falls at both ends (a wide one sits on the two bounds), so determinism is measured from the mode."""
    distribution = SquashedGaussian(UNEVEN)
    logits = logits_for(distribution, rows=500)
    distances = []
    for temperature in (4.0, 1.5, 1.0, 0.5, 0.1):
        sample = distribution.sample(distribution.temper(logits, temperature), torch.Generator().manual_seed(0))
        distances.append((sample - distribution.mode(logits)).abs().double().mean(0))
    for warmer, cooler in itertools.pairwise(distances):
        assert (cooler < warmer).all()


def test_lower_temperature_lowers_the_entropy(case):
    distribution, _ = case
    if isinstance(distribution, (SquashedGaussian, PartlySquashedGaussian)):
        pytest.skip("measured from the mode above")
    logits = logits_for(distribution, scale=0.5)
    entropies = [distribution.entropy(distribution.temper(logits, t)) for t in (4.0, 1.5, 1.0, 0.5, 0.1)]
    for warmer, cooler in itertools.pairwise(entropies):
        assert (cooler < warmer).all()
    torch.testing.assert_close(entropies[2], distribution.entropy(logits), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("temperature", [1e-30, 1e-10, 1e-3, 1e9])
def test_no_temperature_makes_a_choice_that_is_forbidden_or_takes_one_for_it(temperature):
    logits = torch.tensor([[-0.5, -0.2, MASKED_LOGIT, -0.3, -0.4, -0.1]])
    for kind, space in (
        (Categorical, spaces.Discrete(6)),
        (MultiCategorical, spaces.MultiDiscrete([2, 4])),
        (Bernoulli, spaces.MultiBinary(6)),
    ):
        distribution = kind(space)
        tempered = distribution.temper(logits, temperature)
        assert torch.equal(distribution.mode(tempered), distribution.mode(logits))
        assert tempered[0, 2] == MASKED_LOGIT
        assert torch.isfinite(distribution.entropy(tempered)).all()
        assert distribution.mode_numpy(tempered.numpy()).tolist() == distribution.mode(logits).tolist()


def test_kl_is_zero_to_itself_and_positive_to_others(case):
    distribution, _ = case
    logits, other = logits_for(distribution), logits_for(distribution, seed=1)
    assert distribution.kl(logits, logits).abs().max() < 1e-5
    assert (distribution.kl(logits, other) > 0).all()


@pytest.mark.parametrize("magnitude", [1e4, -1e4])
def test_extreme_logits_give_finite_values_and_gradients(case, magnitude):
    distribution, space = case
    size = distribution.logits_shape[0]
    signs = torch.tensor([[1.0] * size, [1.0, -1.0] * (size // 2) + [1.0] * (size % 2), [0.0] * size])
    logits = (magnitude * signs).requires_grad_()
    other = (-magnitude * signs).requires_grad_()
    actions = [distribution.sample(logits), distribution.mode(logits)]
    if isinstance(space, spaces.Box) and (space.bounded_below | space.bounded_above).any():
        edges = [np.clip(edge, -100.0, 100.0) for edge in (space.low, space.high)]
        actions += [torch.from_numpy(np.stack([edge] * 3)) for edge in edges]
    for action in actions:
        results = [
            distribution.log_prob(logits, action),
            distribution.entropy(logits),
            distribution.kl(logits, other),
            distribution.temper(logits, 0.1),
        ]
        if action.requires_grad:
            results.append(action)
        for result in results:
            assert torch.isfinite(result).all()
            gradients = torch.autograd.grad(result.sum(), [logits, other], allow_unused=True, retain_graph=True)
            assert all(torch.isfinite(gradient).all() for gradient in gradients if gradient is not None)
    rng = np.random.default_rng(0)
    with np.errstate(all="raise", under="ignore"):
        for batch in (
            distribution.sample_numpy(logits.detach().numpy(), rng),
            distribution.mode_numpy(logits.detach().numpy()),
        ):
            assert np.isfinite(batch).all()


def test_probability_ratios_at_the_bounds_are_finite():
    for kind in (SquashedGaussian, Beta):
        distribution = kind(UNEVEN)
        old = logits_for(distribution, seed=0)
        new = (old + 0.05).requires_grad_()
        for edge in (UNEVEN.low, UNEVEN.high):
            action = torch.from_numpy(edge).expand(5, 3)
            ratio = (distribution.log_prob(new, action) - distribution.log_prob(old, action)).exp()
            (gradient,) = torch.autograd.grad(ratio.sum(), new)
            assert torch.isfinite(ratio).all()
            assert torch.isfinite(gradient).all()


def test_float32_log_prob_of_saturated_samples_stays_close_to_float64():
    distribution = SquashedGaussian(spaces.Box(-2.0, 2.0, (1,)))
    logits = torch.tensor([[2.0, 0.0]]).expand(1000, 2)
    action = distribution.sample(logits, torch.Generator().manual_seed(0))
    exact = distribution.log_prob(logits.double(), action.double())
    inside = action.abs()[:, 0] < 2 - 1e-4
    torch.testing.assert_close(
        distribution.log_prob(logits, action)[inside].double(), exact[inside], atol=5e-2, rtol=1e-3
    )


def test_a_masked_choice_is_never_taken_and_has_no_gradient():
    for distribution in (Categorical(spaces.Discrete(4)), MultiCategorical(spaces.MultiDiscrete([2, 2]))):
        raw = torch.zeros(1000, 4, requires_grad=True)
        mask = torch.tensor([1, 0, 1, 0], dtype=torch.int8).expand(1000, 4)
        logits = mask_logits(raw, mask)
        assert set(distribution.sample(logits).flatten().tolist()) <= {0, 2}
        drawn = distribution.sample_numpy(logits.detach().numpy(), np.random.default_rng(0))
        assert set(drawn.flatten().tolist()) <= {0, 2}
        entropy = distribution.entropy(logits)
        action = distribution.mode(logits)
        (gradient,) = torch.autograd.grad((entropy + distribution.log_prob(logits, action)).sum(), raw)
        assert torch.isfinite(gradient).all()
        assert (gradient[:, [1, 3]] == 0).all()


def test_a_fully_masked_row_is_an_error_that_names_the_row():
    logits = np.zeros((3, 4), np.float32)
    logits[1] = MASKED_LOGIT
    for distribution in (Categorical(spaces.Discrete(4)), MultiCategorical(spaces.MultiDiscrete([3, 1]))):
        for call in (
            lambda d=distribution: d.sample_numpy(logits, np.random.default_rng(0)),
            lambda d=distribution: d.mode_numpy(logits),
        ):
            with pytest.raises(MaskError, match="every choice") as caught:
                call()
            assert "1" in caught.value.received


@pytest.mark.parametrize("kind", [SquashedGaussian, Beta])
def test_bounds_that_leave_no_interval_are_refused(kind):
    for space in (spaces.Box(-np.inf, np.inf, (2,)), spaces.Box(1.0, 1.0, (2,)), spaces.Discrete(2)):
        with pytest.raises(SpaceError):
            kind(space)


@pytest.mark.parametrize(("low", "high"), [(1e6, np.inf), (-np.inf, -1e300), ([0.0, 1.0], [np.inf, 1.0])])
def test_bounds_that_a_partly_squashed_gaussian_cannot_work_at_are_refused(low, high):
    space = spaces.Box(np.asarray(low, np.float64), np.asarray(high, np.float64), dtype=np.float64)
    with pytest.raises(SpaceError, match="bounds"):
        PartlySquashedGaussian(space)


def test_log_std_clamps_must_be_in_order():
    with pytest.raises(ValueError, match="not greater"):
        GaussianOptions(min_log_std=3.0)


@pytest.mark.parametrize("kind", [DiagonalGaussian, SquashedGaussian, PartlySquashedGaussian])
def test_an_initial_log_std_is_that_much_more_of_every_logit(kind):
    space = spaces.Box(-2.0, 3.0, (3,))
    narrow, plain = kind(space, GaussianOptions(initial_log_std=-1.5)), kind(space)
    logits, other = logits_for(plain, rows=50), logits_for(plain, rows=50, seed=1)
    shift = torch.tensor([0.0] * 3 + [-1.5] * 3)
    action = plain.sample(logits + shift)
    for function, arguments in (
        ("log_prob", [action]),
        ("entropy", []),
        ("mode", []),
        ("log_prob_and_entropy", [action]),
    ):
        found, expected = (
            getattr(narrow, function)(logits, *arguments),
            getattr(plain, function)(logits + shift, *arguments),
        )
        torch.testing.assert_close(found, expected)
    torch.testing.assert_close(narrow.kl(logits, other), plain.kl(logits + shift, other + shift))
    torch.testing.assert_close(
        narrow.entropy(narrow.temper(logits, 0.5)), plain.entropy(plain.temper(logits + shift, 0.5))
    )
    draws = [
        distribution.sample_numpy(rows.numpy(), np.random.default_rng(0))
        for distribution, rows in ((narrow, logits), (plain, logits + shift))
    ]
    np.testing.assert_allclose(*draws, rtol=1e-5, atol=1e-6)
    drawn = [
        distribution.sample(rows, torch.Generator().manual_seed(0))
        for distribution, rows in ((narrow, logits), (plain, logits + shift))
    ]
    torch.testing.assert_close(*drawn)


def test_functions_run_under_vmap(case):
    distribution, _ = case
    logits, other = logits_for(distribution, rows=6), logits_for(distribution, rows=6, seed=1)
    action = distribution.sample(logits)
    for function, arguments in (
        (distribution.log_prob, (logits, action)),
        (distribution.entropy, (logits,)),
        (distribution.kl, (logits, other)),
        (distribution.mode, (logits,)),
    ):
        stacked = tuple(argument.reshape(2, 3, *argument.shape[1:]) for argument in arguments)
        batched = torch.func.vmap(function)(*stacked)
        torch.testing.assert_close(batched.reshape(6, *batched.shape[2:]), function(*arguments))


@pytest.mark.slow
def test_log_prob_entropy_and_kl_compile_without_graph_breaks(case):
    distribution, _ = case
    logits, other = logits_for(distribution), logits_for(distribution, seed=1)
    action = distribution.sample(logits)

    def loss(logits, other, action):
        log_prob, entropy = distribution.log_prob_and_entropy(logits, action)
        return log_prob + entropy + distribution.kl(logits, other)

    torch.compiler.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(logits, other, action), loss(logits, other, action))
