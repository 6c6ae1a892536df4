"""The texts that stand beside options in the source: the string under each field, the Args section of a docstring."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Callable
from itertools import pairwise, takewhile
from typing import Any

import attrs

_SECTION = re.compile(r"[A-Z][A-Za-z ]*:\s*$")
_ENTRY = re.compile(r"(\w+)(?:\s*\([^)]*\))?:\s*(.*)")


@attrs.frozen(kw_only=True)
class Texts:
    """What the source says about a component's options.

    Attributes:
        summary: docstring without its sections, one paragraph a line.
        source: what follows "Source:" in the docstring, e.g. a paper; "" without one.
        fields: option name to meaning.
        origins: option name to the "Source:" of the class that declares it, else the class's full name.
    """

    summary: str = ""
    source: str = ""
    fields: dict[str, str] = attrs.field(factory=dict)
    origins: dict[str, str] = attrs.field(factory=dict)


def texts_of_class(options_class: type) -> Texts:
    """Of an attrs class; fields of a parent keep the parent's text and source."""
    fields: dict[str, str] = {}
    origins: dict[str, str] = {}
    for owner in filter(attrs.has, reversed(options_class.__mro__)):
        declared = inspect.get_annotations(owner)
        _, source = _split_docstring(owner.__doc__)
        origins.update(dict.fromkeys(declared, source or f"{owner.__module__}.{owner.__qualname__}"))
        fields.update(_field_literals(owner))
    summary, source = _split_docstring(options_class.__dict__.get("__doc__"))
    return Texts(summary=summary, source=source, fields=fields, origins=origins)


def texts_of_target(target: Callable[..., Any]) -> Texts:
    """Of a function, or of a class with its `__init__`, whose Args section documents its parameters."""
    fields = _arguments(target.__doc__)
    if inspect.isclass(target):
        fields = {**fields, **_arguments(target.__init__.__doc__)}
    summary, source = _split_docstring(target.__doc__)
    name = f"{target.__module__}.{getattr(target, '__qualname__', type(target).__qualname__)}"
    return Texts(summary=summary, source=source, fields=fields, origins=dict.fromkeys(fields, source or name))


@functools.cache
def _field_literals(options_class: type) -> dict[str, str]:
    try:
        source = textwrap.dedent(inspect.getsource(options_class))
        body = ast.parse(source).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        return {}
    if not isinstance(body, ast.ClassDef):
        return {}
    texts = {}
    for pair in pairwise(body.body):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                texts[name] = " ".join(text.split())
    return texts


def _split_docstring(text: str | None) -> tuple[str, str]:
    """The prose before any section, and what follows "Source:"."""
    lines = inspect.cleandoc(text or "").splitlines()
    prose = takewhile(lambda line: not _SECTION.fullmatch(line), lines)
    before, _, after = "\n".join(prose).partition("Source:")
    if not after:
        after = "\n".join(lines).partition("Source:")[2].split("\n\n")[0]
    paragraphs = [" ".join(paragraph.split()) for paragraph in before.split("\n\n")]
    return "\n".join(paragraph for paragraph in paragraphs if paragraph), " ".join(after.split())


def _arguments(text: str | None) -> dict[str, str]:
    """Name to meaning, of a Google-style Args section."""
    entries: dict[str, list[str]] = {}
    current: list[str] | None = None
    inside, depth = False, None
    for line in filter(str.strip, inspect.cleandoc(text or "").splitlines()):
        if not line.startswith(" "):
            inside = line.strip() in ("Args:", "Arguments:")
            continue
        if not inside:
            continue
        indent = len(line) - len(line.lstrip())
        depth = indent if depth is None else depth
        entry = _ENTRY.fullmatch(line.strip()) if indent == depth else None
        if entry is not None:
            current = entries.setdefault(entry.group(1), [entry.group(2)])
        elif current is not None:
            current.append(line.strip())
    return {name: " ".join(parts) for name, parts in entries.items()}
