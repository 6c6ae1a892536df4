"""The `console` logger: a live view in a terminal, plain lines elsewhere; everything on standard error."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.live import Live

from maze_console.options import ConsoleOptions
from maze_console.view import RunView, live_panel, statistics_table
from maze_kernel.contracts.logger import EpochRecord, LoggerContext, Outcome, Progress


class ConsoleLogger:
    """Shows one run. Respects `NO_COLOR`; shows nothing where the run is silent.

    Attributes:
        is_on_stderr: where Python shows warnings, which are therefore no messages to it.
    """

    is_on_stderr = True

    def __init__(self, context: LoggerContext, options: ConsoleOptions, console: Console | None = None) -> None:
        self._silent = context.verbosity < 0
        self._options = options
        self._context = context
        self._view = RunView(context)
        self._console = console or Console(file=sys.stderr, highlight=False)
        self._table = options.table or context.verbosity > 0
        self._live: Live | None = None
        self._can_be_live = options.live and self._console.is_terminal and not self._silent
        self._started = time.monotonic()
        self._wall_offset: float | None = None
        self._next_draw: dict[str, float] = {}
        self._next_line = 0.0
        self._next_progress = time.monotonic() + options.progress_interval_seconds
        self._held_back: EpochRecord | None = None

    def write(self, record: EpochRecord) -> None:
        """One epoch."""
        if self._silent:
            return
        if self._wall_offset is None:
            self._wall_offset = record.wall_seconds - (time.monotonic() - self._started)
            self._view.shift_clock(self._wall_offset)
        self._view.see_record(record)
        if self._table:
            self._console.print(statistics_table(record))
        if self._can_be_live:
            self._draw()
        else:
            self._next_progress = time.monotonic() + self._options.progress_interval_seconds
            self._print_line(record)

    def progress(self, progress: Progress) -> None:
        """A sign of life; each phase is drawn a few times a second, or a plain line where an epoch takes long."""
        if self._silent:
            return
        self._view.see_progress(progress, self._wall_seconds())
        if self._can_be_live:
            self._draw()
        elif time.monotonic() >= self._next_progress:
            self._next_progress = time.monotonic() + self._options.progress_interval_seconds
            if progress.phase != "estimate":
                self.message(self._view.progress_line(self._wall_seconds()))

    def message(self, text: str) -> None:
        """A line of its own, above the live view."""
        if not self._silent:
            self._console.print(text, markup=False, soft_wrap=True)

    def close(self, outcome: Outcome) -> None:
        """Leave the last state on the screen and say how the run ended."""
        if self._silent:
            return
        if self._live is not None:
            self._live.update(live_panel(self._view, self._wall_seconds()), refresh=True)
            self._live.stop()
        if self._held_back is not None:
            self.message(self._view.line(self._held_back))
        if outcome.status in ("done", "stopped early"):
            best = ""
            if outcome.best_metric is not None:
                is_usual = outcome.metric in (None, "BaseEnvEvents/reward/mean")
                name = "" if is_usual else f"{str(outcome.metric).replace('BaseEnvEvents/', '')} "
                best = f"; best {name}{outcome.best_metric:.4g} in epoch {outcome.best_epoch}"
            self.message(f"{outcome.status}: {outcome.reason}{best}")

    def _print_line(self, record: EpochRecord) -> None:
        now = time.monotonic()
        if now < self._next_line and not record.is_best:
            self._held_back = record
            return
        self._held_back = None
        self._next_line = now + self._options.plain_interval_seconds
        self.message(self._view.line(record))

    def _draw(self) -> None:
        now = time.monotonic()
        phase = self._view.phase
        if now < self._next_draw.get(phase, now):
            return
        self._next_draw[phase] = now + 1.0 / self._options.refresh_per_second
        panel = live_panel(self._view, self._wall_seconds())
        if self._live is None:
            self._live = Live(panel, console=self._console, auto_refresh=False)
            self._live.start()
        self._live.update(panel, refresh=True)

    def _wall_seconds(self) -> float:
        """On the clock of records, which goes on from before a resume and leaves out what came before training."""
        return time.monotonic() - self._started + (self._wall_offset or 0.0)
