"""What trainers are put together from: counters, schedules over the budget, timing, the error of an update."""

import pickle
import re

import numpy as np
import pytest

from maze_dqn.options import DQNOptions
from maze_ppo.options import PPOOptions
from maze_runtime.training.budget import Budget
from maze_runtime.training.counters import Counters
from maze_runtime.training.epoch_timer import EpochTimer
from maze_runtime.training.non_finite import non_finite_update
from maze_runtime.training.schedules import Schedule
from maze_td3.options import TD3Options


@pytest.mark.parametrize(("epoch", "env_steps", "rate"), [(0, 0, 1.0), (5, 0, 0.5), (5, 75, 0.25), (20, 500, 0.0)])
def test_a_schedule_follows_whichever_budget_is_used_up_first(epoch, env_steps, rate):
    counters = Counters(PPOOptions(n_epochs=10, max_env_steps=100), lambda _progress: None)
    counters.load_state_dict({"epoch": epoch, "env_steps": env_steps, "optimizer": {}})
    assert counters.scheduled(Schedule(start=1.0)) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("options", "arguments", "said"),
    [
        (
            PPOOptions,
            {"lr": Schedule(start=-1e-3, end=-1e-3)},
            ">= 0 and not 0 throughout: -0.001 to -0.001",
        ),
        (PPOOptions, {"lr": Schedule(start=1e-3, end=-1e-3)}, "0.001 to -0.001"),
        (PPOOptions, {"lr": 0.0}, "'lr' must be > 0: 0.0"),
        (PPOOptions, {"lr": Schedule(start=0.0, end=0.0)}, "0.0 to 0.0"),
        (DQNOptions, {"epsilon": 1.5}, "'epsilon' must be >= 0.0 and <= 1.0: 1.5"),
        (DQNOptions, {"epsilon": Schedule(start=1.0, end=-0.1)}, "1.0 to -0.1"),
        (DQNOptions, {"importance_exponent": Schedule(start=4.0, end=1.0)}, "4.0 to 1.0"),
        (TD3Options, {"exploration_noise": -0.1}, "'exploration_noise' must be >= 0.0: -0.1"),
    ],
)
def test_both_ends_of_a_schedule_are_checked_as_a_number_is(options, arguments, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        options(**arguments)
    options(lr=Schedule(start=1e-3, end=0.0))
    options(lr=Schedule(start=0.0, end=1e-3))


def test_a_schedule_moves_within_an_epoch():
    counters = Counters(PPOOptions(n_epochs=4), lambda _progress: None)
    assert counters.scheduled(Schedule(start=1.0), 0.5) == pytest.approx(0.875)


def test_a_schedule_stands_still_while_an_update_goes_on():
    counters, falling = Counters(PPOOptions(max_env_steps=40), lambda _progress: None), Schedule(start=1.0)
    seen = []
    for _ in counters.updates(9):
        seen.append(counters.scheduled(falling))
        counters.env_steps += 10
        seen.append(counters.rate_of_update(falling))
    assert seen == [1.0, 1.0, 0.75, 0.75, 0.5, 0.5, 0.25, 0.25]
    assert (counters.reported_rate(falling), counters.scheduled(falling)) == (0.25, 0.0)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({}, "when it is interrupted"),
        ({"patience": 15}, "after 15 evaluations without a better one"),
        ({"n_epochs": 1, "max_env_steps": 50_000}, "after 1 epoch, or 50,000 environment steps"),
        ({"max_seconds": 1.5, "patience": 1}, "after 1.5 seconds, or 1 evaluation without a better one"),
    ],
)
def test_a_budget_says_what_ends_training(limits, said):
    assert Budget(**limits).described() == f"training ends {said}"


def test_a_resumed_trainer_goes_on_counting():
    counters = Counters(PPOOptions(), lambda _progress: None)
    counters.epoch, counters.env_steps = 3, 700
    resumed = Counters(PPOOptions(), lambda _progress: None)
    resumed.load_state_dict(counters.state_dict())
    assert (resumed.epoch, resumed.env_steps) == (3, 700)


def test_reports_say_how_many_steps_were_taken():
    reports = []
    counters = Counters(PPOOptions(), reports.append)
    counters.env_steps = 12
    counters.report(0.25, "rollout")
    assert [(report.env_steps, report.fraction, report.phase) for report in reports] == [(12, 0.25, "rollout")]


@pytest.mark.parametrize(("budget", "n_updates"), [(0, 5), (100, 5), (30, 3), (25, 3), (10, 1), (5, 1)])
def test_updates_of_ten_steps_end_with_the_budget(budget, n_updates):
    counters = Counters(PPOOptions(max_env_steps=budget), lambda _progress: None)
    done = []
    for index in counters.updates(5):
        counters.env_steps += 10
        done.append(index)
    assert done == list(range(n_updates))


def test_compiling_does_not_slow_the_rates_down():
    timer = EpochTimer()
    timer.seconds = {"rollout_seconds": 2.0, "update_seconds": 11.0}
    assert timer.statistics(compile_seconds=8.0, env_steps=100, updates=10) == {
        "Timing/rollout_seconds": 2.0,
        "Timing/update_seconds": 11.0,
        "Timing/env_steps_per_second": 20.0,
        "Timing/updates_per_second": 2.0,
        "Timing/compile_seconds": 8.0,
    }


def test_a_non_finite_update_carries_its_batch_from_process_to_process():
    error = non_finite_update("update 3", {"reward": np.array([np.nan])}, owner="maze-ppo")
    copy = pickle.loads(pickle.dumps(error))
    assert np.isnan(copy.batch["reward"]).all()
    assert "look at the batch" in copy.help


def test_an_update_without_a_batch_promises_none():
    assert "batch" not in non_finite_update("update 3", None, owner="maze-ppo").help
