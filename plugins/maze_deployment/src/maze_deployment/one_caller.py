"""Who may call a deployed agent: one thread at a time, in the process that the agent's own thread is in."""

from __future__ import annotations

import os
import threading

from maze_kernel.errors import RequestError

OWNER = "the caller of AgentDeployment"


class OneCaller:
    """A context manager around each call of an agent; who comes while another call runs is refused, not kept waiting.

    Waiting would not do: an agent remembers one simulation, and answers to two of them in turn would be wrong.

    Attributes:
        process_id: where the agent's thread is; None: there is none, and any process may call.
    """

    def __init__(self) -> None:
        self.process_id: int | None = None
        self._in_call = threading.Lock()

    @property
    def is_elsewhere(self) -> bool:
        """Whether this is a process forked from the one in which the agent's thread is: threads are not copied."""
        return self.process_id is not None and self.process_id != os.getpid()

    def __enter__(self) -> None:
        # First, for the lock may have been copied while another thread held it.
        if self.is_elsewhere:
            raise RequestError(
                "the agent was called before this process was forked, and its thread stayed in the other process",
                received=f"a call in process {os.getpid()}, forked from process {self.process_id}",
                owner=OWNER,
                help="load an agent in each process after the fork, or fork before the first call of act",
            )
        if not self._in_call.acquire(blocking=False):
            raise RequestError(
                "the agent is being called by another thread, and serves one simulation",
                received=f"a call in thread {threading.current_thread().name!r} while another one runs",
                owner=OWNER,
                help="load one agent a thread; or hold a lock of your own around reset and act for a whole episode",
            )

    def __exit__(self, *_exception: object) -> None:
        self._in_call.release()
