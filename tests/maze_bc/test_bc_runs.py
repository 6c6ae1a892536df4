"""Whole runs: selection, resume bit for bit, numbers that are not finite, masks that forbid what was done."""

import itertools
import sys

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from maze_kernel.components import load_attribute
from maze_kernel.config import experiment_from_mapping
from maze_kernel.errors import NonFiniteError, RequestError
from maze_runtime.training.checkpoint_store import CheckpointStore
from maze_runtime.training.resume import stored_experiment
from maze_runtime.training.train import train

PROBE = "maze_testing.environments:"


@pytest.fixture
def run(kernel, tmp_path):
    """`run(name, folder, trainer={...}, **tables)` trains an experiment."""

    def go(name, folder, *, trainer=None, env=None, **tables):
        data = {
            "name": "bc",
            "env": env or {"use": "maze_testing.environments:Identity"},
            "trainer": {
                "use": "bc",
                "demonstrations": {"path": str(folder)},
                "device": "cpu",
                "lr": 0.01,
                **(trainer or {}),
            },
            "evaluation": {"n_episodes": 3},
            "checkpoint": {"every_epochs": 2},
            "loggers": [{"use": "csv"}],
            **tables,
        }
        return train(experiment_from_mapping(data, kernel=kernel), kernel, run_dir=tmp_path / name, verbosity=-1)

    return go


def weights(result):
    return {name: tensor.clone() for name, tensor in result.model.state_dict().items()}


def test_the_least_validation_loss_selects_the_best_model(identity_recording, run):
    result = run("a", identity_recording(), trainer={"n_epochs": 6, "batch_size": 20})
    rows = (result.run_dir / "statistics" / "train.csv").read_text().splitlines()
    losses = [float(row.rsplit(",", 1)[1]) for row in rows if "ValidationEvents/policy_loss" in row]
    assert len(losses) == 6
    assert result.best_metric == pytest.approx(min(losses))
    assert result.outcome.metric == "train_ValidationEvents/policy_loss"
    assert result.env_steps == 0


@pytest.mark.parametrize("expels", [False, True])
def test_a_team_that_changes_is_imitated(record, run, expels):
    """Members come and go. Where the expert answers 0 with `expels`, the newest other member is sent away."""
    team = load_attribute("maze_testing.structured_environments:ChangingTeam")
    folder = record(lambda: team(expels=expels), lambda seen: {"choice": int(seen["shown"].argmax())}, 40)
    env = {"use": "maze_testing.structured_environments:ChangingTeam", "expels": expels}
    result = run("team", folder, env=env, trainer={"n_epochs": 40, "patience": 0})
    logits = result.model.logits("member", {"shown": torch.eye(3)})["choice"]
    assert logits.argmax(-1).tolist() == [0, 1, 2]


HEARD = []


class Listening:
    """A logger that keeps what it was told of the metric."""

    def __init__(self, context):
        HEARD.append(context.metric)

    def write(self, record):
        pass


@pytest.mark.parametrize(
    ("percentage", "n_episodes", "events"),
    [(20.0, 6, "ValidationEvents"), (0.0, 6, "ImitationEvents"), (20.0, 1, "ImitationEvents")],
)
def test_loggers_are_told_what_selects_the_best_model(
    identity_recording, run, monkeypatch, percentage, n_episodes, events
):
    """One recorded episode is learnt from, and leaves none to validate on."""
    monkeypatch.setitem(sys.modules, "listening", sys.modules[__name__])
    HEARD.clear()
    trainer = {"n_epochs": 1, "validation_percentage": percentage}
    recording = identity_recording(n_episodes=n_episodes)
    result = run("a", recording, trainer=trainer, loggers=[{"use": "listening:Listening"}])
    assert HEARD == [f"train_{events}/policy_loss"] == [result.outcome.metric]


@pytest.mark.parametrize("options", [{}, {"eval_every_k_iterations": 3, "entropy_coef": 0.01}])
def test_a_resumed_run_equals_the_uninterrupted_one(cartpole_recording, kernel, run, options):
    tables = {
        "env": {"use": "gym", "id": "CartPole-v1"},
        "wrappers": [{"use": "observation-normalization"}],
        "evaluation": {"n_episodes": 1},
    }
    changes = {"batch_size": 16, **options}
    whole = run("whole", cartpole_recording, trainer={**changes, "n_epochs": 6}, **tables)
    run("parts", cartpole_recording, trainer={**changes, "n_epochs": 4}, **tables)
    folder = whole.run_dir.parent / "parts"
    loaded = stored_experiment(folder, overrides=["trainer.n_epochs=6"], kernel=kernel)
    resumed = train(loaded, kernel, resume=folder, verbosity=-1)
    for name, tensor in weights(whole).items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name
    one, other = (CheckpointStore(result.run_dir).load_named("last") for result in (whole, resumed))
    moments = (checkpoint.trainer["optimizer"] for checkpoint in (one, other))
    for mine, theirs in zip(*(moment.values() for moment in moments), strict=True):
        assert torch.equal(mine, theirs)
    assert one.trainer["cursor"] == other.trainer["cursor"]


@pytest.mark.parametrize(
    ("lengths", "received"),
    [((20, 10, 15, 5), "4 with 50 decisions"), ((20, 10), "2 with 30 decisions"), ((20, 15, 10), "in another order")],
)
def test_a_run_goes_on_with_the_episodes_it_began_with_alone(identity_recording, make_trainer, lengths, received):
    def make(name, lengths):
        for place, n_steps in enumerate(lengths):
            folder = identity_recording(n_episodes=1, n_steps=n_steps, folder=f"{name}/{place}")
        return make_trainer(folder.parent)

    state = make("before", (20, 10, 15)).state_dict()
    make("same", (20, 10, 15)).load_state_dict(state)
    other = make("other", lengths)
    with pytest.raises(RequestError, match="not those that this run began with") as refusal:
        other.load_state_dict(state)
    assert received in refusal.value.render()
    assert "expected: 3 with 45 decisions" in refusal.value.render()
    del state["episodes"]  # states of older versions have none
    other.load_state_dict(state)


def test_the_same_seed_gives_the_same_run_and_another_seed_another(identity_recording, run):
    folder = identity_recording()
    results = [run(name, folder, seed=seed, trainer={"n_epochs": 2}) for name, seed in (("a", 1), ("b", 1), ("c", 2))]
    first, again, other = (torch.cat([t.flatten() for t in weights(result).values()]) for result in results)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_nan_in_a_recording_stops_the_run_and_names_the_episode(record, run):
    environment = load_attribute(PROBE + "Identity")

    def poisoned():
        env = environment(n_steps=5)
        step = env.step

        def bad_step(action):
            observation, *rest = step(action)
            return {"observation": observation["observation"] * np.float32("nan")}, *rest

        env.step = bad_step
        return env

    folder = record(poisoned, lambda _: {"action": 1}, n_episodes=2)
    with pytest.raises(NonFiniteError, match=r"'observation'.* in episode [01]"):
        run("a", folder)


def test_a_gradient_that_is_not_finite_changes_no_weight_and_leaves_its_minibatch(record, run, make_trainer, tmp_path):
    environment = load_attribute(PROBE + "Identity")
    huge = {"action": np.full(2, 0.5, np.float32)}
    folder = record(lambda: environment(kind="box"), lambda _: huge, n_episodes=3)
    env = {"use": PROBE + "Identity", "kind": "box"}
    trainer = {"lr": 1e30, "n_epochs": 3, "batch_size": 7}
    with pytest.raises(NonFiniteError, match="no weight was changed") as refusal:
        run("a", folder, env=env, trainer=trainer)
    assert refusal.value.received == "NaN or infinity in update 2"
    batch = load_file(tmp_path / "a" / "non-finite-batch.safetensors")
    np.testing.assert_array_equal(batch["0.action.action"], np.full((5, 2), 0.5, np.float32))
    alone = make_trainer(folder, env=env, trainer=trainer)
    with pytest.raises(NonFiniteError, match="no weight was changed"):
        alone.train_epoch()
    state = alone.model.state_dict()
    assert state
    assert all(tensor.isfinite().all() for tensor in state.values())


def test_a_mask_that_forbids_what_was_done_is_named(record, run, masked_env_without_its_mask):
    folder = record(masked_env_without_its_mask, lambda _: {"pick": 0, "sign": np.zeros(1, np.int8)}, n_episodes=4)
    with pytest.raises(RequestError, match="the mask of action head 'pick'"):
        run("a", folder, env={"use": PROBE + "MaskedDict"})


def careless(wrong):
    """Picks what the mask of `MaskedDict` allows, but in the decisions `wrong(n)`, counted from 0."""
    n_decisions = itertools.count()

    def act(observation):
        mask = observation["pick_mask"]
        return {"pick": int(mask.argmin() if wrong(next(n_decisions)) else mask.argmax()), "sign": np.zeros(1, np.int8)}

    return act


def test_a_mask_that_forbids_what_was_done_is_found_in_a_validation_episode(
    record, make_trainer, masked_recording, masked_env_without_its_mask
):
    tables = {"env": {"use": PROBE + "MaskedDict"}}
    validated = make_trainer(masked_recording(10), **tables)._validation.episodes
    expert = careless(lambda n: n // 8 in validated)
    trainer = make_trainer(record(masked_env_without_its_mask, expert, 10, "careless"), **tables)
    assert trainer._validation.episodes == validated
    with pytest.raises(RequestError, match="the mask of action head 'pick'"):
        trainer.train_epoch()


def test_one_action_that_its_mask_forbids_is_found_in_a_large_minibatch(
    record, make_trainer, masked_env_without_its_mask
):
    n_rows = 12_000  # among so many, a loss of 1e9 is less than 1e5 on average
    folder = record(lambda: masked_env_without_its_mask(n_steps=n_rows), careless(lambda n: n == 6), n_episodes=1)
    trainer = make_trainer(folder, env={"use": PROBE + "MaskedDict"}, trainer={"batch_size": n_rows})
    with pytest.raises(RequestError, match="the mask of action head 'pick'"):
        trainer.train_epoch()


@pytest.fixture
def masked_env_without_its_mask():
    """Lets the player pick what the mask forbids."""
    environment = load_attribute(PROBE + "MaskedDict")

    class Careless(environment):
        def step(self, action):
            allowed = int(np.argmax(self._mask))
            return super().step({**action, "pick": allowed})

    return Careless


@pytest.fixture
def cartpole_recording(record, kernel):
    data = {"name": "t", "env": {"use": "gym", "id": "CartPole-v1"}, "trainer": {"use": "ppo"}}
    from maze_runtime.run.assembly import Assembly

    make_env = Assembly(experiment_from_mapping(data, kernel=kernel), kernel).env_factory()
    return record(make_env, lambda seen: {"action": int(seen["observation"][2:] @ [1.0, 1.0] > 0)}, n_episodes=4)


@pytest.mark.slow
def test_memory_is_flat(identity_recording, make_trainer, assert_flat):
    trainer = make_trainer(identity_recording(n_episodes=10), trainer={"batch_size": 10})
    assert_flat(trainer.train_epoch, warm_up=100, n=400)
