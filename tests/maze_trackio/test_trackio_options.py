from tracked import check_package_is_asked_for, check_package_stays_unimported, context, pretend_installed

from maze_trackio.logger import TrackioLogger
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
