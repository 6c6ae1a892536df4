"""Two runs of an operation as one: where neither waits for the other, and with the same numbers bit for bit."""

from collections import Counter

import pytest
import torch

from maze_runtime.models.two_at_once import two_at_once
from maze_runtime.training.tape import Tape

CALLS = Counter()


def squash(x, by):
    CALLS["one"] += 1
    return torch.tanh(x) * by, x.abs()


def squash_two(first, second, by):
    CALLS["two"] += 1
    return [own for (x,) in (first, second) for own in (torch.tanh(x) * by, x.abs())]


LIBRARY = torch.library.Library("maze_operation_pairs", "DEF")
LIBRARY.define("squash(Tensor x, float by) -> (Tensor, Tensor)")
LIBRARY.impl("squash", squash, "CPU")
LIBRARY.define("squash_two(Tensor[] first, Tensor[] second, float by) -> Tensor[]")
LIBRARY.impl("squash_two", squash_two, "CPU")
SQUASH = torch.ops.maze_operation_pairs.squash.default
two_at_once(SQUASH, torch.ops.maze_operation_pairs.squash_two.default)


def apart(weight, x):
    first, size = SQUASH(x @ weight, 2.0)
    read = first * size
    second, other_size = SQUASH(x @ weight.t(), 2.0)
    return [read, second - read], other_size.sum(0)


def with_changes_that_concern_neither(weight, x):
    first, _ = SQUASH(x @ weight, 2.0)
    inner = x + weight
    inner.mul_(3.0)
    second, _ = SQUASH(inner, 2.0)
    first.add_(1.0)  # of a result, behind both
    return [first, second], inner.sum(0)


def two_and_two(weight, x):
    shallow = [SQUASH(x @ own, 2.0)[0] for own in (weight, weight.t())]
    return [SQUASH(own @ weight, 2.0)[0] for own in shallow], shallow[1].sum(0)


def one_behind_the_other(weight, x):
    first, _ = SQUASH(x @ weight, 2.0)
    second, size = SQUASH((first - 1.0).t(), 2.0)
    return [first, second], size.sum(0)


def what_was_read_is_changed(weight, x):
    read = x @ weight
    first, _ = SQUASH(read, 2.0)
    read.mul_(3.0)
    second, size = SQUASH(read + 1.0, 2.0)
    return [first, second], size.sum(0)


def a_view_of_a_result_is_changed(weight, x):
    first, size = SQUASH(x @ weight, 2.0)
    seen = first.t()
    seen.mul_(3.0)
    second, _ = SQUASH(first + x, 2.0)
    return [first, second], size.sum(0)


def of_other_shapes(weight, x):
    first, _ = SQUASH(x @ weight, 2.0)
    second, size = SQUASH(x[:2] @ weight, 2.0)
    return [first, second], size.sum(0)


def of_other_types(weight, x):
    first, _ = SQUASH(x @ weight, 2.0)
    second, size = SQUASH((x @ weight.t()).double(), 2.0)
    return [first, second.float()], size.float().sum(0)


def by_other_numbers(weight, x):
    return [SQUASH(x @ weight, 2.0)[0], SQUASH(x @ weight.t(), 3.0)[0]], x.sum(0)


def drawn_between(weight, x):
    first, _ = SQUASH(x @ weight, 2.0)
    noise = torch.rand_like(first)
    second, size = SQUASH(x @ weight.t(), 2.0)
    return [first + noise, second], size.sum(0)


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        (apart, {"two": 1}),
        (with_changes_that_concern_neither, {"two": 1}),
        (two_and_two, {"two": 2}),
        (one_behind_the_other, {"one": 2}),
        (what_was_read_is_changed, {"one": 2}),
        (a_view_of_a_result_is_changed, {"one": 2}),
        (of_other_shapes, {"one": 2}),
        (of_other_types, {"one": 2}),
        (by_other_numbers, {"one": 2}),
        (drawn_between, {"one": 2}),
    ],
    ids=lambda own: getattr(own, "__name__", None),
)
def test_two_runs_are_one_where_neither_waits_for_the_other(function, calls):
    generator = torch.Generator().manual_seed(0)
    weight, x, further = (torch.randn(3, 3, generator=generator) for _ in range(3))
    tape = Tape([weight], [x], draws=True)
    with tape:
        results, statistics = function(weight, x)
    replay = tape.replay(results, statistics, [weight], [x])
    assert replay is not None
    weight.mul_(0.5)
    torch.manual_seed(1)
    results, statistics = function(weight, further)
    expected = torch.cat([own.reshape(-1) for own in results])
    found = torch.empty_like(expected)
    CALLS.clear()
    torch.manual_seed(1)
    assert torch.equal(replay(found, further), statistics)
    assert torch.equal(found, expected)
    assert calls == CALLS
