"""The statistic that runs are compared by, spelt as in `[evaluation] metric`."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

import attrs
import numpy as np

from maze_kernel.errors import RequestError
from maze_reports.series import SeriesTable
from maze_runtime.run.metric_text import MEAN_REWARD, MetricText
from maze_runtime.training.metric import wrapped_tags


@attrs.frozen(kw_only=True)
class ChosenMetric:
    """A statistic, of the evaluations unless `split` says "train".

    Attributes:
        minimize: less is better.
        as_paid: of runs whose wrappers shape rewards, what the environments paid, for nothing was evaluated.
    """

    tag: str = MEAN_REWARD
    split: str = "eval"
    minimize: bool = False
    as_paid: bool = False

    @classmethod
    def parse(cls, text: str) -> ChosenMetric:
        """A statistic as `[evaluation] metric` spells it, of runs that evaluate."""
        return cls.of(MetricText.parse(text), evaluates=True)

    @classmethod
    def of(cls, read: MetricText, *, evaluates: bool) -> ChosenMetric:
        """A statistic of a run.

        Args:
            evaluates: whether what would measure it plays episodes in that run.
        """
        split = read.source(evaluates)
        is_paid = split == "train" and read.paid_tag != read.tag
        return cls(tag=read.tag, split=split, minimize=read.minimize, as_paid=is_paid)

    @property
    def tags(self) -> tuple[str, ...]:
        """Under which a run may have it, the one to take first."""
        return (MetricText(self.tag).paid_tag, self.tag) if self.as_paid else (self.tag,)

    def __str__(self) -> str:
        return f"train_{self.tag}" if self.split == "train" else self.tag

    @property
    def described(self) -> str:
        """For headings."""
        of = "evaluation" if self.split == "eval" else "training"
        return f"{self.tag} of {of}{', less is better' if self.minimize else ''}"

    def best(self, values: np.ndarray) -> float:
        """Of at least one value."""
        return float(np.min(values) if self.minimize else np.max(values))


def unknown_metric(metric: ChosenMetric, tables: Sequence[SeriesTable]) -> RequestError:
    """The error for a statistic that no run has: it names those there are, the nearest first."""
    known = {tag for table in tables for tag in table.tags("eval")}
    known |= {f"train_{tag}" for table in tables for tag in table.tags("train")}
    if not known:
        return RequestError(
            "the runs have written no statistics",
            help="train them with the csv logger, which is used unless [[loggers]] names others",
        )
    ordered = sorted(known, key=lambda tag: (-_likeness(str(metric), tag), tag))
    return RequestError(
        f"no run has a statistic {str(metric)!r}",
        expected=wrapped_tags(ordered),
        nearest=tuple(ordered[:3]),
        help="statistics of training have train_ before them; a minus before all means that less is better",
    )


def _likeness(word: str, other: str) -> float:
    """0 to 1; the whole tag or its last part alone may have been meant."""
    word, other = word.lower(), other.lower()
    parts = [other, *other.split("/"), other.partition("/")[2]]
    return max(SequenceMatcher(None, word, part).ratio() for part in parts if part)
