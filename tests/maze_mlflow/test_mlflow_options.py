import sys
from types import SimpleNamespace

import pytest
from tracked import check_package_is_asked_for, check_package_stays_unimported, context, pretend_installed

from maze_kernel.errors import RequestError
from maze_mlflow.logger import MlflowLogger, _MlflowRun, allowed
from maze_mlflow.options import MlflowOptions
from maze_runtime.run.tracked_run import TrackedEpoch


def test_without_its_package_the_logger_is_refused(tmp_path, monkeypatch):
    check_package_is_asked_for(monkeypatch, tmp_path, MlflowLogger, MlflowOptions, "mlflow-skinny")


def test_without_an_address_the_request_is_wrong(tmp_path, monkeypatch):
    pretend_installed(monkeypatch)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(RequestError, match="no server"):
        MlflowLogger(context(tmp_path), MlflowOptions())


def test_a_password_stays_out_of_files_and_messages(tmp_path, monkeypatch):
    pretend_installed(monkeypatch)
    logger = MlflowLogger(context(tmp_path), MlflowOptions(tracking_uri="http://me:secret@127.0.0.1:9/x?token=secret"))
    assert logger._place == "MLflow at http://127.0.0.1:9/x, experiment toy"


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("train_A/b/mean", "train_A/b/mean"),
        ("a[0]=1", "a_0__1"),
        ("a//b", "a/_/b"),
        ("../a", "_/a"),
        ("größe: 1.5", "größe: 1.5"),
    ],
)
def test_names_are_made_to_be_allowed(tag, name):
    assert allowed(tag) == name


def test_the_logger_and_the_list_of_plugins_import_no_mlflow():
    check_package_stays_unimported("mlflow")


@pytest.mark.parametrize(("env_steps", "step"), [(30, 30), (0, 3)])
def test_the_axis_counts_environment_steps_or_epochs_where_there_are_none(monkeypatch, env_steps, step):
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "mlflow.entities", SimpleNamespace(Metric=lambda *told: told))
    run, sent = _MlflowRun("", "", MlflowOptions()), []
    run._run_id, run._client = "1", SimpleNamespace(log_batch=lambda _, metrics: sent.extend(metrics))
    run.send(TrackedEpoch(epoch=3, env_steps=env_steps, numbers={"loss": 0.5}))
    assert [(tag, value, at) for tag, value, _, at in sent] == [("loss", 0.5, step)]
