"""Which runs form a group, what the groups are called, and in what they differ."""

import pytest

from maze_kernel.errors import RequestError
from maze_reports.grouping import differences, group_runs
from maze_reports.runs import open_runs
from maze_reports.settings import flat_settings, settings_hash, short_names


def opened(folder):
    return open_runs([folder])[0]


def members(groups):
    return {group.label: sorted(run.path.name for run in group.runs) for group in groups}


def test_runs_that_differ_in_seed_and_name_alone_form_a_group(make_run, tmp_path):
    make_run("a", {1: 1.0}, seed=1, name="first")
    make_run("b", {1: 1.0}, seed=2, name="second")
    make_run("c", {1: 1.0}, seed=1, name="first", trainer={"use": "ppo", "lr": 1e-4})
    assert members(group_runs(opened(tmp_path))) == {"lr=0.001": ["a", "b"], "lr=0.0001": ["c"]}


def test_real_runs_are_grouped_by_their_experiment(trained):
    groups = group_runs(opened(trained))
    assert sorted(sorted(run.path.name for run in group.runs) for group in groups) == [
        ["a2c-1"],
        ["failed"],
        ["ppo-1", "ppo-2"],
    ]
    assert {group.task for group in groups} == {"CartPole-v1", "broken_pole_of_reports:make"}
    assert {group.label for group in groups if len(group.runs) == 2} == {"ppo, n_episodes=2"}


def test_groups_with_names_of_their_own_go_by_them(make_run, tmp_path):
    make_run("a", {1: 1.0}, name="slow")
    make_run("b", {1: 1.0}, name="quick", trainer={"use": "ppo", "lr": 1e-2, "gamma": 0.9})
    assert set(members(group_runs(opened(tmp_path)))) == {"slow", "quick"}


def test_what_is_selected_names_a_group_by_itself(make_run, tmp_path):
    make_run("a", {1: 1.0})
    make_run("b", {1: 1.0}, trainer={"use": "sac", "tau": 0.1})
    assert set(members(group_runs(opened(tmp_path)))) == {"ppo", "sac"}


def test_environments_are_tasks_of_one_configuration(make_run, tmp_path):
    for env in ("CartPole-v1", "Acrobot-v1"):
        for lr in (1e-3, 1e-4):
            make_run(f"{env}-{lr}", {1: 1.0}, env=env, trainer={"use": "ppo", "lr": lr})
    groups = group_runs(opened(tmp_path))
    assert {(group.label, group.task) for group in groups} == {
        (label, env) for label in ("lr=0.001", "lr=0.0001") for env in ("CartPole-v1", "Acrobot-v1")
    }


def test_environments_of_one_name_are_told_apart_by_their_options(make_run, tmp_path):
    for gravity in (9.8, 1.6):
        make_run(f"g{gravity}", {1: 1.0}, wrappers=[])
    data = tmp_path / "g1.6" / "run.json"
    data.write_text(data.read_text().replace('"id": "CartPole-v1"', '"id": "CartPole-v1", "gravity": 1.6'))
    tasks = {group.task for group in group_runs(opened(tmp_path))}
    assert tasks == {"CartPole-v1 (gravity=–)", "CartPole-v1 (gravity=1.6)"}


def test_one_setting_may_decide_alone(make_run, tmp_path):
    for index, (use, lr) in enumerate([("ppo", 1e-3), ("ppo", 1e-4), ("a2c", 1e-3)]):
        make_run(f"r{index}", {1: 1.0}, trainer={"use": use, "lr": lr})
    runs = opened(tmp_path)
    assert members(group_runs(runs, "trainer.lr")) == {"lr=0.001": ["r0", "r2"], "lr=0.0001": ["r1"]}
    groups = group_runs(runs, "trainer")
    assert members(groups) == {"ppo": ["r0", "r1"], "a2c": ["r2"]}
    assert {group.label: group.also_differ for group in groups} == {"ppo": ("trainer.lr",), "a2c": ()}
    assert members(group_runs(runs, "seed")) == {"seed=0": ["r0", "r1", "r2"]}
    with pytest.raises(RequestError) as error:
        group_runs(runs, "trainer.lrr")
    assert error.value.nearest[0] == "trainer.lr"
    with pytest.raises(RequestError) as error:
        group_runs(runs, "lr")
    assert error.value.nearest[0] == "trainer.lr"


def test_differences_are_settings_with_a_value_for_each_group(make_run, tmp_path):
    make_run("a", {1: 1.0}, seed=1, name="one")
    make_run("b", {1: 1.0}, seed=2, name="two", trainer={"use": "sac", "tau": 0.1})
    found, n_found = differences(group_runs(opened(tmp_path)))
    assert {d.setting: d.values for d in found} == {
        "trainer.use": ("ppo", "sac"),
        "trainer.lr": ("0.001", "–"),
        "trainer.tau": ("–", "0.1"),
    }
    assert n_found == 3


def test_entries_of_lists_go_by_what_they_use():
    experiment = {
        "wrappers": [{"use": "scale", "by": 2}, {"use": "clip"}, {"use": "clip"}],
        "model": {"units": [64, 64], "empty": {}},
    }
    assert flat_settings(experiment) == {
        "wrappers.scale.use": "scale",
        "wrappers.scale.by": 2,
        "wrappers.1.use": "clip",
        "wrappers.2.use": "clip",
        "model.units": [64, 64],
        "model.empty": {},
    }


def test_objects_of_python_are_equal_wherever_they_lie_in_memory():
    one = {"env.id": {"python-object": "<function make at 0x7f00aa>"}}
    other = {"env.id": {"python-object": "<function make at 0x7fffff>"}}
    assert settings_hash(one) == settings_hash(other)
    assert settings_hash(one) != settings_hash({"env.id": {"python-object": "<function build at 0x7f00aa>"}})
    assert settings_hash({"a": 1, "b.c": 2}, without=["b"]) == settings_hash({"a": 1})


def test_names_take_as_few_settings_as_tell_all_apart():
    tables = [{"lr": lr, "n": n, "fixed": 1} for lr in (0.1, 0.2) for n in (1, 2)]
    assert short_names(tables) == ["lr=0.1, n=1", "lr=0.1, n=2", "lr=0.2, n=1", "lr=0.2, n=2"]
    assert short_names([{"lr": 0.1, "n": 1}, {"lr": 0.2, "n": 1}, {"lr": 0.3, "n": 2}]) == [
        "lr=0.1",
        "lr=0.2",
        "lr=0.3",
    ]
    tables = [
        {"trainer.use": "ppo", "lr": 1},
        {"trainer.use": "ppo", "lr": 2},
        {"trainer.use": "sac", "lr": 1},
        {"lr": 1},
    ]
    assert short_names(tables) == ["ppo, lr=1", "ppo, lr=2", "sac, lr=1", "no trainer, lr=1"]


def test_values_that_look_alike_are_kept_apart(make_run, tmp_path):
    """Texts are cut for display, never for grouping."""
    for index in range(2):
        make_run(f"r{index}", {1: 1.0}, trainer={"use": "ppo", "layers": [64] * 40 + [index]})
    for by in (None, "trainer.layers"):
        groups = members(group_runs(opened(tmp_path), by))
        assert sorted(groups.values()) == [["r0"], ["r1"]]
        assert sum("#2" in label for label in groups) == 1
