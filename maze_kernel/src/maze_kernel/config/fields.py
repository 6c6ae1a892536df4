"""The options of a component as one list of fields, whether an attrs class or keyword-only parameters state them."""

from __future__ import annotations

import enum
import inspect
import sys
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import attrs

from maze_kernel.selection import Selection

REQUIRED: Any = attrs.NOTHING
"""Default of a field that must be given."""

OR_OBJECT = "or an object"
"""Remark of an option, `Annotated[str, "or an object"]`: from Python also what has no TOML form, e.g. a class."""


@attrs.frozen(kw_only=True)
class OptionField:
    """One option.

    Attributes:
        annotation: the resolved type; Any where none is written or it cannot be resolved.
        default: REQUIRED if it has none; a default made by a factory is made anew for each field list.
        attribute: of the attrs class, with its validator and metadata; None for a parameter.
    """

    name: str
    annotation: Any = Any
    default: Any = REQUIRED
    attribute: Any = None

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def allows_non_finite(self) -> bool:
        """`metadata={"finite": False}`: the option takes NaN and infinity."""
        return self.attribute is not None and self.attribute.metadata.get("finite") is False

    @property
    def inline(self) -> str | None:
        """`metadata={"inline": "auto"}`: a component written by its name alone, its options beside it in the same table; the word is written where none is selected, and is empty where one has to be."""  # noqa: E501
        return None if self.attribute is None else self.attribute.metadata.get("inline")


@attrs.frozen(kw_only=True)
class OptionFields:
    """The options a component takes and how they are handed over.

    Attributes:
        fields: in the order they are written.
        options_class: the attrs class to make, or None: a dict of keyword arguments.
        extra: whether keys beyond `fields` are allowed, for a target with `**kwargs`.
        positional: parameters that are no options because they are not keyword-only.
    """

    fields: tuple[OptionField, ...]
    options_class: type | None = None
    extra: bool = False
    positional: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)


def fields_of_class(options_class: type) -> OptionFields:
    """The fields of an attrs class, inherited ones first."""
    fields = [
        OptionField(
            name=(attribute.alias or attribute.name),
            annotation=_class_annotation(options_class, attribute),
            default=_default(attribute.default),
            attribute=attribute,
        )
        for attribute in attrs.fields(options_class)
        if attribute.init
    ]
    return OptionFields(fields=tuple(fields), options_class=options_class)


def fields_of_target(target: Callable[..., Any]) -> OptionFields:
    """The options of a class or function: an attrs class annotated on `options`, else its keyword-only parameters.

    Raises:
        TypeError: the target's parameters cannot be read.
    """
    try:
        parameters = inspect.signature(target).parameters
    except ValueError as error:
        raise TypeError(f"its parameters cannot be read: {error}") from None
    function = target.__init__ if inspect.isclass(target) else target
    if (options := parameters.get("options")) is not None:
        annotation = _parameter_annotation(options, function)
        if inspect.isclass(annotation) and attrs.has(annotation):
            return fields_of_class(annotation)
    keyword_only = [p for p in parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    fields = [
        OptionField(
            name=parameter.name,
            annotation=_parameter_annotation(parameter, function),
            default=REQUIRED if parameter.default is inspect.Parameter.empty else parameter.default,
        )
        for parameter in keyword_only
    ]
    kinds = {parameter.kind for parameter in parameters.values()}
    positional = [p.name for p in parameters.values() if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    return OptionFields(
        fields=tuple(fields), extra=inspect.Parameter.VAR_KEYWORD in kinds, positional=tuple(positional)
    )


def _default(default: Any) -> Any:
    if type(default).__name__ == "Factory":
        return REQUIRED if default.takes_self else default.factory()
    return default


def _class_annotation(options_class: type, attribute: Any) -> Any:
    for owner in options_class.__mro__:
        annotations = inspect.get_annotations(owner)
        if attribute.name in annotations:
            module = sys.modules.get(owner.__module__)
            return resolve(annotations[attribute.name], vars(module) if module else {}, vars(owner))
    return Any if attribute.type is None else attribute.type


def _parameter_annotation(parameter: inspect.Parameter, function: Any) -> Any:
    if parameter.annotation is inspect.Parameter.empty:
        return Any
    function = inspect.unwrap(function)
    return resolve(parameter.annotation, getattr(function, "__globals__", {}), {})


def resolve(annotation: Any, namespace: dict[str, Any], local: Any) -> Any:
    """The type an annotation means; Any for one that names what only a type checker imports."""
    if not isinstance(annotation, str):
        return annotation
    try:
        holder = types.SimpleNamespace(__annotations__={"value": annotation})
        return typing.get_type_hints(holder, namespace, dict(local), include_extras=True)["value"]
    except Exception:
        return Any


# -- taking types apart ------------------------------------------------------------------------------------------------


def union_members(annotation: Any) -> tuple[Any, ...] | None:
    """The members of `A | B`, without None; None if it is no union."""
    if typing.get_origin(annotation) in (Union, types.UnionType):
        return tuple(member for member in typing.get_args(annotation) if member is not type(None))
    return None


def is_optional(annotation: Any) -> bool:
    """Whether None is a member of the union."""
    return typing.get_origin(annotation) in (Union, types.UnionType) and type(None) in typing.get_args(annotation)


def strip_annotated(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """`Annotated[T, ...]` to T and its remarks; a NewType to what it stands for."""
    remarks: tuple[Any, ...] = ()
    while True:
        if typing.get_origin(annotation) is Annotated:
            annotation, *more = typing.get_args(annotation)
            remarks = (*remarks, *more)
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        else:
            return annotation, remarks


def selection_kind(annotation: Any) -> str | None:
    """The kind of `Annotated[Selection, "block"]`; None for any other type."""
    stripped, remarks = strip_annotated(annotation)
    kinds = [remark for remark in remarks if isinstance(remark, str)]
    return kinds[0] if stripped is Selection and kinds else None


def is_enum(annotation: Any) -> bool:
    """Whether it is an Enum, written as the value of a member."""
    return inspect.isclass(annotation) and issubclass(annotation, enum.Enum)


def is_options_class(annotation: Any) -> bool:
    """Whether it is an attrs class, written as a table."""
    return inspect.isclass(annotation) and attrs.has(annotation)


def list_members(annotation: Any) -> tuple[Any, tuple[Any, ...] | None] | None:
    """For a list type `(item type, None)`; for a tuple of fixed length `(Any, item types)`; None for others."""
    origin = typing.get_origin(annotation) or annotation
    arguments = typing.get_args(annotation)
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        return Any, arguments
    if origin in _LIST_TYPES:
        return (arguments[0] if arguments else Any), None
    return None


def table_member(annotation: Any) -> Any | None:
    """X of `dict[str, X]` and `Mapping[str, X]`; None for other types."""
    origin = typing.get_origin(annotation) or annotation
    if origin not in _TABLE_TYPES:
        return None
    arguments = typing.get_args(annotation)
    return arguments[1] if len(arguments) == 2 else Any


_LIST_TYPES = (list, tuple, typing.get_origin(typing.Sequence[int]), typing.get_origin(typing.Iterable[int]))
_TABLE_TYPES = (dict, typing.get_origin(typing.Mapping[str, int]), typing.get_origin(typing.MutableMapping[str, int]))


def show_type(annotation: Any) -> str:
    """The type as a user reads it: "integer", `"auto" | "cpu"`, "list of numbers", "table of blocks"."""
    if (members := union_members(annotation)) is not None:
        return " | ".join(dict.fromkeys(show_type(member) for member in members))
    if (kind := selection_kind(annotation)) is not None:
        return f"{{ use = {kind}, ... }}"
    annotation, _ = strip_annotated(annotation)
    if typing.get_origin(annotation) is Literal:
        return " | ".join(show_literal(value) for value in typing.get_args(annotation))
    if is_enum(annotation):
        return " | ".join(show_literal(member.value) for member in annotation)
    if annotation in _SCALAR_NAMES:
        return _SCALAR_NAMES[annotation]
    return _show_container(annotation)


def show_bounded_type(annotation: Any, bounds: str | None) -> str:
    """A type with what a validator asks for: "number > 0"; choices are not said twice."""
    shown = show_type(annotation)
    if not bounds or (bounds.startswith("one of ") and '"' in shown):
        return shown
    return f"{shown}, {bounds}" if bounds[0].isalpha() else f"{shown} {bounds}"


def _show_container(annotation: Any) -> str:
    if (items := list_members(annotation)) is not None:
        item, fixed = items
        if fixed is not None:
            return "[" + ", ".join(show_type(member) for member in fixed) + "]"
        return "list" if item in (Any, object) else f"list of {_enclosed(item)}"
    if (member := table_member(annotation)) is not None:
        return "table" if member in (Any, object) else f"table of {_enclosed(member)}"
    if is_options_class(annotation):
        names = [f.name if f.required else f"{f.name}?" for f in fields_of_class(annotation).fields]
        return "{ " + ", ".join(names) + " }"
    return getattr(annotation, "__name__", str(annotation))


def _enclosed(annotation: Any) -> str:
    shown = show_type(annotation)
    if annotation in (bool, int, float, str, Path):
        return f"{shown}s"
    return f"({shown})" if " | " in shown else shown


def show_literal(value: Any) -> str:
    """A scalar as TOML spells it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if isinstance(value, str) else str(value)


_SCALAR_NAMES: dict[Any, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    Path: "path",
    Any: "any value",
    object: "any value",
}
