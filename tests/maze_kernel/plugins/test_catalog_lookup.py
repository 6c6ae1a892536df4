"""The catalog: collisions, nearest names, defaults, building."""

import types

import attrs
import pytest

from maze_kernel.catalog import Catalog, PluginRecord
from maze_kernel.components import DistributionComponent, LoggerComponent, ModelComponent, WrapperComponent
from maze_kernel.errors import ComponentError, PluginError, RequestError
from maze_kernel.hookspecs import hookimpl
from maze_kernel.loader import Kernel
from maze_kernel.selection import Selection


def plugin(name, **hooks):
    module = types.ModuleType(name)
    module.MAZE_PLUGIN_API = 1
    for hook, records in hooks.items():

        def implementation(records=records):
            return records

        implementation.__name__ = hook
        setattr(module, hook, hookimpl(lambda records=records: records))
    return module


def wrapper(name, target="package.module:Thing"):
    return WrapperComponent(name=name, target=target)


def test_identical_duplicates_collapse():
    kernel = Kernel.of(plugin("one", maze_wrappers=[wrapper("w")]), plugin("two", maze_wrappers=[wrapper("w")]))
    assert kernel.catalog.find("wrapper", "w").plugin.name == "one"
    assert len(kernel.catalog.entries("wrapper")) == 1


def test_of_two_different_ones_neither_wins_and_both_spellings_are_offered():
    kernel = Kernel.of(
        plugin("maze-one", maze_wrappers=[wrapper("w", "a:A")]), plugin("maze-two", maze_wrappers=[wrapper("w", "b:B")])
    )
    with pytest.raises(PluginError) as error:
        kernel.catalog.find("wrapper", "w")
    assert "maze-one" in error.value.received
    assert "maze-two" in error.value.received
    assert "use = 'maze-one:w' or use = 'maze-two:w'" in error.value.help
    assert kernel.catalog.find("wrapper", "maze-two:w").component.target == "b:B"


def test_one_name_may_serve_two_kinds():
    kernel = Kernel.of(
        plugin("one", maze_wrappers=[wrapper("x")], maze_models=[ModelComponent(name="x", target="a:M")])
    )
    assert kernel.catalog.find("model", "x").component.kind == "model"


def test_a_misspelt_name_gets_the_nearest_ones():
    names = ["reward-scaling", "reward-clipping", "time-limit"]
    kernel = Kernel.of(plugin("one", maze_wrappers=[wrapper(name) for name in names]))
    with pytest.raises(PluginError) as error:
        kernel.catalog.find("wrapper", "reward_scalling")
    assert error.value.nearest[0] == "reward-scaling"
    assert error.value.exit_code == 2
    with pytest.raises(PluginError) as error:
        kernel.catalog.find("trainer", "time-limit")
    assert "'time-limit' is a wrapper, not a trainer" in error.value.help


@pytest.mark.parametrize(
    ("kind", "use", "word", "distribution"),
    [
        ("block", "lstm", "block", "maze-blocks-recurrent"),
        ("trainer", "maze_ppo:a2c", "trainer", "maze-ppo"),
        ("workers", "subprocess", "worker pool", "maze-processes"),
        ("searcher", "optuna", "searcher", "maze-optuna"),
        ("command", "train", "command", "maze-runtime"),
    ],
)
def test_what_a_distribution_of_maze_brings_names_it(kind, use, word, distribution):
    with pytest.raises(PluginError) as error:
        Kernel.of(plugin("one", maze_wrappers=[wrapper("lstm")])).catalog.find(kind, use)
    assert error.value.what.startswith(f"no {word} is called {use!r}")
    assert error.value.help == f"it comes with {distribution}: pip install {distribution}"
    with pytest.raises(PluginError) as error:
        Catalog([record(distribution, "disabled")]).find(kind, use)
    assert error.value.help == f"take {distribution!r} out of `[plugins] disable`"
    with pytest.raises(PluginError) as error:
        Catalog([record(distribution, "failed")]).find(kind, use)
    assert "no module x" in error.value.what
    with pytest.raises(PluginError) as error:
        Catalog([record(distribution, "active")]).find(kind, use)  # of another version, say
    assert "pip install" not in error.value.help


def record(distribution, status):
    return PluginRecord(name=distribution, distribution=distribution, version="1", status=status, cause="no module x")


def test_what_others_call_alike_is_not_said_to_come_with_maze():
    for use in ("acme:ppo", "own-name"):
        with pytest.raises(PluginError) as error:
            Kernel.of().catalog.find("trainer", use)
        assert "pip install" not in error.value.help


@pytest.mark.parametrize(
    ("kind", "distribution"), [("model", "maze-perception"), ("trainer", "maze-ppo"), ("workers", "maze-processes")]
)
def test_a_default_that_is_missing_names_the_distribution_of_it(kind, distribution):
    with pytest.raises(PluginError, match="no plugin provides a default") as error:
        Kernel.of().catalog.default(kind)
    assert error.value.help == f"it comes with {distribution}: pip install {distribution}"


def test_an_empty_kernel_explains_itself():
    with pytest.raises(PluginError, match="none: no plugin offers one"):
        Kernel.of().catalog.find("env", "own-env")


def test_defaults():
    kernel = Kernel.of(
        plugin(
            "one",
            maze_loggers=[
                LoggerComponent(name="a", target="m:A", default=True),
                LoggerComponent(name="b", target="m:B"),
            ],
            maze_models=[ModelComponent(name="m", target="m:M", default=True)],
            maze_distributions=[DistributionComponent(name="d", target="m:D", default_for=("Discrete",))],
        )
    )
    assert [entry.component.name for entry in kernel.catalog.default("logger")] == ["a"]
    assert kernel.catalog.default("model").component.name == "m"
    assert kernel.catalog.default("distribution", "Discrete").component.name == "d"
    with pytest.raises(PluginError, match="default distribution for MultiBinary"):
        kernel.catalog.default("distribution", "MultiBinary")
    both = Kernel.of(
        *(
            plugin(name, maze_models=[ModelComponent(name=name, target="m:M", default=True)])
            for name in ("first", "second")
        )
    )
    with pytest.raises(PluginError, match="several plugins provide the default model"):
        both.catalog.default("model")


@attrs.frozen(kw_only=True)
class PairOptions:
    right: int = 2


class Pair:
    def __init__(self, left, options=None, *, right=0):
        self.left, self.right = left, options.right if options else right


class Failing:
    def __init__(self, error):
        raise error


@pytest.fixture
def selection(monkeypatch):
    module = types.ModuleType("catalog_lookup_targets")
    module.Pair, module.Failing = Pair, Failing
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)

    def select(attribute, options, **fields):
        target = f"{module.__name__}:{attribute}"
        return Selection(kind="block", use="pair", target=target, options=options, owner="toy 1.0", **fields)

    return select


def test_build_hands_options_as_an_instance_or_as_keywords(selection):
    catalog = Kernel.of().catalog
    assert catalog.build(selection("Pair", PairOptions(right=5)), "left").right == 5
    pair = catalog.build(selection("Pair", {"right": 7}), "left")
    assert (pair.left, pair.right) == ("left", 7)


def test_each_that_is_built_has_lists_and_tables_of_its_own(selection):
    catalog, thing = Kernel.of().catalog, object()
    given = {"right": {"names": ["a"], "pair": ({"x": 1}, thing)}}
    chosen = selection("Pair", given)
    first, second = (catalog.build(chosen, "left").right for _ in range(2))
    first["names"].append("b")
    first["pair"][0]["x"] = 2
    assert second == given["right"] == {"names": ["a"], "pair": ({"x": 1}, thing)}
    assert second["pair"][1] is thing


def test_an_instance_wins_and_an_environment_factory_is_called(selection):
    catalog = Kernel.of().catalog
    thing = object()
    assert catalog.build(selection("Pair", {}, instance=thing), "left") is thing
    env = attrs.evolve(selection("Pair", {}), kind="env", instance=lambda: thing)
    assert catalog.build(env) is thing


def test_foreign_exceptions_name_owner_and_phase(selection):
    catalog = Kernel.of().catalog
    with pytest.raises(ComponentError) as error:
        catalog.build(selection("Failing", {}), ValueError("seven"))
    assert error.value.owner == "toy 1.0 (block 'pair')"
    assert error.value.phase == "building block 'pair'"
    assert isinstance(error.value.__cause__, ValueError)
    with pytest.raises(PluginError, match="has no attribute 'Nothing'"):
        catalog.build(selection("Nothing", {}))


def test_maze_errors_pass_and_learn_their_owner(selection):
    with pytest.raises(RequestError) as error:
        Kernel.of().catalog.build(selection("Failing", {}), RequestError("no"))
    assert error.value.owner == "toy 1.0 (block 'pair')"
