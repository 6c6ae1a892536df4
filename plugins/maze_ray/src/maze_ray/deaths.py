"""How Ray tells that a call has no answer, and what Maze says instead."""

from __future__ import annotations

import re

import attrs
import ray
import ray.exceptions

_NODE_GONE = re.compile(r"node (has died|was terminated|is dead|failed)|died because its node", re.IGNORECASE)
_DETAIL = re.compile(r"Worker exit detail: ([^\n]*)")
_OUT_OF_MEMORY = re.compile(r"out.of.memory|memory.pressure|low on memory", re.IGNORECASE)
"""Not "OOM killer": Ray names it whenever a process is gone, as one of the causes there may be."""
_LOST = (
    ray.exceptions.ActorUnavailableError,
    ray.exceptions.ObjectLostError,
    ray.exceptions.NodeDiedError,
    ray.exceptions.LocalRayletDiedError,
)
_FULL = (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError)


@attrs.frozen
class Death:
    """Why there is no answer.

    Attributes:
        cause: as of a `WorkerError`; "raised": the actor lives.
        how: the end of the sentence that begins with the actor.
        detail: what Ray says, where that says more.
        help: a next step.
    """

    cause: str
    how: str
    detail: str | None = None
    help: str | None = None


def classify(error: Exception, node_id: str) -> Death:
    """What an error that Ray raised in place of an answer means.

    Args:
        node_id: where the actor was; empty where it had no place yet.
    """
    text = str(error)
    if isinstance(error, _FULL):
        return Death("raised", "found no place for its answer in the object store", text, _store_help())
    if isinstance(error, _LOST) or _NODE_GONE.search(text) or _is_gone(node_id):
        return Death("lost", "is lost: its node died or cannot be reached", _first_line(text))
    if isinstance(error, ray.exceptions.RayActorError) and error.actor_init_failed:
        return Death("raised", "cannot be started", text, "install the same packages on every node")
    if isinstance(error, ray.exceptions.RayTaskError):
        return Death("raised", "could not answer", text)
    if isinstance(error, ray.exceptions.OutOfMemoryError) or _OUT_OF_MEMORY.search(text):
        return Death("killed", "was killed by Ray: its node had no memory left", None, _memory_help())
    if isinstance(error, ray.exceptions.RayActorError | ray.exceptions.WorkerCrashedError):
        found = _DETAIL.search(text)
        return Death("killed", "was killed or exited", found.group(1) if found else _first_line(text))
    return Death("lost", f"cannot be reached: {type(error).__name__}", _first_line(text))


def _is_gone(node_id: str) -> bool:
    """Whether Ray knows that the node is dead."""
    if not node_id:
        return False
    try:
        return any(node["NodeID"] == node_id and not node["Alive"] for node in ray.nodes())
    except Exception:
        return False


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else ""


def _store_help() -> str:
    return "start the nodes with a larger --object-store-memory, or let answers be smaller"


def _memory_help() -> str:
    return "give a node fewer actors: raise cpus_per_worker, or take machines with more memory"
