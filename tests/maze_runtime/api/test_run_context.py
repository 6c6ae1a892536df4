"""RunContext: what a Python user does with it."""

from concurrent.futures import ThreadPoolExecutor

import gymnasium
import numpy as np
import pytest

from maze_kernel import MazeError
from maze_kernel.errors import RequestError
from maze_runtime.context import RunContext

SMALL = {
    "seed": 3,
    "vector.n_envs": 2,
    "evaluation.n_episodes": 2,
    "trainer.epoch_length": 1,
    "trainer.n_rollout_steps": 32,
    "trainer.batch_size": 32,
}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def weights(context):
    return {name: tensor.numpy().copy() for name, tensor in context.policy.model.state_dict().items()}


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name])


def test_training_twice_equals_training_once():
    twice = RunContext(env="CartPole-v1", overrides={**SMALL, "checkpoint.every_epochs": 1}, silent=True)
    twice.train(n_epochs=1)
    assert twice.train(n_epochs=2).epochs == 3
    once = RunContext(env="CartPole-v1", overrides={**SMALL, "checkpoint.every_epochs": 1}, silent=True)
    once.train(n_epochs=3)
    assert_same(weights(twice), weights(once))


def test_a_call_that_names_its_epochs_begins_patience_anew():
    never_better = {"evaluation.metric": "-train_BaseEnvEvents/total_step_count", "trainer.patience": 2}
    context = RunContext(env="CartPole-v1", overrides={**SMALL, **never_better}, silent=True)
    first = context.train(n_epochs=9)
    assert (first.outcome.status, first.epochs) == ("stopped early", 3)
    left = context.train()
    assert (left.outcome.status, left.epochs) == ("stopped early", 3)
    log = context.run_dir / "log.txt"
    assert "or from Python call train(n_epochs=...)" in log.read_text()
    one_more = context.train(n_epochs=1)
    assert (one_more.outcome.status, one_more.epochs) == ("done", 4)
    assert "no better evaluation in 2; it goes on, and its patience begins anew" in log.read_text()
    again = context.train(n_epochs=9)  # one evaluation was counted before
    assert (again.outcome.status, again.epochs) == ("stopped early", 5)
    assert context.train(n_epochs=9).epochs == 7
    assert context.checkpoint("best").epoch == 1


SCHEDULED = {**SMALL, "trainer.lr": {"start": 1e-3, "end": 0.0}, "checkpoint.every_epochs": 1}


def learning_rates(context, calls, **options):
    """Those of the last update of each epoch, which has one."""
    seen = []

    def see(run):
        seen.append(round(run.record.train["ActorCriticEvents/learning_rate"], 8))

    for n_epochs in calls:
        context.train(n_epochs, callbacks=[see], **options)
    return seen


def scheduled(**trainer):
    overrides = {**SCHEDULED, **{f"trainer.{name}": value for name, value in trainer.items()}}
    return RunContext(env="CartPole-v1", overrides=overrides, silent=True)


@pytest.mark.slow
def test_schedules_run_over_the_budget_of_the_trainer_however_training_is_split():
    once, split = scheduled(n_epochs=4), scheduled(n_epochs=4)
    assert learning_rates(once, [4]) == [1e-3, 7.5e-4, 5e-4, 2.5e-4]
    assert learning_rates(split, [1, 2]) == [1e-3, 7.5e-4, 5e-4]
    reopened = RunContext.load(split.run_dir, silent=True)
    assert learning_rates(reopened, [None]) == [2.5e-4]
    assert_same(weights(once), weights(reopened))
    assert learning_rates(reopened, [2]) == [0.0, 0.0]
    assert reopened.config == split.config
    assert (reopened.config["trainer"]["n_epochs"], reopened.checkpoint("last").epoch) == (4, 6)


def test_schedules_run_over_the_environment_steps_where_these_are_the_budget():
    split = learning_rates(scheduled(max_env_steps=256), [1, 1])
    assert split == learning_rates(scheduled(max_env_steps=256), [2])
    assert 5e-4 < split[1] < split[0] == 1e-3


def test_schedules_without_a_budget_run_to_the_end_of_each_call():
    context = scheduled()
    assert learning_rates(context, [2]) == [1e-3, 5e-4]
    assert learning_rates(RunContext.load(context.run_dir, silent=True), [2]) == [5e-4, 2.5e-4]


@pytest.mark.parametrize("trainer", [{"n_epochs": 4}, {}])
def test_each_of_several_seeds_has_the_schedules_of_one(trainer):
    alone = scheduled(**trainer)
    alone.train(2)
    result = scheduled(**trainer).train(2, seeds=[SMALL["seed"]], n_parallel=1)
    (seed,) = result.seeds
    assert seed.report.epoch == 2
    assert_same(weights(RunContext.load(seed.run_dir, silent=True)), weights(alone))


def fail_at(epoch):
    def fail(run):
        if run.epoch == epoch:
            raise RuntimeError("the disk is full")

    return fail


@pytest.mark.slow
@pytest.mark.parametrize("run_dir", [None, "given"])
def test_a_context_goes_on_with_a_run_that_failed(run_dir):
    overrides = {**SMALL, "checkpoint.every_epochs": 1}
    context = RunContext(env="CartPole-v1", overrides=overrides, run_dir=run_dir, silent=True)
    with pytest.raises(MazeError, match="the run can go on"):
        context.train(5, callbacks=[fail_at(3)])
    failed = context.run_dir
    assert context.is_trained
    assert context.checkpoint("last").epoch == 2
    result = context.train(2)
    assert (result.run_dir, result.epochs) == (failed, 4)
    once = RunContext(env="CartPole-v1", overrides=overrides, silent=True)
    once.train(4)
    assert_same(weights(context), weights(once))


@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_context_begins_again_in_the_directory_of_a_run_that_failed_before_its_first_checkpoint(is_reopened):
    context = RunContext(env="CartPole-v1", overrides=SMALL, silent=True)
    with pytest.raises(MazeError, match="the disk is full"):
        context.train(2, callbacks=[fail_at(1)])
    failed = context.run_dir
    assert not context.is_trained
    context = RunContext.load(failed, silent=True) if is_reopened else context
    result = context.train(2)
    assert (result.run_dir, result.epochs) == (failed, 2)


def test_a_context_knows_no_directory_where_training_did_not_begin():
    context = RunContext(env="CartPole-v1", overrides=SMALL, silent=True)
    with pytest.raises(MazeError):
        context.train(1, callbacks=["no-such-callback"])
    assert context.run_dir is None
    assert context.train(1).epochs == 1


@pytest.mark.slow
def test_interleaved_contexts_give_the_same_results_as_alone():
    def contexts():
        return (
            RunContext(env="CartPole-v1", overrides=SMALL, silent=True),
            RunContext(env="Pendulum-v1", trainer="ppo", overrides={**SMALL, "seed": 9}, silent=True),
        )

    alone = contexts()
    for context in alone:
        context.train(n_epochs=1)
        context.train(n_epochs=1)
    mixed = contexts()
    for _ in range(2):
        for context in reversed(mixed):
            context.train(n_epochs=1)
    for ours, theirs in zip(alone, mixed, strict=True):
        assert_same(weights(ours), weights(theirs))
        assert ours.rollout(n_episodes=2).episodes == theirs.rollout(n_episodes=2).episodes


def test_environment_and_trainer_are_taken_in_every_form():
    from maze_ppo.options import PPOOptions

    forms = [
        {"env": "CartPole-v1", "trainer": {"use": "ppo", "epoch_length": 1}},
        {"env": {"use": "gym", "id": "CartPole-v1"}, "trainer": PPOOptions(epoch_length=1)},
        {"env": lambda: gymnasium.make("CartPole-v1"), "trainer": "ppo"},
    ]
    overrides = {**SMALL, "vector.mode": "sequential"}
    seen = [RunContext(**form, overrides=overrides, silent=True) for form in forms]
    for context in seen:
        context.train(n_epochs=1)
    first, *others = [context.rollout(n_episodes=2).episodes for context in seen]
    assert all(episodes == first for episodes in others)


def test_the_actions_computed_are_those_of_a_rollout():
    context = RunContext(
        env="CartPole-v1", wrappers=["observation-normalization"], overrides=SMALL, silent=True, run_dir="one"
    )
    context.train(n_epochs=1)
    (episode,) = context.rollout(n_episodes=1).episodes
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=episode.seed)
    total, ended = 0.0, False
    while not ended:
        observation, reward, terminated, truncated, _ = env.step(context.compute_action(observation))
        total, ended = total + reward, terminated or truncated
    assert total == episode.total_reward


def test_a_saved_run_acts_and_evaluates_like_the_context_that_made_it():
    context = RunContext(env="CartPole-v1", overrides=SMALL, silent=True)
    context.train(n_epochs=1)
    loaded = RunContext.load(context.run_dir, silent=True)
    assert_same(weights(context), weights(loaded))
    assert loaded.evaluate(n_episodes=3) == context.evaluate(n_episodes=3)


def in_a_thread(call):
    """What a call in another thread returned or raised."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(call)
        return future.exception() or future.result()


def test_one_thread_of_a_process_trains_and_nothing_plays_beside_it():
    training, other = (RunContext(env="CartPole-v1", overrides=SMALL, silent=True) for _ in range(2))
    other.train(1)
    loaded = RunContext.load(other.run_dir, silent=True)
    calls = [
        lambda: other.train(1),
        lambda: other.train(1, seeds=[1, 2], n_parallel=1),
        lambda: loaded.evaluate(1),
        lambda: loaded.rollout(1),
        lambda: loaded.policy,
    ]
    refused = []
    training.train(1, callbacks=[lambda _run: refused.extend(map(in_a_thread, calls))])
    assert [type(error) for error in refused] == [RequestError] * len(calls)
    assert all("train(seeds=" in str(error) for error in refused)
    assert in_a_thread(lambda: other.train(1)).epochs == 2


def test_a_callback_may_train_another_context():
    training, other = (RunContext(env="CartPole-v1", overrides=SMALL, silent=True) for _ in range(2))
    training.train(1, callbacks=[lambda _run: other.train(1)])
    assert other.is_trained


def test_silent_prints_nothing(capfd):
    context = RunContext(env="CartPole-v1", overrides=SMALL, silent=True)
    context.train(n_epochs=1)
    assert capfd.readouterr() == ("", "")


def test_arguments_are_not_changed():
    trainer, overrides = {"use": "ppo", "epoch_length": 1}, dict(SMALL)
    RunContext(env="CartPole-v1", trainer=trainer, overrides=overrides)
    assert trainer == {"use": "ppo", "epoch_length": 1}
    assert overrides == SMALL


@pytest.mark.parametrize(
    ("change", "named"),
    [({"trainer": "pppo"}, "ppo"), ({"overrides": {"trainer.lrr": 1.0}}, "lr"), ({"env": "CartPole"}, "CartPole")],
)
def test_mistakes_are_named(change, named):
    with pytest.raises(MazeError, match=named):
        RunContext(**{"env": "CartPole-v1", "silent": True, **change}).train(n_epochs=1)


def test_observations_of_the_wrong_shape_are_refused():
    context = RunContext(env="CartPole-v1", overrides=SMALL, silent=True)
    with pytest.raises(MazeError, match="shape"):
        context.compute_action(np.zeros(5))
