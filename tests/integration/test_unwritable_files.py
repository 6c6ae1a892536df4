"""A file that a command is to write and cannot is named, with no traceback."""

from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("new", "file/x.toml", "--env", "CartPole-v1"), "the experiment"),
        (("schema", "--out", "file/x.json"), "the schema"),
        (("schema", "--out", "folder"), "the schema"),
        (("sweep-schema", "--out", "file/x.json"), "the schema"),
        (("sweep-schema", "--out", "folder"), "the schema"),
        (("new-plugin", "maze-robots", "--out", "file"), "file/maze_robots"),
    ],
)
def test_what_cannot_be_written_is_named(maze, arguments, what):
    Path("file").write_text("kept")
    Path("folder").mkdir()
    done = maze(*arguments)
    assert done.exit_code == 2, done.stderr
    assert done.stderr.startswith(f"error: {what} cannot be written")
    assert "help: name another" in done.stderr
    assert "Traceback" not in done.stderr
    assert Path("file").read_text() == "kept"
    assert not list(Path("folder").iterdir())
