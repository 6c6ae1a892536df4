"""The caller's end of the socket to a worker: frames out and in, without ever blocking."""

from __future__ import annotations

import itertools
import select
import socket
from collections import deque

from maze_processes import transport


class Channel:
    """One end of a socket pair, from the start of a process to its end."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._reader = transport.FrameReader()
        self._outgoing: deque[bytes | memoryview] = deque()

    @property
    def wants_to_write(self) -> bool:
        """Not everything is sent yet."""
        return bool(self._outgoing)

    @property
    def is_drained(self) -> bool:
        """The last `receive` gave all there was."""
        return self._reader.is_drained

    @property
    def is_midway(self) -> bool:
        """A large frame has begun to arrive, so more is under way."""
        return self._reader.is_midway

    def fileno(self) -> int:
        """For `poll`."""
        return self._connection.fileno()

    def send(self, parts: transport.Parts) -> None:
        """Queue a frame, and send as much as the process takes."""
        is_free = not self._outgoing
        self._outgoing.extend(parts)
        if is_free:
            self.flush()

    def flush(self) -> None:
        """Send as much of what is queued as the process takes."""
        while self._outgoing:
            try:
                if len(self._outgoing) == 1:
                    n_sent = self._connection.send(self._outgoing[0])
                else:
                    n_sent = self._connection.sendmsg(itertools.islice(self._outgoing, transport.MAX_PARTS))
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                # The read side reports the end, with everything that was answered before it.
                self._outgoing.clear()
                return
            while self._outgoing and n_sent >= len(self._outgoing[0]):
                n_sent -= len(self._outgoing.popleft())
            if n_sent:
                self._outgoing[0] = memoryview(self._outgoing[0])[n_sent:]

    def has_arrived(self, milliseconds: int) -> bool:
        """Wait a little for something to `receive`."""
        return bool(self._poll.poll(milliseconds))

    def receive(self) -> list[transport.Frame]:
        """Take in what one call of the socket gives; returns the frames that it completes.

        Raises:
            BlockingIOError, InterruptedError: there is nothing yet.
            EOFError, OSError: the process is gone.
        """
        return self._reader.receive(self._connection)

    def close(self) -> None:
        """Let go of the socket."""
        self._connection.close()
