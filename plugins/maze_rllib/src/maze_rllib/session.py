"""Ray itself: started at most once a process, here and nowhere else, and kept off the terminal."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from maze_kernel.errors import PluginError

_NEEDED = {
    "ray": "ray[tune]",
    "tree": "dm-tree",
    "lz4": "lz4",
    "ormsgpack": "ormsgpack",
    "yaml": "pyyaml",
    "scipy": "scipy",
}

_PATIENCE = {"health_check_timeout_ms": 30_000, "health_check_failure_threshold": 20}
"""On a busy machine Ray would take its only node for dead."""


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
    for name in ("ray", *(f"ray.{part}" for part in ("_common", "_private", "data", "rllib", "train", "tune", "util"))):
        logging.getLogger(name).setLevel(logging.ERROR)


def start_ray(n_cpus: int) -> None:
    """A local Ray of this process's own, unless it has one already; it ends with the process.

    RLlib needs one even where it steps environments in this process. It would join any cluster of the machine.

    Args:
        n_cpus: what the actors of the run ask for, so that none waits for ever.
    """
    import ray

    if ray.is_initialized():
        return
    ray.init(
        address="local",
        num_cpus=max(n_cpus, os.cpu_count() or 1),
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        _system_config=_PATIENCE,
    )


@contextmanager
def stderr_held_back() -> Iterator[None]:
    """Keep what is written to standard error, past Python too, and show it only where an exception follows.

    Ray's core reports there that actors could not be restarted from lost arguments, for every actor it starts.
    """
    sys.stderr.flush()
    shown = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(shown, held.read())
            raise
        finally:
            os.dup2(shown, 2)
            os.close(shown)
