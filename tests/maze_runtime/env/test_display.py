"""Pictures on machines without a display, by an environment that draws with SDL."""

import os
import subprocess
import sys

import pytest

from maze_runtime.env.display import prepare_drawing

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER", "XDG_RUNTIME_DIR")


@pytest.fixture(autouse=True)
def _no_display(monkeypatch):
    for name in DISPLAYS:
        monkeypatch.setenv(name, "")  # so that what is set here is taken back
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "platform", "linux")


def test_whoever_draws_into_memory_looks_for_no_display():
    assert prepare_drawing("rgb_array") == {"render_mode": "rgb_array"}
    assert os.environ["SDL_VIDEODRIVER"] == "dummy"


def test_nothing_is_told_to_who_does_not_draw():
    assert prepare_drawing(None) == {}
    assert "SDL_VIDEODRIVER" not in os.environ


@pytest.mark.parametrize("mode", ["human", "rgb_array"])
def test_a_display_is_used_where_there_is_one(monkeypatch, mode):
    monkeypatch.setenv("DISPLAY", ":0")
    assert prepare_drawing(mode) == {"render_mode": mode}
    assert "SDL_VIDEODRIVER" not in os.environ


def test_a_window_needs_a_display():
    prepare_drawing("human")
    assert "SDL_VIDEODRIVER" not in os.environ


def test_the_driver_that_the_user_chose_stays(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "offscreen")
    prepare_drawing("rgb_array")
    assert os.environ["SDL_VIDEODRIVER"] == "offscreen"


@pytest.mark.skipif(os.name != "posix", reason="other systems always have a display")
def test_a_frame_is_drawn_without_a_word():
    code = (
        "from maze_gym.making import make_gym_env; from maze_gym.options import GymOptions\n"
        "env = make_gym_env(GymOptions(id='CartPole-v1', render_mode='rgb_array')); env.reset(seed=0)\n"
        "print(env.render().shape)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("(400, 600, 3)")
    assert "error" not in done.stderr
