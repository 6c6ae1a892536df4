import subprocess
import sys
from pathlib import Path

import pytest

from maze_kernel.contracts.logger import LoggerContext
from maze_kernel.errors import PluginError, RequestError
from maze_mlflow.logger import MlflowLogger, allowed
from maze_mlflow.options import MlflowOptions


@pytest.fixture
def installed(monkeypatch):
    """The package need not be there for what these tests look at."""
    monkeypatch.setattr("maze_mlflow.logger.require_package", lambda *_: None)


def test_without_its_package_the_logger_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("maze_runtime.run.tracking.find_spec", lambda _: None)
    context = LoggerContext(run_dir=tmp_path, name="toy", n_epochs=9, max_env_steps=0)
    with pytest.raises(PluginError, match="logger 'mlflow' needs") as error:
        MlflowLogger(context, MlflowOptions())
    assert error.value.help.startswith("pip install mlflow-skinny, ")


def test_without_an_address_the_request_is_wrong(tmp_path, monkeypatch, installed):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    context = LoggerContext(run_dir=tmp_path, name="toy", n_epochs=9, max_env_steps=0)
    with pytest.raises(RequestError, match="no server"):
        MlflowLogger(context, MlflowOptions())


def test_a_password_stays_out_of_files_and_messages(tmp_path, installed):
    context = LoggerContext(run_dir=Path(tmp_path), name="toy", n_epochs=9, max_env_steps=0)
    logger = MlflowLogger(context, MlflowOptions(tracking_uri="http://me:secret@127.0.0.1:9/x?token=secret"))
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
    code = (
        "import sys\n"
        "import maze_mlflow.logger\n"
        "from maze_kernel.loader import Kernel\n"
        "assert any(plugin.name == 'maze-mlflow' for plugin in Kernel.installed().plugins)\n"
        "assert 'mlflow' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
