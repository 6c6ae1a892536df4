"""What is wrong with the file of a sweep: each problem has its line, its caret and a next step."""

import pytest

from maze_kernel.errors import ExperimentError
from maze_sweeps.sweeping import dry_run

# The text of a sweep file, what is said, and what the caret is under.
WRONG = {
    "n_trial = 3\n[space]\nvector.n_envs = { values = [2] }": ("n_trial is not an option of a sweep", "n_trial"),
    "seeds = 0\n[space]\nvector.n_envs = { values = [2] }": ("seeds: at least one seed is needed", "0"),
    "seeds = [1, 1]\n[space]\nvector.n_envs = { values = [2] }": ("seeds: a seed stands there twice", "[1, 1]"),
    'objective = "max"\n[space]\nvector.n_envs = { values = [2] }': ("objective is not one of its values", '"max"'),
    "name = '../up'\n[space]\nvector.n_envs = { values = [2] }": ("name: the name becomes a folder", "'../up'"),
    "timeout_seconds = 0\n[space]\nvector.n_envs = { values = [2] }": ("timeout_seconds is out of range", "0"),
    "[searcher]\nuse = 'gird'\n[space]\nvector.n_envs = { values = [2] }": ("no searcher is called 'gird'", "'gird'"),
    "[searcher]\nuse = 'grid'\nn = 2\n[space]\nvector.n_envs = { values = [2] }": ("searcher.n is not an option", "n"),
    "[confirm]\nseeds = [7, 1]\n[space]\nvector.n_envs = { values = [2] }": ("the search has seen seeds", "[7, 1]"),
    "[space]": ("the space is empty", "space"),
    "[space]\nseed = { values = [1, 2] }": ("seed is not for a searcher to choose", "seed"),
    "[space]\nvector.n_envs = 3": ("vector.n_envs is a value and nothing to choose from", "3"),
    "[space]\nvector.n_envs = {}": ("vector.n_envs is a value and nothing to choose from", "{}"),
    "[space]\nvector.n_envs = { values = [] }": ("values is empty", "[]"),
    "[space]\nvector.n_envs = { values = 3 }": ("values is a list", "3"),
    "[space]\nvector.n_envs = { values = [2, 3, 2] }": ("the value stands there twice", "2"),
    "[space]\nvector.n_envs = { values = [2], low = 2 }": ("low does not belong to", "low"),
    "[space]\ntrainer.lr = { low = 1e-3 }": ("high is missing", "lr"),
    "[space]\ntrainer.lr = { low = 1e-3, hihg = 1e-2 }": ("hihg does not belong to what trainer.lr", "hihg"),
    "[space]\ntrainer.lr = { low = 'a', high = 1e-2 }": ("low has the wrong value", "'a'"),
    "[space]\ntrainer.lr = { low = 1e-2, high = inf }": ("space.trainer.lr.high is not a finite number", "inf"),
    "[space]\ntrainer.lr = { low = 0.1, high = 1.0, step = nan }": ("space.trainer.lr.step is not a finite", "nan"),
    "[space]\ntrainer.lr = { low = 0.1, high = inf, step = 0.1 }": ("space.trainer.lr.high is not a finite", "inf"),
    "[space]\ntrainer.lr = { low = 1e-2, high = 1e-3 }": ("low = 0.01 is above high = 0.001", "1e-2"),
    "[space]\ntrainer.lr = { low = 0.0, high = 1.0, log = true }": ("a logarithmic range begins above 0", "0.0"),
    "[space]\ntrainer.lr = { low = 0.1, high = 1.0, log = 1 }": ("log has the wrong value", "1"),
    "[space]\ntrainer.lr = { low = 0.1, high = 1.0, step = 0 }": ("a step is above 0", "0"),
    "[space]\ntrainer.lr = { low = 0.1, high = 1.0, step = 2.0 }": ("no step fits between", "2.0"),
    "[space]\ntrainer.lr = { low = 0.1, high = 1.0, log = true, step = 0.1 }": ("a logarithmic range has no", "step"),
    "[space]\ntrainer.lr = { low = 0.1, high = 1.0, points = 0 }": ("points has the wrong value", "0"),
    "[space]\ntrainer.choices = []": ("choices is empty", "[]"),
    "[space]\ntrainer.choices = [1]": ("choices is a list of tables", "choices"),
    "[[space.trainer.choices]]\nlabel = 'a'\n[[space.trainer.choices]]\nlabel = 'a'": ("two choices are", "label"),
    # What the experiment's loader says, shown here.
    "[space]\ntrainer.lrr = { low = 1e-3, high = 1e-2 }": ('trainer.lrr is not an option of trainer "ppo"', "lrr"),
    "[space]\ntrainer.lr = { low = -1.0, high = 1e-2 }": ("trainer.lr", "-1.0"),
    "[space]\ntrainer.lr = { values = [1e-3, 'fast'] }": ("trainer.lr has the wrong type", "'fast'"),
    "[space]\nvector.n_envs = { low = 0, high = 8 }": ("vector.n_envs is out of range", "0"),
    "[space]\nvector.n_envs = { values = [2.0, 4] }": ("vector.n_envs has the wrong type", "2.0"),
    "[space]\nvectr.n_envs = { values = [2] }": ("vectr is not an option of an experiment", "vectr"),
    "[space]\nwrappers.scaling.x = { values = [2] }": ("wrappers is a list and has no element scaling", "x"),
    "[space]\nwrappers.time-limit.y = { values = [2] }": ('wrappers.0.y is not an option of wrapper "time-limit"', "y"),
    "[[space.trainer.choices]]\nuse = 'ppo'\nn_epochs = 1.5": ("trainer.n_epochs has the wrong type", "1.5"),
    "[[space.trainer.choices]]\nuse = 'ppo'\n[[space.trainer.choices]]\nuse = 'pop'": ("no trainer is called", "'pop'"),
    "[[space.trainer.choices]]\nuse = 'ppo'\n[[space.trainer.choices]]\nuse = 'a2c'\nlr = { values = [-1.0] }": (
        "trainer.lr",
        "-1.0",
    ),
    "metric = 'BaseEnvEvents/reward/maen'\n[space]\nvector.n_envs = { values = [2] }": (
        "no statistic is called 'BaseEnvEvents/reward/maen'",
        "'BaseEnvEvents/reward/maen'",
    ),
}


@pytest.mark.parametrize("text", WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_what_is_wrong_is_shown_where_it_stands(problems, folder, text):
    what, under = WRONG[text]
    (problem,) = problems(text)
    assert problem.what.startswith(what), problem.render()
    location = problem.location
    assert location.file == str(folder / "sweep.toml")
    assert location.line is not None
    source = (folder / "sweep.toml").read_text().splitlines()[location.line - 1]
    assert source[location.column - 1 : location.column - 1 + location.length] == under, problem.render()
    assert problem.help or problem.nearest, problem.render()


def test_all_problems_are_shown_at_once(problems):
    found = problems("seeds = 0\nmetrc = 'x'\n[space]\nvector.n_envs = { values = [] }\ntrainer.lr = 3")
    assert [problem.location.line for problem in found] == [2, 3, 5, 6]


def test_every_bad_value_of_every_branch_is_shown_in_order(problems):
    text = """[space]
vector.n_envs = { values = [0, 2, "x"] }
[[space.trainer.choices]]
use = "ppo"
lr = { low = -1.0, high = 1.0 }
[[space.trainer.choices]]
use = "a2c"
n_epoch = 1
gamma = { low = 0.5, high = 1.5 }
"""
    assert [problem.location.line for problem in problems(text)] == [3, 3, 6, 9, 10]


def test_a_missing_experiment_is_shown_in_the_sweep(problems, folder):
    (folder / "other.toml").write_text('experiment = "smal.toml"\n[space]\nseed = 1')
    from maze_kernel.errors import ExperimentError
    from maze_sweeps.sweep_reading import load_sweep

    with pytest.raises(ExperimentError) as caught:
        load_sweep(folder / "other.toml")
    first = caught.value.problems[0]
    assert "there is no file" in first.what
    assert first.nearest == ("small.toml",)
    assert (first.location.line, first.location.column, first.location.length) == (1, 14, 11)


def test_a_wrong_experiment_is_shown_itself(folder, load):
    from maze_kernel.errors import ExperimentError

    (folder / "small.toml").write_text((folder / "small.toml").read_text().replace("n_epochs = 3", "n_epochs = 3.5"))
    with pytest.raises(ExperimentError) as caught:
        load("[space]\nvector.n_envs = { values = [2] }")
    assert caught.value.problems[0].location.file == str(folder / "small.toml")


def test_a_metric_of_evaluations_needs_evaluations(problems, load):
    space = "[space]\nvector.n_envs = { values = [2] }"
    (problem,) = problems(space, overrides=["evaluation.n_episodes=0"])
    assert problem.what == "no evaluation reports BaseEnvEvents/reward/mean: the experiment evaluates no episodes"
    assert problem.help.endswith('metric = "train_BaseEnvEvents/reward/mean"')
    load('metric = "train_BaseEnvEvents/reward/mean"\n' + space, overrides=["evaluation.n_episodes=0"])


def test_a_metric_may_be_one_of_an_evaluator_with_a_name(problems, load):
    space = "[space]\nvector.n_envs = { values = [2] }"
    text = 'metric = "-hard/BaseEnvEvents/reward/mean"\n' + space
    (problem,) = problems(text)
    assert problem.what == "no statistic is called 'hard/BaseEnvEvents/reward/mean'"
    assert problem.location.line == 2
    hard = ["evaluation.n_episodes=0", "evaluation.evaluators.hard.n_episodes=2"]
    metric = load(text, overrides=hard).metric
    assert (metric.tag, metric.minimize, metric.evaluator) == ("hard/BaseEnvEvents/reward/mean", True, "hard")
    (problem,) = problems(text, overrides=["evaluation.evaluators.hard.n_episodes=0"])
    assert "the experiment evaluates no episodes" in problem.what


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        ("[searcher]\nuse = 'grid'\n[space]\ntrainer.lr = { low = 0.1, high = 1.0 }", "a grid cannot try every", 5),
        ("[space]\ntrainer.lr = { low = 0.1, high = 1.0 }", "a random search has no end of its own", None),
        (
            "n_trials = 0\n[searcher]\nuse = 'random'\n[space]\ntrainer.lr = { low = 0.1, high = 1.0 }",
            "a random search has no end of its own",
            2,
        ),
        (
            "[searcher]\nuse = 'grid'\n[space]\ntrainer.lr = { low = 0.1, high = 1.0, points = 11000 }",
            "the grid has 11,000 combinations",
            None,
        ),
    ],
)
def test_what_a_searcher_refuses_leaves_no_folder(maze, folder, load, text, what, line):
    load(text)
    done = maze("sweep", "sweep.toml")
    assert done.exit_code == 2
    assert f"error: {what}" in done.output
    assert line is None or f"sweep.toml:{line}:" in done.output
    assert not [path for path in folder.glob("sweeps/*/*") if any(path.iterdir())]


def test_a_dry_run_prints_every_trial_and_begins_none(maze, folder, load):
    load("[searcher]\nuse = 'grid'\n[space]\nvector.n_envs = { low = 1, high = 3, points = 2 }")
    (folder / "sweep.toml").write_text(
        (folder / "sweep.toml").read_text() + "\ntrainer.lr = { low = 1e-3, high = 1e-2, step = 1e-3 }\n"
    )
    done = maze("sweep", "sweep.toml", "--dry-run")
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) == 2 * 10
    assert done.stdout.splitlines()[0] == "--set vector.n_envs=1 --set trainer.lr=0.001"
    assert done.stdout.splitlines()[-1] == "--set vector.n_envs=3 --set trainer.lr=0.01"
    assert not (folder / "sweeps").exists()


def test_what_set_has_changed_is_not_taken_for_what_the_space_has(load, problems):
    shared = ["workers={ use = 'inline', count = 2 }", "vector.n_envs=3", "model.use=auto"]
    load("[space]\ntrainer.lr = { values = [0.1] }", overrides=shared)
    found = problems("[space]\ntrainer.lr = { values = [-1.0] }\nworkers.count = { values = [0] }", overrides=shared)
    assert [problem.location.line for problem in found] == [3, 4]


CHOICE = "[[space.choices]]\nlabel = 'a'\n{}\n[[space.choices]]\nlabel = 'b'\n{}\n"
LR = "trainer.lr = { low = 1e-3, high = 1e-2 }"
VOID = {
    f"[space]\n{LR}\n" + CHOICE.format("trainer.lr = { values = [0.1, 0.2] }", "vector.n_envs = 2"): (
        "trainer.lr is set in two places",
        "also line 6, column 9: space.choices.0.trainer.lr",
    ),
    f"[space]\n{LR}\n" + CHOICE.format("vector.n_envs = 2", "trainer.lr = 0.1"): (
        "trainer.lr is set in two places",
        "also line 9, column 9: space.choices.1.trainer.lr",
    ),
    "[space]\nwrappers.0.max_episode_steps = { values = [4] }\n"
    "wrappers.time-limit.max_episode_steps = { values = [8] }": (
        "wrappers.0.max_episode_steps is set in two places",
        "also line 3, column 12: space.wrappers.0.max_episode_steps",
    ),
    "[space]\nwrappers.0.max_episode_steps = { values = [4] }\n"
    "[[space.wrappers.time-limit.choices]]\nuse = 'time-limit'\nmax_episode_steps = 8": (
        "wrappers.0 is set in two places",
        "also line 3, column 12: space.wrappers.0.max_episode_steps",
    ),
}


@pytest.mark.parametrize("text", VOID, ids=[str(i) for i in range(len(VOID))])
def test_a_setting_that_another_one_would_replace_is_refused(load, text):
    with pytest.raises(ExperimentError) as caught:
        dry_run(load(text), 1)
    what, received = VOID[text]
    assert (caught.value.problems[0].what, caught.value.problems[0].received) == (what, received)
    assert caught.value.problems[0].location.file.endswith("sweep.toml")


def test_branches_may_set_the_same_and_what_is_beside_them_changes_their_tables(load):
    assert dry_run(load("[space]\n" + CHOICE.format(LR, "trainer.lr = 0.1")), 1)
    table = "[space.trainer]\nlr = { values = [0.1] }\n[[space.trainer.choices]]\nuse = 'ppo'\nn_epochs = 1\n"
    assert dry_run(load(table), 1)


def test_an_override_that_every_trial_replaces_is_refused(load):
    text = "[space]\nwrappers.time-limit.max_episode_steps = { values = [4] }"
    loaded = load(text, overrides=["trainer.lr=0.1", "wrappers.0.max_episode_steps=5"])
    with pytest.raises(ExperimentError, match="is set for all trials") as caught:
        dry_run(loaded, 1)
    (problem,) = caught.value.problems
    assert (problem.received, problem.location.line) == ("--set wrappers.0.max_episode_steps=5", 3)
    choice = load("[space]\n" + CHOICE.format(LR, "vector.n_envs = 2"), overrides=["trainer.lr=0.1"])
    assert dry_run(choice, 1)  # it counts in the branch that sets it not
    both = load("[space]\n" + CHOICE.format(LR, "trainer.lr = 0.2"), overrides=["trainer.lr=0.1"])
    with pytest.raises(ExperimentError, match=r"trainer\.lr is set for all trials"):
        dry_run(both, 1)


def test_commands_that_are_printed_can_be_pasted_where_paths_have_spaces(maze, load):
    load("n_trials = 1\n[workers]\nuse = 'inline'\n[space]\nvector.n_envs = { values = [2] }")
    done = maze("sweep", "sweep.toml", "--out", "two words")
    assert done.exit_code == 0, done.output
    assert "compare the trials with: maze compare 'two words/trials'" in done.stdout
    again = maze("sweep", "sweep.toml", "--out", "two words")
    assert "maze sweep --resume 'two words'" in again.output
