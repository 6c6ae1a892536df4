"""Every distribution against SciPy or numerical integration."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from scipy import integrate, stats

from maze_distributions.bernoulli import Bernoulli
from maze_distributions.beta import Beta
from maze_distributions.categorical import Categorical, MultiCategorical
from maze_distributions.gaussian import DiagonalGaussian
from maze_distributions.partly_squashed_gaussian import PartlySquashedGaussian
from maze_distributions.squashed_gaussian import SquashedGaussian
from maze_distributions.tanh_squashing import mean_log_two_cosh
from maze_kernel.errors import SpaceError

TOLERANCE = {"atol": 1e-5, "rtol": 1e-5}
EPS = float(np.finfo(np.float32).eps)
BOX = spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([1.0, 0.5], np.float32))


def random_logits(rows, columns, seed=0, scale=1.5):
    return torch.from_numpy(np.random.default_rng(seed).normal(0, scale, (rows, columns)))


def softmax(logits):
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def test_categorical_matches_scipy_entropy_and_table_lookup():
    distribution = Categorical(spaces.Discrete(5, start=-2))
    logits, other = random_logits(7, 5), random_logits(7, 5, seed=1)
    p, q = softmax(logits.numpy()), softmax(other.numpy())
    action = torch.arange(7) % 5 - 2
    expected = np.log(p[np.arange(7), np.arange(7) % 5])
    np.testing.assert_allclose(distribution.log_prob(logits, action), expected, **TOLERANCE)
    np.testing.assert_allclose(distribution.entropy(logits), stats.entropy(p, axis=-1), **TOLERANCE)
    np.testing.assert_allclose(distribution.kl(logits, other), stats.entropy(p, q, axis=-1), **TOLERANCE)
    assert distribution.mode(logits).tolist() == (p.argmax(-1) - 2).tolist()


@pytest.mark.parametrize("nvec", [[3, 3], [2, 5, 3], [[2, 3], [4, 2]]])
def test_multi_categorical_is_a_sum_of_categoricals(nvec):
    space = spaces.MultiDiscrete(nvec)
    distribution = MultiCategorical(space)
    sizes = np.asarray(nvec).reshape(-1)
    logits, other = random_logits(6, sizes.sum()), random_logits(6, sizes.sum(), seed=1)
    space.seed(0)
    action = np.stack([space.sample() for _ in range(6)])
    log_prob = entropy = kl = 0.0
    edges = np.cumsum(sizes)[:-1]
    columns = action.reshape(6, -1)
    for k, (part, part2) in enumerate(
        zip(np.split(logits.numpy(), edges, -1), np.split(other.numpy(), edges, -1), strict=True)
    ):
        p, q = softmax(part), softmax(part2)
        log_prob = log_prob + np.log(p[np.arange(6), columns[:, k]])
        entropy = entropy + stats.entropy(p, axis=-1)
        kl = kl + stats.entropy(p, q, axis=-1)
    tensor = torch.from_numpy(action)
    np.testing.assert_allclose(distribution.log_prob(logits, tensor), log_prob, **TOLERANCE)
    np.testing.assert_allclose(distribution.entropy(logits), entropy, **TOLERANCE)
    np.testing.assert_allclose(distribution.kl(logits, other), kl, **TOLERANCE)


def test_bernoulli_matches_scipy():
    distribution = Bernoulli(spaces.MultiBinary(3))
    logits, other = random_logits(6, 3), random_logits(6, 3, seed=1)
    p, q = 1 / (1 + np.exp(-logits.numpy())), 1 / (1 + np.exp(-other.numpy()))
    action = np.random.default_rng(0).integers(0, 2, (6, 3)).astype(np.int8)
    expected = stats.bernoulli.logpmf(action, p).sum(-1)
    np.testing.assert_allclose(distribution.log_prob(logits, torch.from_numpy(action)), expected, **TOLERANCE)
    np.testing.assert_allclose(distribution.entropy(logits), stats.bernoulli.entropy(p).sum(-1), **TOLERANCE)
    kl = (p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))).sum(-1)
    np.testing.assert_allclose(distribution.kl(logits, other), kl, **TOLERANCE)


def test_diagonal_gaussian_matches_scipy():
    distribution = DiagonalGaussian(spaces.Box(-np.inf, np.inf, (2, 2)))
    logits, other = random_logits(5, 8, scale=0.7), random_logits(5, 8, seed=1, scale=0.7)
    action = random_logits(5, 4, seed=2).reshape(5, 2, 2)
    mean, std = logits.numpy()[:, :4], np.exp(logits.numpy()[:, 4:])
    mean2, std2 = other.numpy()[:, :4], np.exp(other.numpy()[:, 4:])
    expected = stats.norm.logpdf(action.numpy().reshape(5, 4), mean, std).sum(-1)
    np.testing.assert_allclose(distribution.log_prob(logits, action), expected, **TOLERANCE)
    np.testing.assert_allclose(distribution.entropy(logits), stats.norm.entropy(mean, std).sum(-1), **TOLERANCE)
    kl = np.zeros(5)
    for row in range(5):
        for k in range(4):
            p, q = stats.norm(mean[row, k], std[row, k]), stats.norm(mean2[row, k], std2[row, k])
            kl[row] += p.expect(lambda x, p=p, q=q: p.logpdf(x) - q.logpdf(x))
    np.testing.assert_allclose(distribution.kl(logits, other), kl, **TOLERANCE)


@pytest.mark.parametrize("kind", [SquashedGaussian, Beta])
def test_bounded_densities_integrate_to_one_with_matching_entropy_and_kl(kind):
    distribution = kind(spaces.Box(-2.0, 1.0, (1,)))
    logits = torch.tensor([[0.3, -0.4], [-1.2, 0.2], [0.0, -1.5]], dtype=torch.float64)
    others = torch.tensor([[0.0, 0.0], [-1.0, -0.3], [0.4, -1.0]], dtype=torch.float64)

    def log_density(row, x):
        return distribution.log_prob(row[None], torch.tensor([[x]], dtype=torch.float64)).item()

    for row, other in zip(logits, others, strict=True):
        limits = {"limit": 400, "epsabs": 1e-8}
        mass = integrate.quad(lambda x, row=row: np.exp(log_density(row, x)), -2, 1, **limits)[0]
        entropy = integrate.quad(
            lambda x, row=row: -np.exp(log_density(row, x)) * log_density(row, x), -2, 1, **limits
        )[0]
        kl = integrate.quad(
            lambda x, row=row, other=other: np.exp(log_density(row, x)) * (log_density(row, x) - log_density(other, x)),
            -2,
            1,
            **limits,
        )[0]
        assert mass == pytest.approx(1, abs=1e-5)
        assert distribution.entropy(row[None]).item() == pytest.approx(entropy, abs=1e-5)
        assert distribution.kl(row[None], other[None]).item() == pytest.approx(kl, abs=1e-5)


@pytest.mark.parametrize(("low", "high"), [(0.0, np.inf), (7.0, np.inf), (-np.inf, -2.0)])
def test_densities_with_one_bound_integrate_to_one_with_matching_entropy_and_kl(low, high):
    distribution = PartlySquashedGaussian(spaces.Box(low, high, (1,)))
    logits = torch.tensor([[0.3, -0.4], [-1.2, 0.2], [2.0, 0.7]], dtype=torch.float64)
    others = torch.tensor([[0.0, 0.0], [-1.0, -0.3], [0.4, 0.5]], dtype=torch.float64)
    # d from 1e-6 to 60, evenly in log d at first
    distance = torch.cat([torch.logspace(-6, -1, 40_001, dtype=torch.float64), torch.linspace(0.1, 60.0, 400_001)])
    x = low + distance if np.isfinite(low) else high - distance
    for row, other in zip(logits, others, strict=True):
        log_p, log_q = (distribution.log_prob(one.expand(len(x), 2), x[:, None]) for one in (row, other))
        p = log_p.exp()
        entropy = -torch.trapezoid(p * log_p, distance).item()
        assert torch.trapezoid(p, distance).item() == pytest.approx(1, abs=1e-4)
        assert distribution.entropy(row[None]).item() == pytest.approx(entropy, abs=1e-3)
        kl = torch.trapezoid(p * (log_p - log_q), distance).item()
        assert distribution.kl(row[None], other[None]).item() == pytest.approx(kl, abs=1e-3)


@pytest.mark.parametrize("log_std", [-20.0, -8.0, -2.0, 0.0, 2.0])
def test_log_prob_with_one_bound_matches_scipy_at_and_near_it(log_std):
    """The definition in the docstring of `log_prob`, in float64."""
    distribution = PartlySquashedGaussian(spaces.Box(0.0, np.inf, (1,)))
    margin = 4 * EPS
    inner = np.log(np.expm1(margin))
    for mean in (-30.0, -15.0, -1.0, 0.0, 2.0, 40.0):
        for action in (0.0, 2 * EPS, 1e-5, 0.3, 5.0, 41.0):
            d = np.float64(np.float32(action))
            if d > margin:
                w, slope = d + np.log(-np.expm1(-d)), -np.log(-np.expm1(-d))
                std = max(np.exp(log_std), EPS * max(d, 1.0) * np.exp(slope))
                expected = stats.norm.logpdf(w, mean, std) + slope
            else:
                std = max(np.exp(log_std), EPS / -np.expm1(-margin))
                expected = stats.norm.logcdf(inner, mean, std) - np.log(margin)
            result = distribution.log_prob(torch.tensor([[mean, log_std]]), torch.tensor([[action]])).item()
            assert result == pytest.approx(expected, rel=2e-2, abs=1e-2), (mean, action)


def test_dimensions_of_a_partly_bounded_box_are_those_of_the_boxes_that_it_consists_of():
    low, high = [-1.0, 0.0, -np.inf, -np.inf, 2.0], [1.0, np.inf, np.inf, 5.0, 4.0]
    box = spaces.Box(np.array(low, np.float32), np.array(high, np.float32))
    whole = PartlySquashedGaussian(box)
    logits, other = random_logits(6, 10, scale=0.8).float(), random_logits(6, 10, seed=1, scale=0.8).float()
    action = whole.sample(logits)
    sums = dict.fromkeys(("log_prob", "entropy", "kl"), 0.0)
    for k, (lower, upper) in enumerate(zip(low, high, strict=True)):
        n_bounds = np.isfinite(lower) + np.isfinite(upper)
        kind = (DiagonalGaussian, PartlySquashedGaussian, SquashedGaussian)[int(n_bounds)]
        one, own = kind(spaces.Box(lower, upper, (1,))), logits[:, [k, 5 + k]]
        torch.testing.assert_close(one.mode(own), whole.mode(logits)[:, [k]])
        sums["log_prob"] += one.log_prob(own, action[:, [k]])
        sums["entropy"] += one.entropy(own)
        sums["kl"] += one.kl(own, other[:, [k, 5 + k]])
    torch.testing.assert_close(whole.log_prob(logits, action), sums["log_prob"])
    torch.testing.assert_close(whole.entropy(logits), sums["entropy"])
    torch.testing.assert_close(whole.kl(logits, other), sums["kl"])


def test_the_largest_float_is_no_bound_of_a_partly_bounded_box():
    low, high = np.array([-1.0, 0.0, -np.inf], np.float32), np.array([1.0, np.inf, np.inf], np.float32)
    logits = random_logits(6, 6, scale=0.8).float()
    of_infinity = PartlySquashedGaussian(spaces.Box(low, high))
    of_largest = PartlySquashedGaussian(spaces.Box(np.nan_to_num(low), np.nan_to_num(high)))
    torch.testing.assert_close(of_largest.mode(logits), of_infinity.mode(logits))
    torch.testing.assert_close(of_largest.entropy(logits), of_infinity.entropy(logits))


def test_samples_of_a_partly_bounded_box_come_with_their_log_probability():
    box = spaces.Box(np.array([-1.0, 0.0, -np.inf], np.float32), np.array([1.0, np.inf, np.inf], np.float32))
    distribution, logits = PartlySquashedGaussian(box), random_logits(50, 6, scale=0.3).float()
    sample, log_prob = distribution.sample_and_log_prob(logits, torch.Generator().manual_seed(0))
    torch.testing.assert_close(sample, distribution.sample(logits, torch.Generator().manual_seed(0)))
    torch.testing.assert_close(log_prob, distribution.log_prob(logits, sample), atol=1e-4, rtol=1e-4)


def test_beta_matches_scipy_over_several_dimensions():
    distribution = Beta(BOX)
    logits = random_logits(6, 4)
    concentration = 1 + np.logaddexp(0, logits.numpy())
    reference = stats.beta(concentration[:, :2], concentration[:, 2:], loc=BOX.low, scale=BOX.high - BOX.low)
    action = BOX.low + (BOX.high - BOX.low) * np.random.default_rng(0).random((6, 2))
    result = distribution.log_prob(logits, torch.from_numpy(action))
    np.testing.assert_allclose(result, reference.logpdf(action).sum(-1), **TOLERANCE)
    np.testing.assert_allclose(distribution.entropy(logits), reference.entropy().sum(-1), **TOLERANCE)


def test_squashed_gaussian_log_prob_is_the_change_of_variables():
    distribution = SquashedGaussian(BOX)
    logits = random_logits(6, 4, scale=0.8)
    u = random_logits(6, 2, seed=3).numpy()
    half = (BOX.high - BOX.low) / 2
    action = BOX.low + half * (np.tanh(u) + 1)
    expected = stats.norm.logpdf(u, logits.numpy()[:, :2], np.exp(logits.numpy()[:, 2:]))
    expected = (expected - np.log(half * (1 - np.tanh(u) ** 2))).sum(-1)
    np.testing.assert_allclose(distribution.log_prob(logits, torch.from_numpy(action)), expected, **TOLERANCE)


def test_squashed_samples_come_with_their_log_probability():
    distribution, logits = SquashedGaussian(BOX), random_logits(6, 4, scale=0.8)
    torch.manual_seed(2)
    plain = distribution.sample(logits)
    torch.manual_seed(2)
    sample, log_prob = distribution.sample_and_log_prob(logits)
    np.testing.assert_array_equal(sample, plain)
    np.testing.assert_allclose(log_prob, distribution.log_prob(logits, sample), **TOLERANCE)


def test_the_log_probability_of_squashed_samples_is_exact_where_a_float_reaches_the_bound():
    """At u = 12 the action equals the bound; its density still falls by 2 a unit of u and pulls the mean back."""
    distribution = SquashedGaussian(spaces.Box(-1.0, 1.0, (1,)))
    logits = torch.tensor([[12.0, -3.0]], requires_grad=True)
    torch.manual_seed(0)
    _, log_prob = distribution.sample_and_log_prob(logits)
    torch.manual_seed(0)
    noise = float(torch.empty(1, 1).normal_())
    u = 12.0 + np.exp(-3.0) * noise
    expected = stats.norm.logpdf(noise) + 3.0 - (np.log(4.0) - 2.0 * u - 2.0 * np.log1p(np.exp(-2.0 * u)))
    assert log_prob.item() == pytest.approx(expected, rel=1e-5)
    log_prob.sum().backward()
    assert logits.grad[0, 0].item() == pytest.approx(2.0, rel=1e-4)


def test_squashed_entropy_expectation_matches_integration_for_narrow_and_wide_distributions():
    for mean in (0.0, 0.4, -1.7, 6.0):
        for std in (1e-6, 0.05, 0.5, 1.0, 3.0, 7.3):
            nodes = np.linspace(-12, 12, 200_001)
            expected = np.trapezoid(
                stats.norm.pdf(nodes) * np.logaddexp(mean + std * nodes, -mean - std * nodes), nodes
            )
            mean_tensor, log_std = torch.tensor([mean, np.log(std)], dtype=torch.float64)
            assert mean_log_two_cosh(mean_tensor, log_std).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("kind", [DiagonalGaussian, SquashedGaussian, Beta])
def test_gradient_of_reparameterised_samples_is_that_of_the_expected_action(kind):
    distribution = kind(spaces.Box(-1.0, 2.0, (1,)))
    torch.manual_seed(0)
    logits = torch.tensor([[0.4, -0.6]], dtype=torch.float64, requires_grad=True)
    distribution.sample(logits.expand(200_000, 2)).mean().backward()
    reference = torch.zeros(2, dtype=torch.float64)
    for k in range(2):
        means = []
        for step in (1e-3, -1e-3):
            shifted = logits.detach().clone()
            shifted[0, k] += step
            means.append(_mean_by_integration(distribution, shifted, kind))
        reference[k] = (means[0] - means[1]) / 2e-3
    np.testing.assert_allclose(logits.grad[0], reference, atol=5e-3)


def _mean_by_integration(distribution, logits, kind):
    low, high = (-8.0, 8.0) if kind is DiagonalGaussian else (-1.0, 2.0)
    x = torch.linspace(low, high, 200_001, dtype=torch.float64)[1:-1, None]
    density = distribution.log_prob(logits.expand(len(x), 2), x).exp()
    return float(torch.trapezoid(density * x[:, 0], x[:, 0]))


def _squashed_log_prob(mean, log_std, y, width=2.0):
    """Of one dimension at y in (0, 1) of the box, in float64: the definition in the docstring of `log_prob`."""
    margin = 4 * EPS
    y = np.clip(y, margin, 1 - margin)
    u = np.arctanh(2 * y - 1)
    std = np.maximum(np.exp(log_std), EPS / (2 * y * (1 - y)))
    inside = stats.norm.logpdf(u, mean, std) - np.log(2 * y * (1 - y))
    above = stats.norm.logsf(u, mean, std) - np.log(margin)
    below = stats.norm.logcdf(u, mean, std) - np.log(margin)
    return np.select([y >= 1 - margin, y <= margin], [above, below], inside) - np.log(width)


@pytest.mark.parametrize("log_std", [-20.0, -8.0, -2.0, 0.0, 2.0])
def test_squashed_log_prob_at_and_near_the_bounds_matches_scipy(log_std):
    distribution = SquashedGaussian(spaces.Box(-1.0, 1.0, (1,)))
    for mean in (-30.0, -7.5, -1.0, 0.0, 2.0, 7.2, 7.4, 12.0):
        logits = torch.tensor([[mean, log_std]])
        for action in (-1.0, -1.0 + 2 * EPS, -0.999, 0.3, 0.99999, 1.0):
            expected = _squashed_log_prob(mean, log_std, (np.float64(np.float32(action)) + 1) / 2)
            result = distribution.log_prob(logits, torch.tensor([[action]], dtype=torch.float32)).item()
            # u is known to a float step, and so is the exponent
            assert result == pytest.approx(expected, rel=2e-2, abs=1e-2), (mean, action)


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (1.0, 2.0), (-3.0, 1.0)])
def test_probabilities_of_a_squashed_gaussian_with_its_cells_at_the_bounds_add_up_to_one(mean, log_std):
    distribution, margin = SquashedGaussian(spaces.Box(-1.0, 1.0, (1,))), 4 * EPS
    edges = torch.tensor([[-1.0], [1.0]])
    logits = torch.tensor([[mean, log_std]])
    cells = distribution.log_prob(logits.expand(2, 2), edges).double().exp().sum().item() * 2 * margin
    inner = np.arctanh(1 - 2 * margin)
    inside = np.diff(stats.norm.cdf([-inner, inner], mean, np.exp(log_std)))[0]
    assert cells + inside == pytest.approx(1.0, abs=1e-4)
    assert stats.norm.sf(inner, mean, np.exp(log_std)) < cells + 1e-6


def test_gradients_of_a_squashed_gaussian_stay_far_below_what_float32_holds():
    """A float32 norm is infinite from 1.8e19 on: squares of gradients must not overflow."""
    distribution = SquashedGaussian(spaces.Box(-1.0, 1.0, (1,)))
    actions = [-1.0, -1.0 + EPS, -0.5, 0.0, 1e-7, 0.9, 1.0 - 1e-6, 1.0 - EPS, 1.0]
    for mean in (-20.0, -7.3, 0.0, 0.5, 7.27, 9.0, 40.0):
        for log_std in (-20.0, -12.0, -5.0, 0.0):
            logits = torch.tensor([[mean, log_std]]).repeat(len(actions), 1).requires_grad_()
            distribution.log_prob(logits, torch.tensor(actions)[:, None]).sum().backward()
            assert torch.isfinite(torch.linalg.vector_norm(logits.grad))
            assert logits.grad.abs().max() < 1e17


def test_a_mean_beyond_the_bound_changes_no_ratio_and_has_no_gradient():
    """Every u beyond is the same action, so there is nothing to learn from where the mean is out there."""
    distribution = SquashedGaussian(spaces.Box(-2.0, 2.0, (2,)))
    old = torch.tensor([[20.0, -20.0, -20.0, -20.0]])
    action = distribution.mode(old)
    assert action.tolist() == [[2.0, -2.0]]
    new = torch.tensor([[14.0, -30.0, -3.0, -1.0]], requires_grad=True)
    log_ratio = distribution.log_prob(new, action) - distribution.log_prob(old, action)
    log_ratio.sum().backward()
    assert log_ratio.item() == pytest.approx(0.0, abs=1e-6)
    assert new.grad.abs().max() == 0.0


def test_rounded_samples_of_the_narrowest_squashed_gaussian_are_likely():
    """The action forgets u to a float step; a log-probability that asked for more would be −1e9."""
    distribution = SquashedGaussian(spaces.Box(-2.0, 2.0, (1,)))
    torch.manual_seed(0)
    for mean in np.linspace(-9.0, 9.0, 73):
        logits = torch.tensor([[float(mean), -20.0]]).expand(500, 2)
        log_prob = distribution.log_prob(logits, distribution.sample(logits))
        assert log_prob.min() > -6.0


WIDE = np.array([-0.1, 0.3, 1.0 / 3.0, 1000.0])
WIDE_BOX = spaces.Box(WIDE, WIDE + np.array([0.2, 0.7, 1e-3, 1.0]), dtype=np.float64)
"""None of its bounds but the last is a float32."""


@pytest.mark.parametrize("kind", [SquashedGaussian, Beta])
def test_no_action_leaves_a_float64_box(kind):
    distribution = kind(WIDE_BOX)
    for magnitude in (-1e4, -30.0, 0.0, 30.0, 1e4):
        logits = torch.full((1, 8), magnitude)
        if kind is Beta:
            logits[:, 4:] = -magnitude
        rng = np.random.default_rng(0)
        for action in (
            distribution.mode(logits).numpy(),
            distribution.sample(logits).numpy(),
            distribution.mode_numpy(logits.numpy()),
            distribution.sample_numpy(logits.numpy(), rng),
        ):
            assert (action.astype(np.float64) >= WIDE_BOX.low).all()
            assert (action.astype(np.float64) <= WIDE_BOX.high).all()


@pytest.mark.parametrize("kind", [SquashedGaussian, Beta])
def test_a_float64_box_has_the_log_probabilities_of_the_float32_one(kind):
    """What made the action was float32, whatever the array that carries it."""
    narrow, wide = kind(spaces.Box(-1.0, 1.0, (2,), np.float32)), kind(spaces.Box(-1.0, 1.0, (2,), np.float64))
    logits = random_logits(6, 4).float()
    for action in (np.full((6, 2), -1.0), np.full((6, 2), 1.0), np.full((6, 2), 0.25)):
        expected = narrow.log_prob(logits, torch.from_numpy(action.astype(np.float32)))
        result = wide.log_prob(logits, torch.from_numpy(action))
        assert result.dtype == torch.float32
        assert torch.equal(result, expected)


def test_a_box_far_from_zero_asks_no_more_than_its_coarser_floats_hold():
    distribution = SquashedGaussian(WIDE_BOX)
    torch.manual_seed(0)
    logits = torch.tensor([[0.4, -0.4, 0.0, 1.0, -20.0, -20.0, -20.0, -20.0]]).expand(500, 8)
    log_prob = distribution.log_prob(logits, distribution.sample(logits))
    assert log_prob.min() > -10.0


@pytest.mark.parametrize("kind", [SquashedGaussian, Beta])
@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0 + 1e-9), (1e6, 1e6 + 0.5), (-3e38, 3e38), (0.0, 1e300)])
def test_a_box_that_float32_cannot_hold_is_refused(kind, low, high):
    with pytest.raises(SpaceError, match="low < high"):
        kind(spaces.Box(low, high, (1,), np.float64))


@pytest.mark.parametrize("kind", [SquashedGaussian, Beta])
def test_log_probability_and_mode_at_the_bound_of_a_float16_box(kind):
    distribution = kind(spaces.Box(-1.0, 1.0, (1,), np.float16))
    logits = torch.tensor([[0.3, -1.0]], requires_grad=True)
    for action in (-1.0, 1.0):
        log_prob = distribution.log_prob(logits, torch.tensor([[action]], dtype=torch.float16))
        (gradient,) = torch.autograd.grad(log_prob.sum(), logits)
        assert torch.isfinite(log_prob).all()
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_written_derivatives_of_the_squashed_log_density_are_those_of_autograd(dtype):
    """The same formula, step by step; autograd takes it where the action needs a gradient as well."""
    distribution = SquashedGaussian(spaces.Box(-1.0, 1.0, (1,)))
    actions = torch.tensor([-1.0, -1.0 + EPS, -0.999, -0.5, 0.0, 1e-7, 0.3, 0.99999, 1.0 - 2 * EPS, 1.0], dtype=dtype)
    for mean in (-40.0, -7.3, -1.0, 0.0, 0.5, 7.27, 9.0, 40.0):
        for log_std in (-12.0, -5.0, -1.0, 0.0, 2.0):
            logits = torch.tensor([[mean, log_std]], dtype=dtype).repeat(len(actions), 1).requires_grad_()
            written, plain = (
                distribution.log_prob(logits, actions[:, None].clone().requires_grad_(needs_gradient))
                for needs_gradient in (False, True)
            )
            torch.testing.assert_close(written, plain)
            gradients = [torch.autograd.grad(result.sum(), logits)[0] for result in (written, plain)]
            # below −30 standard deviations the leading term of log Φ has −x for −x + 1/x
            torch.testing.assert_close(*gradients, rtol=2e-3, atol=1e-4)


def test_log_densities_have_gradients_into_the_action_where_one_is_asked_for():
    distribution = SquashedGaussian(spaces.Box(-1.0, 2.0, (2,)))
    logits = random_logits(4, 4, scale=0.5)
    action = torch.tensor([[-0.9, 0.3]] * 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda own: distribution.log_prob(logits.double(), own), (action,))


def test_written_derivatives_of_the_entropy_match_finite_differences():
    logits = torch.tensor([[m, s] for m in (-9.0, -1.3, 0.0, 0.4, 5.0) for s in (-6.0, -1.0, 0.0, 1.5)])
    mean, log_std = (column.double().requires_grad_() for column in logits.T)
    assert torch.autograd.gradcheck(mean_log_two_cosh, (mean, log_std))
