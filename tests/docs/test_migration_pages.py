"""What the pages for those who come from elsewhere name exists, on both sides where that can be asked."""

import csv
import importlib
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from maze_kernel.config import describe
from maze_kernel.loader import Kernel
from maze_suite import RunContext

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/migrate"
STABLE_BASELINES3 = (FOLDER / "stable-baselines3.md").read_text(encoding="utf-8")
OLDER_MAZE = (FOLDER / "older-maze.md").read_text(encoding="utf-8")


def table(page, heading):
    """The rows of the first table below a heading, as lists of cells."""
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in section.splitlines() if line.startswith("|")]
    assert len(rows) > 5, heading
    return rows[2:]


def names(cell):
    return re.findall(r"`([\w-]+)`", cell)


def test_arguments_of_stable_baselines3_and_our_options_exist():
    from stable_baselines3 import A2C, DQN, PPO, SAC, TD3

    theirs = {name for algorithm in (A2C, PPO, SAC, DQN, TD3) for name in inspect.signature(algorithm).parameters}
    kernel = Kernel.installed()
    ours = {
        row.name for trainer in ("ppo", "sac", "dqn", "td3") for row in describe(kernel, "trainer", trainer).options
    }
    n_pairs = 0
    for their_cell, our_cell, *_ in table(STABLE_BASELINES3, "Arguments"):
        their_names = names(their_cell) + re.findall(r"`(\w+)=", their_cell)
        assert set(their_names) <= theirs, their_cell
        if their_names and our_cell != "none" and "the same" not in our_cell:
            wanted = [name for name in names(our_cell) + re.findall(r"`(\w+) = ", our_cell) if name != "true"]
            assert wanted, our_cell
            assert set(wanted) <= ours, our_cell
            n_pairs += 1
    assert n_pairs > 14


def test_defaults_of_our_options_are_the_stated_ones():
    kernel = Kernel.installed()
    ppo = {row.name: row.default for row in describe(kernel, "trainer", "ppo").options}
    a2c = {row.name: row.default for row in describe(kernel, "trainer", "a2c").options}
    sac = {row.name: row.default for row in describe(kernel, "trainer", "sac").options}
    stated = {}
    for _, our, _, default in table(STABLE_BASELINES3, "Arguments"):
        stated |= {name: default for name in names(our)[:1] if name not in stated}
    for name in ("lr", "n_rollout_steps", "gamma", "gae_lambda", "max_grad_norm", "entropy_coef"):
        of_each = dict(re.findall(r"(PPO|A2C) ([\d.e-]+)", stated[name]))
        assert {key: float(value) for key, value in of_each.items()} == {
            "PPO": float(ppo[name]),
            "A2C": float(a2c[name]),
        }
    for name in ("batch_size", "n_optimization_epochs", "value_loss_coef"):
        assert float(stated[name]) == float(ppo[name]), name
    for name in ("initial_buffer_size", "replay_buffer_size"):
        assert int(stated[name].partition(",")[0].replace(" ", "")) == int(sac[name]), name


@pytest.mark.parametrize("name", ["PPO", "A2C", "DQN", "TD3"])
def test_figures_that_stand_behind_the_name_of_an_algorithm_are_its_defaults(name):
    import stable_baselines3

    theirs = inspect.signature(getattr(stable_baselines3, name)).parameters
    ours = {row.name: row.default for row in describe(Kernel.installed(), "trainer", name.lower()).options}
    n_figures = 0
    for their_cell, our_cell, there, here in table(STABLE_BASELINES3, "Arguments"):
        if len(names(their_cell)) != 1 or our_cell == "none" or (" of " in their_cell and name not in their_cell):
            continue
        (argument,) = names(their_cell)
        option = argument if our_cell.startswith("the same") else names(our_cell)[0]
        for cell, default in (
            (there, theirs[argument].default if argument in theirs else None),
            (here, ours.get(option)),
        ):
            for figure in re.findall(rf"\b{name}(?: and \w+)? (\d(?:[\d.e-]| (?=\d))*)", cell):
                assert float(figure.replace(" ", "")) == float(default), (their_cell, cell)
                n_figures += 1
    assert n_figures >= 4


def test_walking_noise_is_that_of_its_class():
    from stable_baselines3.common.noise import OrnsteinUhlenbeckActionNoise

    defaults = inspect.signature(OrnsteinUhlenbeckActionNoise).parameters
    theta, dt = defaults["theta"].default, defaults["dt"].default
    rho = 1.0 - theta * dt
    variance = dt / (1.0 - rho**2)
    begun_at_zero = variance * (1.0 - sum(rho ** (2 * step) for step in range(1, 201)) / 200)
    row = next(line for line in STABLE_BASELINES3.splitlines() if line.startswith("| `OrnsteinUhlenbeck"))
    assert f"{rho:.4f} and {variance**0.5:.2f} σ with the defaults there, θ = {theta} and dt = {dt}" in row
    assert f"{begun_at_zero**0.5:.2f} σ over 200 steps" in row
    np.random.seed(0)
    noise = OrnsteinUhlenbeckActionNoise(np.zeros(4000), np.ones(4000))
    assert np.std([noise() for _ in range(200)]) == pytest.approx(begun_at_zero**0.5, rel=0.05)


@pytest.fixture(scope="module")
def tags(tmp_path_factory):
    """The tags of a short run of PPO, and of trainers that learn from a replay buffer."""
    found = set()
    for env, trainer in (
        ("CartPole-v1", {"use": "ppo", "epoch_length": 1}),
        ("Pendulum-v1", {"use": "sac", "epoch_length": 5, "initial_buffer_size": 8, "batch_size": 4}),
        ("Pendulum-v1", {"use": "td3", "epoch_length": 5, "initial_buffer_size": 8, "batch_size": 4}),
        ("CartPole-v1", {"use": "dqn", "epoch_length": 5, "initial_buffer_size": 8, "batch_size": 4}),
    ):
        folder = tmp_path_factory.mktemp("runs") / trainer["use"]
        overrides = {"vector.n_envs": 2, "evaluation.n_episodes": 1, "loggers": [{"use": "csv"}]}
        RunContext(env=env, trainer=trainer, overrides=overrides, run_dir=folder, silent=True).train(n_epochs=1)
        for prefix in ("train", "eval"):
            with open(folder / "statistics" / f"{prefix}.csv", newline="") as file:
                found |= {f"{prefix}_{row['tag']}" for row in csv.DictReader(file)}
    return found


def test_statistics_of_both_sides_exist(tags):
    import stable_baselines3

    folder = Path(stable_baselines3.__file__).parent
    source = "".join(file.read_text(encoding="utf-8") for file in folder.rglob("*.py"))
    n_pairs = 0
    for their_cell, our_cell, _ in table(STABLE_BASELINES3, "Statistics"):
        for theirs in re.findall(r"`(\w+/\w+)`", their_cell):
            assert f'"{theirs}"' in source or f'"{theirs.partition("/")[0]}/' in source, theirs
        for ours in re.findall(r"`((?:train|eval)_\w+/[\w/]+)`", our_cell):
            assert ours in tags, ours
            n_pairs += 1
    assert n_pairs > 12


def test_what_trainers_are_said_to_report_is_reported(tags):
    page = (ROOT / "docs/how-to/events-and-kpis.md").read_text(encoding="utf-8")
    lines = page.partition("What trainers report of their updates")[2].partition("\n\nLayers")[0].strip().splitlines()
    header, _, *rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines if line.startswith("|")]
    events = [re.search(r"`(\w+Events)/…`", cell) for cell in header]
    n_names = 0
    for row in rows:
        for event, cell in zip(events, row, strict=True):
            if event is None or event[1] in ("ESEvents", "ImitationEvents"):
                continue
            for name in re.findall(r"`(\w+)`", cell):
                assert f"train_{event[1]}/{name}" in tags
                n_names += 1
    assert n_names > 20


@pytest.mark.parametrize(
    ("heading", "kinds"),
    [
        ("Wrappers", ("wrapper",)),
        ("Perception and models", ("block", "model")),
        ("Algorithms", ("trainer",)),
    ],
)
def test_components_that_replace_those_of_the_older_maze_exist(heading, kinds):
    installed = {entry.component.name for kind in kinds for entry in Kernel.installed().catalog.entries(kind)}
    known = installed | {"demonstrations", "n_envs", "n_episodes", "step_size", "separate_agent_nets"}
    known |= {row.name for row in describe(Kernel.installed(), "trainer", "ppo").options}
    n_names = 0
    for _, cell in table(OLDER_MAZE, heading):
        found = set(names(cell))
        n_names += len(found & installed)
        assert found <= known, cell
    assert n_names >= 5


def test_names_from_python_exist():
    import maze_suite

    named = set(re.findall(r"maze_suite\.(\w+)", OLDER_MAZE))
    assert len(named) > 4
    assert named <= set(maze_suite.__all__)
    for name, module in re.findall(r"`(\w+)` of `(maze_[\w.]+)`", OLDER_MAZE):
        assert hasattr(importlib.import_module(module), name)


def test_search_is_a_sweep_with_a_searcher_that_exists():
    searchers = {entry.component.name for entry in Kernel.installed().catalog.entries("searcher")}
    for page in ((FOLDER / "rllib.md").read_text(encoding="utf-8"), OLDER_MAZE):
        rows = [line for line in page.splitlines() if "grid_search" in line]
        assert all("`maze sweep`" in row for row in rows)
        assert rows
        named = set(re.findall(r"\[searcher\] use = \"(\w+)\"", page))
        assert "grid" in named
        assert named <= searchers


def test_what_replaces_check_env_plays_the_environment():
    row = next(line for line in STABLE_BASELINES3.splitlines() if line.startswith("| `check_env(env)`"))
    assert set(re.findall(r"`maze (check\S*) FILE(.*?)`", row)) == {("check-env", ""), ("check", " --steps 1000")}
