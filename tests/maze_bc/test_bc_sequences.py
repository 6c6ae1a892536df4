"""Policies that carry state: what they learn from, against a walk through each episode one decision at a time."""

import pytest
import torch

from maze_kernel.config import experiment_from_mapping
from maze_kernel.errors import RequestError
from maze_runtime.models.recurrence import BEGINS, is_of_critic
from maze_runtime.playing.roll_out import RolloutOptions, roll_out
from maze_runtime.training.train import train
from maze_testing.environments import RepeatFirst
from maze_testing.trainers import check_trainer

GRU = {"use": "gru", "hidden_size": 8, "stateful": True}
MODEL = {"use": "auto", "hidden_units": [8], "recurrence": GRU}
LSTM = {"use": "concat", "blocks": {"feature": {"use": "dense", "hidden_units": [8]}}}
LSTM |= {"recurrence": {**GRU, "use": "lstm"}, "critic": {"share_embedding": True}}
TEAM = {"use": "maze_testing.structured_environments:ChangingTeam"}
MEMORIES = {"use": "maze_testing.structured_environments:TwoMemories", "n_steps": 7}
FIRST = {"use": "maze_testing.environments:RepeatFirst", "n_steps": 12}


def repeat_first(n_steps=12):
    """An expert for the environment and for its recording."""
    shown = {}

    def expert(observation):
        numbers = observation["observation"]
        shown["first"] = int(numbers.argmax()) if numbers.any() else shown["first"]
        return {"action": shown["first"]}

    return lambda: RepeatFirst(n_steps=n_steps), expert


@pytest.fixture
def played(kernel, tmp_path):
    """`played(env, n_episodes)` -> folder with what random actions did there."""

    def play(env, n_episodes=5):
        folder = tmp_path / "played"
        loaded = experiment_from_mapping({"name": "played", "env": env, "trainer": "ppo"}, kernel=kernel)
        options = RolloutOptions(n_episodes=n_episodes, n_workers=1, record_dir=folder)
        roll_out(loaded, kernel, options, policy="random")
        return folder

    return play


def passes(make_trainer, folder, env, **options):
    """The trainer, and its minibatches of a whole pass with the weights it begins with."""
    tables = {"env": env, "model": MODEL, "wrappers": []} | options.pop("tables", {})
    trainer = make_trainer(folder, trainer=options, **tables)
    minibatches = trainer._minibatches
    return trainer, [minibatches.batch(0, index) for index in range(minibatches.n_batches(0))]


def walked(model, minibatches):
    """Observation, action and kept of every decision to its logits, one decision at a time: the slow reference."""
    found = []
    for index in minibatches.episodes:
        episode = minibatches.demonstrations.read(index)
        states = {}
        for key, own in episode.items():
            for row in own.place.argsort():
                actor = key, int(own.agent_id[row])
                if actor not in states:
                    shapes = model.state_shapes(key)
                    states[actor] = {n: torch.zeros(1, *shape) for n, shape in shapes.items() if not is_of_critic(n)}
                inputs = {name: torch.from_numpy(array[row : row + 1]) for name, array in own.observation.items()}
                inputs |= {BEGINS: torch.zeros(1), **states[actor]}
                agent = None if minibatches.demonstrations.spaces.is_flat else torch.tensor([actor[1]])
                with torch.no_grad():
                    logits, _, states[actor] = model.advance(key, inputs, agent, with_value=False)
                kept = own.kept is None or bool(own.kept[row])
                found.append((key, actor[1], kept, {name: one[0] for name, one in logits.items()}))
    return found


def rows_of(model, batches):
    """Policy key, agent and logits of every decision that counts in these minibatches."""
    found = []
    for batch in batches:
        for key, rows in batch.items():
            with torch.no_grad():
                logits = model.logits(key, rows.observation, rows.agent_id)
            for row in (rows.weight > 0).nonzero()[:, 0].tolist():
                agent = 0 if rows.agent_id is None else int(rows.agent_id[row])
                found.append((key, agent, {name: own[row] for name, own in logits.items()}))
    return found


def sorted_numbers(found):
    """One row a decision, in an order of its own."""
    heads = [
        (key, agent, torch.cat([logits[name] for name in sorted(logits)]).tolist()) for key, agent, logits in found
    ]
    return sorted((key, agent, *numbers) for key, agent, numbers in heads)


def assert_alike(found, wanted):
    assert len(found) == len(wanted)
    for one, other in zip(sorted_numbers(found), sorted_numbers(wanted), strict=True):
        assert one[:2] == other[:2]
        assert one[2:] == pytest.approx(other[2:], abs=1e-5)


@pytest.mark.parametrize(("sequence_length", "model"), [(1, MODEL), (5, LSTM), (64, MODEL)])
@pytest.mark.parametrize("env", [FIRST, TEAM, MEMORIES])
def test_windows_begin_with_the_state_of_all_decisions_before(make_trainer, played, env, sequence_length, model):
    options = {"batch_size": 9, "sequence_length": sequence_length, "tables": {"model": model}}
    trainer, batches = passes(make_trainer, played(env), env, **options)
    reference = [(key, agent, logits) for key, agent, _, logits in walked(trainer.model, trainer._minibatches)]
    assert_alike(rows_of(trainer.model, batches), reference)
    held_out = [(key, agent, logits) for key, agent, _, logits in walked(trainer.model, trainer._validation)]
    for n_rows in (1, 20, 4096):
        assert_alike(rows_of(trainer.model, trainer._validation.in_order(n_rows)), held_out)


@pytest.mark.parametrize("env", [FIRST, TEAM])
def test_all_minibatches_of_a_part_have_one_shape_and_something_to_learn(make_trainer, played, env):
    _, batches = passes(make_trainer, played(env), env, batch_size=9, sequence_length=4)
    assert len({tuple((key, rows.n_rows) for key, rows in batch.items()) for batch in batches}) == 1
    assert all(sum(float(rows.weight.sum()) for rows in batch.values()) > 0 for batch in batches)


def every_third(episode):
    return torch.arange(len(episode)).numpy() % 3 == 2


def test_decisions_that_are_not_learnt_from_are_remembered(make_trainer, record, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "sequences_of_this_test", sys.modules[__name__])
    folder = record(*repeat_first(), 4)
    options = {"processor": {"use": "sequences_of_this_test:every_third"}, "batch_size": 8, "sequence_length": 5}
    trainer, batches = passes(make_trainer, folder, FIRST, **options)
    reference = walked(trainer.model, trainer._minibatches)
    assert trainer._minibatches.n_rows == 3 * 4
    assert_alike(rows_of(trainer.model, batches), [(key, agent, own) for key, agent, kept, own in reference if kept])


@pytest.mark.parametrize(
    "options",
    [
        {"eval_every_k_iterations": 2},
        {"sequence_length": 64, "entropy_coef": 0.01},
        {"eval_every_k_iterations": 1, "memory_limit_mib": 1},
    ],
)
def test_it_conforms_to_the_trainer_suite(record, assemble, monkeypatch, options):
    # an epoch ends in the middle of a pass, whose windows began with other weights
    if "memory_limit_mib" in options:
        monkeypatch.setattr("maze_bc.trainer.row_bytes", lambda spaces: (1 << 20) // 30)
    folder = record(*repeat_first(), 6)

    def make():
        trainer = {"batch_size": 12, "sequence_length": 5, **options}
        assembly = assemble(folder, env=FIRST, model=MODEL, wrappers=[], trainer=trainer)
        made = assembly.make_trainer(assembly.trainer_context())
        assert made._minibatches.is_streamed == ("memory_limit_mib" in options)
        return made

    check_trainer(make, n_epochs=3)


def cloned(kernel, folder, run_dir, **trainer):
    data = {"name": "remembers", "env": FIRST, "model": {**MODEL, "recurrence": {**GRU, "hidden_size": 16}}}
    options = {"use": "bc", "demonstrations": {"path": str(folder)}, "lr": 0.01, "batch_size": 48, "n_epochs": 25}
    data |= {"trainer": {**options, **trainer}, "evaluation": {"n_episodes": 16}, "loggers": [{"use": "csv"}]}
    return train(experiment_from_mapping(data, kernel=kernel), kernel, run_dir=run_dir, verbosity=-1)


def test_a_clone_remembers_beyond_its_windows(kernel, record, tmp_path):
    """Windows of four decisions of twelve: what was shown at first is out of every later gradient's reach."""
    folder = record(*repeat_first(), 40)
    run = cloned(kernel, folder, tmp_path / "run", sequence_length=4)
    logits = []
    key = "0"
    states = {n: torch.zeros(4, *s) for n, s in run.model.state_shapes(key).items() if not is_of_critic(n)}
    for step in range(12):
        shown = torch.eye(4) if step == 0 else torch.zeros(4, 4)
        with torch.no_grad():
            own, _, states = run.model.advance(
                key, {"observation": shown, BEGINS: torch.zeros(4), **states}, with_value=False
            )
        logits.append(own["action"])
    assert all(one.argmax(-1).tolist() == [0, 1, 2, 3] for one in logits)


def test_ppo_goes_on_from_a_clone(kernel, record, tmp_path):
    cloned(kernel, record(*repeat_first(), 40), tmp_path / "clone")
    data = {"name": "goes-on", "env": FIRST, "model": {**MODEL, "recurrence": {**GRU, "hidden_size": 16}}}
    ppo = {"use": "ppo", "n_rollout_steps": 24, "batch_size": 48, "epoch_length": 1, "n_epochs": 1, "lr": 1e-5}
    data |= {"trainer": ppo, "initialize_from": str(tmp_path / "clone"), "vector": {"n_envs": 4}}
    data |= {"wrappers": [], "evaluation": {"n_episodes": 32}, "loggers": [{"use": "csv"}]}
    run = train(experiment_from_mapping(data, kernel=kernel), kernel, run_dir=tmp_path / "ppo", verbosity=-1)
    assert run.best_metric > 0.95


def test_a_forbidden_action_that_is_not_learnt_is_passed(make_trainer, record, monkeypatch):
    """`refuse_forbidden_action` looks at what is learnt alone."""
    from maze_bc.refusals import refuse_forbidden_action
    from maze_runtime.models.masking import MASKED_LOGIT

    trainer, batches = passes(make_trainer, record(*repeat_first(), 3), FIRST, sequence_length=5)
    key, rows = next(iter(batches[0].items()))
    logits = torch.zeros(rows.n_rows, 4)
    logits[0] = MASKED_LOGIT
    logits[0, (int(rows.action["action"][0]) + 1) % 4] = 0.0
    monkeypatch.setattr(type(trainer.model), "logits", lambda *_: {"action": logits})
    with pytest.raises(RequestError, match="forbids a recorded action"):
        refuse_forbidden_action(trainer.model, {key: rows})
    weight = rows.weight.clone()
    weight[0] = 0.0
    refuse_forbidden_action(trainer.model, {key: rows._replace(weight=weight)})


@pytest.mark.slow
@pytest.mark.parametrize("env", [FIRST, TEAM])
def test_compiled_updates_are_those_of_eager_ones(make_trainer, played, env):
    folder, losses = played(env), []
    for compiled in (False, True):
        options = {"batch_size": 20, "sequence_length": 4, "compile": compiled}
        trainer, _ = passes(make_trainer, folder, env, **options)
        losses.append([trainer.train_epoch()["ImitationEvents/policy_loss"] for _ in range(3)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
