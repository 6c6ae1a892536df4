import subprocess
import sys

import pytest

from maze_kernel.contracts.logger import LoggerContext
from maze_kernel.errors import PluginError
from maze_trackio.logger import TrackioLogger
from maze_trackio.options import TrackioOptions


@pytest.fixture
def installed(monkeypatch):
    """The package need not be there for what these tests look at."""
    monkeypatch.setattr("maze_trackio.logger.require_package", lambda *_: None)


def test_without_its_package_the_logger_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("maze_runtime.run.tracking.find_spec", lambda _: None)
    context = LoggerContext(run_dir=tmp_path, name="toy", n_epochs=9, max_env_steps=0)
    with pytest.raises(PluginError, match="logger 'trackio' needs") as error:
        TrackioLogger(context, TrackioOptions())
    assert error.value.help.startswith("pip install trackio, ")


def test_the_project_is_the_experiment_unless_it_is_named(tmp_path, installed):
    context = LoggerContext(run_dir=tmp_path, name="toy", n_epochs=9, max_env_steps=0)
    for project, place in (("", "toy"), ("walkers", "walkers")):
        logger = TrackioLogger(context, TrackioOptions(project=project))
        assert logger._place == f"trackio, project {place}"


def test_the_logger_and_the_list_of_plugins_import_no_trackio():
    code = (
        "import sys\n"
        "import maze_trackio.logger\n"
        "from maze_kernel.loader import Kernel\n"
        "assert any(plugin.name == 'maze-trackio' for plugin in Kernel.installed().plugins)\n"
        "assert 'trackio' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
