"""Targets and losses against slow NumPy versions written from Haarnoja et al. 2018b and Christodoulou 2019."""

import itertools
import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_kernel.contracts.model import ModelContext
from maze_kernel.loader import Kernel
from maze_runtime.env.flat import flat_spaces
from maze_sac import losses
from maze_sac.heads import ActionHeads
from maze_sac.losses import varied_choices
from maze_sac.objectives import Objectives, TransitionBatch
from maze_sac.options import SACOptions
from maze_sac.update import Update

GAMMA, ALPHA = 0.9, 0.3
N = 5
HEADS = {
    "box": {"b": spaces.Box(-2.0, 4.0, (2,), np.float32)},
    "discrete": {"d": spaces.Discrete(3)},
    "choices": {"d": spaces.Discrete(3, start=1), "m": spaces.MultiDiscrete([2, 4]), "t": spaces.MultiBinary(2)},
    "mixed": {"d": spaces.Discrete(3), "b": spaces.Box(-1.0, 1.0, (2,), np.float32), "t": spaces.MultiBinary(1)},
}


@pytest.fixture(scope="module")
def kernel():
    return Kernel.installed()


def build(kernel, heads):
    space = spaces.Dict(heads)
    structured = flat_spaces(spaces.Dict({"o": spaces.Box(-1.0, 1.0, (3,), np.float32)}), space)
    context = ModelContext(spaces=structured, catalog=kernel.catalog, seed=3, critic="state-action")
    model = kernel.catalog.build(select_auto(kernel), context)
    with torch.no_grad():
        for parameter in model.policies.parameters():
            parameter.mul_(20.0 if parameter.dim() == 2 and parameter.shape[0] < 20 else 1.0)
    critic = model.action_value_critic("0")
    return model, critic, ActionHeads(space, model.distributions["0"], critic.action_encoder)


def select_auto(kernel):
    from maze_kernel.config import select

    return select(kernel, "model", "auto")


def make_batch(model, heads):
    rng = np.random.default_rng(0)
    tensors = [torch.from_numpy(rng.uniform(-1, 1, (N, 3)).astype(np.float32)) for _ in range(2)]
    space = model.spaces.action["0"]
    space.seed(1)
    samples = [space.sample() for _ in range(N)]
    action = {name: torch.from_numpy(np.stack([sample[name] for sample in samples])) for name in space}
    reward = torch.from_numpy(rng.standard_normal(N).astype(np.float32))
    discount = GAMMA * torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0])
    return TransitionBatch({"o": tensors[0]}, heads.encoder.encode(action), reward, {"o": tensors[1]}, discount), action


def tables(heads, logits):
    """Per choice, the probabilities as a list of arrays; softmax in float64."""
    parts = []
    for name, space in heads.items():
        row = np.asarray(logits[name].detach(), np.float64)
        if isinstance(space, spaces.Discrete):
            parts.append(softmax(row))
        elif isinstance(space, spaces.MultiDiscrete):
            start = 0
            for n in space.nvec:
                parts.append(softmax(row[start : start + n]))
                start += n
        elif isinstance(space, spaces.MultiBinary):
            parts += [np.array([1 - 1 / (1 + math.exp(-x)), 1 / (1 + math.exp(-x))]) for x in row]
    return parts


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def test_targets_and_losses_of_a_single_choice_are_exact_expectations(kernel):
    kind = "discrete"
    model, critic, heads = build(kernel, HEADS[kind])
    batch, _ = make_batch(model, heads)
    objectives, alpha = Objectives(heads), torch.tensor(ALPHA)
    policy = lambda observation: model.logits("0", observation)  # noqa: E731
    target = objectives.target(batch, policy, critic, alpha)
    policy_loss, entropy = objectives.policy(batch, policy, critic, alpha)
    critic_loss, _ = objectives.critic(batch, critic, target)

    def soft(observation, i):
        """(Σ π (min Q − α log π), −Σ π log π) of row i, choice by choice and option by option."""
        logits = {name: rows[i] for name, rows in policy(observation).items()}
        q = critic(observation).detach().numpy()[:, i]
        value, spread, column = 0.0, 0.0, 0
        for probabilities in tables(HEADS[kind], logits):
            for p in probabilities:
                value += p * (min(q[0, column], q[1, column]) - ALPHA * math.log(p))
                spread -= p * math.log(p)
                column += 1
        return value, spread

    wanted = [float(batch.reward[i]) + float(batch.discount[i]) * soft(batch.next_observation, i)[0] for i in range(N)]
    np.testing.assert_allclose(target, wanted, rtol=1e-4, atol=1e-5)
    now = [soft(batch.observation, i) for i in range(N)]
    assert float(policy_loss) == pytest.approx(-np.mean([value for value, _ in now]), rel=1e-4, abs=1e-5)
    assert float(entropy) == pytest.approx(np.mean([spread for _, spread in now]), rel=1e-4)
    q = critic(batch.observation).detach().numpy()
    taken = np.array([[(q[j, i] * batch.action[i].numpy()).sum() for i in range(N)] for j in range(2)])
    assert float(critic_loss) == pytest.approx(sum(0.5 * np.mean((taken[j] - wanted) ** 2) for j in range(2)), rel=1e-4)


@pytest.mark.parametrize("kind", HEADS)
def test_what_follows_a_terminal_transition_may_have_no_value(kernel, kind):
    """Networks that divide by a norm have none where nothing was seen."""
    model, critic, heads = build(kernel, HEADS[kind])
    batch, _ = make_batch(model, heads)
    unseen = torch.where(batch.discount[:, None] > 0, batch.next_observation["o"], torch.nan)
    policy = lambda observation: model.logits("0", observation)  # noqa: E731
    target = Objectives(heads).target(
        batch._replace(next_observation={"o": unseen}), policy, critic, torch.tensor(ALPHA)
    )
    ends = batch.discount == 0
    assert torch.equal(target[ends], batch.reward[ends])
    assert target.isfinite().all()


CHOICES = (3, 2, 4, 2, 2)
"""Options of each choice of the heads "choices"."""


def joint_values(q, parts):
    """[(probability, indices, min_i Q_i(s, a))] of every action; `q` (2, K) of one state, `parts` as `tables` gives."""
    offsets = np.cumsum([0, *CHOICES[:-1]])
    for indices in itertools.product(*(range(n) for n in CHOICES)):
        probability = math.prod(part[k] for part, k in zip(parts, indices, strict=True))
        columns = [offset + k for offset, k in zip(offsets, indices, strict=True)]
        yield probability, columns, min(sum(q[i, column] for column in columns) for i in range(2))


def one_hots(columns):
    return torch.nn.functional.one_hot(torch.tensor(columns), sum(CHOICES)).sum(0)[None].double()


def test_values_and_gradients_of_several_choices_have_the_expectation_of_the_smaller_joint_value(kernel):
    """Over all 96 actions that can be drawn: E min_i Q_i(s, a), and its gradient by finite differences."""
    rng = np.random.default_rng(0)
    q = rng.standard_normal((2, sum(CHOICES)))
    logits = rng.standard_normal(sum(CHOICES))

    def expectation(logits):
        parts = [softmax(part) for part in np.split(logits, np.cumsum(CHOICES)[:-1])]
        return sum(probability * value for probability, _, value in joint_values(q, parts))

    rows = torch.tensor(logits, requires_grad=True)
    log_probs = torch.cat([part.log_softmax(0) for part in rows.split(CHOICES)])[None]
    parts = [softmax(part) for part in np.split(logits, np.cumsum(CHOICES)[:-1])]
    zero, value, loss = torch.tensor(0.0, dtype=torch.float64), 0.0, 0.0
    for probability, columns, _ in joint_values(q, parts):
        options = losses.joint_choice_values(torch.tensor(q)[:, None], one_hots(columns), CHOICES)
        value += probability * float(losses.exact_soft_value(options, log_probs, zero))
        loss = loss + probability * losses.exact_policy_loss(options, log_probs, zero).sum()
    assert value == pytest.approx(expectation(logits), rel=1e-10)
    assert -float(loss) == pytest.approx(expectation(logits), rel=1e-10)
    loss.backward()
    for column in range(sum(CHOICES)):
        step = np.eye(sum(CHOICES))[column] * 1e-6
        numeric = (expectation(logits + step) - expectation(logits - step)) / 2e-6
        assert -float(rows.grad[column]) == pytest.approx(numeric, abs=1e-7)


def test_values_of_several_choices_are_exact_where_one_twin_is_smaller_everywhere():
    rng = np.random.default_rng(1)
    smaller = rng.standard_normal(sum(CHOICES))
    q = torch.tensor(np.stack([smaller + 3.0, smaller]))[:, None]
    log_probs = torch.cat([torch.tensor(rng.standard_normal(n)).log_softmax(0) for n in CHOICES])[None]
    expected = float((log_probs.exp() * torch.tensor(smaller)).sum())
    for columns in ([0, 3, 5, 9, 11], [2, 4, 8, 10, 12]):
        options = losses.joint_choice_values(q, one_hots(columns), CHOICES)
        assert float((log_probs.exp() * options).sum()) == pytest.approx(expected, rel=1e-12)


def test_noise_of_the_twins_lowers_targets_by_its_spread_over_whole_actions_and_not_by_choice():
    """E min of two N(0, n) is −√(n / π): −1.26 with five choices. The smaller twin choice by choice gives −2.82."""
    n, n_states = 5, 4000
    generator = torch.Generator().manual_seed(0)
    q = torch.randn((2, n_states, 2 * n), generator=generator)
    log_probs = torch.full((n_states, 2 * n), math.log(0.5))
    bits = torch.randint(0, 2, (n_states, n), generator=generator)
    taken = torch.nn.functional.one_hot(bits, 2).flatten(1).float()
    options = losses.joint_choice_values(q, taken, (2,) * n)
    value = losses.exact_soft_value(options, log_probs, torch.tensor(0.0))
    assert float(value.mean()) == pytest.approx(-math.sqrt(n / math.pi), rel=0.05)


def test_targets_and_policy_loss_of_several_choices_use_the_joint_values_of_a_drawn_action(kernel):
    model, critic, heads = build(kernel, HEADS["choices"])
    batch, _ = make_batch(model, heads)
    objectives, alpha = Objectives(heads), torch.tensor(ALPHA)
    policy = lambda observation: model.logits("0", observation)  # noqa: E731
    torch.manual_seed(3)
    target = objectives.target(batch, policy, critic, alpha)
    policy_loss, entropy = objectives.policy(batch, policy, critic, alpha)
    torch.manual_seed(3)
    values, spreads = [], []
    for observation in (batch.next_observation, batch.observation):
        logits = policy(observation)
        taken = heads.encoder.encode(model.distributions["0"].sample(logits)).numpy()
        q = critic(observation).detach().numpy()
        values.append([])
        for i in range(N):
            parts = tables(HEADS["choices"], {name: rows[i] for name, rows in logits.items()})
            spread = -sum((p * np.log(p)).sum() for p in parts)
            spreads.append(spread)
            values[-1].append(local_expectations(q[:, i], taken[i], parts) + ALPHA * spread)
    wanted = batch.reward.numpy() + batch.discount.numpy() * values[0]
    np.testing.assert_allclose(target, wanted, rtol=1e-4, atol=1e-5)
    assert float(policy_loss) == pytest.approx(-np.mean(values[1]), rel=1e-4, abs=1e-5)
    assert float(entropy) == pytest.approx(np.mean(spreads[N:]), rel=1e-4)


def local_expectations(q, taken, parts):
    """Σ_c E_o min_i Q_i(a with option o in choice c) − (n − 1) min_i Q_i(a), slowly."""
    total, start = 0.0, 0
    for part in parts:
        for k, p in enumerate(part):
            varied = taken.copy()
            varied[start : start + len(part)] = np.eye(len(part))[k]
            total += p * min(float(row @ varied) for row in q)
        start += len(part)
    return total - (len(parts) - 1) * min(float(row @ taken) for row in q)


@pytest.mark.parametrize("kind", ["box", "mixed"])
def test_sampled_targets_use_the_joint_log_probability_and_the_smaller_twin(kernel, kind):
    model, critic, heads = build(kernel, HEADS[kind])
    batch, _ = make_batch(model, heads)
    policy = lambda observation: model.logits("0", observation)  # noqa: E731
    torch.manual_seed(7)
    target = Objectives(heads).target(batch, policy, critic, torch.tensor(ALPHA))
    torch.manual_seed(7)
    distribution, logits = model.distributions["0"], policy(batch.next_observation)
    action = distribution.sample(logits)
    encoded = heads.encoder.encode(action)
    for i in range(N):
        log_prob = 0.0
        for name, space in HEADS[kind].items():
            row = logits[name][i].detach().numpy().astype(np.float64)
            taken = action[name][i].detach().numpy()
            if isinstance(space, spaces.Box):
                log_prob += unit_log_density(taken, row, space)
            else:
                bits = [int(taken)] if isinstance(space, spaces.Discrete) else taken.tolist()
                parts = tables({name: space}, {name: logits[name][i]})
                log_prob += sum(math.log(p[k]) for p, k in zip(parts, bits, strict=True))
        q = [float(network_value(critic, batch.next_observation, encoded, i, j)) for j in range(2)]
        wanted = float(batch.reward[i]) + float(batch.discount[i]) * (min(q) - ALPHA * log_prob)
        assert float(target[i]) == pytest.approx(wanted, rel=2e-3, abs=2e-3)


def unit_log_density(action, logits, space):
    """Of the action as it lies in −1 … 1: change of variables, dimension by dimension (2018b, equation 26)."""
    total, d = 0.0, len(logits) // 2
    for k in range(d):
        mean, std = logits[k], math.exp(min(2.0, max(-20.0, logits[d + k])))
        y = 2 * (float(action[k]) - space.low[k]) / (space.high[k] - space.low[k]) - 1
        u = math.atanh(y)
        normal = -0.5 * ((u - mean) / std) ** 2 - math.log(std) - 0.5 * math.log(2 * math.pi)
        total += normal - math.log(1 - y * y)
    return total


def network_value(critic, observation, encoded, i, j):
    return critic({name: x[i : i + 1] for name, x in observation.items()}, encoded[i : i + 1])[j, 0]


def test_the_policy_gradient_of_continuous_actions_is_that_of_the_expected_value(kernel):
    """Averaged over many samples it equals the finite difference of E[min Q − α log π] under common noise."""
    model, critic, heads = build(kernel, HEADS["box"])
    batch, _ = make_batch(model, heads)
    objectives, alpha = Objectives(heads), torch.tensor(ALPHA)
    logits = {name: x.detach().double().requires_grad_() for name, x in model.logits("0", batch.observation).items()}
    values = lambda observation, action: critic(observation, action.float()).double()  # noqa: E731

    def loss(rows):
        torch.manual_seed(0)
        return objectives.policy(batch, lambda _: rows, values, alpha)[0]

    loss(logits).backward()
    step = 1e-2
    for column in range(4):
        shifted = []
        for sign in (1, -1):
            rows = logits["b"].detach().clone()
            rows[2, column] += sign * step
            shifted.append(float(loss({"b": rows})))
        numeric = (shifted[0] - shifted[1]) / (2 * step)
        assert float(logits["b"].grad[2, column]) == pytest.approx(numeric, rel=0.05, abs=1e-3)


def test_the_gradient_of_a_choice_beside_numbers_is_the_exact_local_expectation(kernel):
    """d/d logits of Σ_k π_k (α log π_k − min Q(s, numbers, k)) with everything else as sampled."""
    model, critic, heads = build(kernel, {"d": HEADS["mixed"]["d"], "b": HEADS["mixed"]["b"]})
    batch, _ = make_batch(model, heads)
    logits = {name: x.detach().requires_grad_() for name, x in model.logits("0", batch.observation).items()}
    torch.manual_seed(5)
    loss, _ = Objectives(heads).policy(batch, lambda _: logits, critic, torch.tensor(ALPHA))
    loss.backward()
    torch.manual_seed(5)
    encoded = heads.encoder.encode(model.distributions["0"].sample(logits)).detach()
    for i in range(N):
        pi = softmax(logits["d"][i].detach().numpy().astype(np.float64))
        costs = []
        for k in range(3):
            varied = encoded.clone()
            varied[i, :3] = torch.eye(3)[k]
            q = min(float(network_value(critic, batch.observation, varied, i, j)) for j in range(2))
            costs.append(ALPHA * math.log(pi[k]) - q)
        wanted = pi * (np.array(costs) - (pi * costs).sum()) / N
        np.testing.assert_allclose(logits["d"].grad[i], wanted, rtol=1e-3, atol=1e-5)


def test_varied_choices_change_one_choice_at_a_time():
    encoded = torch.tensor([[0.0, 1.0, 0.0, 1.0, 0.0, 7.0]])
    rows = varied_choices(encoded, (3, 2))[0].tolist()
    assert rows == [
        [1, 0, 0, 1, 0, 7],
        [0, 1, 0, 1, 0, 7],
        [0, 0, 1, 1, 0, 7],
        [0, 1, 0, 1, 0, 7],
        [0, 1, 0, 0, 1, 7],
    ]


def test_encoded_boxes_are_moved_to_unit_range(kernel):
    _, _, heads = build(kernel, HEADS["box"])
    encoded = heads.encoder.encode({"b": torch.tensor([[-2.0, 4.0], [1.0, 2.5]])})
    np.testing.assert_allclose(encoded, [[-1.0, 1.0], [0.0, 0.5]])


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("box", -2.0),
        ("discrete", 0.98 * math.log(3)),
        ("choices", 0.98 * (math.log(3) + math.log(2) + math.log(4) + 2 * math.log(2))),
        ("mixed", 0.98 * (math.log(3) + math.log(2)) - 2.0),
    ],
)
def test_target_entropy(kernel, kind, wanted):
    _, _, heads = build(kernel, HEADS[kind])
    assert heads.target_entropy(1.0) == pytest.approx(wanted)
    assert heads.target_entropy(0.5) == pytest.approx(0.5 * wanted)


@pytest.mark.parametrize("half", [0.005, 1000.0])
def test_the_unit_of_an_action_changes_neither_its_density_nor_what_twins_read(kernel, half):
    """Numbers bounded on one side or on none are taken as they are: nothing says how wide they are."""
    drawn = []
    for width in (1.0, half):
        low, high = np.float32([-width, 0.0, -np.inf]), np.float32([width, 2.0 * width, np.inf])
        model, _, heads = build(kernel, {"b": spaces.Box(low, high)})
        batch, _ = make_batch(model, heads)
        torch.manual_seed(0)
        drawn.append(heads.sample(model.logits("0", batch.observation)))
    (encoded, density), (encoded_too, density_too) = drawn
    torch.testing.assert_close(encoded_too, encoded, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(density_too, density, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_stack_that_twins_share_is_trained_and_followed(kernel, compiled):
    image = spaces.Box(0, 255, (12, 12, 3), np.uint8)
    structured = flat_spaces(spaces.Dict({"o": image}), spaces.Dict(HEADS["box"]))
    context = ModelContext(spaces=structured, catalog=kernel.catalog, seed=3, critic="state-action")
    model = kernel.catalog.build(select_auto(kernel), context)
    update = Update(model, SACOptions(tau=0.25, compile=compiled))
    stack, target = model.action_value_critic("0").shared, update._target.network.shared[0]
    before = [parameter.detach().clone() for parameter in stack.parameters()]
    rng = np.random.default_rng(0)
    now, then = ({"o": torch.from_numpy(rng.integers(0, 256, (N, 12, 12, 3), dtype=np.uint8))} for _ in range(2))
    action, reward = (torch.from_numpy(rng.uniform(-1, 1, shape).astype(np.float32)) for shape in ((N, 2), (N,)))
    update(0.01, {"0": TransitionBatch(now, action, reward, then, torch.full((N,), GAMMA))})
    for old, new, followed in zip(before, stack.parameters(), target.parameters(), strict=True):
        assert not torch.equal(old, new)
        torch.testing.assert_close(followed, old.lerp(new.detach(), 0.25))
