"""What `maze describe` and `maze schema` say."""

import copy
import dataclasses
import itertools
import json
import subprocess
import sys
from types import SimpleNamespace

import attrs
import jsonschema
import pytest
import tomli
import toy_plugin
from toy_experiment import FULL

from maze_kernel.components import TrainerComponent
from maze_kernel.config import describe, experiment_from_mapping, load_experiment, schema, to_toml
from maze_kernel.config.description import options_of
from maze_kernel.config.experiment import Experiment
from maze_kernel.config.fields import is_options_class, union_members
from maze_kernel.errors import PluginError, RequestError
from maze_kernel.hookspecs import hookimpl
from maze_kernel.loader import Kernel


def rows(kernel, kind, name):
    return {row.name: row for row in describe(kernel, kind, name).options}


def test_options_of_an_attrs_class(kernel):
    described = rows(kernel, "trainer", "toy")
    assert list(described)[:5] == ["n_epochs", "device", "lr", "lr.start", "lr.end"]
    assert attrs.astuple(described["lr"])[:4] == (
        "lr",
        "number | { start, end?, shape? }",
        "0.00025",
        "Learning rate: a number, or a schedule over the budget.",
    )
    assert attrs.astuple(described["lr.start"])[1:3] == ("number > 0", "required")
    assert attrs.astuple(described["gamma"])[1:3] == ("number >= 0 and <= 1", "0.98")
    assert attrs.astuple(described["clip_range"])[1:3] == ("number > 0", "absent")
    assert attrs.astuple(described["colour"])[1:3] == ('"red" | "blue"', '"red"')
    assert attrs.astuple(described["weights"])[1:3] == ("table of numbers", "{}")
    assert described["n_epochs"].source == "toy_options.CommonOptions"
    assert described["gamma"].source == "toy_options.ToyTrainerOptions"


def test_the_paper_is_the_source(kernel):
    description = describe(kernel, "env", "grid")
    assert description.summary == "A small grid world."
    assert description.text == "A grid world."
    assert description.source == "Sutton and Barto 2018, example 3.5."
    assert {row.source for row in description.options} == {description.source}


def test_options_of_keyword_only_parameters(kernel):
    described = rows(kernel, "wrapper", "plain-wrapper")
    assert attrs.astuple(described["strength"])[1:4] == ("number", "required", "how much, over two lines.")
    assert attrs.astuple(described["mode"])[1:4] == ('"up" | "down"', '"up"', "which way.")
    assert described["hook"].default == "set in code"
    assert "env" not in described


def test_nested_selections_and_lists(kernel):
    described = rows(kernel, "model", "net")
    assert described["blocks"].type == "table of { use = block, ... }"
    assert described["heads[].space"].type == "string"
    assert "critic.use" not in described


def test_an_import_path_is_described(kernel):
    assert list(rows(kernel, "block", "toy_targets:WithOptions")) == ["hidden_units", "non_lin"]


def test_unknown_names(kernel):
    with pytest.raises(RequestError, match="no trainer is called 'tyo'"):
        describe(kernel, "trainer", "tyo")
    with pytest.raises(RequestError) as caught:
        describe(kernel, "trainers", "toy")
    assert caught.value.nearest == ("trainer",)
    with pytest.raises(RequestError) as caught:
        describe(kernel, "plain-wrapper", "")
    assert caught.value.help == "for example: maze describe wrapper plain-wrapper"


def test_every_option_of_the_kernels_tables_is_explained():
    classes = [Experiment]
    for field in attrs.fields(attrs.resolve_types(Experiment)):
        classes += [member for member in union_members(field.type) or [field.type] if is_options_class(member)]
    assert len(classes) >= 5
    for options_class in classes:
        described = options_of(options_class)
        assert described
        for row in described:
            if "." not in row.name:
                assert row.meaning, (options_class, row.name)


# -- schema ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def validator(kernel):
    made = json.loads(json.dumps(schema(kernel), allow_nan=False))
    jsonschema.Draft202012Validator.check_schema(made)
    return jsonschema.Draft202012Validator(made)


def test_a_full_experiment_is_valid(validator, minimal):
    assert list(validator.iter_errors(FULL)) == []
    assert list(validator.iter_errors(tomli.loads(minimal))) == []


def with_value(path, value):
    data = copy.deepcopy(FULL)
    container = data
    for part in path[:-1]:
        container = container[part]
    container[path[-1]] = value
    return data


MISTAKES = [
    (("nmae",), "x"),
    (("seed",), "7"),
    (("seed",), -1),
    (("env", "use"), "grd"),
    (("env", "siez"), 7),
    (("env", "goal"), [1]),
    (("env", "goal"), [1, 2, 3]),
    (("wrappers", 0, "m"), 3),
    (("wrappers", 1, "mode"), "sideways"),
    (("model", "blocks", "feature", "hidden_units"), 64),
    (("model", "blocks", "feature", "use"), "dens"),
    (("model", "heads", 0, "distribution", "use"), "bta"),
    (("trainer", "lr", "shape"), "cosin"),
    (("trainer", "lr"), "fast"),
    (("trainer", "clip_range"), 0),
    (("trainer", "lerning_rate"), 0),
    (("trainer", "colour"), "green"),
    (("vector", "mode"), "subproces"),
    (("vector", "n_env"), 3),
    (("plugins", "requires"), []),
    (("workers",), "inline"),
    (("loggers",), {"use": "paper"}),
]


@pytest.mark.parametrize(("path", "value"), MISTAKES, ids=[".".join(map(str, path)) for path, _ in MISTAKES])
def test_mistakes_are_seen_in_an_editor(validator, path, value):
    assert not validator.is_valid(with_value(path, value))


@pytest.mark.parametrize("use", ["toy_plugin:toy", "toy-plugin:toy", "Toy_plugin:toy"])
def test_the_schema_knows_the_spellings_of_a_plugin_that_the_kernel_takes(kernel, validator, minimal, use):
    written = {**tomli.loads(minimal), "trainer": {"use": use}}
    assert experiment_from_mapping(written, kernel=kernel).experiment.trainer.use == use
    assert validator.is_valid(written)
    written["trainer"]["nonsense"] = 3
    assert not validator.is_valid(written)


@pytest.mark.parametrize("path", [("env", "use"), ("trainer", "use")])
def test_import_paths_and_qualified_names_are_valid(validator, path):
    assert validator.is_valid(with_value(path, "my_package.module:Class"))
    qualified = {"env": "toy_plugin:grid", "trainer": "toy_plugin:toy"}[path[0]]
    assert validator.is_valid(with_value(path, qualified))
    mistaken = with_value(path, qualified)
    mistaken[path[0]]["nonsense"] = 3
    assert not validator.is_valid(mistaken)


def test_texts_defaults_and_bounds_reach_the_schema(kernel):
    made = schema(kernel)
    gamma = made["$defs"]["trainer.toy_plugin.toy"]["properties"]["gamma"]
    assert gamma == {
        "type": "number",
        "minimum": 0,
        "maximum": 1,
        "description": "Discount a step.",
        "default": 0.98,
    }
    assert made["properties"]["seed"]["description"] == "All randomness of a run follows from it."


def test_a_component_that_cannot_be_read_does_not_spoil_the_schema():
    broken = SimpleNamespace(__name__="half_broken", MAZE_PLUGIN_API=1)
    broken.maze_trainers = hookimpl(
        lambda: [
            TrainerComponent(name="gone", target="nowhere:Trainer"),
            TrainerComponent(name="gone-too", target="nowhere:Trainer", options="nowhere:Options"),
        ]
    )
    made = schema(Kernel.of(broken))
    assert "cannot be imported" in json.dumps(made)
    data = {"name": "x", "env": {"use": "a:b"}, "trainer": {"use": "gone", "anything": 1}}
    assert jsonschema.Draft202012Validator(made).is_valid(data)


def test_an_options_class_that_is_none_of_attrs_is_named_and_spoils_nothing():
    broken = SimpleNamespace(__name__="half_broken", MAZE_PLUGIN_API=1)
    options = f"{__name__}:DataclassOptions"
    broken.maze_trainers = hookimpl(lambda: [TrainerComponent(name="odd", target="toy_targets:build", options=options)])
    kernel = Kernel.of(broken, toy_plugin)
    assert "no class of attrs" in json.dumps(schema(kernel))
    assert describe(kernel, "trainer", "toy").options
    with pytest.raises(PluginError) as caught:
        describe(kernel, "trainer", "odd")
    assert "DataclassOptions" in caught.value.what
    assert caught.value.owner == "half_broken (trainer 'odd')"


@dataclasses.dataclass(frozen=True)
class DataclassOptions:
    bound: int = 1


def every_place(data, path=()):
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield (*path, key)
        yield from every_place(value, (*path, key))


PLACES = [
    *every_place(FULL),
    *(path for path, _ in MISTAKES),
    ("trainer", "gamma"),
    ("trainer", "bound"),
    ("env", "title"),
]
VALUES = [-1, 0, 2, 0.5, True, "a", "cosine", "dense", "toy_targets:make_env", [1, 2], ["a"], {"start": 2, "end": 1}]


@pytest.mark.slow
def test_what_the_kernel_accepts_the_schema_accepts(kernel, validator, tmp_path):
    """As the user wrote it, with no default filled in, and as the run directory keeps it."""
    path = tmp_path / "experiment.toml"
    n_accepted = 0
    for place, value in itertools.product(dict.fromkeys(PLACES), VALUES):
        text = to_toml(with_value(place, value))
        path.write_text(text, encoding="utf-8")
        try:
            loaded = load_experiment(path, kernel=kernel)
        except RequestError:
            continue
        n_accepted += 1
        for data in (tomli.loads(text), loaded.resolved):
            assert [error.message for error in validator.iter_errors(data)] == [], (place, value)
    assert n_accepted > 100, n_accepted


def test_reading_experiments_imports_neither_torch_nor_gymnasium(tmp_path):
    code = (
        "import sys\n"
        "import maze_kernel.config\n"
        "heavy = {'torch', 'gymnasium', 'numpy', 'jsonschema', 'cattrs', 'tomli', 'packaging'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "from maze_kernel.config import describe, load_experiment, schema, select, to_toml, inside_run_dir\n"
        "assert not {'torch', 'gymnasium', 'numpy', 'jsonschema'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
