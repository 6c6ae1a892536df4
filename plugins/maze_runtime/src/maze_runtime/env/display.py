"""Pictures on machines that have no display."""

from __future__ import annotations

import os
import sys

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def drawing_arguments(render_mode: str | None) -> dict[str, str]:
    """What an environment is built with so that it draws itself; nothing for None, which not every one takes.

    Many games draw by SDL, which looks for a display even where they draw into memory alone, and prints an error where
    there is none. It is told not to look, unless the user has chosen its driver.
    """
    if render_mode is None:
        return {}
    if render_mode != "human" and sys.platform == "linux" and not any(os.environ.get(name) for name in _DISPLAYS):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    return {"render_mode": render_mode}
