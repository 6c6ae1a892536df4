"""Exact types: what is accepted, and what is never quietly converted."""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import attrs
import pytest
from toy_options import Colour, Schedule

from maze_kernel.config import experiment_from_mapping, select
from maze_kernel.errors import ExperimentError
from maze_kernel.selection import Selection
from maze_kernel.validators import at_least, each


def trainer_options(load, minimal, line):
    return load(minimal + line + "\n").experiment.trainer.options


ACCEPTED = {
    "lr = 1": ("lr", 1.0),
    "lr = 1e-3": ("lr", 1e-3),
    "lr = { start = 1 }": ("lr", Schedule(start=1.0)),
    "clip_range = 0.2": ("clip_range", 0.2),
    'colour = "blue"': ("colour", Colour.BLUE),
    'tags = ["a"]': ("tags", ["a"]),
    "weights.a = 1": ("weights", {"a": 1.0}),
    "bound = inf": ("bound", math.inf),
    'folder = "deep/er"': ("folder", "deep/er"),
    "high = 1_000": ("high", 1000),
    "n_epochs = 0x10": ("n_epochs", 16),
}


@pytest.mark.parametrize("line", ACCEPTED)
def test_accepted(load, minimal, line):
    name, expected = ACCEPTED[line]
    value = getattr(trainer_options(load, minimal, line), name)
    assert value == expected
    assert type(value) is type(expected)


REFUSED = {
    "n_epochs = true": "integer >= 0",
    "n_epochs = 1.7": "integer >= 0",
    "n_epochs = 4.0": "integer >= 0",
    'n_epochs = "7"': "integer >= 0",
    "n_epochs = -1": ">= 0",
    "n_epochs = 99999999999999999999": "an integer of at most 64 bits",
    "n_epochs = [1]": "integer >= 0",
    "n_epochs = 2026-01-01": "integer >= 0",
    "device = 3": "string",
    'device = ["cpu"]': "string",
    "device = true": "string",
    "lr = true": "number | { start, end?, shape? }",
    'lr = "1e-3"': "number | { start, end?, shape? }",
    "lr = nan": "number",
    "lr = inf": "number",
    "lr = []": "number | { start, end?, shape? }",
    "lr = { start = nan }": "number > 0",
    "clip_range = 0": "> 0",
    "clip_range = -inf": "number > 0",
    "gamma = 1.01": ">= 0 and <= 1",
    'colour = "green"': '"red" | "blue"',
    "colour = 1": '"red" | "blue"',
    'tags = "word"': "list of strings",
    "tags = [1]": "string",
    "weights = []": "table of numbers",
    'weights.a = "1"': "number",
}


@pytest.mark.parametrize("line", REFUSED)
def test_refused(problems, minimal, line):
    (problem,) = problems(minimal + line + "\n")
    assert problem.expected == REFUSED[line]
    assert problem.location.line == 8
    assert problem.location.source == line
    assert problem.owner == "toy_plugin"
    assert problem.help


def test_every_validator_of_a_table_is_heard(problems, minimal):
    found = problems(minimal + 'gamma = 2.0\nclip_range = -1.0\nfolder = "/etc"\nlow = 20\n')
    assert [problem.location.line for problem in found] == [8, 9, 10]
    found = problems(minimal + "low = 20\n")
    assert "high = 10 must be above low = 20" in found[0].what
    found = problems(minimal + "low = 20\nhigh = 3\ngamma = 2\n")
    assert [problem.location.line for problem in found] == [9, 10]


def test_a_default_is_not_shared(load, minimal):
    first, second = load(minimal).experiment, load(minimal).experiment
    assert first.trainer.options.tags is not second.trainer.options.tags


# -- every type that an options class may use --------------------------------------------------------------------------


def read(kernel, annotation, value, **options):
    """One option of the given type, read from Python data."""
    field = attrs.field(**options)
    made = attrs.make_class("Made", {"option": field}, frozen=True, kw_only=True)
    made.__annotations__ = {"option": annotation}

    def build(*, options):
        return options

    build.__annotations__ = {"options": made}
    import toy_targets

    toy_targets.made = build
    selection = select(kernel, "trainer", {"use": "toy_targets:made", "option": value})
    return selection.options.option


TYPES = [
    (int | None, None, None),
    (int | float, 3, 3),
    (int | float, 3.5, 3.5),
    (float | int, 3, 3),
    (int | bool, True, True),
    (str | tuple[str, ...], ["a", "b"], ("a", "b")),
    (Literal["auto"] | int, "auto", "auto"),
    (Literal["auto"] | int, 3, 3),
    (Literal[1, 2], 2, 2),
    (tuple[int, str], [1, "a"], (1, "a")),
    (tuple[float, float] | None, [1, 2], (1.0, 2.0)),
    (Sequence[int], [1], (1,)),
    (list, [1, "a"], [1, "a"]),
    (dict, {"a": {"b": 1}}, {"a": {"b": 1}}),
    (Mapping[str, tuple[int, ...]], {"a": [1]}, {"a": (1,)}),
    (Any, {"a": [1, 2.5, "b", True]}, {"a": [1, 2.5, "b", True]}),
    (Annotated[int, "a remark"], 4, 4),
    (tuple[Schedule, ...], [{"start": 1.0}], (Schedule(start=1.0),)),
    (dict[str, Schedule | None], {"a": {"start": 1.0}}, {"a": Schedule(start=1.0)}),
]


@pytest.mark.parametrize(("annotation", "value", "expected"), TYPES, ids=[str(i) for i in range(len(TYPES))])
def test_types(kernel, annotation, value, expected):
    result = read(kernel, annotation, value)
    assert result == expected
    assert type(result) is type(expected)


WRONG = [
    (int, True),
    (bool, 1),
    (Literal[1, 2], True),
    (Literal[1, 2], 1.0),
    (Literal["a"], "b"),
    (tuple[int, int], [1]),
    (tuple[int, ...], "12"),
    (list[str], "ab"),
    (Sequence[str], "ab"),
    (int, None),
    (Any, {"a": float("nan")}),
    (Any, object()),
    (dict, {1: 2}),
    (complex, 3),
    (int, 1j),
    (Schedule, {"strat": 1.0}),
    (str, b"x"),
]


@pytest.mark.parametrize(("annotation", "value"), WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_wrong_types(kernel, annotation, value):
    with pytest.raises(ExperimentError) as caught:
        read(kernel, annotation, value)
    assert caught.value.problems[0].location.file == "<python>"


def test_bounds_inside_lists_and_unions(kernel):
    bounded = each(at_least(1))
    assert read(kernel, tuple[int, ...], [1, 2], validator=bounded) == (1, 2)
    with pytest.raises(ExperimentError, match=r"expected: each >= 1"):
        read(kernel, tuple[int, ...], [1, 0], validator=bounded)


@attrs.frozen(kw_only=True)
class Cart:
    use: Literal["cart"] = "cart"
    wheels: int = 2


@attrs.frozen(kw_only=True)
class Sled:
    use: Literal["sled"] = "sled"
    dogs: int = 6


def test_a_table_among_several_is_the_one_it_names(kernel):
    assert read(kernel, Cart | Sled, {"use": "sled", "dogs": 2}) == Sled(dogs=2)
    assert read(kernel, Cart | Sled, {"wheels": 4}) == Cart(wheels=4)
    with pytest.raises(ExperimentError, match=r"wheels"):
        read(kernel, Cart | Sled, {"use": "sled", "wheels": 4})


def test_free_form_data_is_a_deep_copy(kernel):
    data = {"a": {"b": [1, {"c": 2}]}}
    result = read(kernel, Any, data)
    data["a"]["b"][1]["c"] = 3
    assert result == {"a": {"b": [1, {"c": 2}]}}


# -- from Python -------------------------------------------------------------------------------------------------------


def test_components_from_python(kernel):
    def make():
        return "environment"

    ready = select(kernel, "wrapper", {"use": "scale", "n": 2})
    data = {"name": "x", "env": make, "trainer": "toy", "wrappers": (ready, "scale"), "model": object(), "seed": 3}
    experiment = experiment_from_mapping(data, kernel=kernel).experiment
    assert experiment.env.instance is make
    assert experiment.wrappers[0] is ready
    assert experiment.wrappers[1].options.n == 1.0
    assert experiment.trainer.use == "toy"
    assert experiment.model.instance is data["model"]
    assert data["wrappers"][1] == "scale"


def test_an_environment_from_python_is_a_factory(kernel):
    with pytest.raises(ExperimentError, match="must be a factory"):
        select(kernel, "env", object())
    with pytest.raises(ExperimentError, match="must select a trainer"):
        select(kernel, "trainer", 3)
    with pytest.raises(ExperimentError, match="must be a trainer"):
        select(kernel, "trainer", select(kernel, "env", "grid"))


def test_qualified_names(kernel):
    selection = select(kernel, "trainer", "toy_plugin:toy")
    assert isinstance(selection, Selection)
    assert selection.target == "toy_targets:build"


def test_the_catalog_builds_what_was_selected(kernel):
    assert kernel.catalog.build(select(kernel, "workers", "inline")) == 2
    env = select(kernel, "env", {"use": "toy_targets:make_env", "height": 3, "labels": ["x"]})
    assert kernel.catalog.build(env, 7) == (7, 3, 1, ("x",))
    free = select(kernel, "env", {"use": "toy_targets:make_free", "anything": {"a": 1}})
    assert kernel.catalog.build(free) == {"anything": {"a": 1}}
    block = select(kernel, "block", {"use": "toy_targets:WithOptions", "hidden_units": [3]})
    assert block.options.hidden_units == (3,)
