"""One self-contained HTML page of sections: figures, tables, numbers and text, with the style inside and no script."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

import attrs
from jinja2 import Environment, StrictUndefined


@attrs.frozen(kw_only=True)
class PageFigure:
    """A picture.

    Attributes:
        svg: the element; it stands in the page as it is.
        legend: classes of a colour, and what has it.
    """

    caption: str
    svg: str
    legend: Sequence[tuple[str, str]] = ()


@attrs.frozen(kw_only=True)
class PageTable:
    """A table."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@attrs.frozen(kw_only=True)
class PageSection:
    """A part of the page; what is empty is left out.

    Attributes:
        cards: name and value of the few numbers that matter.
        figures: beside each other where there is room.
        wide_figures: below each other; they scroll where they do not fit.
        has_small_figures: three beside each other, not two.
        code: caption and text.
    """

    title: str
    text: Sequence[str] = ()
    cards: Sequence[tuple[str, str]] = ()
    figures: Sequence[PageFigure] = ()
    wide_figures: Sequence[PageFigure] = ()
    has_small_figures: bool = False
    tables: Sequence[PageTable] = ()
    code: Sequence[tuple[str, str]] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.text or self.cards or self.figures or self.wide_figures or self.tables or self.code)


def build_page(title: str, about: str, sections: Sequence[PageSection]) -> str:
    """The page as text; nothing in it is fetched from anywhere.

    Args:
        title: heading.
        about: the line below it.
        sections: in their order; empty ones are left out.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    folder = files("maze_reports")
    template = environment.from_string((folder / "page.html").read_text(encoding="utf-8"))
    return template.render(
        title=title,
        about=about,
        style=(folder / "page.css").read_text(encoding="utf-8"),
        sections=[section for section in sections if not section.is_empty],
    )
