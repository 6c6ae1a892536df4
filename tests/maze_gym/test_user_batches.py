"""A batch of the user's own by import path: stepped as it is, one row of it alone, and what is refused."""

import sys
import warnings

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, iterate

from maze_gym.native_vector import NativeVectorEnv
from maze_gym.options import GymVectorOptions
from maze_gym.user_batch import BatchOfOne, make_env, make_vector_env
from maze_kernel.config import experiment_from_mapping
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.errors import EnvError, MazeError, RequestError
from maze_runtime.playing.env_check import check_environment
from maze_runtime.rollout.random_policy import RandomPolicy
from maze_runtime.run.assembly import Assembly
from maze_testing.envs import check_env


class Countdown(VectorEnv):
    """Row i counts from 3 + its seed's parity down to 0; reward is the action; a mask forbids action 2 at 1."""

    def __init__(self, num_envs, mode="NEXT_STEP", width=1):
        self.num_envs, self.mode = num_envs, AutoresetMode[mode]
        self.metadata = {"autoreset_mode": self.mode}
        self.single_observation_space = spaces.Dict(
            left=spaces.Box(0, 9, (width,), np.float32), action_mask=spaces.MultiBinary(3)
        )
        self.single_action_space = spaces.Discrete(3, start=1)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.width, self.calls = width, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        rows = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        if not hasattr(self, "left") or seed is not None:
            self.left = np.zeros(self.num_envs, np.int64)
        self.left[rows] = self.np_random.integers(2, 5, self.num_envs)[rows]
        self.ended = np.zeros(self.num_envs, bool)
        return self.observe(self.left), {}

    def step(self, actions):
        assert actions.shape == (self.num_envs,)
        assert ((actions >= 1) & (actions <= 3)).all()
        self.calls += 1
        void = self.ended if self.mode is AutoresetMode.NEXT_STEP else np.zeros(self.num_envs, bool)
        self.left = np.where(void, self.np_random.integers(2, 5, self.num_envs), self.left - 1)
        terminated = (self.left == 0) & ~void
        last, infos = self.left.copy(), {}
        if self.mode is AutoresetMode.SAME_STEP and terminated.any():
            final = self.observe(last)
            rows = [{name: array[i] for name, array in final.items()} for i in range(self.num_envs)]
            infos = {"final_obs": np.array(rows, dtype=object), "_final_obs": terminated}
            self.left = np.where(terminated, self.np_random.integers(2, 5, self.num_envs), self.left)
        self.ended = terminated
        reward = np.where(void, 0.0, actions).astype(np.float32)
        return self.observe(self.left), reward, terminated, np.zeros(self.num_envs, bool), infos

    def observe(self, left):
        mask = np.ones((self.num_envs, 3), np.int8)
        mask[left == 1, 2] = 0
        return {"left": np.repeat(left[:, None], self.width, 1).astype(np.float32), "action_mask": mask}


class Over(Countdown):
    """Where an episode is over nothing is allowed."""

    def observe(self, left):
        observation = super().observe(left)
        observation["action_mask"][left == 0] = 0
        return observation


class LargeTogether(Countdown):
    """Leaves its space where it has several rows."""

    def observe(self, left):
        return super().observe(left + 50 * (self.num_envs > 1))


class Deaf(Countdown):
    """Resets all rows where some are meant."""

    def __init__(self, num_envs):
        super().__init__(num_envs, "DISABLED")

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)


class Terse(Deaf):
    """Shows those rows alone that were reset."""

    def reset(self, *, seed=None, options=None):
        observation, infos = Countdown.reset(self, seed=seed, options=options)
        rows = (options or {}).get("reset_mask", slice(None))
        return {name: array[rows] for name, array in observation.items()}, infos


def no_batch(num_envs):
    return object()


def other_size(num_envs):
    return Countdown(num_envs + 1)


HERE = "user_batches_of_tests"


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setitem(sys.modules, HERE, sys.modules[__name__])


def options(name="Countdown", **more):
    return GymVectorOptions(entry=f"{HERE}:{name}", **more)


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP", "DISABLED"])
def test_one_row_alone_is_an_environment_in_every_mode(mode):
    env = make_env(options(kwargs={"mode": mode}))
    seen = [env.reset(seed=4)[0]["left"].tolist()]
    while seen[-1] != [0.0]:
        observation, reward, terminated, truncated, _ = env.step({"action": 1})
        seen.append(observation["left"].tolist())
        assert (reward, terminated, truncated) == (2.0, seen[-1] == [0.0], False)
    assert seen == [[float(n)] for n in range(int(seen[0][0]), -1, -1)]
    assert env.reset(seed=4)[0]["left"].tolist() == seen[0]
    assert not env.step({"action": 0})[2]
    check_env(lambda: make_env(options(kwargs={"mode": mode})), n_steps=60)


def test_training_steps_the_whole_batch_with_one_call():
    data = {
        "name": "x",
        "env": {"use": "gym-vector", "entry": f"{HERE}:Countdown", "kwargs": {"width": 2}},
        "vector": {"n_envs": 7},
        "trainer": {"use": "ppo"},
    }
    loaded = experiment_from_mapping(data, kernel=None)
    batch = Assembly(loaded, loaded.kernel).make_vector_env(7)
    inner = batch
    while not isinstance(inner, NativeVectorEnv):
        inner = inner.vector_env
    tick = batch.reset([[i] for i in range(7)])
    assert tick.groups["0"].observation["left"].shape == (7, 2)
    for _ in range(5):
        batch.step({"0": {"action": np.zeros(7, np.int64)}})
    assert inner.env.calls == 5
    batch.close()


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP", "DISABLED"])
def test_a_mask_that_allows_nothing_where_the_episode_is_over_trains_and_passes_the_check(mode):
    data = {
        "name": "x",
        "env": {"use": "gym-vector", "entry": f"{HERE}:Over", "kwargs": {"mode": mode}},
        "vector": {"n_envs": 4},
        "trainer": {"use": "ppo", "n_rollout_steps": 12, "epoch_length": 2},
    }
    loaded = experiment_from_mapping(data, kernel=None)
    check_environment(loaded, loaded.kernel, n_steps=40, seed=1)
    assembly = Assembly(loaded, loaded.kernel)
    trainer = assembly.make_trainer(assembly.trainer_context())
    trainer.start_segment(0)
    assert trainer.train_epoch()["BaseEnvEvents/episode_count"] > 4


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("no_batch", EnvError, ["no batch", "VectorEnv"]),
        ("other_size", EnvError, ["num_envs = 3", "num_envs = 2"]),
        ("Missing", RequestError, ["Missing", "entry"]),
    ],
)
def test_what_is_no_batch_is_refused(name, error, words):
    with pytest.raises(error) as caught:
        make_vector_env(2, options(name))
    assert isinstance(caught.value, MazeError)
    for word in words:
        assert word in caught.value.render()


def test_a_function_from_python_is_an_entry_too():
    env = make_vector_env(2, GymVectorOptions(entry=lambda num_envs: Countdown(num_envs)))
    assert env.n_envs == 2
    assert BatchOfOne(Countdown(1)).reset(seed=1)[0]["left"].shape == (1,)


PARTS = spaces.Tuple([spaces.Box(-9, 99, (2,), np.float64), spaces.Discrete(5, start=2)])
KINDS = {
    "array": (PARTS[0], lambda parts: parts[0]),
    "number": (PARTS[1], lambda parts: parts[1]),
    "tuple": (PARTS, tuple),
    "dict": (
        spaces.Dict(place=PARTS[0], gear=PARTS[1]),
        lambda parts: dict(zip(("place", "gear"), parts, strict=True)),
    ),
}


class Rows(VectorEnv):
    """Row i shows i and the time, and i + 2; it ends at time 2 + i % 2; `form` is that of last observations."""

    def __init__(self, num_envs, kind, form):
        self.num_envs, self.form = num_envs, form
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space, self.kind = KINDS[kind]
        self.single_action_space = spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.index = np.arange(num_envs)

    def reset(self, *, seed=None, options=None):
        self.time = np.zeros(self.num_envs)
        return self.observe(), {}

    def step(self, actions):
        self.time += 1
        ended, last, infos = self.time == 2 + self.index % 2, self.observe(), {}
        if ended.any():
            self.time[ended] = 0
            infos = {"final_obs": self.formed(last), "_final_obs": ended}
        return self.observe(), np.ones(self.num_envs), ended, np.zeros(self.num_envs, bool), infos

    def observe(self):
        return self.kind((np.stack([self.index, self.time], axis=1).astype(float), self.index + 2))

    def formed(self, last):
        if self.form == "batched":
            return last
        if self.form == "short":
            return self.kind((np.zeros((1, 2)), np.full(1, 2)))
        rows = list(iterate(self.observation_space, last))
        if self.form == "list":
            return rows
        array = np.full(self.num_envs, None)
        for index, row in enumerate(rows):
            array[index] = row
        return array


@pytest.mark.parametrize("form", ["batched", "objects", "list"])
@pytest.mark.parametrize("kind", KINDS)
def test_last_observations_are_taken_batched_and_row_by_row(kind, form):
    batch = make_vector_env(3, options("Rows", kwargs={"kind": kind, "form": form}))
    batch.reset([[0]] * 3)
    batch.step({"0": {"action": np.zeros(3, np.int64)}})
    ticks = [batch.step({"0": {"action": np.zeros(3, np.int64)}}) for _ in range(2)]
    for tick, rows, times in zip(ticks, [[0, 2], [1]], [[2, 2], [3]], strict=True):
        final = tick.final_observation["0"]
        assert final.env_index.tolist() == rows
        place, gear = np.array([rows, times], np.float32).T, np.array(rows)
        expected = {"array": [place], "number": [gear]}.get(kind, [place, gear])
        keys = {"tuple": ["observation_0", "observation_1"], "dict": ["place", "gear"]}.get(kind, ["observation"])
        for key, array in zip(keys, expected, strict=True):
            np.testing.assert_array_equal(final.observation[key], array)
            assert final.observation[key].dtype == tick.groups["0"].observation[key].dtype


@pytest.mark.parametrize("form", ["batched", "objects", "list"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_last_observation_of_one_row_alone_is_taken_in_either_form(kind, form):
    env = make_env(options("Rows", kwargs={"kind": kind, "form": form}))
    env.reset(seed=0)
    env.step({"action": 0})
    observation, _, terminated, _, _ = env.step({"action": 0})
    assert terminated
    values = [np.ravel(value).tolist() for value in observation.values()]
    assert values == {"array": [[0, 2]], "number": [[0]]}.get(kind, [[0, 2], [0]])


def test_batched_last_observations_of_too_few_rows_are_refused():
    with pytest.raises(EnvError, match="another number of rows than the batch in 'place'") as caught:
        play(make_vector_env(3, options("Rows", kwargs={"kind": "dict", "form": "short"})))
    for words in ("(1, 2)", "3 rows", "step 2 since reset"):
        assert words in caught.value.render()


def test_a_batch_has_lists_and_tables_of_its_own():
    given = {"mode": "DISABLED", "layout": [[0]]}

    class Writing(Countdown):
        def __init__(self, num_envs, layout, **kwargs):
            super().__init__(num_envs, **kwargs)
            layout[0].append(1)
            self.layout = layout

    batches = [make_vector_env(2, GymVectorOptions(entry=Writing, kwargs=given)) for _ in range(2)]
    assert [batch.env.layout for batch in batches] == [[[0, 1]]] * 2
    assert given["layout"] == [[0]]


def play(batch, n_steps=12):
    batch.reset([[1]] * batch.n_envs)
    for _ in range(n_steps):
        batch.step({"0": {"action": np.zeros(batch.n_envs, np.int64)}})


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP", "DISABLED"])
def test_a_batch_that_resets_the_rows_of_the_mask_alone_is_not_warned_of(mode):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        play(make_vector_env(6, options(kwargs={"mode": mode})))


def test_a_batch_that_ignores_the_mask_of_a_reset_is_warned_of_once():
    with pytest.warns(
        RuntimeWarning, match="changed 'left'.* of environments that have not ended.*of the mask"
    ) as seen:
        play(make_vector_env(6, options("Deaf")))
    assert len(seen) == 1


def test_a_batch_that_shows_the_rows_of_the_mask_alone_is_refused():
    with pytest.raises(EnvError) as caught:
        play(make_vector_env(6, options("Terse")))
    for words in ("another shape where some environments are reset", "(6, 1)", "all rows", "step", "seed 1"):
        assert words in caught.value.render()


MOVE, TURN = spaces.MultiDiscrete([2, 3]), spaces.Discrete(2)


class Choosing(Countdown):
    """A Countdown whose infos have the masks of several dimensions or heads, in the forms of a single environment."""

    FORMS = {  # noqa: RUF012
        "dimensions": (MOVE, lambda dimensions, turn: dimensions),
        "one after the other": (MOVE, lambda dimensions, turn: np.concatenate(dimensions, axis=1)),
        "heads": (
            spaces.Dict(move=MOVE, turn=TURN),
            lambda dimensions, turn: {"move": dimensions, "turn": turn, "_turn": np.ones(len(turn), bool)},
        ),
        "entries": (spaces.Tuple([MOVE, TURN]), lambda dimensions, turn: (dimensions, turn)),
        "lists": (MOVE, lambda dimensions, turn: [part.tolist() for part in dimensions]),
    }

    def __init__(self, num_envs, mode="NEXT_STEP", form="dimensions"):
        super().__init__(num_envs, mode)
        self.single_observation_space = spaces.Box(0, 9, (1,), np.float32)
        self.single_action_space, self.form = self.FORMS[form]
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, **arguments):
        observation, _ = super().reset(**arguments)
        return observation["left"], self.infos()

    def step(self, actions):
        entries = list(actions.values()) if isinstance(actions, dict) else actions
        move, turn = entries if isinstance(entries, (list, tuple)) else (entries, None)
        dimensions, turns = self.allowed
        for part, chosen in zip(dimensions, np.asarray(move).T, strict=True):
            assert np.take_along_axis(part, chosen[:, None], 1).all()
        assert turn is None or np.take_along_axis(turns, np.asarray(turn)[:, None], 1).all()
        observation, *rest, infos = super().step(np.ones(self.num_envs))
        if "final_obs" in infos:
            infos["final_obs"] = np.array([row["left"] for row in infos["final_obs"]])
            infos["final_info"] = self.infos()
        return observation["left"], *rest, infos | self.infos()

    def infos(self):
        odd = (self.left % 2)[:, None]
        self.allowed = [np.hstack([odd, 1 - odd]), np.hstack([odd, 1 - odd, odd])], np.hstack([1 - odd, odd])
        return {"action_mask": self.form(*self.allowed)}


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP", "DISABLED"])
@pytest.mark.parametrize("form", Choosing.FORMS)
def test_masks_of_several_dimensions_and_heads_have_the_forms_of_a_single_environment(form, mode):
    chosen = options("Choosing", kwargs={"mode": mode, "form": form})
    batch, alone = make_vector_env(3, chosen), make_env(chosen)
    (head, *_), policy = (
        batch.structured_spaces.action["0"],
        RandomPolicy(PolicyContext(spaces=batch.structured_spaces)),
    )
    assert batch.structured_spaces == alone.structured_spaces
    tick = batch.reset([[1], [2], [3]])
    for _ in range(12):
        group = tick.groups["0"]
        odd = group.observation["observation"].astype(np.int8) % 2
        np.testing.assert_array_equal(group.observation[f"{head}_mask"], np.hstack([odd, 1 - odd, odd, 1 - odd, odd]))
        tick = batch.step({"0": policy.act("0", group)})
    check_env(lambda: make_env(chosen), n_steps=20)


@pytest.mark.parametrize("masks", [[np.ones((2, 2)), np.ones((2, 4))], [[[1, 1], [1]], [[1, 1, 1], [1, 1, 1]]]])
def test_masks_of_other_sizes_than_the_dimensions_are_refused_in_words(masks, monkeypatch):
    monkeypatch.setattr(Choosing, "infos", lambda self: {"action_mask": masks})
    with pytest.raises(EnvError, match="the action mask of head 'action'") as raised:
        make_vector_env(2, options("Choosing"))
    assert "(5,)" in raised.value.expected


@pytest.mark.parametrize("mode", ["auto", "native", "sequential"])
def test_maze_check_plays_the_batch_where_the_experiment_steps_it(mode):
    data = {
        "name": "x",
        "env": {"use": "gym-vector", "entry": f"{HERE}:LargeTogether"},
        "vector": {"n_envs": 3, "mode": mode},
        "trainer": {"use": "ppo"},
    }
    loaded = experiment_from_mapping(data, kernel=None)
    if mode == "sequential":
        assert check_environment(loaded, loaded.kernel, n_steps=20, seed=0).n_steps == 20
        return
    with pytest.raises(EnvError, match="the observation 'left' lies outside of its space") as caught:
        check_environment(loaded, loaded.kernel, n_steps=20, seed=0)
    assert "environment 0 of the batch of maze-gym" in caught.value.owner
