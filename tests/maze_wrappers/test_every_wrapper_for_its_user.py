"""Every wrapper as its user meets it: a table of an experiment file, with all its options; the same from Python.

What a wrapper does in numbers is tested in the files beside this one, what it promises in `test_wrappers_in_play`.
"""

import json
import sys
import tomllib
from pathlib import Path

import attrs
import numpy as np
import pytest
from gymnasium import spaces
from typer.testing import CliRunner

from maze_kernel.cli.app import make_app
from maze_kernel.config import describe, load_experiment
from maze_runtime.context import RunContext
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.run.assembly import Assembly

PAGE = (Path(__file__).parents[2] / "docs/reference/environments.md").read_text(encoding="utf-8")
HEAD = """name = "robot"
vector = { n_envs = 2 }
evaluation = { n_episodes = 1 }

[env]
use = "robot:Robot"

[trainer]
use = "ppo"
n_epochs = 1
epoch_length = 1
n_rollout_steps = 8
"""


class Robot(FlatEnv):
    """Sees a picture, a gear and two speeds, steers with three wheels; is paid 1 a step, for six steps."""

    structured_spaces = flat_spaces(
        spaces.Dict(
            camera=spaces.Box(0, 255, (6, 4, 3), np.uint8),
            gear=spaces.Discrete(3),
            speed=spaces.Box(-2, 2, (2,), np.float32),
        ),
        spaces.Dict(steer=spaces.Box(-1, 1, (3,), np.float32)),
    )

    def reset(self, *, seed=None, options=None):
        self.rng, self.steps = np.random.default_rng(seed), 0
        return self.look(), {"lives": 3}

    def step(self, action):
        self.steps += 1
        return self.look(), 1.0, self.steps == 6, False, {"lives": 3 - self.steps // 2}

    def look(self):
        camera = self.rng.integers(0, 256, (6, 4, 3), dtype=np.uint8)
        return {"camera": camera, "gear": self.rng.integers(3), "speed": self.rng.uniform(-2, 2, 2).astype(np.float32)}

    def noop_action(self):
        return {"steer": np.zeros(3, np.float32)}

    def render(self):
        return np.full((16, 16, 3), 40 * self.steps, np.uint8)


def draw(observations, group):
    """What `observation-visualization` is told to draw with."""
    from matplotlib.figure import Figure

    return Figure()


@attrs.frozen(kw_only=True)
class Row:
    """What stands in the file, and what it does to the robot."""

    toml: str
    sees: dict = attrs.field(factory=dict)
    """Observations that are not the robot's own: shapes, or numbers of choices; None: it is gone."""
    steers: dict = attrs.field(factory=lambda: {"steer": (3,)})
    lasts: int = 6
    pays: float = 1.0
    """A step's reward in training."""
    tells: tuple = ()
    """Event statistics of a rollout."""
    writes: tuple = ()
    """Files of a rollout."""


PROVIDERS = ("maze-wrappers", "maze-trajectories")
"""The second one brings the wrappers that record."""

ROWS = {
    "log-stats": Row(toml='name = "here"', tells=("LogStatsEvents/reward/mean/here",)),
    "monitoring": Row(
        toml='actions = true\nobservations = true\nrewards = true\nn_samples = 9\nname = "end"',
        tells=(
            "ActionEvents/continuous_action/distribution/0/steer/end",
            "ObservationEvents/observation/mean/0/speed/end",
            "RewardEvents/step_reward/histogram/end",
        ),
    ),
    "observation-visualization": Row(
        toml='plot_function = "robot:draw"\nkeys = ["speed"]\nn_samples = 5',
        tells=("ObservationVisualizationEvents/observation/0/speed",),
    ),
    "time-limit": Row(toml="max_episode_steps = 4\ntraining_only = false", lasts=4),
    "random-reset": Row(toml="min_skip = 2\nmax_skip = 2\nnoop = { steer = [0.0, 0.0, 0.0] }", lasts=4),
    "first-actions": Row(toml='actions = [{ steer = [0.5, 0.5, 0.5] }]\nkey = "lives"', lasts=3, pays=2.0),
    "life-loss": Row(toml='key = "lives"\ngo_on = false\ntraining_only = false', lasts=2),
    "step-skip": Row(
        toml='n_steps = 3\nmode = "noop"\nnoop = { steer = [0.0, 0.0, 0.0] }\nmax_of = 2', lasts=2, pays=3.0
    ),
    "sorted-spaces": Row(toml=""),
    "no-dict-spaces": Row(
        toml='observation_key = "seen"\naction_key = "done"\nmasks = "join"',
        sees={"camera": None, "gear": None, "speed": None, "seen": (77,)},
        steers={"done": (3,)},
    ),
    "trajectory-recording": Row(
        toml='folder = "trajectories/mine"\nevery_episodes = 1', writes=("trajectories/mine/*.safetensors",)
    ),
    "action-recording": Row(toml='folder = "moves"\nevery_episodes = 1', writes=("moves/*.safetensors",)),
    "video-recording": Row(toml='folder = "films"\nevery_episodes = 2\nmax_frames = 3', writes=("films/*.*",)),
    "dict-observation": Row(toml='key = "seen"'),
    "no-dict-observation": Row(
        toml='key = "seen"\nmasks = "drop"', sees={"camera": None, "gear": None, "speed": None, "seen": (77,)}
    ),
    "observation-stack": Row(
        toml='n = 4\nkeys = ["speed"]\ndeltas = true\nkeep_original = true', sees={"speed-stack": (4, 2)}
    ),
    "dict-action": Row(toml='key = "done"'),
    "no-dict-action": Row(toml='key = "done"', steers={"done": (3,)}),
    "split-actions": Row(
        toml="heads = { steer = { front = [0], back = [1, 2] } }", steers={"front": (1,), "back": (2,)}
    ),
    "discretize-actions": Row(
        toml="n_bins = 5\nheads = { steer = { n_bins = [3], low = [-0.5], high = [0.5] } }", steers={"steer": [3, 3, 3]}
    ),
    "reward-scaling": Row(toml="scale = 0.25", pays=0.25),
    "reward-clipping": Row(toml="min_val = -0.5\nmax_val = 0.5", pays=0.5),
    "return-normalization": Row(toml="gamma = 0.9\nepsilon = 1e-6\nclip_range = [-0.1, 0.1]", pays=0.1),
    "flatten": Row(toml='observation = "camera"\nn_dims = 2\nkeep_original = true', sees={"camera-flatten": (6, 12)}),
    "one-hot": Row(toml='observation = "gear"\nkeep_original = false', sees={"gear": None, "gear-one_hot": (3,)}),
    "resize-img": Row(
        toml='observation = "camera"\nkeep_original = false\ntarget_size = [3, 5]\nchannels_first = false\n'
        'method = "area"',
        sees={"camera": None, "camera-resize_img": (3, 5, 3)},
    ),
    "transpose": Row(
        toml='observation = "camera"\nkeep_original = false\naxes = [2, 0, 1]',
        sees={"camera": None, "camera-transpose": (3, 6, 4)},
    ),
    "unsqueeze": Row(toml='observation = "speed"\nkeep_original = true\ndim = 0', sees={"speed-unsqueeze": (1, 2)}),
    "rgb2gray": Row(
        toml='observation = "camera"\nkeep_original = true\nrgb_dim = -1', sees={"camera-rgb2gray": (6, 4)}
    ),
    "observation-normalization": Row(
        toml='strategy = "range-zero-one"\nstatistics = "estimated"\nn_estimation_steps = 20\naxis = [0]\n'
        'clip_range = [0.0, 1.0]\nexclude = ["camera"]\nkeys = { "*" = { strategy = "mean-zero-std-one" } }\n'
        'sampling_policy = { use = "random" }\nstatistics_from = "speed.json"\nimages = true'
    ),
}
SEEN = {"camera": (6, 4, 3), "gear": 3, "speed": (2,)}


@pytest.fixture(params=ROWS)
def name(request, tmp_path, monkeypatch):
    """One row, whose file is row.toml in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "robot", sys.modules[__name__])
    text = f'{HEAD}\n[[wrappers]]\nuse = "{request.param}"\n{ROWS[request.param].toml}\n'
    Path("row.toml").write_text(text, encoding="utf-8")
    Path("speed.json").write_text('{"speed": {"mean": 0.5, "std": 2.0}}', encoding="utf-8")
    return request.param


def maze(*arguments):
    result = CliRunner().invoke(make_app(), arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def sizes(space):
    """The shape of a Box, the number of choices of anything else, by name."""
    kinds = {spaces.Box: "shape", spaces.Discrete: "n", spaces.MultiDiscrete: "nvec"}
    found = {key: getattr(leaf, kinds[type(leaf)]) for key, leaf in space.spaces.items()}
    return {key: size.tolist() if isinstance(size, np.ndarray) else size for key, size in found.items()}


def test_the_page_the_list_and_this_table_name_the_same_wrappers(kernel):
    offered = {e.component.name for e in kernel.catalog.entries("wrapper") if e.plugin.distribution in PROVIDERS}
    assert set(ROWS) == offered
    listed = maze("list-plugins")
    for name in ROWS:
        assert name in listed
        assert f"`{name}`" in PAGE or f'use = "{name}"' in PAGE, f"docs/reference/environments.md does not name {name}"


def test_its_row_sets_every_option(kernel, name):
    (table,) = tomllib.loads(Path("row.toml").read_text())["wrappers"]
    assert set(table) - {"use"} == {
        row.name for row in describe(kernel, "wrapper", name).options if "." not in row.name
    }


def test_a_file_and_python_do_the_same(kernel, name):
    row = ROWS[name]
    loaded = load_experiment("row.toml", kernel=kernel)
    outside = Assembly(loaded, kernel).spaces
    assert sizes(outside.observation["0"]) == {key: size for key, size in (SEEN | row.sees).items() if size is not None}
    assert sizes(outside.action["0"]) == row.steers

    rollout = json.loads(maze("rollout", "row.toml", "--policy", "random", "--episodes", "2", "--json"))
    from_file = [(episode["seed"], episode["reward"], episode["length"]) for episode in rollout["episodes"]]
    assert [length for _, _, length in from_file] == [row.lasts] * 2
    assert set(row.tells) <= set(rollout["events"])
    assert all(list(Path().glob(pattern)) for pattern in row.writes)

    tables = tomllib.loads(Path("row.toml").read_text())["wrappers"]
    for wrappers in (tables, [wrapper.options for wrapper in loaded.experiment.wrappers]):
        context = RunContext(env=Robot, wrappers=wrappers, silent=True, kernel=kernel)
        episodes = context.rollout(2, policy="random").episodes
        assert [(episode.seed, episode.total_reward, episode.length) for episode in episodes] == from_file


def test_training_is_paid_as_the_row_says(kernel, name):
    assembly = Assembly(load_experiment("row.toml", kernel=kernel), kernel)
    assembly.estimated_states()
    batch = assembly.make_vector_env(2, training=True)
    batch.reset([[1], [2]])
    for _ in range(2):
        actions = {head: np.stack([space.sample()] * 2) for head, space in assembly.spaces.action["0"].spaces.items()}
        reward = batch.step({"0": actions}).reward
    batch.close()
    assert reward == pytest.approx([ROWS[name].pays] * 2)


@pytest.mark.slow
def test_it_trains_and_rolls_out_from_the_command_line(name):
    assert "done" in maze("train", "row.toml", "--out", "run")
    assert "2 episodes" in maze("rollout", "run", "--experiment", "row.toml", "--episodes", "2")
