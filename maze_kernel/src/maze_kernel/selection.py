"""A component that was chosen with its options: what an experiment hands to everybody who builds or asks something."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import attrs

from maze_kernel.components import load_attribute
from maze_kernel.errors import Location, RequestError


@attrs.frozen(kw_only=True)
class Selection:
    """A component chosen by `use`, with its checked options.

    Options classes nest selections as `Annotated[Selection, "block"]` (the kind), also inside `dict[str, ...]`,
    `tuple[..., ...]` and `... | None`.
    """

    kind: str
    use: str
    """As written: "ppo", "maze-ppo:ppo" or "my_package.module:Class"."""
    target: str
    """"module:attribute" that builds it."""
    options: Any
    """An instance of the component's attrs options class, or a plain dict of keyword arguments where it has none; read one of them with `option`."""  # noqa: E501
    owner: str
    """Distribution and version that provide it, e.g. "maze-ppo 0.1.0"; the target itself for an import path."""
    location: Location | None = attrs.field(default=None, eq=False)
    places: Mapping[str, Location] = attrs.field(factory=dict, eq=False, repr=False)
    """Where the value of each option that was given stands; of those that are tables also each key, as "table.key"."""
    instance: Any = attrs.field(default=None, eq=False)
    """An object (or, for an environment, a factory) given from Python in place of a target."""

    def option(self, name: str, default: Any = None) -> Any:
        """The value of one option; `default` where the component has none of that name.

        An object given from Python is asked for its attribute `options`.
        """
        options = self.options if self.instance is None else getattr(self.instance, "options", None)
        return read_option(options, name, default)

    def with_options(self, **changes: Any) -> Selection:
        """The same component with these options replaced.

        Raises:
            RequestError: it has no option of that name or refuses the value, or it was given as an object.
        """
        if self.instance is not None:
            raise RequestError(
                f"{self.kind} {self.use!r} was given as an object, so its options cannot be replaced",
                received=", ".join(changes),
                help="give the component by name or as a table",
            )
        if unknown := [name for name in changes if not self.takes(name)]:
            raise RequestError(
                f"{self.kind} {self.use!r} has no option {', '.join(unknown)}", location=self.location, owner=self.owner
            )
        if isinstance(self.options, Mapping):
            return attrs.evolve(self, options={**self.options, **changes})
        try:
            return attrs.evolve(self, options=attrs.evolve(self.options, **changes))
        except (TypeError, ValueError) as error:
            what = f"{self.kind} {self.use!r} refuses {', '.join(changes)}: {error.args[0]}"
            raise RequestError(what, location=self.location, owner=self.owner) from error

    def takes(self, name: str) -> bool:
        """Whether the component has an option of that name that can be replaced."""
        if self.instance is not None:
            return False
        if not isinstance(self.options, Mapping):
            return attrs.has(type(self.options)) and _attribute(self.options, name) is not None
        if name in self.options:
            return True
        # A default that has no TOML form, None for instance, is not among the options.
        parameters = inspect.signature(load_attribute(self.target)).parameters
        kinds = {parameter.kind for parameter in parameters.values()}
        asked = parameters.get(name)
        return inspect.Parameter.VAR_KEYWORD in kinds or (asked is not None and asked.kind is asked.KEYWORD_ONLY)


def read_option(options: Any, name: str, default: Any = None) -> Any:
    """One option of an instance of an options class or of a mapping; `default` where it has none of that name."""
    if isinstance(options, Mapping):
        return options.get(name, default)
    attribute = _attribute(options, name) if attrs.has(type(options)) else None
    return getattr(options, attribute or name, default)


def own_copies(value: Any) -> Any:
    """Lists and tables anew, since whoever is given them may write into them; other objects as they are."""
    if type(value) is dict:
        return {key: own_copies(part) for key, part in value.items()}
    return type(value)(map(own_copies, value)) if type(value) in (list, tuple) else value


def _attribute(options: Any, name: str) -> str | None:
    """The attribute that holds an option: a private one is written without its underscore."""
    return next((field.name for field in attrs.fields(type(options)) if name == (field.alias or field.name)), None)
