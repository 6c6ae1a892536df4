import pytest
from tracked import check_package_is_asked_for, check_package_stays_unimported, context, pretend_installed

from maze_wandb.logger import WandbLogger
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
