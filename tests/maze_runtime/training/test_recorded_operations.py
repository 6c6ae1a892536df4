"""Views that a recording leaves out: its numbers stay the same, bit for bit, whatever was written in between."""

import pytest
import torch

from maze_runtime.training.recorded_operations import Operation, Slot, simplified
from maze_runtime.training.tape import Tape

ATEN = torch.ops.aten


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def replay_of(function, fixed, inputs):
    tape = Tape(fixed, inputs, draws=False)
    with tape:
        results, statistics = function(*fixed, *inputs)
    replay = tape.replay(results, statistics, fixed, inputs)
    assert replay is not None
    return replay


def check(function, fixed, inputs, further):
    """Replays are what the function gives, also after the fixed tensors have changed."""
    replay = replay_of(function, fixed, inputs)
    for seed in range(3):
        for tensor in fixed:
            tensor.copy_(numbers(*tensor.shape, seed=seed))
        results, statistics = function(*fixed, *further)
        expected = torch.cat([own.reshape(-1) for own in results])
        flat = torch.empty_like(expected)
        assert torch.equal(replay(flat, *further), statistics)
        assert torch.equal(flat, expected)


def looks_again(weight, x):
    y = x @ weight.t()
    return [y.t().t() @ weight.t().t(), weight.t() * 2.0], y.t().sum(0)


def gives_views(weight, x):
    y = x @ weight
    return [y.view(-1).view(3, -1), y.t(), x.t().t()], y.t()[0].detach()


def writes_between_looks(_weight, x):
    y = x + 1.0
    before = y.t()
    first = before.sum()
    y.mul_(3.0)
    second = y.t().sum()
    y.t().add_(1.0)
    return [before * 2.0, y.detach().t()], torch.stack([first, second, y.detach().sum()])


def turns_in_place(_weight, x):
    y = x + 1.0
    before = y.t()
    y.t_()
    return [before @ y.t(), y.t()], y[0].clone()


def looks_at_parts(weight, x):
    parts = weight.split(2)
    again = weight.split(2)
    return [x @ parts[0].t(), x @ again[0].t(), weight[:2] + weight[:2], weight[0:3]], weight.unsqueeze(0).sum(1)[0]


def goes_back_through_activations(weight, x):
    y = (x @ weight.t()).tanh()
    z = (y @ weight).relu()
    behind = z @ weight
    before = ATEN.threshold_backward(behind, z, 0)
    other = y @ weight
    both = [ATEN.tanh_backward(other, y), ATEN.threshold_backward(other, z, 0)]
    seen = z @ weight
    look = seen.t()
    of_look = ATEN.tanh_backward(look, y)
    return [ATEN.tanh_backward(before @ weight.t(), y), *both, of_look, seen, ATEN.tanh_backward(x, y)], look[0].clone()


@pytest.mark.parametrize(
    "function",
    [looks_again, gives_views, writes_between_looks, turns_in_place, looks_at_parts, goes_back_through_activations],
    ids=lambda own: own.__name__,
)
def test_replays_are_the_same_bit_for_bit(function):
    check(function, [numbers(3, 3)], [numbers(3, 3, seed=5)], [numbers(3, 3, seed=6)])


def t(source, written):
    return Operation(ATEN.t.default, [Slot(source)], {}, Slot(written))


def test_views_of_fixed_tensors_are_taken_once_and_transposes_of_transposes_never():
    # 0 is fixed, 1 an input; 4 and 7 are looks at 0 and 3 through two transposes
    operations = [
        t(0, 2),
        Operation(ATEN.mm.default, [Slot(1), Slot(2)], {}, Slot(3)),
        t(2, 4),
        Operation(ATEN.mm.default, [Slot(3), Slot(4)], {}, Slot(5)),
        t(3, 6),
        t(6, 7),
        t(3, 8),
        Operation(ATEN.mm.default, [Slot(8), Slot(7)], {}, Slot(9)),
        Operation(ATEN.view.default, [Slot(9), [-1]], {}, Slot(10)),
    ]
    left = simplified(operations, gradients=[10], statistics=5, fixed={0})
    assert left.once == (t(0, 2),)
    assert left.always == (
        Operation(ATEN.mm.default, [Slot(1), Slot(2)], {}, Slot(3)),
        Operation(ATEN.mm.default, [Slot(3), Slot(0)], {}, Slot(5)),
        t(3, 6),
        Operation(ATEN.mm.default, [Slot(6), Slot(3)], {}, Slot(9)),
    )
    assert left.gradients == (9,)
    assert left.statistics == 5
    assert left.spent == ((1, 2), (0,), (), (3, 6))


def test_a_view_that_is_turned_in_place_is_taken_again():
    operations = [t(0, 1), Operation(ATEN.t_.default, [Slot(0)], {}, Slot(0)), t(0, 2), t(2, 3)]
    left = simplified(operations, gradients=[1, 2, 3], statistics=0, fixed=())
    assert left.always == tuple(operations)
    assert left.once == ()


def test_gradients_of_activations_are_written_over_what_nobody_else_reads():
    mm, back = ATEN.mm.default, ATEN.threshold_backward.default
    operations = [
        Operation(mm, [Slot(0), Slot(1)], {}, Slot(2)),  # read here alone
        Operation(back, [Slot(2), Slot(0), 0], {}, Slot(3)),
        Operation(back, [Slot(3), Slot(0), 0], {}, Slot(4)),  # as well
        Operation(mm, [Slot(4), Slot(4)], {}, Slot(5)),  # read twice
        Operation(back, [Slot(5), Slot(0), 0], {}, Slot(6)),
        Operation(ATEN.add.Tensor, [Slot(5), Slot(6)], {}, Slot(7)),  # might be any operation
        Operation(back, [Slot(7), Slot(0), 0], {}, Slot(8)),
        Operation(mm, [Slot(8), Slot(1)], {}, Slot(9)),  # a result
        Operation(back, [Slot(9), Slot(0), 0], {}, Slot(10)),
        Operation(back, [Slot(1), Slot(0), 0], {}, Slot(11)),  # an input
    ]
    left = simplified(operations, gradients=[9, 10], statistics=11, fixed={0})
    assert [own.args[0].index for own in left.always if own.kwargs] == [2, 3]
    assert all(own.kwargs == {"grad_input": own.args[0]} for own in left.always if own.kwargs)
