"""A file's bytes to checked TOML data: encoding, size, nesting and syntax. What the data mean is read elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import tomli

from maze_kernel.catalog import nearest
from maze_kernel.config.origin import Origin, excerpt
from maze_kernel.config.positions import Span, find_positions
from maze_kernel.errors import Location, RequestError
from maze_kernel.shown_command import shown_command

MAX_BYTES = 1 << 20
MAX_DEPTH = 32

_TWICE = ("overwrite", "declare", "namespace", "duplicate", "redefine")
_LONG_NUMBER = re.compile(r"\d[\d_]{3000,}")


def read_toml(path: Path) -> tuple[str, dict[str, Any], Origin]:
    """The text, the data and the origin of a TOML file.

    Raises:
        RequestError: the file cannot be read, is too large, is not UTF-8 text or is not TOML.
    """
    file = str(path)
    text = _decode(_read_bytes(path, file), file)
    return text, *parse_toml(text, file)


def parse_toml(text: str, file: str) -> tuple[dict[str, Any], Origin]:
    """The data and the origin of TOML text."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    origin = Origin(file=file, text=text)
    try:
        data = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise _syntax_error(error, origin) from None
    except RecursionError:
        raise _too_deep(file) from None
    except ValueError as error:
        raise _unreadable_value(error, origin) from None
    if deeper_than(data, MAX_DEPTH):
        raise _too_deep(file)
    origin.places = find_positions(text)
    return data, origin


def _read_bytes(path: Path, file: str) -> bytes:
    location = Location(file=file)
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        near = tuple(str(path.with_name(name)) for name in files_beside(path, ".toml"))
        raise RequestError(
            f"there is no file {file}",
            location=location,
            nearest=near,
            help="name an experiment file, e.g. maze train cartpole.toml",
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        resume = f"; a run goes on with: {shown_command('maze', 'train', '--resume', file)}"
        next_step = f"name a readable TOML file{resume if isinstance(error, IsADirectoryError) else ''}"
        raise RequestError(f"cannot read {file}: {reason}", location=location, help=next_step) from None
    if len(content) > MAX_BYTES:
        raise RequestError(
            f"{file} is too large for an experiment file",
            location=location,
            received=f"more than {MAX_BYTES} bytes",
            expected="a TOML file of a few kilobytes",
            help="check that you named the right file",
        )
    return content


def files_beside(path: Path, suffix: str) -> tuple[str, ...]:
    """Names of files in the folder of a path that are spelt like its own."""
    try:
        return nearest(path.name, sorted(entry.name for entry in path.parent.iterdir() if entry.suffix == suffix))
    except OSError:
        return ()


def _decode(content: bytes, file: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line_start = before.rfind(b"\n") + 1
        source = content[line_start:].split(b"\n", 1)[0].decode("utf-8", errors="replace").rstrip("\r")
        column = len(content[line_start : error.start].decode("utf-8")) + 1
        raise RequestError(
            "the file is not UTF-8 text",
            location=excerpt(file, before.count(b"\n") + 1, column, source),
            received=f"byte 0x{content[error.start]:02x}",
            expected="UTF-8",
            help="save the file with UTF-8 encoding",
        ) from None


def _syntax_error(error: tomli.TOMLDecodeError, origin: Origin) -> RequestError:
    line_start = origin.text.rfind("\n", 0, error.pos) + 1
    source = origin.text[line_start:].split("\n", 1)[0]
    twice = any(word in error.msg.lower() for word in _TWICE)
    key = re.match(r"[\s[]*([^\]=\s]+)", source) if twice else None
    span = Span(error.pos, error.pos + 1)
    location = origin.span(span if key is None else Span(line_start + key.start(1), line_start + key.end(1)))
    return RequestError(
        f"not valid TOML: {error.msg[:1].lower()}{error.msg[1:]}",
        location=location,
        help="a key or table stands there twice: keep one" if twice else _syntax_help(source),
    )


def _syntax_help(source: str) -> str:
    if "\0" in source:
        return "remove the NUL character; was the file cut off or written by something else?"
    if (value := re.fullmatch(r"\s*[\w.-]+\s*=\s*([A-Za-z_][\w./:-]*)\s*(#.*)?", source)) is not None:
        word = value.group(1)
        if word.lower() in ("true", "false"):
            return f"write {word.lower()} in lower case"
        if word.lower() in ("none", "null", "nil"):
            return "TOML has no null: leave the key out"
        return f'quote text: "{word}"'
    return "https://toml.io shows the syntax on one page"


def _unreadable_value(error: ValueError, origin: Origin) -> RequestError:
    found = _LONG_NUMBER.search(origin.text)
    location = Location(file=origin.file, line=1, column=1) if found is None else origin.span(Span(*found.span()))
    return RequestError(f"a value cannot be read: {error}", location=location, help="write a smaller number")


def _too_deep(file: str) -> RequestError:
    return RequestError(
        "tables or lists are nested too deeply",
        location=Location(file=file, line=1, column=1),
        expected=f"at most {MAX_DEPTH} levels",
        help=f"keep tables and lists at most {MAX_DEPTH} levels deep",
    )


def deeper_than(data: Any, limit: int) -> bool:
    """Whether more than `limit` tables and lists lie in one another."""
    level = [data]
    for _ in range(limit):
        level = [
            child
            for container in level
            for child in (container.values() if isinstance(container, dict) else container)
            if isinstance(child, (dict, list))
        ]
    return bool(level)
