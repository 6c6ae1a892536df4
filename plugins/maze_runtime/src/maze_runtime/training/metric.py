"""The statistic that selects the best model, and which of a run's evaluators measures it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from maze_runtime.run.evaluators import MAIN, evaluators_of
from maze_runtime.run.metric_text import MEAN_REWARD, MetricText

if TYPE_CHECKING:
    from maze_kernel.config.experiment import Experiment

EPISODE_COUNT = "BaseEnvEvents/episode_count"

EPISODE_TAGS = (
    MEAN_REWARD,
    "BaseEnvEvents/reward/std",
    "BaseEnvEvents/reward/min",
    "BaseEnvEvents/reward/max",
    "BaseEnvEvents/reward/median",
    "BaseEnvEvents/episode_length/mean",
    "BaseEnvEvents/episode_length/median",
    EPISODE_COUNT,
)
"""What every evaluation measures, and so what `[evaluation] metric` may always name."""

_OF_REWARDS = ("mean", "std", "min", "max", "median")
TRAINING_TAGS = (
    *EPISODE_TAGS,
    *(f"BaseEnvEvents/raw_reward/{name}" for name in _OF_REWARDS),
    "BaseEnvEvents/total_step_count",
    "BaseEnvEvents/total_episode_count",
)
"""What epochs of training may measure of every environment."""


@attrs.frozen
class Metric:
    """The statistic that selects the best model, looked up among an epoch's evaluation and training statistics.

    Attributes:
        tag: of the statistic, e.g. "BaseEnvEvents/reward/mean", or "hard/BaseEnvEvents/reward/mean" of an evaluator.
        minimize: whether less is better.
        evaluators: names of the run's evaluators beside the main one.
    """

    tag: str
    minimize: bool = False
    evaluators: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, evaluators: Iterable[str] = ()) -> Metric:
        """A tag, with a minus before it where less is better."""
        read = MetricText.parse(text)
        return cls(str(read), read.minimize, tuple(evaluators))

    @classmethod
    def of_experiment(cls, experiment: Experiment, default: str = MEAN_REWARD) -> Metric:
        """What the experiment names, else `default`."""
        evaluation = experiment.evaluation
        return cls.parse(evaluation.metric or default, evaluation.evaluators)

    @property
    def text(self) -> str:
        """As `[evaluation] metric` spells it."""
        return f"-{self.tag}" if self.minimize else self.tag

    @property
    def evaluator(self) -> str:
        """Whose statistic it is, unless it is one of training."""
        return self._read.evaluator(self.evaluators) or MAIN

    def measured_in(self, evaluation: Mapping[str, Any] | None) -> bool:
        """Whether its evaluator took part in an evaluation."""
        return any((MetricText(tag).evaluator(self.evaluators) or MAIN) == self.evaluator for tag in evaluation or ())

    @property
    def of_training(self) -> bool:
        """Whether every epoch has it, evaluated or not."""
        return self._read.split == "train"

    @property
    def name(self) -> str:
        """Of the statistic, as `known_names` has it."""
        return self._read.tag if self._read.split == "eval" else self.tag

    @property
    def _read(self) -> MetricText:
        return MetricText.parse(self.tag)

    def found_as(self, experiment: Experiment, *, is_shaped: bool) -> str:
        """The tag of an evaluation's statistic, or `train_` and that of one of training, whose values select.

        Args:
            experiment: says who evaluates.
            is_shaped: whether wrappers shape the rewards of training.
        """
        evaluates = bool(evaluators_of(experiment)[self.evaluator].n_episodes)
        if self._read.source(evaluates) == "eval":
            return self._read.tag
        return f"train_{self._read.paid_tag if is_shaped else self._read.tag}"

    def is_better(self, value: float, best: float | None) -> bool:
        """Whether a value is finite and beats the best so far."""
        if not np.isfinite(value) or best is None:
            return bool(np.isfinite(value))
        return value < best if self.minimize else value > best

    def check_name(self) -> None:
        """Refuse a misspelt base statistic before training starts; others are known after the first evaluation."""
        prefix = "" if self.evaluator == MAIN else f"{self.evaluator}/"
        tag = self.tag.removeprefix(prefix)
        is_base = tag.startswith("BaseEnvEvents/") and not tag.startswith("BaseEnvEvents/kpi/")
        rest = tag.partition("/")[2]
        is_unknown = "Events/" in rest and not self.of_training  # of an evaluator that there is not
        if (is_base and tag not in EPISODE_TAGS) or is_unknown:
            known = [f"{name}/{base}" for name in self.evaluators for base in EPISODE_TAGS]
            raise unknown_metric(self.tag, [*EPISODE_TAGS, *known])
        if self._is_unknown_in_training():
            raise unknown_metric(self.tag, [f"train_{base}" for base in TRAINING_TAGS])

    def of(
        self, train: Mapping[str, Any], evaluation: Mapping[str, Any] | None, known: Container[str] = ()
    ) -> float | None:
        """The value this epoch; None in an epoch without it.

        Such an epoch is one whose evaluation its evaluator took no part in, one of training in which no episode ended,
        and any in which what the statistic tells of did not happen.

        Args:
            known: names of statistics that the run has had, see `known_names`.

        Raises:
            RequestError: its evaluator took part and there is no such statistic.
        """
        value = self.find(train, evaluation)
        if value is not None or evaluation is None or self.name in known:
            return value
        if self._waits_for_an_episode(train) or not (self.of_training or self.measured_in(evaluation)):
            return None
        raise unknown_metric(self.tag, known_names(train, evaluation))

    def find(self, train: Mapping[str, Any], evaluation: Mapping[str, Any] | None) -> float | None:
        """The value this epoch; None in an epoch without it, and where there is no such statistic."""
        if evaluation is not None and not self.measured_in(evaluation) and not self.of_training:
            return None
        value = self._read.find(train, evaluation)
        return None if value is None else float(value)

    def _waits_for_an_episode(self, train: Mapping[str, Any]) -> bool:
        """Whether it may be a statistic of episodes, of which none ended in this epoch of training."""
        if not self.of_training or train.get(EPISODE_COUNT) != 0 or self._is_unknown_in_training():
            return False
        owner = self._read.tag.partition("/")[0]
        return owner == "BaseEnvEvents" or not any(tag.startswith(f"{owner}/") for tag in train)

    def _is_unknown_in_training(self) -> bool:
        bare = self._read.tag
        is_base = bare.startswith("BaseEnvEvents/") and not bare.startswith("BaseEnvEvents/kpi/")
        return self.of_training and is_base and bare not in TRAINING_TAGS


def known_names(train: Iterable[str], evaluation: Iterable[str]) -> list[str]:
    """Tags of an epoch's statistics in the words of metrics: those of training have a prefix."""
    return [*evaluation, *(f"train_{tag}" for tag in train)]


def unknown_metric(tag: str, known: Sequence[str]) -> Exception:
    """The error that names the statistics closest to a misspelt one."""
    from maze_kernel.catalog import nearest
    from maze_kernel.errors import RequestError

    return RequestError(
        f"no statistic is called {tag!r}",
        received=f"[evaluation] metric = {tag!r}",
        nearest=nearest(tag, known),
        help="name an evaluation statistic without its prefix, or a training one with 'train_'",
    )


def wrapped_tags(tags: Sequence[str]) -> str:
    """The names of statistics in several lines of an error, so that all of them fit on the screen."""
    return fill(", ".join(tags), 116, subsequent_indent=" " * 6, break_long_words=False, break_on_hyphens=False)
