"""Every command of README and docs runs, in the order of its page, and every TOML and Python block holds."""

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("docs_markdown", Path(__file__).with_name("markdown.py"))
markdown = importlib.util.module_from_spec(_spec)
sys.modules["docs_markdown"] = markdown
_spec.loader.exec_module(markdown)

ROOT = markdown.ROOT
WITH_COMMANDS = [page for page in markdown.PAGES if any(b.language == "console" for b in markdown.blocks(page))]
README_TRAINING = ["--set", "trainer.n_epochs=2"]


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


def execute(arguments, folder):
    if arguments[0] == "make":
        return subprocess.run(["make", "-n", *arguments[1:]], cwd=ROOT, capture_output=True, text=True)
    assert arguments[0] == "maze", f"docs show only make and maze commands, not {arguments[0]}"
    command = [sys.executable, "-c", "from maze_kernel.cli import main; main()", *arguments[1:]]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)


# The README runs with every test; the other pages, which take longer, with the slow ones.
SHOWN = [
    pytest.param(page, marks=[] if page.parent == ROOT else [pytest.mark.slow], id=str(page.relative_to(ROOT)))
    for page in WITH_COMMANDS
]


@pytest.mark.parametrize("page", SHOWN)
def test_commands_of_a_page_run_in_order(page, folder):
    n_commands = 0
    for block in markdown.blocks(page):
        kind, _, rest = block.mark.partition(" ")
        if kind == "file":
            (folder / rest).write_text(block.text)
        if block.language != "console" or kind == "skip":
            continue
        for line in block.text.splitlines():
            assert line.startswith("$ "), f"{block}: a console block holds commands only"
            n_commands += 1
            arguments = shlex.split(line[2:])
            if kind == "append" or (page.name == "README.md" and arguments[:2] == ["maze", "train"]):
                arguments += shlex.split(rest) if kind == "append" else README_TRAINING
            done = execute(arguments, folder)
            expected = int(rest) if kind == "exit" else 0
            assert done.returncode == expected, f"{block}: {line}\n{done.stdout}\n{done.stderr}"
            assert "Traceback" not in done.stderr, f"{block}: {line}\n{done.stderr}"
    assert n_commands, f"every console block of {page} is skipped"


TOML = [b for page in markdown.PAGES for b in markdown.blocks(page) if b.language == "toml" and "skip" not in b.mark]
NEEDS_FILES = ("file", "example")


@pytest.mark.parametrize("block", [b for b in TOML if not b.mark.startswith(NEEDS_FILES)], ids=str)
def test_experiments_shown_are_valid(block):
    """A block without name, environment or trainer is a part of an experiment, completed here."""
    import tomli

    from maze_kernel.config import experiment_from_mapping

    around = {"name": "shown", "env": {"use": "gym", "id": "CartPole-v1"}, "trainer": {"use": "ppo"}}
    experiment_from_mapping({**around, **tomli.loads(block.text)}, kernel=None)


SHOWN_FILES = [b for page in markdown.PAGES for b in markdown.blocks(page) if b.mark.startswith("example ")]


@pytest.mark.parametrize("block", SHOWN_FILES, ids=str)
def test_files_shown_are_the_examples(block):
    assert block.text == (ROOT / "examples" / block.mark.removeprefix("example ")).read_text(encoding="utf-8")


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


PYTHON = [
    b
    for page in markdown.PAGES
    for b in markdown.blocks(page)
    if b.language == "python" and (b.mark in ("run", "run examples") or page.name == "README.md")
]


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_examples_run(block, tmp_path):
    """Those marked "run examples" import modules of that folder."""
    path = os.pathsep.join(filter(None, [str(ROOT / "examples"), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path} if block.mark == "run examples" else None
    command = [sys.executable, "-c", block.text]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_the_python_examples_of_the_readme_have_ten_lines():
    shown = [block for block in PYTHON if block.page.name == "README.md"]
    assert len(shown) == 2
    for block in shown:
        assert len([line for line in block.text.splitlines() if line.strip()]) <= 10
