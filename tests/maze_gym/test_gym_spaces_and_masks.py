"""Any Gymnasium environment as a StructuredEnv: spaces, masks, ids, and what is refused."""

from __future__ import annotations

import copy
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import OrderEnforcing, RecordEpisodeStatistics, TimeLimit

from maze_gym.env import GymEnv, make_env
from maze_gym.masks import MaskReader
from maze_gym.native_vector import NativeVectorEnv
from maze_gym.options import GymOptions
from maze_gym.space_adapter import SpaceAdapter
from maze_kernel.errors import EnvError, RequestError, SpaceError
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv


class Echo(gymnasium.Env):
    """Samples its spaces and remembers the last action."""

    def __init__(self, observation_space=None, action_space=None) -> None:
        self.observation_space = copy.deepcopy(observation_space) or spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = action_space or spaces.Discrete(2)
        self.n_steps, self.last_action = 0, None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.n_steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), (action, self.action_space)
        self.last_action = action
        self.n_steps += 1
        return self.observation_space.sample(), 1.0, self.n_steps == 3, False, {}


NESTED = spaces.Dict(
    camera=spaces.Dict(
        left=spaces.Box(0, 255, (4, 4, 3), np.uint8), right=spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2)])
    ),
    speed=spaces.Box(np.array([-1.0, -np.inf]), np.array([1.0, np.inf]), dtype=np.float64),
    gear=spaces.Discrete(5, start=-1),
    levers=spaces.MultiDiscrete([3, 4], start=[1, -2]),
    floors=spaces.Box(0, 9, (2,), np.int64),
)


def test_nested_spaces_become_one_key_a_leaf():
    outer = SpaceAdapter(NESTED, "observation").outer
    assert set(outer.spaces) == {
        "camera_left", "camera_right_0", "camera_right_1", "speed", "gear", "levers", "floors",
    }  # fmt: skip
    assert outer["gear"] == spaces.Discrete(5)
    assert outer["levers"] == spaces.MultiDiscrete([3, 4])
    assert outer["speed"].dtype == np.float32
    assert outer["speed"].high.tolist() == [1.0, np.inf]
    assert outer["floors"].dtype == np.int64
    assert outer["camera_left"] == NESTED["camera"]["left"]


@pytest.mark.parametrize(
    "space",
    [
        NESTED,
        spaces.Tuple([spaces.Discrete(2, start=7), spaces.Box(-1, 1, (3,), np.float64)]),
        spaces.Discrete(4, start=3),
        spaces.MultiDiscrete([[2, 3], [4, 5]]),
        spaces.MultiBinary((2, 3)),
        spaces.Box(-np.inf, np.inf, (), np.float32),
        spaces.Box(0, 1, (2, 2), np.float64),
        spaces.Box(-2, 3, (2, 2), np.int16),
        spaces.Dict(
            lever=spaces.Box(np.array([0, 5]), np.array([1, 9]), dtype=np.int64), valve=spaces.Box(0, 4, (), np.int32)
        ),
        spaces.Box(0, 1, (3,), np.bool_),
    ],
    ids=lambda space: type(space).__name__,
)
def test_observations_fit_the_outer_space_and_actions_the_inner_one(space):
    env = GymEnv(Echo(space, space), action_mask="none")
    vector_env = SequentialVectorEnv([lambda: GymEnv(Echo(space, space), action_mask="none")] * 2)
    native = NativeVectorEnv(SyncVectorEnv([lambda: Echo(space, space)] * 2), action_mask="none")
    (observation_space,) = env.structured_spaces.observation.values()
    (action_space,) = env.structured_spaces.action.values()
    action_space.seed(0)
    observation, _ = env.reset(seed=0)
    as_arrays = {key: np.asarray(value, observation_space[key].dtype) for key, value in observation.items()}
    assert observation_space.contains(as_arrays)
    adapter = SpaceAdapter(space, "action")
    tick, native_tick = vector_env.reset([[0], [1]]), native.reset([[0], [1]])
    for _ in range(5):
        actions = [action_space.sample() for _ in range(2)]
        batch = {"0": {key: np.stack([action[key] for action in actions]) for key in action_space.spaces}}
        for key, array in tick.groups["0"].observation.items():
            assert (array == native_tick.groups["0"].observation[key]).all()
            assert array.shape == (2, *observation_space[key].shape)
        tick, native_tick = vector_env.step(batch), native.step(batch)
        if tick.final_observation:
            break
        for single, batched in zip(vector_env.envs, native.env.envs, strict=True):
            one, other = (adapter.decode(env.last_action) for env in (single.env, batched))
            for key in one:
                np.testing.assert_array_equal(one[key], other[key])


@pytest.mark.parametrize(
    "space",
    [spaces.Text(5), spaces.Sequence(spaces.Discrete(2)), spaces.Graph(spaces.Discrete(2), None)],
    ids=lambda space: type(space).__name__,
)
def test_spaces_without_an_array_form_are_refused_by_name(space):
    with pytest.raises(SpaceError, match=type(space).__name__) as caught:
        GymEnv(Echo(spaces.Dict(words=space)))
    assert "'words'" in str(caught.value)


def test_integers_that_are_an_action_are_a_choice_each():
    space = spaces.Box(np.array([[-1], [4]], np.int8), np.array([[1], [7]], np.int8), dtype=np.int8)
    adapter = SpaceAdapter(space, "action")
    assert adapter.outer["action"] == spaces.MultiDiscrete([3, 4])
    assert SpaceAdapter(space, "observation").outer["observation"] == space
    inner = adapter.encode({"action": np.array([[0, 0], [2, 3]])})
    np.testing.assert_array_equal(inner, np.array([[[-1], [4]], [[1], [7]]], np.int8))
    assert inner.dtype == np.int8


@pytest.mark.parametrize(
    "space", [spaces.Box(0, 255, (32, 32), np.uint8), spaces.Box(-(2**63), 2**63 - 2, (1,), np.int64)]
)
def test_integers_with_too_many_choices_are_refused(space):
    with pytest.raises(SpaceError, match="at most 50,000"):
        SpaceAdapter(space, "action")


@pytest.mark.parametrize("space", [spaces.Dict(), spaces.Tuple([]), spaces.Dict(a=spaces.Dict())], ids=str)
def test_spaces_without_a_part_are_refused_by_name(space):
    for name, remedy in (("observation", "Box(0, 1, (1,))"), ("action", "Discrete(1)")):
        env = Echo()
        setattr(env, f"{name}_space", space)
        with pytest.raises(SpaceError, match=f"the {name} space has no part") as caught:
            GymEnv(env)
        assert remedy in caught.value.render()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_actions_have_the_dtype_of_their_space(dtype):
    env = GymEnv(Echo(action_space=spaces.Dict(a=spaces.Box(-1, 1, (2,), dtype), b=spaces.Box(-1, 1, (), dtype))))
    env.reset(seed=0)
    for value in (0.1, -1.0, 1.0):
        env.step({"a": np.full(2, value, np.float32), "b": np.float32(value)})
        assert [part.dtype for part in env.env.last_action.values()] == [dtype] * 2


def test_two_keys_with_one_name_are_refused():
    space = spaces.Dict({"a_b": spaces.Discrete(2), "a": spaces.Dict(b=spaces.Discrete(3))})
    with pytest.raises(SpaceError, match="'a_b'"):
        SpaceAdapter(space, "observation")


class Masked(Echo):
    """Forbids action `n_steps`; says so where `source` tells."""

    def __init__(self, source: str, action_space=None, forget_at: int = 99) -> None:
        action_space = action_space or spaces.Discrete(4)
        super().__init__(action_space=action_space)
        self.source, self.forget_at = source, forget_at
        if source == "observation":
            self.observation_space = spaces.Dict(state=self.observation_space, action_mask=spaces.MultiBinary(4))
        if source in ("action_masks", "valid_action_mask", "action_mask"):
            setattr(self, source, self.mask)

    def mask(self):
        def head(n):
            return np.arange(n) != self.n_steps

        if isinstance(self.action_space, spaces.MultiDiscrete):
            return [head(n) for n in self.action_space.nvec]
        if isinstance(self.action_space, spaces.Dict):
            return {key: head(leaf.n) for key, leaf in self.action_space.items()}
        return head(self.action_space.n)

    def reset(self, **arguments):
        observation, _ = super().reset(**arguments)
        return self._with_mask(observation)

    def step(self, action):
        observation, reward, terminated, truncated, _ = super().step(action)
        observation, info = self._with_mask(observation)
        return observation, reward, terminated, truncated, info

    def _with_mask(self, observation):
        if self.source == "observation":
            observation["action_mask"] = self.mask().astype(np.int8)
        forgot = self.n_steps >= self.forget_at
        return observation, {"action_mask": self.mask()} if self.source == "info" and not forgot else {}


SOURCES = ["observation", "info", "action_masks", "valid_action_mask", "action_mask"]


@pytest.mark.parametrize("source", SOURCES)
def test_a_mask_is_found_wherever_it_is(source):
    envs = SequentialVectorEnv([lambda: GymEnv(Masked(source))] * 2)
    assert envs.structured_spaces.observation["0"]["action_mask"] == spaces.MultiBinary(4)
    tick = envs.reset([[1], [2]])
    assert tick.groups["0"].observation["action_mask"].tolist() == [[0, 1, 1, 1]] * 2
    for expected in ([1, 0, 1, 1], [1, 1, 0, 1], [0, 1, 1, 1]):
        tick = envs.step({"0": {"action": np.array([3, 3])}})
        assert tick.groups["0"].observation["action_mask"].tolist() == [expected] * 2
    assert tick.final_observation["0"].observation["action_mask"].tolist() == [[1, 1, 1, 0]] * 2


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("source", ["observation", "info"])
def test_a_batch_has_the_same_masks(source, mode):
    envs = NativeVectorEnv(SyncVectorEnv([lambda: Masked(source)] * 2, autoreset_mode=mode))
    tick = envs.reset([[1], [2]])
    seen = []
    for _ in range(6):
        live = slice(None) if tick.awaiting_reset is None else ~tick.awaiting_reset
        seen += tick.groups["0"].observation["action_mask"][live].argmin(-1).tolist()
        tick = envs.step({"0": {"action": np.array([3, 3])}})
        for final in tick.final_observation.values():
            assert final.observation["action_mask"].tolist() == [[1, 1, 1, 0]] * 2
    assert seen[:10] == [0, 0, 1, 1, 2, 2, 0, 0, 1, 1]


class Staggered(Masked):
    """Episode i of an environment takes `first` + i steps; their last infos have no mask."""

    def __init__(self, first, action_space=None):
        super().__init__("info", action_space)
        self.length = first - 1

    def reset(self, **arguments):
        self.length += 1
        return super().reset(**arguments)

    def step(self, action):
        observation, reward, _, _, info = super().step(action)
        over = self.n_steps == self.length
        return observation, reward, over, False, {} if over else info


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_last_info_without_a_mask_allows_everything(mode):
    makers = [partial(Staggered, 1), partial(Staggered, 2)]
    envs = NativeVectorEnv(SyncVectorEnv(makers, autoreset_mode=mode))
    tick, finals, lowest = envs.reset([[1], [2]]), [], 1
    for _ in range(12):
        lowest = min(lowest, tick.groups["0"].observation["action_mask"].sum(axis=-1).min())
        tick = envs.step({"0": {"action": np.array([3, 3])}})
        finals += [row for final in tick.final_observation.values() for row in final.observation["action_mask"]]
    assert len(finals) >= 5
    assert np.array(finals).all()
    assert lowest > 0


@pytest.mark.parametrize("forgets", [False, True])
def test_masks_by_head_of_rows_that_begin_anew_come_from_their_reset(forgets):
    heads = spaces.Dict(go=spaces.Discrete(3), turn=spaces.Discrete(4))
    makers = [partial(Staggered, first, heads) for first in (1, 2)]
    batch = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.DISABLED)
    envs = NativeVectorEnv(batch)
    envs.reset([[1], [2]])
    actions = {"0": {"go": np.zeros(2, np.int64), "turn": np.zeros(2, np.int64)}}
    envs.step(actions)
    if forgets:
        batch.envs[0].source = "nowhere"
        with pytest.raises(EnvError, match="mask is missing") as caught:
            envs.step(actions)
        assert "environment 0" in caught.value.render()
        return
    observation = envs.step(actions).groups["0"].observation
    assert observation["go_mask"].tolist() == [[0, 1, 1], [1, 1, 0]]
    assert observation["turn_mask"].tolist() == [[0, 1, 1, 1], [1, 1, 0, 1]]


def test_several_heads_have_a_mask_each():
    env = GymEnv(Masked("info", spaces.MultiDiscrete([2, 3])))
    assert env.reset()[0]["action_mask"].tolist() == [0, 1, 0, 1, 1]
    heads = spaces.Dict(go=spaces.Discrete(2), turn=spaces.Discrete(3), push=spaces.Box(0, 1, (1,), np.float32))

    class TwoHeads(Masked):
        def mask(self):
            return {"go": [0, 1], "turn": [1, 1, 0]}

    env = GymEnv(TwoHeads("info", heads))
    observation, _ = env.reset()
    assert observation["go_mask"].tolist() == [0, 1]
    assert observation["turn_mask"].tolist() == [1, 1, 0]
    assert "push_mask" not in observation


def test_a_mask_that_disappears_or_has_the_wrong_size_is_an_error():
    envs = SequentialVectorEnv([lambda: GymEnv(Masked("info", forget_at=2))])
    envs.reset([[8]])
    envs.step({"0": {"action": np.array([0])}})
    with pytest.raises(EnvError, match="missing now") as caught:
        envs.step({"0": {"action": np.array([0])}})
    assert "seed 8" in str(caught.value)

    class Wrong(Masked):
        def mask(self):
            return np.ones(7)

    with pytest.raises(EnvError, match="wrong size"):
        GymEnv(Wrong("info"))
    with pytest.raises(RequestError, match="no action mask by 'info'"):
        GymEnv(Echo(), action_mask="info")


def test_an_unknown_id_names_the_nearest_and_what_to_do():
    with pytest.raises(RequestError) as caught:
        make_env(GymOptions(id="CartPol-v1"))
    assert "CartPole-v1" in caught.value.nearest
    with pytest.raises(RequestError, match="ale-py"):
        make_env(GymOptions(id="ALE/NoSuchGame-v5"))
    with pytest.raises(RequestError, match="kwargs"):
        make_env(GymOptions(id="CartPole-v1", kwargs={"colour": "red"}))


def test_a_missing_package_names_the_extra():
    def entry_point():
        raise gymnasium.error.DependencyNotInstalled('run `pip install "gymnasium[box2d]"`')

    gymnasium.register("NeedsBox-v0", entry_point=entry_point)
    try:
        with pytest.raises(RequestError, match=r"pip install 'gymnasium\[box2d\]'"):
            make_env(GymOptions(id="NeedsBox-v0"))
    finally:
        del gymnasium.registry["NeedsBox-v0"]


def test_a_time_limit_and_kwargs_reach_the_environment():
    env = make_env(GymOptions(id="Pendulum-v1", max_episode_steps=4, kwargs={"g": 1.0}))
    env.reset(seed=0)
    assert env.env.unwrapped.g == 1.0
    flags = [env.step({"action": np.zeros(1, np.float32)})[3] for _ in range(4)]
    assert flags == [False, False, False, True]


def test_classes_factories_and_instances_serve_as_well():
    for source in (Echo, lambda: Echo(), Echo()):
        env = make_env(GymOptions(id=source, max_episode_steps=2))
        env.reset()
        assert not env.step({"action": 0})[3]
        assert env.step({"action": 0})[3]
    assert make_env(GymOptions(id="gymnasium.envs.classic_control:PendulumEnv")).reset(seed=1)
    with pytest.raises(EnvError, match="made something else"):
        make_env(GymOptions(id="builtins:dict"))


class Endless(Echo):
    def step(self, action):
        return (*super().step(action)[:2], False, False, {})


def limited():
    return TimeLimit(Endless(), 4)


def wrapped():
    return RecordEpisodeStatistics(OrderEnforcing(limited()))


class Aside(gymnasium.Wrapper):
    """Keeps what it wraps under a name of its own."""

    def __init__(self, env):
        super().__init__(env)
        self.inner = env

    def step(self, action):
        return self.inner.step(action)


def aside():
    return Aside(limited())


def limited_twice():
    return TimeLimit(RecordEpisodeStatistics(limited()), 3)


def registered():
    return gymnasium.make("Endless-v0")


@pytest.fixture
def endless():
    gymnasium.register("Endless-v0", entry_point=Endless, max_episode_steps=4)
    gymnasium.register("Wrapped-v0", entry_point=wrapped, max_episode_steps=4)
    yield
    del gymnasium.registry["Endless-v0"], gymnasium.registry["Wrapped-v0"]


@pytest.mark.parametrize("n_steps", [2, 6, None])
@pytest.mark.parametrize(
    "source",
    [
        "Endless-v0",
        "Wrapped-v0",
        Endless,
        limited,
        wrapped,
        aside,
        limited_twice,
        registered,
        "instance",
        "wrapped instance",
    ],
)
@pytest.mark.usefixtures("endless")
def test_a_limit_takes_the_place_of_the_one_around_the_environment(source, n_steps):
    source = {"instance": limited(), "wrapped instance": wrapped()}.get(source, source)
    env = make_env(GymOptions(id=source, max_episode_steps=n_steps))
    env.reset(seed=0)
    steps = 1
    while steps < 9 and not env.step({"action": 0})[3]:
        steps += 1
    assert steps == (n_steps or {Endless: 9, limited_twice: 3}.get(source, 4))


def test_other_wrappers_stay_where_a_limit_is_replaced():
    env = make_env(GymOptions(id=wrapped, max_episode_steps=6)).env
    kinds = []
    while isinstance(env, gymnasium.Wrapper):
        kinds.append(type(env))
        env = env.env
    assert kinds == [RecordEpisodeStatistics, OrderEnforcing, TimeLimit]
    given = wrapped()
    make_env(GymOptions(id=given, max_episode_steps=6))
    assert given.env.env._max_episode_steps == 4


class Painted(Echo):
    """Writes into what it was built with."""

    def __init__(self, canvas, palette=()):
        super().__init__()
        canvas["rows"][0].append(1)
        self.canvas, self.palette = canvas, palette


@pytest.mark.parametrize("registered", [False, True])
def test_every_environment_has_lists_and_tables_of_its_own(registered):
    given = {"canvas": {"rows": [[0]]}, "palette": np.zeros(3)}
    if registered:
        gymnasium.register("Painted-v0", entry_point=Painted)
    try:
        options = GymOptions(id="Painted-v0" if registered else Painted, kwargs=given)
        inner = [make_env(options).env.unwrapped for _ in range(2)]
    finally:
        gymnasium.registry.pop("Painted-v0", None)
    assert [env.canvas for env in inner] == [{"rows": [[0, 1]]}] * 2
    assert given["canvas"] == {"rows": [[0]]}
    assert all(env.palette is given["palette"] for env in inner)


class InfoMasked(Echo):
    """Gives one mask in `info`, from a step on."""

    def __init__(self, action_space, mask, first=0):
        super().__init__(action_space=action_space)
        self.mask, self.first = mask, first

    def reset(self, *, seed=None, options=None):
        observation, _ = super().reset(seed=seed)
        return observation, {"action_mask": self.mask} if not self.first else {}

    def step(self, action):
        return (*super().step(action)[:4], {"action_mask": self.mask} if self.n_steps >= self.first else {})


HEADS = spaces.Dict(turn=spaces.Discrete(3), push=spaces.Box(-1, 1, (1,), np.float32))


@pytest.mark.parametrize(
    ("action_space", "mask", "words"),
    [
        (spaces.Box(-1, 1, (2,)), np.ones(2), ["fits no action head"]),
        (spaces.Discrete(3), np.ones(4), ["'action'", "(4,)", "(3,)"]),
        (HEADS, {"trun": np.ones(3)}, ["'trun'", "turn"]),
        (HEADS, {"turn": np.ones(3), "push": np.ones(1)}, ["'push'", "no action head that can be masked"]),
        (HEADS, {"turn": np.ones(2)}, ["'turn'", "(2,)"]),
        (spaces.MultiDiscrete([2, 3]), np.ones(4), ["(4,)", "(5,)"]),
        (spaces.MultiBinary(3), np.ones(2), ["(2,)", "(3,)"]),
    ],
)
def test_a_mask_in_info_that_fits_no_head_is_refused(action_space, mask, words):
    with pytest.raises(EnvError) as caught:
        GymEnv(InfoMasked(action_space, mask)).reset(seed=0)
    for word in words:
        assert word in caught.value.render()
    GymEnv(InfoMasked(action_space, mask), action_mask="none").reset(seed=0)


def test_a_mask_that_appears_later_is_refused_where_it_appears():
    env = GymEnv(InfoMasked(spaces.Discrete(3), np.ones(3), first=2))
    env.reset(seed=0)
    env.step({"action": 0})
    with pytest.raises(EnvError, match="was not there at the first reset"):
        env.step({"action": 0})


def test_bits_are_masked_from_info():
    env = GymEnv(InfoMasked(spaces.MultiBinary((2, 2)), np.array([[0, 1], [1, 1]])))
    assert env.reset(seed=0)[0]["action_mask"].tolist() == [0, 1, 1, 1]


def test_an_observation_with_the_name_of_a_head_is_no_mask():
    class Named(InfoMasked):
        def __init__(self):
            super().__init__(spaces.Dict(turn=spaces.Discrete(3)), {"turn": np.array([1, 0, 1])})
            self.observation_space = spaces.Dict(turn=spaces.Discrete(3))

    assert GymEnv(Named()).reset(seed=0)[0]["turn_mask"].tolist() == [1, 0, 1]


@pytest.mark.parametrize("kind", [bool, np.int8, np.float32, list])
def test_a_mask_that_was_read_stays_as_it_was_when_the_environment_changes_its_own(kind):
    given = [True, False, True] if kind is list else np.array([True, False, True]).astype(kind)
    reader = MaskReader({"action": 3}, None, given)
    observation = {}
    reader.add_to(observation, {"action_mask": given}, False)
    (mask,) = observation.values()
    given[1] = True
    assert mask.dtype == np.int8
    np.testing.assert_array_equal(mask, [1, 0, 1])
