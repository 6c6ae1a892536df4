"""A wrapper that does not fit its environment: the error shows file, line and option, owner and next step."""

import pytest
from typer.testing import CliRunner

from maze_kernel import MazeError
from maze_kernel.cli.app import make_app
from maze_runtime.context import RunContext

HEAD = """name = "mistaken"

[env]
use = "gym"
id = "Pendulum-v1"

[trainer]
use = "ppo"

[[wrappers]]
"""
FIRST_LINE = HEAD.count("\n") + 1
MISTAKES = {
    # what is written · line of the mistake · what the user reads about it
    "misspelt observation": (
        'use = "flatten"\nobservation = "observatoin"',
        2,
        ["there is no observation 'observatoin'", "option: observation", "did you mean: observation", "help: name it"],
    ),
    "no categories": ('use = "one-hot"\nobservation = "observation"', 2, ["'observation' holds none", "Discrete"]),
    "no image": ('use = "resize-img"\nobservation = "observation"\ntarget_size = [8, 8]', 2, ["at least 2 dimensions"]),
    "no colours": ('use = "rgb2gray"\nobservation = "observation"', 2, ["at least 3 dimensions"]),
    "wrong axes": ('use = "transpose"\nobservation = "observation"\naxes = [1, 0]', 3, ["option: axes", "shape (3,)"]),
    "wrong dimension": ('use = "unsqueeze"\nobservation = "observation"\ndim = 5', 3, ["option: dim", "−2 … 1"]),
    "unknown exclusion": ('use = "observation-normalization"\nexclude = ["speed"]', 2, ["'speed' to exclude"]),
    "statistics of another size": (
        'use = "observation-normalization"\n[wrappers.keys.observation]\nmean = [0.0, 0.0]\nstd = [1.0, 1.0]',
        2,
        ["received: 2 numbers", "last axis of (3,)", "give that many numbers in [wrappers.keys.observation]"],
    ),
    "unknown strategy": (
        'use = "observation-normalization"\nstrategy = "my_strategies:Median"',
        2,
        ["there is no module my_strategies", "beside the experiment file"],
    ),
    "no file of statistics": (
        'use = "observation-normalization"\nstatistics_from = "nowhere"',
        2,
        ["there are no statistics in nowhere", "option: statistics_from", 'help: write statistics_from = "RUN"'],
    ),
    "nothing to stack": ('use = "observation-stack"\nkeys = ["speed"]', 2, ["'speed' to stack", "option: keys"]),
    "nothing to split": ('use = "split-actions"\nheads = { torque = { a = [0] } }', 2, ["there is no action 'torque'"]),
    "parts that miss elements": ('use = "split-actions"\nheads = { action = { a = [1] } }', 2, ["expected: 0 … 0"]),
    "too many bins": (
        'use = "discretize-actions"\n[wrappers.heads.action]\nn_bins = [3, 4]',
        2,
        ["n_bins does not fit the action 'action'", "one number, or 1"],
    ),
    "no such action to pass the time": (
        'use = "step-skip"\nmode = "noop"\nnoop = { torque = 0 }',
        3,
        ["there is no action 'torque'", "option: noop"],
    ),
    "an action outside of its space": (
        'use = "step-skip"\nmode = "noop"\nnoop = { action = [9.0] }',
        3,
        ["noop is no action of the environment"],
    ),
    "nothing to draw": ('use = "observation-visualization"\nkeys = ["speed"]', 2, ["'speed' to draw"]),
    "nothing that draws": (
        'use = "observation-visualization"\nplot_function = "my_plots:histogram"',
        2,
        ["there is no module my_plots", "option: plot_function"],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_error_shows_the_line_and_nothing_is_started(mistake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table, line, words = MISTAKES[mistake]
    (tmp_path / "mistaken.toml").write_text(f"{HEAD}{table}\n")
    result = CliRunner().invoke(make_app(), ["train", "mistaken.toml", "--out", "run"])
    name = table.split('"')[1]
    assert f"--> mistaken.toml:{FIRST_LINE + line - 1}:" in result.output
    for word in [*words, f"owner: maze-wrappers: {name}", "help: "]:
        assert word in result.output
    assert result.exit_code == 2
    assert not (tmp_path / "run").exists()


def test_a_rollout_shows_the_same_before_it_plays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mistaken.toml").write_text(HEAD + MISTAKES["no image"][0])
    result = CliRunner().invoke(make_app(), ["rollout", "mistaken.toml", "--policy", "random"])
    assert f"--> mistaken.toml:{FIRST_LINE + 1}:" in result.output
    assert result.exit_code == 2


def test_an_environment_that_is_not_there_is_shown_at_its_id(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mistaken.toml").write_text(HEAD.replace("Pendulum-v1", "Pendulum-v9") + 'use = "log-stats"\n')
    result = CliRunner().invoke(make_app(), ["train", "mistaken.toml", "--out", "run"])
    assert "--> mistaken.toml:5:" in result.output
    assert "did you mean: Pendulum-v1" in result.output
    assert not (tmp_path / "run").exists()


def test_from_python_the_option_is_named():
    context = RunContext(env="Pendulum-v1", wrappers=[{"use": "transpose", "observation": "observation", "axes": [2]}])
    with pytest.raises(MazeError, match="option: axes") as mistake:
        context.train(n_epochs=1)
    assert "maze describe wrapper transpose" in mistake.value.help
