import subprocess
import sys

from maze_kernel.contracts.logger import LoggerContext
from maze_trackio.logger import TrackioLogger
from maze_trackio.options import TrackioOptions


def test_the_project_is_the_experiment_unless_it_is_named(tmp_path):
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
