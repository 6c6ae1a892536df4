"""Evaluations on environments of their own, and several of them by name."""

import csv
import json
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.config.load import experiment_from_mapping, load_experiment
from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.errors import ExperimentError, RequestError
from maze_kernel.loader import Kernel
from maze_runtime.context import RunContext
from maze_runtime.run.evaluators import EvaluationSide, require_same_spaces
from maze_runtime.training.checkpoint_store import CheckpointStore
from maze_runtime.training.evaluation import Evaluator
from maze_runtime.training.metric import Metric
from maze_runtime.training.resume import stored_experiment
from maze_runtime.training.train import train

CARTPOLE = {"use": "gym", "id": "CartPole-v1"}
RUNNING = {"use": "observation-normalization", "statistics": "running"}
SHORT = {"use": "time-limit", "max_episode_steps": 5}
PPO = {
    "name": "small",
    "env": CARTPOLE,
    "vector": {"n_envs": 2},
    "wrappers": [RUNNING],
    "trainer": {"use": "ppo", "n_epochs": 4, "epoch_length": 1, "n_rollout_steps": 16, "batch_size": 16},
    "evaluation": {"n_episodes": 2},
    "checkpoint": {"every_epochs": 2},
    "loggers": [{"use": "csv"}],
}
HARD = {"n_episodes": 3, "wrappers": [SHORT, RUNNING]}
REWARD = "BaseEnvEvents/reward/mean"


def small(**tables):
    return experiment_from_mapping({**PPO, **tables}, kernel=Kernel.installed())


def run(folder, **tables):
    loaded = small(**tables)
    return train(loaded, loaded.kernel, run_dir=folder, verbosity=-1)


def rows(folder, name="eval"):
    with open(folder / "statistics" / f"{name}.csv") as file:
        found = [(int(row["epoch"]), row["tag"], row["value"]) for row in csv.DictReader(file)]
    return [row for row in found if not row[1].startswith("Timing")]


def weights(folder):
    return {name: tensor.numpy() for name, tensor in CheckpointStore(folder).load_named("last").model.items()}


def same(first, second):
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


def test_an_evaluator_with_a_name_measures_beside_the_main_one_and_changes_nothing_else(tmp_path):
    run(tmp_path / "alone")
    run(tmp_path / "beside", evaluation={"n_episodes": 2, "evaluators": {"hard": HARD}})
    found = rows(tmp_path / "beside")
    assert [row for row in found if not row[1].startswith("hard/")] == rows(tmp_path / "alone")
    assert rows(tmp_path / "beside", "train") == rows(tmp_path / "alone", "train")
    assert same(weights(tmp_path / "beside"), weights(tmp_path / "alone"))
    assert [row for row in found if row[1] == f"hard/{REWARD}"] == [(n, f"hard/{REWARD}", "5.0") for n in (1, 2, 3, 4)]
    assert (1, "hard/BaseEnvEvents/episode_count", "3") in found


def test_wrappers_written_once_more_take_the_statistics_of_training(tmp_path):
    run(tmp_path / "shared")
    run(tmp_path / "own", evaluation={"n_episodes": 2, "env": CARTPOLE, "wrappers": [RUNNING]})
    assert rows(tmp_path / "own") == rows(tmp_path / "shared")


def test_the_evaluation_plays_the_environment_that_it_names(tmp_path):
    env = {**CARTPOLE, "max_episode_steps": 3}
    run(tmp_path / "run", evaluation={"n_episodes": 2, "env": env})
    assert {value for _, tag, value in rows(tmp_path / "run") if tag == REWARD} == {"3.0"}
    stored = json.loads((tmp_path / "run" / "run.json").read_text())
    assert stored["experiment"]["evaluation"]["env"]["max_episode_steps"] == 3


def test_each_evaluator_has_its_own_pace_and_the_last_epoch_asks_all(tmp_path):
    hard = {**HARD, "every_epochs": 3}
    run(tmp_path / "run", evaluation={"n_episodes": 1, "every_epochs": 2, "evaluators": {"hard": hard}})
    found = rows(tmp_path / "run")
    assert [epoch for epoch, tag, _ in found if tag == REWARD] == [2, 4]
    assert [epoch for epoch, tag, _ in found if tag == f"hard/{REWARD}"] == [3, 4]


def test_the_metric_names_the_evaluator_that_selects(tmp_path):
    hard = {**HARD, "every_epochs": 2}
    evaluation = {"n_episodes": 1, "metric": f"hard/{REWARD}", "evaluators": {"hard": hard}}
    result = run(tmp_path / "run", evaluation=evaluation)
    assert (result.outcome.best_epoch, result.best_metric) == (2, 5.0)


def test_without_main_evaluation_the_training_reward_selects_beside_an_evaluator(tmp_path):
    result = run(tmp_path / "run", evaluation={"n_episodes": 0, "evaluators": {"hard": HARD}})
    rewards = [float(value) for _, tag, value in rows(tmp_path / "run", "train") if tag == REWARD]
    assert result.best_metric == max(rewards) != 5.0


def test_what_the_environments_paid_selects_where_nothing_is_evaluated(tmp_path):
    shaped = [RUNNING, {"use": "reward-scaling", "scale": 0.01}]
    result = run(tmp_path / "paid", wrappers=shaped, evaluation={"n_episodes": 0})
    found = rows(tmp_path / "paid", "train")
    paid = [float(value) for _, tag, value in found if tag == "BaseEnvEvents/raw_reward/mean"]
    assert result.best_metric == max(paid) > 5.0
    learnt_from = run(
        tmp_path / "learnt from", wrappers=shaped, evaluation={"n_episodes": 0, "metric": f"train_{REWARD}"}
    )
    assert learnt_from.best_metric == pytest.approx(max(paid) / 100)


def test_a_callback_stops_at_a_value_of_an_evaluator(tmp_path):
    evaluation = {"n_episodes": 1, "evaluators": {"hard": {**HARD, "every_epochs": 2}}}
    stop = {"use": "stop-at", "value": 5.0, "metric": f"hard/{REWARD}"}
    result = run(tmp_path / "run", evaluation=evaluation, callbacks=[stop])
    assert (result.epochs, result.outcome.status) == (2, "stopped early")


def test_each_seed_of_a_series_selects_by_the_evaluator(tmp_path):
    evaluation = {"n_episodes": 1, "metric": f"hard/{REWARD}", "evaluators": {"hard": {**HARD, "every_epochs": 2}}}
    context = RunContext(experiment={**PPO, "evaluation": evaluation}, run_dir=tmp_path / "runs", silent=True)
    result = context.train(2, seeds=[0, 1], n_parallel=1)
    assert [seed.best_metric for seed in result.seeds] == [5.0, 5.0]


def test_a_run_goes_on_as_if_it_had_never_stopped(tmp_path):
    evaluation = {"n_episodes": 2, "evaluators": {"hard": {**HARD, "every_epochs": 2}}}
    run(tmp_path / "whole", evaluation=evaluation)
    run(tmp_path / "parts", evaluation=evaluation, trainer={**PPO["trainer"], "n_epochs": 2})
    loaded = stored_experiment(tmp_path / "parts", overrides=["trainer.n_epochs=4"])
    train(loaded, loaded.kernel, resume=tmp_path / "parts", verbosity=-1)
    assert rows(tmp_path / "parts") == rows(tmp_path / "whole")
    assert same(weights(tmp_path / "parts"), weights(tmp_path / "whole"))


@pytest.mark.slow
def test_workers_play_evaluators_as_this_process_does(tmp_path):
    evaluation = {"n_episodes": 2, "env": {**CARTPOLE, "max_episode_steps": 9}, "evaluators": {"hard": HARD}}
    run(tmp_path / "here", evaluation=evaluation)
    run(tmp_path / "workers", evaluation=evaluation, workers={"use": "subprocess", "count": 2})
    assert rows(tmp_path / "workers") == rows(tmp_path / "here")


def test_rollouts_and_evaluations_from_python_know_the_evaluators(tmp_path):
    tables = {**PPO, "evaluation": {"n_episodes": 2, "evaluators": {"hard": HARD}}}
    context = RunContext(experiment=tables, run_dir=tmp_path / "run", silent=True)
    context.train(1)
    assert context.rollout(2, evaluator="hard").summary["reward"]["max"] == 5.0
    assert context.rollout(2, evaluator="hard", policy="random").summary["reward"]["max"] == 5.0
    measured = context.evaluate(4, evaluator="hard")
    assert (measured[REWARD], measured["BaseEnvEvents/episode_count"]) == (5.0, 4)
    again = RunContext.load(tmp_path / "run", silent=True)
    assert again.evaluate(evaluator="hard")["BaseEnvEvents/episode_count"] == 3
    with pytest.raises(RequestError, match="no evaluator 'hrad'") as caught:
        context.rollout(1, evaluator="hrad")
    assert caught.value.nearest == ("hard",)


class Short(gymnasium.wrappers.TimeLimit):
    def __init__(self, *, steps: int = 4):
        super().__init__(gymnasium.make("CartPole-v1"), steps)


@pytest.mark.parametrize("by", ["path", "object"])
def test_an_environment_of_an_evaluator_may_live_in_python(tmp_path, monkeypatch, by):
    monkeypatch.setitem(sys.modules, "shortened", sys.modules[__name__])
    env = {"use": "shortened:Short", "steps": 3} if by == "path" else lambda: Short(steps=3)
    evaluation = {"n_episodes": 2, "evaluators": {"hard": {"n_episodes": 2, "env": env}}}
    context = RunContext(experiment={**PPO, "evaluation": evaluation}, run_dir=tmp_path / "run", silent=True)
    context.train(1)
    assert context.evaluate(evaluator="hard")[REWARD] == 3.0
    again = RunContext(experiment=context.loaded, seed=5, run_dir=tmp_path / "again", silent=True)
    again.train(1)
    assert again.evaluate(evaluator="hard")[REWARD] == 3.0
    with pytest.raises(RequestError, match=r"the evaluation of run .* lives in Python") as caught:
        RunContext.load(tmp_path / "run", silent=True)
    assert "evaluation={…}" in caught.value.help
    opened = RunContext.load(tmp_path / "run", evaluation=evaluation, silent=True)
    assert opened.evaluate(evaluator="hard")[REWARD] == 3.0
    opened.train(1)
    with pytest.raises(ExperimentError, match="n_episode is not an option"):
        RunContext.load(tmp_path / "run", evaluation={"n_episode": 1}, silent=True)


FILE = """\
name = "small"
[env]
use = "gym"
id = "CartPole-v1"
[trainer]
use = "ppo"
n_epochs = 1
[evaluation]
metric = "hrad/BaseEnvEvents/reward/mean"
[evaluation.evaluators.hard]
n_episodes = 2
[evaluation.evaluators.hard.env]
use = "gym"
id = "Pendulum-v1"
[[evaluation.evaluators.hard.wrappers]]
use = "observation-normalization"
"""
KNOWN = 'evaluation.metric="hard/BaseEnvEvents/reward/mean"'


def loaded_file(tmp_path, *overrides):
    (tmp_path / "small.toml").write_text(FILE)
    return load_experiment(tmp_path / "small.toml", overrides=overrides)


def test_a_metric_of_an_evaluator_that_is_not_there_is_refused_where_it_stands(tmp_path):
    with pytest.raises(ExperimentError) as caught:
        loaded_file(tmp_path)
    (problem,) = caught.value.problems
    assert "no evaluator is called 'hrad'" in problem.what
    assert problem.location.line == 9
    assert "known: hard" in problem.help


@pytest.mark.parametrize("name", ["evaluation", "under_score", "2nd"])
def test_names_of_evaluators_that_statistics_could_not_carry_are_refused(name):
    with pytest.raises(ExperimentError, match=r"evaluation\.evaluators"):
        small(evaluation={"evaluators": {name: {}}})


def test_statistics_without_a_counterpart_in_training_are_refused_before_training(tmp_path):
    loaded = loaded_file(tmp_path, KNOWN, 'evaluation.evaluators.hard.env.id="CartPole-v1"', "wrappers=[]")
    with pytest.raises(RequestError, match="training has none that it could take") as caught:
        train(loaded, loaded.kernel, run_dir=tmp_path / "run", verbosity=-1)
    assert caught.value.location.line == 15
    assert caught.value.help
    assert not (tmp_path / "run").exists()


def test_other_spaces_are_refused_before_training(tmp_path):
    loaded = loaded_file(tmp_path, KNOWN, "evaluation.evaluators.hard.wrappers=[]")
    with pytest.raises(RequestError, match="evaluator 'hard' does not fit the policy: the action 'action'") as caught:
        train(loaded, loaded.kernel, run_dir=tmp_path / "run", verbosity=-1)
    assert caught.value.location.line == 12
    assert "Discrete(2)" in caught.value.expected
    assert not (tmp_path / "run").exists()


def test_statistics_of_another_strategy_are_refused_before_training(tmp_path):
    estimated = {"use": "observation-normalization", "n_estimation_steps": 20}
    own = {"n_episodes": 1, "wrappers": [{**estimated, "strategy": "range-zero-one"}]}
    with pytest.raises(RequestError, match="the other strategy") as caught:
        run(tmp_path / "run", wrappers=[estimated], evaluation=own)
    assert caught.value.owner
    assert not (tmp_path / "run").exists()


def test_check_plays_the_environments_of_evaluators(tmp_path, maze):
    (tmp_path / "small.toml").write_text(FILE)
    fitting = ["--set", KNOWN, "--set", "wrappers=[]", "--set", "evaluation.evaluators.hard.wrappers=[]", "--set"]
    played = maze("check", "small.toml", *fitting, 'evaluation.evaluators.hard.env.id="CartPole-v1"', "--steps", 50)
    assert played.exit_code == 0, played.output
    assert "evaluator hard: 50 decisions of env gym" in played.output
    refused = maze("check", "small.toml", *fitting, 'evaluation.evaluators.hard.env.id="Acrobot-v1"', "--steps", 50)
    assert refused.exit_code == 2
    assert "does not fit the policy" in refused.output


def test_wrappers_of_its_own_without_the_statistics_that_training_shows_are_refused(assemble):
    for wrappers in ({}, {"wrappers": [RUNNING]}):
        training = assemble(trainer={"use": "ppo"}, **wrappers, evaluation={"wrappers": [SHORT]})
        with pytest.raises(RequestError, match="'observation-normalization' is missing") as caught:
            EvaluationSide(training, "evaluation").check()
        assert "[[evaluation.wrappers]]" in caught.value.help
    training = assemble(trainer={"use": "ppo"}, wrappers=[], evaluation={"wrappers": [SHORT]})
    EvaluationSide(training, "evaluation").check()


def test_of_two_wrappers_of_one_name_the_one_of_equal_options_gives_the_statistics(assemble):
    first = {"use": "observation-normalization", "exclude": ["observation"]}
    tables = {"trainer": {"use": "ppo"}, "wrappers": [first, RUNNING]}
    training = assemble(**tables, evaluation={"wrappers": [RUNNING]})
    assert EvaluationSide(training, "evaluation").states([{"n": 1}, {"n": 2}]) == [{"n": 2}]
    other = assemble(**tables, evaluation={"wrappers": [{**RUNNING, "clip_range": [-1.0, 1.0]}]})
    with pytest.raises(RequestError, match="2 wrappers"):
        EvaluationSide(other, "evaluation")


def test_bounds_of_observations_may_differ_and_nothing_else():
    def of(observation, action):
        return StructuredSpaces(observation={"0": spaces.Dict(observation)}, action={"0": spaces.Dict(action)})

    box, choice = spaces.Box(-1, 1, (3,)), spaces.Discrete(2)
    wanted = of({"x": box}, {"a": choice})
    require_same_spaces(wanted, of({"x": spaces.Box(-9, 9, (3,))}, {"a": choice}), "hard", None)
    for observation, action in (
        ({"x": spaces.Box(-1, 1, (4,))}, {"a": choice}),
        ({"y": box}, {"a": choice}),
        ({"x": box, "more": box}, {"a": choice}),
        ({"x": box}, {"a": spaces.Discrete(3)}),
        ({"x": box}, {"a": box}),
    ):
        with pytest.raises(RequestError, match="does not fit"):
            require_same_spaces(wanted, of(observation, action), "hard", None)


def test_an_evaluator_takes_the_statistics_that_training_has_by_now(assemble):
    training = assemble(trainer={"use": "ppo"}, wrappers=[RUNNING], evaluation={"n_episodes": 1, "wrappers": [RUNNING]})
    model = training.make_model()
    evaluator = Evaluator(training)
    evaluator.play(model)
    batch = training.make_vector_env(1)
    batch.reset([[0]])
    batch.close()
    evaluator.play(model)
    played = evaluator._local._transforms[0].state_dict()["estimated"]["observation"]
    trained = training.transforms[0].state_dict()["estimated"]["observation"]
    assert trained["count"] == played["count"] > 0
    evaluator.close()


def test_a_metric_knows_whose_it_is():
    metric = Metric.parse(f"-hard/{REWARD}", ["hard"])
    assert (metric.tag, metric.minimize, metric.evaluator) == (f"hard/{REWARD}", True, "hard")
    metric.check_name()
    assert metric.of({}, {f"hard/{REWARD}": 2.0, REWARD: 3.0}) == 2.0
    assert Metric.parse(f"eval_hard/{REWARD}", ["hard"]).of({}, {f"hard/{REWARD}": 2.0}) == 2.0
    assert metric.of({}, {REWARD: 3.0}) is None
    assert Metric.parse("train_Rides/people", []).of({"Rides/people": 4.0}, {REWARD: 3.0}) == 4.0
    assert Metric.parse("train_Timing/env_steps_per_second", []).of({"Timing/env_steps_per_second": 5.0}, None) == 5.0
    assert Metric.parse(REWARD, ["hard"]).of({}, {f"hard/{REWARD}": 2.0}) is None
    for text in (f"hrad/{REWARD}", "hard/BaseEnvEvents/rewrd/mean"):
        with pytest.raises(RequestError, match="no statistic is called"):
            Metric.parse(text, ["hard"]).check_name()


def test_what_did_not_happen_in_an_epoch_is_no_misspelt_statistic():
    fell, counted = Metric("WalkerEvents/falls/sum"), {"BaseEnvEvents/episode_count": 0, "OwnEvents/loss": 1.0}
    evaluation = {REWARD: 1.0}
    assert fell.of({}, evaluation, known=[fell.name]) is None
    assert Metric(f"eval_{fell.tag}").of({}, evaluation, known=[fell.name]) is None
    for tag in (f"train_{REWARD}", "train_WalkerEvents/falls/sum", "train_BaseEnvEvents/kpi/mean/speed"):
        assert Metric(tag).of(counted, evaluation) is None
        with pytest.raises(RequestError, match="no statistic is called"):
            Metric(tag).of({**counted, "BaseEnvEvents/episode_count": 1}, evaluation)
        assert Metric(tag).of({**counted, "BaseEnvEvents/episode_count": 1}, evaluation, known=[tag]) is None
    for tag in (fell.tag, "train_OwnEvents/los", "train_BaseEnvEvents/rewrd/mean"):
        with pytest.raises(RequestError, match="no statistic is called"):
            Metric(tag).of(counted, evaluation)
    with pytest.raises(RequestError, match="no statistic is called") as caught:
        Metric("train_BaseEnvEvents/rewrd/mean").check_name()
    assert f"train_{REWARD}" in caught.value.nearest
