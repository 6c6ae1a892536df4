"""Commands in messages can be copied into a shell."""

import shlex
from pathlib import Path

from maze_kernel.shown_command import shown_command


def test_words_are_quoted_where_a_shell_needs_it():
    assert shown_command("maze", "check", Path("pole.toml"), "--steps", 1000) == "maze check pole.toml --steps 1000"
    awkward = ["my runs", "it's", "a;b", "$HOME", "*.toml", 'loggers=[{use="csv"}]', ""]
    assert shlex.split(shown_command(*awkward)) == awkward


def test_each_setting_has_a_set_of_its_own():
    shown = shown_command("maze", "train", "my file.toml", settings=["trainer.lr=0.1", 'name="a b"'])
    assert shown == "maze train 'my file.toml' --set trainer.lr=0.1 --set 'name=\"a b\"'"
    assert shown_command(settings=["seed=1"]) == "--set seed=1"
