import io

import attrs
import pytest
from rich.console import Console

from maze_console.logger import ConsoleLogger
from maze_console.options import ConsoleOptions
from maze_console.view import RunView, sparkline
from maze_kernel.contracts.logger import EpochRecord, LoggerContext, Outcome, Progress


def make(terminal, verbosity=0, options=None, **environment):
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=120, _environ=environment, highlight=False)
    context = LoggerContext(run_dir=None, name="cartpole", n_epochs=4, max_env_steps=0, verbosity=verbosity)
    return ConsoleLogger(context, options or ConsoleOptions(plain_interval_seconds=0), console), file


def record(epoch, reward, is_best=False):
    return EpochRecord(
        epoch=epoch,
        env_steps=100 * epoch,
        wall_seconds=2.0 * epoch,
        train={"ActorCriticEvents/policy_loss": 0.25, "BaseEnvEvents/reward/mean": 3.5},
        evaluation={"BaseEnvEvents/reward/mean": reward},
        is_best=is_best,
        best_metric=10.0,
    )


def run(logger):
    logger.write(record(1, 10.0, is_best=True))
    logger.progress(Progress(env_steps=150, fraction=0.5))
    logger.message("checkpoint saved")
    logger.write(record(2, 8.0))
    logger.close(Outcome(status="done", reason="all 4 epochs done", best_epoch=1, best_metric=10.0))


def test_plain_lines_when_piped():
    logger, file = make(terminal=False)
    run(logger)
    lines = file.getvalue().splitlines()
    assert lines[0] == "epoch 1/4  100 steps  train reward 3.5  eval reward 10  best 10 (epoch 1)"
    assert lines[1] == "checkpoint saved"
    assert lines[2] == "epoch 2/4  200 steps  50 steps/s  train reward 3.5  eval reward 8  best 10 (epoch 1)  4s left"
    assert lines[3] == "done: all 4 epochs done; best 10 in epoch 1"
    assert "\x1b" not in file.getvalue()


def test_evaluators_with_a_name_are_shown_with_it():
    logger, file = make(terminal=False)
    beside = {"BaseEnvEvents/reward/mean": 10.0, "hard/BaseEnvEvents/reward/mean": 2.5}
    logger.write(attrs.evolve(record(1, 10.0), evaluation=beside))
    logger.write(record(2, 8.0))
    assert file.getvalue().splitlines()[0].split("  ")[2:5] == ["train reward 3.5", "eval reward 10", "hard 2.5"]
    live, screen = make(terminal=True)
    live.write(attrs.evolve(record(1, 10.0), evaluation=beside))
    live.close(Outcome(status="done", reason="all"))
    assert "hard" in screen.getvalue()
    assert "2.5" in screen.getvalue()


def test_an_evaluator_whose_reward_selects_is_shown_once():
    beside = {"BaseEnvEvents/reward/mean": 10.0, "hard/BaseEnvEvents/reward/mean": 2.5}
    for terminal in (False, True):
        logger, file = make(terminal=terminal)
        logger._view.context = attrs.evolve(logger._view.context, metric="hard/BaseEnvEvents/reward/mean")
        logger.write(attrs.evolve(record(1, 10.0), evaluation=beside, metric=2.5))
        if terminal:
            logger.close(Outcome(status="done", reason="all"))
        shown = file.getvalue()
        assert terminal or shown.count("hard") == 1
        assert "hard/reward" not in shown


def test_the_live_view_shows_budget_speed_reward_and_best():
    logger, file = make(terminal=True)
    run(logger)
    screen = file.getvalue()
    for text in (
        "cartpole",
        "epoch 2 of 4",
        "50 steps/s",
        "train reward",
        "eval reward",
        "10 in epoch 1",
        "█▁",
        "checkpoint saved",
    ):
        assert text in screen


def test_no_color_is_respected():
    logger, file = make(terminal=True, NO_COLOR="1")
    run(logger)
    assert "\x1b[3" not in file.getvalue()


def test_verbose_prints_the_table():
    logger, file = make(terminal=False, verbosity=1)
    run(logger)
    rows = [line.strip(" │").split("│") for line in file.getvalue().splitlines() if "/" in line and "│" in line]
    cells = [[cell.strip() for cell in row] for row in rows]
    assert cells[:2] == [["ActorCriticEvents/policy_loss", "0.25"], ["BaseEnvEvents/reward/mean", "3.5", "10"]]


def test_silent_prints_nothing():
    logger, file = make(terminal=True, verbosity=-1)
    run(logger)
    assert file.getvalue() == ""


def test_fast_epochs_are_thinned_out_but_the_last_one_is_shown():
    logger, file = make(terminal=False, options=ConsoleOptions(plain_interval_seconds=3600.0))
    for epoch in range(1, 100):
        logger.write(record(epoch, 1.0))
    logger.close(Outcome(status="done", reason="enough"))
    lines = [line for line in file.getvalue().splitlines() if line.startswith("epoch")]
    assert [line.split()[1] for line in lines] == ["1/4", "99/4"]


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        ([], ""),
        ([1, 1], "▄▄"),
        ([0, 7], "▁█"),
        ([0, float("inf"), float("nan"), 7, float("-inf")], "▁█ █▁"),
        ([float("nan"), 1e300], " ▄"),
    ],
)
def test_sparkline(values, bars):
    assert sparkline(values) == bars


def test_time_left_does_not_count_what_was_estimated_before_training():
    view = RunView(LoggerContext(run_dir=None, name="cartpole", n_epochs=4, max_env_steps=0, verbosity=0))
    view.see_progress(Progress(env_steps=0, fraction=0.1, phase="estimate"), 0.0)
    view.seconds_left(0.0)
    view.see_progress(Progress(env_steps=0, fraction=0.0, phase="rollout"), 60.0)
    assert view.seconds_left(60.0) is None
    view.see_progress(Progress(env_steps=10, fraction=0.5, phase="rollout"), 61.0)
    assert view.seconds_left(61.0) is not None


def line(record, metric="BaseEnvEvents/reward/mean", n_epochs=4):
    view = RunView(LoggerContext(run_dir=None, name="c", n_epochs=n_epochs, max_env_steps=0, metric=metric))
    view.see_record(record)
    return view.line(record)


def test_a_line_tells_what_the_environment_paid_from_what_wrappers_make_of_it():
    shaped = {"BaseEnvEvents/reward/mean": 6.1, "BaseEnvEvents/raw_reward/mean": 302.5}
    shown = line(EpochRecord(epoch=1, env_steps=5, wall_seconds=1.0, train=shaped))
    assert shown == "epoch 1/4  5 steps  train reward 302.5 (6.1 after wrappers)"


def test_another_statistic_that_selects_is_shown_by_name():
    of_epoch = EpochRecord(
        epoch=1,
        env_steps=5,
        wall_seconds=1.0,
        train={"ActorCriticEvents/value_loss": 0.25},
        evaluation={"BaseEnvEvents/reward/mean": 3.0, "BaseEnvEvents/kpi/mean/waste": 0.5},
        is_best=True,
        metric=0.5,
        best_metric=0.5,
    )
    assert line(of_epoch, "BaseEnvEvents/kpi/mean/waste").endswith(
        "eval reward 3  kpi/mean/waste 0.5  best 0.5 (epoch 1)"
    )
    assert "train_kpi/mean/waste 0.5" in line(of_epoch, "train_BaseEnvEvents/kpi/mean/waste")


@pytest.mark.parametrize("metric", ["BaseEnvEvents/reward/mean", "train_BaseEnvEvents/raw_reward/mean"])
def test_a_reward_that_selects_is_shown_once(metric):
    rewards = {"BaseEnvEvents/reward/mean": 0.5, "BaseEnvEvents/raw_reward/mean": 7.25}
    of_epoch = EpochRecord(epoch=1, env_steps=5, wall_seconds=1.0, train=rewards, metric=7.25)
    assert line(of_epoch, metric).count("7.25") == 1


def test_a_long_epoch_shows_its_part_and_speed_before_it_ends(monkeypatch):
    clock = iter(range(0, 1000, 3))
    monkeypatch.setattr("maze_console.logger.time.monotonic", lambda: float(next(clock)))
    logger, file = make(terminal=False, options=ConsoleOptions(progress_interval_seconds=20.0))
    for part in range(1, 6):
        logger.progress(Progress(env_steps=900 * part, fraction=part / 8, phase="update", reward=-1140.0))
    shown = file.getvalue().splitlines()
    assert shown
    assert all(text.startswith("epoch 1/4, ") and "(update)" in text for text in shown)
    assert "steps/s" in shown[-1]
    assert "train reward -1140 so far" in shown[-1]
    assert len(shown) < 5


def test_a_phase_that_begins_right_after_another_one_is_drawn(monkeypatch):
    monkeypatch.setattr("maze_console.logger.time.monotonic", lambda: 5.0)
    logger, file = make(terminal=True)
    for phase in ("rollout", "rollout", "compile"):
        logger.progress(Progress(env_steps=100, fraction=0.5, phase=phase))
    shown = file.getvalue()
    assert 0 < shown.count("rollout") <= 2
    assert "compile" in shown


@pytest.mark.parametrize("resumed_after", [0.0, 500.0])
def test_time_left_is_never_negative(resumed_after):
    """The console's clock runs while a run is set up; that of records does not, and counts what was trained before."""
    logger, _ = make(terminal=True)
    logger._started -= 300.0  # setting up took long
    view = logger._view
    for epoch in range(3):
        logger.progress(Progress(env_steps=100 * epoch + 50, fraction=0.5))
        logger.write(attrs.evolve(record(epoch + 1, 1.0), wall_seconds=resumed_after + epoch + 1.0))
        left = view.seconds_left(logger._wall_seconds())
        assert left is None or left >= 0.0
    assert left is not None


@pytest.mark.parametrize("terminal", [True, False])
def test_names_are_shown_as_they_are(terminal):
    """Rich reads brackets as markup."""
    logger, file = make(terminal=terminal, verbosity=1)
    tags = {"Events/move/[north]/mean": 1.0, "Events/move/[/x]/mean": 2.0}
    logger.write(attrs.evolve(record(1, 10.0), train=tags))
    logger.close(Outcome(status="done", reason="enough"))
    assert all(tag in file.getvalue() for tag in tags)
