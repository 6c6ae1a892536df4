"""Generated and damaged experiments: an experiment or RequestErrors with a place, nothing else."""

import copy
import enum
import math
import typing
from pathlib import Path

import attrs
import pytest
import tomli
import toy_options
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toy_experiment import FULL

from maze_kernel.config import experiment_from_mapping, load_experiment, to_toml
from maze_kernel.config.experiment import Experiment
from maze_kernel.errors import RequestError
from maze_kernel.selection import Selection

scalars = st.one_of(
    st.integers(),
    st.booleans(),
    st.floats(),
    st.text(st.characters(codec="utf-8"), max_size=6),
    st.sampled_from(["7", "true", "1e-3", "scale", "grid", "toy_targets:make_env", "dense", "../x", "os:system"]),
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["use", "n", "lr", "x y"]), inner),
    max_leaves=6,
)


def places(data, path=()):
    yield path
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


@st.composite
def damaged(draw):
    data = copy.deepcopy(FULL)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([path for path in places(data) if path]))
        container = data
        for part in path[:-1]:
            container = container[part]
        action = draw(st.sampled_from(["replace", "delete", "rename", "add"]))
        if action == "delete":
            del container[path[-1]]
        elif action == "rename" and isinstance(container, dict):
            container[draw(st.text(st.characters(codec="utf-8"), max_size=5))] = container.pop(path[-1])
        elif action == "add" and isinstance(container, dict):
            container[draw(st.sampled_from(["n_envs", "uses", "lr", "x"]))] = draw(anything)
        else:
            container[path[-1]] = draw(anything)
    return data


def assert_exact(value, annotation=None):
    """No value of an experiment has been converted to another type."""
    if isinstance(value, Selection):
        options = value.options
        for item in options.values() if isinstance(options, dict) else [options]:
            assert_exact(item)
    elif attrs.has(type(value)):
        hints = typing.get_type_hints(type(value))
        for field in attrs.fields(type(value)):
            item = getattr(value, field.name)
            if hints[field.name] in (int, float, str, bool):
                assert type(item) is hints[field.name]
                if hints[field.name] is float and field.name != "bound":
                    assert math.isfinite(item)
            assert_exact(item)
    elif isinstance(value, (list, tuple)):
        assert not any(isinstance(item, str) and len(value) > 50 for item in value)
        for item in value:
            assert_exact(item)
    else:
        assert value is None or isinstance(value, (int, float, str, bool, dict, enum.Enum))


def check(read):
    """Whatever is read is a valid experiment, or says where it is wrong."""
    try:
        loaded = read()
    except RequestError as error:
        problems = error.problems
    else:
        problems = ()
    if problems:
        for problem in problems:
            assert isinstance(problem, RequestError)
            assert problem.location is not None
            assert problem.what
            assert "INVALID" not in (problem.expected or "")
            assert all(character.isprintable() for line in problem.render().split("\n") for character in line)
        return None
    assert isinstance(loaded.experiment, Experiment)
    assert_exact(loaded.experiment)
    return loaded


relaxed = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.mark.slow
@relaxed
@given(damaged())
def test_damaged_structure_from_python_and_from_toml(kernel, tmp_path, data):
    check(lambda: experiment_from_mapping(data, kernel=kernel))
    path = tmp_path / "experiment.toml"
    try:
        text = to_toml(data)
        tomli.loads(text)
    except (tomli.TOMLDecodeError, UnicodeEncodeError, ValueError):
        return
    path.write_text(text, encoding="utf-8", newline="")
    loaded = check(lambda: load_experiment(path, kernel=kernel))
    if loaded is not None:
        again = experiment_from_mapping(loaded.resolved, kernel=kernel)
        assert again.experiment == loaded.experiment
        assert again.resolved == loaded.resolved
        assert tomli.loads(to_toml(loaded.resolved)) == loaded.resolved


REPOSITORY = Path(__file__).parents[3]
REAL = [to_toml(FULL), *(path.read_text() for path in sorted((REPOSITORY / "examples").glob("*.toml")))]


@pytest.mark.parametrize("text", REAL, ids=[str(i) for i in range(len(REAL))])
@relaxed
@given(st.data())
def test_damaged_bytes(kernel, tmp_path, text, data):
    content = bytearray(text.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        length = data.draw(st.integers(0, 6))
        content[start : start + length] = data.draw(
            st.binary(max_size=4)
            | st.sampled_from([b"[[", b'"', b"=", b"\n", b"{", b"}", b"]", b"'''", b"#", b".", b"1e9"])
        )
    path = tmp_path / "experiment.toml"
    path.write_bytes(bytes(content))
    check(lambda: load_experiment(path, kernel=kernel))


@relaxed
@given(
    st.text(st.characters(codec="utf-8"), max_size=30), st.sampled_from(["", "trainer.", "wrappers.0.", "env.extra."])
)
def test_any_override(kernel, tmp_path, text, prefix):
    path = tmp_path / "experiment.toml"
    path.write_text(to_toml(FULL))
    check(lambda: load_experiment(path, overrides=[prefix + text], kernel=kernel))
    check(lambda: load_experiment(path, overrides=[prefix + "n=" + text], kernel=kernel))


# -- valid experiments survive being resolved --------------------------------------------------------------------------

finite = st.floats(allow_nan=False, allow_infinity=False)
words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=8)
plain = st.recursive(
    st.integers(-(2**63), 2**63 - 1) | st.booleans() | finite | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def valid(draw):
    def maybe(table, name, strategy):
        if draw(st.booleans()):
            table[name] = draw(strategy)

    env, trainer, data = {"use": "grid"}, {"use": "toy"}, {"name": "valid"}
    maybe(env, "size", st.integers(2, 100))
    maybe(env, "extra", st.dictionaries(words, plain, max_size=3))
    maybe(trainer, "lr", finite | st.fixed_dictionaries({"start": st.floats(1e-9, 1e9)}))
    maybe(trainer, "clip_range", st.floats(1e-9, 1e9) | st.integers(1, 9))
    maybe(trainer, "colour", st.sampled_from([colour.value for colour in toy_options.Colour]))
    maybe(trainer, "tags", st.lists(words, max_size=3))
    maybe(trainer, "weights", st.dictionaries(words, finite | st.integers(-9, 9), max_size=3))
    maybe(data, "seed", st.integers(0, 2**62))
    wrapper = st.sampled_from([{"use": "scale", "n": 3}, {"use": "plain-wrapper", "strength": 1, "mode": "down"}])
    maybe(data, "wrappers", st.lists(wrapper, max_size=3))
    block = st.sampled_from([{"use": "dense"}, {"use": "dense", "hidden_units": []}])
    maybe(data, "model", st.fixed_dictionaries({"use": st.just("net"), "blocks": st.dictionaries(words, block)}))
    return {**data, "env": env, "trainer": trainer}


@relaxed
@given(valid())
def test_resolving_and_reading_again_changes_nothing(kernel, data):
    before = copy.deepcopy(data)
    loaded = experiment_from_mapping(data, kernel=kernel)
    assert data == before
    text = to_toml(loaded.resolved)
    again = experiment_from_mapping(tomli.loads(text), kernel=kernel)
    assert again.experiment == loaded.experiment
    assert again.resolved == loaded.resolved
