"""`maze rollout` and `maze train` with the mere name of an environment; `--set` of experiments and policies."""

import json
from pathlib import Path

import pytest
import tomli

QUICK = ["--set", "trainer.n_epochs=1", "--set", "trainer.epoch_length=1", "--set", "evaluation.n_episodes=1"]
POLICY = """
from maze_runtime.rollout.heuristic import Heuristic


class Constant(Heuristic):
    def __init__(self, context, *, action: int = 0):
        super().__init__(context)
        self.action = action

    def act_one(self, observation, moment):
        return self.action
"""


def played(done):
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert data["n_failed"] == 0
    return data


@pytest.mark.parametrize("name", ["CartPole-v1", "cutting-2d"])
def test_a_bare_environment_is_played_at_random(maze, name):
    data = played(maze("rollout", name, "--policy", "random", "--episodes", 2, "--max-steps", 5, "--json"))
    assert (data["n_episodes"], data["policy"]) == (2, "random")


def test_an_import_path_is_an_environment_too(maze):
    Path("my_bare_simulation.py").write_text(
        "import gymnasium\n\n\ndef make(*, steps: int = 9):\n"
        "    return gymnasium.make('Pendulum-v1', max_episode_steps=steps)\n"
    )
    data = played(maze("rollout", "my_bare_simulation:make", "--set", "env.steps=4", "--episodes", 1, "--json"))
    assert data["length"]["mean"] == 4


def test_a_file_without_a_trainer_is_played_and_not_trained(maze):
    Path("bare.toml").write_text('name = "bare"\n[env]\nuse = "gym"\nid = "CartPole-v1"\n')
    assert played(maze("rollout", "bare.toml", "--episodes", 1, "--json"))["n_episodes"] == 1
    done = maze("train", "bare.toml")
    assert done.exit_code == 2
    assert "trainer is missing" in done.stderr


def test_other_mistakes_of_such_a_file_are_told_without_talk_of_a_trainer(maze):
    Path("bare.toml").write_text('name = "bare"\n[env]\nuse = "gym"\nid = "CartPole-v1"\nsteps = 3\n')
    done = maze("rollout", "bare.toml")
    assert done.exit_code == 2
    assert "env.steps is not an option" in done.stderr
    assert "trainer" not in done.stderr


def test_overrides_of_a_rollout_change_the_environment(maze):
    arguments = ["rollout", "Pendulum-v1", "--set", "env.max_episode_steps=7", "--episodes", 1, "--json"]
    assert played(maze(*arguments))["length"]["mean"] == 7


def test_a_bare_environment_is_trained_and_the_experiment_is_written(maze):
    done = maze("train", "CartPole-v1", "--set", "trainer.use=a2c", "--set", "seed=3", *QUICK, "--out", "run")
    assert done.exit_code == 0, done.output
    assert "experiment: run/experiment.toml" in done.stderr
    text = Path("run/experiment.toml").read_text()
    assert tomli.loads(text) == {
        "name": "cartpole-v1",
        "seed": 3,
        "env": {"use": "gym", "id": "CartPole-v1"},
        "trainer": {"use": "a2c", "n_epochs": 1, "epoch_length": 1},
        "evaluation": {"n_episodes": 1},
    }
    Path("again.toml").write_text(text)
    assert maze("check", "again.toml").exit_code == 0
    assert played(maze("rollout", "run", "--episodes", 1, "--json"))["policy"] == "run at epoch 1"
    resumed = maze("train", "--resume", "run", "--set", "trainer.n_epochs=2")
    assert "after epoch 2" in resumed.stdout


def test_a_preset_gives_the_trainer_of_a_bare_environment(maze):
    done = maze("train", "CartPole-v1", "--set", "preset=a2c-cartpole", *QUICK, "--out", "run")
    assert done.exit_code == 0, done.output
    stored = json.loads(Path("run/run.json").read_text())["experiment"]
    assert (stored["trainer"]["use"], stored["trainer"]["n_rollout_steps"]) == ("a2c", 8)
    assert tomli.loads(Path("run/experiment.toml").read_text())["preset"] == "a2c-cartpole"


def test_what_is_neither_file_nor_run_nor_environment_is_refused(maze):
    for command in ("rollout", "train"):
        done = maze(command, "nowhere")
        assert done.exit_code == 2
        assert "there is no run directory or experiment file nowhere" in done.stderr
    missing = maze("rollout", "nowhere.toml")
    assert "there is no file nowhere.toml" in missing.stderr


def test_a_policy_takes_options(maze):
    Path("my_constant_policy.py").write_text(POLICY)
    arguments = ["rollout", "CartPole-v1", "--policy", "my_constant_policy:Constant", "--episodes", 2, "--json"]
    left, right = (played(maze(*arguments, "--set", f"policy.action={action}")) for action in (0, 1))
    assert left["episodes"][0]["seed"] == right["episodes"][0]["seed"]
    assert max(left["reward"]["max"], right["reward"]["max"]) < 15
    assert [e["reward"] for e in left["episodes"]] != [e["reward"] for e in right["episodes"]]
    wrong = maze(*arguments, "--set", "policy.acton=1")
    assert wrong.exit_code == 2
    assert "policy.acton is not an option" in wrong.stderr
    assert "did you mean: action" in wrong.stderr
    outside = maze(*arguments, "--set", "policy.action=5")
    assert outside.exit_code == 1
    assert "Constant.act_one returned a value of 'action' that its space does not have" in outside.stderr


def test_the_newest_run_below_a_folder_is_taken_and_named(maze):
    for name in ("runs/a/old", "runs/b/new"):
        assert maze("train", "CartPole-v1", *QUICK, "--out", name).exit_code == 0
    record = Path("runs/a/old/run.json")
    record.write_text(record.read_text().replace('"created": "20', '"created": "19'))
    done = maze("rollout", "runs", "--episodes", 1)
    assert done.exit_code == 0, done.output
    assert "run: runs/b/new\n" in done.stderr
    assert "played by runs/b/new at epoch 1" in done.stdout
    assert "run: " not in maze("rollout", "runs/b/new", "--episodes", 1).stderr
    refused = maze("rollout", "runs/b/new", "--set", "policy.x=1")
    assert "a trained policy has no options" in refused.stderr


@pytest.mark.parametrize("command", ["train", "rollout"])
@pytest.mark.parametrize(
    ("written", "meant"), [("my.tml", "my.toml"), ("my", "my.toml"), ("studies/loong.tom", "studies/long.toml")]
)
def test_a_file_that_is_not_there_is_answered_with_the_nearest_that_is(maze, command, written, meant):
    Path("studies").mkdir()
    for name in ("my.toml", "other.toml", "my.csv", "studies/long.toml"):
        Path(name).touch()
    done = maze(command, written)
    assert done.exit_code == 2
    assert f"there is no run directory or experiment file {written}" in done.stderr
    assert f"did you mean: {meant}\n" in done.stderr


CRANE = """
import gymnasium
from gymnasium import spaces


class Crane(gymnasium.Env):
    observation_space = spaces.Discrete(4)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 1, 1.0, False, False, {}
"""


@pytest.mark.parametrize("name", ["CartPole-v1", "cutting-2d", "my_crane:Crane"])
def test_check_takes_what_train_and_rollout_take(maze, name):
    Path("my_crane.py").write_text(CRANE)
    done = maze("check", name)
    assert (done.exit_code, done.stdout.partition(":")[0]) == (0, name.partition(":")[0]), done.output
    assert f"{name}: ok (" in done.stdout
    done = maze("check", name, "--steps", 12)
    assert done.exit_code == 0, done.output
    assert [f"{name}: ok (" in done.stdout, "12 decisions of env" in done.stdout] == [True, True]


def test_check_of_a_bare_environment_reads_overrides_and_names_problems(maze):
    assert maze("check", "CartPole-v1", "--set", "env.max_episode_steps=7", "--steps", 20).exit_code == 0
    done = maze("check", "CartPole-v1", "--set", "env.max_steps=7")
    assert done.exit_code == 2
    assert "env.max_steps is not an option" in done.stderr
    done = maze("check", "nothing-of-the-kind")
    assert done.exit_code == 2
    assert "there is no run directory or experiment file" in done.stderr


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf"])
def test_a_time_that_is_none_is_refused(maze, seconds):
    done = maze("train", "CartPole-v1", *QUICK, "--out", "run", "--max-seconds", seconds)
    assert (done.exit_code, Path("run").exists()) == (2, False)
    assert f"--max-seconds {seconds} is no time" in done.output


def test_a_run_in_which_nothing_was_trained_is_not_to_be_rolled_out(maze):
    done = maze("train", "CartPole-v1", *QUICK, "--out", "run", "--max-seconds", "1e-6")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1] == "nothing was trained; go on with: maze train --resume run"
