"""Sphinx settings; `make docs` builds the pages."""

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
