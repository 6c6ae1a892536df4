"""Ray itself: started at most once a process, here and nowhere else, and kept off the terminal."""

from __future__ import annotations

import logging
import os
import warnings
from importlib.util import find_spec

from maze_kernel.errors import PluginError

_NEEDED = {"ray": "ray[tune]", "tree": "dm-tree", "lz4": "lz4", "ormsgpack": "ormsgpack", "yaml": "pyyaml", "scipy": "scipy"}


def require_ray() -> None:
    """Refuse to go on without Ray and what RLlib imports beside it.

    Raises:
        PluginError: names what is missing.
    """
    missing = [name for module, name in _NEEDED.items() if find_spec(module) is None]
    if missing:
        raise PluginError(
            "trainer 'rllib' needs Ray, which is not installed",
            received=f"without {', '.join(missing)}",
            owner="maze-rllib",
            help="pip install " + " ".join(f'"{name}"' if "[" in name else name for name in missing),
        )


def quiet_ray() -> None:
    """Ray's warnings, its usage report and its progress are no part of a run; errors still show."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    for name in ("ray", "ray.rllib", "ray.tune", "ray._private", "ray._common", "ray.rllib.utils.deprecation"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"ray\.")


def start_ray(n_cpus: int) -> None:
    """A local Ray in this process, unless there is one; the process ends it.

    Args:
        n_cpus: what the actors of the run ask for, so that none waits for ever.
    """
    import ray

    if ray.is_initialized():
        return
    ray.init(
        num_cpus=max(n_cpus, os.cpu_count() or 1),
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        configure_logging=True,
    )
