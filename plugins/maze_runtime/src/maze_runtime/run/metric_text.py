"""Names of statistics as `[evaluation] metric` spells them: `-train_ActorCriticEvents/value_loss`. No torch here."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Literal

import attrs

MEAN_REWARD = "BaseEnvEvents/reward/mean"
"""What selects the best model where neither experiment nor trainer says anything else."""

Split = Literal["train", "eval"]


@attrs.frozen
class MetricText:
    """What a text names.

    Attributes:
        tag: of the statistic, without what stands before it.
        split: whose it is as the text says; None: of evaluations, or of training where nothing is evaluated.
        minimize: whether less is better.
    """

    tag: str
    split: Split | None = None
    minimize: bool = False

    @classmethod
    def parse(cls, text: str) -> MetricText:
        """A minus where less is better, then `train_` or `eval_` or neither, then a tag."""
        named = text.removeprefix("-")
        minimize = text.startswith("-")
        for split in ("train", "eval"):
            bare = named.removeprefix(f"{split}_")
            if bare != named and "/" in bare:
                return cls(bare, split, minimize)
        return cls(named, None, minimize)

    def __str__(self) -> str:
        return self.tag if self.split is None else f"{self.split}_{self.tag}"

    def evaluator(self, names: Container[str]) -> str | None:
        """The evaluator that measures it: "hard" of "hard/BaseEnvEvents/reward/mean"; None: the table `[evaluation]`.

        Args:
            names: of the run's evaluators.
        """
        first, slash, _ = self.tag.partition("/")
        return first if slash and self.split != "train" and first in names else None

    def source(self, evaluates: bool) -> Split:
        """Whose statistic is taken.

        Args:
            evaluates: whether what would measure it plays episodes.
        """
        return self.split or ("eval" if evaluates else "train")

    @property
    def paid_tag(self) -> str:
        """The tag that takes its place where training stands in for an evaluation, if training has it.

        Of rewards it is what environments paid, before wrappers shaped them, as evaluations measure it.
        """
        is_own = self.split is not None
        return self.tag if is_own else self.tag.replace("BaseEnvEvents/reward/", "BaseEnvEvents/raw_reward/")

    def find(self, train: Mapping[str, Any], evaluation: Mapping[str, Any] | None) -> Any:
        """Its value among an epoch's statistics, None without one.

        Args:
            evaluation: None where there was none.
        """
        if self.source(evaluation is not None) == "eval":
            return (evaluation or {}).get(self.tag)
        return train.get(self.paid_tag, train.get(self.tag))
