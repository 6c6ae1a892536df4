"""What a metric names, and what stands in for it where nothing is evaluated."""

import pytest

from maze_runtime.run.metric_text import MetricText

REWARD, PAID = "BaseEnvEvents/reward/mean", "BaseEnvEvents/raw_reward/mean"


@pytest.mark.parametrize(
    ("text", "tag", "split", "minimize"),
    [
        (REWARD, REWARD, None, False),
        ("-train_My/loss", "My/loss", "train", True),
        (f"eval_{REWARD}", REWARD, "eval", False),
        ("train_loss", "train_loss", None, False),
    ],
)
def test_a_text_is_read_and_written(text, tag, split, minimize):
    read = MetricText.parse(text)
    assert (read.tag, read.split, read.minimize) == (tag, split, minimize)
    assert str(read) == text.removeprefix("-")


@pytest.mark.parametrize(
    ("text", "train", "evaluation", "value"),
    [
        (REWARD, {REWARD: 1.0, PAID: 2.0}, {REWARD: 3.0}, 3.0),
        (REWARD, {REWARD: 1.0, PAID: 2.0}, {}, None),
        (REWARD, {REWARD: 1.0, PAID: 2.0}, None, 2.0),
        (REWARD, {REWARD: 1.0}, None, 1.0),
        (f"train_{REWARD}", {REWARD: 1.0, PAID: 2.0}, None, 1.0),
        (f"eval_{REWARD}", {REWARD: 1.0}, None, None),
    ],
)
def test_training_stands_in_where_there_was_no_evaluation(text, train, evaluation, value):
    assert MetricText.parse(text).find(train, evaluation) == value


def test_an_evaluator_measures_what_its_name_stands_before():
    assert MetricText.parse(f"-eval_hard/{REWARD}").evaluator(["hard"]) == "hard"
    assert MetricText.parse(f"hard/{REWARD}").evaluator([]) is None
    assert MetricText.parse(f"train_hard/{REWARD}").evaluator(["hard"]) is None
