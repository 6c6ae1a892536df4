"""Warnings of MuJoCo come once, and those that differ in numbers alone are one."""

import logging
import sys
from types import SimpleNamespace

import pytest

from maze_gym import mujoco_warnings
from maze_gym.making import make_gym_env
from maze_gym.mujoco_warnings import say_mujoco_warnings_once
from maze_gym.options import GymOptions

HALF_CHEETAH = "gymnasium.envs.mujoco.half_cheetah_v5:HalfCheetahEnv"


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    monkeypatch.setattr(mujoco_warnings, "_said", set())


@pytest.fixture
def mujoco(monkeypatch):
    """A module in the place of MuJoCo's, with the handler of its warnings in `taken`."""
    module = SimpleNamespace(taken=None, get_mju_user_warning=lambda: module.taken)
    module.set_mju_user_warning = lambda handler: setattr(module, "taken", handler)
    monkeypatch.setitem(sys.modules, "mujoco", module)
    return module


def test_a_warning_is_said_once_whatever_its_numbers(mujoco, caplog):
    say_mujoco_warnings_once(HALF_CHEETAH)
    with caplog.at_level(logging.WARNING):
        for message in (
            "unstable at DOF 3, time = 0.05",
            "settotalmass is deprecated",
            "unstable at DOF 0, time = 1e-05",
        ):
            mujoco.taken(message)
    texts = [record.getMessage() for record in caplog.records]
    assert [text.partition(": ")[2] for text in texts] == [
        "unstable at DOF 3, time = 0.05",
        "settotalmass is deprecated",
    ]


def test_who_takes_warnings_already_keeps_them(mujoco):
    mujoco.taken = handler = [].append
    say_mujoco_warnings_once(HALF_CHEETAH)
    assert mujoco.taken is handler


def test_a_release_without_handlers_is_left_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", SimpleNamespace())
    say_mujoco_warnings_once(HALF_CHEETAH)


def test_other_environments_do_not_load_mujoco(monkeypatch):
    monkeypatch.delitem(sys.modules, "mujoco", raising=False)
    monkeypatch.setattr(mujoco_warnings.importlib, "import_module", lambda name: pytest.fail(name))
    say_mujoco_warnings_once("gymnasium.envs.classic_control.cartpole:CartPoleEnv")


def test_environments_are_built_without_a_word_on_the_screen(tmp_path, monkeypatch, capfd, caplog):
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            make_gym_env(GymOptions(id="HalfCheetah-v5")).close()
    assert "WARNING" not in capfd.readouterr().out
    assert len({record.getMessage() for record in caplog.records}) == len(caplog.records)
    assert list(tmp_path.iterdir()) == []
