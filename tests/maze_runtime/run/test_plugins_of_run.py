"""A run keeps its meaning when another plugin comes that offers the same names and defaults."""

import textwrap

import attrs
import pytest

from maze_deployment.agent import AgentDeployment
from maze_kernel.loader import Kernel
from maze_runtime.run.naming import name_of_default

EXPERIMENT = """
name = "small"
[env]
use = "gym"
id = "CartPole-v1"
[trainer]
use = "ppo"
n_epochs = 1
epoch_length = 1
n_rollout_steps = 16
"""
NEWCOMER = """
    import maze_kernel.components as c
    from maze_kernel import hookimpl

    MAZE_PLUGIN_API = 1
    TABLE = {}

    @hookimpl
    def maze_trainers():
        yield c.TrainerComponent(name="ppo", target="newcomer:Trainer", default=True)

    @hookimpl
    def maze_presets():
        yield c.PresetComponent(name="scaled", target="newcomer:TABLE")

    @hookimpl
    def maze_models():
        yield c.ModelComponent(name="auto", target="newcomer:Model", default=True)

    @hookimpl
    def maze_distributions():
        yield c.DistributionComponent(name="other", target="newcomer:Logits", default_for=("Discrete",))

    @hookimpl
    def maze_vectors():
        yield c.VectorComponent(name="sequential", target="newcomer:Vector")
"""
MINE = """
import maze_kernel.components as c
from maze_kernel import hookimpl

MAZE_PLUGIN_API = 1

@hookimpl
def maze_trainers():
    target, options = "maze_ppo.ppo:make_ppo", "maze_ppo.options:PPOOptions"
    yield c.TrainerComponent(name="mine", target=target, options=options, collects_rollouts=True)
"""


@pytest.fixture
def run(maze, tmp_path, monkeypatch):
    """A trained run, and then the newcomer."""
    file = tmp_path / "small.toml"
    file.write_text(EXPERIMENT)
    done = maze("train", file, "--out", "run")
    assert done.exit_code == 0, done.stderr
    site = tmp_path / "site"
    info = site / "newcomer-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "newcomer.py").write_text(textwrap.dedent(NEWCOMER))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: newcomer\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[maze.plugins]\nnewcomer = newcomer\n")
    monkeypatch.syspath_prepend(str(site))
    return tmp_path / "run"


def test_a_run_is_played_resumed_and_deployed_as_before(maze, run):
    assert maze("check", "small.toml").exit_code == 2  # the file itself says no longer whose
    done = maze("rollout", run, "--episodes", 1)
    assert done.exit_code == 0, done.stderr
    done = maze("train", "--resume", run, "--set", "trainer.n_epochs=2")
    assert done.exit_code == 0, done.stderr
    AgentDeployment.load(run)


def test_a_name_may_be_spelt_with_its_plugin_when_a_run_goes_on(maze, run, tmp_path):
    done = maze("train", "--resume", run, "--set", 'trainer.use="maze-ppo:ppo"', "--set", "trainer.n_epochs=2")
    assert done.exit_code == 0, done.stderr
    for n_epochs, change in enumerate(('[plugins]\ndisable = ["newcomer"]\n', "[evaluation]\n"), start=3):
        (tmp_path / "small.toml").write_text(EXPERIMENT.replace("n_epochs = 1", f"n_epochs = {n_epochs}") + change)
        done = maze("train", "small.toml", "--resume", run)
        assert (done.exit_code == 0) == ("disable" in change), done.stderr
    assert "or name the plugins that are not meant in `[plugins] disable`" in done.stderr


def test_the_newcomer_is_reached_by_a_name_of_its_own(maze, run):
    done = maze("train", "--resume", run, "--set", 'trainer.use="newcomer:ppo"')
    assert done.exit_code == 2
    assert "owner: newcomer 1.0 (trainer 'ppo')" in done.stderr


def test_a_run_with_plugin_files_says_in_one_message_how_its_file_is_named(maze, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "small.toml").write_text(EXPERIMENT.replace('"ppo"', '"mine"') + '[plugins]\nload = ["mine.py"]\n')
    done = maze("train", "small.toml", "--out", "run")
    assert done.exit_code == 0, done.stderr
    for command in (("train", "--resume", "run"), ("rollout", "run")):
        done = maze(*command)
        assert done.exit_code == 2
        assert "maze train small.toml --resume run, other commands by --experiment small.toml" in done.stderr
        assert "no trainer is called" not in done.stderr
    done = maze("train", "small.toml", "--resume", "run", "--set", "trainer.n_epochs=2")
    assert done.exit_code == 0, done.stderr


def test_defaults_that_nobody_wrote_are_found_where_others_have_their_names(run):
    catalog = Kernel(
        attrs.evolve(plugin, components=tuple(map(without_default, plugin.components)))
        if plugin.name == "newcomer"
        else plugin
        for plugin in Kernel.installed().plugins
    ).catalog
    assert name_of_default(catalog, "trainer") == "maze-ppo:ppo"
    assert name_of_default(catalog, "model") == "maze-perception:auto"
    assert name_of_default(catalog, "env") == "gym"


def without_default(component):
    return attrs.evolve(component, default=False) if hasattr(component, "default") else component
