"""The table [space] and what trials are made of it."""

import pytest

from maze_sweeps.items import set_items
from maze_sweeps.space import Choice, Range, Values

SPACE = """
n_trials = 1

[space]
vector.n_envs = { values = [2, 4] }
wrappers.time-limit.max_episode_steps = { low = 5, high = 10, step = 5 }

[space.trainer]
gamma = { low = 0.9, high = 0.99, points = 2 }

[[space.trainer.choices]]
use = "ppo"
n_epochs = 1
lr = { low = 1e-4, high = 1e-2, log = true, points = 3 }

[[space.trainer.choices]]
use = "a2c"
n_epochs = 2

[[space.evaluation.choices]]
n_episodes = 1
every_epochs = 2

[[space.evaluation.choices]]
label = "often"
n_episodes = { values = [2, 3] }
"""


def test_dotted_keys_and_nested_tables_are_leaves_alike(load):
    space = load(SPACE).space.space
    assert [type(leaf) for leaf in space.leaves] == [Values, Range, Choice, Range, Choice]
    assert [leaf.name for leaf in space.leaves] == [
        "vector.n_envs",
        "wrappers.time-limit.max_episode_steps",
        "trainer",
        "trainer.gamma",
        "evaluation",
    ]
    envs, steps, trainer, gamma, evaluation = space.leaves
    assert envs.values == (2, 4)
    assert (steps.low, steps.high, steps.step, steps.is_integer) == (5, 10, 5, True)
    assert (gamma.is_integer, gamma.points) == (False, 2)
    assert [branch.label for branch in trainer.branches] == ["ppo", "a2c"]
    assert [leaf.name for leaf in trainer.branches[0].leaves] == ["trainer[ppo].lr"]
    assert trainer.branches[0].settings == {"trainer": {"use": "ppo", "n_epochs": 1}}
    assert [branch.label for branch in evaluation.branches] == ["0", "often"]
    assert evaluation.branches[0].settings == {"evaluation.n_episodes": 1, "evaluation.every_epochs": 2}


def test_a_leaf_is_asked_for_only_below_its_choice(load):
    space = load(SPACE).space.space
    asked = []

    def choose(label):
        def pick(leaf):
            asked.append(leaf.name)
            if isinstance(leaf, Choice):
                return label if leaf.name == "trainer" else "0"
            return leaf.values[0] if isinstance(leaf, Values) else leaf.low

        return pick

    assert space.walk(choose("a2c")) == {
        "vector.n_envs": 2,
        "wrappers.time-limit.max_episode_steps": 5,
        "trainer": "a2c",
        "trainer.gamma": 0.9,
        "evaluation": "0",
    }
    assert "trainer[ppo].lr" not in asked
    assert space.walk(choose("ppo"))["trainer[ppo].lr"] == 1e-4


def test_a_choice_with_use_replaces_its_table_and_one_without_merges(load):
    sweep = load(SPACE)
    draw = {
        "vector.n_envs": 2,
        "wrappers.time-limit.max_episode_steps": 5,
        "trainer": "a2c",
        "trainer.gamma": 0.95,
        "evaluation": "often",
        "evaluation[often].n_episodes": 3,
    }
    settings = sweep.space.space.settings(draw)
    assert set_items(settings) == (
        "vector.n_envs=2",
        "wrappers.time-limit.max_episode_steps=5",
        'trainer={ use = "a2c", n_epochs = 2 }',
        "trainer.gamma=0.95",
        "evaluation.n_episodes=3",
    )
    experiment = sweep.base.trial(settings, None if not sweep.base.text else _file(sweep)).experiment
    assert experiment.trainer.use == "a2c"
    assert (experiment.trainer.options.gamma, experiment.trainer.options.n_epochs) == (0.95, 2)
    assert experiment.wrappers[0].options.max_episode_steps == 5
    assert (experiment.evaluation.n_episodes, experiment.evaluation.every_epochs) == (3, 1)


def _file(sweep):
    from pathlib import Path

    return Path(sweep.base.origin.file)


def test_rows_at_the_top_tie_settings_of_several_tables(load):
    rows = """
[[space.choices]]
trainer.n_rollout_steps = 8
vector.n_envs = 4

[[space.choices]]
trainer.n_rollout_steps = 16
vector.n_envs = 2
trainer.lr = { values = [0.1] }
"""
    space = load(rows).space.space
    (choice,) = space.leaves
    assert choice.branches[0].settings == {"trainer.n_rollout_steps": 8, "vector.n_envs": 4}
    draw = {"choices": "1", "choices[1].trainer.lr": 0.1}
    assert space.settings(draw) == {"trainer.n_rollout_steps": 16, "vector.n_envs": 2, "trainer.lr": 0.1}


def test_an_element_that_a_choice_replaces_keeps_its_place(load):
    text = """
[[space.wrappers.time-limit.choices]]
use = "time-limit"
max_episode_steps = { values = [3] }

[[space.wrappers.time-limit.choices]]
use = "reward-scaling"
scale = { low = 0.1, high = 1.0 }
"""
    sweep = load(text)
    draw = {"wrappers.time-limit": "reward-scaling", "wrappers.time-limit[reward-scaling].scale": 0.5}
    assert set_items(sweep.space.space.settings(draw)) == (
        'wrappers.0={ use = "reward-scaling" }',
        "wrappers.0.scale=0.5",
    )


def test_choices_lie_in_choices(load):
    text = """
[[space.trainer.choices]]
use = "ppo"
[[space.trainer.choices.choices]]
label = "short"
n_epochs = 1
[[space.trainer.choices.choices]]
label = "long"
n_epochs = { values = [2, 3] }
"""
    space = load(text).space.space
    draw = {"trainer": "ppo", "trainer[ppo]": "long", "trainer[ppo][long].n_epochs": 3}
    assert space.settings(draw) == {"trainer": {"use": "ppo"}, "trainer.n_epochs": 3}


def test_a_table_with_use_inside_a_row_is_set_as_a_whole(load):
    text = """
[[space.choices]]
trainer = { use = "a2c", n_epochs = 2 }
vector.n_envs = 4
[[space.choices]]
vector.n_envs = 2
"""
    space = load(text).space.space
    assert space.settings({"choices": "0"}) == {"trainer": {"use": "a2c", "n_epochs": 2}, "vector.n_envs": 4}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (1.0, "1.0"),
        (1e-05, "1e-05"),
        (True, "true"),
        ('a "quoted"\nword', '"a \\"quoted\\"\\nword"'),
        ([[64, 64], []], "[[64, 64], []]"),
        ({"use": "x", "a b": {"c": [1]}, "d": {}}, '{ use = "x", "a b" = { c = [1] }, d = {} }'),
    ],
)
def test_settings_are_written_as_toml_reads_them(value, text):
    import tomllib

    (item,) = set_items({"path": value})
    assert item == f"path={text}"
    assert tomllib.loads(item)["path"] == value
