"""What a Python user gives to a RunContext, reads of it, and is refused."""

import sys
import types
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import tomli
import torch

from maze_kernel import MazeError
from maze_kernel.config import experiment_from_mapping, load_experiment
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import EnvError, ExperimentError, RequestError
from maze_kernel.loader import Kernel
from maze_ppo.options import A2COptions
from maze_runtime.context import RunContext
from maze_runtime.run.assembly import Assembly

FILE = """name = "small"
seed = 3
[env]
use = "gym"
id = "CartPole-v1"
[vector]
n_envs = 2
[trainer]
use = "ppo"
epoch_length = 1
n_rollout_steps = 32
batch_size = 32
[evaluation]
n_episodes = 2
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(FILE)


def make_env():
    return gymnasium.make("CartPole-v1")


class Halved(Transform):
    def reward(self, reward):
        return reward * 0.5


class Falling(gymnasium.Wrapper):
    def step(self, action):
        raise ValueError("it fell")


def rewards(context):
    return [episode.total_reward for episode in context.rollout(n_episodes=3).episodes]


# An experiment


def test_file_tables_and_what_was_read_are_one_experiment():
    sources = ("small.toml", Path("small.toml"), tomli.loads(FILE), load_experiment("small.toml"))
    configs = [RunContext(experiment=source, silent=True).config for source in sources]
    assert all(config == configs[0] for config in configs)
    assert (configs[0]["seed"], configs[0]["trainer"]["n_rollout_steps"]) == (3, 32)


def test_arguments_take_the_place_of_parts_of_a_file():
    overrides = {"vector.n_envs": 3, "trainer": {"epoch_length": 1}}
    changed = RunContext(experiment="small.toml", trainer="a2c", seed=8, overrides=overrides)
    assert changed.config["trainer"]["use"] == "a2c"
    assert (changed.config["seed"], changed.config["vector"]["n_envs"]) == (8, 3)
    assert changed.config["env"]["id"] == "CartPole-v1"
    again = RunContext(experiment=changed.loaded, overrides={"trainer.lr": {"start": 0.1, "end": 0.01}})
    assert again.config["trainer"]["lr"] == {"start": 0.1, "end": 0.01, "shape": "linear"}
    assert again.config["trainer"]["use"] == "a2c"


def test_an_experiment_that_was_read_keeps_its_objects():
    first = RunContext(experiment="small.toml", env=make_env, wrappers=[Halved()], silent=True)
    second = RunContext(experiment=first.loaded, seed=9, silent=True)
    assert second.loaded.experiment.env.instance is make_env
    assert isinstance(second.loaded.experiment.wrappers[0].instance, Halved)


@pytest.mark.parametrize("changes", [{"trainer": "sac"}, {"overrides": {"trainer.use": "sac"}}])
def test_another_trainer_has_its_own_defaults_whatever_was_read_before(changes):
    """Not those of the trainer that was written, which an experiment that was read has filled in."""
    text = 'name = "plain"\n[env]\nuse = "gym"\nid = "CartPole-v1"\n[trainer]\nuse = "ppo"\n'
    Path("plain.toml").write_text(text)
    read = load_experiment("plain.toml", overrides=["seed=3"])
    made = experiment_from_mapping(tomli.loads(text), kernel=read.kernel, overrides=["seed=3"])
    changed = RunContext(experiment="plain.toml", seed=3).loaded
    config = RunContext(experiment={**tomli.loads(text), "seed": 3}, **changes).config
    assert (config["seed"], config["vector"]["n_envs"], config["wrappers"]) == (3, 1, [])
    assert [RunContext(experiment=one, **changes).config for one in (read, made, changed)] == [config] * 3


def test_a_preset_gives_the_trainer_with_changes_too():
    tables = {"preset": "impala-cartpole", "env": {"use": "gym", "id": "CartPole-v1"}}
    assert RunContext(experiment=tables, seed=1).config["trainer"]["use"] == "impala"


@pytest.mark.parametrize(
    ("wrappers", "overrides", "option"),
    [
        ({"wrappers": [{"use": "time-limit", "max_episode_steps": 9}]}, {"wrappers.0.max_episode_steps": 5}, 5),
        (
            {"wrappers": [{"use": "time-limit", "max_episode_steps": 9}]},
            {"wrappers.time-limit": {"max_episode_steps": 5}},
            5,
        ),
        ({}, {"wrappers.0.use": "time-limit", "wrappers.0.max_episode_steps": 5}, 5),
        ({"wrappers": []}, {"wrappers.0": {"use": "time-limit", "max_episode_steps": 5}}, 5),
        ({"preset": "scaled"}, {"wrappers.0.clip_range": [-5.0, 5.0]}, [-5.0, 5.0]),
        ({}, {"preset": "scaled", "wrappers.observation-normalization.clip_range": [-5.0, 5.0]}, [-5.0, 5.0]),
    ],
)
def test_overrides_reach_into_lists_as_on_the_command_line(wrappers, overrides, option):
    tables = {**tomli.loads(FILE), **wrappers}
    read = experiment_from_mapping(tables, kernel=None, overrides=["seed=4"])
    for experiment in (tables, read):
        first = RunContext(experiment=experiment, overrides=overrides).config["wrappers"][0]
        assert option in first.values()


def test_what_python_named_by_its_name_alone_has_options_too():
    parts = {"trainer": "ppo", "workers": "subprocess", "loggers": ("csv",), "vector": {"mode": "subprocess"}}
    named = experiment_from_mapping(
        {**tomli.loads(FILE), **parts, "evaluation": {"wrappers": ["monitoring"]}}, kernel=None
    )
    overrides = {"trainer.lr": 0.5, "workers.count": 2, "evaluation.wrappers.0.use": "time-limit"}
    overrides["evaluation.wrappers.0.max_episode_steps"] = 5
    config = RunContext(experiment=named, overrides=overrides).config
    assert (config["trainer"]["lr"], config["workers"]["count"], config["vector"]["mode"]) == (0.5, 2, "subprocess")


def test_overrides_reach_into_options_and_not_into_objects():
    context = RunContext(
        experiment="small.toml", trainer=A2COptions(), overrides={"trainer": {"lr": 0.5, "gamma": 0.5}}
    )
    assert (context.config["trainer"]["lr"], context.config["trainer"]["gamma"]) == (0.5, 0.5)
    for overrides, wrong in (
        ({"wrappers.0.x": 1}, "wrappers.0 is a value and holds no x"),
        ({"trainer.lr.x": 1}, "x cannot"),
    ):
        with pytest.raises(RequestError, match=wrong):
            RunContext(experiment="small.toml", trainer=A2COptions(), wrappers=[Halved()], overrides=overrides)


def test_keys_of_overrides_are_dotted_paths_of_toml():
    context = RunContext(experiment="small.toml", overrides={'env.kwargs."a.b"': 1})
    assert context.config["env"]["kwargs"] == {"a.b": 1}
    for key in (3, "a..b", ""):
        with pytest.raises(RequestError, match="no dotted path"):
            RunContext(experiment="small.toml", overrides={key: 1})


def test_problems_of_a_file_are_shown_at_their_lines():
    Path("small.toml").write_text(FILE.replace("epoch_length", "epochs_length"))
    with pytest.raises(ExperimentError, match=r"small\.toml:10"):
        RunContext(experiment="small.toml")
    with pytest.raises(ExperimentError) as caught:
        RunContext(experiment="small.toml", seed=-1, overrides={"trainer.lr": "fast"})
    lines = {
        problem.what.split()[0]: (problem.location.file, problem.location.line) for problem in caught.value.problems
    }
    assert lines.pop("trainer.epochs_length") == ("small.toml", 10)
    assert lines.pop("trainer.lr") == lines.pop("seed") == ("<python>", None)
    Path("small.toml").write_text(FILE)
    read = load_experiment("small.toml", overrides=["trainer.target_kl=0.5"])
    with pytest.raises(ExperimentError, match=r"small\.toml:11(.|\n)*--set trainer\.target_kl"):
        RunContext(experiment=read, overrides={"trainer.use": "es"})


def test_plugin_files_of_an_experiment_are_loaded_beside_it_with_changes_too():
    folder = Path("beside")
    folder.mkdir()
    (folder / "my_plugin.py").write_text(
        "from maze_kernel import components as c, hookimpl\n"
        "from maze_kernel.contracts.transform import Transform\n"
        "MAZE_PLUGIN_API = 1\n"
        "class Halved(Transform):\n    pass\n"
        "@hookimpl\ndef maze_wrappers():\n"
        "    yield c.WrapperComponent(name='halved', target='my_plugin:Halved', summary='.')\n"
    )
    (folder / "small.toml").write_text(f'{FILE}[[wrappers]]\nuse = "halved"\n[plugins]\nload = ["my_plugin.py"]\n')
    assert RunContext(experiment=folder / "small.toml", seed=1).config["wrappers"] == [{"use": "halved"}]


def test_options_of_the_default_trainer_may_be_a_table():
    context = RunContext(env="CartPole-v1", overrides={"trainer": {"lr": 0.1}})
    assert (context.config["trainer"]["use"], context.config["trainer"]["lr"]) == ("ppo", 0.1)


def test_what_was_given_is_not_changed():
    tables = tomli.loads(FILE)
    RunContext(experiment=tables, seed=5, overrides={"trainer.lr": 0.1})
    assert tables == tomli.loads(FILE)


def test_the_config_is_a_copy():
    context = RunContext(experiment="small.toml")
    context.config["trainer"]["lr"] = 5.0
    assert context.config["trainer"]["lr"] != 5.0


def test_the_environment_it_builds_gives_what_actions_are_computed_for():
    """It is inside the wrappers that `compute_action` applies itself, and has the others."""
    wrappers = [{"use": "time-limit", "max_episode_steps": 3}, "observation-normalization"]
    context = RunContext(experiment="small.toml", wrappers=wrappers, silent=True)
    context.train(n_epochs=1)
    env = context.env_factory()
    observation, _ = env.reset(seed=1)
    np.testing.assert_array_equal(observation["observation"], make_env().reset(seed=1)[0])
    cut = []
    while not any(cut):
        action = context.compute_action(observation)
        observation, _, _, truncated, _ = env.step({"action": action})
        cut.append(truncated)
    assert cut == [False, False, True]
    env.close()


def test_it_says_what_it_is():
    context = RunContext(experiment="small.toml", silent=True, run_dir="one")
    assert repr(context) == "<RunContext small: ppo on gym CartPole-v1, seed 3, not trained, one>"
    context.train(n_epochs=1)
    assert repr(context) == "<RunContext small: ppo on gym CartPole-v1, seed 3, 1 epochs trained, one>"


# Runs whose parts live in Python


def test_a_run_on_an_environment_from_python_is_opened_and_goes_on():
    context = RunContext(
        experiment="small.toml", env=lambda: make_env(), wrappers=[Halved()], run_dir="one", silent=True
    )
    context.train(n_epochs=1)
    opened = RunContext.load("one", env=make_env, wrappers=[Halved()], silent=True)
    assert rewards(opened) == rewards(context)
    assert opened.train(n_epochs=1).epochs == 2
    with pytest.raises(RequestError, match=r'RunContext\.load\("one", env=…\)'):
        RunContext.load("one")
    with pytest.raises(RequestError, match=r'RunContext\.load\("one", wrappers=…\)'):
        RunContext.load("one", env=make_env)


def test_an_import_path_that_the_caller_gives_is_imported(monkeypatch):
    module = types.ModuleType("my_envs")
    module.make_env = make_env
    monkeypatch.setitem(sys.modules, "my_envs", module)
    context = RunContext(experiment="small.toml", env={"use": "my_envs:make_env"}, run_dir="one", silent=True)
    context.train(n_epochs=1)
    with pytest.raises(RequestError, match="env=…"):
        RunContext.load("one")
    assert rewards(RunContext.load("one", env={"use": "my_envs:make_env"})) == rewards(context)


# Networks from Python


class Linear(torch.nn.Module):
    """A policy that knows its shapes, so its `forward` gets a dict."""

    def __init__(self, *, obs_shapes, action_logits_shapes):
        super().__init__()
        (size,), (n_logits,) = obs_shapes["observation"], action_logits_shapes["action"]
        self.linear = torch.nn.Linear(size, n_logits)

    def forward(self, observation):
        return {"action": self.linear(observation["observation"])}


def value_network():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def trained_weights(model, **arguments):
    context = RunContext(experiment="small.toml", model=model, silent=True, **arguments)
    return context.train(n_epochs=1).model.state_dict(), context


def test_a_module_its_class_or_its_import_path_is_the_policy(monkeypatch):
    monkeypatch.setitem(sys.modules, "my_networks", sys.modules[__name__])
    path = {"use": "custom", "policy": "my_networks:Linear"}
    weights, _ = trained_weights(Linear)
    sizes = {name: tensor.shape for name, tensor in weights.items()}
    assert [tuple(shape) for name, shape in sizes.items() if name.startswith("policies.")] == [(2, 4), (2,)]
    assert sum(1 for name in sizes if name.startswith("critics.")) == 6
    for same in (
        "my_networks:Linear",
        path,
        {**path, "policy": {"use": "my_networks:Linear"}},
        {**path, "policy": Linear},
    ):
        others, _ = trained_weights(same)
        assert all(torch.equal(tensor, others[name]) for name, tensor in weights.items())


def test_a_module_is_copied_with_its_weights_and_never_changed():
    module = torch.nn.Linear(4, 2)
    before = module.weight.detach().clone()
    fresh = Assembly(RunContext(experiment="small.toml", model=module).loaded, Kernel.installed()).make_model()
    assert torch.equal(next(fresh.policies.parameters()), before)
    weights, context = trained_weights(module)
    assert not torch.equal(weights["policies.key_0.blocks.Linear_block.module.weight"], before)
    assert torch.equal(module.weight, before)
    assert context.train(n_epochs=1).epochs == 2


def test_a_critic_alone_stands_beside_the_default_policy():
    tables = {"use": "custom", "critic": value_network, "default": {"hidden_units": [8]}}
    weights, _ = trained_weights(tables)
    policy = [tuple(tensor.shape) for name, tensor in weights.items() if name.startswith("policies.")]
    critic = [tuple(tensor.shape) for name, tensor in weights.items() if name.startswith("critics.")]
    assert policy == [(8, 4), (8,), (2, 8), (2,)]
    assert critic == [(8, 4), (8,), (1, 8), (1,)]


def test_a_run_whose_network_lives_in_python_is_opened_with_it_and_goes_on():
    _, context = trained_weights(Linear, run_dir="one")
    opened = RunContext.load("one", model=Linear, silent=True)
    assert rewards(opened) == rewards(context)
    assert opened.train(n_epochs=1).epochs == 2
    with pytest.raises(RequestError, match=r'RunContext\.load\("one", model=…\)') as caught:
        RunContext.load("one")
    assert "Linear" in caught.value.render()


@pytest.mark.slow
def test_a_network_from_python_plays_in_workers():
    _, context = trained_weights(Linear)
    alone = context.rollout(n_episodes=4, seed=3)
    together = context.rollout(n_episodes=4, seed=3, n_workers=2)
    assert [e.total_reward for e in alone.episodes] == [e.total_reward for e in together.episodes]


@pytest.mark.parametrize("n_epochs", [0, -2, 1.5, "2"])
@pytest.mark.parametrize("more", [{}, {"seeds": [1, 2]}])
def test_a_number_of_epochs_that_is_none_is_refused(n_epochs, more):
    with pytest.raises(RequestError, match=r"n_epochs=[\s\S]*at least 1"):
        RunContext(experiment="small.toml", silent=True).train(n_epochs, **more)


def test_a_number_of_epochs_may_be_an_integer_of_numpy():
    context = RunContext(experiment="small.toml", silent=True)
    assert [context.train(np.int64(1)).epochs for _ in range(2)] == [1, 2]


# Several runs


@pytest.mark.slow
def test_seeds_are_trained_each_in_a_run_of_its_own():
    context = RunContext(experiment="small.toml", run_dir="series", silent=True)
    result = context.train(n_epochs=2, seeds=[4, 5], n_parallel=1)
    assert result.is_complete
    assert [seed.seed for seed in result.seeds] == [4, 5]
    assert not context.is_trained
    alone = RunContext(experiment="small.toml", seed=5, silent=True)
    alone.train(n_epochs=2)
    assert rewards(RunContext.load(result.seeds[1].run_dir, silent=True)) == rewards(alone)


@pytest.mark.parametrize("seeds", [[], [1, 1], [-1], 3, "0-3", [0.5]])
def test_what_is_no_list_of_seeds_is_refused(seeds):
    with pytest.raises(RequestError, match="seeds="):
        RunContext(experiment="small.toml").train(seeds=seeds)


def test_a_sweep_is_asked_of_its_distribution(monkeypatch):
    asked = {}
    module = types.ModuleType("maze_sweeps")
    module.sweep = lambda settings, **options: asked.update(settings=settings, **options)
    monkeypatch.setitem(sys.modules, "maze_sweeps", module)
    context = RunContext(experiment="small.toml", silent=True)
    space = {"trainer.lr": {"low": 1e-4, "high": 1e-2, "log": True}}
    context.sweep(space, n_trials=3, searcher="random", seeds=[0, 1], objective="iqm", n_parallel=2)
    assert asked["settings"] == {
        "name": "small",
        "space": space,
        "n_trials": 3,
        "searcher": {"use": "random"},
        "seeds": [0, 1],
        "objective": "iqm",
    }
    assert asked["experiment"] is context.loaded
    assert (asked["n_parallel"], asked["silent"], asked["out"], asked["resume"]) == (2, True, None, None)


def test_without_that_distribution_its_name_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "maze_sweeps", None)
    with pytest.raises(RequestError, match="pip install maze-sweeps"):
        RunContext(experiment="small.toml").sweep({"trainer.lr": {"values": [0.1]}})


# Mistakes


class Thing:
    def __init__(self, *_args):
        pass


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"model": Thing}, "model= was given the class Thing"),
        ({"model": Thing()}, "model= was given an object of the class Thing"),
        ({"model": {"use": "custom", "policy": 3}}, "model.policy has the wrong type"),
        ({"model": {"use": "custom", "policy": Thing()}}, "policy: a network is no Thing"),
        ({"model": {"use": "custom", "critic": {"use": Thing()}}}, "model.critic.use.*a network is no Thing"),
        ({"trainer": Thing}, "trainer= was given the class Thing"),
        ({"trainer": Thing()}, "trainer= was given an object of the class Thing"),
        ({"wrappers": [Halved]}, "wrappers= was given the class Halved"),
        ({"wrappers": [Thing()]}, "wrappers= was given an object of the class Thing"),
        ({"wrappers": "monitoring"}, "wrappers= is a list"),
        ({"experiment": 3}, "experiment= is a int"),
        ({"experiment": None, "env": None}, "there is no environment to run"),
    ],
)
def test_objects_in_the_wrong_place_are_named_with_their_argument(arguments, named):
    with pytest.raises(MazeError, match=named):
        RunContext(**{"experiment": "small.toml", **arguments})


@pytest.mark.parametrize("policy", [lambda observation: 0, Thing, Thing()])
def test_what_is_no_policy_is_refused_before_anything_is_played(policy):
    with pytest.raises(RequestError, match="policy= was given"):
        RunContext(experiment="small.toml").rollout(1, policy=policy)


def test_failed_episodes_raise_unless_they_are_to_be_recorded():
    context = RunContext(experiment="small.toml", env=lambda: Falling(make_env()), silent=True)
    with pytest.raises(EnvError, match=r"2 of 2 episodes failed: .*it fell") as caught:
        context.rollout(2, policy="random")
    assert "raise ValueError" in str(caught.value)
    result = context.rollout(2, policy="random", on_error="record")
    assert caught.value.seed == result.episodes[0].seed
    assert result.summary["n_failed"] == 2
    with pytest.raises(RequestError, match="on_error="):
        context.rollout(2, policy="random", on_error="ignore")


# Callbacks


def test_callbacks_of_a_context_see_its_run_and_serve_several_seeds_by_name():
    epochs = []
    context = RunContext(experiment="small.toml", silent=True)
    context.train(n_epochs=2, callbacks=[lambda run: epochs.append(run.epoch)])
    assert epochs == [1, 2]
    stop = {"use": "stop-at", "value": 1.0}
    result = context.train(n_epochs=3, seeds=[1, 2], n_parallel=1, callbacks=[stop])
    assert [(seed.status, seed.report.epoch) for seed in result.seeds] == [("stopped early", 1)] * 2
    with pytest.raises(RequestError, match="serves one run"):
        context.train(seeds=[1, 2], callbacks=[lambda run: None])


def test_another_environment_than_the_run_was_trained_on_is_told():
    RunContext(experiment="small.toml", env=make_env, run_dir="one", silent=True).train(n_epochs=1)
    opened = RunContext.load("one", env=lambda: gymnasium.make("Acrobot-v1"), silent=True)
    for use in (lambda: opened.compute_action([0.0] * 6), lambda: opened.rollout(2)):
        with pytest.raises(MazeError, match="does not fit the experiment") as caught:
            use()
        assert "(2, 64) instead of (3, 64)" in caught.value.received
        assert "experiment.toml" in caught.value.help


def test_modules_beside_a_file_are_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/beside_it.py").write_text(
        "import gymnasium\n\ndef make_env():\n    return gymnasium.make('CartPole-v1')\n", encoding="utf-8"
    )
    file = tmp_path / "elsewhere/own.toml"
    file.write_text('name = "own"\n[env]\nuse = "beside_it:make_env"\n[trainer]\nuse = "ppo"\n', encoding="utf-8")
    for changes in ({}, {"seed": 3}):
        rolled = RunContext(experiment=file, silent=True, **changes).rollout(1, max_steps=5, policy="random")
        assert rolled.summary["length"]["max"] == 5
    assert sys.path[-1] == str(file.parent)
    assert sys.path.count(str(file.parent)) == 1


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda context: context.rollout(0), "n_episodes="),
        (lambda context: context.rollout(2.0), "n_episodes="),
        (lambda context: context.rollout(1, seed=-1), "seed="),
        (lambda context: context.rollout(1, max_steps=0), "max_steps="),
        (lambda context: context.rollout(1, n_workers="two"), "n_workers="),
        (lambda context: context.evaluate(0), "n_episodes="),
    ],
)
def test_numbers_that_mean_nothing_are_refused_by_name(call, name):
    context = RunContext(experiment="small.toml", silent=True)
    with pytest.raises(RequestError, match=name):
        call(context)


def test_numbers_may_be_those_of_numpy():
    rate = {"trainer.lr": np.float64(0.5)}
    context = RunContext(experiment="small.toml", seed=np.int64(5), overrides=rate, silent=True)
    assert (context.config["seed"], context.config["trainer"]["lr"]) == (5, 0.5)
    played = context.rollout(np.int64(2), seed=np.int64(1), policy="random", max_steps=np.int32(3))
    assert [episode.length for episode in played.episodes] == [3, 3]


class Swapped(gymnasium.Env):
    """Numbers in the byte order of other machines."""

    observation_space = action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.dtype(np.float32).newbyteorder())

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.observation_space.low, {}

    def step(self, action):
        self.time += 1
        return self.observation_space.high, float(self.action_space.contains(action)), self.time == 5, False, {}


@pytest.mark.parametrize(("trainer", "few"), [("ppo", {}), ("sac", {"trainer.initial_buffer_size": 10})])
def test_numbers_of_another_byte_order_are_trained_on(trainer, few):
    small = {"trainer.n_epochs": 1, "trainer.epoch_length": 1, "evaluation.n_episodes": 1}
    context = RunContext(env=Swapped, trainer=trainer, overrides={**small, **few}, run_dir="swapped", silent=True)
    assert context.train().epochs == 1
    assert context.rollout(1).summary["reward"]["mean"] == 5.0
