"""The errors Maze raises on purpose, and how they are written.

Every one says what is wrong, where, what was received and expected, whose component it is and the one next
step. The command line prints them without a traceback and maps them to an exit code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    import numpy as np

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_WRONG_REQUEST = 2
EXIT_INTERRUPTED = 130


@attrs.frozen(kw_only=True)
class Location:
    """A place in a text file; `line` and `column` count from 1, `length` is the width of the caret line.

    Without `line`, `source` and `column` show text that stands in no file: an override on the command line.
    """

    file: str
    line: int | None = None
    column: int | None = None
    source: str | None = None
    length: int = 1

    def __str__(self) -> str:
        numbers = () if self.line is None else (self.line, self.column)
        return ":".join([self.file, *(str(number) for number in numbers if number is not None)])


class MazeError(Exception):
    """An error with an owner and a next step.

    Args:
        what: one sentence, what is wrong; the first thing the user reads.
        location: where in the user's file.
        received: what was found, as text.
        expected: what would have been right.
        option: name of the option that is wrong, where it is one of the component's.
        owner: the plugin or part of the kernel that asks for it, with its version.
        nearest: up to three names close to what was written.
        help: one next step.
        remote_traceback: the traceback as text, if it happened in another process.

    Attributes:
        user_traceback: that of the exception behind it, as text, without frames of the framework; None: not known.
        seed: of the environment's last seeded episode; None: not known.
    """

    exit_code = EXIT_FAILED
    user_traceback: str | None = None
    seed: int | None = None

    def __init__(
        self,
        what: str,
        *,
        location: Location | None = None,
        received: str | None = None,
        expected: str | None = None,
        option: str | None = None,
        owner: str | None = None,
        nearest: tuple[str, ...] = (),
        help: str | None = None,
        remote_traceback: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.location = location
        self.received = received
        self.expected = expected
        self.option = option
        self.owner = owner
        self.nearest = tuple(nearest)
        self.help = help
        self.remote_traceback = remote_traceback

    def render(self, *, remote: bool = True) -> str:
        """The whole message as plain text, without colour; the traceback of another process only with `remote`."""
        lines = [f"error: {self.what}"]
        if self.location is not None:
            lines += _render_location(self.location)
        labels = ("option", "received", "expected", "owner")
        lines += [f"  = {label}: {text}" for label in labels if (text := getattr(self, label))]
        if self.nearest:
            lines.append(f"  = did you mean: {', '.join(self.nearest)}")
        if self.help:
            lines.append(f"  help: {self.help}")
        if remote and self.remote_traceback:
            lines += ["  in the worker:", *(f"    {line}" for line in self.remote_traceback.splitlines())]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render()

    def __reduce__(self) -> tuple[object, ...]:
        return BaseException.__new__, (type(self), self.what), self.__dict__.copy()


def _render_location(location: Location) -> list[str]:
    lines = [f"  --> {location}"]
    if location.source is not None:
        number = "" if location.line is None else str(location.line)
        margin = " " * len(number)
        lines += [f"  {margin} |", f"  {number} | {location.source}"]
        if location.column is not None:
            lines.append(f"  {margin} | {' ' * (location.column - 1)}{'^' * max(1, location.length)}")
    return lines


class RequestError(MazeError):
    """The request was wrong: a bad file, option, name or path. Nothing was started. Exit code 2."""

    exit_code = EXIT_WRONG_REQUEST


class ExperimentError(RequestError):
    """All problems of one experiment file.

    `problems` holds one RequestError each, in the order of the file; `render` shows them all.
    """

    def __init__(self, problems: list[RequestError] | tuple[RequestError, ...]) -> None:
        super().__init__(f"{len(problems)} problem{'s' if len(problems) != 1 else ''} in the experiment")
        self.problems = tuple(problems)

    def render(self, *, remote: bool = True) -> str:
        return "\n\n".join(problem.render(remote=remote) for problem in self.problems)


class PluginError(RequestError):
    """A plugin that the experiment needs is missing, broken, disabled or in conflict with another."""


class ComponentError(MazeError):
    """A component raised something that is no MazeError, which is the `__cause__`, or broke its contract.

    `owner` names the plugin, `phase` what it was doing, e.g. "building trainer 'ppo'".
    """

    def __init__(self, what: str, *, phase: str, **details: object) -> None:
        super().__init__(what, **details)  # type: ignore[arg-type]
        self.phase = phase


class SpaceError(RequestError):
    """A space that a component cannot serve; names the space, who refuses it, and who can."""


class EnvError(MazeError):
    """An environment broke its contract or raised: names environment index, seed, step and process."""


class WorkerError(MazeError):
    """An actor of a worker pool raised, died or did not answer in time; carries the original traceback as text.

    Args:
        what: as for every MazeError.
        actor_index: which actor of its group.
        process_id: the actor's process; None where it has none of its own.
        cause: "raised", "exited", "killed", "timeout", "lost" (its machine is gone or out of reach; the call may have
            run), "not started" or "closed".
        process_exit_code: of the process, negative for a signal; None while it lives or where unknown.
        details: as for every MazeError; the remote traceback of an actor that had to be killed is the stack of
            each of its threads.
    """

    def __init__(
        self,
        what: str,
        *,
        actor_index: int | None = None,
        process_id: int | None = None,
        cause: str | None = None,
        process_exit_code: int | None = None,
        **details: object,
    ) -> None:
        super().__init__(what, **details)  # type: ignore[arg-type]
        self.actor_index = actor_index
        self.process_id = process_id
        self.cause = cause
        self.process_exit_code = process_exit_code

    @property
    def is_lost(self) -> bool:
        """Whether the actor took the call with it, so that a replacement may be asked again."""
        return self.cause in ("exited", "killed", "timeout", "lost")


class NonFiniteError(MazeError):
    """NaN or infinity in an observation, a reward, a gradient or a weight.

    Args:
        what: as for every MazeError.
        batch: what an update learnt from, by name; the loop saves it in the run directory.
        details: as for every MazeError.
    """

    def __init__(self, what: str, *, batch: Mapping[str, np.ndarray] | None = None, **details: object) -> None:
        super().__init__(what, **details)  # type: ignore[arg-type]
        self.batch = batch


class CheckpointError(MazeError):
    """A checkpoint or run directory that cannot be read or written."""


class FormatError(CheckpointError):
    """A checkpoint or run directory of a format that this version of Maze does not read; another version wrote it."""


class TrajectoryError(MazeError):
    """A recording of episodes that cannot be read or written."""


class MazeWarning(RuntimeWarning):
    """What went otherwise than was asked, and training goes on; `maze` shows it without a place in the code."""
