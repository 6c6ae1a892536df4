"""Fine-tuning across algorithms: what `initialize_from` takes over, what it leaves, and what it says."""

import sys

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_kernel.config import experiment_from_mapping
from maze_kernel.errors import RequestError
from maze_kernel.loader import Kernel
from maze_runtime.playing.roll_out import RolloutOptions, roll_out
from maze_runtime.training.checkpoint_store import CheckpointStore
from maze_runtime.training.train import train

SHORT = {
    "ppo": {"use": "ppo", "n_epochs": 1, "epoch_length": 1, "n_rollout_steps": 16},
    "es": {"use": "es", "n_epochs": 1, "n_rollouts_per_update": 2, "max_steps": 20, "noise": {"use": "seeded"}},
    "sac": {"use": "sac", "n_epochs": 1, "epoch_length": 1, "batch_size": 8, "initial_buffer_size": 8},
    "impala": {"use": "impala", "n_epochs": 1, "epoch_length": 1, "num_actors": 2, "actors_batch_size": 2}
    | {"n_rollout_steps": 16, "deterministic": True},
    "bc": {"use": "bc", "n_epochs": 1, "device": "cpu", "demonstrations": {"path": "played"}},
}
NORMALIZATION = {"use": "observation-normalization", "n_estimation_steps": 50}
CARTPOLE = {"use": "gym", "id": "CartPole-v1"}
PENDULUM = {"use": "gym", "id": "Pendulum-v1"}


@pytest.fixture(scope="module")
def kernel():
    return Kernel.installed()


@pytest.fixture(scope="module")
def played(kernel, tmp_path_factory):
    """A folder with two recorded episodes of the random policy."""
    data = {"name": "played", "env": CARTPOLE, "trainer": SHORT["ppo"]}
    folder = tmp_path_factory.mktemp("recording") / "played"
    options = RolloutOptions(n_episodes=2, n_workers=1, record_dir=folder)
    roll_out(experiment_from_mapping(data, kernel=kernel), kernel, options, policy="random")
    return folder


@pytest.fixture(scope="module")
def train_a_moment(kernel, played):
    """`train_a_moment(run_dir, trainer, **tables)`; "frozen" is PPO that trains nothing but its critic."""

    def go(run_dir, trainer, **tables):
        options = {**SHORT["ppo"], "critic_burn_in_epochs": 1} if trainer == "frozen" else SHORT[trainer]
        if trainer == "bc":
            options = {**options, "demonstrations": {"path": str(played)}}
        data = {
            "name": run_dir.name,
            "env": CARTPOLE,
            "vector": {"n_envs": 2},
            "trainer": options,
            "evaluation": {"n_episodes": 0},
            "model": {"use": "auto", "hidden_units": [8], "non_lin": "tanh"},
            "loggers": [{"use": "csv"}],
            "wrappers": [],
            **{key: str(value) if key == "initialize_from" else value for key, value in tables.items()},
        }
        data = {key: value for key, value in data.items() if value is not None}
        return train(experiment_from_mapping(data, kernel=kernel), kernel, run_dir=run_dir, verbosity=-1)

    return go


@pytest.fixture
def run(train_a_moment, tmp_path):
    """`run(name, trainer, **tables)` -> the result."""
    return lambda name, trainer, **tables: train_a_moment(tmp_path / name, trainer, **tables)


@pytest.fixture(scope="module")
def normalised_run(train_a_moment, tmp_path_factory):
    """`normalised_run(trainer)` -> the directory of a run with a normaliser, trained once."""
    runs = {}

    def of(trainer):
        if trainer not in runs:
            folder = tmp_path_factory.mktemp("source") / trainer
            runs[trainer] = train_a_moment(folder, trainer, wrappers=[NORMALIZATION]).run_dir
        return runs[trainer]

    return of


def policy_of(result):
    return {name: tensor.clone() for name, tensor in result.model.policy_state_dict().items()}


def log_of(result):
    return (result.run_dir / "log.txt").read_text()


TRAINERS = ["ppo", "es", "sac", "impala", "bc"]


@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_policy_of_any_trainer_is_taken_over(run, trainer):
    first = run("first", trainer)
    saved = CheckpointStore(first.run_dir).load_named("best").model
    second = run("second", "frozen", initialize_from=first.run_dir, seed=5)
    for name, tensor in policy_of(second).items():
        assert torch.equal(tensor, saved[name]), name
    log = log_of(second)
    assert f"initialised from epoch 1 of {first.run_dir} ({trainer})" in log
    assert "policy: all 4 tensors taken over" in log
    critic = {
        "ppo": "critic: all 4 tensors",
        "es": "critic: new, because es trains none",
        "sac": "critic: new, nothing",
        "impala": "critic: all 4 tensors",
        "bc": "critic: new, because bc trains none",
    }
    assert critic[trainer] in log


@pytest.mark.slow
@pytest.mark.parametrize("target", TRAINERS)
@pytest.mark.parametrize("source", TRAINERS)
def test_any_trainer_goes_on_from_any_other_with_its_normaliser(run, normalised_run, source, target):
    first = normalised_run(source)
    second = run("second", target, wrappers=[NORMALIZATION], initialize_from=first, seed=5)
    log = log_of(second)
    assert f"initialised from epoch 1 of {first} ({source})" in log
    assert "policy: all 4 tensors taken over" in log
    assert "wrapper observation-normalization: statistics taken over" in log
    theirs, ours = (CheckpointStore(folder).load_named("last").transforms for folder in (first, second.run_dir))
    for part, expected in theirs[0]["estimated"]["observation"].items():
        np.testing.assert_array_equal(ours[0]["estimated"]["observation"][part], expected)
    assert theirs[0]["estimated"]["observation"]


def test_the_critic_of_a_run_that_trained_one_comes_along(run):
    first = run("first", "ppo")
    second = run("second", "es", initialize_from=first.run_dir, seed=5)
    theirs = CheckpointStore(first.run_dir).load_named("best").model
    own = second.model.state_dict()
    critic = [name for name in own if name.startswith("critics.")]
    assert critic
    assert all(torch.equal(own[name], theirs[name]) for name in critic)


def test_normalisers_go_to_the_wrapper_of_the_same_name(run):
    first = run("first", "ppo", wrappers=[{"use": "reward-scaling", "scale": 2.0}, NORMALIZATION])
    wrappers = [NORMALIZATION, {"use": "return-normalization"}]
    second = run("second", "ppo", wrappers=wrappers, initialize_from=first.run_dir, seed=5)
    (theirs,) = (s["estimated"] for s in CheckpointStore(first.run_dir).load_named("last").transforms if s)
    ours = CheckpointStore(second.run_dir).load_named("last").transforms[0]["estimated"]
    np.testing.assert_array_equal(ours["observation"]["mean"], theirs["observation"]["mean"])
    assert "wrapper observation-normalization: statistics taken over" in log_of(second)
    assert "estimating" not in log_of(second)


def test_a_normaliser_without_a_place_is_named(run):
    first = run("first", "ppo", wrappers=[NORMALIZATION])
    second = run("second", "ppo", initialize_from=first.run_dir, wrappers=[])
    assert "wrapper observation-normalization: not in this experiment" in log_of(second)


class Place(gymnasium.Env):
    """Ten steps of noise: `view` (n,), `near` (2,) and, if wanted, `smell` (1,)."""

    action_space = spaces.Discrete(2)

    def __init__(self, n=1, smells=False):
        shapes = {"view": (n,), "near": (2,), **({"smell": (1,)} if smells else {})}
        self.observation_space = spaces.Dict({name: spaces.Box(-9.0, 9.0, shape) for name, shape in shapes.items()})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.n_steps = 0
        return self.look(), {}

    def step(self, action):
        self.n_steps += 1
        return self.look(), 1.0, self.n_steps == 10, False, {}

    def look(self):
        return {
            name: self.np_random.random(box.shape, np.float32) for name, box in self.observation_space.spaces.items()
        }


@pytest.fixture
def run_in_place(run, monkeypatch):
    """`run_in_place(name, kwargs, **tables)` -> the result of PPO in a `Place` of these arguments."""
    monkeypatch.setitem(sys.modules, "places", sys.modules[__name__])
    return lambda name, kwargs, **tables: run(
        name, "ppo", env={"use": "gym", "id": "places:Place", "kwargs": kwargs}, wrappers=[NORMALIZATION], **tables
    )


def statistics_of(result):
    return CheckpointStore(result.run_dir).load_named("last").transforms[0]["estimated"]


def test_statistics_of_another_shape_are_not_taken_over(run_in_place):
    first = run_in_place("first", {})
    second = run_in_place("second", {"n": 3}, initialize_from=first.run_dir)
    assert "its statistics do not fit: the saved statistics of 'view' do not fit its shape" in log_of(second)
    assert statistics_of(second)["view"]["mean"].shape == (3,)


def test_statistics_of_new_observations_are_estimated_and_the_others_kept(run_in_place):
    first = run_in_place("first", {})
    second = run_in_place("second", {"smells": True}, initialize_from=first.run_dir)
    assert "statistics of near, view taken over; those of smell begin anew" in log_of(second)
    theirs, ours = statistics_of(first), statistics_of(second)
    assert ours["smell"]["count"] == theirs["view"]["count"] == 50
    for name in theirs:
        np.testing.assert_equal(ours[name], theirs[name])


def test_default_scaling_goes_on_and_is_refused_where_the_weights_never_saw_it(run):
    scaled = run("scaled", "ppo", wrappers=None)
    second = run("second", "ppo", wrappers=None, initialize_from=scaled.run_dir)
    assert "wrapper observation-normalization: statistics taken over" in log_of(second)
    plain = run("plain", "ppo")
    with pytest.raises(RequestError, match="learnt from observations as they are") as caught:
        run("third", "ppo", wrappers=None, initialize_from=plain.run_dir)
    assert "wrappers = []" in caught.value.help
    named = [{"use": "observation-normalization", "statistics": "running"}]
    for wanted in (
        {"wrappers": named},
        {"wrappers": None, "preset": "scaled"},
        {"wrappers": None, "preset": ["scaled"]},
    ):
        other = run(f"other-{len(str(wanted))}", "ppo", **wanted, initialize_from=plain.run_dir)
        assert "policy: all 4 tensors" in log_of(other)
        assert "switches it off" not in log_of(other)
    assert "switches it off" in log_of(scaled)


def test_what_does_not_fit_is_named(run):
    first = run("first", "ppo")
    second = run("second", "ppo", initialize_from=first.run_dir, model={"use": "auto", "hidden_units": [8, 8]})
    assert "of 6 tensors taken over; left as they were: policies.key_0" in log_of(second)


def test_a_model_that_does_not_fit_at_all_is_refused_with_both_shapes(run):
    first = run("first", "ppo")
    with pytest.raises(RequestError) as caught:
        run("second", "ppo", initialize_from=first.run_dir, model={"use": "auto", "hidden_units": [6, 5]})
    assert "instead of" in caught.value.received
    assert "[model]" in caught.value.help


def test_tensors_that_do_fit_are_not_listed_as_what_does_not(run):
    first = run("first", "ppo")
    with pytest.raises(RequestError, match="no weight of the policy") as caught:
        run("second", "ppo", env=PENDULUM, initialize_from=first.run_dir)
    wrong = [shapes.split(" instead of ") for shapes in caught.value.received.split(", policies.")]
    assert len(wrong) == 3
    assert all(not theirs.endswith(own) for theirs, own in wrong)


@pytest.mark.parametrize(("source", "target", "theirs"), [("sac", "ppo", "relu"), ("ppo", "sac", "tanh")])
def test_weights_of_other_activations_are_refused_with_the_line_to_write(run, source, target, theirs):
    chosen = {"use": "auto", "hidden_units": [8]}  # by what the trainer values
    first = run("first", source, model=chosen)
    with pytest.raises(RequestError, match="other activations") as caught:
        run("second", target, initialize_from=first.run_dir, model=chosen)
    assert f"{theirs} instead of" in caught.value.received
    assert caught.value.help.startswith(f'write non_lin = "{theirs}" into [model]')
    third = run("third", target, initialize_from=first.run_dir, model={**chosen, "non_lin": theirs})
    assert "policy: all 4 tensors taken over" in log_of(third)


def test_weights_of_a_version_that_did_not_say_its_activations_are_taken(run, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr("maze_runtime.training.loop.activations_of", lambda model: {})
        first = run("first", "sac", model={"use": "auto", "hidden_units": [8]})
    assert "policy: all 4 tensors taken over" in log_of(run("second", "ppo", initialize_from=first.run_dir))


def of_pendulum(use, **options):
    """The tables of an experiment whose head has this distribution, anew for each observation."""
    table = {"space": "Box", "use": use, **options}
    model = {"use": "auto", "hidden_units": [8], "non_lin": "tanh", "distributions": [table]}
    return {"env": PENDULUM, "model": model}


def log_of_head(result):
    return [line for line in log_of(result).splitlines() if "policy: head" in line]


def test_weights_of_another_distribution_are_refused_with_the_line_to_write(run):
    first = run("first", "sac", env=PENDULUM)
    with pytest.raises(RequestError, match="another distribution") as caught:
        run("second", "ppo", initialize_from=first.run_dir, **of_pendulum("beta"))
    assert caught.value.received == "head 'action': squashed-gaussian instead of beta"
    table = '{ action = "action", use = "squashed-gaussian" }'
    assert caught.value.help.startswith(f"write distributions = [{table}] into [model]")
    tables = of_pendulum("squashed-gaussian", std_from="observation")
    third = run("third", "ppo", initialize_from=first.run_dir, **tables)
    assert "policy: all 4 tensors taken over" in log_of(third)
    assert log_of_head(third) == []


def test_the_same_distribution_by_another_name_is_taken(run):
    first = run("first", "ppo", **of_pendulum("beta"))
    second = run("second", "ppo", initialize_from=first.run_dir, **of_pendulum("maze_distributions.beta:Beta"))
    assert "policy: all 4 tensors taken over" in log_of(second)
    assert log_of_head(second) == []


def test_options_by_which_the_same_weights_mean_something_else_are_told(run):
    narrow = of_pendulum("squashed-gaussian", initial_log_std=-2.0, max_log_std=1.0)
    first = run("first", "ppo", **narrow)
    (line,) = log_of_head(run("second", "ppo", initialize_from=first.run_dir, **of_pendulum("squashed-gaussian")))
    assert line.endswith(
        "policy: head 'action' reads the same weights with initial_log_std = 0.0, max_log_std = 2.0;"
        " they learnt with initial_log_std = -2.0, max_log_std = 1.0"
    )
    assert log_of_head(run("third", "ppo", initialize_from=first.run_dir, **narrow)) == []


def test_a_head_that_does_not_fit_begins_anew_whatever_its_distribution(run):
    first = run("first", "sac", env=PENDULUM)
    second = run("second", "ppo", initialize_from=first.run_dir, **of_pendulum("squashed-gaussian"))
    assert "policy: 2 of 5 tensors taken over" in log_of(second)
    assert log_of_head(second) == []


class Steered(gymnasium.Env):
    """Noise, and an action of this space."""

    observation_space = spaces.Box(-1.0, 1.0, (4,))

    def __init__(self, n_numbers=0):
        self.action_space = spaces.Box(-1.0, 1.0, (n_numbers,)) if n_numbers else spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.random(4, np.float32), {}

    def step(self, action):
        return self.np_random.random(4, np.float32), 1.0, False, True, {}


@pytest.mark.parametrize(
    ("source", "n_before", "target", "n_after", "told"),
    [
        ("ppo", 0, "sac", 1, "it gave 2 numbers of categorical on a Discrete there and gives 2 of squashed-gaussian"),
        ("sac", 1, "ppo", 2, "it gave 2 numbers of squashed-gaussian on a BoundedBox there and gives 4 of squashed"),
    ],
)
def test_a_head_of_another_action_that_fits_by_chance_begins_anew(
    run, monkeypatch, source, n_before, target, n_after, told
):
    monkeypatch.setitem(sys.modules, "steered", sys.modules[__name__])

    def env(n_numbers):
        return {"use": "gym", "id": "steered:Steered", "kwargs": {"n_numbers": n_numbers}}

    first = run("first", source, env=env(n_before))
    second = run("second", target, env=env(n_after), initialize_from=first.run_dir, seed=5)
    (line,) = log_of_head(second)
    assert f"policy: head 'action' begins anew: {told}" in line
    assert "policy: 2 of" in log_of(second)
    saved = CheckpointStore(first.run_dir).load_named("best").model
    head = "policies.key_0.blocks.action_logits_block.linear.weight"
    assert policy_of(second)[head].shape == saved[head].shape
    assert not torch.allclose(policy_of(second)[head], saved[head], atol=1e-2)


class Steering(torch.nn.Module):
    """A policy network of somebody's own, which does not say which layer is a head's."""

    def __init__(self, obs_shapes, action_logits_shapes):
        super().__init__()
        (((self.source, (n_in,)),), ((self.head, (n_out,)),)) = obs_shapes.items(), action_logits_shapes.items()
        self.layers = torch.nn.Sequential(torch.nn.Linear(n_in, 8), torch.nn.Tanh(), torch.nn.Linear(8, n_out))

    def forward(self, inputs):
        return {self.head: self.layers(inputs[self.source])}


def test_networks_of_ones_own_are_compared_by_what_their_heads_give(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "steered", sys.modules[__name__])

    def tables(use, n_numbers=1):
        model = {"use": "custom", "policy": {"use": "steered:Steering"}}
        model |= {"distributions": [{"space": "Box", "use": use}]}
        return {"env": {"use": "gym", "id": "steered:Steered", "kwargs": {"n_numbers": n_numbers}}, "model": model}

    first = run("first", "ppo", **tables("beta"))
    with pytest.raises(RequestError, match="another distribution"):
        run("second", "ppo", initialize_from=first.run_dir, **tables("squashed-gaussian"))
    assert "policy: all 4 tensors" in log_of(run("third", "ppo", initialize_from=first.run_dir, **tables("beta")))
    fourth = run("fourth", "ppo", initialize_from=first.run_dir, **tables("beta", n_numbers=0))
    (line,) = log_of_head(fourth)
    assert "head 'action' is taken over where its shapes fit: it gave 2 numbers of beta on a BoundedBox there" in line


def test_weights_of_a_version_that_did_not_say_its_distributions_are_taken(run, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr("maze_runtime.training.loop.head_distributions", lambda model: {})
        first = run("first", "sac", env=PENDULUM)
    second = run("second", "ppo", initialize_from=first.run_dir, **of_pendulum("beta"))
    assert "policy: all 4 tensors taken over" in log_of(second)


def test_a_run_without_a_policy_in_common_is_refused_with_the_names_of_both(run):
    first = run("first", "ppo", env={"use": "maze_testing.structured_environments:Pair"})
    with pytest.raises(RequestError, match="no weight of the policy") as caught:
        run("second", "ppo", initialize_from=first.run_dir)
    assert "key_agent" in caught.value.received
    assert "key_0" in caught.value.expected


def test_a_folder_that_is_no_run_is_refused_before_anything_is_created(run, tmp_path):
    with pytest.raises(RequestError, match="nowhere") as caught:
        run("second", "ppo", initialize_from=tmp_path / "nowhere")
    assert "initialize_from" in caught.value.what
    assert not (tmp_path / "second").exists()


STILL = {"n_epochs": 1, "epoch_length": 1, "batch_size": 8, "initial_buffer_size": 8, "lr": 1e-12}


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("use", ["sac", "td3", "dqn"])
def test_target_networks_begin_with_the_weights_that_were_taken_over(kernel, tmp_path, use, compiled):
    trainer = {"use": use, **STILL, "compile": compiled}

    def go(run_dir, **tables):
        env = CARTPOLE if use == "dqn" else {"use": "gym", "id": "Pendulum-v1"}
        data = {"name": "run", "env": env, "trainer": trainer, "model": {"use": "auto", "hidden_units": [8]}} | tables
        data |= {"evaluation": {"n_episodes": 0}, "loggers": [{"use": "csv"}]}
        return train(experiment_from_mapping(data, kernel=kernel), kernel, run_dir=tmp_path / run_dir, verbosity=-1)

    second = go("second", seed=5, initialize_from=str(go("first", seed=1).run_dir))
    target = CheckpointStore(second.run_dir).load_named("last").trainer["update"]["target"]
    own = second.model.state_dict()
    if use == "sac":
        own = {"all": torch.cat([own[key].flatten() for key in own if key.startswith("critics.")])}
        target = {"all": torch.cat([tensor.flatten() for tensor in target.values()])}
    for key, tensor in target.items():
        torch.testing.assert_close(tensor, own[key], rtol=0, atol=1e-6, msg=key)
