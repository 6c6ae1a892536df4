"""Two public classes of the distributions never share a name, so that a name alone says what is meant."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEMPLATES = "plugin_template"


def public_classes():
    """Name to the modules that define a public class of it at module level."""
    places = defaultdict(list)
    files = [*ROOT.glob("maze_*/src/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py")]
    for file in sorted(file for file in files if TEMPLATES not in file.parts):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(file.relative_to(ROOT)))
    return places


def test_no_two_public_classes_share_a_name():
    places = public_classes()
    assert len(places) > 500
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}
