"""Runs of recurrent models as users have them: from a table to training, rollouts, deployment, and refusals."""

import json
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
import torch

from maze_deployment.agent import AgentDeployment
from maze_deployment.export import export_checkpoint
from maze_kernel.config import experiment_from_mapping
from maze_kernel.contracts.vector import Group
from maze_kernel.errors import RequestError
from maze_kernel.loader import Kernel
from maze_runtime.context import RunContext
from maze_runtime.models.network_policy import NetworkPolicy
from maze_runtime.playing.players import load_checkpoint
from maze_runtime.run.assembly import Assembly
from maze_runtime.training.checkpoint import Checkpoint
from maze_runtime.training.train import train
from maze_testing.environments import RepeatFirst

KERNEL = Kernel.installed()
GRU = {"use": "gru", "hidden_size": 8, "stateful": True}
LSTM = {**GRU, "use": "lstm", "num_layers": 2}
DENSE = {"feature": {"use": "dense", "hidden_units": [8]}}
MODELS = {
    "concat-lstm": {"use": "concat", "blocks": DENSE, "recurrence": LSTM},
    "concat-gru-shared": {"use": "concat", "blocks": DENSE, "recurrence": GRU, "critic": {"share_embedding": True}},
    "auto-gru": {"use": "auto", "hidden_units": [8], "recurrence": GRU},
}
REPEAT_FIRST = {"use": "maze_testing.environments:RepeatFirst", "n_steps": 5}
CARTPOLE = {"use": "gym", "id": "CartPole-v1"}
PPO = {"use": "ppo", "n_rollout_steps": 7, "batch_size": 14, "epoch_length": 2, "n_epochs": 2}


def experiment(**tables):
    data = {"name": "recurrent", "seed": 5, "env": REPEAT_FIRST, "vector": {"n_envs": 4}, "trainer": PPO}
    data |= {"model": MODELS["concat-gru-shared"], "evaluation": {"n_episodes": 3}, "loggers": [{"use": "csv"}]}
    return experiment_from_mapping({**data, **tables}, kernel=KERNEL)


def run(run_dir=None, resume=None, **tables):
    return train(experiment(**tables), KERNEL, run_dir=run_dir, resume=resume, verbosity=-1)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("use", ["ppo", "a2c"])
def test_every_template_trains_all_its_parameters(tmp_path, use, model):
    before = Assembly(experiment(model=MODELS[model]), KERNEL).make_model().state_dict()
    trainer = PPO if use == "ppo" else {key: value for key, value in PPO.items() if key != "batch_size"} | {"use": use}
    after = run(tmp_path / "run", model=MODELS[model], trainer=trainer).model.state_dict()
    unchanged = [name for name, tensor in before.items() if torch.equal(tensor, after[name])]
    assert unchanged == []


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["native", "subprocess", "sequential"])
@pytest.mark.parametrize("model", MODELS)
def test_a_run_stopped_in_the_middle_of_episodes_goes_on_bit_for_bit(tmp_path, mode, model):
    """CartPole's episodes end anywhere; every epoch ends within several."""
    tables = {"env": CARTPOLE, "model": MODELS[model], "vector": {"n_envs": 4, "mode": mode}}
    tables["checkpoint"] = {"every_epochs": 1}
    whole = run(tmp_path / "whole", trainer={**PPO, "n_epochs": 3}, **tables).model.state_dict()
    run(tmp_path / "cut", trainer={**PPO, "n_epochs": 1}, **tables)
    resumed = run(resume=tmp_path / "cut", trainer={**PPO, "n_epochs": 3}, **tables).model.state_dict()
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in whole.items())


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that remembers perfectly what it has seen at first."""
    run_dir = tmp_path_factory.mktemp("trained") / "run"
    trainer = {"use": "ppo", "n_rollout_steps": 20, "batch_size": 80, "epoch_length": 8, "n_epochs": 3, "lr": 1e-2}
    trainer |= {"gamma": 0.98, "gae_lambda": 0.95, "max_grad_norm": 0.0, "n_optimization_epochs": 6}
    model = {**MODELS["concat-gru-shared"], "recurrence": {**GRU, "hidden_size": 16}}
    tables = {"trainer": trainer, "model": model, "vector": {"n_envs": 16}, "evaluation": {"n_episodes": 32}}
    assert run(run_dir, **tables).best_metric > 0.95
    return experiment(**tables), load_checkpoint(run_dir, "best")


def first_observation(choice):
    return np.eye(4, dtype=np.float32)[choice]


NOTHING = np.zeros(4, np.float32)


def test_a_deployed_agent_remembers_within_an_episode_and_forgets_between(trained):
    answers = []
    loaded, checkpoint = trained
    with AgentDeployment.of_experiment(loaded, KERNEL, checkpoint=checkpoint) as agent:
        for choice in (2, 0, 3, 1):
            seen = [first_observation(choice), *[NOTHING] * 4]
            answers.append([int(agent.act({"observation": array})["action"]) for array in seen])
            assert agent.act({"observation": NOTHING}, terminated=True) is None
    assert answers == [[choice] * 5 for choice in (2, 0, 3, 1)]


def test_compute_action_remembers_within_an_episode_and_forgets_between(tmp_path):
    context = RunContext(env=lambda: RepeatFirst(n_steps=5), model=MODELS["auto-gru"], run_dir=tmp_path, silent=True)
    seen = state_after(context, 1)
    assert seen == state_after(context, 1)
    assert seen != state_after(context, 1, begin=False)
    assert seen != state_after(context, 2)


def state_after(context, choice, *, begin=True):
    """What the next action would follow from, after two observations."""
    if begin:
        context.begin_episode()
    for observation in (first_observation(choice), NOTHING):
        context.compute_action(observation)
    (states,) = context._actor().policy.state_dict()["states"].values()
    return {name: array.tolist() for name, array in states.items()}


@pytest.mark.parametrize("use", ["sac", "td3", "dqn"])
def test_other_trainers_name_themselves_in_the_refusal(use):
    with pytest.raises(RequestError, match=f"trainer '{use}'") as caught:
        Assembly(experiment(trainer={"use": use}, model=MODELS["concat-lstm"]), KERNEL).make_model()
    assert "expected: a trainer that does: a2c, bc, es, impala, ppo" in caught.value.render()
    assert "received: state of " in caught.value.render()
    assert "lstm and gru have none with stateful = false" in caught.value.render()


def opened(path, format_name):
    """A function of observations and states, as whoever has the file alone writes it."""
    if format_name == "onnx":
        session = onnxruntime.InferenceSession(path)
        names = [value.name for value in session.get_outputs()]

        def run_onnx(observation, states):
            inputs = {**observation, **{f"state.{name}": array for name, array in states.items()}}
            results = dict(zip(names, session.run(None, inputs), strict=True))
            after = {
                name.removeprefix("next_state."): a for name, a in results.items() if name.startswith("next_state.")
            }
            return results, after

        return run_onnx
    program = torch.export.load(path).module()

    def run_program(observation, states):
        tensors = ({name: torch.from_numpy(array) for name, array in group.items()} for group in (observation, states))
        with torch.no_grad():
            actions, logits, after = program(*tensors)
        results = {f"actions.{name}": value.numpy() for name, value in actions.items()}
        results |= {f"logits.{name}": value.numpy() for name, value in logits.items()}
        return results, {name: value.numpy() for name, value in after.items()}

    return run_program


class Player:
    """Plays a policy key from its file, with the state zero where an episode begins."""

    def __init__(self, folder, key, format_name):
        about = json.loads(next(folder.glob("*.json")).read_text())["policies"][key]
        self.run = opened(folder / about["file"], format_name)
        self.shapes = {name: own["shape"] for name, own in about["states"].items()}

    def begin(self):
        self.states = {name: np.zeros((1, *shape), np.float32) for name, shape in self.shapes.items()}

    def act(self, observation):
        results, self.states = self.run({name: array[None] for name, array in observation.items()}, self.states)
        groups = {"actions": {}, "logits": {}}
        for name, array in results.items():
            group, _, head = name.partition(".")
            groups.get(group, {})[head] = array[0]
        return groups["actions"], groups["logits"]


def episodes_of(env, act, begin):
    """What was done in three episodes, and the logits."""
    played = []
    for seed in (3, 4, 5):
        observation, _ = env.reset(seed=seed)
        begin()
        over = False
        while not over:
            key = env.actor_id().step_key
            action, logits = act(key, observation)
            played.append(((seed, key, {name: int(value) for name, value in action.items()}), *logits.values()))
            observation, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
    return played


def live_policy(model):
    """The policy itself, one environment at a time."""
    policy = NetworkPolicy(model)

    def act(key, observation):
        group = Group(
            env_index=np.zeros(1, np.int64),
            agent_id=np.zeros(1, np.int64),
            observation={name: array[None] for name, array in observation.items()},
        )
        action = policy.act(key, group, deterministic=True)
        return tuple({name: array[0].copy() for name, array in own.items()} for own in (action, policy.last_logits))

    return act, lambda: policy.begin_episodes(np.zeros(1, np.int64))


@pytest.mark.parametrize(
    ("env", "model", "format_name"),
    [
        *[
            pytest.param(env, model, "torch-export", marks=pytest.mark.slow)
            for env in ("RepeatFirst", "TwoMemories")
            for model in MODELS
        ],
        pytest.param("RepeatFirst", "concat-lstm", "onnx", marks=pytest.mark.slow),
        ("TwoMemories", "auto-gru", "onnx"),
    ],
)
def test_an_exported_policy_plays_whole_episodes_like_the_live_one(tmp_path, env, model, format_name):
    """Weights are drawn wide, so that what is remembered decides; the same file then plays the next episode."""
    place = "environments:RepeatFirst" if env == "RepeatFirst" else "structured_environments:TwoMemories"
    loaded = experiment(env={"use": f"maze_testing.{place}", "n_steps": 6}, model=MODELS[model])
    assembly = Assembly(loaded, KERNEL)
    network = assembly.make_model()
    with torch.no_grad():
        for index, parameter in enumerate(network.parameters()):
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(index)))
    checkpoint = Checkpoint(epoch=1, model=network.state_dict(), trainer={}, transforms=[{}] * len(assembly.transforms))
    export_checkpoint(loaded, KERNEL, checkpoint, tmp_path / "policy.file", format_name)
    live = assembly.env_factory(training=False)()
    act, begin = live_policy(network)
    wanted = episodes_of(live, act, begin)
    players = {key: Player(tmp_path, key, format_name) for key in network.spaces.policy_keys}
    played = episodes_of(
        live,
        lambda key, observation: players[key].act(observation),
        lambda: [player.begin() for player in players.values()],
    )
    assert [done for done, _ in played] == [done for done, _ in wanted]
    logits, expected = (np.stack([logits for _, logits in steps]) for steps in (played, wanted))
    np.testing.assert_allclose(logits, expected, atol=1e-4)
    # the last two observations of an episode are alike: they differ in what is remembered
    assert np.abs(expected[-1] - expected[-1 - len(players)]).max() > 1e-2


def test_an_exported_memory_repeats_what_it_was_shown(trained, tmp_path):
    loaded, checkpoint = trained
    export = export_checkpoint(loaded, KERNEL, checkpoint, tmp_path / "policy.onnx")
    assert export.files[0].difference < 1e-5
    player = Player(tmp_path, "0", "onnx")
    for choice in (2, 0, 3, 1):
        player.begin()
        answers = [
            player.act({"observation": seen})[0]["action"] for seen in [first_observation(choice), *[NOTHING] * 4]
        ]
        assert [int(answer) for answer in answers] == [choice] * 5


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("use", ["ppo", "a2c"])
def test_structured_environments_train_and_play(tmp_path, use, model):
    """Every parameter is trained, the critics of both policy keys among them; workers play as this process does."""
    env = {"use": "maze_testing.structured_environments:TwoMemories", "n_steps": 4}
    trainer = {key: value for key, value in PPO.items() if use == "ppo" or key != "batch_size"} | {"use": use}
    tables = {"env": env, "model": MODELS[model], "trainer": trainer}
    before = Assembly(experiment(**tables), KERNEL).make_model().state_dict()
    after = run(tmp_path / "run", **tables).model.state_dict()
    assert [name for name, tensor in before.items() if torch.equal(tensor, after[name])] == []
    assert {name.split(".")[1] for name in after if name.startswith("critics.")} == {"key_left", "key_right"}
    opened = RunContext.load(tmp_path / "run", env=env, silent=True)
    alone, together = (opened.rollout(n_episodes=4, seed=3, n_workers=n) for n in (None, 2))
    assert [e.total_reward for e in alone.episodes] == [e.total_reward for e in together.episodes]


def test_trainers_without_sequences_are_refused_models_with_state():
    with pytest.raises(RequestError, match="'sac'") as caught:
        Assembly(experiment(model=MODELS["concat-lstm"], trainer={"use": "sac"}), KERNEL).make_model()
    assert "stateful" in caught.value.render()


@pytest.mark.slow
def test_eager_training_on_sequences_does_without_the_compiler(tmp_path):
    """The first recorded sequence would bring it in, 65 MiB, if its operations were made by `custom_op`."""
    code = (
        "import sys; from maze_runtime.context import RunContext\n"
        "model = {'use': 'auto', 'recurrence': {'use': 'lstm', 'hidden_size': 8, 'stateful': True}}\n"
        "trainer = {'use': 'ppo', 'n_epochs': 1, 'epoch_length': 3, 'n_rollout_steps': 16, 'batch_size': 16}\n"
        "experiment = {'name': 'memory', 'env': {'use': 'gym', 'id': 'CartPole-v1'}, 'vector': {'n_envs': 4},\n"
        "              'model': model, 'trainer': trainer, 'evaluation': {'n_episodes': 1}}\n"
        f"RunContext(experiment=experiment, run_dir={str(tmp_path / 'run')!r}, silent=True).train()\n"
        "print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
