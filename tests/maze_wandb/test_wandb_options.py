import subprocess
import sys

import pytest

from maze_kernel.contracts.logger import LoggerContext
from maze_kernel.errors import PluginError
from maze_wandb.logger import WandbLogger
from maze_wandb.options import WandbOptions


@pytest.fixture
def installed(monkeypatch):
    """The package need not be there for what these tests look at."""
    monkeypatch.setattr("maze_wandb.logger.require_package", lambda *_: None)


def test_without_its_package_the_logger_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("maze_runtime.run.tracking.find_spec", lambda _: None)
    context = LoggerContext(run_dir=tmp_path, name="toy", n_epochs=9, max_env_steps=0)
    with pytest.raises(PluginError, match="logger 'wandb' needs") as error:
        WandbLogger(context, WandbOptions())
    assert error.value.help.startswith("pip install wandb, ")


def test_the_project_is_the_experiment_unless_it_is_named(tmp_path, installed):
    context = LoggerContext(run_dir=tmp_path, name="toy", n_epochs=9, max_env_steps=0)
    for options, place in (
        (WandbOptions(), "toy"),
        (WandbOptions(project="walkers", entity="lab"), "lab/walkers"),
    ):
        assert WandbLogger(context, options)._place.endswith(f"project {place}")


def test_modes_are_checked():
    with pytest.raises(ValueError, match="mode"):
        WandbOptions(mode="disabled")


def test_the_logger_and_the_list_of_plugins_import_no_wandb():
    code = (
        "import sys\n"
        "import maze_wandb.logger\n"
        "from maze_kernel.loader import Kernel\n"
        "assert any(plugin.name == 'maze-wandb' for plugin in Kernel.installed().plugins)\n"
        "assert 'wandb' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
