"""Control turned round: a loop that would drive a simulation is driven by the simulation's answers instead.

The loop runs nested calls (a policy, a batch, its wrappers, a conversion) down to the point where it wants an answer
from outside. Only a thread can stop there and go on later without knowing what lies between; so the loop has one, and
the two never run at the same time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import attrs

from maze_runtime.env.outside import Outside, Reply


class Dismissed(BaseException):
    """Ends the loop from inside; no `Exception`, so that nothing on the way handles it."""


@attrs.frozen
class _Asks:
    """The loop wants to know what becomes of an action; of None: what an episode begins with."""

    maze_action: Any


@attrs.frozen
class _Fails:
    """The loop ended with this error."""

    error: BaseException


class Dialogue:
    """Runs `loop(outside)` until it asks, gives its question to the caller, and goes on with the caller's answer.

    Args:
        loop: asks `outside`; returns when `is_over()`, or never.
    """

    def __init__(self, loop: Callable[[Outside], None]) -> None:
        self._questions: SimpleQueue[_Asks | _Fails] = SimpleQueue()
        self._outside = _Outside(self._questions)
        # It must not refer to this object: an agent that is thrown away takes its thread along.
        self._thread = threading.Thread(
            target=_run, args=(loop, self._outside, self._questions), name="maze-deployment", daemon=True
        )
        self._thread.start()
        self._hear()

    def answer(self, reply: Reply) -> Any:
        """Let the loop go on with an answer; returns the action that it asks about next.

        None where it asks how the next episode begins. Whatever the loop raises is raised here.
        """
        self._outside.replies.put(reply)
        return self._hear()

    def dismiss(self) -> None:
        """Let the loop end; may be called from anywhere, and again."""
        self._outside.replies.put(None)

    def close(self) -> None:
        """End the loop and its thread; raises what the loop raises on its way out."""
        self.dismiss()
        self._thread.join()
        while not self._questions.empty():
            question = self._questions.get()
            if isinstance(question, _Fails):
                raise question.error

    def _hear(self) -> Any:
        question = self._questions.get()
        if isinstance(question, _Fails):
            self._thread.join()
            raise question.error
        return question.maze_action


class _Outside:
    """The loop's side of a dialogue."""

    def __init__(self, questions: SimpleQueue[_Asks | _Fails]) -> None:
        self.replies: SimpleQueue[Reply | None] = SimpleQueue()
        self._questions = questions
        self._last: Reply | None = None
        self._dismissed = False

    def is_over(self) -> bool:
        """Whether the loop was dismissed."""
        return self._dismissed

    def reset(self) -> Reply:
        """The first state of an episode.

        The state at hand, where a wrapper ended the episode and the simulation goes on. A loop that is dismissed
        here gets the last state once more, so that wrappers finish what they do between episodes.
        """
        last = self._last
        if last is not None and not last.ends_episode:
            self._last = attrs.evolve(last, reward=0.0, events=())
            return self._last
        reply = self._ask(None)
        if reply is not None:
            return reply
        if last is None:
            raise Dismissed
        return attrs.evolve(last, reward=0.0, terminated=False, truncated=False, events=())

    def step(self, maze_action: Any) -> Reply:
        """What became of an action."""
        reply = self._ask(maze_action)
        if reply is None:
            raise Dismissed
        return reply

    def _ask(self, maze_action: Any) -> Reply | None:
        if not self._dismissed:
            self._questions.put(_Asks(maze_action))
            self._last = reply = self.replies.get()
            self._dismissed = reply is None
            return reply
        return None


def _run(loop: Callable[[Outside], None], outside: _Outside, questions: SimpleQueue[_Asks | _Fails]) -> None:
    try:
        loop(outside)
    except Dismissed:
        return
    except BaseException as error:  # it belongs to the caller, whatever it is
        questions.put(_Fails(error))
