import weakref
from functools import partial

import pytest
import torch

from maze_runtime.models import input_form
from maze_runtime.models.input_form import FormTable, tensors_in, with_tensors


@pytest.fixture(params=["by torch", "in Python"])
def make_table(request, monkeypatch):
    """Tables of lists, compared by torch or, as with releases that compare otherwise, in Python."""
    if request.param == "in Python":
        monkeypatch.setattr(input_form, "_form_check", input_form._form_check_in_python)
    return partial(FormTable, list, most=32)


def nested(seed=0, n=4, name="x", factor=2.0):
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(n, 3, generator=generator)}, (torch.rand(n, generator=generator), factor)


ROWS, ROW = torch.zeros(4, 3), torch.zeros(4)
OTHERS = {
    "as many rows fewer": nested(n=5),
    "another name": nested(name="y"),
    "another number": nested(factor=3.0),
    "a list": (nested()[0], [ROW, 2.0]),
    "one more": (*nested(), None),
    "turned around": ({"x": torch.zeros(3, 4).T}, (ROW, 2.0)),
    "double": ({"x": ROWS.double()}, (ROW, 2.0)),
    "with a gradient": ({"x": torch.zeros(4, 3, requires_grad=True)}, (ROW, 2.0)),
    "a parameter": ({"x": torch.nn.Parameter(ROWS, requires_grad=False)}, (ROW, 2.0)),
    "elsewhere": ({"x": ROWS.to("meta")}, (ROW, 2.0)),
    "places exchanged": ({"x": ROWS}, (2.0, ROW)),
    "no tensor": ({}, (1.0, 2.0)),
}


def test_inputs_of_one_form_share_what_is_kept(make_table):
    table = make_table()
    tensors, kept = table.find(nested())
    assert [tuple(tensor.shape) for tensor in tensors] == [(4, 3), (4,)]
    others = [table.find(other)[1] for other in OTHERS.values()]
    assert len({id(one) for one in [kept, *others]}) == 1 + len(OTHERS)
    again, same = table.find(nested(seed=1))
    assert same is kept
    assert torch.equal(again[1], nested(seed=1)[1][0])
    assert [table.find(other)[1] for other in OTHERS.values()] == others
    assert len(table.values()) == 1 + len(OTHERS)


def test_the_order_of_names_is_part_of_the_form(make_table):
    table = make_table()
    first = table.find({"a": ROW, "b": ROWS})[1]
    assert table.find({"b": ROWS, "a": ROW})[1] is not first


def test_objects_have_no_form(make_table):
    table = make_table()
    assert table.find((ROW, {"x": object()})) == (None, None)
    assert tensors_in([object()]) is None
    assert table.values() == []


def test_a_full_table_keeps_what_it_has(make_table):
    table = make_table(most=2)
    kept = [table.find((torch.zeros(n),))[1] for n in (1, 2)]
    tensors, nothing = table.find((torch.zeros(3),))
    assert (len(tensors), nothing) == (1, None)
    assert all(table.find((torch.zeros(n),))[1] is own for n, own in zip((1, 2), kept, strict=True))
    table.clear()
    assert table.find((torch.zeros(3),))[1] is not None


def test_no_tensor_is_held(make_table):
    table, tensor = make_table(), torch.zeros(4)
    table.find((tensor,))
    gone = weakref.ref(tensor)
    del tensor
    assert gone() is None


def test_tensors_take_the_places_of_others():
    rebuilt = with_tensors(nested(1), iter(tensors_in(nested(0))))
    assert torch.equal(rebuilt[0]["x"], nested(0)[0]["x"])
    assert torch.equal(rebuilt[1][0], nested(0)[1][0])
    assert rebuilt[1][1] == 2.0


def test_named_tuples_stay_what_they_are():
    from maze_ppo.flat_batch import FlatBatch

    column = torch.zeros(3)
    batch = FlatBatch("0", {"o": column}, {"a": column}, None, column, column, column)
    rebuilt = with_tensors(batch, iter([torch.ones(3)] * 5))
    assert type(rebuilt) is FlatBatch
    assert rebuilt.policy_key == "0"
    assert rebuilt.log_prob is None
    assert rebuilt.returns.sum() == 3.0
