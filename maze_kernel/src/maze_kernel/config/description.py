"""What a component's options are, as rows for `maze describe`, README tables and the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from maze_kernel.catalog import nearest
from maze_kernel.components import COMPONENT_TYPES, load_attribute
from maze_kernel.config import fields as f
from maze_kernel.config.bounds import expected_by
from maze_kernel.config.choices import Choices
from maze_kernel.config.documentation import Texts, texts_of_class, texts_of_target
from maze_kernel.config.resolved import plain
from maze_kernel.errors import RequestError

if TYPE_CHECKING:
    from maze_kernel.loader import Kernel

REQUIRED_TEXT = "required"
ABSENT_TEXT = "absent"
CODE_TEXT = "set in code"
_DEEPEST = 3


@attrs.frozen(kw_only=True)
class OptionRow:
    """One option as a user reads it."""

    name: str
    """`lr`; `lr.start` for a key of a nested table."""
    type: str
    """E.g. "integer >= 1"."""
    default: str
    """As TOML writes it; "required"; "absent" where leaving it out has a meaning of its own."""
    meaning: str
    source: str
    """The paper its class names, else the class or function that declares it."""


@attrs.frozen(kw_only=True)
class ComponentDescription:
    """A component and its options."""

    kind: str
    name: str
    summary: str
    owner: str
    """Distribution and version."""
    target: str
    text: str
    """What its options class or target says about itself."""
    source: str
    """The paper it names, or ""."""
    options: tuple[OptionRow, ...]


def describe(kernel: Kernel, kind: str, name: str) -> ComponentDescription:
    """Everything an experiment can say about one component.

    Args:
        name: as behind `use =`: "ppo", "maze-ppo:ppo" or "module:Class".

    Raises:
        RequestError: there is no such kind or component, or it cannot be imported.
    """
    require_kind(kernel, kind)
    choice = Choices(kernel.catalog).choose(kind, name, None)
    options_class = choice.fields.options_class
    texts = texts_of_class(options_class) if options_class else texts_of_target(load_attribute(choice.target))
    return ComponentDescription(
        kind=kind,
        name=name,
        summary=choice.summary or texts.summary.partition("\n")[0],
        owner=choice.owner,
        target=choice.target,
        text=texts.summary,
        source=texts.source,
        options=tuple(rows_of(choice.fields, texts)),
    )


def require_kind(kernel: Kernel, kind: str) -> None:
    """Refuse what is no kind of component; where it is the name of a component, the help says how to describe that."""
    if kind not in COMPONENT_TYPES:
        meant = next((own.component.kind for own in kernel.catalog.entries() if own.component.name == kind), None)
        raise RequestError(
            f"there is no kind of component called {kind!r}",
            expected=f"one of {', '.join(COMPONENT_TYPES)}",
            nearest=nearest(kind, COMPONENT_TYPES),
            help=f"for example: maze describe {f'{meant} {kind}' if meant else 'trainer ppo'}",
        )


def options_of(options_class: type) -> tuple[OptionRow, ...]:
    """The rows of one attrs class, for instance one of the kernel's own tables."""
    return tuple(rows_of(f.fields_of_class(options_class), texts_of_class(options_class)))


def rows_of(fields: f.OptionFields, texts: Texts, prefix: str = "", depth: int = 1) -> list[OptionRow]:
    """One row an option, those of a nested table after it."""
    rows = []
    for field in fields.fields:
        bounds = expected_by(getattr(field.attribute, "validator", None))
        rows.append(
            OptionRow(
                name=prefix + field.name,
                type=f.show_type(str) if field.inline is not None else f.show_bounded_type(field.annotation, bounds),
                default=_default_text(field.inline or field.default),
                meaning=texts.fields.get(field.name, ""),
                source=texts.origins.get(field.name, ""),
            )
        )
        nested = _nested_class(field.annotation) if depth < _DEEPEST else None
        if nested is not None:
            cls, suffix = nested
            inner = f"{prefix}{field.name}{suffix}."
            rows += rows_of(f.fields_of_class(cls), texts_of_class(cls), inner, depth + 1)
    return rows


def _nested_class(annotation: Any) -> tuple[type, str] | None:
    """The attrs class that a field holds, directly, in a list or in a table."""
    for member in f.union_members(annotation) or (annotation,):
        if f.selection_kind(member) is not None:
            continue
        member, _ = f.strip_annotated(member)
        if f.is_options_class(member):
            return member, ""
        items, inner = f.list_members(member), f.table_member(member)
        if items is not None and f.is_options_class(items[0]) and f.selection_kind(items[0]) is None:
            return items[0], "[]"
        if f.is_options_class(inner):
            return inner, ".*"  # type: ignore[return-value]
    return None


def _default_text(default: Any) -> str:
    if default is f.REQUIRED:
        return REQUIRED_TEXT
    default = plain(default)
    if default is None:
        return ABSENT_TEXT
    return inline_toml(default) if isinstance(default, (bool, int, float, str, list, dict)) else CODE_TEXT


def inline_toml(value: Any) -> str:
    """Plain data on one line, as TOML writes it."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {inline_toml(item)}" for key, item in value.items()) + " }" if value else "{}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(inline_toml(item) for item in value) + "]"
    return f.show_literal(value)
