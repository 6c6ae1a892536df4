"""What samplers propose: inside the space, the same for the same seed, better than at random; and what is stored."""

import math
import statistics

import optuna
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maze_kernel.errors import RequestError
from maze_optuna.options import OptunaOptions
from maze_optuna.searcher import OptunaSearcher
from maze_sweeps.contract import SearchContext
from maze_sweeps.space import Branch, Choice, Range, Space, Values
from maze_testing.searchers import check_searcher, end_trial, past_trial, play_trials, require_draw

SAMPLERS = ("tpe", pytest.param("gp", marks=pytest.mark.slow), "cma-es", "qmc", "nsga2", "random")
PRUNERS = ("none", "median", "successive-halving", "hyperband")
QUICKLY = {"tpe": {"n_startup_trials": 4}, "gp": {"n_startup_trials": 4}, "nsga2": {"population_size": 4}}


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_searcher_conforms(tmp_path, sampler):
    options = OptunaOptions(sampler=sampler, storage="journal", **QUICKLY.get(sampler, {}))
    check_searcher(lambda context: OptunaSearcher(context, options), tmp_path, n_trials=8)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_sampler_tries_different_settings(make_searcher, sampler):
    searcher, trials = make_searcher(sampler=sampler, **QUICKLY.get(sampler, {})), []
    play_trials(searcher, range(8), trials)
    assert len({trial.draw["trainer"] for trial in trials}) > 1
    assert len({trial.draw["trainer.lr"] for trial in trials}) >= 5


def leaf_strategy(depth=2):
    number = st.floats(-100, 100).map(lambda value: round(value, 3))
    ranges = st.builds(
        lambda low, width, step: {"kind": "range", "low": low, "high": low + width, "step": step},
        number,
        st.floats(0, 50).map(lambda value: round(value, 3)),
        st.none() | st.sampled_from([0.001, 0.1, 0.3, 7.0]),
    )
    integers = st.builds(
        lambda low, width, step: {"kind": "range", "low": low, "high": low + width, "step": step, "is_integer": True},
        st.integers(-50, 50),
        st.integers(0, 40),
        st.none() | st.integers(1, 9),
    )
    logs = st.builds(
        lambda low, ratio, whole: {
            "kind": "range",
            "low": math.ceil(low) if whole else low,
            "high": math.ceil(low * ratio) if whole else low * ratio,
            "log": True,
            "is_integer": whole,
        },
        st.floats(1e-6, 100),
        st.floats(1, 1000),
        st.booleans(),
    )
    scalar = st.integers(-5, 5) | st.text(max_size=3) | st.booleans() | st.floats(allow_nan=False)
    values = st.lists(
        scalar | st.lists(st.integers(0, 3), max_size=2) | st.dictionaries(st.sampled_from("ab"), scalar, max_size=2),
        min_size=1, max_size=4, unique_by=repr,
    ).map(lambda values: {"kind": "values", "values": values})  # fmt: skip
    plain = ranges | integers | logs | values
    if depth == 0:
        return plain
    branches = st.lists(st.lists(leaf_strategy(depth - 1), max_size=2), min_size=1, max_size=3)
    return plain | branches.map(lambda branches: {"kind": "choice", "branches": branches})


def make_leaf(told, name):
    told = dict(told)
    kind = told.pop("kind")
    if kind == "values":
        return Values(name=name, path=name, values=tuple(told["values"]))
    if kind == "range":
        return Range(name=name, path=name, **told)
    branches = []
    for index, own in enumerate(told["branches"]):
        leaves = tuple(make_leaf(leaf, f"{name}[b{index}].{place}") for place, leaf in enumerate(own))
        branches.append(Branch(label=f"b{index}", settings={}, leaves=leaves))
    return Choice(name=name, path=name, branches=tuple(branches))


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    told=st.lists(leaf_strategy(), min_size=1, max_size=4), sampler=st.sampled_from(SAMPLERS), seed=st.integers(0, 99)
)
def test_every_space_can_be_walked_stored_and_restored(tmp_path_factory, told, sampler, seed):
    space = Space(leaves=tuple(make_leaf(leaf, f"leaf{index}") for index, leaf in enumerate(told)))
    if sampler == "cma-es" and not any(isinstance(leaf, Range) for leaf in space.leaves):
        sampler = "random"
    context = SearchContext(
        name="x", space=space, n_trials=9, maximize=False, seed=seed, folder=tmp_path_factory.mktemp("sweep")
    )
    options, trials = OptunaOptions(sampler=sampler, storage="journal", **QUICKLY.get(sampler, {})), []
    play_trials(OptunaSearcher(context, options), range(7), trials, at_a_time=2)
    for trial in trials:
        require_draw(space, trial.draw)
    again = OptunaSearcher(context, options)
    again.restore(trials)
    require_draw(space, again.propose(7))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_another_seed_proposes_other_settings(make_searcher, tmp_path, sampler):
    told = []
    for seed in (7, 8):
        (tmp_path / str(seed)).mkdir()
        searcher, trials = make_searcher(context={"seed": seed, "folder": tmp_path / str(seed)}, sampler=sampler), []
        play_trials(searcher, range(3), trials)
        told.append([trial.draw for trial in trials])
    assert told[0] != told[1]


def test_no_more_trials_than_wanted_are_proposed(make_searcher):
    searcher, trials = make_searcher(context={"n_trials": 2}, sampler="random"), []
    play_trials(searcher, range(2), trials)
    assert searcher.propose(2) is None


TOY = Space(
    leaves=(
        Range(name="x", path="x", low=-5.0, high=5.0),
        Range(name="y", path="y", low=1e-4, high=1.0, log=True),
        Choice(
            name="z",
            path="z",
            branches=(
                Branch(label="good", settings={}, leaves=(Range(name="z[good].d", path="d", low=0.0, high=4.0),)),
                Branch(label="bad", settings={}),
            ),
        ),
    )
)


def toy(draw):
    """Best is 0: x = 1, y = 0.01, the good branch with d = 3."""
    rest = 4.0 if draw["z"] == "bad" else (draw["z[good].d"] - 3.0) ** 2
    return -((draw["x"] - 1.0) ** 2) - (math.log10(draw["y"]) + 2.0) ** 2 - rest


def best_of(make_searcher, folder, sampler, seed, n_trials):
    folder.mkdir()
    context = {"seed": seed, "folder": folder, "n_trials": n_trials}
    searcher = make_searcher(TOY, context, sampler=sampler)
    values = []
    for number in range(n_trials):
        values.append(toy(searcher.propose(number)))
        searcher.finish(number, "done", values[-1])
    return max(values)


@pytest.mark.slow
@pytest.mark.parametrize(("sampler", "n_seeds", "n_trials"), [("tpe", 11, 40), ("gp", 3, 24)])
def test_samplers_that_learn_find_better_settings_than_random_ones(make_searcher, tmp_path, sampler, n_seeds, n_trials):
    """Medians of the best trial over some seeds, of a function with a condition, whose best is 0."""

    def median(name):
        folders = [tmp_path / f"{name}-{seed}" for seed in range(n_seeds)]
        return statistics.median(
            best_of(make_searcher, folder, name, seed, n_trials) for seed, folder in enumerate(folders)
        )

    assert median(sampler) > median("random") / 2


def test_minimizing_looks_for_small_values(make_searcher):
    """TPE with a hundred times as much to learn from as to guess: what it proposes in the end is near the minimum."""
    space = Space(leaves=(Range(name="x", path="x", low=0.0, high=1.0),))
    searcher = make_searcher(space, {"maximize": False, "n_trials": 60}, n_startup_trials=10)
    proposed = []
    for number in range(60):
        proposed.append(searcher.propose(number)["x"])
        searcher.finish(number, "done", (proposed[-1] - 0.2) ** 2)
    assert abs(statistics.median(proposed[-20:]) - 0.2) < 0.05


def test_cma_es_learns_and_stores_no_pickle(make_searcher, tmp_path):
    """Generations of four on a slope: the last ones lie higher than the first."""
    leaves = tuple(Range(name=name, path=name, low=0.0, high=1.0) for name in "abc")
    searcher = make_searcher(Space(leaves=leaves), {"n_trials": 60}, sampler="cma-es", population_size=4)
    told = []
    for number in range(60):
        told.append(sum(searcher.propose(number).values()))
        searcher.finish(number, "done", told[-1])
    assert statistics.mean(told[-12:]) > statistics.mean(told[:12]) + 0.5
    text = (tmp_path / "study.journal").read_text()
    assert "cma:generation" in text
    assert "optimizer" not in text


def test_cma_es_proposes_what_optunas_own_would(make_searcher, tmp_path):
    """The optimizer told anew is the one that Optuna stores: equal proposals, through several generations."""
    from maze_optuna.sampling import make_sampler

    leaves = tuple(Range(name=name, path=name, low=0.0, high=1.0) for name in "abc")
    searcher = make_searcher(Space(leaves=leaves), {"n_trials": 30}, sampler="cma-es", population_size=4)
    study = optuna.create_study(direction="maximize")
    for number in range(30):
        ours = make_sampler(OptunaOptions(sampler="cma-es", population_size=4), 7, number)
        study.sampler = optuna.samplers.CmaEsSampler(popsize=4, seed=1, warn_independent_sampling=False)
        study.sampler._cma_rng, study.sampler._independent_sampler = ours._cma_rng, ours._independent_sampler
        if number > 5:  # Optuna's optimizer is stored after its first generation; a new one draws a number more
            ours._cma_rng.rng.randint(1, 2**31 - 2)
        trial = study.ask()
        theirs = {name: trial.suggest_float(name, 0.0, 1.0) for name in "abc"}
        assert searcher.propose(number) == pytest.approx(theirs), number
        searcher.finish(number, "done", sum(theirs.values()))
        study.tell(trial, sum(theirs.values()))


class TestWhatIsStored:
    def test_lists_and_tables_are_text_and_labels_name_branches(self, make_searcher, tmp_path):
        searcher, trials = make_searcher(sampler="random", storage="sqlite"), []
        play_trials(searcher, range(12), trials)
        study = optuna.load_study(study_name="poles", storage=f"sqlite:///{tmp_path / 'study.db'}")
        for stored, trial in zip(study.trials, trials, strict=True):
            assert set(stored.params) == set(trial.draw)
            assert stored.params["units"] in ("[64, 64]", "[256]", "{ a = 1, b = [true] }", "[]")
            assert stored.params["trainer"] == trial.draw["trainer"]
            assert stored.params["trainer.lr"] == trial.draw["trainer.lr"]
        assert {stored.params["equal"] for stored in study.trials} == {"1", "true", "1.5"}

    def test_ranges_are_optunas_distributions(self, make_searcher, tmp_path):
        searcher, trials = make_searcher(sampler="random"), []
        play_trials(searcher, range(1), trials)
        told = searcher._study.trials[0].distributions
        assert told["trainer.lr"] == optuna.distributions.FloatDistribution(1e-5, 1e-2, log=True)
        assert told["share"] == optuna.distributions.FloatDistribution(0.1, 0.9, step=0.1)
        assert told["vector.n_envs"] == optuna.distributions.IntDistribution(8, 56, step=8)
        assert told["batch"] == optuna.distributions.IntDistribution(1, 4096, log=True)

    def test_steps_are_short_numbers(self, make_searcher):
        space = Space(leaves=(Range(name="x", path="x", low=0.0, high=1.0, step=0.1),))
        searcher = make_searcher(space, sampler="random")
        assert {searcher.propose(number)["x"] for number in range(30)} <= {round(k / 10, 1) for k in range(11)}


class TestRefusals:
    def test_a_logarithmic_range_with_steps(self, make_searcher):
        space = Space(leaves=(Range(name="trainer.lr", path="trainer.lr", low=0.1, high=1.0, log=True, step=0.1),))
        with pytest.raises(RequestError, match=r"trainer\.lr is a logarithmic range with a step"):
            make_searcher(space)

    def test_a_sweep_without_end(self, make_searcher):
        with pytest.raises(RequestError, match="n_trials"):
            make_searcher(context={"n_trials": 0})

    def test_cma_es_without_numbers(self, make_searcher):
        with pytest.raises(RequestError, match="this space has none"):
            make_searcher(Space(leaves=(Values(name="x", path="x", values=(1, 2)),)), sampler="cma-es")

    def test_a_sampler_whose_package_is_missing(self, make_searcher, monkeypatch):
        import importlib.util

        found = importlib.util.find_spec
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "cmaes" else found(name))
        with pytest.raises(RequestError, match=r"pip install \"maze-optuna\[cma-es\]\""):
            make_searcher(sampler="cma-es")

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"sampler": "random", "n_startup_trials": 3}, "n_startup_trials is for sampler tpe and gp and cma-es"),
            ({"pruner": "median", "min_resource": 3}, "min_resource is for pruner successive-halving and hyperband"),
            ({"storage": "study.db"}, "storage"),
        ],
    )
    def test_options_that_do_nothing(self, options, said):
        with pytest.raises(ValueError, match=said):
            OptunaOptions(**options)


class TestEnds:
    def test_a_value_that_is_nan_has_failed(self, make_searcher):
        searcher = make_searcher(sampler="random")
        searcher.propose(0)
        searcher.finish(0, "done", math.nan)
        assert searcher._study.trials[0].state.name == "FAIL"

    @pytest.mark.parametrize("reports", [[], [(1000, 2.5)], [(1000, 9.0), (2000, 2.5)]])
    def test_a_pruned_trial_has_its_last_value(self, make_searcher, reports):
        searcher = make_searcher(sampler="random")
        searcher.propose(0)
        for step, value in reports:
            assert not searcher.report(0, step, value)
        searcher.finish(0, "pruned", 2.5)
        told = searcher._study.trials[0]
        assert (told.state.name, told.value) == ("PRUNED", 2.5)

    def test_a_diverged_trial_without_a_value_is_pruned(self, make_searcher):
        searcher = make_searcher(sampler="random")
        searcher.propose(0)
        assert not searcher.report(0, 1000, math.nan)
        searcher.finish(0, "pruned", None)
        told = searcher._study.trials[0]
        assert (told.state.name, told.value) == ("PRUNED", None)

    @pytest.mark.parametrize("last", [math.nan, 1.0, None])
    def test_samplers_keep_away_from_where_trials_diverged(self, make_searcher, last):
        """Every trial with x above a half diverges, some with a last value as good as all others."""
        space = Space(leaves=(Range(name="x", path="x", low=0.0, high=1.0),))
        searcher = make_searcher(space, {"n_trials": 60})
        proposed = []
        for number in range(60):
            proposed.append(searcher.propose(number)["x"])
            diverged = proposed[-1] > 0.5
            if not diverged or last is not None:
                searcher.report(number, 1000, last if diverged else 1.0)
            searcher.finish(number, "pruned" if diverged else "done", last if diverged else 1.0)
        assert sum(x > 0.5 for x in proposed[-20:]) <= 4


class TestImportances:
    def test_what_decides_has_most(self, make_searcher):
        leaves = (
            Range(name="much", path="much", low=0.0, high=1.0),
            Range(name="none", path="none", low=0.0, high=1.0),
        )
        searcher = make_searcher(Space(leaves=leaves), {"n_trials": 50}, sampler="qmc")
        for number in range(50):
            searcher.finish(number, "done", searcher.propose(number)["much"])
        found = searcher.importances()
        assert sum(found.values()) == pytest.approx(1.0)
        assert found["much"] > 0.8

    def test_leaves_of_branches_are_among_them(self, make_searcher):
        searcher = make_searcher(TOY, {"n_trials": 60}, sampler="qmc")
        for number in range(60):
            searcher.finish(number, "done", toy(searcher.propose(number)))
        assert set(searcher.importances()) == {"x", "y", "z", "z[good].d"}

    def test_nothing_is_said_where_nothing_can_be(self, make_searcher, tmp_path):
        assert make_searcher(sampler="random").importances() == {}
        searcher = make_searcher(sampler="random")
        for number in range(9):
            searcher.propose(number)
            searcher.finish(number, "done", float(number))
        assert searcher.importances() == {}
        searcher.propose(9)
        searcher.finish(9, "done", 9.0)
        assert sum(searcher.importances().values()) == pytest.approx(1.0)

    def test_equal_values_tell_nothing(self, make_searcher):
        searcher = make_searcher(sampler="random")
        for number in range(12):
            searcher.propose(number)
            searcher.finish(number, "done", 3.0)
        assert searcher.importances() == {}


@pytest.mark.parametrize("pruner", PRUNERS)
def test_every_pruner_runs_beside_every_kind_of_end(make_searcher, pruner):
    searcher, trials = make_searcher(sampler="tpe", n_startup_trials=3, pruner=pruner), []
    play_trials(searcher, range(20), trials, at_a_time=3, n_reports=5)
    assert ("pruned" in {trial.state for trial in trials}) == (pruner != "none")
    stored = {"COMPLETE": "done", "PRUNED": "pruned", "FAIL": "failed"}
    assert [stored[trial.state.name] for trial in searcher._study.trials] == [trial.state for trial in trials]


def test_trials_may_end_in_any_order(make_searcher):
    searcher = make_searcher(sampler="tpe", n_startup_trials=2)
    trials = [past_trial(number, searcher.propose(number)) for number in range(6)]
    for number in (3, 0, 5, 1):
        end_trial(searcher, number, trials)
    assert [trial.state.name for trial in searcher._study.trials][2] == "RUNNING"
    check = [dict(trial.intermediate_values) for trial in searcher._study.trials]
    assert check[2] == {}
    assert sorted(check[5]) == [1000, 2000, 3000]
