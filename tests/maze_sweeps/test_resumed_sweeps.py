"""Sweeps that are interrupted or killed and go on: nothing is lost, nothing is trained twice."""

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from maze_kernel.config import load_experiment
from maze_kernel.errors import RequestError
from maze_sweeps import driver, sweep
from maze_sweeps.trials import write_trial

SWEEP = """
experiment = "small.toml"
seeds = 2

[searcher]
use = "grid"

[workers]
use = "subprocess"
count = 2

[space]
trainer.lr = { values = [1e-3, 1e-2, 1e-1] }
wrappers.time-limit.max_episode_steps = { values = [4, 8] }
"""


def command(*arguments):
    code = "from maze_kernel.cli.app import make_app; make_app()(prog_name='maze')"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(condition, process, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.01)


@pytest.fixture
def file(folder):
    (folder / "sweep.toml").write_text(SWEEP)
    return folder / "sweep.toml"


def finish(*arguments):
    process = command("sweep", *arguments)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def finished(path):
    """What finished trials have written."""
    found = {}
    for trial in sorted(path.glob("trials/*/trial.json")):
        if json.loads(trial.read_text())["status"] != "running":
            for kept in (trial, *trial.parent.glob("seed-*/run.json"), *trial.parent.glob("seed-*/evaluations.jsonl")):
                found[kept] = kept.read_text()
    return found


def n_trials(path):
    return len(list(path.glob("trials/*/trial.json")))


def check_equal(path, undisturbed, n=6):
    """The table is that of a sweep nobody disturbed, and every run was evaluated once an epoch."""
    assert (path / "table.csv").read_text() == (undisturbed / "table.csv").read_text()
    assert sorted(folder.name for folder in (path / "trials").iterdir()) == [f"{number:04d}" for number in range(n)]
    runs = sorted(path.glob("trials/*/seed-*"))
    assert len(runs) == 2 * n
    for run in runs:
        lines = [json.loads(line) for line in (run / "evaluations.jsonl").read_text().splitlines()]
        assert [line["epoch"] for line in lines] == [1, 2, 3], run


@pytest.mark.slow
def test_ctrl_c_finishes_the_epochs_that_run_and_the_sweep_goes_on(file, folder):
    whole = sweep(file, out="whole", silent=True).path
    process = command("sweep", file, "--out", "cut")
    wait_for(lambda: len(finished(folder / "cut")) > 0, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "SIGINT: finishing the epochs that run, press Ctrl-C again to stop now" in err
    assert out.splitlines()[-1] == f"interrupted; go on with: maze sweep {file} --resume cut"
    kept = finished(folder / "cut")
    assert kept
    assert n_trials(folder / "cut") < 6
    code, out, err = finish(file, "--resume", "cut")
    assert code == 0, err
    assert {path: path.read_text() for path in kept} == kept
    check_equal(folder / "cut", whole)
    assert out.splitlines()[0].endswith(": 6 done")


@pytest.mark.parametrize("searcher", ["grid", "optuna"])
def test_a_trial_whose_folder_is_removed_is_trained_anew(folder, searcher):
    text = SWEEP.replace("seeds = 2", "n_trials = 3").replace('"grid"', f'"{searcher}"').replace("subprocess", "inline")
    (folder / "sweep.toml").write_text(text.replace("count = 2\n", ""))
    base = load_experiment(folder / "small.toml")
    whole = sweep(folder / "sweep.toml", out="whole", silent=True)
    before = (folder / "whole/table.csv").read_text()
    (folder / "whole/trials/0001/trial.json").write_text("{")
    with pytest.raises(RequestError, match="cannot be read") as caught:
        sweep(resume="whole", experiment=base, silent=True)
    assert caught.value.help == "remove its folder to train it anew"
    shutil.rmtree(folder / "whole/trials/0001")
    again = sweep(resume="whole", experiment=base, silent=True)
    assert [trial.value for trial in again.trials] == [trial.value for trial in whole.trials]
    assert (folder / "whole/table.csv").read_text() == before


@pytest.mark.parametrize("name", ["cut", "cut here"])
def test_ctrl_c_before_the_first_trial_says_how_to_go_on(maze, file, monkeypatch, name):
    def interrupt(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("maze_sweeps.sweeping.make_pool", interrupt)
    monkeypatch.setattr("maze_runtime.training.interruption.ignore_ctrl_c", lambda: None)
    done = maze("sweep", "sweep.toml", "--out", name)
    assert done.exit_code == 130, done.output
    shown = shlex.quote(name)
    assert done.stderr.splitlines()[-1] == f"interrupted; go on with: maze sweep sweep.toml --resume {shown}"
    assert (Path(name) / "sweep.json").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("place", ["open_sweep", "make_pool"])
def test_ctrl_c_while_a_resume_starts_says_what_is_kept_and_how_to_go_on(maze, file, monkeypatch, place):
    def interrupt(*_args, **_kwargs):
        raise KeyboardInterrupt

    file.write_text(SWEEP.replace("[1e-3, 1e-2, 1e-1]", "[1e-3]"))
    sweep(file, out="cut here", silent=True)
    trial = Path("cut here/trials/0001/trial.json")
    trial.write_text(json.dumps({**json.loads(trial.read_text()), "status": "running"}))
    monkeypatch.setattr("maze_runtime.training.interruption.ignore_ctrl_c", lambda: None)
    with monkeypatch.context() as patch:
        patch.setattr(f"maze_sweeps.sweeping.{place}", interrupt)
        done = maze("sweep", "sweep.toml", "--resume", "cut here")
    assert done.exit_code == 130, done.output
    kept = "interrupted; trials kept: 1 done, 1 running; go on with: maze sweep sweep.toml --resume 'cut here'"
    assert done.stderr.splitlines()[-1] == kept
    assert maze("sweep", "sweep.toml", "--resume", "cut here").exit_code == 0


def test_ctrl_c_where_there_is_no_sweep_says_no_more(maze, folder, monkeypatch):
    def interrupt(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("maze_runtime.training.interruption.ignore_ctrl_c", lambda: None)
    monkeypatch.setattr("maze_sweeps.sweeping.open_sweep", interrupt)
    done = maze("sweep", "--resume", "nowhere")
    assert (done.exit_code, done.stderr) == (130, "interrupted\n")


@pytest.mark.slow
def test_a_second_ctrl_c_stops_at_once(file, folder):
    small = folder / "small.toml"
    small.write_text(small.read_text().replace("n_epochs = 3", "n_epochs = 100000"))
    process = command("sweep", file, "--out", "cut")
    wait_for(lambda: n_trials(folder / "cut") > 0, process)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err


@pytest.mark.slow
def test_more_trials_may_be_wanted_later(folder):
    (folder / "random.toml").write_text(
        'experiment = "small.toml"\nn_trials = 2\n[workers]\nuse = "inline"\n'
        "[space]\ntrainer.lr = { low = 1e-3, high = 1e-1, log = true }\n"
    )
    whole = sweep(folder / "random.toml", out="whole", n_trials=4, silent=True)
    first = sweep(folder / "random.toml", out="cut", silent=True)
    assert len(first.trials) == 2
    kept = finished(folder / "cut")
    record = json.loads((folder / "cut/sweep.json").read_text())
    record |= {"created": "2001-01-01T00:00:00Z", "experiment": "elsewhere.toml"}
    (folder / "cut/sweep.json").write_text(json.dumps(record))
    code, _, err = finish(folder / "random.toml", "--resume", "cut", "--trials", "4")
    assert code == 0, err
    assert {path: path.read_text() for path in kept} == kept
    assert (folder / "cut/table.csv").read_text() == (whole.path / "table.csv").read_text()
    assert json.loads((folder / "cut/sweep.json").read_text()) == {**record, "n_trials": 4}


def test_a_searcher_is_told_of_the_trials_there_were(folder, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent)
    (folder / "sweep.toml").write_text(
        'experiment = "small.toml"\nn_trials = 2\n[workers]\nuse = "inline"\n[searcher]\nuse = "scripted:Scribe"\n'
        "[space]\ntrainer.lr = { low = 1e-3, high = 1e-1, log = true }\n"
    )
    path = sweep(folder / "sweep.toml", silent=True).path
    trial = path / "trials/0001/trial.json"
    trial.write_text(
        trial.read_text()
        .replace('"status": "done"', '"status": "running"')
        .replace('"state": "done"', '"state": "running"')
    )
    (path / "told.jsonl").unlink()
    again = sweep(resume=path, experiment=load_experiment(folder / "small.toml"), silent=True)
    rows = [json.loads(line) for line in (path / "told.jsonl").read_text().splitlines()]
    # All of its evaluations were told before, of the last one the answer may have been lost; its end was not.
    last = list(again.trials[1].watched.curve[-1])
    assert rows == [
        ["restore", [[0, "done"], [1, "running"]]],
        ["report", 1, *last],
        ["finish", 1, "done", again.trials[1].value],
        ["close"],
    ]


class Ended(BaseException):
    """In the place of a signal that ends the process."""


def end_after_write(monkeypatch, n):
    """The n-th write of a trial is the last thing that happens; 0: nothing ends. Returns what was written."""
    written = []

    def write(folder, trial):
        write_trial(folder, trial)
        written.append(trial.number)
        if len(written) == n:
            raise Ended

    monkeypatch.setattr(driver, "write_trial", write)
    return written


@pytest.mark.slow
@pytest.mark.parametrize("n_seeds", [1, 2])
def test_a_sweep_that_ends_after_any_write_of_a_trial_comes_to_the_same(folder, monkeypatch, n_seeds):
    file = folder / "random.toml"
    file.write_text(
        f'experiment = "small.toml"\nn_trials = 1\nseeds = {n_seeds}\n[workers]\nuse = "inline"\n'
        "[space]\ntrainer.lr = { low = 1e-3, high = 1e-1, log = true }\n"
    )
    loaded = load_experiment(folder / "small.toml")
    written = end_after_write(monkeypatch, 0)
    whole = sweep(file, out="whole", silent=True)
    for n in range(1, len(written) + 1):
        end_after_write(monkeypatch, n)
        with pytest.raises(Ended):
            sweep(file, out=f"cut-{n}", silent=True)
        end_after_write(monkeypatch, 0)
        again = sweep(resume=f"cut-{n}", experiment=loaded, silent=True)
        assert [(trial.state, trial.value) for trial in again.trials] == [("done", whole.best.value)], n
        assert (again.path / "table.csv").read_text() == (whole.path / "table.csv").read_text()


def test_a_trial_that_the_searcher_was_about_to_give_up_is_given_up_by_a_resume(folder, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent)
    file = folder / "sweep.toml"
    file.write_text(
        'experiment = "small.toml"\nn_trials = 1\n[workers]\nuse = "inline"\n'
        '[searcher]\nuse = "scripted:Scribe"\ngives_up = true\n'
        "[space]\ntrainer.lr = { low = 1e-3, high = 1e-1, log = true }\n"
    )
    loaded = load_experiment(folder / "small.toml")
    written = end_after_write(monkeypatch, 0)
    whole = sweep(file, out="whole", silent=True)
    assert len(written) == 5  # proposed, started, built, reported, given up
    end_after_write(monkeypatch, 4)
    with pytest.raises(Ended):
        sweep(file, out="cut", silent=True)
    end_after_write(monkeypatch, 0)
    again = sweep(resume="cut", experiment=loaded, silent=True)
    of_both = [(t.state, t.value, t.reason, t.watched.reports) for one in (whole, again) for t in one.trials]
    assert of_both[0] == of_both[1]
    assert of_both[0][0] == "pruned"


def test_the_folder_says_what_counts(file, folder):
    path = sweep(file, n_trials=1, n_parallel=1, silent=True).path
    file.write_text("nothing")
    (folder / "small.toml").write_text((folder / "small.toml").read_text().replace("n_epochs = 3", "n_epochs = 4"))
    with pytest.raises(RequestError) as caught:
        sweep(resume=path, experiment=load_experiment(folder / "small.toml"), silent=True)
    assert caught.value.what == "the experiment has changed since the sweep began"
    assert caught.value.received == "changes in trainer.n_epochs"


@pytest.mark.parametrize(
    ("name", "old", "new", "changes"),
    [
        ("sweep.toml", "low = 1e-3", "low = 1e-4", "space.trainer.lr.low"),
        ("sweep.toml", "n_trials = 1", "n_trials = 5", "n_trials"),
        ("experiment.toml", "n_epochs = 3", "n_epochs = 4", "trainer.n_epochs"),
    ],
)
def test_a_file_of_the_folder_that_has_changed_is_refused(folder, name, old, new, changes):
    """Trials of different settings would stand in one table."""
    (folder / "random.toml").write_text(
        'experiment = "small.toml"\nn_trials = 1\n[workers]\nuse = "inline"\ncount = 1\n'
        "[space]\ntrainer.lr = { low = 1e-3, high = 1e-1, log = true }\n"
    )
    path = sweep(folder / "random.toml", silent=True).path
    told = (path / name).read_text()
    assert old in told
    (path / name).write_text(f"# mine\n{told.replace(old, new)}")
    code, _, err = finish("--resume", path, "--trials", "2")
    assert code == 2
    assert f"{path / name} has changed since the sweep began" in " ".join(err.split())
    assert f"changes in {changes}\n" in err
    (path / name).write_text(f"# a word about it\n{told.replace('count = 1', 'count = 2')}")
    assert n_trials(sweep(resume=path, experiment=load_experiment(folder / "small.toml"), silent=True).path) == 1


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--resume", "."], ". is not the folder of a sweep: it has no sweep.json"),
        (["--resume", "out", "--out", "other"], "a resumed sweep stays in its folder"),
        (["--resume", "out", "--set", "trainer.lr=1"], "a resumed sweep keeps its experiment"),
        (["--resume", "out", "--dry-run"], "a dry run begins nothing"),
        ([], "there is nothing to sweep"),
        (["absent.toml"], "there is no file absent.toml"),
    ],
)
def test_what_cannot_be_resumed(maze, arguments, what):
    done = maze("sweep", *arguments)
    assert done.exit_code == 2
    assert f"error: {what}" in done.output


def drive(path, file, loaded):
    """A process that trains the sweep, begun or gone on with; a fork, which has imported everything already."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        if (path / "sweep.json").exists():
            sweep(resume=path, experiment=loaded, silent=True)
        else:
            sweep(file, out=path, silent=True)
        code = 0
    finally:
        os._exit(code)


def holds(path, pid):
    """Whether a process has the sweep for itself."""
    return (path / "sweep.json").exists() and f"process {pid} on" in (path / ".maze-lock").read_text()


@pytest.mark.slow
def test_a_driver_that_is_killed_twenty_times_loses_nothing_and_trains_nothing_twice(file, folder):
    loaded = load_experiment(folder / "small.toml")
    whole = sweep(file, out="whole", silent=True).path
    moments, n_kills = random.Random(7), 0
    for number in range(20):  # sweeps; a quick machine ends one before it was killed so often
        path, kept, is_done = folder / f"cut-{number}", {}, False
        while n_kills < 20 and not is_done:
            pid = drive(path, file, loaded)
            deadline = time.monotonic() + 60
            while not holds(path, pid):
                assert time.monotonic() < deadline, "nothing happened"
                time.sleep(0.01)
            time.sleep(moments.uniform(0.0, 2.5))
            os.kill(pid, signal.SIGKILL)
            n_kills += os.WIFSIGNALED(os.waitpid(pid, 0)[1])
            assert {one: one.read_text() for one in kept} == kept
            kept = finished(path)
            is_done = len([one for one in kept if one.name == "trial.json"]) == 6
        done = sweep(resume=path, experiment=loaded, silent=True)
        assert {one: one.read_text() for one in kept} == kept
        assert [trial.state for trial in done.trials] == ["done"] * 6
        check_equal(path, whole)
        if n_kills == 20:
            break
    assert n_kills == 20
