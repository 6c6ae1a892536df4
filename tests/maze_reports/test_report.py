"""The pages: whole, nothing fetched, nothing run, and what they show is what the runs hold."""

import json
import re
from html.parser import HTMLParser

import pytest

from maze_reports.report import report_page
from maze_reports.runs import open_runs
from maze_reports.stored_pictures import safe_svg

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Checks that elements close in order, and keeps tags, attributes and text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.words = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data.strip())

    @property
    def headings(self):
        return re.findall(r"On [\w-]+|Runs|Training|Evaluations|Actions|Networks|Versions", "\n".join(self.words))


def assert_self_contained(text):
    """Nothing names another place, and nothing can run."""
    assert not re.search(r"https?:|//[a-z]|@import|javascript:", text)
    assert set(re.findall(r"url\((.)", text)) <= {"#"}
    page = Page(text)
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert "link" not in page.tags
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "srcset", "xlink:href")]
    assert all(value.startswith("#part-") for name, value in page.attributes if name == "href")
    return page


def table(text, caption_or_header):
    """The rows of the first table whose text has these words, as lists of cells."""
    for found in re.findall(r"<table>.*?</table>", text, re.S):
        if caption_or_header in found:
            rows = re.findall(r"<tr>(.*?)</tr>", found, re.S)
            return [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.S) for row in rows]
    raise AssertionError(f"no table with {caption_or_header}")


@pytest.fixture
def report(maze, tmp_path):
    def write(*arguments):
        done = maze("report", *arguments, "-o", "page.html")
        assert done.exit_code == 0, done.stderr
        assert done.stderr == "open in a browser: page.html\n"
        return (tmp_path / "page.html").read_text(encoding="utf-8")

    return write


def test_the_report_of_a_real_run(report, trained):
    text = report(trained / "ppo-1")
    page = assert_self_contained(text)
    assert {"On CartPole-v1", "Runs", "Training", "Evaluations", "Actions", "Networks", "Versions"} <= set(
        page.headings
    )
    assert "action (pole, seed 1, 2 episodes)" in page.words
    assert {"policy (pole)", "critic (pole)"} <= set(page.words)
    versions = dict(table(text, ">python<")[1:])
    record = json.loads((trained / "ppo-1" / "run.json").read_text())
    assert versions["torch"] == record["packages"]["torch"]
    assert versions["created"] == record["created"]
    assert "maze train" in text
    assert "--set seed=1" in text
    assert "n_optimization_epochs = 1" in text, "the experiment itself"


def test_the_report_of_several_real_runs_counts_the_failed_one(report, trained):
    text = report(trained, "--metric", "train_BaseEnvEvents/reward/mean")
    page = assert_self_contained(text)
    assert {"On CartPole-v1", "On broken_pole_of_reports"} <= set(page.headings)
    (critic,) = [words for words in page.words if words.startswith("critic (")]
    assert critic.count(" on ") == 3, "three groups with equal networks share a picture"
    states = [row[8] for row in table(text, "experiment")[1:]]
    assert sorted(states) == ["done", "done", "done", "failed"]
    assert "trainer.use" in [row[0] for row in table(text, "setting")]


def test_the_report_of_runs_that_took_no_steps_draws_them_over_epochs(report, cloned):
    text = report(cloned)
    assert_self_contained(text)
    assert "ValidationEvents/policy_loss over epochs" in text
    assert "over environment steps" not in text


def test_the_page_goes_beside_the_runs_unless_said_otherwise(maze, make_run):
    run = make_run("a", {10: 1.0})
    assert maze("report", "a").exit_code == 0
    assert (run / "report.html").is_file()
    assert maze("report", "a", "-o", "new/folder/x.html").exit_code == 0
    done = maze("report", "a", "-o", "a/run.json/x.html")
    assert done.exit_code == 2
    assert "the page cannot be written" in done.stderr


def test_a_comparison_as_a_page(maze, make_run, tmp_path):
    for seed in range(6):
        make_run(f"a{seed}", {10: 1.0 + seed, 20: 2.0 + seed}, name="a", seed=seed)
        make_run(f"b{seed}", {10: 0.0, 20: seed / 2}, name="b", seed=seed, trainer={"use": "ppo", "lr": 0.5})
    done = maze("compare", ".", "--threshold", "3", "--html", "c.html")
    assert "a      6" in done.stdout, "the tables are printed all the same"
    text = (tmp_path / "c.html").read_text(encoding="utf-8")
    assert_self_contained(text)
    assert text.count('class="band ') == 2
    assert "narrower than the 95 %" in text
    assert table(text, "reached by")[1][:2] == ["a", "5 of 6"]


def test_below_five_runs_there_are_points_and_no_band(make_run, tmp_path):
    for seed in range(4):
        make_run(f"a{seed}", {10: 1.0 + seed, 20: 2.0 + seed}, seed=seed)
    text = report_page(open_runs([tmp_path])[0])
    assert 'class="band ' not in text
    assert text.count('class="point s0"') == 4 * 2 + 4
    assert "Groups with fewer than 5 runs show each run as points and no interval." in text


def test_names_cannot_break_the_page(make_run, tmp_path):
    for index, name in enumerate(['</style><script>alert("x")</script>', "a & b 'c'"]):
        make_run(
            f"r{index}", {10: 1.0}, name=name, trainer={"use": "ppo", "lr": index}, train=[(1, 10, 2.0, "<b>/x", 1.0)]
        )
        (tmp_path / f"r{index}" / "experiment.toml").write_text('# <script src="http:x"></script>')
    page = Page(report_page(open_runs([tmp_path])[0]))
    assert "script" not in page.tags
    assert page.tags.count("b") == 0


def test_very_many_groups_stay_readable(make_run, tmp_path):
    for index in range(30):
        make_run(f"r{index:02d}", {10: float(index)}, trainer={"use": "ppo", "lr": index / 1000})
    text = report_page(open_runs([tmp_path])[0])
    assert Page(text)
    assert "22 more" in text
    assert len(set(re.findall(r'class="line (s\d)"', text))) == 8


def test_a_run_without_drawings_recordings_or_training_is_reported(make_run, tmp_path):
    page = Page(report_page(open_runs([make_run("a", {10: 1.0})])[0]))
    assert "Networks" not in page.headings
    assert "Actions" not in page.headings


def test_pictures_of_a_run_are_shown_without_what_could_run(tmp_path):
    file = tmp_path / "evil.svg"
    file.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="10" onload="x()">'
        "<script>x()</script><a xlink:href='http://x'><rect/></a><image href='http://x'/><style>@import 'x'</style>"
        '<marker id="tip"/><rect width="3" fill="url(#tip)" style="background:url(http://x)" onclick="x()"/>'
        '<path d="M0 0L1 1" marker-end="url(#tip)"/><rect fill="url(http://x)"/><text>a &lt;b&gt;</text></svg>'
    )
    svg = safe_svg(file, prefix="n0-")
    page = Page(svg)
    assert sorted(set(page.tags)) == ["marker", "path", "rect", "svg", "text"]
    assert not re.search(r"http|onload|onclick|style=|import", svg)
    assert 'id="n0-tip"' in svg
    assert 'marker-end="url(#n0-tip)"' in svg
    assert "a &lt;b&gt;" in svg


@pytest.mark.parametrize(
    "text", ["", "<svg", "<html/>", '<!DOCTYPE x [<!ENTITY a "b">]><svg>&a;</svg>', "x" * (3 << 20)]
)
def test_what_is_no_picture_is_left_out(tmp_path, text):
    (tmp_path / "a.svg").write_text(text)
    assert safe_svg(tmp_path / "a.svg") is None


def test_a_damaged_recording_is_no_reason_to_have_no_report(make_run, tmp_path):
    run = make_run("a", {10: 1.0})
    (run / "trajectories" / "x").mkdir(parents=True)
    (run / "trajectories" / "x" / "trajectories.json").write_text("{")
    assert "Actions" not in Page(report_page(open_runs([run])[0])).headings


@pytest.fixture
def sweep(make_run, tmp_path):
    """Four trials: two done with two seeds each, one pruned, one failed."""
    folder = tmp_path / "sweeps" / "poles" / "20260101T000000Z-abcd"
    rows = [("done", 1e-5, 10.0), ("done", 1e-2, 30.0), ("pruned", 1e-3, 5.0), ("failed", 1e-1, None)]
    for number, (status, lr, value) in enumerate(rows):
        for seed in (1, 2) if status == "done" else (1,):
            path = folder.relative_to(tmp_path) / "trials" / f"{number:04d}" / f"seed-{seed}"
            make_run(path, {10: value or 0.0}, seed=seed, trainer={"use": "ppo", "lr": lr})
        trial = {"number": number, "status": status, "parameters": {"trainer.lr": lr}, "value": value, "more": [1]}
        (folder / "trials" / f"{number:04d}" / "trial.json").write_text(json.dumps(trial))
    (folder / "sweep.json").write_text(
        json.dumps({"format": 1, "name": "poles", "metric": "BaseEnvEvents/reward/mean"})
    )
    return folder


@pytest.mark.parametrize("start", ["sweeps", "sweeps/poles", "sweeps/poles/20260101T000000Z-abcd"])
def test_a_sweep_shows_its_trials_the_best_first(report, sweep, start):
    text = report(start)
    assert_self_contained(text)
    assert "4 trials by BaseEnvEvents/reward/mean; 3 have a value." in text
    rows = [row[:4] for row in table(text, "status")[1:]]
    assert rows == [
        ["trial 1", "done", "30", "0.01"],
        ["trial 0", "done", "10", "1e-05"],
        ["trial 2", "pruned", "5", "0.001"],
        ["trial 3", "failed", "–", "0.1"],
    ]
    assert 'aria-label="parameters and value of every trial"' in text
    assert 'aria-label="value against trainer.lr"' in text


def test_the_trials_of_a_sweep_are_groups_of_their_seeds(maze, sweep):
    groups = json.loads(maze("compare", "sweeps", "--json").stdout)["groups"]
    assert {group["label"]: group["n"] for group in groups} == {
        "trial 0: lr=1e-05": 2,
        "trial 1: lr=0.01": 2,
        "trial 2: lr=0.001": 1,
        "trial 3: lr=0.1": 1,
    }


def test_trials_that_tried_the_same_are_one_group_of_as_many_runs_as_seeds(maze, sweep, make_run, tmp_path):
    for number in (4, 5):
        for seed in (1, 2):
            path = sweep.relative_to(tmp_path) / "trials" / f"{number:04d}" / f"seed-{seed}"
            make_run(path, {10: 10.0}, seed=seed, trainer={"use": "ppo", "lr": 1e-5})
    groups = json.loads(maze("compare", "sweeps", "--json").stdout)["groups"]
    assert {group["label"]: (group["n"], len(group["repeats"])) for group in groups} == {
        "trials 0, 4, 5: lr=1e-05": (2, 4),
        "trial 1: lr=0.01": (2, 0),
        "trial 2: lr=0.001": (1, 0),
        "trial 3: lr=0.1": (1, 0),
    }


def test_groups_of_a_sweep_over_environments_have_one_name_on_all_of_them(maze, make_run):
    settings = [(env, lr) for env in ("CartPole-v1", "Acrobot-v1") for lr in (1e-3, 1e-2)]
    for number, (env, lr) in enumerate(settings):
        make_run(f"s/trials/{number:04d}/seed-1", {10: 1.0}, env=env, seed=1, trainer={"use": "ppo", "lr": lr})
    references = [text for env in ("CartPole-v1", "Acrobot-v1") for text in ("--reference", f"{env}=0:1")]
    data = json.loads(maze("compare", "s", "--json", *references).stdout)
    assert [(group["label"], group["trials"], group["environment"]) for group in data["groups"]] == [
        ("lr=0.001", [0], "CartPole-v1"),
        ("lr=0.01", [1], "CartPole-v1"),
        ("lr=0.001", [2], "Acrobot-v1"),
        ("lr=0.01", [3], "Acrobot-v1"),
    ]
    assert [group["label"] for group in data["all_environments"]] == ["lr=0.001", "lr=0.01"]
    assert maze("compare", "s", "--html", "page.html", *references).exit_code == 0


def test_seeds_that_confirm_a_trial_are_a_group_of_their_own(maze, sweep, make_run, tmp_path):
    for seed in (3, 4, 5):
        path = sweep.relative_to(tmp_path) / "confirm" / "0001" / f"seed-{seed}"
        make_run(path, {10: 20.0 + seed}, seed=seed, trainer={"use": "ppo", "lr": 1e-2})
    groups = {group["label"]: group for group in json.loads(maze("compare", "sweeps", "--json").stdout)["groups"]}
    assert {label: (group["n"], group["mean"]) for label, group in groups.items()} == {
        "trial 0: lr=1e-05": (2, 10.0),
        "trial 1: lr=0.01": (2, 30.0),
        "trial 1, confirmed: lr=0.01": (3, 24.0),
        "trial 2: lr=0.001": (1, 5.0),
        "trial 3: lr=0.1": (1, 0.0),
    }
    assert len({group["key"] for group in groups.values()}) == 5
    (group,) = json.loads(maze("compare", "sweeps", "--by", "env", "--json").stdout)["groups"]
    assert group["n"] == 9, "a setting alone makes the groups where one is named"


def test_a_single_trial_and_its_confirmation_have_names_wherever_they_lie(maze, make_run):
    make_run("sweep/trials/0007/seed-1", {10: 1.0}, seed=1)
    make_run("sweep/confirm/0007/seed-2", {10: 2.0}, seed=2)
    labels = [group["label"] for group in json.loads(maze("compare", "sweep", "--json").stdout)["groups"]]
    assert sorted(labels) == ["trial 7", "trial 7, confirmed"]
    make_run("again", {10: 3.0}, seed=3)
    labels = [group["label"] for group in json.loads(maze("compare", "sweep", "again", "--json").stdout)["groups"]]
    assert sorted(labels) == ["made", "made, confirmed"]


def test_a_sweep_may_minimise_and_may_be_damaged(report, sweep):
    (sweep / "sweep.json").write_text(json.dumps({"format": 1, "metric": "-BaseEnvEvents/reward/mean"}))
    text = report("sweeps")
    assert "less is better; 3 have a value" in text
    assert [row[0] for row in table(text, "status")[1:]] == ["trial 2", "trial 0", "trial 1", "trial 3"]
    (sweep / "trials" / "0000" / "trial.json").write_text("{")
    assert "3 trials by" in report("sweeps")
    (sweep / "sweep.json").write_text("[]")
    assert "Sweep" not in report("sweeps")


def test_runs_that_were_never_a_number_are_counted_and_shown(make_run, tmp_path):
    make_run("a", {10: float("nan"), 20: float("nan")}, name="diverged", end="failed: NaN")
    make_run("b", {10: 1.0, 20: float("inf"), 30: 2.0}, name="fine", trainer={"use": "ppo", "lr": 0.1})
    text = report_page(open_runs([tmp_path])[0])
    assert "nan" not in "".join(re.findall(r' (?:d|x|y|cx|cy)="[^"]*"', text))
    assert table(text, "IQM")[1:] == [
        ["diverged", "1", "–", "–", "none: n = 0 &lt; 5", "–", "–", "1 failed; 1 without a value"],
        ["fine", "1", "2", "2", "none: n = 1 &lt; 5", "2", "2", "1 done"],
    ]


def test_kpis_have_curves_and_numbers(make_run, tmp_path):
    run = make_run("a", {10: 1.0, 20: 3.0, 30: 2.0})
    with open(run / "statistics" / "eval.csv", "a") as file:
        file.writelines(f"{e},{10 * e},{e},BaseEnvEvents/kpi/waste/mean,{e / 10}\n" for e in (1, 2, 3))
    text = report_page(open_runs([run])[0])
    assert 'aria-label="BaseEnvEvents/kpi/waste/mean over environment steps"' in text
    assert ["BaseEnvEvents/kpi/waste/mean", "0.3", "0.2"] in table(text, "statistic")


def test_groups_on_several_environments_are_named_with_them(make_run, tmp_path):
    for env in ("CartPole-v1", "Acrobot-v1"):
        make_run(env, {10: 1.0}, env=env)
    text = report_page(open_runs([tmp_path])[0])
    assert table(text, ">python<")[0][1:] == ["made on Acrobot-v1", "made on CartPole-v1"]
