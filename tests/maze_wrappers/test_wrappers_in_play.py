"""Every wrapper keeps every promise of a wrapper: see `check_wrapper_in_play`."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from maze_cutting2d.env import make_env
from maze_cutting2d.options import CuttingOptions
from maze_kernel.catalog import build
from maze_kernel.config.load import select
from maze_runtime.run.env_factory import is_transform
from maze_testing.wrappers import check_wrapper_in_play

_spec = importlib.util.spec_from_file_location("wrapper_machines", Path(__file__).with_name("conftest.py"))
machines = importlib.util.module_from_spec(_spec)
sys.modules["wrapper_machines"] = machines
_spec.loader.exec_module(machines)
Machine, DiscreteMachine = machines.Machine, machines.DiscreteMachine


class Mortal(Machine):
    """With two lives."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], {"lives": 2}

    def step(self, action):
        return *super().step(action)[:4], {"lives": 2 - (self._left < 2)}


class Drawn(Machine):
    """With pictures."""

    def render(self):
        return np.zeros((4, 4, 3), np.uint8)


@pytest.fixture(autouse=True)
def _films_go_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def cutting(version):
    return lambda: make_env(CuttingOptions(version=version, max_episode_steps=7))


PROVIDERS = ("maze-wrappers", "maze-trajectories")
"""The second one brings the wrappers that record."""

CASES = {
    "observation-normalization": (
        {"statistics": "running", "keys": {"vector": {"mean": [0.5], "std": [2.0]}}, "exclude": ["image"]},
        Machine,
    ),
    "flatten": ({"observation": "image", "n_dims": 2, "keep_original": True}, Machine),
    "one-hot": ({"observation": "dials"}, Machine),
    "resize-img": ({"observation": "image", "target_size": [4, 9]}, Machine),
    "transpose": ({"observation": "image", "axes": [2, 0, 1]}, Machine),
    "unsqueeze": ({"observation": "vector", "dim": -2}, Machine),
    "rgb2gray": ({"observation": "image"}, Machine),
    "dict-observation": ({}, Machine),
    "no-dict-observation": ({}, Machine),
    "dict-action": ({}, Machine),
    "no-dict-action": ({}, DiscreteMachine),
    "no-dict-spaces": ({"masks": "join"}, DiscreteMachine),
    "sorted-spaces": ({}, Machine),
    "split-actions": (
        {"heads": {"steer": {"wheel": [1], "pedals": [2, 0]}, "levers": {"big": [1], "small": [0, 2]}}},
        Machine,
    ),
    "discretize-actions": ({"heads": {"steer": {"n_bins": [3, 4, 5]}}}, Machine),
    "reward-scaling": ({"scale": 0.5}, Machine),
    "reward-clipping": ({}, Machine),
    "return-normalization": ({}, Machine),
    "time-limit": ({"max_episode_steps": 4}, Machine),
    "observation-stack": ({"n": 3, "keys": ["vector"], "keep_original": True}, Machine),
    "random-reset": ({"min_skip": 1, "max_skip": 5}, Machine),
    "step-skip": ({"n_steps": 2, "mode": "noop", "max_of": 2}, Machine),
    "first-actions": (
        {"actions": [{"steer": [0.5, 1.0, 2.0], "pick": 1, "levers": [0, 1, 2], "lamps": [1, 0, 1]}]},
        Machine,
    ),
    "life-loss": ({}, Mortal),
    "log-stats": ({}, Machine),
    "monitoring": ({"observations": True, "rewards": True}, Machine),
    "observation-visualization": ({}, Machine),
    "video-recording": ({"every_episodes": 10_000}, Drawn),
    "trajectory-recording": ({}, Machine),
    "action-recording": ({}, Machine),
}
ON_CUTTING = {name: ({}, cutting("flat")) for name in ("no-dict-spaces", "sorted-spaces", "reward-clipping")} | {
    "flatten": ({"observation": "inventory"}, cutting("structured")),
    "no-dict-action": ({}, cutting("masked")),
    "no-dict-observation": ({}, cutting("masked")),
    "observation-normalization": ({"statistics": "running", "clip_range": [-1.0, 1.0]}, cutting("structured")),
    "time-limit": ({"max_episode_steps": 4}, cutting("structured")),
    "observation-stack": ({"n": 3, "deltas": True}, cutting("structured")),
    "random-reset": ({"max_skip": 9}, cutting("structured")),
    "step-skip": ({"n_steps": 3}, cutting("structured")),
    "log-stats": ({}, cutting("structured")),
    "monitoring": ({"observations": True, "rewards": True}, cutting("structured")),
    "trajectory-recording": ({}, cutting("structured")),
    "action-recording": ({}, cutting("masked")),
}


def wrapper(kernel, name, options):
    selection = select(kernel, "wrapper", {"use": name, **options})
    if is_transform(selection):
        return lambda: build(selection)
    return lambda env: build(selection, env)


def test_no_wrapper_is_left_out(kernel):
    names = {e.component.name for e in kernel.catalog.entries("wrapper") if e.plugin.distribution in PROVIDERS}
    assert names == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_around_an_environment_with_every_kind_of_space(kernel, name):
    options, env = CASES[name]
    check_wrapper_in_play(wrapper(kernel, name, options), env, n_steps=24)


@pytest.mark.parametrize("name", ON_CUTTING)
def test_around_an_environment_with_maze_states(kernel, name):
    options, env = ON_CUTTING[name]
    check_wrapper_in_play(wrapper(kernel, name, options), env, n_steps=24)
