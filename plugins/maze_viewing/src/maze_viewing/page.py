"""One self-contained HTML page for several episodes: pictures, data, style and script are all inside."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files

import attrs
from jinja2 import Environment, StrictUndefined

from maze_viewing.episodes import ShownEpisode


def build_page(title: str, about: Mapping[str, str], episodes: Sequence[ShownEpisode]) -> str:
    """The page as text; nothing in it is fetched from anywhere.

    Args:
        title: heading.
        about: lines below it, e.g. who played.
        episodes: at least one.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    folder = files("maze_viewing")
    template = environment.from_string((folder / "page.html").read_text(encoding="utf-8"))
    return template.render(
        title=title,
        about=about,
        style=(folder / "page.css").read_text(encoding="utf-8"),
        script=(folder / "page.js").read_text(encoding="utf-8"),
        data=_json_for_script([attrs.asdict(episode) for episode in episodes]),
    )


def _json_for_script(data: object) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
