"""What workers and Ray itself print: workers' lines go to the terminal with actor and node, Ray's to the log."""

from __future__ import annotations

import logging
import sys
from typing import Any

import ray._private.worker as ray_worker

_LOG = logging.getLogger("maze_ray")


def divert() -> None:
    """Print what Ray's log monitors bring as this module does; Ray keeps all of it in its session's log files too.

    Ray has no setting for this: its background threads call `print_worker_logs`.
    """
    if hasattr(ray_worker, "print_worker_logs"):
        ray_worker.print_worker_logs = print_lines  # type: ignore[assignment]


def print_lines(data: dict[str, Any], file: Any = None, *_how: Any) -> None:
    """Print one batch of lines.

    Args:
        data: `lines`, and where they come from: `pid`, `ip`, `actor_name`.
        file: the stream that Ray would print to.
    """
    lines = [str(line) for line in data.get("lines", ())]
    if data.get("pid") in ("raylet", "autoscaler", "gcs_server"):
        for line in lines:
            _LOG.info("%s: %s", data["pid"], line)
        return
    who = data.get("actor_name") or data.get("task_name") or "worker"
    for line in lines:
        print(f"[{who}, process {data.get('pid')} on {data.get('ip')}] {line}", file=file or sys.stderr)
