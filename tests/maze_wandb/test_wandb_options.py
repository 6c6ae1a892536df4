import sys
from types import SimpleNamespace

import pytest
from tracked import check_package_is_asked_for, check_package_stays_unimported, context, pretend_installed

from maze_runtime.run.tracked_run import EPOCH_TAG, TrackedEpoch
from maze_wandb.logger import AXIS, WandbLogger, _WandbRun
from maze_wandb.options import WandbOptions


def test_without_its_package_the_logger_is_refused(tmp_path, monkeypatch):
    check_package_is_asked_for(monkeypatch, tmp_path, WandbLogger, WandbOptions, "wandb")


def test_the_project_is_the_experiment_unless_it_is_named(tmp_path, monkeypatch):
    pretend_installed(monkeypatch)
    for options, place in (
        (WandbOptions(), "toy"),
        (WandbOptions(project="walkers", entity="lab"), "lab/walkers"),
    ):
        assert WandbLogger(context(tmp_path), options)._place.endswith(f"project {place}")


def test_modes_are_checked():
    with pytest.raises(ValueError, match="mode"):
        WandbOptions(mode="disabled")


def test_the_logger_and_the_list_of_plugins_import_no_wandb():
    check_package_stays_unimported("wandb")


@pytest.mark.parametrize(("env_steps", "axis"), [(30, AXIS), (0, EPOCH_TAG)])
def test_the_axis_counts_environment_steps_or_epochs_where_there_are_none(monkeypatch, env_steps, axis):
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace())
    run, axes, rows = _WandbRun("", WandbOptions()), [], []
    run._run = SimpleNamespace(define_metric=lambda name, step_metric=None: axes.append(step_metric), log=rows.append)
    run._pictures = ()
    for epoch in (1, 2):
        run.send(TrackedEpoch(epoch=epoch, env_steps=epoch * env_steps, numbers={EPOCH_TAG: float(epoch)}))
    assert axes == [None, axis]
    assert [row[axis] for row in rows] == ([30, 60] if env_steps else [1, 2])
