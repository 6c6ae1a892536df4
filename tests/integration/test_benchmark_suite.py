"""The suite of benchmarks: which jobs there are, what is kept of them, how a stopped suite goes on, and its report."""

import importlib
import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from maze_runtime.env.seeding import SeedTree
from maze_suite import RunContext

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "benchmarks/suite.py"
SECONDS = 240
"""When a wait for a file is given up."""


@pytest.fixture
def module(monkeypatch):
    """A module of the folder `benchmarks`, which imports its neighbours by name."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module


@pytest.fixture
def tasks(module):
    return module("suite_tasks").read_tasks()


@pytest.fixture
def results(module, tasks):
    """Five finished seeds of both libraries on two tasks, ours better by ten, and one job that failed."""
    suite_results, suite_tasks = module("suite_results"), module("suite_tasks")
    found = suite_results.Results()
    for job in suite_tasks.jobs_of(tasks, seeds=range(5), only=["PPO", "CartPole-v1", "Acrobot-v1"]):
        score = 10.0 * (job.library == "maze") + job.seed
        found.curves[job] = suite_results.Curve(
            env_steps=np.array([50_000, 60_000, 120_000]),
            scores=np.array([0.0, score, 999.0]),
            seconds=60.0,
            versions={"gymnasium": "1.0"},
        )
    (broken,) = suite_tasks.jobs_of(tasks, seeds=[9], only=["sb3", "A2C", "Acrobot-v1"])
    found.failed[broken] = "ValueError: no"
    return found


def test_the_table_names_enough_tasks_and_examples_that_exist(tasks):
    assert len([task for task in tasks.values() if {"PPO", "A2C"} <= set(task.algorithms)]) >= 12
    assert {"IMPALA", "ES", "SAC", "DQN", "TD3"} <= {name for task in tasks.values() for name in task.algorithms}
    files = [tuned["file"] for task in tasks.values() for tuned in task.tuned.values()]
    assert files
    assert [file for file in files if not (ROOT / "examples" / file).is_file()] == []


def test_a_choice_takes_each_kind_of_name_by_itself(module, tasks):
    jobs = module("suite_tasks").jobs_of(tasks, seeds=[0, 1], only=["PPO", "sb3", "CartPole-v1", "Pendulum-v1"])
    assert [(job.seed, job.task, job.library, job.algorithm) for job in jobs] == [
        (seed, task, "sb3", "PPO") for seed in (0, 1) for task in ("CartPole-v1", "Pendulum-v1")
    ]


def test_a_peer_that_lacks_an_algorithm_has_no_job(module, tasks):
    jobs = module("suite_tasks").jobs_of(tasks, seeds=[0], only=["IMPALA", "SAC", "CartPole-v1"])
    assert {job.library for job in jobs} == {"maze"}
    tuned = module("suite_tasks").jobs_of(tasks, settings="tuned", seeds=[0])
    assert {job.library for job in tuned} == {"maze"}


def test_names_that_nothing_has_are_refused(module, tasks):
    with pytest.raises(SystemExit, match="CartPole-v9"):
        module("suite_tasks").jobs_of(tasks, only=["CartPole-v9"])


def test_names_of_files_tell_all_jobs_apart(module, tasks):
    jobs_of = module("suite_tasks").jobs_of
    jobs = [
        job
        for factor in (1, 0.5)
        for s in ("default", "longer", "tuned")
        for job in jobs_of(tasks, settings=s, steps_factor=factor)
    ]
    assert len({job.name for job in jobs}) == len(set(jobs)) == len(jobs)


@pytest.mark.parametrize(("n_rollout_steps", "steps"), [(100, 100_000), (256, 98_304), (20_000, 160_000)])
def test_budgets_end_with_a_whole_rollout_and_have_one_at_least(module, n_rollout_steps, steps):
    config = {"trainer": {"n_rollout_steps": n_rollout_steps}, "vector": {"n_envs": 8}}
    assert module("suite_job")._whole_rollouts(config, 100_000) == steps


def test_a_score_is_the_last_evaluation_within_the_steps(results):
    assert {results.score(job) for job in results.curves if job.library == "sb3"} == {0.0, 1.0, 2.0, 3.0, 4.0}


def test_a_job_that_ended_before_its_first_evaluation_is_named(module, results, tasks):
    job = next(iter(results.curves))
    short = module("attrs").evolve(job, steps=1000)
    results.curves[short] = results.curves[job]
    assert f"- {short}: no evaluation within its steps" in module("suite_report").report(results, tasks, [])


def test_columns_are_compared_on_the_seeds_that_both_have(module, results, tasks):
    for job in [job for job in results.curves if job.library == "sb3" and job.seed != 4]:
        del results.curves[job]  # what is left of the peer scores 4, ours with that seed 14, ours with seed 0 10
    for job in [job for job in results.curves if job.library == "maze" and job.seed == 4]:
        results.curves[job].scores[1] = 3.0
    text = module("suite_report").report(results, tasks, [])
    row = next(line for line in text.splitlines() if line.startswith("| CartPole-v1 | PPO | 60 000 |"))
    assert row.endswith("| 0.00 |")
    assert "| PPO | Stable-Baselines3 | Maze | 1.00 |" in text


def test_tasks_with_too_few_seeds_for_an_interval_are_put_together_only_where_all_have_few(module, results, tasks):
    evolve = module("attrs").evolve
    for job, curve in list(results.curves.items()):
        if job.task == "CartPole-v1" and job.seed < 2:
            results.curves[evolve(job, task="Pendulum-v1")] = curve
    text = module("suite_report").report(results, tasks, [])
    assert "| PPO | 2 | Maze | 5 |" in text
    assert "| Pendulum-v1 | PPO | 60 000 |" in text
    for job in [job for job in results.curves if job.task == "CartPole-v1" and job.seed > 2]:
        del results.curves[job]  # one task is left with five seeds
    text = module("suite_report").report(results, tasks, [])
    assert "| PPO | 3 | Maze | 2 to 5 |" in text


def test_candidates_stand_beside_the_defaults(module, results, tasks):
    (job,) = module("suite_tasks").jobs_of(tasks, settings="ppo-clipped", seeds=[2], only=["CartPole-v1"])
    assert job.library == "maze"
    results.curves[job] = next(iter(results.curves.values()))
    text = module("suite_report").report(results, tasks, [])
    assert "| task | default | Stable-Baselines3 | ppo-clipped |" in text
    assert "| CartPole-v1 | 12 (5) | 2 (5) | 10 (1) |" in text


def test_seeds_of_a_search_stand_beside_candidates_and_not_among_the_defaults(module, results, tasks):
    evolve = module("attrs").evolve
    job = next(job for job in results.curves if (job.library, job.task, job.seed) == ("maze", "CartPole-v1", 4))
    curve = results.curves[job]
    for settings in ("default", "ppo-clipped"):
        results.curves[evolve(job, settings=settings, seed=7)] = evolve(curve, scores=curve.scores + 100.0)
    text = module("suite_report").report(results, tasks, [])
    row = next(line for line in text.splitlines() if line.startswith("| CartPole-v1 | PPO | 60 000 |"))
    iqm, _, ends, n = (cell.strip() for cell in row.split("|")[4:8])
    assert (iqm, ends, n) == ("12", "10 … 14", "5")
    assert "| CartPole-v1 | 12.5 (6) | 2 (5) | 114 (1) |" in text


def test_runs_with_more_steps_stand_in_a_table_of_their_own(module, results, tasks):
    suite_report, suite_results = module("suite_report"), module("suite_results")
    before = suite_report.report(results, tasks, [])
    jobs = module("suite_tasks").jobs_of(tasks, settings="longer", seeds=[0], only=["SAC", "Walker2d-v5"])
    assert [(job.library, job.steps) for job in jobs] == [("maze", 60_000), ("sb3", 60_000)]
    for job in jobs:
        results.curves[job] = suite_results.Curve(
            env_steps=np.array([60_000]), scores=np.array([777.0]), seconds=60.0, versions={"gymnasium": "1.0"}
        )
    after = suite_report.report(results, tasks, [])
    first, _, longer = after.partition("Each library's own defaults with more steps")
    assert "777" not in first
    assert longer.count("777") >= 2
    assert first.strip("* \n") in before


def test_candidates_with_more_steps_stand_beside_the_defaults_with_as_many(module, results, tasks):
    jobs_of, suite_results = module("suite_tasks").jobs_of, module("suite_results")
    only = ["maze", "TD3", "Walker2d-v5"]
    for settings, score in (("longer", 777.0), ("td3-longer-256", 888.0)):
        (job,) = jobs_of(tasks, settings=settings, seeds=[0], only=only)
        assert job.steps == 60_000
        results.curves[job] = suite_results.Curve(
            env_steps=np.array([60_000]), scores=np.array([score]), seconds=60.0, versions={"gymnasium": "1.0"}
        )
    text = module("suite_report").report(results, tasks, [])
    _, _, table = text.partition("Candidates for the defaults of TD3 with more steps")
    assert "| Walker2d-v5 | 777 (1) | 888 (1) |" in table


def test_packed_results_come_back(module, results, tmp_path):
    suite_results = module("suite_results")
    (tmp_path / "packed.json").write_text(suite_results.packed(results), encoding="utf-8")
    again = suite_results.read_packed(tmp_path / "packed.json")
    assert again.failed == results.failed
    assert list(again.curves) == list(results.curves) or set(again.curves) == set(results.curves)
    assert all((again.curves[job].scores == curve.scores).all() for job, curve in results.curves.items())
    assert suite_results.packed(again) == suite_results.packed(results)


def test_the_report_says_what_was_reached_what_failed_and_what_is_left(module, results, tasks):
    planned = module("suite_tasks").jobs_of(tasks, seeds=range(6), only=["PPO", "CartPole-v1", "Acrobot-v1"])
    text = module("suite_report").report(results, tasks, planned)
    row = next(line for line in text.splitlines() if line.startswith("| CartPole-v1 | PPO | 60 000 |"))
    assert "| 12 |" in row
    assert "| 2 |" in row
    assert row.endswith("| 1.00 |")
    assert "| PPO | Maze | Stable-Baselines3 | 1.00 |" in text
    assert "sb3 A2C on Acrobot-v1, seed 9, 100,000 steps, default: ValueError: no" in text
    assert "20 of the 24 jobs" in text
    assert text.count("narrow") == 1, "said of all intervals, not of each"
    assert "no evaluation" not in text
    assert "| CartPole-v1 (default) | PPO 1 | PPO 1 |" in text


def _page(report, path, *parts):
    places = "".join(f"{report.BEGIN.format(part)}\n{report.END.format(part)}\n\n" for part in parts)
    path.write_text(f"before\n\n{places}after\n", encoding="utf-8")
    return path


@pytest.fixture
def pages(tmp_path):
    """The folder of pages, beside that of pictures."""
    for name in ("explanation", "figures"):
        (tmp_path / name).mkdir()
    return tmp_path / "explanation"


def test_a_page_gets_tables_and_pictures_that_are_whole(module, results, tasks, pages):
    report = module("suite_report")
    page = _page(report, pages / "results.md", "together", report.BY_TASK)
    report.write_pages([page], results, tasks, [])
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before")
    assert text.endswith("after\n")
    assert "../figures/suite-ppo.svg" in text
    picture = ElementTree.parse(pages.parent / "figures/suite-ppo.svg").getroot()
    names = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"CartPole-v1", "Acrobot-v1", "Maze PPO", "Stable-Baselines3 PPO"} <= set(names)
    lines = [path for path in picture.iter("{http://www.w3.org/2000/svg}path") if path.get("class").startswith("line")]
    assert len([line for line in lines if "grey" not in line.get("class")]) == 4
    assert "var(" not in ElementTree.tostring(picture, encoding="unicode")
    report.write_pages([page], results, tasks, [])
    assert page.read_text(encoding="utf-8") == text


def test_each_part_of_the_report_goes_where_a_page_has_its_place(module, results, tasks, pages):
    report = module("suite_report")
    planned = module("suite_tasks").jobs_of(tasks, seeds=range(6), only=["PPO", "CartPole-v1", "Acrobot-v1"])
    first = _page(report, pages / "results.md", "not run", "more steps")
    second = _page(report, pages / "defaults.md", "together")
    report.write_pages([first, second], results, tasks, planned)
    not_run, _, more_steps = first.read_text(encoding="utf-8").partition(report.END.format("not run"))
    assert "| CartPole-v1 (default) | PPO 1 | PPO 1 |" in not_run
    assert "Nothing." in more_steps
    assert "| PPO | Maze | Stable-Baselines3 | 1.00 |" in second.read_text(encoding="utf-8")
    assert not list((pages.parent / "figures").iterdir()), "pictures belong to the table of all tasks"


@pytest.mark.parametrize(("parts", "said"), [((), "has no place"), (("togehter",), "asks for togehter; the parts are")])
def test_a_page_without_a_place_for_a_part_is_told(module, results, tasks, pages, parts, said):
    report = module("suite_report")
    page = _page(report, pages / "results.md", *parts)
    before = page.read_text(encoding="utf-8")
    with pytest.raises(SystemExit, match=said):
        report.write_pages([page], results, tasks, [])
    assert page.read_text(encoding="utf-8") == before


def test_the_pages_of_the_site_have_a_place_for_every_part_of_the_report(module, tasks):
    report, suite_results = module("suite_report"), module("suite_results")
    pages = [ROOT / "docs/explanation" / name for name in ("results.md", "defaults.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    for part in report.parts_of(suite_results.read_packed(suite_results.PACKED), tasks, []):
        assert text.count(report.BEGIN.format(part)) == text.count(report.END.format(part)) == 1, part


def test_the_small_tasks_keep_their_contracts(module):
    from gymnasium.utils.env_checker import check_env

    environments = module("suite_envs")
    check_env(environments.Delivery(), skip_render_check=True)
    env = environments.Parking()
    env.reset(seed=1)
    masks, total = [env.action_masks().copy()], 0.0
    for _ in range(12):
        choice = int(np.flatnonzero(env.action_masks())[0])
        observation, reward, over, _, _ = env.step(choice)
        total += reward
        masks.append(env.action_masks())
        assert env.observation_space.contains(observation)
        assert not masks[-1][choice]
    assert over
    assert total < 0
    assert [int(mask.sum()) for mask in masks] == list(range(17, 4, -1))


def test_the_peer_plays_the_episodes_of_our_evaluations(module, tmp_path):
    environments, seeds = module("suite_envs"), []

    class Watched(environments.Delivery):
        def reset(self, *, seed=None, options=None):
            seeds.extend([] if seed is None else [seed])
            return super().reset(seed=seed, options=options)

    overrides = {"trainer.epoch_length": 1, "trainer.n_rollout_steps": 8, "evaluation.n_episodes": 3}
    context = RunContext(env=Watched, seed=5, overrides=overrides, run_dir=tmp_path / "run", silent=True)
    context.train(n_epochs=1)
    assert seeds[-3:] == SeedTree(5).seeds(3, "evaluation", "episodes")
    env = environments.SameEpisode(environments.Delivery(), seeds[-1])
    first, again = env.reset(seed=1)[0], env.reset()[0]
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert np.array_equal(first["walls"], environments.Delivery().reset(seed=seeds[-1])[0]["walls"])


@pytest.mark.slow
def test_a_stopped_suite_goes_on_where_it_was(module, tasks, tmp_path):
    choice = ["--only", "maze", "DQN", "CartPole-v1", "--steps-factor", "0.8", "--seeds", "0", "1"]
    command = [sys.executable, str(SUITE), "--out", str(tmp_path), *choice]
    first = tmp_path / "default/CartPole-v1/DQN-maze-40000-seed0.jsonl"
    second = first.with_name("DQN-maze-40000-seed1.jsonl")
    suite = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _wait_for(second.with_suffix(".run") / "checkpoints/last")
    suite.send_signal(signal.SIGTERM)
    assert suite.wait(SECONDS) != 0
    assert first.exists()
    assert not second.exists()
    before, cut = first.stat().st_mtime_ns, second.with_suffix(".part").read_text(encoding="utf-8")
    with second.with_suffix(".part").open("a", encoding="utf-8") as file:
        file.write('{"env_steps": 99')  # what a crash may leave
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS).stdout
    assert "2 jobs, 1 of them finished" in said
    assert first.stat().st_mtime_ns == before
    text = second.read_text(encoding="utf-8")
    assert text.startswith(cut)
    head, *lines, last = [json.loads(line) for line in text.splitlines()]
    assert (head["algorithm"], head["seed"], last["outcome"]) == ("DQN", 1, "done")
    assert all(0 < line["score"] <= 500 for line in lines)
    steps, seconds = ([line[name] for line in (*lines, last)] for name in ("env_steps", "seconds"))
    assert steps[:-1] == sorted(set(steps[:-1]))
    assert seconds == sorted(seconds)
    assert not list(tmp_path.rglob("*.part")) + list(tmp_path.rglob("*.run"))
    results = module("suite_results").read_results(tmp_path)
    assert "| CartPole-v1 | DQN | 40 000 |" in module("suite_report").report(results, tasks, list(results.curves))


@pytest.mark.slow
def test_a_job_that_fails_is_named_and_tried_again(module, tasks, tmp_path):
    runner = module("suite").Runner(tmp_path, 1)
    (job,) = module("suite_tasks").jobs_of(tasks, seeds=[0], only=["maze", "DQN", "CartPole-v1"], steps_factor=0.0)
    broken = module("attrs").evolve(job, algorithm="Sarsa")
    for _ in range(2):
        assert runner.run([broken]) == [broken]
    results = module("suite_results").read_results(tmp_path)
    assert list(results.failed) == [broken]
    assert "sarsa" in results.failed[broken].lower()
    assert "(exit status 1)" in results.failed[broken]


@pytest.mark.slow
def test_a_job_that_the_system_killed_goes_on(module, tasks, tmp_path):
    suite = module("suite")
    runner = suite.Runner(tmp_path, 1)
    (job,) = module("suite_tasks").jobs_of(tasks, seeds=[0], only=["maze", "DQN", "CartPole-v1"], steps_factor=0.8)
    part = tmp_path / f"{job.name}.part"
    with ThreadPoolExecutor(1) as thread:
        failed = thread.submit(runner.run, [job])
        _wait_for(part.with_suffix(".run") / "checkpoints/last")
        (process,) = runner._running
        process.kill()
        assert failed.result(SECONDS) == [job]
    assert "(exit status -9)" in module("suite_results").read_results(tmp_path).failed[job]
    cut = part.read_text(encoding="utf-8")
    assert runner.run([job]) == []
    assert part.with_suffix(".jsonl").read_text(encoding="utf-8").startswith(cut)
    assert not list(tmp_path.rglob("*.failed")) + list(tmp_path.rglob("*.run"))


def _wait_for(path):
    until = time.monotonic() + SECONDS
    while not path.exists():
        assert time.monotonic() < until, f"{path} never came"
        time.sleep(0.05)
