"""What workers and Ray itself print: workers' lines go to the terminal with actor and node, Ray's to the log.

The log is Python's, the logger `maze.ray`; a run that is trained writes what arrives there to its `log.txt`, workers'
lines too. A line that several workers print within five seconds comes once, with their number behind it, unless Ray's
RAY_DEDUP_LOGS is 0.
"""

from __future__ import annotations

import logging
import re
import sys
from typing import Any

import ray._private.worker as ray_worker
import ray.util.client as ray_client

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LOG = logging.getLogger("maze.ray")


def divert() -> None:
    """Print what Ray's log monitors bring as this module does; Ray keeps all of it in its session's log files too.

    Ray has no setting for this: its background threads call `print_worker_logs`. Through a proxy (`ray://`) lines come
    as it has printed them, from a thread of the client.
    """
    if hasattr(ray_worker, "print_worker_logs"):
        ray_worker.print_worker_logs = print_lines  # type: ignore[assignment,unused-ignore]
    if ray_client.ray.is_connected():
        ray_client.ray.get_context().client_worker.log_client.stdstream = print_of_client


def print_of_client(level: int, msg: str) -> None:
    """Print what a proxy has made of some lines.

    Args:
        level: −2: they were printed to standard error; −1: to standard output.
        msg: with its line ends, and the source in front, coloured.
    """
    for line in _COLOUR.sub("", msg).splitlines():
        if line.startswith(("(raylet", "(autoscaler", "(gcs_server")):
            _LOG.info(line)
        else:
            print(line, file=sys.stderr if level == -2 else sys.stdout)
            _LOG.debug(line)


def print_lines(data: dict[str, Any], file: Any = None, *_how: Any) -> None:
    """Print one batch of lines.

    Args:
        data: `lines`, and where they come from: `pid`, `ip`, `actor_name`.
        file: the stream that Ray would print to.
    """
    lines = [str(line) for line in data.get("lines", ())]
    if data.get("pid") in ("raylet", "autoscaler", "gcs_server"):
        for line in lines:
            _LOG.info("%s: %s", data["pid"], _COLOUR.sub("", line))
        return
    who = data.get("actor_name") or data.get("task_name") or "worker"
    for line in lines:
        text = f"[{who}, process {data.get('pid')} on {data.get('ip')}] {line}"
        print(text, file=file or sys.stderr)
        _LOG.debug(_COLOUR.sub("", text))
