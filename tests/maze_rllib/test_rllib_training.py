"""Training by RLlib as a user sees it: what is taken, kept, resumed, deployed and exported."""

import json
from contextlib import closing

import numpy as np
import pytest
import torch
from gymnasium import spaces

pytest.importorskip("ray", reason="Ray is not installed")

from maze_deployment.agent import AgentDeployment
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.training.state_tree import flatten_state, unflatten_state

REPLAY = {"type": "EpisodeReplayBuffer", "capacity": 1000}
SHORT = {"train_batch_size_per_learner": 128, "minibatch_size": 64, "num_epochs": 2}
OFF_POLICY = {
    "num_steps_sampled_before_learning_starts": 32,
    "min_sample_timesteps_per_iteration": 64,
    "replay_buffer_config": REPLAY,
}
ASYNCHRONOUS = {
    "train_batch_size_per_learner": 100,
    "min_time_s_per_iteration": 0,
    "min_sample_timesteps_per_iteration": 200,
}
CONFIGS = {"PPO": {}, "DQN": OFF_POLICY, "SAC": OFF_POLICY, "APPO": ASYNCHRONOUS, "IMPALA": ASYNCHRONOUS}
STRUCTURED = "maze_testing.structured_environments:"


def of(algorithm, **config):
    own = {} if algorithm == "PPO" else {"config": {**CONFIGS[algorithm], **config}}
    return {"algorithm": algorithm, **own}


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def changed(before, after):
    return {name for name, tensor in after.items() if not torch.equal(tensor, before[name])}


def train_until_changed(trainer, wanted):
    """The statistics of the last epoch; algorithms that do not wait for their learner may need several."""
    before, touched = weights(trainer.model), set()
    for _ in range(30):
        statistics = trainer.train_epoch()
        touched = changed(before, weights(trainer.model))
        if touched == wanted:
            break
    assert touched == wanted
    return statistics


def slow_but(*quick):
    """All algorithms; those that are not named are marked slow."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in CONFIGS]


class Forbidding(FlatEnv):
    """A choice that the mask forbids ends the episode and is written down."""

    structured_spaces = flat_spaces(
        spaces.Dict({"observation": spaces.Box(-1.0, 1.0, (4,), np.float32), "action_mask": spaces.MultiBinary(4)}),
        spaces.Dict({"action": spaces.Discrete(4)}),
    )
    taken, forbidden = 0, 0

    def __init__(self):
        self._rng, self._time = np.random.default_rng(0), 0

    def reset(self, *, seed=None, options=None):
        self._time = 0
        return self._next(), {}

    def step(self, action):
        is_allowed = bool(self._mask[action["action"]])
        Forbidding.taken += 1
        Forbidding.forbidden += not is_allowed
        self._time += 1
        return self._next(), float(is_allowed), not is_allowed or self._time == 8, False, {}

    def _next(self):
        self._mask = self._rng.integers(2, size=4).astype(np.int8)
        self._mask[self._rng.integers(4)] = 1
        return {"observation": self._rng.uniform(-1, 1, 4).astype(np.float32), "action_mask": self._mask.copy()}


@pytest.mark.parametrize("algorithm", CONFIGS)
def test_every_algorithm_trains_the_model(make_trainer, algorithm):
    trainer = make_trainer(trainer=of(algorithm))
    names = set(trainer.model.state_dict())
    trainer.train_epoch()
    without_critics = {name for name in names if not name.startswith("critics.")}
    statistics = train_until_changed(trainer, without_critics if algorithm == "DQN" else names)
    assert trainer.env_steps >= 128
    assert statistics["BaseEnvEvents/episode_length/mean"] == statistics["BaseEnvEvents/reward/mean"]
    assert statistics["BaseEnvEvents/reward/min"] >= 8  # whole episodes, not the pieces that RLlib cuts them into
    assert any(name.startswith("RLlibEvents/") for name in statistics)


def test_sac_trains_bounded_numbers(make_trainer):
    env = {"use": "maze_testing.environments:Identity", "kind": "box"}
    trainer = make_trainer(trainer=of("SAC"), env=env)
    train_until_changed(trainer, set(trainer.model.state_dict()))


@pytest.mark.parametrize("algorithm", slow_but("PPO", "DQN"))
def test_what_a_mask_forbids_is_never_done(make_trainer, algorithm):
    Forbidding.taken = Forbidding.forbidden = 0
    trainer = make_trainer(trainer=of(algorithm), env=Forbidding)
    for _ in range(2):
        trainer.train_epoch()
    assert Forbidding.taken >= 128
    assert Forbidding.forbidden == 0


def test_dicts_of_observations_and_of_actions(make_trainer):
    """`MaskedDict` raises where its mask is not kept to."""
    trainer = make_trainer(env={"use": "maze_testing.environments:MaskedDict"})
    assert trainer.train_epoch()["BaseEnvEvents/episode_length/mean"] == 8


@pytest.mark.parametrize("env", ["DoorAndKey", "Pair", "Hierarchy"])
@pytest.mark.parametrize("algorithm", ["PPO", pytest.param("IMPALA", marks=pytest.mark.slow)])
def test_structured_environments(make_trainer, env, algorithm):
    model = {"use": "auto", "hidden_units": [16], "critic": "step-state"}
    trainer = make_trainer(trainer=of(algorithm), env={"use": STRUCTURED + env}, model=model)
    trainer.train_epoch()
    statistics = train_until_changed(trainer, set(trainer.model.state_dict()))
    assert 0 <= statistics["BaseEnvEvents/reward/mean"] <= 2 * 10
    assert statistics["BaseEnvEvents/episode_count"] > 0


def test_wrappers_stand_around_rllibs_environments(make_trainer):
    wrappers = [{"use": "reward-scaling", "scale": 0.5}, {"use": "observation-stack", "n": 2}]
    statistics = make_trainer(wrappers=wrappers).train_epoch()
    assert statistics["BaseEnvEvents/reward/mean"] == 0.5 * statistics["BaseEnvEvents/episode_length/mean"]


@pytest.mark.parametrize("algorithm", slow_but("PPO", "SAC"))
def test_state_goes_through_a_checkpoint(make_trainer, algorithm):
    """What is kept is numbers, strings and arrays, and a new trainer goes on with it."""
    trainer = make_trainer(trainer=of(algorithm))
    trainer.train_epoch()
    tree, tensors = flatten_state(trainer.state_dict())
    state = unflatten_state(json.loads(json.dumps(tree)), tensors)
    other = make_trainer(trainer=of(algorithm), seed=5)
    fresh = other.state_dict()["rllib"]["adapted"]
    other.model.load_state_dict(trainer.model.state_dict())
    other.load_state_dict(state)
    assert other.env_steps == trainer.env_steps
    again = other.state_dict()["rllib"]
    assert again["adapted"] == state["rllib"]["adapted"]
    assert again["adapted"] != fresh or algorithm not in ("PPO", "SAC")  # the others adapt nothing so soon
    assert flatten_state(again["learner_group"])[0] == flatten_state(state["rllib"]["learner_group"])[0]
    other._running.copy_weights(other.model)
    assert not changed(weights(trainer.model), weights(other.model))
    before = other.env_steps
    other.train_epoch()
    assert other.env_steps > before


def test_a_run_is_resumed_deployed_and_exported(maze, tmp_path):
    experiment = tmp_path / "cart.toml"
    experiment.write_text(
        """
name = "cart"
[env]
use = "gym"
id = "CartPole-v1"
[vector]
n_envs = 2
[model]
use = "auto"
hidden_units = [16]
[evaluation]
n_episodes = 2
[checkpoint]
every_epochs = 1
[trainer]
use = "rllib"
n_epochs = 2
[trainer.config]
train_batch_size_per_learner = 128
minibatch_size = 64
num_epochs = 2
"""
    )
    trained = maze("train", experiment, "--out", "run")
    assert trained.exit_code == 0, trained.output
    assert "ray" not in trained.stderr.lower()
    resumed = maze("train", "--resume", "run", "--set", "trainer.n_epochs=3")
    assert resumed.exit_code == 0, resumed.output
    assert "resumed from epoch 2" in resumed.stderr
    n_steps = [int(run.stdout.split("done after epoch", 1)[1].split()[2]) for run in (trained, resumed)]
    assert n_steps[1] >= n_steps[0] + 128 >= 3 * 128
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if path.suffix in (".pkl", ".pickle", ".pt") or path.read_bytes()[:1] == b"\x80"]
    assert maze("rollout", "run", "--episodes", "2").exit_code == 0
    for name in ("policy.onnx", "policy.pt2"):
        assert maze("export", "run", "--out", name).exit_code == 0
        assert (tmp_path / name).stat().st_size > 0
    with AgentDeployment.load(tmp_path / "run") as agent:
        assert int(agent.act(np.float32([0.01, 0.0, -0.02, 0.03]))) in (0, 1)


def test_the_policy_of_maze_acts_as_that_of_rllib(make_trainer):
    """Greedily, on the same observations: Maze's policy and RLlib's module, for an actor and for action values."""
    from maze_kernel.contracts.vector import Group

    rng = np.random.default_rng(0)
    observation = rng.normal(size=(64, 4)).astype(np.float32)
    group = Group(observation={"observation": observation}, env_index=np.arange(64), agent_id=np.zeros(64, np.int64))
    for algorithm in ("PPO", "DQN"):
        trainer = make_trainer(trainer=of(algorithm))
        trainer.train_epoch()
        ours = trainer.model.make_policy(0).act("0", group, deterministic=True)["action"]
        module = trainer._running._algorithm.get_module()
        out = module.forward_inference({"obs": torch.from_numpy(observation)})
        theirs = out["actions"] if algorithm == "DQN" else out["action_dist_inputs"].argmax(dim=-1)
        assert theirs.tolist() == ours.tolist()


@pytest.mark.parametrize("n_env_runners", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("version", ["flat", "structured"])
def test_events_of_training_reach_the_statistics_wherever_environments_are(assemble, version, n_env_runners):
    """Of whole episodes only, KPIs and reports of wrappers too, whether this process or others step them."""
    assembly = assemble(
        env={"use": "cutting-2d", "version": version, "max_episode_steps": 10},
        wrappers=[{"use": "log-stats"}],
        model={"use": "auto", "hidden_units": [16], "critic": "step-state"},
        trainer={"config": {**SHORT, "num_env_runners": n_env_runners}},
    )
    trainer = assembly.make_trainer(assembly.trainer_context())
    with closing(trainer):
        trainer.start_segment(0)
        for _ in range(2):
            episodes = trainer.train_epoch()["BaseEnvEvents/episode_count"]
            found = assembly.training_batches.drain_event_statistics()
            outcomes = ("CuttingEvents/valid_cut", "CuttingEvents/invalid_cut", "CuttingEvents/invalid_piece_selected")
            assert sum(found[f"{event}/mean_episode_total"] for event in outcomes) == pytest.approx(10)
            usage = found["BaseEnvEvents/kpi/mean/raw_piece_usage_per_step"]
            assert usage * 10 == pytest.approx(found["InventoryEvents/piece_replenished/mean_episode_total"])
            assert found["LogStatsEvents/episode_length/mean"] == 10
    assert episodes >= 2


MASKED = '''
import numpy as np
from gymnasium import spaces

from maze_runtime.env.flat import FlatEnv, flat_spaces


class Masked(FlatEnv):
    """A choice that the mask forbids ends the episode, which else lasts eight steps and pays one for each."""

    structured_spaces = flat_spaces(
        spaces.Dict(
            {
                "near": spaces.Box(-1.0, 1.0, (4,), np.float32),
                "far": spaces.Box(-1.0, 1.0, (2,), np.float32),
                "action_mask": spaces.MultiBinary(4),
            }
        ),
        spaces.Dict({"action": spaces.Discrete(4)}),
    )

    def __init__(self):
        self._rng = np.random.default_rng(0)

    def reset(self, *, seed=None, options=None):
        self._time = 0
        return self._next(), {}

    def step(self, action):
        allowed = bool(self._mask[action["action"]])
        self._time += 1
        return self._next(), float(allowed), not allowed or self._time == 8, False, {}

    def _next(self):
        self._mask = self._rng.integers(2, size=4).astype(np.int8)
        self._mask[self._rng.integers(4)] = 1
        near, far = (self._rng.uniform(-1, 1, n).astype(np.float32) for n in (4, 2))
        return {"near": near, "far": far, "action_mask": self._mask.copy()}
'''
MASKED_RUN = """
name = "masked"
[env]
use = "masked_env:Masked"
[vector]
n_envs = 2
[model]
use = "concat"
[model.blocks.far]
use = "dense"
hidden_units = [6]
[model.hidden]
use = "dense"
hidden_units = [16]
[evaluation]
n_episodes = 2
[checkpoint]
every_epochs = 1
[trainer]
use = "rllib"
algorithm = "{algorithm}"
n_epochs = 2
[trainer.config]
{keys}
"""
KEYS = {
    "PPO": "train_batch_size_per_learner = 128\nminibatch_size = 64\nnum_epochs = 2",
    "DQN": "num_steps_sampled_before_learning_starts = 32\nmin_sample_timesteps_per_iteration = 64\n"
    'replay_buffer_config = { type = "EpisodeReplayBuffer", capacity = 1000 }',
}


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", KEYS)
def test_masks_dicts_and_blocks_of_a_file_go_all_the_way(maze, tmp_path, monkeypatch, algorithm):
    """Trained, resumed, rolled out, deployed, exported; every reward says that no forbidden choice was made."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "masked_env.py").write_text(MASKED)
    (tmp_path / "masked.toml").write_text(MASKED_RUN.format(algorithm=algorithm, keys=KEYS[algorithm]))
    trained = maze("train", "masked.toml", "--out", "run")
    assert trained.exit_code == 0, trained.output
    resumed = maze("train", "masked.toml", "--resume", "run", "--set", "trainer.n_epochs=3")
    assert resumed.exit_code == 0, resumed.output
    assert "resumed from epoch 2" in resumed.stderr
    for part in ("train", "eval"):
        rows = [line.split(",") for line in (tmp_path / "run" / "statistics" / f"{part}.csv").read_text().splitlines()]
        assert [float(row[-1]) for row in rows if row[-2] == "BaseEnvEvents/reward/min"] == [8.0] * 3
    played = maze("rollout", "run", "--experiment", "masked.toml", "--episodes", "3")
    assert played.exit_code == 0, played.output
    assert "8" in played.output
    exported = maze("export", "run", "--experiment", "masked.toml", "--out", "policy.onnx")
    assert exported.exit_code == 0, exported.output
    with AgentDeployment.load(tmp_path / "run", experiment=tmp_path / "masked.toml") as agent:
        for only in range(4):
            observation = {"near": np.zeros(4, np.float32), "far": np.ones(2, np.float32)}
            acted = agent.act({**observation, "action_mask": np.eye(4, dtype=np.int8)[only]})
            assert int(acted["action"]) == only
