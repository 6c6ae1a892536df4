"""Runs of recurrent models as users have them: from a table to training, rollouts, deployment, and refusals."""

import numpy as np
import pytest
import torch

from maze_deployment.agent import AgentDeployment
from maze_deployment.export import export_checkpoint
from maze_kernel.config import experiment_from_mapping
from maze_kernel.errors import RequestError
from maze_kernel.loader import Kernel
from maze_runtime.context import RunContext
from maze_runtime.playing.players import load_checkpoint
from maze_runtime.run.assembly import Assembly
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
    trainer |= {"gae_lambda": 0.95, "n_optimization_epochs": 6}
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


@pytest.mark.parametrize("use", ["sac", "es", "impala", "bc"])
def test_other_trainers_name_themselves_in_the_refusal(use):
    trainer = {"use": use, **({"demonstrations": {"path": "none"}} if use == "bc" else {})}
    with pytest.raises(RequestError, match=f"trainer '{use}'") as caught:
        Assembly(experiment(trainer=trainer, model=MODELS["concat-lstm"]), KERNEL).make_model()
    assert "expected: a trainer that does: a2c, ppo" in caught.value.render()
    assert "stateful = false" in caught.value.render()


def test_an_export_is_refused(trained, tmp_path):
    loaded, checkpoint = trained
    with pytest.raises(RequestError, match="carries state") as caught:
        export_checkpoint(loaded, KERNEL, checkpoint, tmp_path / "policy.onnx")
    assert "AgentDeployment" in caught.value.render()
    assert list(tmp_path.iterdir()) == []


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
