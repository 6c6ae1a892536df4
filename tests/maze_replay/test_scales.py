"""Replay and running statistics: what is drawn is scaled by the statistics of now, whenever it was stored."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from maze_gym.env import make_env as make_gym
from maze_gym.options import GymOptions
from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.contracts.transform import Memory, Transform
from maze_kernel.contracts.vector import Group, Tick
from maze_kernel.errors import RequestError
from maze_replay.collector import TransitionCollector
from maze_replay.prioritized import PrioritizedReplayBuffer
from maze_replay.scales import ScalesOfNow
from maze_runtime.rollout.random_policy import RandomPolicy
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.run.batch_factory import wrap_batch
from maze_wrappers.observation_normalization import ObservationNormalization
from maze_wrappers.observation_stack import ObservationStack
from maze_wrappers.options import (
    ObservationNormalizationOptions,
    ObservationStackOptions,
    ReturnNormalizationOptions,
    RewardClippingOptions,
)
from maze_wrappers.return_normalization import ReturnNormalization
from maze_wrappers.reward_clipping import RewardClipping

sys.path.insert(0, str(Path(__file__).parents[1]))  # for two_keys

from two_keys import RepeatThenError


def pendulum():
    return make_gym(GymOptions(id="Pendulum-v1", max_episode_steps=30))


class Tenfold(Transform):
    """Observations times ten."""

    def observation(self, policy_key, observation):
        return {name: array * np.float32(10.0) for name, array in observation.items()}


class Last(Memory):
    def reset(self, tick):
        return tick

    def step(self, actions, tick):
        return tick


class Remembering(Transform):
    def memory(self, n_envs):
        return Last()


def clipping():
    return RewardClipping(RewardClippingOptions(min_val=-0.3, max_val=0.3))


def normalisation(**options):
    return ObservationNormalization(ObservationNormalizationOptions(statistics="running", **options))


def played(make_env, transforms, n_steps, make_replay=None, **more):
    """A collector that has played so many decisions of a random policy; the same ones whatever the transforms."""
    batch = wrap_batch(SequentialVectorEnv([make_env for _ in range(3)]), transforms, training=True)
    policy = RandomPolicy(PolicyContext(spaces=batch.structured_spaces, seed=1))
    more |= {} if make_replay is None else {"make_replay": make_replay}
    collector = TransitionCollector(batch, gamma=0.9, size=3000, **more)
    collector.reset([[1], [2], [3]])
    collector.collect(policy, n_steps)
    return collector


def draw(buffer, n_steps=1):
    return buffer.sample(200, np.random.default_rng(5), n_steps=n_steps)


def scaled(transforms, key, observation):
    for transform in transforms:
        observation = transform.observation(key, observation)
    return observation


@pytest.mark.parametrize("make_env", [pendulum, RepeatThenError], ids=["flat", "two keys"])
@pytest.mark.parametrize("n_steps", [1, 3])
def test_all_that_is_drawn_has_the_scale_of_now(make_env, n_steps):
    raw = played(make_env, [], 120)
    inner, later = Tenfold(), [normalisation(clip_range=(-2.0, 2.0)), ReturnNormalization(ReturnNormalizationOptions())]
    collector = played(make_env, [inner, *later, Tenfold()], 120)
    assert raw.replay.keys() == collector.replay.keys()
    for key, buffer in collector.replay.items():
        drawn, wanted = draw(buffer, n_steps), draw(raw.replay[key], n_steps)
        outer = [inner, later[0], Tenfold()]
        for seen, observation in (
            (drawn.observation, wanted.observation),
            (drawn.next_observation, wanted.next_observation),
        ):
            for name, array in scaled(outer, key, observation).items():
                np.testing.assert_allclose(seen[name], array, rtol=1e-6)
        np.testing.assert_allclose(drawn.reward, later[1].reward(wanted.reward), rtol=1e-5)
        np.testing.assert_array_equal(drawn.discount, wanted.discount)
        for name, array in wanted.action.items():
            np.testing.assert_array_equal(drawn.action[name], array)


@pytest.mark.parametrize("make_env", [pendulum, RepeatThenError], ids=["flat", "two keys"])
@pytest.mark.parametrize("n_steps", [1, 3])
def test_rewards_are_clipped_one_by_one_whatever_scales_observations(make_env, n_steps):
    alone, outside, inside = (
        played(make_env, transforms, 120).replay
        for transforms in ([clipping()], [normalisation(), clipping()], [clipping(), normalisation()])
    )
    for key, buffer in alone.items():
        wanted = draw(buffer, n_steps).reward
        assert len(np.unique(wanted.round(4))) > 1, "all are alike: nothing is shown"
        np.testing.assert_array_equal(draw(outside[key], n_steps).reward, wanted)
        np.testing.assert_array_equal(draw(inside[key], n_steps).reward, wanted)


@pytest.mark.parametrize("n_steps", [1, 3])
def test_rewards_pass_running_statistics_one_by_one(n_steps):
    returns = ReturnNormalization(ReturnNormalizationOptions(clip_range=(-0.4, 0.4)))
    (buffer,) = played(pendulum, [returns, clipping()], 120).replay.values()
    (raw,) = played(pendulum, [], 120).replay.values()
    stored = raw._memory.flat_reward
    stored[:] = clipping().reward(returns.reward(stored))
    wanted = draw(raw, n_steps).reward
    np.testing.assert_allclose(draw(buffer, n_steps).reward, wanted, rtol=1e-6)
    assert n_steps == 1 or wanted.min() < -0.3, "no sum is larger than one clipped reward: nothing is shown"


def test_what_was_stored_early_is_drawn_with_the_statistics_of_later():
    transform, first = normalisation(), np.arange(3)
    collector = played(pendulum, [transform], 5)
    buffer = collector.replay["0"]
    raw = played(pendulum, [], 5).replay["0"].read(first).observation
    before = buffer.read(first).observation["observation"]
    np.testing.assert_allclose(before, transform.observation("0", raw)["observation"], rtol=1e-6)
    collector.collect(RandomPolicy(PolicyContext(spaces=ScalesOfNow(collector._vector_env).spaces, seed=3)), 200)
    after = buffer.read(first).observation["observation"]
    np.testing.assert_allclose(after, transform.observation("0", raw)["observation"], rtol=1e-6)
    assert not np.allclose(before, after, atol=0.1)


def test_drawing_by_priority_scales_too():
    transform = normalisation()
    collector = played(pendulum, [transform], 60, PrioritizedReplayBuffer)
    buffer = collector.replay["0"]
    drawn = buffer.draw(100, np.random.default_rng(0))
    stored = buffer._memory.flat_observation["observation"][drawn.rows]
    wanted = transform.observation("0", {"observation": stored})["observation"]
    np.testing.assert_allclose(drawn.transitions.observation["observation"], wanted, rtol=1e-6)


@pytest.mark.parametrize("transforms", [[], [Tenfold()], [Tenfold(), Remembering()]])
def test_without_running_statistics_everything_is_stored_as_it_is_seen(transforms):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        collector = played(pendulum, transforms, 40)
    raw = played(pendulum, [], 40)
    wanted = scaled(transforms, "0", draw(raw.replay["0"]).observation)["observation"]
    np.testing.assert_array_equal(draw(collector.replay["0"]).observation["observation"], wanted)
    assert collector.replay["0"].seen_now is None


def test_a_stack_of_observations_may_stand_inside_of_running_statistics():
    stack = {"n": 3}
    raw = played(pendulum, [ObservationStack(ObservationStackOptions(**stack))], 80)
    transform = normalisation()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        collector = played(pendulum, [ObservationStack(ObservationStackOptions(**stack)), transform], 80)
    drawn, wanted = draw(collector.replay["0"]), draw(raw.replay["0"])
    assert drawn.observation["observation"].shape[1] == 3
    for seen, observation in (
        (drawn.observation, wanted.observation),
        (drawn.next_observation, wanted.next_observation),
    ):
        scaled_now = transform.observation("0", observation)["observation"]
        np.testing.assert_allclose(seen["observation"], scaled_now, rtol=1e-6)


def test_what_remembers_outside_of_running_statistics_keeps_scales_as_they_were_and_is_warned_of():
    with pytest.warns(
        RuntimeWarning, match='Remembering remembers earlier steps outside of them.*statistics = "estimated"'
    ):
        collector = played(pendulum, [normalisation(), Remembering()], 40)
    assert collector.replay["0"].seen_now is None


def test_one_series_of_all_policy_keys_keeps_scales_as_they_were_and_is_warned_of():
    batch = wrap_batch(SequentialVectorEnv([RepeatThenError]), [normalisation()], training=True)
    with pytest.warns(RuntimeWarning, match="all policy keys"):
        scales = ScalesOfNow(batch, joins_keys=True)
    assert scales.spaces == batch.structured_spaces
    batch.close()


def test_batches_of_evaluation_scale_nothing_anew():
    batch = wrap_batch(SequentialVectorEnv([pendulum]), [normalisation()], training=False)
    assert not ScalesOfNow(batch).layers
    batch.close()


def test_reports_have_the_rewards_that_the_batch_shows():
    told = []
    transform = ReturnNormalization(ReturnNormalizationOptions())
    collector = played(pendulum, [transform], 40, report=lambda reward, ended, void: told.append(reward.copy()))
    stored = collector.replay["0"]._memory.reward[:, 0]
    np.testing.assert_allclose(told[0], stored / np.sqrt(np.var(stored)), rtol=1e-3)


@pytest.mark.parametrize("was_scaled", [False, True])
def test_a_buffer_of_the_other_kind_is_not_restored(was_scaled):
    scaled_later, as_seen = (played(pendulum, transforms, 20).replay["0"] for transforms in ([normalisation()], []))
    saved, other = (as_seen, scaled_later) if was_scaled else (scaled_later, as_seen)
    with pytest.raises(RequestError, match="does not go with this run") as caught:
        other.load_state_dict(saved.state_dict())
    assert ("unscaled" in caught.value.received) != was_scaled
    old = {name: part for name, part in as_seen.state_dict().items() if name != "scaled_when_drawn"}
    as_seen.load_state_dict(old)
    with pytest.raises(RequestError):
        scaled_later.load_state_dict(old)


@pytest.mark.parametrize("of_returns", [False, True])
def test_rewards_of_an_older_buffer_become_what_is_stored_today(of_returns):
    def transforms():
        returns = [ReturnNormalization(ReturnNormalizationOptions())] if of_returns else []
        return [normalisation(), clipping(), *returns]

    saved, other = (played(pendulum, transforms(), n_steps).replay["0"] for n_steps in (40, 5))
    state = saved.state_dict()
    wanted = state["columns"]["reward"].copy()
    older = {name: part for name, part in state.items() if name != "rewards_one_by_one"}
    (raw,) = played(pendulum, [], 40).replay.values()
    older["columns"] = {**state["columns"], "reward": raw.state_dict()["columns"]["reward"]}
    assert not np.array_equal(older["columns"]["reward"], wanted)
    other.load_state_dict(older)
    np.testing.assert_array_equal(other.state_dict()["columns"]["reward"], wanted)
    other.load_state_dict(state)
    np.testing.assert_array_equal(other.state_dict()["columns"]["reward"], wanted)


class InPlace:
    """Two environments that count steps in the arrays they showed before; nothing ends."""

    n_envs = 2
    structured_spaces = StructuredSpaces(
        observation={"0": spaces.Dict(t=spaces.Box(0, 99, (1,), np.float32))},
        action={"0": spaces.Dict(a=spaces.Discrete(2))},
    )

    def reset(self, seeds):
        self.t = np.zeros((2, 1), np.float32)
        return self.tick()

    def step(self, actions):
        self.t += 1.0
        return self.tick()

    def tick(self):
        group = Group(np.arange(2), np.zeros(2, np.int64), {"t": self.t})
        return Tick({"0": group}, np.ones(2, np.float32), np.zeros(2, bool), np.zeros(2, bool))

    def close(self):
        pass


@pytest.mark.parametrize("transforms", [[], [normalisation()]])
def test_the_first_observation_is_kept_where_a_batch_writes_into_the_same_arrays(transforms):
    batch = wrap_batch(InPlace(), transforms, training=True)
    collector = TransitionCollector(batch, gamma=0.9, size=100)
    collector.reset([[1], [2]])
    collector.collect(RandomPolicy(PolicyContext(spaces=batch.structured_spaces, seed=1)), 4)
    stored = collector.replay["0"]._memory.observation["t"]
    np.testing.assert_array_equal(stored[:, :5, 0], [[0, 1, 2, 3, 4]] * 2)
