"""Wrappers that remember: stacks, skipped steps, random beginnings, and what reaches the loggers."""

import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from matplotlib.figure import Figure

from maze_gym.native_vector import NativeVectorEnv
from maze_kernel.catalog import build
from maze_kernel.config.load import experiment_from_mapping, select
from maze_kernel.contracts.env import ActorID, StructuredSpaces
from maze_kernel.contracts.vector import FinalObservation, Group, Tick
from maze_kernel.errors import EnvError, RequestError, SpaceError
from maze_runtime.env.conversion import ActionConversion, ObservationConversion
from maze_runtime.env.core_env import CoreEnv
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.env.maze_env import MazeEnv
from maze_runtime.events.aggregation import EpochAggregator
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.rollout.vector_transform import TransformedVectorEnv
from maze_runtime.run.assembly import Assembly


class Count(FlatEnv):
    """Shows 10 · seed + step; reward is the action; three steps an episode."""

    structured_spaces = flat_spaces(
        spaces.Dict(x=spaces.Box(0, 99, (1,), np.float32)), spaces.Dict(action=spaces.Discrete(4))
    )

    def __init__(self, length=3):
        self._length = length
        self._seed = 0

    def reset(self, *, seed=None, options=None):
        self._seed = self._seed if seed is None else seed
        self._step = 0
        return self._observe(), {}

    def step(self, action):
        self._step += 1
        return self._observe(), float(action["action"]), self._step == self._length, False, {}

    def _observe(self):
        return {"x": np.array([10 * self._seed + self._step], np.float32)}


def transform(kernel, use, **options):
    return build(select(kernel, "wrapper", {"use": use, **options}))


def actions(*values):
    return {"0": {"action": np.array(values)}}


def test_a_stack_begins_with_zeros_and_starts_anew_with_each_episode(kernel):
    envs = TransformedVectorEnv(
        SequentialVectorEnv([Count, lambda: Count(length=9)]),
        transform(kernel, "observation-stack", n=3),
        training=True,
    )
    seen = [envs.reset([[1, 2], [3]]).groups["0"].observation["x"]]
    finals = []
    for _ in range(4):
        tick = envs.step(actions(0, 0))
        seen.append(tick.groups["0"].observation["x"])
        finals += [final.observation["x"][0, :, 0].tolist() for final in tick.final_observation.values()]
    assert [rows[0, :, 0].tolist() for rows in seen] == [[0, 0, 10], [0, 10, 11], [10, 11, 12], [0, 0, 20], [0, 20, 21]]
    assert seen[4][1, :, 0].tolist() == [32, 33, 34]
    assert finals == [[11, 12, 13]]


def test_deltas_are_changes_within_the_episode(kernel):
    stack = transform(kernel, "observation-stack", n=3, deltas=True, keep_original=True)
    envs = TransformedVectorEnv(SequentialVectorEnv([Count]), stack, training=True)
    rows = [envs.reset([[1]])] + [envs.step(actions(0)) for _ in range(2)]
    stacks = [tick.groups["0"].observation["x-stack"][0, :, 0].tolist() for tick in rows]
    assert stacks == [[0, 0, 10], [0, 1, 11], [1, 1, 12]]
    assert rows[2].groups["0"].observation["x"].tolist() == [[12]]


def test_every_agent_has_a_stack_of_its_own_and_placeholders_leave_no_trace(kernel):
    stack = transform(kernel, "observation-stack", n=2)
    box = spaces.Dict(x=spaces.Box(0, 99, (), np.float32))
    stack.bind(StructuredSpaces(observation={"a": box}, action={"a": spaces.Dict()}, agent_counts={"a": -1}))
    memory = stack.memory(2)

    def tick(env_index, agent, values, ended=(False, False), awaiting=None):
        group = Group(np.array(env_index), np.array(agent), {"x": np.array(values, np.float32)}, len(env_index) == 2)
        false = np.zeros(2, np.bool_)
        return Tick({"a": group}, np.zeros(2, np.float32), np.array(ended), false, awaiting_reset=awaiting)

    memory.reset(tick([0, 1], [0, 0], [1, 2]))
    memory.step({}, tick([0, 1], [1, 3], [3, 4]))
    last = memory.step({}, tick([0, 1], [0, 3], [5, 6])).groups["a"].observation["x"]
    assert last.tolist() == [[1, 5], [4, 6]]
    ending = tick([0, 1], [0, 3], [99, 7], ended=(True, False), awaiting=np.array([True, False]))
    ending.final_observation["a"] = FinalObservation(np.array([0]), {"x": np.array([8], np.float32)}, np.array([0]))
    outer = memory.step({}, ending)
    assert outer.final_observation["a"].observation["x"].tolist() == [[5, 8]]
    assert memory.step({}, tick([0, 1], [0, 3], [20, 9])).groups["a"].observation["x"].tolist() == [[0, 20], [7, 9]]


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int8])
def test_a_stack_has_the_bounds_of_its_integers(kernel, dtype):
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    inner = flat_spaces(spaces.Dict(x=spaces.Box(least, most, (2,), dtype)), Count.structured_spaces.action["0"])
    box = transform(kernel, "observation-stack", n=3).bind(inner).observation["0"]["x"]
    assert box == spaces.Box(least, most, (3, 2), dtype)


@pytest.mark.parametrize("order", [("hears", "speaks"), ("speaks", "hears")], ids=str)
def test_a_name_is_stacked_for_the_agents_that_see_a_box_under_it(kernel, order):
    seen = {"hears": spaces.Dict(x=spaces.Box(0, 9, (3,))), "speaks": spaces.Dict(x=spaces.Discrete(4))}
    stack = transform(kernel, "observation-stack", n=2, keys=["x"])
    inner = StructuredSpaces(
        observation={key: seen[key] for key in order},
        action={key: spaces.Dict(a=spaces.Discrete(2)) for key in order},
        agent_counts=dict.fromkeys(order, 1),
    )
    outer = stack.bind(inner).observation
    assert outer["hears"]["x"].shape == (2, 3)
    assert outer["speaks"] == seen["speaks"]
    with pytest.raises(SpaceError, match="'x' cannot be stacked"):
        stack.bind(flat_spaces(seen["speaks"], inner.action["speaks"]))


@pytest.mark.parametrize(("mode", "reward"), [("sticky", 6.0), ("noop", 2.0)])
def test_skipped_steps_add_their_rewards_and_end_with_the_episode(kernel, mode, reward):
    selection = select(kernel, "wrapper", {"use": "step-skip", "n_steps": 3, "mode": mode, "noop": {"action": 0}})
    env = build(selection, Count(length=4))
    env.reset(seed=0)
    observation, total, terminated, _, _ = env.step({"action": 2})
    assert (observation["x"].tolist(), total, terminated) == ([3], reward, False)
    observation, total, terminated, _, _ = env.step({"action": 2})
    assert (observation["x"].tolist(), total, terminated) == ([4], 2.0, True)


def test_who_leaves_in_skipped_steps_is_told_as_well(kernel):
    class Leaving(Count):
        def departed_actors(self):
            return (ActorID("0", self._step),)

    env = build(select(kernel, "wrapper", {"use": "step-skip", "n_steps": 3, "mode": "sticky"}), Leaving())
    env.reset(seed=0)
    env.step({"action": 0})
    assert [actor.agent_id for actor in env.departed_actors()] == [1, 2, 3]


def test_an_environment_without_a_noop_says_what_to_do(kernel):
    class Rise(CoreEnv):
        def reset(self, seed=None):
            return 0

        def step(self, maze_action):
            return 0, 0.0, False, False, {}

        def get_maze_state(self):
            return 0

    class Nothing(ObservationConversion):
        def space(self):
            return spaces.Dict(x=spaces.Box(0, 1, (1,)))

        def maze_to_space(self, maze_state):
            return {"x": np.zeros(1, np.float32)}

    class Floor(ActionConversion):
        def space(self):
            return spaces.Dict(action=spaces.Discrete(4))

        def space_to_maze(self, action, maze_state):
            return action["action"]

    class FloorOrStay(Floor):
        def noop_action(self):
            return {"action": 0}

    for env in (Count(), MazeEnv(Rise(), Nothing(), Floor())):
        with pytest.raises(RequestError) as refusal:
            build(select(kernel, "wrapper", {"use": "step-skip", "mode": "noop"}), env)
        assert "sticky" in refusal.value.help
    skipping = build(
        select(kernel, "wrapper", {"use": "step-skip", "mode": "noop"}), MazeEnv(Rise(), Nothing(), FloorOrStay())
    )
    skipping.reset(seed=0)
    skipping.step({"action": 1})


def test_random_beginnings_follow_from_the_seed(kernel):
    selection = select(kernel, "wrapper", {"use": "random-reset", "min_skip": 1, "max_skip": 5})
    env = build(selection, Count(length=9))
    starts = [env.reset(seed=seed)[0]["x"][0] - 10 * seed for seed in range(40)]
    assert set(starts) == {1, 2, 3, 4, 5}
    assert starts == [build(selection, Count(length=9)).reset(seed=seed)[0]["x"][0] - 10 * seed for seed in range(40)]
    short = build(selection, Count(length=2))
    assert all(short.reset(seed=seed)[0]["x"][0] % 10 in (0, 1) for seed in range(20))
    with pytest.raises(EnvError, match="1000 episodes one behind the other ended"):
        build(selection, Count(length=1)).reset(seed=0)


@pytest.mark.parametrize("next_step_resets", [False, True])
def test_log_stats_equal_sums_taken_one_environment_at_a_time(kernel, next_step_resets):
    rng, n_envs, n_ticks = np.random.default_rng(3), 5, 700
    memory = transform(kernel, "log-stats").memory(n_envs)
    memory.reset(
        Tick(groups={}, reward=np.zeros(n_envs), terminated=np.zeros(n_envs, bool), truncated=np.zeros(n_envs, bool))
    )
    expected, running, resets = [[] for _ in range(n_envs)], [[0.0, 0] for _ in range(n_envs)], np.zeros(n_envs, bool)
    found = [[] for _ in range(n_envs)]
    for t in range(n_ticks):
        reward = np.where(resets, 0.0, rng.normal(size=n_envs))
        ended = (rng.random(n_envs) < 0.05) & ~resets
        awaiting = ended if next_step_resets else None
        memory.step({}, Tick(groups={}, reward=reward, terminated=ended, truncated=ended, awaiting_reset=awaiting))
        for env in range(n_envs):
            if not resets[env]:
                running[env] = [running[env][0] + reward[env], running[env][1] + 1]
            if ended[env]:
                expected[env].append(running[env])
                running[env] = [0.0, 0]
        resets = ended if next_step_resets else resets
        if t in (100, 101, 640, n_ticks - 1):
            for env, episodes in enumerate(memory.drain_batch_statistics()):
                found[env] += [[next(iter(event.values.values()))[0] for event in episode] for episode in episodes]
    assert all(expected)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_log_stats_show_rewards_before_and_after_scaling(kernel):
    envs = SequentialVectorEnv([Count, lambda: Count(length=2)])
    for wrapper in (
        transform(kernel, "log-stats", name="raw"),
        transform(kernel, "reward-scaling", scale=0.5),
        transform(kernel, "log-stats"),
    ):
        envs = TransformedVectorEnv(envs, wrapper, training=True)
    envs.reset([[1], [2]])
    for step in range(700):
        envs.step(actions(step % 4, 1))
    epoch = EpochAggregator()
    for episodes in envs.drain_batch_statistics():
        epoch.add_episodes(episodes)
    tags = epoch.reduce()
    returns = [sum((3 * k + i) % 4 for i in range(3)) for k in range(233)] + [2] * 350
    assert tags["LogStatsEvents/reward/mean/raw"] == pytest.approx(np.mean(returns))
    assert tags["LogStatsEvents/reward/mean"] == pytest.approx(np.mean(returns) / 2)
    assert tags["LogStatsEvents/episode_length/count"] == 583
    assert tags["LogStatsEvents/episode_length/max"] == 3


def test_monitoring_reaches_tensorboard_as_bars_and_violins(kernel, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from maze_runtime.training.train import train

    data = {
        "name": "monitored",
        "env": {"use": "gym", "id": "Pendulum-v1"},
        "trainer": {"use": "ppo", "n_epochs": 1, "epoch_length": 1, "n_rollout_steps": 220},
        "vector": {"n_envs": 1},
        "evaluation": {"n_episodes": 1},
        "loggers": [{"use": "tensorboard"}],
        "wrappers": [
            {"use": "monitoring", "observations": True, "rewards": True},
            {"use": "discretize-actions"},
            {"use": "monitoring", "name": "outer"},
            {"use": "observation-visualization"},
            {"use": "log-stats"},
        ],
    }
    train(experiment_from_mapping(data, kernel=kernel), kernel, run_dir=tmp_path / "run", verbosity=-1)
    board = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    board.Reload()
    images, scalars = set(board.Tags()["images"]), set(board.Tags()["scalars"])
    for run in ("train", "eval"):
        assert f"{run}_ActionEvents/discrete_action/0/action/outer" in images
        assert f"{run}_ActionEvents/continuous_action/distribution/0/action" in images
        assert f"{run}_ObservationVisualizationEvents/observation/0/observation" in images
        assert f"{run}_ObservationEvents/observation/mean/0/observation" in scalars
        assert f"{run}_LogStatsEvents/reward/mean" in scalars
    assert "train_RewardEvents/step_reward/histogram" in board.Tags()["histograms"]
    mean, own = (board.Scalars(f"train_{tag}/reward/mean")[0].value for tag in ("LogStatsEvents", "BaseEnvEvents"))
    assert mean == pytest.approx(own, rel=1e-5)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_monitoring_counts_the_same_decisions_in_every_autoreset_mode(kernel, mode):
    batch = gymnasium.vector.SyncVectorEnv([Three] * 2, autoreset_mode=mode)
    wrappers = transform(kernel, "monitoring", observations=True, rewards=True, n_samples=1000)
    envs = TransformedVectorEnv(NativeVectorEnv(batch), wrappers, training=True)
    envs.reset([[1], [2]])
    n_ticks = 8 if mode is AutoresetMode.NEXT_STEP else 6  # two episodes of three decisions each
    for tick in range(n_ticks):
        void = mode is AutoresetMode.NEXT_STEP and tick in (3, 7)
        envs.step(actions(2, 2) if void else actions(0, 1))
    epoch = EpochAggregator()
    epoch.add_episodes(envs.drain_batch_statistics()[0])
    tags = epoch.reduce(draw=False)
    assert tags["ActionEvents/discrete_action/0/action"].tolist() == [6, 6, 0]
    assert tags["RewardEvents/step_reward/histogram"].tolist() == [1.0] * 12
    seen = tags["ObservationEvents/observation/distribution/0/observation"].ravel().tolist()
    assert sorted(seen) == sorted([0, 0, 1, 1, 2, 2] * 2 + [0, 0])  # the last are those of the third episodes


def test_two_monitors_tell_original_and_processed_values_apart(kernel):
    batch = gymnasium.vector.SyncVectorEnv([Three] * 2)
    envs = NativeVectorEnv(batch)
    for wrapper in (
        transform(kernel, "monitoring", observations=True, rewards=True, name="original"),
        transform(kernel, "reward-scaling", scale=3.0),
        transform(kernel, "observation-stack", n=2),
        transform(kernel, "monitoring", observations=True, rewards=True, name="processed"),
    ):
        envs = TransformedVectorEnv(envs, wrapper, training=True)
    envs.reset([[1], [2]])
    for _ in range(3):
        envs.step(actions(0, 1))
    epoch = EpochAggregator()
    epoch.add_episodes(envs.drain_batch_statistics()[0])
    tags = epoch.reduce(draw=False)
    assert tags["RewardEvents/step_reward/mean/original"] == 1.0
    assert tags["RewardEvents/step_reward/mean/processed"] == 3.0
    seen = {
        name: tags[f"ObservationEvents/observation/distribution/0/observation/{name}"]
        for name in ("original", "processed")
    }
    assert len(seen["original"]) == len(seen["processed"])
    assert seen["processed"][0].size == 2 * seen["original"][0].size
    assert tags["ActionEvents/discrete_action/0/action/original"].tolist() == [3, 3, 0]


class Three(gymnasium.Env):
    """Shows the step; every reward is 1; three steps an episode."""

    observation_space = spaces.Box(0, 3, (1,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return np.array([0], np.float32), {}

    def step(self, action):
        self._step += 1
        return np.array([self._step], np.float32), 1.0, self._step == 3, False, {}


def draw_first(values, group):
    figure = Figure()
    figure.suptitle(json.dumps([list(values.shape), list(group)]))
    return figure


def test_a_function_of_ones_own_draws_observations(kernel, monkeypatch):
    import sys
    import types

    module = types.ModuleType("my_drawings")
    module.draw_first = draw_first
    monkeypatch.setitem(sys.modules, "my_drawings", module)
    wrapper = transform(kernel, "observation-visualization", plot_function="my_drawings:draw_first", n_samples=6)
    envs = TransformedVectorEnv(SequentialVectorEnv([Count] * 2), wrapper, training=True)
    envs.reset([[1], [2]])
    for _ in range(20):
        envs.step(actions(0, 0))
    epoch = EpochAggregator()
    epoch.add_episodes(envs.drain_batch_statistics()[0])
    (figure,) = epoch.reduce().values()
    assert json.loads(figure.get_suptitle()) == [[6, 1], ["0", "x"]]


def test_reports_cannot_stand_where_nobody_collects_them(kernel):
    data = {
        "name": "inside",
        "env": {"use": "gym", "id": "CartPole-v1"},
        "trainer": {"use": "ppo"},
        "wrappers": [{"use": "monitoring"}, {"use": "time-limit", "max_episode_steps": 5}],
    }
    with pytest.raises(RequestError, match="monitoring") as refusal:
        Assembly(experiment_from_mapping(data, kernel=kernel), kernel)
    assert "behind 'time-limit'" in refusal.value.help


@pytest.mark.parametrize("use", ["monitoring", "log-stats"])
@pytest.mark.parametrize("name", ["", "original"])
def test_reports_under_one_name_are_refused(kernel, use, name):
    own = {"use": use, **({"name": name} if name else {})}
    data = {
        "name": "twice",
        "env": {"use": "gym", "id": "CartPole-v1"},
        "trainer": {"use": "ppo"},
        "wrappers": [own, {"use": "reward-scaling", "scale": 0.5}, own],
    }
    with pytest.raises(RequestError, match="report under the same tags") as refusal:
        Assembly(experiment_from_mapping(data, kernel=kernel), kernel)
    assert refusal.value.option == "name"
    assert "name =" in refusal.value.help
    data["wrappers"][2] = {**own, "name": "processed"}
    Assembly(experiment_from_mapping(data, kernel=kernel), kernel)


def test_films_are_written(kernel, tmp_path):
    class Film(Count):
        def render(self):
            return np.full((16, 16, 3), 20 * self._step, np.uint8)

    selection = select(kernel, "wrapper", {"use": "video-recording", "folder": "films", "every_episodes": 2})
    env = build(selection, Film())
    env.write_below(tmp_path)
    for _ in range(3):
        env.reset()
        while not env.step({"action": 0})[2]:
            pass
    assert env.actor_id() == ActorID("0", 0)
    names = sorted(path.stem[:14] for path in (tmp_path / "films").iterdir())
    assert names == ["episode-000001", "episode-000003"]
    with pytest.raises(EnvError, match="draws nothing"):
        build(selection, Count()).reset()
