"""`--set path=value`."""

import pytest


def test_values_are_replaced_added_and_appended(load, minimal):
    text = minimal + '\n[[wrappers]]\nuse = "scale"\n'
    loaded = load(
        text,
        "trainer.lr = 1e-3",
        'trainer.device="cuda"',
        "wrappers.0.n=2",
        'wrappers.1={use="scale", n=4}',
        "vector.n_envs=3",
        'trainer.tags=["a", "b=c"]',
        'trainer.weights."policy.loss"=0.5',
        "seed=9",
    )
    experiment = loaded.experiment
    assert experiment.trainer.options.lr == 1e-3
    assert experiment.trainer.options.device == "cuda"
    assert [wrapper.options.n for wrapper in experiment.wrappers] == [2.0, 4.0]
    assert experiment.vector.n_envs == 3
    assert experiment.trainer.options.tags == ["a", "b=c"]
    assert experiment.trainer.options.weights == {"policy.loss": 0.5}
    assert experiment.seed == 9
    assert loaded.text == text
    assert loaded.overrides[0] == "trainer.lr = 1e-3"


def test_an_element_is_named_by_what_it_uses(load, minimal):
    text = minimal + '\n[[wrappers]]\nuse = "scale"\n'
    assert load(text, "wrappers.scale.n=2").experiment.wrappers[0].options.n == 2.0
    assert load(text, 'wrappers.scale={ use = "scale", n = 3 }').experiment.wrappers[0].options.n == 3.0
    both = load(text, 'wrappers.1={use="scale"}', "wrappers.1.n=4")
    assert [wrapper.options.n for wrapper in both.experiment.wrappers][1] == 4.0


def test_a_list_that_is_not_there_is_made_and_one_that_is_grows(load, minimal):
    made = load(minimal, "wrappers.0.use=scale", "wrappers.0.n=2", 'wrappers.1={ use = "scale", n = 3 }')
    grown = load(minimal + '\n[[wrappers]]\nuse = "scale"\nn = 2.0\n', "wrappers.1.use=scale", "wrappers.1.n=3")
    for loaded in (made, grown):
        assert [wrapper.options.n for wrapper in loaded.experiment.wrappers] == [2.0, 3.0]


def test_mistakes_in_a_list_that_was_made_are_shown_in_their_items(problems, minimal):
    (error,) = problems(minimal, "wrappers.0.use=scale", "wrappers.0.n=often")
    assert (error.what, error.location.source) == ("wrappers.0.n has the wrong type", "--set wrappers.0.n=often")


def test_a_table_of_a_file_is_no_list(problems, minimal):
    (error,) = problems(minimal + '\n[wrappers.0]\nuse = "scale"\n')
    assert error.what == "wrappers has the wrong type"


def test_what_two_elements_use_names_neither(problems, minimal):
    text = minimal + '\n[[wrappers]]\nuse = "scale"\n[[wrappers]]\nuse = "scale"\n'
    (error,) = problems(text, "wrappers.scale.n=1")
    assert error.what == "wrappers is a list and has several elements scale"
    assert error.help == "count from 0: wrappers.0..."


def test_a_misspelt_element_has_its_nearest(problems, minimal):
    (error,) = problems(minimal + '\n[[wrappers]]\nuse = "scale"\n', "wrappers.scal.n=1")
    assert error.what == "wrappers is a list and has no element scal"
    assert error.nearest == ("scale",)


def test_the_last_of_several_wins(load, minimal):
    assert load(minimal, "seed=1", "seed=2").experiment.seed == 2


def test_an_override_mends_a_wrong_value(load, minimal):
    assert load(minimal + "n_epochs = true\n", "trainer.n_epochs=3").experiment.trainer.options.n_epochs == 3


def test_a_component_is_exchanged_as_a_whole(load, minimal):
    loaded = load(minimal + "lr = 1.0\n", 'trainer={ use = "toy-two" }')
    assert loaded.experiment.trainer.use == "toy-two"


@pytest.mark.parametrize("word", ["cuda", "cuda:1", "./a/b.toml", "CartPole-v1", "_x", "TrueNorth"])
def test_a_bare_word_is_text(load, minimal, word):
    assert load(minimal, f"trainer.device={word}").experiment.trainer.options.device == word


WRONG = {
    "trainer.lr": ("an override is written path=value", 7, "for example --set trainer.lr=1e-3"),
    "": ("an override is written path=value", 7, "for example"),
    "=3": ("an override is written path=value", 7, "for example"),
    "trainer..lr=3": ("an override is written path=value", 7, "for example"),
    "trainer.lr=": ("no value is given for trainer.lr", 7, "--set trainer.lr=VALUE"),
    "trainer.device=my cuda": (
        "the value given for trainer.device is not a TOML value",
        22,
        "'trainer.device=\"my cuda\"'",
    ),
    "trainer.device=Foo(1)": (
        "the value given for trainer.device is not a TOML value",
        22,
        "'trainer.device=\"Foo(1)\"'",
    ),
    "trainer.device=~/x": ("the value given for trainer.device is not a TOML value", 22, "'trainer.device=\"~/x\"'"),
    "trainer.device='x": ("the value given for trainer.device is not a TOML value", 22, "single quotes"),
    "trainer.lr=fast": ("trainer.lr has the wrong type", 18, "maze describe trainer toy"),
    "trainer.device=True": ("the value given for trainer.device is not a TOML value", 22, "trainer.device=true"),
    "trainer.lr=none": ("the value given for trainer.lr is not a TOML value", 18, "no null"),
    "trainer.lr=1\nseed=2": ("the value given for trainer.lr is not a TOML value", 18, "single quotes"),
    "trainer.lr=" + "[" * 5000: ("the value given for trainer.lr is nested too deeply", 18, "single quotes"),
    "trainer.lr=" + "[" * 50 + "]" * 50: ("the value given for trainer.lr is not a TOML value", 18, "single quotes"),
    "seed.x=1": ("seed is a value and holds no x", 7, "set seed itself"),
    "wrappers.3.n=1": ("wrappers is a list and has no element 3", 7, "count from 0"),
    "wrappers.-1.n=1": ("wrappers is a list and has no element -1", 7, "count from 0"),
    "wrappers.x.n=1": ("wrappers is a list and has no element x", 7, "count from 0"),
    "trainer.lrr=1": ('trainer.lrr is not an option of trainer "toy"', 7, "maze describe trainer toy"),
    "trainer.n_epochs=1.5": ("trainer.n_epochs has the wrong type", 24, "maze describe trainer toy"),
    'trainer.lr={start="a"}': ("trainer.lr.start has the wrong type", 18, "maze describe trainer toy"),
    'trainer.use="own"': ("no trainer is called 'own'", 19, "list-plugins"),
    'trainer.use="ppo"': ("no trainer is called 'ppo'", 19, "pip install maze-ppo"),
    "trainer.optimiser.lr=1": ('trainer.optimiser is not an option of trainer "toy"', 7, "maze describe trainer toy"),
    "modle.use=net": ("modle is not an option of an experiment", 7, "the file takes"),
    'trainer.lr.shape="linear"': ("trainer.lr.start is missing", 7, "add start"),
    "wrappers.1.n=1": ("wrappers.1 does not say which wrapper to use", 7, "add use ="),
    "loggers.1.use=paper": ("loggers has the wrong type", 21, "[[loggers]]"),
    'name="../x"': ("name: the name becomes a folder", 12, "Names the folder"),
}


@pytest.mark.parametrize("item", WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_wrong_overrides(problems, minimal, item):
    what, column, help_ = WRONG[item]
    (problem,) = problems('seed = 1\nwrappers = [{ use = "scale" }]\n' + minimal, item)
    assert problem.what.startswith(what)
    assert help_ in problem.help
    assert str(problem.location) == "command line"
    assert problem.location.column == column
    assert problem.location.source.startswith("--set ")
    assert "\n" not in problem.location.source
    assert len(problem.location.source) < 200
