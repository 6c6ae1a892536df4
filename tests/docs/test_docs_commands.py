"""Every block of README and docs is run, compared or checked, by a test here or by one that its mark names."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def _module(name):
    """A module beside this one."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[f"docs_{name}"] = module
    spec.loader.exec_module(module)
    return module


markdown = _module("markdown")
in_order = _module("pages_in_order")

ROOT = markdown.ROOT
BLOCKS = [block for page in markdown.PAGES for block in markdown.blocks(page)]
IN_ORDER = ("append", "exit", "bash", "here", "pytest", "check", "train", "printed")
SKIPPED = {
    "README.md": ["needs the internet: packages of an index"] * 3,
    "docs/upgrading.md": ["needs the internet: packages of an index"],
    "docs/how-to/gpu.md": ["needs the internet: packages of an index"],
    "docs/explanation/kinds.md": ["needs the internet: packages of an index"],
    "docs/explanation/results.md": ["needs the internet: packages of an index"],
    "docs/migrate/older-maze.md": ["commands of the older Maze, which does not install beside this one"],
}
"""The blocks that no test can run, by page. Another one needs a reason as good as these."""


def test_no_block_is_skipped_but_those_that_cannot_be_run():
    skipped = {}
    for block in BLOCKS:
        if block.kind == "skip":
            skipped.setdefault(str(block.page.relative_to(ROOT)), []).append(block.rest)
    assert skipped == SKIPPED


KINDS = {
    "console": {"", "append", "exit", "skip", "by"},
    "python": {"run", "file", "example", "here", "pytest", "code", "by"},
    "toml": {"", "file", "example", "check", "train", "preset", "excerpt", "code", "by"},
    "text": {"printed", "skip", "by"},
    "bash": {"bash"},
    "sh": {"skip"},
}


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.page.name not in markdown.WRITTEN], ids=str)
def test_every_block_says_how_it_is_tested(block):
    kinds = KINDS.get(block.language, ())
    assert block.kind in kinds, (
        f"{block}: put <!-- test: KIND --> before it; of {block.language or 'no language'}: {sorted(kinds)}"
    )


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.kind == "by"], ids=str)
def test_a_block_of_another_test_is_named_there(block):
    assert block.page.name in (ROOT / block.rest).read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


def is_run_in_order(page):
    return any(b.kind in IN_ORDER or (b.language == "console" and not b.kind) for b in markdown.blocks(page))


def of_page(shown, page):
    """An argument of a test: what the README shows runs with every test, what other pages show with the slow ones."""
    return pytest.param(shown, marks=[] if page.parent == ROOT else [pytest.mark.slow], id=str(shown))


SHOWN = [
    of_page(page.relative_to(ROOT), page)
    for page in markdown.PAGES
    if page.name not in markdown.WRITTEN and is_run_in_order(page)
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", SHOWN)
def test_the_blocks_of_a_page_run_in_order(page, folder):
    page = ROOT / page
    run, left_out = in_order.PageRun(page, folder, ROOT), []
    for block in markdown.blocks(page):
        lacking = in_order.missing(block)
        if lacking:
            left_out.append(f"{block} needs {', '.join(lacking)}")
        else:
            run.do(block)
    assert run.n_commands or left_out, f"nothing of {page} is run"
    if left_out:
        pytest.skip(f"all others ran, but {'; '.join(left_out)}")


TOML = [block for block in BLOCKS if block.language == "toml"]


@pytest.mark.parametrize("block", [block for block in TOML if not block.kind], ids=str)
def test_experiments_shown_are_valid(block):
    """A block without name, environment or trainer is a part of an experiment, completed here."""
    import tomli

    from maze_kernel.config import experiment_from_mapping

    experiment_from_mapping({**in_order.AROUND, **tomli.loads(block.text)}, kernel=None)


@pytest.mark.parametrize("block", [block for block in TOML if block.kind == "preset"], ids=lambda block: block.rest)
def test_presets_shown_are_what_they_give(block, kernel):
    import tomli

    from maze_kernel.config.presets import preset_table

    entry = kernel.catalog.find("preset", block.rest)
    assert tomli.loads(block.text) == preset_table(kernel.catalog, entry)
    assert f"### preset `{block.rest}`" in block.page.read_text(encoding="utf-8")


def test_every_preset_is_shown(kernel):
    """Those of this repository; others may be installed."""
    own = {
        path.parent.name.replace("_", "-") for pattern in ("", "plugins/") for path in ROOT.glob(f"{pattern}maze_*/src")
    }
    there = {entry.component.name for entry in kernel.catalog.entries("preset") if entry.plugin.name in own}
    assert {block.rest for block in TOML if block.kind == "preset"} == there
    assert len(there) >= 18


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.kind in ("example", "excerpt")], ids=str)
def test_files_shown_are_those_of_the_repository(block):
    if block.kind == "example":
        assert block.text == (ROOT / "examples" / block.rest).read_text(encoding="utf-8")
    else:
        assert block.text in (ROOT / block.rest).read_text(encoding="utf-8")


EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_valid_and_name_their_schema(example, monkeypatch):
    import json

    import tomli
    from jsonschema import Draft202012Validator

    from maze_kernel.config import load_experiment

    monkeypatch.syspath_prepend(str(example.parent))
    load_experiment(example)
    assert example.read_text().splitlines()[0] == "#:schema ./maze.schema.json"
    schema = json.loads((ROOT / "examples/maze.schema.json").read_text())
    problems = list(Draft202012Validator(schema).iter_errors(tomli.loads(example.read_text())))
    assert problems == []


PYTHON = [b for b in BLOCKS if b.language == "python" and (b.kind == "run" or b.page.parent == ROOT)]


@pytest.mark.parametrize("block", [of_page(block, block.page) for block in PYTHON])
def test_python_examples_run(block, tmp_path):
    """Those marked "run examples" import modules of that folder."""
    path = os.pathsep.join(filter(None, [str(ROOT / "examples"), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path} if block.rest == "examples" else None
    command = [sys.executable, "-c", block.text]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_the_python_examples_of_the_readme_have_ten_lines():
    shown = [block for block in PYTHON if block.page.name == "README.md"]
    assert len(shown) == 2
    for block in shown:
        assert len([line for line in block.text.splitlines() if line.strip()]) <= 10


INLINE = sorted(
    {
        command
        for page in [*markdown.PAGES, ROOT / "benchmarks/README.md"]
        if page.parent.name != "api"
        for command in re.findall(r"`(python benchmarks/\S+\.py[^`]*)`", page.read_text(encoding="utf-8"))
        if "…" not in command
    }
)


@pytest.mark.slow
@pytest.mark.parametrize("command", INLINE)
def test_scripts_that_texts_name_take_their_arguments(command, folder):
    done, printed = in_order.PageRun(ROOT, folder, ROOT).execute(command, command.split())
    assert done.returncode == 0, printed


def test_what_is_printed_is_compared_by_its_words():
    shown = "seed  state  best\n1  done  463.6\n…\nbetter  than  95 %\nppo  a2c  0.67  3 … 5"
    printed = "seed state best\n1 done 9\n2 done 1,000.5\nbetter than 95 %\na2c ppo – 7"
    assert in_order.unlike(shown, printed) is None
    assert in_order.unlike(shown, printed.replace("than", "then")) == "better  than  95 %"
    assert in_order.unlike("2 done 9\n1 failed 9", printed) == "1 failed 9"
