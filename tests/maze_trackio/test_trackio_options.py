import sys
from types import SimpleNamespace

import pytest
from tracked import check_package_is_asked_for, check_package_stays_unimported, context, pretend_installed

from maze_runtime.run.tracked_run import TrackedEpoch
from maze_trackio.logger import TrackioLogger, _TrackioRun
from maze_trackio.options import TrackioOptions


def test_without_its_package_the_logger_is_refused(tmp_path, monkeypatch):
    check_package_is_asked_for(monkeypatch, tmp_path, TrackioLogger, TrackioOptions, "trackio")


def test_the_project_is_the_experiment_unless_it_is_named(tmp_path, monkeypatch):
    pretend_installed(monkeypatch)
    for project, place in (("", "toy"), ("walkers", "walkers")):
        logger = TrackioLogger(context(tmp_path), TrackioOptions(project=project))
        assert logger._place == f"trackio, project {place}"


def test_the_logger_and_the_list_of_plugins_import_no_trackio():
    check_package_stays_unimported("trackio")


@pytest.mark.parametrize(("env_steps", "step"), [(30, 30), (0, 3)])
def test_the_axis_counts_environment_steps_or_epochs_where_there_are_none(monkeypatch, env_steps, step):
    monkeypatch.setitem(sys.modules, "trackio", SimpleNamespace())
    run, steps = _TrackioRun("", TrackioOptions()), []
    run._run, run._pictures = SimpleNamespace(log=lambda values, step: steps.append(step)), ()
    run.send(TrackedEpoch(epoch=3, env_steps=env_steps, numbers={"loss": 0.5}))
    assert steps == [step]
