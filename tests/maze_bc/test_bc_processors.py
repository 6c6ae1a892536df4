"""Which decisions are learnt from: before dead ends, or what a function says; against counting by hand."""

import numpy as np
import pytest

from maze_bc.options import BCOptions, ClipDeadEnds, OwnProcessor
from maze_bc.processors import clip_dead_end
from maze_bc.sources import open_demonstrations
from maze_kernel.config import load_experiment
from maze_kernel.errors import MazeError, RequestError
from maze_runtime.env.simulation import Recording
from maze_runtime.run.assembly import Assembly
from maze_testing.environments import Identity
from maze_trajectories.dataset import TrajectoryDataset
from maze_trajectories.recording import RecordingEnv

HERE = "processors_of_this_test"


def rewarded(episode, *, at_least=0.5):
    return episode.reward >= at_least


class EveryOther:
    """Keeps decisions whose number leaves a rest."""

    def __init__(self, n=2, rest=0):
        self.n, self.rest = n, rest

    def __call__(self, episode):
        return np.arange(len(episode)) % self.n == self.rest


def too_short(episode):
    return np.ones(3, bool)


def numbers(episode):
    return np.arange(len(episode))


def nothing(episode):
    return np.zeros(len(episode), bool)


def failing(episode):
    raise ValueError("no such thing")


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, HERE, sys.modules[__name__])


def own(name, **kwargs):
    return {"use": f"{HERE}:{name}", "kwargs": kwargs}


@pytest.fixture
def ended(tmp_path):
    """A recording of three episodes: terminated after 10 decisions, cut after 6, terminated after 4."""
    for seed, (n_steps, stop) in enumerate(((10, 10), (20, 6), (4, 4))):
        env = RecordingEnv(Identity(kind="discrete", n_steps=n_steps), Recording(folder=tmp_path / "ended"))
        observation, _ = env.reset(seed=seed)
        for t in range(stop):
            action = int(observation["observation"].argmax()) if t % 3 else 0
            observation, _, terminated, truncated, _ = env.step({"action": action})
            assert (terminated or truncated) == (t + 1 == n_steps)
        env.close()
    return tmp_path / "ended"


def kept_of(trainer, n_episodes=3):
    """Places of the decisions that are learnt from, episode by episode."""
    demonstrations = trainer._minibatches.demonstrations
    return [demonstrations.read(index)["0"].place.tolist() for index in range(n_episodes)]


@pytest.mark.parametrize("n_steps", [1, 3, 4, 7])
def test_the_end_of_terminated_episodes_is_left_out(ended, make_trainer, n_steps):
    options = {"processor": {"use": "clip-dead-ends", "n_steps": n_steps}, "validation_percentage": 0}
    trainer = make_trainer(ended, trainer=options)
    recorded = TrajectoryDataset.open(ended)
    wanted = []
    for episode in recorded:
        n, terminated = len(episode), bool(episode.terminated[-1])
        wanted.append([t for t in range(n) if not terminated or t < n - n_steps])
    assert kept_of(trainer) == wanted
    assert list(trainer._demonstrations.lengths) == [len(own) for own in wanted]
    trainer.train_epoch()


def test_all_decisions_of_the_last_flat_steps_are_left_out(cutting):
    assembly = cutting("structured", "structured")
    for episode in TrajectoryDataset.open(assembly.experiment.trainer.options.demonstrations.options.path):
        n = len(episode)
        ended = _as_terminated(episode)
        assert clip_dead_end(ended, n_steps=2).tolist() == [True] * (n - 4) + [False] * 4
        assert clip_dead_end(episode, n_steps=2).all()


def _as_terminated(episode):
    import attrs

    assert not episode.terminated.any()
    return attrs.evolve(episode, terminated=np.arange(len(episode)) == len(episode) - 1)


@pytest.mark.parametrize("workers", [False, True])
def test_a_function_of_the_users_says_what_is_learnt_from(ended, make_trainer, workers):
    pool = {"workers": {"use": "inline", "count": 2}} if workers else {}
    trainer = make_trainer(ended, trainer={"processor": own("rewarded", at_least=0.5)}, **pool)
    wanted = [np.flatnonzero(episode.reward >= 0.5).tolist() for episode in TrajectoryDataset.open(ended)]
    assert kept_of(trainer) == wanted
    assert 0 < sum(map(len, wanted)) < 20
    trainer.train_epoch()
    trainer.close()


def test_so_does_a_class(ended, make_trainer):
    trainer = make_trainer(ended, trainer={"processor": own("EveryOther", n=3, rest=1)})
    assert kept_of(trainer) == [[1, 4, 7], [1, 4], [1]]


def test_wrappers_that_remember_see_the_decisions_that_are_left_out(ended, make_trainer):
    wrapper = [{"use": "observation-stack", "n": 2}]
    options = {"processor": own("EveryOther"), "validation_percentage": 0}
    seen = make_trainer(ended, trainer=options, wrappers=wrapper)._minibatches.demonstrations.read(0)["0"]
    every = make_trainer(ended, trainer={"validation_percentage": 0}, wrappers=wrapper)
    everything = every._minibatches.demonstrations.read(0)["0"]
    for name, array in seen.observation.items():
        np.testing.assert_array_equal(array, everything.observation[name][::2])


@pytest.mark.parametrize(("recorded", "trained"), [("masked", "masked"), ("flat", "masked")])
def test_states_that_are_converted_anew_are_left_out_alike(cutting, recorded, trained):
    options = {"use": "bc", "device": "cpu", "processor": own("EveryOther")}
    assembly = cutting(recorded, trained)
    data, context = assembly.experiment.trainer.options.demonstrations, assembly.trainer_context()
    whole = open_demonstrations(data, context)
    half = open_demonstrations(data, context, BCOptions(demonstrations=data, processor=_options(options)).processor)
    for index in range(len(whole.lengths)):
        every, some = whole.read(index), half.read(index)
        flat = recorded == "flat"
        for key in every:
            place = every[key].place
            kept = (place // 2 if flat else place) % 2 == 0
            left = some[key].without_the_rest()
            np.testing.assert_array_equal(left.place, place[kept])
            for head, array in every[key].action.items():
                np.testing.assert_array_equal(left.action[head], array[kept])
        assert half.lengths[index] == sum(len(own.without_the_rest().place) for own in some.values())
    whole.close()
    half.close()


def _options(options):
    return OwnProcessor(**options["processor"])


def test_validation_and_training_never_get_an_episode_of_which_nothing_is_left(ended, make_trainer):
    trainer = make_trainer(ended, trainer={"processor": {"use": "clip-dead-ends", "n_steps": 4}})
    assert list(trainer._demonstrations.lengths) == [6, 6, 0]
    statistics = trainer.train_epoch()
    assert all(np.isfinite(value) for value in statistics.values())
    assert 2 not in trainer._minibatches.episodes + trainer._validation.episodes


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("too_short", "does not say which decisions"),
        ("numbers", "does not say which decisions"),
        ("failing", "no such thing"),
        ("misspelt", "has no misspelt"),
        ("nothing", "no decisions to learn from"),
    ],
)
def test_what_cannot_be_used_is_refused(ended, make_trainer, name, words):
    with pytest.raises(RequestError, match=words) as refusal:
        make_trainer(ended, trainer={"processor": own(name)})
    options = {"nothing": "demonstrations", "misspelt": "processor.use"}
    assert refusal.value.option == options.get(name, "processor")


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ('{ use = "clip-dead-ends" }', "n_steps"),
        ('{ use = "clip-dead-ends", n_steps = 0 }', ">= 1"),
        ('{ use = "clip-dead-endz" }', "clip-dead-ends"),
        (f'{{ use = "{HERE}:numbers" }}', "does not say which decisions"),
    ],
)
def test_mistakes_are_shown_where_they_stand(ended, kernel, tmp_path, written, words):
    file, data = tmp_path / "experiment.toml", f'demonstrations = {{ path = "{ended}" }}'
    env = f'[env]\nuse = "{Identity.__module__}:Identity"'
    file.write_text(f'name = "x"\n{env}\n[trainer]\nuse = "bc"\n{data}\nprocessor = {written}\n')
    with pytest.raises(MazeError) as error:
        start(file, kernel)
    text = error.value.render()
    assert words in text
    assert "experiment.toml:7:" in text
    assert "^" in text


def start(file, kernel):
    assembly = Assembly(load_experiment(file, kernel=kernel), kernel)
    return assembly.make_trainer(assembly.trainer_context())


def test_a_run_keeps_the_processor_it_was_given(ended, assemble):
    processor = {"use": "clip-dead-ends", "n_steps": 2}
    options = assemble(ended, trainer={"processor": processor}).experiment.trainer.options
    assert options.processor == ClipDeadEnds(n_steps=2)
