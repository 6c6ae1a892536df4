"""What the console shows, as text and rich renderables; no terminal and no clock in here."""

from __future__ import annotations

import math
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
_RAW_REWARD = "BaseEnvEvents/raw_reward/mean"
_SHORTEST_SECONDS = 1.0
"""Less time says nothing about the speed."""


def sparkline(values: Sequence[float]) -> str:
    """Values as a row of bars between their least and greatest that are finite; NaN is a blank.

    >>> sparkline([0.0, 1.0, 2.0]), sparkline([0.0, float("inf"), 2.0])
    ('▁▅█', '▁██')
    """
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    return "".join(_bar(value, low, high) for value in values)


def _bar(value: float, low: float, high: float) -> str:
    if math.isnan(value):
        return " "
    if high <= low:
        return _BARS[3]
    return _BARS[min(7, int((min(max(value, low), high) - low) / (high - low) * 8))]


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
    train_reward: float | None = None
    """As it is learnt from."""
    raw_reward: float | None = None
    """As the environments pay it; None where no wrapper changes it."""
    reward_so_far: float | None = None
    """Of the epoch in progress, as the environments pay it."""
    eval_reward: float | None = None
    metric: float | None = None
    """Newest value of the statistic that selects the best model."""
    best: float | None = None
    best_epoch: int | None = None
    rate: float | None = None
    """Environment steps a second."""
    phase: str = "start"
    epoch_fraction: float = 0.0
    rewards: deque[float] = attrs.field(factory=lambda: deque(maxlen=_HISTORY))
    """Of evaluations; of training where nothing is evaluated."""
    others: dict[str, float] = attrs.field(factory=dict)
    """The reward of the last evaluation by each evaluator with a name."""
    last_mark: tuple[float, int] | None = None
    start_fraction: float | None = None
    start_seconds: float | None = None

    def see_record(self, record: EpochRecord) -> None:
        """Take over one epoch."""
        self.epoch, self.env_steps, self.epoch_fraction = record.epoch, record.env_steps, 0.0
        self._see_rate(record.wall_seconds, record.env_steps)
        self.reward_so_far = None
        self.train_reward = _number(record.train.get(_REWARD))
        self.raw_reward = _number(record.train.get(_RAW_REWARD))
        if record.evaluation:
            if self.eval_reward is None:
                self.rewards.clear()
            self.eval_reward = _number(record.evaluation.get(_REWARD))
        for tag, value in record.evaluation.items():
            if tag.endswith(f"/{_REWARD}"):
                self.others[tag.removesuffix(f"/{_REWARD}")] = float(value)
        own = self.raw_reward if self.raw_reward is not None else self.train_reward
        shown = own if self.eval_reward is None else _number(record.evaluation.get(_REWARD))
        if shown is not None:
            self.rewards.append(shown)
        self.metric = self.metric if record.metric is None else record.metric
        if record.is_best:
            self.best, self.best_epoch = record.best_metric, record.epoch

    def see_progress(self, progress: Progress, wall_seconds: float) -> None:
        """Take over a sign of life."""
        if self.phase == "estimate" and progress.phase != "estimate":
            self.start_fraction = self.start_seconds = None  # how long estimating took says nothing about training
        self.env_steps, self.epoch_fraction, self.phase = progress.env_steps, progress.fraction, progress.phase
        self.reward_so_far = progress.reward
        if progress.phase == "estimate":
            return
        if self.last_mark is None:
            self.last_mark = (wall_seconds, progress.env_steps)
        elif wall_seconds - self.last_mark[0] >= _SHORTEST_SECONDS and progress.env_steps > self.last_mark[1]:
            self.rate = (progress.env_steps - self.last_mark[1]) / (wall_seconds - self.last_mark[0])

    def shift_clock(self, seconds: float) -> None:
        """From now on clock readings are later by so much: the run had trained before this process did."""
        if self.start_seconds is not None:
            self.start_seconds += seconds
        if self.last_mark is not None:
            self.last_mark = (self.last_mark[0] + seconds, self.last_mark[1])

    def fraction(self) -> float | None:
        """Share of the budget that is used, None without a budget."""
        shares = []
        if self.context.n_epochs:
            shares.append((self.epoch + self.epoch_fraction) / self.context.n_epochs)
        if self.context.max_env_steps:
            shares.append(self.env_steps / self.context.max_env_steps)
        return min(1.0, max(shares)) if shares else None

    def seconds_left(self, wall_seconds: float) -> float | None:
        """Estimate from the speed since this process started, 0 or more; None while there is none."""
        fraction = self.fraction()
        if fraction is None:
            return None
        if self.start_fraction is None or self.start_seconds is None:
            self.start_fraction, self.start_seconds = fraction, wall_seconds
        gained, seconds = fraction - self.start_fraction, wall_seconds - self.start_seconds
        return (1 - fraction) * seconds / gained if gained > 0 and seconds >= 0 else None

    def line(self, record: EpochRecord) -> str:
        """One epoch as one plain line."""
        parts = [f"epoch {record.epoch}{self._of_epochs()}"]
        if record.env_steps:
            parts.append(f"{record.env_steps} steps")
        if self.rate:
            parts.append(f"{self.rate:,.0f} steps/s")
        if self.train_reward is not None:
            parts.append(f"train reward {self.train_text()}")
        if record.evaluation and self.eval_reward is not None:
            parts.append(f"eval reward {self.eval_reward:.4g}")
        parts += [f"{name} {reward:.4g}" for name, reward in self.others.items()]
        if self.shows_metric:
            parts.append(f"{self.metric_name} {self.metric:.4g}")
        if self.best is not None:
            parts.append(f"best {self.best:.4g} (epoch {self.best_epoch})")
        left = self.seconds_left(record.wall_seconds)
        if left is not None:
            parts.append(f"{duration(left)} left")
        return "  ".join(parts)

    def progress_line(self, wall_seconds: float) -> str:
        """How far the epoch in progress is, as one plain line."""
        parts = [f"epoch {self.epoch + 1}{self._of_epochs()}, {self.epoch_fraction:.0%} ({self.phase})"]
        if self.env_steps:
            parts.append(f"{self.env_steps} steps")
        if self.rate:
            parts.append(f"{self.rate:,.0f} steps/s")
        if self.reward_so_far is not None:
            parts.append(f"train reward {self.reward_so_far:.4g} so far")
        left = self.seconds_left(wall_seconds)
        if left is not None:
            parts.append(f"{duration(left)} left")
        return "  ".join(parts)

    def train_text(self) -> str:
        """Reward of training episodes: what the environments pay, and what wrappers make of it."""
        if self.raw_reward is None:
            return f"{self.train_reward:.4g}"
        return f"{self.raw_reward:.4g} ({self.train_reward:.4g} after wrappers)"

    @property
    def shows_metric(self) -> bool:
        """Whether something else selects the best model than a mean reward, shown anyway."""
        of_training = (f"train_{_REWARD}", f"train_{_RAW_REWARD}")
        rewards = (_REWARD, *of_training, *(f"{name}/{_REWARD}" for name in self.others))
        return self.metric is not None and self.context.metric not in rewards

    @property
    def metric_name(self) -> str:
        """What selects the best model, without what nearly all tags begin with."""
        return self.context.metric.replace("BaseEnvEvents/", "")

    def _of_epochs(self) -> str:
        return f"/{self.context.n_epochs}" if self.context.n_epochs else ""

    def _see_rate(self, wall_seconds: float, env_steps: int) -> None:
        if self.last_mark is not None and wall_seconds > self.last_mark[0] and env_steps > self.last_mark[1]:
            self.rate = (env_steps - self.last_mark[1]) / (wall_seconds - self.last_mark[0])
        self.last_mark = (wall_seconds, env_steps)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def live_panel(view: RunView, wall_seconds: float) -> Table:
    """The live view: a progress bar and the numbers that matter."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column()
    total = f" of {view.context.n_epochs}" if view.context.n_epochs else ""
    budget = f" of {view.context.max_env_steps:,}" if view.context.max_env_steps else ""
    steps = f"   {view.env_steps:,}{budget} steps" if view.env_steps or budget else ""
    grid.add_row(Text(view.context.name), f"epoch {view.epoch}{total}{steps}   {view.phase}")
    fraction = view.fraction()
    if fraction is not None:
        grid.add_row("progress", ProgressBar(total=1.0, completed=fraction, width=40))
    rate = f"{view.rate:,.0f} steps/s" if view.rate else "…"
    left = view.seconds_left(wall_seconds)
    grid.add_row("speed", rate if left is None else f"{rate}   {duration(left)} left")
    curve = f"  {sparkline(list(view.rewards))}"
    if view.train_reward is not None:
        grid.add_row("train reward", Text(view.train_text() + (curve if view.eval_reward is None else "")))
    elif view.reward_so_far is not None:
        grid.add_row("train reward", f"{view.reward_so_far:.4g} so far")
    if view.eval_reward is not None:
        grid.add_row("eval reward", Text(f"{view.eval_reward:.4g}{curve}"))
    for name, reward in view.others.items():
        grid.add_row(Text(name), f"{reward:.4g}")
    if view.shows_metric:
        grid.add_row(Text(view.metric_name), f"{view.metric:.4g}")
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
        table.add_row(Text(tag), *(f"{column[tag]:.5g}" if tag in column else "" for column in columns))
    return table


def _numbers(statistics: Mapping[str, Any]) -> dict[str, float]:
    return {tag: float(value) for tag, value in statistics.items() if isinstance(value, (int, float))}
