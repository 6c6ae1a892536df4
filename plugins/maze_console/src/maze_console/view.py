"""What the console shows, as text and rich renderables; no terminal and no clock in here."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from maze_kernel.contracts.logger import EpochRecord, LoggerContext, Progress

_BARS = "▁▂▃▄▅▆▇█"
_HISTORY = 40
_REWARD = "BaseEnvEvents/reward/mean"


def sparkline(values: Sequence[float]) -> str:
    """Values as a row of bars between their least and greatest.

    >>> sparkline([0.0, 1.0, 2.0])
    '▁▅█'
    """
    if not values:
        return ""
    low, high = min(values), max(values)
    if high <= low:
        return _BARS[3] * len(values)
    return "".join(_BARS[min(7, int((value - low) / (high - low) * 8))] for value in values)


def duration(seconds: float) -> str:
    """Seconds as people write them.

    >>> duration(75.0), duration(3700.0)
    ('1m15s', '1h01m')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


@attrs.define
class RunView:
    """The state of one run as the console knows it."""

    context: LoggerContext
    epoch: int = 0
    env_steps: int = 0
    reward: float | None = None
    best: float | None = None
    best_epoch: int | None = None
    rate: float | None = None
    """Environment steps a second."""
    phase: str = "start"
    epoch_fraction: float = 0.0
    rewards: deque[float] = attrs.field(factory=lambda: deque(maxlen=_HISTORY))
    others: dict[str, float] = attrs.field(factory=dict)
    """The reward of the last evaluation by each evaluator with a name."""
    last_mark: tuple[float, int] | None = None
    start_fraction: float | None = None
    start_seconds: float | None = None

    def see_record(self, record: EpochRecord) -> None:
        """Take over one epoch."""
        self.epoch, self.env_steps, self.epoch_fraction = record.epoch, record.env_steps, 0.0
        self._see_rate(record)
        reward = record.evaluation.get(_REWARD, record.train.get(_REWARD))
        if reward is not None:
            self.reward = float(reward)
            self.rewards.append(float(reward))
        for tag, value in record.evaluation.items():
            if tag.endswith(f"/{_REWARD}"):
                self.others[tag.removesuffix(f"/{_REWARD}")] = float(value)
        if record.is_best:
            self.best, self.best_epoch = record.best_metric, record.epoch

    def see_progress(self, progress: Progress) -> None:
        """Take over a sign of life."""
        if self.phase == "estimate" and progress.phase != "estimate":
            self.start_fraction = self.start_seconds = None  # how long estimating took says nothing about training
        self.env_steps, self.epoch_fraction, self.phase = progress.env_steps, progress.fraction, progress.phase

    def fraction(self) -> float | None:
        """Share of the budget that is used, None without a budget."""
        shares = []
        if self.context.n_epochs:
            shares.append((self.epoch + self.epoch_fraction) / self.context.n_epochs)
        if self.context.max_env_steps:
            shares.append(self.env_steps / self.context.max_env_steps)
        return min(1.0, max(shares)) if shares else None

    def seconds_left(self, wall_seconds: float) -> float | None:
        """Estimate from the speed since this process started; None while there is none."""
        fraction = self.fraction()
        if fraction is None:
            return None
        if self.start_fraction is None or self.start_seconds is None:
            self.start_fraction, self.start_seconds = fraction, wall_seconds
        gained = fraction - self.start_fraction
        return (1 - fraction) * (wall_seconds - self.start_seconds) / gained if gained > 0 else None

    def line(self, record: EpochRecord) -> str:
        """One epoch as one plain line."""
        total = f"/{self.context.n_epochs}" if self.context.n_epochs else ""
        parts = [f"epoch {record.epoch}{total}"]
        if record.env_steps:
            parts.append(f"{record.env_steps} steps")
        if self.rate:
            parts.append(f"{self.rate:,.0f} steps/s")
        if self.reward is not None:
            parts.append(f"reward {self.reward:.4g}")
        parts += [f"{name} {reward:.4g}" for name, reward in self.others.items()]
        if self.best is not None:
            parts.append(f"best {self.best:.4g} (epoch {self.best_epoch})")
        left = self.seconds_left(record.wall_seconds)
        if left is not None:
            parts.append(f"{duration(left)} left")
        return "  ".join(parts)

    def _see_rate(self, record: EpochRecord) -> None:
        if self.last_mark is not None and record.wall_seconds > self.last_mark[0]:
            self.rate = (record.env_steps - self.last_mark[1]) / (record.wall_seconds - self.last_mark[0])
        self.last_mark = (record.wall_seconds, record.env_steps)


def live_panel(view: RunView, wall_seconds: float) -> Table:
    """The live view: a progress bar and the numbers that matter."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column()
    total = f" of {view.context.n_epochs}" if view.context.n_epochs else ""
    budget = f" of {view.context.max_env_steps:,}" if view.context.max_env_steps else ""
    steps = f"   {view.env_steps:,}{budget} steps" if view.env_steps or budget else ""
    grid.add_row(view.context.name, f"epoch {view.epoch}{total}{steps}   {view.phase}")
    fraction = view.fraction()
    if fraction is not None:
        grid.add_row("progress", ProgressBar(total=1.0, completed=fraction, width=40))
    rate = f"{view.rate:,.0f} steps/s" if view.rate else "…"
    left = view.seconds_left(wall_seconds)
    grid.add_row("speed", rate if left is None else f"{rate}   {duration(left)} left")
    if view.reward is not None:
        grid.add_row("reward", Text(f"{view.reward:.4g}  {sparkline(list(view.rewards))}"))
    for name, reward in view.others.items():
        grid.add_row(name, f"{reward:.4g}")
    if view.best is not None:
        grid.add_row("best", f"{view.best:.4g} in epoch {view.best_epoch}")
    return grid


def statistics_table(record: EpochRecord) -> Table:
    """All numbers of one epoch, grouped as tags are, training beside evaluation."""
    columns = (_numbers(record.train), _numbers(record.evaluation))
    table = Table(title=f"epoch {record.epoch}", title_justify="left")
    table.add_column("statistic")
    table.add_column("train", justify="right")
    table.add_column("eval", justify="right")
    group = ""
    for tag in sorted({*columns[0], *columns[1]}):
        if group and tag.partition("/")[0] != group:
            table.add_section()
        group = tag.partition("/")[0]
        table.add_row(tag, *(f"{column[tag]:.5g}" if tag in column else "" for column in columns))
    return table


def _numbers(statistics: Mapping[str, Any]) -> dict[str, float]:
    return {tag: float(value) for tag, value in statistics.items() if isinstance(value, (int, float))}
