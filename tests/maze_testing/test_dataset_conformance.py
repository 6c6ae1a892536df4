"""The suite for datasets: what the kernel brings keeps the contract, and broken sources are found."""

from functools import partial

import attrs
import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.config.load import select
from maze_kernel.loader import Kernel
from maze_processes.pool import SubprocessPool
from maze_runtime.datasets.opening import open_dataset
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.env.simulation import Recording
from maze_runtime.workers.options import WorkersOptions
from maze_testing.conformance import ConformanceError
from maze_testing.datasets import check_dataset
from maze_testing.environments import TwoStep
from maze_trajectories.recording import RecordingEnv


class Dial(FlatEnv):
    """Observes the last action; three steps an episode."""

    structured_spaces = flat_spaces(
        spaces.Dict({"at": spaces.Box(-1.0, 1.0, (2,), np.float32)}),
        spaces.Dict({"turn": spaces.Box(-1.0, 1.0, (2,), np.float32), "press": spaces.Discrete(3)}),
    )

    def reset(self, *, seed=None, options=None):
        self._t, self._at = 0, np.zeros(2, np.float32)
        return {"at": self._at}, {}

    def step(self, action):
        self._t, self._at = self._t + 1, action["turn"]
        return {"at": self._at}, float(action["press"]), self._t == 3, False, {}


def record(make_env, folder, n_episodes=3):
    env = RecordingEnv(make_env(), Recording(folder=folder))
    for space in env.structured_spaces.action.values():
        space.seed(0)
    for seed in range(n_episodes):
        env.reset(seed=seed)
        ended = False
        while not ended:
            *_, terminated, truncated, _ = env.step(env.structured_spaces.action[env.actor_id().step_key].sample())
            ended = terminated or truncated
    env.close()
    return folder


def opened(**table):
    return partial(open_dataset, select(Kernel.installed(), "dataset", table))


@pytest.mark.parametrize("make_env", [Dial, TwoStep])
def test_recordings_keep_the_contract(make_env, tmp_path):
    folder = record(make_env, tmp_path / "recording")
    check_dataset(opened(path=str(folder)), make_env, pool=SubprocessPool(WorkersOptions(count=1)))


@pytest.mark.filterwarnings("ignore::UserWarning:minari.*")
def test_minari_datasets_keep_the_contract(tmp_path, monkeypatch):
    from maze_trajectories.dataset import TrajectoryDataset
    from maze_trajectories.minari_datasets import export_to_minari

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    export_to_minari(TrajectoryDataset.open(record(Dial, tmp_path / "recording")), "toy/dial-v0")
    check_dataset(opened(use="minari", id="toy/dial-v0"), Dial)


class Broken:
    """A source that says something else than another one here and there."""

    def __init__(self, source, **spoilt):
        self._source, self._spoilt = source, spoilt

    def __getattr__(self, name):
        return self._spoilt[name] if name in self._spoilt else getattr(self._source, name)


def in_double_precision(episode):
    return {"0": {name: array.astype(np.float64) for name, array in episode.observation["0"].items()}}


SPOILT_EPISODES = {
    "rewards": ("reward", lambda _episode: np.full(3, 7.0), "total_reward"),
    "action": ("action", lambda _episode: {"0": {}}, "action 0 of episode 0 has keys"),
    "type": ("observation", in_double_precision, "dtype float64"),
    "end": ("terminated", lambda _episode: np.array([True, False, True]), "goes on after its end"),
    "agent": ("agent_id", lambda _episode: np.full(3, 5), "agent 5 of 1"),
    "actor": ("key_index", lambda _episode: np.ones(3, np.int64), "policy key number 1"),
    "column": ("flat_step_end", lambda _episode: np.ones((3, 1), bool), "has shape (3, 1)"),
}


@pytest.fixture
def sound(tmp_path):
    return opened(path=str(record(Dial, tmp_path / "recording")))


@pytest.mark.parametrize("fault", SPOILT_EPISODES)
def test_broken_episodes_are_found(fault, sound):
    field, spoil, message = SPOILT_EPISODES[fault]

    def open_broken(context):
        source = sound(context)

        def read(index):
            episode = source.read(index)
            return attrs.evolve(episode, **{field: spoil(episode)})

        return Broken(source, read=read)

    with pytest.raises(ConformanceError) as caught:
        check_dataset(open_broken, Dial)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [({"lengths": [3, 3, 4]}, "different things"), ({"lengths": []}, "without any"), ({"name": ""}, "no name")],
)
def test_broken_sources_are_found(spoilt, message, sound):
    with pytest.raises(ConformanceError, match=message):
        check_dataset(lambda context: Broken(sound(context), **spoilt), Dial)


def test_a_stream_that_can_be_read_only_in_its_order_is_found(sound):
    def open_stream(context):
        source, turns = sound(context), iter([0, 1, 2] * 2)
        return Broken(source, read=lambda _index: source.read(next(turns)))

    with pytest.raises(ConformanceError, match="another order"):
        check_dataset(open_stream, Dial)
