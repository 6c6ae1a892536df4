"""`maze new`: what it writes loads, fits the spaces and says why."""

from pathlib import Path

import pytest
import tomli

ENV = """
import gymnasium
import numpy as np
from gymnasium import spaces


class Camera(gymnasium.Env):
    observation_space = spaces.Dict(
        screen=spaces.Box(0, 255, (120, 160, 3), np.uint8), speed=spaces.Box(-np.inf, np.inf, (2,), np.float32)
    )
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        return {"screen": np.zeros((120, 160, 3), np.uint8), "speed": np.zeros(2, np.float32)}, {}

    def step(self, action):
        return self.reset()[0], 0.0, False, False, {}
"""

TANK = """
import gymnasium
import numpy as np
from gymnasium import spaces


class Tank(gymnasium.Env):
    observation_space, action_space = spaces.Box(0.0, 1000.0, (2,), np.float32), spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        return np.array([500.0, 0.5], np.float32), {}

    def step(self, action):
        return self.reset()[0], 0.0, False, False, {}
"""


def written(maze, *arguments):
    done = maze("new", "new.toml", *arguments)
    assert done.exit_code == 0, done.output
    assert "maze train new.toml" in done.stdout
    assert maze("check", "new.toml", "--steps", 20).exit_code == 0
    text = Path("new.toml").read_text()
    return text, tomli.loads(text)


def test_a_small_environment_gets_the_default_trainer_and_normalised_numbers(maze):
    text, data = written(maze, "--env", "CartPole-v1")
    assert data["env"] == {"use": "gym", "id": "CartPole-v1"}
    assert data["trainer"]["use"] == "ppo"
    assert [wrapper["use"] for wrapper in data["wrappers"]] == ["observation-normalization", "return-normalization"]
    assert data["wrappers"][0]["statistics"] == "running"
    assert "images" not in data["wrappers"][0]
    assert "# action action: Discrete(2)" in text
    assert "# the model reads observation (4,) as numbers" in text


def test_continuous_actions_name_the_other_trainer(maze):
    text, _ = written(maze, "--env", "Pendulum-v1")
    assert "--trainer sac" in text


@pytest.mark.parametrize(("env", "has_a_hint"), [("Pendulum-v1", False), ("CartPole-v1", True)])
def test_a_trainer_without_wrappers_of_its_own_sees_numbers_of_about_1_as_they_are(maze, env, has_a_hint):
    text, data = written(maze, "--env", env, "--trainer", "sac")
    assert "wrappers" not in data
    assert ('# use = "observation-normalization"' in text) == has_a_hint


def test_a_trainer_without_wrappers_of_its_own_gets_large_numbers_normalised(maze):
    Path("tank.py").write_text(TANK)
    text, data = written(maze, "--env", "tank:Tank", "--trainer", "sac")
    assert data["wrappers"] == [{"use": "observation-normalization", "statistics": "running"}]
    assert "'observation' has numbers of about 500; networks learn best from about 1" in text


def test_a_check_tells_of_large_numbers_that_nothing_scales(maze):
    Path("tank.py").write_text(TANK)
    written(maze, "--env", "tank:Tank", "--trainer", "sac")
    scaled = maze("check", "new.toml", "--steps", 20)
    raw = maze("check", "new.toml", "--steps", 20, "--set", "wrappers=[]")
    assert "numbers of about" not in scaled.stdout
    assert "the observation 'observation' has numbers of about 500" in raw.stdout
    assert "observation-normalization" in raw.stdout


@pytest.mark.parametrize(("trainer", "units"), [("ppo", [64, 64]), ("sac", [128, 128]), ("td3", [128, 128])])
def test_networks_are_those_that_the_trainer_has_by_default(maze, trainer, units):
    _, data = written(maze, "--env", "Pendulum-v1", "--trainer", trainer)
    assert data["model"]["hidden_units"] == units


def test_a_trainer_with_a_replay_buffer_begins_to_learn_within_the_budget(maze):
    text, data = written(maze, "--env", "Pendulum-v1", "--trainer", "sac")
    assert data["vector"]["n_envs"] == 1
    trainer = data["trainer"]
    assert trainer["initial_buffer_size"] < trainer["n_epochs"] * trainer["epoch_length"] / 10
    assert "--trainer sac" not in text


def test_a_trainer_that_learns_from_episodes_gets_a_line_to_fill_in(maze):
    text, data = written(maze, "--env", "CartPole-v1", "--trainer", "bc")
    assert data["trainer"]["demonstrations"] == {"path": "FILL IN"}
    assert "maze rollout RUN --record-to FOLDER" in text
    Path("new.toml").unlink()
    told = maze("new", "new.toml", "--env", "CartPole-v1", "--trainer", "bc").stdout
    assert "write your own value where it says 'FILL IN'" in told
    refused = maze("train", "new.toml")
    assert refused.exit_code == 2
    assert "there is no recording FILL IN" in refused.stderr


@pytest.mark.slow
def test_large_images_are_made_smaller(maze):
    Path("my_camera.py").write_text(ENV)
    text, data = written(maze, "--env", "my_camera:Camera")
    assert data["env"] == {"use": "gym", "id": "my_camera:Camera"}
    uses = ["observation-normalization", "return-normalization", "resize-img"]
    assert [wrapper["use"] for wrapper in data["wrappers"]] == uses
    assert data["wrappers"][0]["images"] is False
    assert data["wrappers"][2]["target_size"] == [84, 84]
    assert "screen-resize_img (84, 84, 3) as an image" in text


def test_only_classes_of_gymnasium_are_ids(maze):
    Path("my_cameras.py").write_text(ENV + "\n\ndef make():\n    return Camera()\n")
    _, data = written(maze, "--env", "my_cameras:make")
    assert data["env"] == {"use": "my_cameras:make"}


def test_structured_spaces_are_listed_by_policy_key(maze):
    text, _ = written(maze, "--env", "cutting-2d")
    assert "inventory (200, 2) as numbers, flattened" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["new.toml", "--env", "CartPol-v1"], "there is no Gymnasium environment 'CartPol-v1'"),
        (["new.toml", "--env", "CartPole-v1", "--trainer", "poo"], "no trainer is called 'poo'"),
        (["new.txt", "--env", "CartPole-v1"], "no name of an experiment file"),
        (["there.toml", "--env", "CartPole-v1"], "there.toml exists already"),
    ],
)
def test_what_cannot_be_written_leaves_no_file(maze, arguments, said):
    Path("there.toml").write_text("mine")
    done = maze("new", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert [file.name for file in Path().iterdir()] == ["there.toml"]
    assert Path("there.toml").read_text() == "mine"


def test_options_of_the_environment_are_set_where_its_spaces_need_them(maze):
    Path("talk.py").write_text(
        "import gymnasium\nfrom gymnasium import spaces\n\n\nclass Talk(gymnasium.Env):\n"
        "    observation_space, action_space = spaces.Text(20), spaces.Discrete(2)\n\n"
        "    def reset(self, *, seed=None, options=None):\n        return 'go left', {}\n\n"
        "    def step(self, action):\n        return 'go right', 0.0, True, False, {}\n"
    )
    refused = maze("new", "other.toml", "--env", "talk:Talk")
    assert refused.exit_code == 2
    assert "--set env.max_words=…" in refused.stderr
    _, data = written(maze, "--env", "talk:Talk", "--set", "env.max_words=3", "--set", 'env.words=["left", "right"]')
    assert data["env"] == {"use": "gym", "id": "talk:Talk", "max_words": 3, "words": ["left", "right"]}


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ("trainer.lr=1e-3", "is no option of the environment"),
        ("env.max_steps=3", "max_episode_steps"),
        ("env.x", "path=value"),
    ],
)
def test_other_overrides_are_refused(maze, item, words):
    done = maze("new", "other.toml", "--env", "CartPole-v1", "--set", item)
    assert done.exit_code == 2
    assert words in done.stderr
    assert not Path("other.toml").exists()
