"""Sphinx settings; `make docs` builds the pages."""

import re

project = "Maze"
author = "The Maze authors"
copyright = author
release = version = "0.1.0"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
html_theme = "alabaster"
html_theme_options = {"description": "Applied reinforcement learning, every part a plugin.", "fixed_sidebar": True}


def setup(app):
    """Pages link to READMEs beside the sources, which are no pages here: the site carries copies of the files."""
    app.connect("source-read", lambda _app, _name, source: source.append(_with_files(source.pop())))


def _with_files(text):
    return re.sub(r"\]\((\.\./\.\./[^)]+\.md)\)", r"](path:\1)", text)
