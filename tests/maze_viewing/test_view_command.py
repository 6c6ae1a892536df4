"""`maze view` writes one page that holds everything."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from maze_kernel.errors import EnvError, RequestError, TrajectoryError
from maze_runtime.env.renderer import ChoiceArgument, IntRange, Renderer
from maze_viewing.episodes import encode_png
from maze_viewing.frames import renderer_arguments
from maze_viewing.notebook import TrajectoryViewer


def data_of(page):
    text = Path(page).read_text(encoding="utf-8")
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(data)


def test_a_maze_environment_is_drawn_from_its_recorded_states(maze, cutting):
    folder = cutting()
    done = maze("view", folder)
    assert done.exit_code == 0, done.output
    assert "open in a browser: rec/view.html" in done.stdout
    first, second = data_of(folder / "view.html")
    assert first["outcome"] == "truncated"
    assert [step["actor"] for step in first["steps"]] == ["select", "cut"] * 3 + [""]
    assert [step["env_step"] for step in first["steps"]] == [0, 0, 1, 1, 2, 2, 3]
    assert all(step["frame"] is not None for step in first["steps"])
    assert first["frames"][0].startswith("data:image/png;base64,")
    events = [name for name, _ in first["steps"][1]["events"]]
    assert "CuttingEvents/valid_cut" in events
    assert ["current_demand", "[60, 33]"] in dict(first["steps"][1]["events"])["CuttingEvents/valid_cut"]
    assert first["steps"][-1]["total"] == pytest.approx(first["total_reward"])
    assert second["seed"] != first["seed"]


def test_a_model_given_by_its_import_path_does_not_stand_in_the_way(maze, cutting):
    folder = cutting(extra='[model]\nuse = "maze_cutting2d.networks:make_cutting_model"\n', episodes=1)
    assert maze("view", folder, "--draw", "dpi=60").exit_code == 0
    assert "no pictures" not in (folder / "view.html").read_text(encoding="utf-8")


def test_a_gymnasium_environment_is_played_again_to_be_drawn(maze, cartpole):
    folder = cartpole(episodes=3)
    assert maze("view", folder, "--episodes", 2, "--out", "page.html").exit_code == 0
    episodes = data_of("page.html")
    assert len(episodes) == 2
    for episode in episodes:
        assert len(episode["steps"]) == episode["n_decisions"] + 1
        assert all(step["frame"] is not None for step in episode["steps"])
        assert len(episode["frames"]) > episode["n_decisions"] / 3, "the pole moves, not always by a pixel"
        assert episode["note"] == ""
        assert len(dict(episode["steps"][0]["observation"])["observation"].split(",")) == 4


UNDRAWN = """
import gymnasium
import numpy as np

class Env(gymnasium.Env):
    metadata = {{"render_modes": {modes}}}
    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (2,)), gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode=None):
        assert render_mode is None or render_mode in self.metadata["render_modes"], "no such mode"
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(2, np.float32), {{}}

    def step(self, action):
        self.time += 1
        return np.ones(2, np.float32), 1.0, self.time == 3, False, {{}}

    def render(self):
        raise ImportError("no OpenGL here")

gymnasium.register("{name}", entry_point=Env)
"""


@pytest.mark.parametrize(
    ("modes", "why"), [(["rgb_array"], "drawing failed with ImportError: no OpenGL here"), ([], "")]
)
def test_an_environment_that_cannot_draw_is_shown_without_pictures(maze, record, tmp_path, monkeypatch, modes, why):
    name = f"undrawn_{len(modes)}"
    (tmp_path / f"{name}.py").write_text(UNDRAWN.format(modes=modes, name=f"{name}/Env-v0"))
    monkeypatch.syspath_prepend(tmp_path)
    folder = record(f'name = "plain"\n[env]\nuse = "gym"\nid = "{name}:{name}/Env-v0"\n[trainer]\nuse = "ppo"\n')
    done = maze("view", folder)
    assert done.exit_code == 0, done.output
    for episode in data_of(folder / "view.html"):
        assert episode["note"].startswith(f"no pictures: {why}")
        assert episode["frames"] == []
        assert [step["reward"] for step in episode["steps"]] == [1.0, 1.0, 1.0, None]
        assert [name for name, _ in episode["steps"][0]["observation"]] == ["observation"]
        assert [name for name, _ in episode["steps"][0]["action"]] == ["action"]


def test_nothing_is_fetched_and_nothing_recorded_becomes_markup(maze, record):
    text = '[env]\nuse = "gym"\nid = "CartPole-v1"\n[trainer]\nuse = "ppo"\n'
    folder = record(f'name = "x"\n{text}', episodes=1)
    manifest = folder / "trajectories.json"
    about = json.loads(manifest.read_text())
    about["experiment"]["name"] = "</title><script>alert(1)</script>"
    about["policy"] = "<img src=x>"
    manifest.write_text(json.dumps(about))
    maze("view", folder)
    page = (folder / "view.html").read_text()
    assert "<script>alert(1)" not in page
    assert not re.findall(r'(?:src|href)="(?!data:)[^"]', page.split("<script")[0])
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page)


def test_episodes_are_chosen_by_seed(maze, cartpole):
    folder = cartpole(episodes=3)
    maze("view", folder)
    seeds = [episode["seed"] for episode in data_of(folder / "view.html")]
    maze("view", folder, "--seed", seeds[2], "--seed", seeds[0])
    assert [episode["seed"] for episode in data_of(folder / "view.html")] == [seeds[0], seeds[2]]
    refused = maze("view", folder, "--seed", 1)
    assert refused.exit_code == 2
    assert str(seeds[1]) in refused.stderr


def test_long_episodes_are_drawn_in_part(maze, cartpole):
    folder = cartpole(episodes=1)
    maze("view", folder, "--max-decisions", 4)
    (episode,) = data_of(folder / "view.html")
    assert episode["note"] == "pictures of the first 4 decisions only"
    assert [step["frame"] is None for step in episode["steps"]] == [False] * 5 + [True] * (len(episode["steps"]) - 5)


SMALL = (
    'name = "small"\n[env]\nuse = "gym"\nid = "CartPole-v1"\nmax_episode_steps = 8\n[vector]\nn_envs = 2\n'
    '[trainer]\nuse = "ppo"\nn_epochs = 1\nepoch_length = 1\nn_rollout_steps = 16\nbatch_size = 16\n'
    "[evaluation]\nn_episodes = 1\n"
)


def test_a_run_without_recordings_plays_some_first(maze, tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    maze("train", "small.toml", "--out", "run")
    done = maze("view", "run", "--episodes", 2)
    assert done.exit_code == 0, done.output
    assert "has no recorded episodes: playing 2" in done.stderr
    page = Path(done.stdout.strip().removeprefix("open in a browser: "))
    assert page.parent.parent == Path("run/trajectories")
    assert len(data_of(page)) == 2
    assert "playing" not in maze("view", "run").stderr


def test_a_run_that_takes_no_recordings_plays_none_and_says_where_they_can_go(maze, read_only, tmp_path, monkeypatch):
    (tmp_path / "small.toml").write_text(SMALL)
    assert maze("train", "small.toml", "--out", "run").exit_code == 0
    read_only(Path("run"))
    monkeypatch.setattr("maze_runtime.playing.roll_out.play_episodes", None)
    done = maze("view", "run")
    assert done.exit_code == 2
    first, received, *_, last = done.stderr.replace(f"{tmp_path}/", "").splitlines()
    assert first == "error: run has no recorded episodes, and new ones cannot be written to run/trajectories"
    assert received.startswith("  = received: run is dr-xr-xr-x")
    assert last.endswith("maze rollout run --record-to DIR, then maze view DIR")


def test_a_run_none_of_whose_episodes_is_recorded_says_why(maze, tmp_path, monkeypatch):
    def write(*_arguments):
        raise TrajectoryError("the disk refused")

    (tmp_path / "small.toml").write_text(SMALL)
    assert maze("train", "small.toml", "--out", "run").exit_code == 0
    monkeypatch.setattr("maze_trajectories.writer.TrajectoryWriter.write", write)
    done = maze("view", "run")
    assert done.exit_code == 1
    assert "error: none of 3 episodes could be played and recorded: " in done.stderr
    assert "the disk refused" in done.stderr


def test_a_page_goes_where_it_can_be_written(maze, cartpole, read_only):
    folder = cartpole(episodes=1)
    read_only(folder)
    done = maze("view", folder)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: the page cannot be written to ")
    assert done.stderr.rstrip().endswith("--out FILE")
    assert maze("view", folder, "--out", "page.html").exit_code == 0


def test_a_notebook_shows_a_run_without_recordings_too(maze, tmp_path, capsys):
    (tmp_path / "small.toml").write_text(SMALL)
    maze("train", "small.toml", "--out", "run")
    TrajectoryViewer("run", max_decisions=2).save("page.html")
    assert "has no recorded episodes: playing 3" in capsys.readouterr().err
    assert len(data_of("page.html")) == 3
    TrajectoryViewer("run", max_decisions=2, experiment="small.toml")
    assert "playing" not in capsys.readouterr().err


def test_what_cannot_be_drawn_is_shown_without_pictures(maze, cutting, cartpole):
    folder = cutting(episodes=1)
    manifest = folder / "trajectories.json"
    about = json.loads(manifest.read_text())
    about["experiment"]["env"]["use"] = "os:system"
    manifest.write_text(json.dumps(about))
    assert maze("view", folder).exit_code == 0
    (episode,) = data_of(folder / "view.html")
    assert "give it: --experiment FILE" in episode["note"]
    assert episode["frames"] == []
    assert maze("view", folder, "--experiment", "experiment.toml").exit_code == 0
    assert data_of(folder / "view.html")[0]["frames"]


def test_an_environment_that_changed_is_noticed(maze, cartpole, tmp_path):
    folder = cartpole(episodes=1)
    changed = tmp_path / "changed.toml"
    changed.write_text((tmp_path / "experiment.toml").read_text().replace("= 12", "= 3"))
    maze("view", folder, "--experiment", changed)
    (episode,) = data_of(folder / "view.html")
    assert "pictures only up to decision 3" in episode["note"]


def test_arguments_of_the_renderer(maze, cutting):
    folder = cutting(episodes=1)
    sizes = []
    for dpi in (50, 100):
        assert maze("view", folder, "--draw", f"dpi={dpi}").exit_code == 0
        sizes.append((folder / "view.html").stat().st_size)
    assert sizes[0] < sizes[1]
    refused = maze("view", folder, "--draw", "dpi=7000")
    assert refused.exit_code == 2
    assert "a whole number from 50 to 300" in refused.stderr
    assert "no argument 'color'" in maze("view", folder, "--draw", "color=red").stderr


def test_choices_of_a_renderer():
    class Drawing(Renderer):
        def render(self, maze_state, maze_action, events, **arguments): ...

        def arguments(self):
            return {"style": ChoiceArgument(options=("plain", "bold")), "size": IntRange(low=-2, high=5, default=1)}

    assert renderer_arguments(Drawing(), {"style": "bold", "size": "-1"}) == {"style": "bold", "size": -1}
    with pytest.raises(RequestError, match="cannot be 'thin'"):
        renderer_arguments(Drawing(), {"style": "thin"})


@pytest.mark.parametrize("shape", [(4, 6, 3), (5, 3)])
def test_pictures_survive_as_png(shape):
    import io

    from PIL import Image

    picture = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(encode_png(picture)))), picture)


def test_what_is_no_picture_is_refused():
    with pytest.raises(EnvError, match="rendered no picture"):
        encode_png(np.zeros((4, 4, 3)))


def test_a_notebook_shows_the_same_page(maze, cutting):
    import html

    folder = cutting(episodes=1)
    maze("view", folder)
    viewer = TrajectoryViewer(folder)
    shown = viewer._repr_html_()
    assert shown.startswith('<iframe srcdoc="')
    inside = html.unescape(re.search(r'srcdoc="([^"]*)"', shown)[1])
    assert inside == (folder / "view.html").read_text(encoding="utf-8")
    assert viewer.save("saved.html").read_text(encoding="utf-8") == inside
