"""What `maze describe` and `maze schema` say of the first-party components."""

from pathlib import Path

import jsonschema
import pytest
import tomli

from maze_kernel.config import describe, schema

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("path", sorted((REPOSITORY / "examples").glob("*.toml")), ids=lambda path: path.name)
def test_the_shipped_examples_are_valid(kernel, path):
    made = jsonschema.Draft202012Validator(schema(kernel))
    data = tomli.loads(path.read_text())
    assert [error.message for error in made.iter_errors(data)] == []
    data["trainer"]["learning_rat"] = 1
    is_own = ":" in data["trainer"]["use"]  # of a class beside the file the schema knows no options
    assert made.is_valid(data) is is_own


def test_every_option_of_every_first_party_component_is_explained(kernel):
    entries = [entry for entry in kernel.catalog.entries() if entry.plugin.name.startswith("maze-")]
    silent = [
        f"{entry.component.kind} {entry.component.name}: {row.name}"
        for entry in entries
        if entry.component.kind != "preset"
        for row in describe(kernel, entry.component.kind, entry.qualified_name).options
        if not row.meaning
    ]
    assert len(entries) > 20
    assert silent == []
