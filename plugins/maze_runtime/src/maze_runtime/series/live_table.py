"""A table that is redrawn while runs go on; where nobody watches a terminal, lines instead."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from rich.live import Live
    from rich.table import Table

_REDRAW_SECONDS = 0.2


class LiveTable:
    """Rows of text on standard error; a context manager.

    Args:
        header: names of the columns.
        silent: show nothing at all.
    """

    def __init__(self, header: Sequence[str], *, silent: bool = False) -> None:
        self._header = list(header)
        self._silent = silent
        self._live: Live | None = None
        self._drawn = 0.0

    def __enter__(self) -> LiveTable:
        if not self._silent and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)
            self._live = None

    def show(self, rows: Sequence[Sequence[str]], caption: str = "") -> None:
        """Redraw the table, at most five times a second."""
        now = time.monotonic()
        if self._live is not None and now - self._drawn >= _REDRAW_SECONDS:
            self._drawn = now
            self._live.update(self._table(rows, caption), refresh=True)

    def say(self, line: str) -> None:
        """A line that stays: above the table, or by itself."""
        if self._silent:
            return
        if self._live is not None:
            self._live.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=sys.stderr, flush=True)

    def _table(self, rows: Sequence[Sequence[str]], caption: str) -> Table:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False, caption=caption or None)
        for name in self._header:
            table.add_column(name)
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        return table
