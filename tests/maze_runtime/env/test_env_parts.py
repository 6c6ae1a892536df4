"""Parts of an environment chosen by name or import path."""

import pytest

from maze_kernel.errors import RequestError
from maze_runtime.env.parts import build_part


class Lamp:
    def __init__(self, options=None, *, watts=40):
        self.options, self.watts = options, watts


class Candle(Lamp):
    pass


KNOWN = {"lamp": Lamp, "candle": Candle}


def build(table, **given):
    return build_part(table, KNOWN, Lamp, "light", **given)


def test_by_name_with_options_and_what_the_environment_gives():
    lamp = build({"use": "candle", "watts": 5}, options="given", nobody="wants this")
    assert (type(lamp), lamp.watts, lamp.options) == (Candle, 5, "given")


def test_the_first_known_one_is_the_default():
    assert type(build({})) is Lamp


def test_by_import_path():
    assert build_part({"use": "fractions:Fraction"}, {}, object, "number") == 0


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"use": "lmp"}, r"no light 'lmp'(.|\n)*did you mean: lamp"),
        ({"use": "lamp", "wats": 3}, r"no option 'wats'(.|\n)*expected: watts(.|\n)*did you mean: watts"),
        ({"use": "no_such_module:Lamp"}, "there is no module no_such_module"),
        ({"use": "fractions:Fraction"}, "is no Lamp"),
        ({"use": 3}, "no light 3"),
    ],
)
def test_mistakes_are_named(table, message):
    with pytest.raises(RequestError, match=message):
        build(table)
