"""Sphinx settings; `make docs` builds the pages."""

import inspect
import re

import attrs
from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

project = "Maze"
author = "The Maze authors"
copyright = author
release = version = "0.1.0"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # an attribute that is also a field is described once
suppress_warnings = ["ref.python"]  # names of maze_suite stand on two pages, and either will do

copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

html_theme = "furo"
html_title = "Maze"
html_show_sourcelink = False
html_math_renderer = "mathml"  # what browsers draw themselves, without a script from elsewhere
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5fa8", "color-brand-content": "#1f5fa8"},
    "dark_css_variables": {"color-brand-primary": "#7fb5f5", "color-brand-content": "#7fb5f5"},
}


def setup(app):
    """Connect what the pages need; see each function."""
    app.connect("source-read", lambda _app, _name, source: source.append(_with_files(source.pop())))
    app.connect("autodoc-process-docstring", _as_restructured_text, priority=400)  # before napoleon
    app.connect("autodoc-before-process-signature", _with_plain_defaults, priority=900)  # behind preserved defaults
    app.connect("autodoc-skip-member", _is_for_messages)
    app.add_html_math_renderer("mathml", (_inline_formula, None), (_formula, None))


def _inline_formula(translator, node):
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def _formula(translator, node):
    translator.body.append(f'<div class="formula">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def _with_files(text):
    """Pages link to READMEs beside the sources, which are no pages here: the site carries copies of the files."""
    return re.sub(r"\]\((\.\./\.\./[^)]+\.md)\)", r"](path:\1)", text)


def _as_restructured_text(_app, what, _name, _object, _options, lines):
    """Docstrings have Markdown's `name` and fenced blocks; what Sphinx reads has ``name`` and literal blocks."""
    lines[:] = _literal_blocks(lines)
    if what in ("attribute", "property", "data"):
        lines[:0] = ["..", ""]  # napoleon would take what stands before a colon in the first line for a type


class _Text:
    """Shown as it is in a signature."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


def _with_plain_defaults(_app, function, _is_bound):
    """The constructor that attrs writes has `attr_dict['x'].default` in its source; shown is what that holds."""
    fields = getattr(function, "__globals__", {}).get("attr_dict")
    if fields is None:
        return
    signature = inspect.signature(function)
    own = {name.lstrip("_"): field for name, field in fields.items()}
    parameters = [
        parameter.replace(default=_Text(_default(own[parameter.name])))
        if parameter.name in own and parameter.default is not parameter.empty
        else parameter
        for parameter in signature.parameters.values()
    ]
    function.__signature__ = signature.replace(parameters=parameters)


def _default(field):
    """A field's default as it would be written: values as they are, calls of a factory, enough of long ones."""
    if not isinstance(field.default, attrs.Factory):
        return repr(field.default)
    factory = field.default.factory
    empty = {dict: "{}", list: "[]", tuple: "()", set: "set()"}
    return empty.get(factory) or ("…" if field.default.takes_self else f"{getattr(factory, '__name__', '…')}()")


def _is_for_messages(_app, _what, name, _object, _skip, _options):
    """What the reader of experiment files looks up to suggest a name is no part of the API; None: others decide."""
    return True if name in ("ALIASES", "OWN_NAMES") else None


def _literal_blocks(lines):
    fenced, written = False, []
    for line in lines:
        mark = re.match(r"(\s*)```(\w*)\s*$", line)
        if not mark:
            written.append(f"   {line}" if fenced else _inline(line))
        else:
            fenced = not fenced
            written += ["", f"{mark[1]}.. code-block:: {mark[2] or 'text'}", ""] if fenced else [""]
    return written


def _inline(line):
    line = re.sub(r"(?<![`:])`([^`]+)`(?!`)", r"``\1``", line)
    return re.sub(r"(?<=, )\*(?=\w+\))", r"\*", line)  # the shape (B, *shape) emphasises nothing
