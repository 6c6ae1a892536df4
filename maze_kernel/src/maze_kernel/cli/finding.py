"""Commands by name, and what to install for one that is missing."""

from __future__ import annotations

from maze_kernel.catalog import Catalog, CatalogEntry
from maze_kernel.errors import PluginError

BROUGHT_BY = {
    "train": "maze-runtime",
    "rollout": "maze-runtime",
    "show": "maze-runtime",
    "networks": "maze-drawing",
    "export": "maze-deployment",
    "view": "maze-viewing",
    "to-minari": "maze-trajectories",
    "from-minari": "maze-trajectories",
}
"""The distribution to install for a command that is missing; of those that the documentation speaks of."""


def find_command(catalog: Catalog, name: str) -> CatalogEntry:
    """The component of a command.

    Raises:
        PluginError: there is none of this name; it says what to install where that is known.
    """
    try:
        return catalog.find("command", name)
    except PluginError as error:
        if name in BROUGHT_BY and not error.nearest:
            error.help = f"it comes with {BROUGHT_BY[name]}: pip install {BROUGHT_BY[name]}"
        raise
