"""Pictures on machines that have no display."""

from __future__ import annotations

import os
import sys

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def prepare_drawing(render_mode: str | None) -> dict[str, str]:
    """Make ready for an environment that draws itself; returns what it is built with: nothing for None, as few take it.

    Many games draw by SDL, which looks for a display even where they draw into memory alone, and prints an error where
    there is none. Where there is none SDL is told not to look, unless the user has chosen its driver; that holds for
    the process and those it starts.
    """
    if render_mode is None:
        return {}
    if render_mode != "human" and sys.platform == "linux" and not any(os.environ.get(name) for name in _DISPLAYS):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    return {"render_mode": render_mode}
