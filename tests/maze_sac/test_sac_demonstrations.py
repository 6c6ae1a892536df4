"""SAC from demonstrations: what is recorded reaches the batches, stays if it shall, and is refused if it cannot."""

from types import SimpleNamespace

import attrs
import gymnasium
import minari
import numpy as np
import psutil
import pytest
import torch
from gymnasium import spaces

from maze_kernel.config.load import select
from maze_kernel.contracts.env import ActorID, StructuredEnv, StructuredSpaces
from maze_kernel.errors import MazeError, NonFiniteError, RequestError, SpaceError
from maze_runtime.datasets.pooled_source import PooledSource
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.env.simulation import Recording
from maze_sac.experience import Experience
from maze_sac.options import SACOptions
from maze_testing.trainers import check_trainer
from maze_trajectories.episode_file import encode_episode, read_episode
from maze_trajectories.recording import RecordingEnv

NO_WEIGHTS = SimpleNamespace(data=torch.empty(0))
"""Of a model that is not trained."""

GAMMA = 0.9
SMALL = {"use": "sac", "epoch_length": 4, "batch_size": 16, "initial_buffer_size": 40, "replay_buffer_size": 400}


class Counter(FlatEnv):
    """Observes the step count; the reward is the action; every second episode terminates, the others are truncated."""

    structured_spaces = flat_spaces(
        spaces.Dict({"count": spaces.Box(-np.inf, np.inf, (1,), np.float32)}),
        spaces.Dict({"push": spaces.Box(-1.0, 1.0, (1,), np.float32)}),
    )

    def __init__(self, n_steps=5):
        self.n_steps, self.t, self.n_episodes = n_steps, 0, 0

    def reset(self, *, seed=None, options=None):
        self.t, self.n_episodes = 0, self.n_episodes + 1
        return self._observation(), {}

    def step(self, action):
        self.t += 1
        ends = self.t == self.n_steps
        terminates = self.n_episodes % 2 == 1
        return self._observation(), float(action["push"][0]), ends and terminates, ends and not terminates, {}

    def _observation(self):
        return {"count": np.array([self.t], np.float32)}


@pytest.fixture
def recording(tmp_path):
    """Four episodes of five steps; the k-th action of all is k / 100."""
    env = RecordingEnv(Counter(), Recording(folder=tmp_path / "expert"))
    pushes = iter(range(20))
    for seed in range(4):
        env.reset(seed=seed)
        ended = False
        while not ended:
            *_, terminated, truncated, _ = env.step({"push": np.array([next(pushes) / 100], np.float32)})
            ended = terminated or truncated
    env.close()
    return tmp_path / "expert"


@pytest.fixture
def tables(monkeypatch):
    """Tables of an experiment on the counter, given trainer options."""
    import sys

    module = __file__.rsplit("/", 1)[-1][:-3]
    monkeypatch.setitem(sys.modules, module, sys.modules[__name__])
    model = {"use": "auto", "hidden_units": [8]}
    return lambda **options: {"env": {"use": f"{module}:Counter"}, "model": model, "trainer": {**SMALL, **options}}


def pushes(batch):
    """Which recorded actions a batch holds, as numbers 0 to 19; others are random numbers."""
    return np.round(batch.action["push"][:, 0] * 100, 4)


def are_recorded(batch):
    numbers = pushes(batch)
    return np.isclose(numbers, np.round(numbers), atol=1e-4) & (numbers >= 0) & (numbers < 20)


@pytest.mark.parametrize("keep", [False, True])
def test_recorded_steps_are_transitions_like_any_other(kernel, assemble, recording, tables, keep):
    data = select(kernel, "dataset", {"path": str(recording)})
    options = SACOptions(demonstrations=data, keep_demonstrations=keep, gamma=GAMMA)
    assembly = assemble(**tables())
    experience = Experience(assembly.trainer_context(), assembly.make_model(), NO_WEIGHTS, options)
    experience.start_segment(0)
    experience.add_demonstrations()
    assert experience.n_transitions == 20
    if keep:
        experience.collect(1)
    batch = experience.sample(2000, np.random.default_rng(0))["0"].transitions
    rows = np.flatnonzero(are_recorded(batch))
    assert set(pushes(batch)[rows].round().tolist()) == set(range(20))
    for i in rows:
        k = round(pushes(batch)[i])
        step, episode = k % 5, k // 5
        assert batch.observation["count"][i, 0] == step
        assert batch.reward[i] == pytest.approx(k / 100)
        assert batch.discount[i] == np.float32(0.0 if step == 4 and episode % 2 == 0 else GAMMA)
        if batch.discount[i]:
            assert batch.next_observation["count"][i, 0] == step + 1


def test_they_count_for_the_first_fill(make_trainer, recording, tables):
    trainer = make_trainer(**tables(demonstrations={"path": str(recording)}))
    statistics = trainer.train_epoch()
    assert trainer.env_steps == (40 - 20) + 4 * 2
    assert statistics["SACEvents/buffer_size"] == 20 + trainer.env_steps


def sampled(trainer, n=4000):
    return trainer._experience.sample(n, np.random.default_rng(0))["0"].transitions


def test_new_transitions_overwrite_them_unless_they_are_kept(make_trainer, recording, tables):
    shares = {}
    for keep in (False, True):
        options = {"keep_demonstrations": keep, "replay_buffer_size": 60, "initial_buffer_size": 24}
        trainer = make_trainer(**tables(demonstrations={"path": str(recording)}, **options))
        for _ in range(25):
            trainer.train_epoch()
        shares[keep] = are_recorded(sampled(trainer)).mean()
    assert shares[False] == 0.0
    kept = trainer._experience._memory.n_transitions
    assert shares[True] == pytest.approx(kept / trainer._experience.n_transitions, abs=0.03)


@pytest.mark.parametrize("fraction", [0.25, 1.0])
def test_a_fraction_of_every_batch_comes_from_them(make_trainer, recording, tables, fraction):
    options = {"keep_demonstrations": True, "demonstration_fraction": fraction}
    trainer = make_trainer(**tables(demonstrations={"path": str(recording)}, **options))
    trainer.train_epoch()
    assert are_recorded(sampled(trainer, 400)).sum() == pytest.approx(400 * fraction, abs=3)


def test_a_fraction_that_is_less_than_one_of_a_batch_holds_over_many(make_trainer, recording, tables):
    options = {"keep_demonstrations": True, "demonstration_fraction": 0.03}
    trainer = make_trainer(**tables(demonstrations={"path": str(recording)}, **options))
    trainer.train_epoch()
    rng = np.random.default_rng(0)
    n_own = sum(are_recorded(trainer._experience.sample(10, rng)["0"].transitions).sum() for _ in range(1000))
    assert n_own / 10_000 == pytest.approx(0.03, abs=0.006)


@pytest.mark.parametrize("options", [{}, {"keep_demonstrations": True, "demonstration_fraction": 0.5}])
def test_a_restored_trainer_goes_on_bit_for_bit(assemble, recording, tables, options):
    assembly = assemble(**tables(demonstrations={"path": str(recording)}, **options))
    check_trainer(lambda: assembly.make_trainer(assembly.trainer_context()))


@pytest.mark.parametrize("options", [{}, {"keep_demonstrations": True}])
def test_a_run_goes_on_without_the_recording(assemble, recording, tables, tmp_path, options):
    assembly = assemble(**tables(demonstrations={"path": str(recording)}, **options))
    make = lambda: assembly.make_trainer(assembly.trainer_context())  # noqa: E731
    trainer = make()
    trainer.start_segment(0)
    trainer.train_epoch()
    recording.rename(tmp_path / "elsewhere")
    resumed = make()
    resumed.model.load_state_dict(trainer.model.state_dict())
    resumed.load_state_dict(trainer.state_dict())
    for each in (trainer, resumed):
        each.start_segment(1)
        each.train_epoch()
    for name, tensor in trainer.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name
    with pytest.raises(MazeError, match="no record"):
        make().start_segment(0)


def test_rewards_go_through_the_wrappers(make_trainer, recording, tables):
    trainer = make_trainer(
        **tables(demonstrations={"path": str(recording)}, keep_demonstrations=True),
        wrappers=[{"use": "reward-scaling", "scale": 10.0}],
    )
    trainer.train_epoch()
    batch = sampled(trainer)
    rows = are_recorded(batch)
    np.testing.assert_allclose(batch.reward[rows], 10.0 * batch.action["push"][rows, 0], atol=1e-5)


@pytest.mark.parametrize("keep", [False, True])
def test_running_statistics_scale_them_like_what_was_played(make_trainer, recording, tables, keep):
    trainer = make_trainer(
        **tables(demonstrations={"path": str(recording)}, keep_demonstrations=keep),
        wrappers=[
            {"use": "reward-scaling", "scale": 10.0},
            {"use": "observation-normalization", "statistics": "running"},
            {"use": "return-normalization"},
        ],
    )
    for _ in range(3):
        trainer.train_epoch()
    batch, (_, of_observations, of_returns) = sampled(trainer), trainer._context.transforms
    counts = {"count": np.arange(6, dtype=np.float32)[:, None]}
    scaled = of_observations.observation("0", counts)["count"][:, 0]
    for seen in (batch.observation["count"], batch.next_observation["count"][batch.discount > 0]):
        assert np.abs(seen - scaled).min(axis=1).max() < 1e-5
    rows = are_recorded(batch)
    assert rows.any()
    assert not rows.all()
    np.testing.assert_allclose(batch.reward, of_returns.reward(10.0 * batch.action["push"][:, 0]), atol=1e-5)


def test_recordings_of_another_environment_are_refused(make_trainer, recording, tables):
    other = {**tables(demonstrations={"path": str(recording)}), "env": {"use": "gym", "id": "Pendulum-v1"}}
    with pytest.raises(SpaceError, match="other spaces") as refusal:
        make_trainer(**other)
    assert "count" in refusal.value.render()


def test_too_many_for_the_buffer_are_refused(make_trainer, recording, tables):
    trainer = make_trainer(**tables(demonstrations={"path": str(recording)}, replay_buffer_size=30))
    with pytest.raises(RequestError, match="do not fit") as refusal:
        trainer.train_epoch()
    assert "keep_demonstrations" in refusal.value.help


class Film(FlatEnv):
    """Random pictures; episodes of thirty steps end as they are told to."""

    structured_spaces = flat_spaces(
        spaces.Dict({"screen": spaces.Box(0, 255, (16, 16), np.uint8)}), spaces.Dict({"a": spaces.Discrete(2)})
    )

    def __init__(self, *, end="truncated"):
        self.end, self.rng = end, np.random.default_rng(0)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self._observation(), {}

    def step(self, action):
        self.t += 1
        end = self.end if self.t == 30 else None
        return self._observation(), 1.0, end == "terminated", end == "truncated", {}

    def _observation(self):
        return {"screen": self.rng.integers(0, 256, (16, 16), np.uint8)}


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_all_of_them_are_stored_where_frames_are_stacked(make_trainer, tmp_path, tables, end, keep):
    record(Film(end=end), tmp_path / "films", n_episodes=2)
    made = tables(
        demonstrations={"path": str(tmp_path / "films")},
        keep_demonstrations=keep,
        replay_buffer_size=2 * 31 + 4,  # a pending row, and three that lost frames
    )
    made["env"] |= {"use": made["env"]["use"].replace("Counter", "Film"), "end": end}
    trainer = make_trainer(**made, vector={"n_envs": 1}, wrappers=[{"use": "observation-stack", "n": 4}])
    trainer._experience.add_demonstrations()
    assert trainer._experience.n_transitions == 60


def test_a_buffer_without_rows_for_frames_that_are_lost_is_too_small(make_trainer, tmp_path, tables):
    record(Film(), tmp_path / "films", n_episodes=2)
    made = tables(demonstrations={"path": str(tmp_path / "films")}, replay_buffer_size=2 * 31 + 3)
    made["env"] = {"use": made["env"]["use"].replace("Counter", "Film")}
    trainer = make_trainer(**made, vector={"n_envs": 1}, wrappers=[{"use": "observation-stack", "n": 4}])
    with pytest.raises(RequestError, match="do not fit") as refusal:
        trainer._experience.add_demonstrations()
    assert "66 rows for an environment's share of 65" in refusal.value.render()


class FilmOfATeam(StructuredEnv):
    """Two agents in turn see the last four pictures; an episode is cut after thirty flat steps."""

    structured_spaces = StructuredSpaces(
        observation={"all": spaces.Dict({"screen": spaces.Box(0, 255, (4, 16, 16), np.uint8)})},
        action={"all": spaces.Dict({"a": spaces.Discrete(2)})},
        agent_counts={"all": -1},
    )

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.n_decisions, self.pictures = 0, self.rng.integers(0, 256, (4, 16, 16), np.uint8)
        return {"screen": self.pictures}, {}

    def step(self, action):
        self.n_decisions += 1
        if self.is_flat_step_end():
            self.pictures = np.concatenate([self.pictures[1:], self.rng.integers(0, 256, (1, 16, 16), np.uint8)])
        return {"screen": self.pictures}, 1.0, False, self.n_decisions == 60, {}

    def actor_id(self):
        return ActorID("all", self.n_decisions % 2)

    def is_actor_done(self):
        return False

    def is_flat_step_end(self):
        return self.n_decisions % 2 == 0

    def get_actor_rewards(self):
        return None

    def render(self):
        return None

    def close(self):
        return None


@pytest.mark.parametrize("keep", [False, True])
def test_the_first_frames_of_a_team_are_not_lost(make_trainer, tmp_path, tables, keep):
    record(FilmOfATeam(), tmp_path / "films", n_episodes=2)
    made = tables(demonstrations={"path": str(tmp_path / "films")}, keep_demonstrations=keep)
    made["env"] = {"use": made["env"]["use"].replace("Counter", "FilmOfATeam")}
    trainer = make_trainer(**made)
    trainer._experience.add_demonstrations()
    assert trainer._experience.n_transitions == 2 * (30 + 29), "the last decision of an agent has no successor"


def record(env, folder, *, n_episodes):
    env = RecordingEnv(env, Recording(folder=folder))
    for seed in range(n_episodes):
        env.reset(seed=seed)
        ended = False
        while not ended:
            *_, terminated, truncated, _ = env.step({"a": np.int64(seed % 2)})
            ended = terminated or truncated
    env.close()


def test_no_recording_is_refused_before_training(make_trainer, tmp_path, tables):
    with pytest.raises(MazeError, match="no record"):
        make_trainer(**tables(demonstrations={"path": str(tmp_path)}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep_demonstrations": True}, "needs 'demonstrations'"),
        ({"demonstrations": {"path": "x"}, "demonstration_fraction": 0.5}, "needs 'keep_demonstrations = true'"),
    ],
)
def test_options_that_need_each_other_say_so(assemble, tables, options, message):
    with pytest.raises(MazeError) as refusal:
        assemble(**tables(**options))
    assert message in refusal.value.render()


def test_what_is_played_first_begins_with_what_the_environments_show(kernel, assemble, recording, tables):
    """Demonstrations go into the ring of an environment that was reset already."""
    assembly = assemble(**tables())
    data = select(kernel, "dataset", {"path": str(recording)})
    options = SACOptions(demonstrations=data, initial_sampling_policy="random")
    context = assembly.trainer_context()
    vector_env = context.make_vector_env()
    vector_env.reset = shifted(vector_env.reset)
    context = attrs.evolve(context, make_vector_env=lambda: vector_env)
    experience = Experience(context, assembly.make_model(), NO_WEIGHTS, options)
    experience.start_segment(0)
    experience.add_demonstrations()
    experience.collect(1)
    batch = experience.sample(2000, np.random.default_rng(0))["0"].transitions
    first = batch.observation["count"][~are_recorded(batch), 0]
    assert set(first.tolist()) == {50.0}


def shifted(reset):
    """First observations of 50, which nothing else has."""

    def shift(seeds):
        tick = reset(seeds)
        for group in tick.groups.values():
            group.observation = {"count": group.observation["count"] + 50}
        return tick

    return shift


WORKERS = {"use": "subprocess", "count": 2, "preload": ["maze_sac.trainer"], "backoff_seconds": 0.1}


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"keep_demonstrations": True, "demonstration_fraction": 0.5}])
def test_demonstrations_read_on_workers_are_those_read_here(assemble, make_trainer, tmp_path, monkeypatch, options):
    readers, close = [], PooledSource.close
    monkeypatch.setattr(
        PooledSource, "close", lambda source: close(readers.append(source._group.process_id(0)) or source)
    )
    pendulum = {"env": {"use": "gym", "id": "Pendulum-v1"}, "model": {"use": "auto", "hidden_units": [8]}}
    make_env = assemble(**pendulum, trainer={"use": "sac"}).trainer_context().make_env
    env = RecordingEnv(make_env(), Recording(folder=tmp_path / "expert"))
    for seed in range(3):
        env.reset(seed=seed)
        for t in range(6):
            env.step({"action": np.array([t - 3.0], np.float32) / 2})
    env.close()
    trainer = {**SMALL, "demonstrations": {"path": str(tmp_path / "expert")}, **options}
    alone, helped = (make_trainer(**pendulum, trainer=trainer, **workers) for workers in ({}, {"workers": WORKERS}))
    for each in (alone, helped):
        each.train_epoch()
    assert alone._experience.n_transitions == helped._experience.n_transitions > 18
    for name, tensor in alone.model.state_dict().items():
        assert torch.equal(tensor, helped.model.state_dict()[name]), name
    assert len(readers) == 1, "read on the pool"
    assert not psutil.pid_exists(readers[0]), "which ends as soon as they are read"


def test_numbers_that_are_not_finite_are_refused(make_trainer, recording, tables):
    file = sorted(recording.glob("episode-*"))[2]
    episode = read_episode(file)
    observation = {"0": {"count": np.where(np.arange(5)[:, None] == 3, np.nan, episode.observation["0"]["count"])}}
    file.write_bytes(encode_episode(attrs.evolve(episode, observation=observation)))
    trainer = make_trainer(**tables(demonstrations={"path": str(recording)}))
    with pytest.raises(
        NonFiniteError, match="observation 'count' of policy key '0' is not finite in episode 2"
    ) as stop:
        trainer.train_epoch()
    assert "decision 3" in stop.value.render()


@pytest.fixture
def pendulum_dataset(tmp_path, monkeypatch):
    """A Minari dataset of Pendulum-v1: two episodes of four random steps, the second one terminated."""
    from minari.data_collector import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    env, episodes = gymnasium.make("Pendulum-v1"), []
    for seed in range(2):
        seen, done, rewards = [env.reset(seed=seed)[0]], [], []
        env.action_space.seed(seed)
        for _ in range(4):
            done.append(env.action_space.sample())
            observation, reward, *_ = env.step(done[-1])
            seen.append(observation)
            rewards.append(float(reward))
        last = np.arange(4) == 3
        episodes.append(
            EpisodeBuffer(
                observations=np.array(seen),
                actions=np.array(done),
                rewards=np.array(rewards),
                terminations=last & (seed == 1),
                truncations=last & (seed == 0),
            )
        )
    minari.create_dataset_from_buffers(
        "toy/pendulum-v0", episodes, observation_space=env.observation_space, action_space=env.action_space
    )
    return episodes


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning:minari.*")
@pytest.mark.parametrize("workers", [{}, {"workers": WORKERS}])
def test_minari_datasets_are_demonstrations(make_trainer, pendulum_dataset, workers):
    data = {"use": "minari", "id": "toy/pendulum-v0"}
    options = {**SMALL, "demonstrations": data, "keep_demonstrations": True, "demonstration_fraction": 1.0}
    trainer = make_trainer(
        env={"use": "gym", "id": "Pendulum-v1"}, model={"use": "auto", "hidden_units": [8]}, trainer=options, **workers
    )
    trainer.train_epoch()
    batch = sampled(trainer, 300)
    for k, episode in enumerate(pendulum_dataset):
        for t in range(4):
            rows = np.flatnonzero((batch.action["action"] == episode.actions[t]).all(-1))
            assert len(rows), "drawn at least once"
            np.testing.assert_array_equal(batch.observation["observation"][rows[0]], episode.observations[t])
            assert batch.reward[rows[0]] == pytest.approx(episode.rewards[t], rel=1e-6)
            assert batch.discount[rows[0]] == np.float32(0.0 if (k, t) == (1, 3) else SACOptions().gamma)
            if batch.discount[rows[0]]:
                following = batch.next_observation["observation"][rows[0]]
                np.testing.assert_array_equal(following, episode.observations[t + 1])


def test_a_minari_dataset_of_another_environment_is_refused(make_trainer, pendulum_dataset, tables):
    data = {"use": "minari", "id": "toy/pendulum-v0"}
    with pytest.raises(SpaceError, match="other names"):
        make_trainer(**tables(demonstrations=data))
