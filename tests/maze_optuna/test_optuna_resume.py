"""A sweep that goes on: as if undisturbed, no trial lost, none twice; and the studies of others are refused."""

import errno
import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path

import attrs
import optuna
import pytest

from maze_kernel.errors import MazeError, RequestError
from maze_optuna.options import OptunaOptions
from maze_optuna.searcher import OptunaSearcher
from maze_optuna.storage import storing
from maze_sweeps.space import Range, Space, Values
from maze_testing.searchers import SPACE, end_trial, past_trial, play_trials, require_draw

PROGRAM = Path(__file__).with_name("killed_sweep.py")
STATES = {"COMPLETE": "done", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "running"}


def open_study(folder, storage):
    if storage == "sqlite":
        return optuna.load_study(study_name="poles", storage=f"sqlite:///{folder / 'study.db'}")
    backend = optuna.storages.journal.JournalFileBackend(str(folder / "study.journal"))
    return optuna.load_study(study_name="poles", storage=optuna.storages.JournalStorage(backend))


def told(study):
    return [(STATES[t.state.name], t.params, t.value, dict(t.intermediate_values)) for t in study.trials]


@pytest.mark.parametrize("pruner", ["none", "median", "hyperband", "successive-halving"])
@pytest.mark.parametrize("sampler", ["tpe", "cma-es", "qmc", "nsga2", "random"])
def test_a_resumed_sweep_equals_the_undisturbed_one(make_searcher, tmp_path, sampler, pruner):
    options = {"sampler": sampler, "pruner": pruner}
    if sampler == "tpe":
        options["n_startup_trials"] = 4
    assert interrupted(make_searcher, tmp_path / "b", options, (5, 11)) == interrupted(
        make_searcher, tmp_path / "a", options, ()
    )


@pytest.mark.slow
def test_a_resumed_sweep_with_a_gaussian_process_equals_the_undisturbed_one(make_searcher, tmp_path):
    options = {"sampler": "gp", "n_startup_trials": 4}
    whole = interrupted(make_searcher, tmp_path / "a", options, (), n_trials=8)
    assert interrupted(make_searcher, tmp_path / "b", options, (6,), n_trials=8) == whole


def interrupted(make_searcher, folder, options, breaks, n_trials=16):
    folder.mkdir()
    trials, begin = [], 0
    for stop in (*breaks, n_trials):
        searcher = make_searcher(context={"folder": folder}, **options)
        if begin:
            searcher.restore(trials)
        play_trials(searcher, range(begin, stop), trials)
        searcher.close()
        begin = stop
    return trials, told(open_study(folder, "journal"))


class TestRunningTrials:
    def test_they_keep_their_parameters_and_reports(self, make_searcher):
        first, trials = make_searcher(sampler="random"), []
        play_trials(first, range(3), trials)
        trials.append(past_trial(3, first.propose(3)))
        first.report(3, 1000, 0.5)
        second = make_searcher(sampler="random")
        second.restore([*trials[:3], attrs.evolve(trials[3], reports=[(1000, 0.5)])])
        assert not second.report(3, 1000, 0.5)
        assert not second.report(3, 2000, 0.75)
        second.finish(3, "done", 1.5)
        stored = second._study.trials
        assert len(stored) == 4
        assert (stored[3].value, stored[3].intermediate_values) == (1.5, {1000: 0.5, 2000: 0.75})
        assert stored[3].params["trainer.lr"] == trials[3].draw["trainer.lr"]

    def test_one_that_was_proposed_and_never_heard_of_is_proposed_again(self, make_searcher):
        first, trials = make_searcher(sampler="qmc"), []
        play_trials(first, range(3), trials)
        lost = first.propose(3)
        second = make_searcher(sampler="qmc")
        second.restore(trials)
        assert second.propose(3) == lost
        assert len(second._study.trials) == 4

    def test_one_that_was_half_proposed_is_completed(self, make_searcher):
        first, trials = make_searcher(sampler="random"), []
        play_trials(first, range(2), trials)
        half = first._study.ask()
        chosen = half.suggest_float("trainer.lr", 1e-5, 1e-2, log=True)
        second = make_searcher(sampler="random")
        second.restore(trials)
        draw = second.propose(2)
        require_draw(SPACE, draw)
        assert draw["trainer.lr"] == chosen
        assert len(second._study.trials) == 3

    def test_one_that_ended_just_before_the_kill_may_end_again(self, make_searcher):
        first = make_searcher(sampler="random")
        draw = first.propose(0)
        first.report(0, 1000, 1.0)
        first.finish(0, "done", 1.0)
        second = make_searcher(sampler="random")
        second.restore([past_trial(0, draw)])
        assert not second.report(0, 1000, 1.0)
        second.finish(0, "done", 1.0)
        assert told(second._study)[0][0::2] == ("done", 1.0)

    def test_one_that_was_given_up_just_before_the_kill_is_given_up_again(self, make_searcher):
        options = {"sampler": "random", "pruner": "successive-halving", "min_resource": 1000}
        first = make_searcher(**options)
        trials = [past_trial(number, first.propose(number)) for number in range(4)]
        assert not first.report(0, 1000, 9.0)
        first.finish(0, "done", 9.0)
        trials[0] = attrs.evolve(trials[0], state="done", value=9.0, reports=[(1000, 9.0)])
        assert first.report(1, 1000, 1.0)
        second = make_searcher(**options)
        second.restore(trials)
        assert second.report(1, 1000, 1.0)
        assert not second.report(2, 1000, 99.0)

    def test_ends_that_the_study_missed_are_told(self, make_searcher):
        first = make_searcher(sampler="random")
        draws = [first.propose(number) for number in range(4)]
        second = make_searcher(sampler="random")
        second.restore(
            [
                past_trial(0, draws[0], "done", 2.0, [(1000, 1.0)]),
                past_trial(1, draws[1], "pruned", 0.5, [(1000, 0.5)]),
                past_trial(2, draws[2], "failed"),
                past_trial(3, draws[3], "done", math.nan),
            ]
        )
        assert [state for state, *_ in told(second._study)] == ["done", "pruned", "failed", "failed"]
        assert told(second._study)[0][2:] == (2.0, {1000: 1.0})


@pytest.mark.parametrize("sampler", ["tpe", "cma-es", "qmc", "nsga2", "random"])
@pytest.mark.parametrize("is_gone", [False, True])
def test_a_trial_whose_folder_was_removed_is_proposed_again(make_searcher, tmp_path, sampler, is_gone):
    first, trials = make_searcher(sampler=sampler), []
    play_trials(first, range(6), trials, ends=("done",))
    first.close()
    if is_gone:
        (tmp_path / "study.journal").unlink()
    second = make_searcher(sampler=sampler)
    second.restore([trials[0], *trials[2:4], trials[5]])
    for number in (1, 4):
        draw = second.propose(number)
        require_draw(SPACE, draw)
        assert is_gone or draw == trials[number].draw
        assert not second.report(number, 1000, 0.5)
        second.finish(number, "done", 7.0)
        trials[number] = past_trial(number, draw, "done", 7.0, [(1000, 0.5)])
    play_trials(second, range(6, 8), trials, ends=("done",))
    second.close()
    third = make_searcher(sampler=sampler)
    third.restore(trials)
    assert [state for state, *_ in told(third._study)] == ["done"] * 8


def test_a_study_that_is_gone_is_built_anew_from_the_trials(make_searcher, tmp_path):
    first, trials = make_searcher(sampler="random"), []
    play_trials(first, range(6), trials)
    trials.append(past_trial(6, first.propose(6)))
    before = told(first._study)
    (tmp_path / "study.journal").unlink()
    second = make_searcher(sampler="random")
    second.restore(trials)
    for now, then in zip(told(second._study), before, strict=True):
        assert now[0::2] == then[0::2]
        assert now[1].pop("share") == pytest.approx(then[1].pop("share"))  # 0.7 for 0.7000000000000001
        assert now[1:] == then[1:]
    end_trial(second, 6, trials)
    assert told(second._study)[6][0] == trials[6].state


class TestForeignStudies:
    def test_a_sweep_of_another_name(self, make_searcher):
        play_trials(make_searcher(context={"name": "carts"}, sampler="random"), range(2), [])
        with pytest.raises(RequestError, match="holds another study") as caught:
            make_searcher(sampler="random").restore([])
        assert "study.journal" in caught.value.what
        assert "carts" in caught.value.received
        assert "built anew" in caught.value.help

    def test_another_direction(self, make_searcher):
        play_trials(make_searcher(context={"maximize": False}, sampler="random"), range(2), [])
        with pytest.raises(RequestError, match="another direction") as caught:
            make_searcher(sampler="random").restore([])
        assert (caught.value.received, caught.value.expected) == ("minimize", "maximize")

    @pytest.mark.parametrize(
        ("leaf", "received"),
        [
            (Range(name="x", path="x", low=0.0, high=2.0), "low = 0.0, high = 1.0"),
            (Values(name="x", path="x", values=(0, 1)), "low = 0.0, high = 1.0"),
            (Range(name="y", path="y", low=0.0, high=1.0), "low = 0.0, high = 1.0"),
        ],
    )
    def test_another_space(self, make_searcher, leaf, received):
        space = Space(leaves=(Range(name="x", path="x", low=0.0, high=1.0),))
        trials = []
        play_trials(make_searcher(space, sampler="random"), range(2), trials)
        with pytest.raises(RequestError, match="another space: x") as caught:
            make_searcher(Space(leaves=(leaf,)), sampler="random").restore(trials)
        assert caught.value.received == received
        assert "new sweep" in caught.value.help

    def test_trials_with_other_settings(self, make_searcher, tmp_path):
        trials, others = [], []
        play_trials(make_searcher(sampler="random"), range(2), trials)
        (tmp_path / "other").mkdir()
        play_trials(
            make_searcher(context={"seed": 1, "folder": tmp_path / "other"}, sampler="random"), range(2), others
        )
        with pytest.raises(RequestError, match="trial 0 has other settings in the study than in the sweep"):
            make_searcher(sampler="random").restore(others)

    def test_finished_trials_that_the_sweep_does_not_know(self, make_searcher):
        trials = []
        play_trials(make_searcher(sampler="random"), range(4), trials)
        with pytest.raises(RequestError, match="finished trial 2, which the sweep does not know"):
            make_searcher(sampler="random").restore(trials[:2])

    def test_a_new_sweep_in_a_folder_that_has_a_study(self, make_searcher):
        play_trials(make_searcher(sampler="random"), range(1), [])
        with pytest.raises(RequestError, match="holds a study already"):
            make_searcher(sampler="random").propose(0)

    def test_settings_that_the_space_does_not_have(self, make_searcher):
        draw = make_searcher(sampler="random").propose(0)
        with pytest.raises(RequestError, match="trial 0 has settings that the space does not have"):
            make_searcher(sampler="random").restore([past_trial(0, {**draw, "scale": 2.0})])


class TestStorages:
    def test_two_sweeps_of_one_name_share_a_database(self, make_searcher, tmp_path):
        url = f"sqlite:///{tmp_path / 'all.db'}"
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            play_trials(make_searcher(context={"folder": tmp_path / name}, sampler="random", storage=url), range(2), [])
        assert sorted(optuna.get_all_study_names(url)) == ["poles/a", "poles/b"]

    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("postgresql://me:s3cret@host/x", "postgresql://me:***@host/x"),
            ("nonsense://me:s3cret@host", "nonsense://me:***@host"),
            ("redis://:s3cret@host", "redis://:***@host"),
        ],
    )
    def test_one_that_cannot_be_opened_is_named_without_its_password(self, make_searcher, url, shown):
        with pytest.raises(RequestError, match="cannot be opened") as caught:
            make_searcher(sampler="random", storage=url).propose(0)
        assert shown in caught.value.received
        assert "s3cret" not in str(caught.value)

    def test_a_file_that_is_no_database(self, make_searcher, tmp_path):
        (tmp_path / "study.db").write_text("This is not a database, and long enough to be taken for one. " * 9)
        with pytest.raises(RequestError, match="cannot be opened"):
            make_searcher(sampler="random", storage="sqlite").propose(0)

    @pytest.mark.parametrize("storage", ["sqlite", "journal"])
    def test_folders_may_have_any_name(self, make_searcher, tmp_path, storage):
        folder = tmp_path / "a b{c}%20?#&é"
        folder.mkdir()
        trials = []
        play_trials(make_searcher(context={"folder": folder}, sampler="random", storage=storage), range(1), trials)
        assert [path.name for path in folder.iterdir()] == ["study.db" if storage == "sqlite" else "study.journal"]
        again = make_searcher(context={"folder": folder}, sampler="random", storage=storage)
        again.restore(trials)
        assert len(again._study.trials) == 1

    def test_a_journal_with_half_a_line_and_a_lock_that_nobody_holds(self, make_searcher, tmp_path):
        trials = []
        play_trials(make_searcher(sampler="random"), range(2), trials)
        journal = tmp_path / "study.journal"
        whole = journal.read_bytes()
        journal.write_bytes(whole + b'{"op_code":5,"tri')
        lock = tmp_path / "study.journal.lock"
        lock.symlink_to(journal)
        again = make_searcher(sampler="random")
        again.restore(trials)
        assert not lock.is_symlink()
        play_trials(again, range(2, 4), trials)
        assert len(open_study(tmp_path, "journal").trials) == 4


class TestStoragesThatFail:
    @pytest.mark.slow
    def test_a_database_on_a_full_disk_is_named_and_the_sweep_goes_on(self, make_searcher, tmp_path):
        first, trials = make_searcher(sampler="random", storage="sqlite"), []
        play_trials(first, range(3), trials)
        with first._storage.backend.engine.connect() as connection:
            n_pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {n_pages}")
        with pytest.raises(MazeError, match=r"trial \d+ could not be stored in .*study\.db") as caught:
            play_trials(first, range(3, 30), trials)
        assert "database or disk is full" in caught.value.received
        assert f"free some disk space, then go on with: maze sweep --resume {tmp_path}" in caught.value.help
        again = make_searcher(sampler="random", storage="sqlite")
        again.restore(trials)
        running = [trial.number for trial in trials if trial.state == "running"]
        for number in running:
            end_trial(again, number, trials)
        play_trials(again, range(len(trials), 30), trials)
        assert [stored[0] for stored in told(open_study(tmp_path, "sqlite"))] == [trial.state for trial in trials]
        for trial in trials:  # one may have been half proposed, and is completed
            require_draw(SPACE, trial.draw)

    def test_a_journal_on_a_full_disk_is_named(self, make_searcher, monkeypatch):
        searcher = make_searcher(sampler="random")
        searcher.propose(0)

        def append_logs(*_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(optuna.storages.journal.JournalFileBackend, "append_logs", append_logs)
        with pytest.raises(MazeError, match=r"trial 0 could not be stored in .*study\.journal") as caught:
            searcher.report(0, 1000, 1.0)
        assert "No space left on device" in caught.value.received

    def test_a_database_that_went_away_is_named_without_its_password(self, tmp_path):
        with pytest.raises(MazeError) as caught, storing(3, "postgresql://me:s3cret@host/x", tmp_path):
            raise optuna.exceptions.StorageInternalError("a guess") from OSError("postgresql://me:s3cret@host/x gone")
        assert caught.value.what == "trial 3 could not be stored in postgresql://me:***@host/x"
        assert caught.value.received == "OSError: postgresql://me:***@host/x gone"
        assert "see to the database" in caught.value.help


@pytest.mark.parametrize("storage", ["sqlite", "journal", "url"])
def test_a_dry_run_proposes_the_same_and_leaves_nothing(make_searcher, tmp_path, storage):
    database = tmp_path / "all.db"
    folder = tmp_path / "dry"
    folder.mkdir()
    options = {"sampler": "tpe", "storage": f"sqlite:///{database}" if storage == "url" else storage}
    dry = make_searcher(context={"folder": folder, "dry_run": True}, **options)
    draws = [dry.propose(number) for number in range(14)]
    assert not database.exists()
    assert list(folder.iterdir()) == []
    real = make_searcher(context={"folder": folder}, **options)
    assert [real.propose(number) for number in range(14)] == draws
    assert database.exists() == (storage == "url")


def run_until(folder, storage, sampler, line):
    """The lines it printed, until it was killed at that one or ended."""
    command = [sys.executable, str(PROGRAM), str(folder), storage, sampler]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        lines = []
        for text in process.stdout:
            lines.append(text.strip())
            if lines[-1] == line:
                process.kill()
        errors = process.stderr.read()
        process.wait()
    assert process.returncode in (0, -9), errors
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["sqlite", "journal"])
def test_kills_lose_no_trial_and_double_none(tmp_path, storage):
    """Four kills at random moments; trials and study are those of a sweep that nobody killed."""
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    for folder in (undisturbed, killed):
        folder.mkdir()
    last = run_until(undisturbed, storage, "tpe", None)
    chance = random.Random(3)
    moments = sorted(chance.sample(range(12), 4))
    for number in moments:
        what = chance.choice([f"begun {number}", f"reported {number} 1000", f"reported {number} 2000"])
        run_until(killed, storage, "tpe", what)
    assert run_until(killed, storage, "tpe", None)[-1] == last[-1]
    assert trial_files(killed) == trial_files(undisturbed)
    assert told(open_study(killed, storage)) == told(open_study(undisturbed, storage))


def trial_files(folder):
    return [json.loads(path.read_text()) for path in sorted((folder / "trials").glob("*.json"))]


@pytest.mark.slow
def test_optuna_finds_the_study_by_itself(make_context, tmp_path):
    """What optuna-dashboard reads: name, direction, parameters, values and curves."""
    searcher = OptunaSearcher(make_context(), OptunaOptions(sampler="random", pruner="median"))
    trials = []
    play_trials(searcher, range(8), trials)
    searcher.close()
    [summary] = optuna.get_all_study_summaries(f"sqlite:///{tmp_path / 'study.db'}")
    assert (summary.study_name, summary.direction.name, summary.n_trials) == ("poles", "MAXIMIZE", 8)
    for (state, params, value, curve), trial in zip(told(open_study(tmp_path, "sqlite")), trials, strict=True):
        assert (state, value, curve) == (trial.state, trial.value, dict(trial.reports))
        assert set(params) == set(trial.draw)
