"""Does what a page says, block by block, in one folder: writes its files, runs its commands, compares what is printed.

A kind of block is a method of `PageRun`.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import shutil
import subprocess
import sys

MAZE = (sys.executable, "-c", "from maze_kernel.cli import main; main()")
AROUND = {"name": "shown", "env": {"use": "gym", "id": "CartPole-v1"}, "trainer": {"use": "ppo"}}
SHORT = ("trainer.n_epochs=1", "trainer.epoch_length=1", "evaluation.n_episodes=1")
README_TRAINING = ["--set", "trainer.n_epochs=2"]
DEADLINE = 280
# A script begins, reads its arguments and stops there; one without any is loaded and not begun.
TAKES_ARGUMENTS = """
import argparse, os, runpy, sys

class Read(Exception):
    pass

def read(self, arguments=None, namespace=None, parse=argparse.ArgumentParser.parse_args):
    parse(self, arguments, namespace)
    raise Read

argparse.ArgumentParser.parse_args = read
script, *arguments = sys.argv[1:]
sys.argv = [script, *arguments]
sys.path.insert(0, os.path.dirname(script))
has_any = "ArgumentParser" in open(script).read()
if arguments and not has_any:
    sys.exit(f"{script} takes no arguments: {arguments}")
try:
    runpy.run_path(script, run_name="__main__" if has_any else "loaded")
except Read:
    sys.exit(0)
sys.exit(f"{script} did not read its arguments" if has_any else 0)
"""


def is_there(name):
    """Whether a distribution or a program is installed."""
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return shutil.which(name) is not None
    return True


def missing(block):
    """Of what a block needs, what is not installed."""
    return [name for name in block.needs if not is_there(name)]


class PageRun:
    """One page, in a folder that has the examples."""

    def __init__(self, page, folder, root):
        self.page, self.folder, self.root = page, folder, root
        self.n_commands = 0
        self.printed: list[str] = []
        self.environment = {**os.environ, "MPLBACKEND": "agg", "MINARI_DATASETS_PATH": str(folder / "minari")}

    def do(self, block):
        """Do what the block's mark asks for; blocks of other tests are left to them."""
        kind = block.kind or ("append" if block.language == "console" else "")
        method = getattr(self, f"do_{kind}", None)
        if method is not None:
            method(block)

    def run(self, command, **where):
        """The finished process, and what it printed as one text."""
        settings = {"cwd": self.folder, "env": self.environment, **where}
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, **settings)
        return done, f"{done.stdout}\n{done.stderr}"

    def succeed(self, block, command):
        """Run something that must end well."""
        done, printed = self.run(command)
        assert done.returncode == 0, f"{block}:\n{printed}"
        return printed

    def do_file(self, block):
        """Write it."""
        (self.folder / block.rest).write_text(block.text, encoding="utf-8")

    def do_append(self, block):
        """Run its commands, with these arguments at the end of each."""
        self.commands(block, shlex.split(block.rest))

    def do_exit(self, block):
        """Run its commands, which end with this exit code."""
        self.commands(block, [], int(block.rest))

    def commands(self, block, more, code=0):
        self.printed = []
        for line in block.text.splitlines():
            assert line.startswith("$ "), f"{block}: a console block holds commands only"
            self.n_commands += 1
            arguments = [*shlex.split(line[2:]), *more]
            if self.page.name == "README.md" and arguments[:2] == ["maze", "train"]:
                arguments += README_TRAINING
            done, printed = self.execute(block, arguments)
            assert done.returncode == code, f"{block}: {line}\n{printed}"
            assert "Traceback" not in done.stderr, f"{block}: {line}\n{done.stderr}"
            self.printed.append(printed)

    def execute(self, block, arguments):
        """Commands of `maze` run; make and scripts of this repository show that they take what they are given."""
        program, *rest = arguments
        if program == "make":
            return self.run(["make", "-n", *rest], cwd=self.root)
        if program == "python":
            return self.run([sys.executable, "-c", TAKES_ARGUMENTS, *rest], cwd=self.root)
        assert program == "maze", f"{block}: docs show only commands of make, maze and python, not {program}"
        return self.run([*MAZE, *rest])

    def do_bash(self, block):
        """Run it as a script."""
        self.n_commands += 1
        self.succeed(block, ["bash", "-ec", block.text])

    def do_here(self, block):
        """Run Python code where the commands before it ran."""
        self.n_commands += 1
        self.succeed(block, [sys.executable, "-c", block.text])

    def do_pytest(self, block):
        """Run it as a file of tests."""
        self.n_commands += 1
        (self.folder / "test_shown.py").write_text(block.text, encoding="utf-8")
        self.succeed(block, [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shown.py"])

    def do_check(self, block):
        """Check a part of an experiment: over a file of the page, or over what every experiment has."""
        self.n_commands += 1
        self.succeed(block, [*MAZE, "check", self.completed(block)])

    def do_train(self, block):
        """Train one epoch with a part of an experiment, completed in the same way."""
        self.n_commands += 1
        settings = [word for item in SHORT for word in ("--set", item)]
        self.succeed(block, [*MAZE, "train", self.completed(block), *settings, "--out", f"part-{block.line}"])

    def completed(self, block):
        import tomli

        from maze_kernel.config import to_toml

        base = tomli.loads((self.folder / block.rest).read_text(encoding="utf-8")) if block.rest else AROUND
        name = f"part-{block.line}.toml"
        (self.folder / name).write_text(to_toml({**base, **tomli.loads(block.text)}), encoding="utf-8")
        return name

    def do_printed(self, block):
        """Compare it with what the commands before it printed, figures and places of the run aside."""
        assert self.printed, f"{block}: no command stands before it"
        missed = [unlike(block.text, printed) for printed in self.printed]
        assert None in missed, f"{block}: nothing printed is like {missed}\n" + "\n".join(self.printed)


FIGURE = re.compile(r"(?<![\w/.-])(?:\d{4}-\d\d-\d\d \d\d:\d\d|-?\d[\d,.]*|–|never)(?![\w-])")


def words(line):
    """A line with `#` in place of figures, of ranges of figures, and of what stands for none."""
    return re.sub(r"# … #", "#", FIGURE.sub("#", line)).split()


def unlike(shown, printed):
    """The first line shown that is not printed behind those before it; None where all are.

    A line with figures has the same words in any order: which of two groups is better may differ. `…` stands for what
    is left out: lines, or the end of a line.
    """
    left = iter([words(line) for line in printed.splitlines()])
    for line in shown.splitlines():
        wanted = words(line)
        if wanted in ([], ["…"]):
            continue
        if not any(is_like(own, wanted) for own in left):
            return line
    return None


def is_like(own, wanted):
    """Whether the words of a line are those wanted; see `unlike`."""
    if wanted[-1] == "…":
        return own[: len(wanted) - 1] == wanted[:-1]
    return own == wanted or ("#" in wanted and sorted(own) == sorted(wanted))
