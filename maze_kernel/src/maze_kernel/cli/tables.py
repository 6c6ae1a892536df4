"""Tables on stdout: rich on a terminal, aligned plain text in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows of text under a header; without names in the header only the rows."""
    cells = [[str(cell) for cell in row] for row in rows]
    (_print_rich if sys.stdout.isatty() else _print_plain)(header, cells)


def _print_rich(header: Sequence[str], rows: list[list[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False, show_header=any(header))
    for name in header:
        table.add_column(name)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def _print_plain(header: Sequence[str], rows: list[list[str]]) -> None:
    lines = [list(header), *rows] if any(header) else rows
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))] if lines else []
    for row in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
