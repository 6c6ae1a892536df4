"""Options of a selected component, read and replaced in the same way whatever holds them."""

import types

import attrs
import pytest

from maze_kernel.config import select
from maze_kernel.errors import RequestError
from maze_kernel.loader import Kernel
from maze_kernel.selection import Selection


@attrs.frozen(kw_only=True)
class Options:
    rate: float = attrs.field(default=0.5, validator=attrs.validators.le(1.0))
    _depth: int = 3


class WithClass:
    def __init__(self, options: Options):
        self.options = options


def with_keywords(*, rate: float = 0.5, depth: int = 3, mode: str | None = None):
    return types.SimpleNamespace(options=Options(rate=rate, depth=depth))


TARGETS = [f"{__name__}:WithClass", f"{__name__}:with_keywords"]


def selected(target, **options):
    return select(Kernel.of(), "policy", {"use": target, **options})


def given(value):
    return Selection(kind="policy", use="object", target="object", options={}, owner="me", instance=value)


@pytest.mark.parametrize("selection", [*map(selected, TARGETS), given(WithClass(Options()))])
def test_an_option_is_read_whatever_holds_it(selection):
    assert selection.option("rate") == 0.5
    assert selection.option("depth") == 3
    assert selection.option("width") is None
    assert selection.option("width", 7) == 7


@pytest.mark.parametrize("target", TARGETS)
def test_options_are_replaced_and_the_others_stay(target):
    selection = selected(target, depth=5)
    changed = selection.with_options(rate=1.0)
    assert (changed.option("rate"), changed.option("depth")) == (1.0, 5)
    assert selection.option("rate") == 0.5
    assert changed.with_options(depth=1).option("depth") == 1


@pytest.mark.parametrize("target", TARGETS)
def test_a_name_that_is_no_option_is_refused(target):
    with pytest.raises(RequestError, match="has no option width") as refusal:
        selected(target).with_options(width=1)
    assert refusal.value.owner == target


def test_an_option_whose_default_has_no_toml_form_can_be_set():
    assert selected(TARGETS[1]).with_options(mode="fast").option("mode") == "fast"


def test_a_value_that_its_validator_refuses_is_said_with_the_component():
    with pytest.raises(RequestError, match=r"WithClass.*refuses rate"):
        selected(TARGETS[0]).with_options(rate=2.0)


def test_options_of_an_object_cannot_be_replaced():
    with pytest.raises(RequestError, match="given as an object"):
        given(WithClass(Options())).with_options(rate=1.0)
