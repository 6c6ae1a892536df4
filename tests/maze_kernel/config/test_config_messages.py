"""Complete messages as a user reads them."""

import re
import textwrap

import pytest

from maze_kernel.config import load_experiment
from maze_kernel.errors import ExperimentError


def dedent(text):
    return textwrap.dedent(text).strip("\n")


def test_all_problems_of_a_file_in_its_order(load):
    text = dedent(
        """
        name = "a/b"
        seed = "7"

        [env]
        use = "grd"

        [[wrappers]]
        n = 2.0

        [trainer]
        use = "toy"
        lr = { start = -1, shape = "cosin" }
        gama = 0.9

        [vector]
        mode = "subproces"
        """
    )
    with pytest.raises(ExperimentError) as caught:
        load(text, "trainer.n_epochs=4.0", "trainer.device=cuda 1")
    assert caught.value.exit_code == 2
    assert caught.value.render() == dedent(
        """
        error: name: the name becomes a folder: letters, digits, - _ and . only, beginning with a letter or digit
          --> experiment.toml:1:8
            |
          1 | name = "a/b"
            |        ^^^^^
          = received: "a/b" (string)
          = owner: maze-kernel 0.1.0
          help: Names the folder of its runs: letters, digits, - _ and . only.

        error: seed has the wrong type
          --> experiment.toml:2:8
            |
          2 | seed = "7"
            |        ^^^
          = received: "7" (string)
          = expected: integer >= 0
          = owner: maze-kernel 0.1.0
          help: write 7 without quotes

        error: no env is called 'grd'
          --> experiment.toml:5:7
            |
          5 | use = "grd"
            |       ^^^^^
          = did you mean: grid
          help: run `maze list-plugins` to see what is installed

        error: wrappers.0 does not say which wrapper to use
          --> experiment.toml:7:3
            |
          7 | [[wrappers]]
            |   ^^^^^^^^
          = expected: use = one of "plain-wrapper", "scale"
          = owner: maze-kernel 0.1.0
          help: add use = "plain-wrapper"; maze list-plugins shows them all

        error: trainer.lr.start is out of range
          --> experiment.toml:12:16
             |
          12 | lr = { start = -1, shape = "cosin" }
             |                ^^
          = received: -1 (integer)
          = expected: > 0
          = owner: toy_plugin
          help: maze describe trainer toy lists the options

        error: trainer.lr.shape is not one of its values
          --> experiment.toml:12:28
             |
          12 | lr = { start = -1, shape = "cosin" }
             |                            ^^^^^^^
          = received: "cosin" (string)
          = expected: "linear" | "cosine"
          = owner: toy_plugin
          = did you mean: cosine
          help: maze describe trainer toy lists the options

        error: trainer.gama is not an option of trainer "toy"
          --> experiment.toml:13:1
             |
          13 | gama = 0.9
             | ^^^^
          = owner: toy_plugin
          = did you mean: gamma
          help: maze describe trainer toy lists the options

        error: no vector mode is called 'subproces'
          --> experiment.toml:16:8
             |
          16 | mode = "subproces"
             |        ^^^^^^^^^^^
          = did you mean: subprocess
          help: run `maze list-plugins` to see what is installed

        error: trainer.n_epochs has the wrong type
          --> command line
           |
           | --set trainer.n_epochs=4.0
           |                        ^^^
          = received: 4.0 (number)
          = expected: integer >= 0
          = owner: toy_plugin
          help: write 4

        error: the value given for trainer.device is not a TOML value
          --> command line
           |
           | --set trainer.device=cuda 1
           |                      ^^^^^^
          = received: cuda 1
          = expected: a TOML value: 3, 1e-3, true, "text", [64, 64]
          help: quote text, and the quotes from your shell: --set 'trainer.device="cuda 1"'
        """
    )


def one(problems, text, *overrides, **options):
    (problem,) = problems(text, *overrides, **options)
    return problem.render()


@pytest.mark.parametrize(("n_before", "which"), [(0, "first"), (1, "second"), (3, "4th")])
def test_what_a_table_of_many_lacks_is_added_there(problems, minimal, n_before, which):
    head = '[[model.heads]]\ndistribution = { use = "beta" }\n'
    whole = f'{head}space = "a"\n'
    told = one(problems, f'{minimal}[model]\nuse = "net"\n{whole * n_before}{head}')
    assert f"error: model.heads.{n_before}.space is missing" in told
    assert told.endswith(f"help: add space = ... in the {which} [[model.heads]] table")


def test_an_empty_file_says_what_is_needed(problems):
    assert [problem.render() for problem in problems("")] == [
        "error: name is missing\n"
        "  --> experiment.toml:1:1\n"
        "  = expected: string\n"
        "  = owner: maze-kernel 0.1.0\n"
        "  help: add name = ... at the top of the file",
        "error: env is missing\n"
        "  --> experiment.toml:1:1\n"
        "  = expected: { use = env, ... }\n"
        "  = owner: maze-kernel 0.1.0\n"
        '  help: add a table [env] with use = "grid"',
        "error: trainer is missing\n"
        "  --> experiment.toml:1:1\n"
        "  = expected: { use = trainer, ... }\n"
        "  = owner: maze-kernel 0.1.0\n"
        '  help: add a table [trainer] with use = "toy"',
    ]


def test_a_key_of_the_kernel_in_a_component(problems, minimal):
    assert one(problems, minimal + "n_envs = 4\n") == dedent(
        """
        error: trainer.n_envs is not an option of trainer "toy"
          --> experiment.toml:8:1
            |
          8 | n_envs = 4
            | ^^^^^^
          = owner: toy_plugin
          help: n_envs belongs in [vector]
        """
    )


def test_a_component_written_as_a_name(problems, minimal):
    assert one(problems, minimal.replace('[trainer]\nuse = "toy"', "").replace("[env]", 'trainer = "toy"\n[env]')) == (
        "error: trainer selects a trainer and must be a table\n"
        "  --> experiment.toml:3:11\n"
        "    |\n"
        '  3 | trainer = "toy"\n'
        "    |           ^^^^^\n"
        '  = received: "toy" (string)\n'
        '  = expected: a table with use = "..."\n'
        '  help: write use = "toy" in a table [trainer]'
    )


def test_wrappers_as_one_table(problems, minimal):
    rendered = one(problems, minimal + '[wrappers]\nuse = "scale"\n')
    assert "error: wrappers has the wrong type\n  --> experiment.toml:8:1\n" in rendered
    assert "= received: a table of 1 key\n" in rendered
    assert "  help: write [[wrappers]] with two brackets" in rendered


def test_a_plugin_that_failed_is_named(tmp_path):
    from types import SimpleNamespace

    from maze_kernel.components import TrainerComponent
    from maze_kernel.config import experiment_from_mapping
    from maze_kernel.hookspecs import hookimpl
    from maze_kernel.loader import Kernel

    broken = SimpleNamespace(__name__="maze_future", MAZE_PLUGIN_API=99)
    broken.maze_trainers = hookimpl(lambda: [TrainerComponent(name="future", target="x:y")])
    kernel = Kernel.of(broken)
    with pytest.raises(ExperimentError) as caught:
        experiment_from_mapping({"name": "x", "env": lambda: None, "trainer": "future"}, kernel=kernel)
    (problem,) = caught.value.problems
    assert "maze_future" in problem.render()
    assert "plugin API 99" in problem.render()


IMPORTS = {
    "no module": ("nowhere.deep:make", "there is no module nowhere", "install the package"),
    "no attribute": ("toy_targets:make_envs", "module toy_targets has no make_envs", "names a class or function"),
    "not callable": ("toy_targets:NOT_CALLABLE", "toy_targets:NOT_CALLABLE is not a class or function", "name a class"),
    "fails": ("toy_broken:make", "importing toy_broken failed", "correct that line; --traceback shows more"),
    "exits": ("toy_exits:make", "importing toy_exits failed", "correct that line; --traceback shows more"),
}


@pytest.mark.parametrize(("use", "what", "help_"), IMPORTS.values(), ids=IMPORTS.keys())
def test_import_paths_that_fail(problems, minimal, use, what, help_):
    (problem,) = problems(minimal.replace('use = "grid"', f'use = "{use}"'))
    assert problem.what == what
    assert help_ in problem.help
    assert str(problem.location) == "experiment.toml:4:7"
    assert ("failed" in what) == bool(re.search(r"toy_\w+\.py:1\)$", problem.received or ""))


def test_options_of_an_import_path(problems, minimal):
    text = minimal.replace('use = "grid"', 'use = "toy_targets:make_env"\nwidth = 3\nheight = "2"\nratio = true')
    first, second, third = problems(text)
    assert first.what == 'env.width is not an option of env "toy_targets:make_env"'
    assert first.help == "make width keyword-only: put * before it in the signature"
    assert (second.what, second.expected, second.owner) == (
        "env.height has the wrong type",
        "integer",
        "toy_targets:make_env",
    )
    assert (third.what, third.received) == ("env.ratio has the wrong type", "true (boolean)")


def test_an_import_path_may_be_forbidden(load, problems, minimal):
    text = minimal.replace('use = "grid"', 'use = "toy_targets:make_env"\nheight = 3')
    (problem,) = problems(text, import_paths=False)
    assert "toy_targets:make_env names code to import" in problem.what
    override = 'env={ use = "toy_targets:make_env", height = 2 }'
    assert load(text, override, import_paths=False).experiment.env.options["height"] == 2


def test_a_long_line_is_cut_around_the_place(problems, minimal):
    (problem,) = problems(minimal + f"tags = [{', '.join(['1.5'])}, " + ", ".join(['"word"'] * 100) + "]\n")
    assert problem.location.column == 9
    assert len(problem.location.source) < 150
    caret = problem.render().splitlines()[4]
    source = problem.render().splitlines()[3]
    assert source[caret.index("^") : caret.index("^") + 3] == "1.5"


def test_problems_of_python_data_name_their_origin(kernel):
    from maze_kernel.config import experiment_from_mapping

    with pytest.raises(ExperimentError) as caught:
        experiment_from_mapping(
            {"name": "x", "env": {"use": "grid", "size": 1}, "trainer": "toy"}, kernel=kernel, origin="RunContext"
        )
    assert caught.value.render() == dedent(
        """
        error: env.size is out of range
          --> RunContext
          = received: 1 (integer)
          = expected: >= 2
          = owner: toy_plugin
          help: maze describe env grid lists the options
        """
    )


def test_a_missing_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ExperimentError) as caught:
        load_experiment("nothing.toml")
    assert caught.value.render() == dedent(
        """
        error: there is no file nothing.toml
          --> nothing.toml
          help: name an experiment file, e.g. maze train cartpole.toml
        """
    )


def test_a_folder_in_the_place_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    with pytest.raises(ExperimentError) as caught:
        load_experiment("run")
    assert caught.value.render() == dedent(
        """
        error: cannot read run: Is a directory
          --> run
          help: name a readable TOML file; a run goes on with: maze train --resume run
        """
    )
