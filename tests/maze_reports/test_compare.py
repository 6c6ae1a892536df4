"""`maze compare`: numbers that can be worked out by hand, failed runs, wrong requests, JSON and CSV."""

import csv
import io
import json

import numpy as np
import pytest

from maze_kernel.errors import RequestError
from maze_reports.comparison import CompareOptions, compare_runs
from maze_reports.runs import open_runs


@pytest.fixture
def compared(tmp_path):
    def compare(**options):
        return compare_runs(open_runs([tmp_path])[0], CompareOptions(**options))

    return compare


@pytest.fixture
def pair(make_run):
    """Three runs of `slow`, of which one failed early, and two of `quick`."""
    make_run("s1", {100: 1.0, 200: 3.0, 300: 9.0}, name="slow", seed=1)
    make_run("s2", {100: 2.0, 200: 5.0, 300: 6.0}, name="slow", seed=2)
    make_run("s3", {100: 0.0}, name="slow", seed=3, end="failed: NaN in a gradient")
    make_run("q1", {100: 8.0, 250: 7.0}, name="quick", seed=1, trainer={"use": "ppo", "lr": 0.1})
    make_run("q2", {100: 4.0, 250: 8.0}, name="quick", seed=2, trainer={"use": "ppo", "lr": 0.1})


def by_label(comparison):
    return {result.group.label: result for result in comparison.groups}


@pytest.mark.parametrize(
    ("final", "slow", "quick"),
    [
        ("last", [9.0, 6.0, 0.0], [7.0, 8.0]),
        ("best", [9.0, 6.0, 0.0], [8.0, 8.0]),
        ("auc", [(1 + 3) / 2, (2 + 5) / 2, 0.0], [(1.5 * 8 + 0.5 * 7) / 2, (1.5 * 4 + 0.5 * 8) / 2]),
    ],
)
def test_scores_by_hand(pair, compared, final, slow, quick):
    results = by_label(compared(final=final))
    np.testing.assert_allclose(results["slow"].scores, slow)
    np.testing.assert_allclose(results["quick"].scores, quick)


def test_less_may_be_better(pair, compared):
    comparison = compared(metric="-BaseEnvEvents/reward/mean", final="best")
    assert sorted(by_label(comparison)["slow"].scores) == [0.0, 1.0, 2.0]
    (improvement,) = comparison.improvements
    assert (improvement.label, improvement.other, improvement.probability) == ("slow", "quick", 1.0)


def test_curves_carry_the_last_value_of_every_run_on_one_grid(pair, compared):
    results = by_label(compared())
    assert results["slow"].grid.tolist() == results["quick"].grid.tolist() == [100, 200, 250, 300]
    np.testing.assert_allclose(results["slow"].curve, [1.0, 8 / 3, 8 / 3, 5.0])
    np.testing.assert_allclose(results["quick"].curve, [6.0, 6.0, 7.5, 7.5])
    assert results["slow"].band is None


def test_failed_runs_are_counted_and_keep_their_last_value(pair, compared):
    slow = by_label(compared())["slow"]
    assert slow.n == 3
    assert slow.states == {"done": 2, "failed": 1}
    assert 0.0 in slow.scores


def test_a_failed_run_without_any_value_is_counted_too(pair, make_run, maze):
    make_run("s4", {}, name="slow", seed=4, end="failed: at once")
    done = maze("compare", ".", "--threshold", "5")
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("slow") and "done" in line]
    assert row.split()[1] == "4"
    assert row.endswith("2 done, 2 failed; 1 without a value")
    assert "2 of 4" in done.stdout


def test_who_is_better_and_how_probably(pair, compared):
    (improvement,) = compared().improvements
    wins = sum((q > s) + 0.5 * (q == s) for q in (7, 8) for s in (9, 6, 0)) / 6
    assert (improvement.label, improvement.other) == ("quick", "slow")
    assert improvement.probability == pytest.approx(wins)
    assert (improvement.n, improvement.n_other, improvement.interval) == (2, 3, None)


def test_time_to_a_threshold(pair, compared):
    results = by_label(compared(threshold=5.0))
    assert [run.reached for run in results["slow"].runs] == [300.0, 200.0, np.inf]
    assert [run.reached for run in results["quick"].runs] == [100.0, 250.0]
    assert [run.reached for run in by_label(compared(threshold=5.0, x="wall_seconds"))["quick"].runs] == [2.0, 4.0]
    assert [run.reached for run in by_label(compared())["slow"].runs] == [None] * 3


@pytest.mark.parametrize(("n", "said"), [(4, "none: n = 4 < 5"), (7, "(narrow: n = 7 < 10)"), (10, "…")])
def test_the_number_of_runs_is_printed_and_what_it_means(make_run, maze, n, said):
    for seed in range(n):
        make_run(f"r{seed}", {10: float(seed)}, seed=seed)
    done = maze("compare", ".")
    assert done.exit_code == 0
    (row,) = [line for line in done.stdout.splitlines() if line.endswith(f"{n} done")]
    assert row.split()[1] == str(n)
    assert said in row
    assert ("narrow" in row) == (n == 7)


def test_real_runs_compare(maze, trained):
    done = maze("compare", trained / "ppo-1", trained / "ppo-2", trained / "a2c-1")
    assert done.exit_code == 0, done.stderr
    assert "3 runs by BaseEnvEvents/reward/mean of evaluation: last value" in done.stdout
    groups = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines() if line.endswith(" done")}
    assert groups == {"ppo": "2", "a2c": "1"}
    assert "trainer.use" in done.stdout


def test_a_run_named_twice_counts_once(maze, trained):
    done = maze("compare", trained / "ppo-1", trained, trained / "ppo-1", "--json")
    assert sum(group["n"] for group in json.loads(done.stdout)["groups"]) == 4


def test_runs_with_the_same_settings_and_seed_count_once_and_are_named(make_run, maze, tmp_path):
    make_run("a", {10: 1.0}, seed=1)
    make_run("b", {10: 2.0}, seed=2, end="failed: the disk is full")
    make_run("c", {10: 2.0, 20: 4.0}, seed=2, name="again")
    make_run("d", {10: 1.0}, seed=1, trainer={"use": "ppo", "lr": 0.1})
    make_run("e", {10: 7.0}, seed=1, end="failed: longer, and not to its end")
    done = maze("compare", ".")
    assert "3 runs by" in done.stdout
    assert "not counted in lr=0.001, with the settings and the seed of another run: b, e" in done.stdout
    data = json.loads(maze("compare", ".", "--json").stdout)
    group, other = data["groups"]
    assert [(run["run"], run["score"]) for run in group["runs"]] == [("a", 1.0), ("c", 4.0)]
    assert (group["n"], group["repeats"], other["repeats"]) == (2, ["b", "e"], [])
    assert len(maze("compare", ".", "--csv").stdout.splitlines()) == 1 + 3
    assert maze("compare", ".", "--html", "page.html").exit_code == 0
    assert "Not counted in lr=0.001" in (tmp_path / "page.html").read_text()


def test_grouped_by_a_setting_runs_with_other_settings_count_each(make_run, maze):
    make_run("a", {10: 1.0}, trainer={"use": "ppo", "lr": 0.1, "gamma": 0.9})
    make_run("b", {10: 1.0}, trainer={"use": "ppo", "lr": 0.1, "gamma": 0.8})
    (group,) = json.loads(maze("compare", ".", "--by", "trainer.lr", "--json").stdout)["groups"]
    assert (group["n"], group["repeats"], group["also_differ"]) == (2, [], ["trainer.gamma"])


def test_statistics_of_training_can_be_compared(maze, trained):
    done = maze("compare", trained, "--metric", "train_BaseEnvEvents/reward/mean", "--x", "epoch", "--json")
    data = json.loads(done.stdout)
    assert data["metric"] == "train_BaseEnvEvents/reward/mean"
    (failed,) = [group for group in data["groups"] if "failed" in group["states"]]
    assert failed["n"] == 1
    (ppo,) = [group for group in data["groups"] if group["n"] == 2]
    assert ppo["curve"]["x"] == [1.0, 2.0, 3.0]


def test_json_and_csv_say_the_same(pair, maze):
    data = json.loads(maze("compare", ".", "--threshold", "5", "--json").stdout)
    rows = list(csv.DictReader(io.StringIO(maze("compare", ".", "--threshold", "5", "--csv").stdout)))
    told = {run["run"]: (group["label"], run) for group in data["groups"] for run in group["runs"]}
    assert set(told) == {row["run"] for row in rows} == {"s1", "s2", "s3", "q1", "q2"}
    for row in rows:
        label, run = told[row["run"]]
        assert (row["group"], int(row["seed"]), row["state"]) == (label, run["seed"], run["state"])
        assert float(row["score"]) == run["score"]
        reached = float(row["threshold_at"])
        assert reached == (np.inf if run["threshold_at"] is None else run["threshold_at"])
    assert data["differences"] == [{"setting": "trainer.lr", "values": ["0.1", "0.001"]}]


def test_several_environments_need_references(make_run, maze, compared):
    for env, scale in (("CartPole-v1", 100.0), ("Acrobot-v1", -100.0)):
        for lr, level in ((0.1, 1.0), (0.2, 3.0)):
            for seed in (1, 2):
                trainer = {"use": "ppo", "lr": lr}
                make_run(f"{env}-{lr}-{seed}", {10: scale + level * seed}, env=env, seed=seed, trainer=trainer)
    done = maze("compare", ".")
    assert "not put together: give --reference ENV=LOW:HIGH for each of" in done.stdout
    references = {"CartPole-v1": (100.0, 110.0), "Acrobot-v1": (-100.0, -80.0)}
    comparison = compared(references=references)
    found = {aggregate.label: aggregate for aggregate in comparison.aggregates}
    assert found["lr=0.1"].mean == pytest.approx(np.mean([0.1, 0.2, 0.05, 0.1]))
    assert found["lr=0.2"].mean == pytest.approx(np.mean([0.3, 0.6, 0.15, 0.3]))
    assert found["lr=0.2"].n == {"CartPole-v1": 2, "Acrobot-v1": 2}
    (together,) = [pair for pair in comparison.improvements if not pair.task]
    assert (together.label, together.probability) == ("lr=0.2", 1.0)
    profile = found["lr=0.1"]
    at = np.searchsorted(profile.thresholds, 0.11)
    assert profile.profile[at] == pytest.approx((0.5 + 0.0) / 2)
    options = [text for env, (low, high) in references.items() for text in ("--reference", f"{env}={low}:{high}")]
    assert "all environments, 0 and 1 at the references" in maze("compare", ".", *options).stdout


def test_an_unknown_metric_lists_those_there_are_the_nearest_first(maze, trained):
    done = maze("compare", trained, "--metric", "reward_mean")
    assert done.exit_code == 2
    lines = done.stderr.splitlines()
    assert lines[0] == "error: no run has a statistic 'reward_mean'"
    expected = " ".join(lines[1:-2]).removeprefix("  = expected: ").replace(",", "").split()
    assert set(expected[:2]) == {"BaseEnvEvents/reward/mean", "train_BaseEnvEvents/reward/mean"}
    assert "train_ActorCriticEvents/entropy" in expected
    assert lines[-2].startswith("  = did you mean: ")
    assert lines[-1].startswith("  help: ")


@pytest.mark.parametrize(
    ("arguments", "says", "help"),
    [
        (["nowhere"], "there is no folder nowhere", "help: maze train FILE"),
        ([".", "--x", "steps"], "--x cannot be 'steps'", "expected: env_steps, wall_seconds, epoch"),
        ([".", "--final", "mean"], "--final cannot be 'mean'", "expected: last, best, auc"),
        ([".", "--threshold", "nan"], "--threshold cannot be nan", "expected: a finite number"),
        ([".", "--threshold", "-inf"], "--threshold cannot be -inf", "expected: a finite number"),
        ([".", "--reference", "CartPole-v1=0:inf"], "the references of CartPole-v1 are not finite", "received: 0:inf"),
        ([".", "--by", "trainer.rl"], "no run has a setting 'trainer.rl'", "did you mean: trainer.lr"),
        ([".", "--reference", "CartPole-v1"], "--reference takes ENV=LOW:HIGH", "for example --reference"),
        ([".", "--reference", "CartPole-v0=1:2"], "no run is on the environment 'CartPole-v0'", "mean: CartPole-v1"),
        ([".", "--reference", "CartPole-v1=2:2"], "the two references of CartPole-v1 are equal", "received: 2 and 2"),
        ([".", "--json", "--csv"], "--json and --csv are two forms", "leave one of them out"),
    ],
)
def test_wrong_requests_say_what_and_how_to_go_on(pair, maze, arguments, says, help):
    done = maze("compare", *arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {says}")
    assert help in done.stderr
    assert done.stdout == ""


def test_runs_without_statistics_say_which_logger_writes_them(make_run, maze):
    make_run("a", {})
    done = maze("compare", ".")
    assert done.exit_code == 2
    assert "the runs have written no statistics" in done.stderr
    assert "csv logger" in done.stderr


def test_runs_that_took_no_steps_are_compared_by_epochs(make_run, maze, cloned):
    run = make_run("a", {0: 5.0})
    assert "compare them with --x epoch" in maze("compare", run, "--x", "env_steps").stderr
    done = maze("compare", run, "--threshold", "4")
    assert "4 reached, in epoch" in done.stdout
    assert maze("compare", run, "--threshold", "4", "--x", "epoch").stdout == done.stdout
    data = json.loads(maze("compare", cloned, "--json").stdout)
    assert (data["x"], data["groups"][0]["curve"]["x"]) == ("epoch", [1.0, 2.0])


@pytest.mark.parametrize("env", ["CartPole-v1", "Acrobot-v1"])
def test_runs_with_and_without_steps_are_compared_by_epochs_which_all_have(make_run, maze, trained, cloned, env):
    stepping, idle = trained / "ppo-1", cloned / "seed-1"
    if env != "CartPole-v1":
        stepping = make_run("ppo", {10: 5.0, 20: 6.0, 30: 7.0}, name="pole", env=env)
    data = json.loads(maze("compare", stepping, idle, "--json").stdout)
    assert data["x"] == "epoch"
    assert [group["curve"]["x"][-1] for group in data["groups"]] == [3.0, 3.0 if env == "CartPole-v1" else 2.0]
    done = maze("compare", stepping, idle, "--threshold", "0")
    assert "bc took no environment steps, so curves run over epoch; --x chooses another axis" in done.stdout
    assert "0 reached, in epoch" in done.stdout
    asked = maze("compare", stepping, idle, "--x", "wall_seconds")
    assert asked.exit_code == 0
    assert "took no environment steps" not in asked.stdout


def test_a_run_that_was_never_measured_does_not_choose_the_axis(make_run, maze):
    runs = (make_run("a", {}, end="failed: at once"), make_run("b", {10: 5.0}, seed=1))
    assert json.loads(maze("compare", *runs, "--json").stdout)["x"] == "env_steps"


def test_damaged_runs_are_left_out_aloud(pair, make_run, maze):
    (make_run("bad", {10: 1.0}) / "run.json").write_text("{")
    done = maze("compare", ".")
    assert done.exit_code == 0
    assert "left out: bad/run.json is damaged" in done.stderr
    assert maze("compare", "bad").exit_code == 1


def test_of_many_groups_only_the_best_are_compared_in_pairs(make_run, compared):
    for index in range(12):
        make_run(f"r{index}", {10: float(index)}, trainer={"use": "ppo", "lr": index / 100})
    comparison = compared()
    assert len(comparison.groups) == 12
    assert len(comparison.improvements) == 8 * 7 / 2
    assert "lr=0.03" not in {name for pair in comparison.improvements for name in (pair.label, pair.other)}


def test_options_of_python_are_checked():
    with pytest.raises(ValueError, match="x"):
        CompareOptions(x="steps")
    with pytest.raises(RequestError, match="written no statistics"):
        compare_runs([], CompareOptions(metric="a"))


def test_differences_of_many_groups_are_a_row_a_group(make_run, maze):
    for index in range(9):
        make_run(f"r{index}", {10: float(index)}, trainer={"use": "ppo", "lr": index / 100})
    lines = maze("compare", ".").stdout.splitlines()
    table = lines[lines.index("what differs") + 1 :]
    assert table[0].split() == ["group", "trainer.lr"]
    assert table[1].split() == ["lr=0", "0"]
    assert len(table) == 10
