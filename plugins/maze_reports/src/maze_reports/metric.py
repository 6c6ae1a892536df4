"""The statistic that runs are compared by, spelt as in `[evaluation] metric`."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from textwrap import fill

import attrs
import numpy as np

from maze_kernel.errors import RequestError
from maze_reports.series import SeriesTable

MEAN_REWARD = "BaseEnvEvents/reward/mean"
RAW_REWARD = "BaseEnvEvents/raw_reward/mean"
"""What environments paid in training, where wrappers shape it."""


@attrs.frozen(kw_only=True)
class ChosenMetric:
    """A statistic, of the evaluations unless `split` says "train".

    Attributes:
        minimize: less is better.
        as_paid: of runs whose wrappers shape rewards, what the environments paid.
    """

    tag: str = MEAN_REWARD
    split: str = "eval"
    minimize: bool = False
    as_paid: bool = False

    @classmethod
    def parse(cls, text: str) -> ChosenMetric:
        """A tag; `train_` before it means statistics of training, a minus before all that less is better."""
        tag = text.removeprefix("-")
        prefix, _, bare = tag.partition("_")
        is_prefixed = prefix in ("train", "eval") and "Events/" in bare
        return cls(
            tag=bare if is_prefixed else tag,
            split=prefix if is_prefixed else "eval",
            minimize=text.startswith("-"),
        )

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
        expected=_wrapped(ordered),
        nearest=tuple(ordered[:3]),
        help="statistics of training have train_ before them; a minus before all means that less is better",
    )


def _wrapped(tags: Sequence[str]) -> str:
    """Several lines, so that all of them fit on the screen."""
    return fill(", ".join(tags), 116, subsequent_indent=" " * 6, break_long_words=False, break_on_hyphens=False)


def _likeness(word: str, other: str) -> float:
    """0 to 1; the whole tag or its last part alone may have been meant."""
    word, other = word.lower(), other.lower()
    parts = [other, *other.split("/"), other.partition("/")[2]]
    return max(SequenceMatcher(None, word, part).ratio() for part in parts if part)
