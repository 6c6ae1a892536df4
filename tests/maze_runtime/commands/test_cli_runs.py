"""Training, rolling out and showing runs from the command line."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

EXPERIMENT = """
name = "small"
[env]
use = "gym"
id = "CartPole-v1"
[vector]
n_envs = 2
[trainer]
use = "ppo"
n_epochs = 2
epoch_length = 1
n_rollout_steps = 16
batch_size = 16
[evaluation]
n_episodes = 1
"""


@pytest.fixture
def experiment(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(EXPERIMENT)
    return file


@pytest.mark.parametrize(
    ("options", "what", "step"),
    [
        (["--events"], "events cannot be written to run/events/", "copy the run to a folder of your own"),
        (["--record"], "recordings cannot be written to run/trajectories/", "--record-to DIR"),
        (["--video", "run/films"], "films cannot be written to run/films", "--video DIR"),
    ],
)
def test_a_folder_that_cannot_be_written_to_is_refused_before_anything_is_played(
    maze, experiment, read_only, tmp_path, monkeypatch, options, what, step
):
    assert maze("train", experiment, "--out", "run").exit_code == 0
    before = sorted(Path("run").rglob("*"))
    read_only(Path("run"))
    monkeypatch.setattr("maze_runtime.playing.roll_out.play_episodes", None)
    done = maze("rollout", "run", *options)
    assert done.exit_code == 2
    first, received, *_, last = done.stderr.replace(f"{tmp_path}/", "").splitlines()
    assert first.startswith(f"error: {what}")
    assert received.startswith("  = received: run is dr-xr-xr-x and belongs to user ")
    assert last.startswith("  help: ")
    assert step in last
    assert sorted(Path("run").rglob("*")) == before


def test_a_run_that_cannot_be_written_to_is_not_resumed_but_rolled_out(maze, experiment, read_only):
    assert maze("train", experiment, "--out", "run").exit_code == 0
    read_only(Path("run"))
    done = maze("train", "--resume", "run", "--set", "trainer.n_epochs=3")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: checkpoints cannot be written to ")
    assert maze("rollout", "run", "--episodes", 1).exit_code == 0
    assert maze("rollout", "run", "--episodes", 1, "--record-to", "elsewhere").exit_code == 0


def test_events_for_which_there_is_no_room_are_an_error_without_a_traceback(maze, experiment, monkeypatch):
    def write(folder, _episodes):
        raise OSError(28, "No space left on device", str(folder / "x.csv"))

    monkeypatch.setattr("maze_runtime.playing.roll_out.write_event_files", write)
    done = maze("rollout", experiment, "--episodes", 1, "--policy", "random", "--events")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: the events of 1 episodes could not be written: [Errno 28]")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["small.toml", "--checkpoint", "last"], "no trained policy plays"),
        (["small.toml", "--policy", "random", "--checkpoint", "last"], "no trained policy plays"),
        (["CartPole-v1", "--checkpoint", "last"], "no trained policy plays"),
        (["runs/typo", "--checkpoint", "last"], "there is no run directory"),
        (["runs", "--replay", "rec", "--checkpoint", "last"], "--replay and --checkpoint exclude each other"),
        (["runs", "--replay", "rec", "--episodes", 2], "--replay and --episodes exclude each other"),
        (["runs", "--replay", "rec", "--seed", 0], "--replay and --seed exclude each other"),
    ],
)
def test_options_that_would_change_nothing_are_refused(maze, experiment, arguments, said):
    Path("runs").mkdir()
    done = maze("rollout", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr


def test_networks_are_drawn_by_a_logger_like_any_other(maze, experiment):
    for name, loggers in (("none", '[{use="csv"}]'), ("drawn", '[{use="drawing", folder="pictures"}]')):
        done = maze("train", experiment, "--set", "trainer.n_epochs=1", "--set", f"loggers={loggers}", "--out", name)
        assert done.exit_code == 0, done.output
    assert not Path("none/figures").exists()
    assert {file.name for file in Path("drawn/pictures").iterdir()} == {"policy.svg", "critic.svg"}
    assert not Path("drawn/statistics").exists()


def test_a_tracker_without_its_package_is_refused_before_training(maze, experiment, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    Path("absent_tracker").mkdir()  # a folder of that name is no package
    Path("own_tracker.py").write_text(
        "from maze_runtime.run.tracking import require_package\n"
        "def make(context):\n"
        "    require_package('own', 'absent_tracker', 'absent-tracker')\n"
    )
    experiment.write_text(EXPERIMENT + '[[loggers]]\nuse = "csv"\n[[loggers]]\nuse = "own_tracker:make"\n')
    done = maze("train", experiment, "--out", "run")
    assert done.exit_code == 2
    assert "the logger 'own' needs the package absent-tracker, which is not installed" in done.stderr
    assert "small.toml:18:3" in done.stderr
    assert "pip install absent-tracker" in done.stderr
    assert not Path("run").exists()


def test_an_unknown_plugin_to_disable_is_warned_of_once(maze, experiment):
    experiment.write_text(EXPERIMENT + '[plugins]\ndisable = ["nowhere"]\n')
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert maze("train", experiment, "--set", "trainer.n_epochs=1").exit_code == 0
    assert sum("disable names nowhere" in str(warning.message) for warning in caught) == 1


def test_train_rollout_show(maze, experiment):
    done = maze("train", experiment, "--out", "runs/one")
    assert done.exit_code == 0, done.output
    assert {file.name for file in Path("runs/one/figures").iterdir()} == {"policy.svg", "critic.svg"}
    assert "roll it out with: maze rollout runs/one" in done.stdout
    assert "run directory: runs/one" in done.stderr

    played = maze("rollout", "runs/one", "--episodes", 3, "--json")
    assert played.exit_code == 0
    data = json.loads(played.stdout)
    assert data["n_episodes"] == 3
    assert len({episode["seed"] for episode in data["episodes"]}) == 3
    assert json.loads(maze("rollout", "runs/one", "--episodes", 3, "--json").stdout) == data
    assert maze("rollout", "runs", "--episodes", 1, "--checkpoint", "epoch-2", "--stochastic").exit_code == 0

    shown = maze("show", "runs/one")
    assert "gym CartPole-v1" in shown.stdout
    assert json.loads(maze("show", "runs/one", "--json").stdout)["name"] == "small"

    again = maze("train", "--resume", "runs/one", "--set", "trainer.n_epochs=3")
    assert again.exit_code == 0, again.output
    assert "after epoch 3" in again.stdout


def test_statistics_of_other_wrappers_are_one_error_of_the_whole_rollout(maze, experiment):
    assert maze("train", experiment, "--set", "trainer.n_epochs=1", "--out", "run").exit_code == 0
    experiment.write_text(f"wrappers = []\n{EXPERIMENT}")
    done = maze("rollout", "run", "--experiment", experiment, "--episodes", 2, "--record-to", "rec")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: the saved wrapper statistics do not fit the experiment's wrappers\n")
    assert "  = expected: of 0\n  help: keep the [[wrappers]] tables as they were" in done.stderr
    assert not Path("rec").exists()


def test_a_failing_episode_makes_the_exit_code_1(maze, experiment, tmp_path, monkeypatch):
    (tmp_path / "breaking_env.py").write_text(
        "import gymnasium\n"
        "def make():\n"
        "    env = gymnasium.make('CartPole-v1')\n"
        "    reset = env.reset\n"
        "    def failing(*, seed=None, options=None):\n"
        "        if seed is not None and seed % 2:\n"
        "            raise ArithmeticError('odd seed')\n"
        "        return reset(seed=seed, options=options)\n"
        "    env.reset = failing\n"
        "    return env\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    experiment.write_text(EXPERIMENT.replace("CartPole-v1", "breaking_env:make"))
    done = maze("rollout", experiment, "--episodes", 8, "--json")
    data = json.loads(done.stdout)
    failed = [episode for episode in data["episodes"] if episode["error"]]
    assert done.exit_code == 1
    assert {episode["seed"] for episode in failed} == {e["seed"] for e in data["episodes"] if e["seed"] % 2}
    assert data["n_failed"] == len(failed) > 0
    assert all(f"seed {episode['seed']}" in done.stderr for episode in failed)


@pytest.mark.parametrize(
    "arguments",
    [
        ["train"],
        ["train", "nothing.toml"],
        ["rollout", "nothing"],
        ["show", "nothing"],
        ["train", "--resume", "nothing"],
        ["check", "nothing.toml"],
        ["describe", "trainer", "pppo"],
        ["describe", "trainers"],
    ],
)
def test_wrong_requests_exit_with_2_and_no_traceback(maze, arguments):
    done = maze(*arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


MUTATIONS = {
    "bool for int": ("n_epochs = 2", "n_epochs = true"),
    "float for int": ("n_epochs = 2", "n_epochs = 1.7"),
    "text for int": ("n_epochs = 2", 'n_epochs = "7"'),
    "unknown key": ("n_rollout_steps", "n_rolout_steps"),
    "unknown component": ('use = "ppo"', 'use = "pppo"'),
    "duplicate key": ("n_envs = 2", "n_envs = 2\nn_envs = 3"),
    "not a number": ("n_epochs = 2", "n_epochs = 2\nlr = nan"),
    "broken syntax": ("[trainer]", "[trainer"),
    "table for text": ('name = "small"', "name = { a = 1 }"),
    "missing name": ('name = "small"', ""),
    "deep nesting": ("n_epochs = 2", f"n_epochs = {'[' * 300}{']' * 300}"),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_damaged_file_gets_one_screen_with_its_line(maze, experiment, mutation):
    old, new = MUTATIONS[mutation]
    assert old in EXPERIMENT
    experiment.write_text(EXPERIMENT.replace(old, new))
    for command in ("check", "train", "rollout"):
        done = maze(command, experiment)
        assert done.exit_code == 2, done.output
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        assert "small.toml" in done.stderr
        assert len(done.stderr.splitlines()) <= 50
    assert not Path("runs").exists()


@pytest.mark.parametrize("content", [b"\xff\xfe\x00name", b"\x00" * 100, b"", b"\xef\xbb\xbfname = 3\r\n"])
def test_files_that_are_no_experiments_exit_with_2(maze, experiment, content):
    experiment.write_bytes(content)
    done = maze("check", experiment)
    assert done.exit_code == 2
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_ctrl_c_saves_a_checkpoint_and_exits_with_130_in_three_lines(experiment, tmp_path):
    main = [sys.executable, "-c", "from maze_kernel.cli import main; main()"]
    options = ["--out", "run", "--set", "trainer.n_epochs=100000", "--set", "trainer.patience=0"]
    maze = subprocess.Popen(
        [*main, "train", str(experiment), *options],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("run/checkpoints/epoch-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(maze.pid, signal.SIGINT)
    out, _ = maze.communicate(timeout=60)
    assert maze.returncode == 130
    assert len(out.splitlines()) <= 3
    assert "maze train --resume run" in out
    resumed = subprocess.run([*main, "rollout", "run", "--episodes", "1"], cwd=tmp_path, capture_output=True)
    assert resumed.returncode == 0


SIMULATION = """
import numpy as np
from gymnasium import spaces
from maze_runtime.env.flat import FlatEnv, flat_spaces


class Queue(FlatEnv):
    structured_spaces = flat_spaces(
        spaces.Dict(level=spaces.Box(0, 10, (1,), np.float32)), spaces.Dict(valve=spaces.Discrete(2))
    )

    def __init__(self, *, n_steps: int = 20):
        self.n_steps = n_steps

    def reset(self, *, seed=None, options=None):
        self.t, self.level = 0, 5.0
        return {"level": np.array([self.level], np.float32)}, {}

    def step(self, action):
        self.t += 1
        self.level = float(np.clip(self.level + (1 if action["valve"] else -1), 0, 10))
        return {"level": np.array([self.level], np.float32)}, -abs(self.level - 5), False, self.t >= self.n_steps, {}
"""


@pytest.mark.slow
def test_a_simulation_beside_the_experiment_trains_in_processes_and_rolls_out(tmp_path):
    (tmp_path / "my_simulation.py").write_text(SIMULATION)
    text = EXPERIMENT.replace('use = "gym"\nid = "CartPole-v1"', 'use = "my_simulation:Queue"\nn_steps = 9')
    text = text.replace("n_envs = 2", 'n_envs = 2\nmode = "subprocess"')
    (tmp_path / "queue.toml").write_text(text)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def command(*arguments):
        code = "from maze_kernel.cli import main; main()"
        return subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)], cwd=elsewhere, capture_output=True, text=True
        )

    done = command("train", tmp_path / "queue.toml", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    hint = done.stdout.splitlines()[-1]
    assert "--experiment" in hint
    arguments = hint.partition(": maze ")[2].split()
    done = command(*arguments, "--episodes", 2)
    assert done.returncode == 0, done.stderr
    assert "2 episodes played" in done.stdout

    done = command("train", "--resume", tmp_path / "run", "--set", "trainer.n_epochs=3")
    assert done.returncode == 2
    assert "--resume" in done.stderr, done.stderr
    done = command("train", tmp_path / "queue.toml", "--resume", tmp_path / "run", "--set", "trainer.n_epochs=3")
    assert done.returncode == 0, done.stderr
    assert "done after epoch 3" in done.stdout


@pytest.mark.slow
def test_a_run_that_fails_says_how_to_go_on(tmp_path):
    simulation = SIMULATION.replace("self.n_steps = n_steps", "self.n_steps, self.n_resets = n_steps, 0")
    simulation = simulation.replace(
        "self.t, self.level = 0, 5.0",
        "self.t, self.level, self.n_resets = 0, 5.0, self.n_resets + 1\n        self.n_resets < 6 or int('x')",
    )
    (tmp_path / "my_simulation.py").write_text(simulation)
    text = EXPERIMENT.replace('use = "gym"\nid = "CartPole-v1"', 'use = "my_simulation:Queue"\nn_steps = 9')
    text = text.replace("n_epochs = 2", "n_epochs = 200").replace("n_episodes = 1", "n_episodes = 0")
    (tmp_path / "queue.toml").write_text(f"{text}[checkpoint]\nevery_epochs = 1\n")
    command = [sys.executable, "-c", "from maze_kernel.cli import main; main()", "train", "queue.toml", "--out", "run"]
    command += ["--set", "trainer.lr={start=1e-3, end=0.0}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    hint = " ".join(done.stderr.split()).partition("with: ")[2]
    arguments = ["train", "queue.toml", "--set", "trainer.lr={start=1e-3, end=0.0}", "--resume", "run"]
    assert shlex.split(hint)[:7] == ["maze", *arguments], done.stderr
    (tmp_path / "my_simulation.py").write_text(SIMULATION)
    done = subprocess.run(
        [*command[:3], *arguments, "--max-seconds", "1"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_film_can_be_read(maze, experiment, tmp_path):
    import imageio.v2 as imageio

    done = maze("rollout", experiment, "--episodes", "1", "--max-steps", "5", "--video", "films")
    assert done.exit_code == 0, done.output
    assert "films in films" in done.stdout
    (film,) = (tmp_path / "films").iterdir()
    frames = imageio.mimread(film)
    assert len(frames) >= 5
    assert frames[0].shape[2] >= 3


def test_an_unknown_policy_is_placed_at_its_option(maze, experiment):
    done = maze("rollout", experiment, "--policy", "randon")
    assert done.exit_code == 2
    assert "--policy" in done.stderr
    assert "random" in done.stderr


def test_describe_shows_the_networks_of_an_experiment(maze, experiment):
    shown = maze("describe", "model", experiment)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.startswith("flowchart TD\n")
    assert "policy of 0 · 4,610 parameters" in shown.stdout
    policy, critic = json.loads(maze("describe", "model", experiment, "--json").stdout)
    assert (policy["role"], critic["role"]) == ("policy", "critic")
    assert sum(block["n_parameters"] for block in policy["blocks"]) == 4610


def test_wrong_usage_exits_with_2(maze):
    assert maze("train", "--no-such-option").exit_code == 2
    assert maze("rollout", "x", "--episodes", "0").exit_code == 2
    assert "did you mean: train" in maze("trian").stderr


@pytest.mark.parametrize("end", ["done: all 2 epochs done", "failed: the disk is full\n  on /data"])
def test_complaints_of_loggers_do_not_hide_how_a_run_ended(maze, tmp_path, end):
    record = {"format": 1, "name": "small", "overrides": [], "experiment": {}}
    (tmp_path / "run.json").write_text(json.dumps(record))
    stamp = "2026-01-02T03:05:05Z"
    log = f"{stamp} logger csv failed in write\n{stamp} {end}\n{stamp} logger failures: CsvLogger 1\n"
    (tmp_path / "log.txt").write_text(log)
    (state,) = (line for line in maze("show", tmp_path).stdout.splitlines() if line.startswith("state"))
    assert state.split(maxsplit=1)[1].strip() == f"{end.splitlines()[0]}; logger failures: CsvLogger 1"


@pytest.mark.parametrize("command", ["train", "rollout", "show"])
def test_help_imports_nothing_heavy(command):
    code = (
        "import sys\n"
        "from maze_kernel.cli import main\n"
        f"sys.argv = ['maze', {command!r}, '-h']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "print([name for name in ('torch', 'gymnasium', 'cattrs') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("[]")


def test_describe_names_a_file_that_is_missing(maze):
    refused = maze("describe", "model", "nothing.toml")
    assert refused.exit_code == 2
    assert "nothing.toml" in refused.stderr


WANDERING = """
import os
import numpy as np
from gymnasium import Env, spaces

class Wandering(Env):
    observation_space, action_space = spaces.Box(-1, 1, (1,), np.float32), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        os.makedirs("assets", exist_ok=True)
        os.chdir("assets")
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 1.0, True, False, {}
"""


@pytest.mark.slow
def test_a_simulation_that_changes_the_working_directory_takes_no_run_along(maze, experiment, monkeypatch):
    monkeypatch.syspath_prepend(str(experiment.parent))
    Path("wandering.py").write_text(WANDERING)
    own, began_in = ("--set", 'env.id="wandering:Wandering"'), Path.cwd()
    for options in ((), ("--out", "mine"), ("--resume", "mine", "--set", "trainer.n_epochs=3")):
        done = maze("train", "small.toml", *own, *options)
        assert done.exit_code == 0, done.stderr
        assert Path.cwd() != began_in
        monkeypatch.chdir(began_in)
        run = Path("mine") if options else next(Path("runs/small").iterdir())
        assert f"run directory: {run}\n" in done.stderr
        assert (run / "checkpoints" / "last").exists()
        assert (run / "statistics" / "train.csv").is_file()
    for source in ("small.toml", "mine"):
        done = maze("rollout", source, *own, "--episodes", 2, "--events", "--record-to", f"recorded-{source}")
        monkeypatch.chdir(began_in)
        assert done.exit_code == 0, done.stderr
        assert f"recorded in recorded-{source}" in done.stdout
        assert list(Path(f"recorded-{source}").glob("*.safetensors"))
