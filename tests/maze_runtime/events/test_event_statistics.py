"""Statistics of events: step to episode to epoch, against sums done by hand."""

import pickle

import numpy as np
import pytest

from maze_kernel.errors import MazeError, MazeWarning
from maze_runtime.events.aggregation import EpisodeAggregator, EpochAggregator
from maze_runtime.events.declaration import (
    define_episode_stats,
    define_epoch_stats,
    define_plot,
    define_stats_grouping,
    define_step_stats,
    histogram,
)
from maze_runtime.events.episode import EpisodeRecorder
from maze_runtime.events.pubsub import Pubsub
from maze_runtime.training.loop import _written


def bars(value, group):
    return {"figure of": value, "for": group}


class ShopEvents:
    @define_epoch_stats(np.mean, output_name="mean_episode_total")
    @define_episode_stats(sum)
    @define_step_stats(len)
    def customer_came(self):
        """No attributes: only counted."""

    @define_epoch_stats(np.mean, input_name="step_mean", output_name="step_mean")
    @define_epoch_stats(max, input_name="step_max", output_name="step_max")
    @define_episode_stats(np.mean, output_name="step_mean")
    @define_episode_stats(max, output_name="step_max")
    @define_step_stats(None)
    def stock(self, value):
        """Once a step."""

    @define_epoch_stats(sum, output_name="euros", input_name="euros")
    @define_epoch_stats(sum, output_name="all", group_by="aisle", input_name="euros")
    @define_episode_stats(sum, input_name="euros", output_name="euros")
    @define_step_stats(sum, input_name="price", output_name="euros")
    @define_stats_grouping("aisle", "kind")
    def sold(self, aisle, kind, price, weight):
        """Grouped."""

    @define_epoch_stats(list, input_name="weight")
    def weighed(self, weight, scale):
        """Neither step nor episode statistics: attributes go straight to the epoch."""

    @define_epoch_stats(sum, output_name="ever", cumulative=True)
    @define_epoch_stats(sum, output_name="now")
    @define_episode_stats(sum)
    @define_step_stats(len)
    def rang(self):
        """Cumulative."""

    @define_plot(bars, input_name="seen")
    @define_epoch_stats(list, output_name="seen")
    @define_episode_stats(list)
    @define_step_stats(None)
    def chose(self, action):
        """Drawn."""


class VisitEvents:
    @define_epoch_stats(histogram)
    @define_episode_stats(list)
    @define_step_stats(list)
    def stayed(self, minutes): ...


@pytest.fixture
def shop():
    pubsub = Pubsub()
    topic = pubsub.create_event_topic(ShopEvents)
    log = pubsub.record()
    return topic, log


def play(shop, episodes, fire):
    """The statistics of an epoch: `fire(topic, episode, step)` for each step of each episode."""
    topic, log = shop
    aggregator, epoch = EpisodeAggregator(), EpochAggregator()
    for episode, length in enumerate(episodes):
        for step in range(length):
            fire(topic, episode, step)
            aggregator.add_step(log)
            log.clear()
        # The way from a worker process.
        epoch.add_episodes(pickle.loads(pickle.dumps([aggregator.finish()])))
    return epoch.reduce()


def test_events_are_counted_a_step_summed_over_the_episode_and_averaged_over_the_epoch(shop):
    def fire(topic, episode, step):
        for _ in range(step if episode == 0 else 2):
            topic.customer_came()

    assert play(shop, [4, 3], fire) == {"ShopEvents/customer_came/mean_episode_total": (0 + 1 + 2 + 3 + 6) / 2}


def test_two_statistics_of_one_event_keep_apart(shop):
    values = [[5, 7], [1, 2, 9]]
    result = play(shop, [2, 3], lambda topic, episode, step: topic.stock(values[episode][step]))
    assert result == {"ShopEvents/stock/step_mean": (6 + 4) / 2, "ShopEvents/stock/step_max": 9}


def test_more_than_one_value_where_one_was_promised_is_an_error_that_says_what_to_do(shop):
    def fire(topic, episode, step):
        topic.stock(1)
        topic.stock(value=2)

    with pytest.raises(MazeError, match=r"stock has several values(.|\n)*such as sum"):
        play(shop, [1], fire)


def test_groups_are_kept_apart_and_pooled_by_one_attribute(shop):
    def fire(topic, episode, step):
        topic.sold(1, "fruit", price=2.0, weight=1)
        topic.sold(aisle=1, kind="bread", price=3.0, weight=1)
        topic.sold(aisle=2, kind="bread", price=10.0 * step, weight=1)

    assert play(shop, [2, 1], fire) == {
        "ShopEvents/sold/euros/1/fruit": 6.0,
        "ShopEvents/sold/euros/1/bread": 9.0,
        "ShopEvents/sold/euros/2/bread": 10.0,
        "ShopEvents/sold/all/1": 15.0,
        "ShopEvents/sold/all/2": 10.0,
    }


def test_attributes_go_straight_to_the_first_level_that_is_declared(shop):
    result = play(shop, [2, 1], lambda topic, episode, step: topic.weighed(weight=10 * episode + step, scale="left"))
    assert result == {"ShopEvents/weighed": [0, 1, 10]}


def test_cumulative_statistics_go_on_over_epochs_and_appear_without_new_data(shop):
    topic, log = shop
    aggregator, epoch = EpisodeAggregator(), EpochAggregator()
    seen = []
    for n_events in (2, 0, 3):
        for _ in range(n_events):
            topic.rang()
        aggregator.add_step(log)
        log.clear()
        epoch.add_episodes([aggregator.finish()])
        seen.append(epoch.reduce())
    assert seen == [
        {"ShopEvents/rang/now": 2, "ShopEvents/rang/ever": 2},
        {"ShopEvents/rang/now": 0, "ShopEvents/rang/ever": 2},
        {"ShopEvents/rang/now": 3, "ShopEvents/rang/ever": 5},
    ]


def test_a_plot_takes_the_place_of_its_statistic(shop):
    result = play(shop, [2], lambda topic, episode, step: topic.chose(step))
    assert result == {"ShopEvents/chose/seen": {"figure of": [[0, 1]], "for": ()}}


def test_a_histogram_joins_what_steps_and_episodes_left_as_lists():
    pubsub = Pubsub()
    topic, log = pubsub.create_event_topic(VisitEvents), pubsub.record()

    def fire(topic, episode, step):
        for visitor in range(step):
            topic.stayed([episode, visitor] if visitor else 7)

    values = play((topic, log), [3, 4], fire)["VisitEvents/stayed"]
    assert values.tolist() == [7, 7, 0, 1, 7, 7, 1, 1, 7, 1, 1, 1, 2]
    assert histogram([]).tolist() == []


@pytest.mark.parametrize("value", [[[0, 1], [2]], [0, 1, 2], [[[0]], np.array([1, 2])]])
def test_loggers_get_nested_lists_of_numbers_as_one_histogram(value):
    assert _written(value).tolist() == [0, 1, 2]
    assert _written([["left", "right"], []]) == "[['left', 'right'], []]"


def test_statistics_keep_the_order_that_events_first_came_in_and_take_it_over(shop):
    topic, log = shop

    def reduced(epoch, *fire):
        aggregator = EpisodeAggregator()
        for event in fire:
            event()
        aggregator.add_step(log)
        log.clear()
        epoch.add_episodes([aggregator.finish()])
        return list(epoch.reduce())

    first, resumed = EpochAggregator(), EpochAggregator()
    whole = reduced(first, topic.customer_came, topic.rang)
    resumed.order = list(first.order)
    assert reduced(resumed, topic.rang, topic.customer_came) == whole
    assert reduced(EpochAggregator(), topic.rang, topic.customer_came) != whole


def test_a_discarded_episode_is_not_counted(shop):
    topic, log = shop
    aggregator, epoch = EpisodeAggregator(), EpochAggregator()
    topic.customer_came()
    aggregator.add_step(log)
    aggregator.discard()
    epoch.add_episodes([aggregator.finish()])
    assert epoch.reduce() == {"ShopEvents/customer_came/mean_episode_total": 0.0}


def test_an_episode_in_which_an_event_does_not_happen_counts_as_zero(shop):
    topic, log = shop
    aggregator, epoch = EpisodeAggregator(), EpochAggregator()
    for n_events in (0, 3):
        for _ in range(n_events):
            topic.customer_came()
        aggregator.add_step(log)
        log.clear()
        epoch.add_episodes([aggregator.finish([ShopEvents])])
    # Nothing was ever in stock: its mean and maximum have no value.
    assert epoch.reduce() == {
        "ShopEvents/customer_came/mean_episode_total": 1.5,
        "ShopEvents/rang/ever": 0,
        "ShopEvents/rang/now": 0,
    }


def test_a_misspelt_attribute_is_found_where_it_is_written():
    with pytest.raises(TypeError, match=r"no attribute 'colour', only price"):

        class _Wrong:
            @define_stats_grouping("colour")
            def sold(self, price): ...


def test_two_statistics_of_one_name_are_refused():
    with pytest.raises(TypeError, match="two episode statistics with output_name None"):

        class _Wrong:
            @define_episode_stats(sum)
            @define_episode_stats(max)
            def sold(self, price): ...


def test_all_episodes_of_an_epoch_count_and_a_warning_says_where_they_no_longer_do(monkeypatch):
    pubsub = Pubsub()
    topic, recorder, epoch = pubsub.create_event_topic(ShopEvents), EpisodeRecorder(pubsub), EpochAggregator()

    def play(n_episodes):
        for _ in range(n_episodes):
            pubsub.clear_subscribers()
            recorder.begin_step()
            topic.customer_came()
            topic.weighed(1, 1)
            recorder.end_step()
            recorder.end_episode(None)
        epoch.add_episodes(recorder.drain())
        return len(epoch.reduce()["ShopEvents/weighed"])

    assert play(2500) == 1000, "nobody has asked for them yet"
    assert play(2500) == 2500
    monkeypatch.setattr("maze_runtime.events.episode.MAX_EPISODES", 100)
    with pytest.warns(MazeWarning, match="make epochs shorter") as warned:
        play(150)
    assert len(warned) == 1
