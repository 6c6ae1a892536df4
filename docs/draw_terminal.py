"""Draws what a command shows in a terminal, as an SVG. Needs `pip install pyte`.

    python docs/draw_terminal.py FILE.svg SHARE TITLE COMMAND…

The command runs in a terminal of its own, 100 columns wide; the picture is its screen after SHARE (0 to 1) of what it
wrote. Nothing is drawn that was not on that screen.
"""

from __future__ import annotations

import os
import pty
import re
import sys

import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

COLUMNS, LINES = 100, 24
REDRAWN = b"\r\x1b[2K"
"""Back to the beginning of the line, and erase it."""


def output_of(command: list[str]) -> bytes:
    """What the command writes to its terminal."""
    child, terminal = pty.fork()
    if not child:
        os.environ |= {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(LINES)}
        os.execvp(command[0], command)
    parts = []
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the terminal is closed
            break
        if not part:
            break
        parts.append(part)
    os.waitpid(child, 0)
    return b"".join(parts)


def screen_text(written: bytes) -> list[Text]:
    """The lines of the screen, with their colours, without empty ones at the end."""
    screen = pyte.Screen(COLUMNS, LINES)
    pyte.ByteStream(screen).feed(written)
    lines = []
    for row in range(LINES):
        line = Text()
        for column in range(COLUMNS):
            cell = screen.buffer[row][column]
            colour = {"brown": "yellow", "default": None}.get(cell.fg, cell.fg)
            if colour and re.fullmatch("[0-9a-f]{6}", colour):
                colour = f"#{colour}"
            line.append(cell.data, Style(color=colour and colour.replace("bright", "bright_"), bold=cell.bold))
        line.rstrip()
        lines.append(line)
    while lines and not lines[-1].plain:
        lines.pop()
    return lines


def main(file: str, share: str, title: str, *command: str) -> None:
    """Run the command and write the picture."""
    written = output_of(list(command))
    cut = len(written)
    if float(share) < 1:  # a live view is whole just before it is drawn again
        cut = written.rfind(REDRAWN, 0, int(cut * float(share)))
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115
    for line in screen_text(written[:cut]):
        console.print(line)
    svg = console.export_svg(title=title)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S)  # fonts of this machine, none from the network
    with open(file, "w", encoding="utf-8") as picture:
        picture.write("\n".join(line.rstrip() for line in svg.splitlines()) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
