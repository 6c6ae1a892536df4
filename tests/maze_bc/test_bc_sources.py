"""Where episodes come from: recorded arrays, recorded MazeStates, Minari datasets; and what they go through."""

import warnings

import minari
import numpy as np
import pytest
from gymnasium import spaces

from maze_bc.data import Decisions, check_demonstrations, estimate_transforms, through
from maze_bc.recorded_data import RecordedArrays, RecordedStates
from maze_bc.sources import open_demonstrations
from maze_bc.taken_apart import TakenApart
from maze_kernel.components import load_attribute
from maze_kernel.config import experiment_from_mapping, load_experiment
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import EnvError, MazeWarning, RequestError, SpaceError
from maze_runtime.datasets.contract import DatasetContext
from maze_runtime.env.flat import flat_spaces
from maze_runtime.env.simulation import Recording
from maze_runtime.run.assembly import Assembly
from maze_trajectories.dataset import TrajectoryDataset
from maze_trajectories.minari_fit import FittedMinari, open_minari
from maze_trajectories.minari_source import MinariSource
from maze_trajectories.options import MinariOptions
from maze_trajectories.recording import RecordingEnv


class OneEpisode:
    """Observations 0 … 9, actions 0, 1, 2, 0, …"""

    spaces = flat_spaces(
        spaces.Dict({"x": spaces.Box(-np.inf, np.inf, (1,), np.float32)}), spaces.Dict({"a": spaces.Discrete(3)})
    )
    lengths = (10,)

    def expect(self, episodes):
        return

    def read(self, index):
        x = np.arange(10, dtype=np.float32)[:, None]
        return {"0": Decisions({"x": x}, {"a": np.arange(10) % 3}, np.zeros(10, np.int64), np.arange(10))}

    def close(self):
        return


class Affine(Transform):
    """x' = factor · x + shift; outer actions count from `first`."""

    def __init__(self, factor, shift, first):
        self.factor, self.shift, self.first = factor, shift, first

    def bind(self, inner):
        (head,) = inner.action["0"].spaces.values()
        self.inner_start = int(head.start)
        outer = spaces.Discrete(3, start=self.inner_start * 10 + self.first)
        return flat_spaces(inner.observation["0"], spaces.Dict({"a": outer}))

    def observation(self, policy_key, observation):
        return {"x": self.factor * observation["x"] + self.shift}

    def action(self, policy_key, action):
        return {"a": action["a"] - (self.inner_start * 10 + self.first) + self.inner_start}

    def reverse_action(self, policy_key, action):
        return {"a": action["a"] - self.inner_start + self.inner_start * 10 + self.first}


def test_episodes_go_through_the_wrappers_from_the_innermost_out():
    outer = through(OneEpisode(), [Affine(2.0, 1.0, 3), Affine(10.0, 0.0, 7)])
    decisions = outer.read(0)["0"]
    np.testing.assert_array_equal(decisions.observation["x"][:3, 0], [10.0, 30.0, 50.0])
    np.testing.assert_array_equal(decisions.action["a"][:4], [37, 38, 39, 37])
    assert outer.spaces.action["0"]["a"].contains(decisions.action["a"][1])


def test_wrappers_that_remember_see_an_episode_in_order(kernel):
    wrapper = {"use": "observation-stack", "n": 3}
    data = {"name": "t", "env": {"use": "gym", "id": "CartPole-v1"}, "wrappers": [wrapper], "trainer": {"use": "ppo"}}
    transforms = Assembly(experiment_from_mapping(data, kernel=kernel), kernel).transforms
    stacked = through(OneEpisode(), [*transforms, Affine(2.0, 0.0, 0)]).read(0)["0"].observation
    (values,) = (array.reshape(10, -1) for array in stacked.values())
    assert sorted(values[9].tolist()) == [14.0, 16.0, 18.0]
    assert set(values[0].tolist()) == {0.0}


def test_an_action_that_cannot_be_mapped_back_is_refused():
    class OneWay(Affine):
        reverse_action = Transform.reverse_action

    with pytest.raises(EnvError, match="OneWay"):
        through(OneEpisode(), [OneWay(1.0, 0.0, 0)]).read(0)


@pytest.mark.parametrize("statistics", ["estimated", "running"])
def test_normalisers_get_the_statistics_of_the_episodes_to_learn_from(kernel, statistics):
    wrapper = {"use": "observation-normalization", "statistics": statistics}
    data = {"name": "t", "env": {"use": "gym", "id": "CartPole-v1"}, "wrappers": [wrapper], "trainer": {"use": "ppo"}}
    transforms = Assembly(experiment_from_mapping(data, kernel=kernel), kernel).transforms
    estimate_transforms(OneEpisode(), [0], [Affine(2.0, 0.0, 0), *transforms])
    assert transforms[0].estimation_steps == 0
    values = through(OneEpisode(), [Affine(2.0, 0.0, 0), *transforms]).read(0)["0"].observation["x"]
    np.testing.assert_allclose(values.mean(), 0.0, atol=1e-5)
    np.testing.assert_allclose(values.std(), 1.0, atol=0.1)


def test_episodes_of_another_environment_are_refused():
    other = flat_spaces(OneEpisode.spaces.observation["0"], spaces.Dict({"a": spaces.Discrete(4)}))
    with pytest.raises(SpaceError) as caught:
        check_demonstrations(OneEpisode(), other)
    assert "Discrete(3)" in caught.value.received
    assert "Discrete(4)" in caught.value.expected


def test_there_must_be_episodes(make_trainer, tmp_path):
    with pytest.raises(RequestError, match="no recording"):
        make_trainer(tmp_path / "nowhere")


@pytest.mark.parametrize("options", [{}, {"processor": {"use": "clip-dead-ends", "n_steps": 1}}])
def test_actions_alone_teach_nothing(make_trainer, tmp_path, options):
    env = RecordingEnv(
        load_attribute("maze_testing.environments:Identity")(), Recording(folder=tmp_path / "acts"), actions_only=True
    )
    env.reset(seed=1)
    env.step({"action": 1})
    env.close()
    with pytest.raises(RequestError, match="only actions were recorded") as refusal:
        make_trainer(tmp_path / "acts", wrappers=[], trainer=options)
    assert refusal.value.help == "replay it, and record that"


@pytest.mark.parametrize("pool", [{}, {"workers": {"use": "inline", "count": 2}}])
def test_nothing_is_validated_on_that_is_learnt_from_as_a_copy(identity_recording, make_trainer, tmp_path, pool):
    for name in ("a", "b"):
        identity_recording(n_episodes=5, folder=f"twice/{name}")
    with pytest.warns(MazeWarning, match="5 of the 10 recorded episodes in .* are copies of others") as said:
        trainer = make_trainer(tmp_path / "twice", **pool)
    assert len([own for own in said if "copies" in str(own.message)]) == 1
    assert len(trainer._minibatches.episodes) == 4
    assert len(trainer._validation.episodes) == 1
    with warnings.catch_warnings(action="error"):
        trainer.train_epoch()
    trainer.close()


def test_states_that_only_some_episodes_have_are_missed_in_words(cutting):
    context = (assembly := cutting("structured", "masked")).trainer_context()
    demonstrations = open_demonstrations(assembly.experiment.trainer.options.demonstrations, context)
    demonstrations._recorded.maze_episode = lambda index, core_env: None
    with pytest.raises(RequestError, match="episode 2 was recorded without MazeStates"):
        demonstrations.read(2)
    demonstrations.close()


def test_maze_states_are_converted_for_the_environment_trained_in(cutting):
    context = (assembly := cutting("structured", "masked")).trainer_context()
    demonstrations = open_demonstrations(assembly.experiment.trainer.options.demonstrations, context)
    assert isinstance(demonstrations, RecordedStates)
    recorded = TrajectoryDataset.open(assembly.experiment.trainer.options.demonstrations.options.path)
    shown = demonstrations.read(0)
    masks = {name for key in shown for name in shown[key].observation} - {
        name for key in recorded[0].observation for name in recorded[0].observation[key]
    }
    assert masks, "the masked version observes masks that were never recorded"
    for key, decisions in shown.items():
        space = context.spaces.observation[key]
        for row in range(3):
            assert space.contains({name: array[row] for name, array in decisions.observation.items()})
    demonstrations.close()


def test_structured_environments_are_imitated_key_by_key(cutting):
    assembly = cutting("masked", "masked", n_episodes=6)
    trainer = assembly.make_trainer(assembly.trainer_context())
    keys = assembly.spaces.policy_keys
    assert len(keys) == 2
    first = trainer.train_epoch()
    for _ in range(30):
        last = trainer.train_epoch()
    for key in keys:
        heads = [tag for tag in last if tag.startswith(f"ImitationEvents/accuracy/{key}/")]
        assert heads
        for tag in heads:
            assert last[tag] >= first[tag]
        for name in ("policy_loss", "policy_entropy", "policy_grad_norm"):
            assert last[f"ImitationEvents/{name}/{key}"] > 0.0
        assert f"ValidationEvents/policy_loss/{key}" in last
    assert last["ImitationEvents/policy_loss"] < 0.7 * first["ImitationEvents/policy_loss"]
    trainer.close()


def test_a_flat_recording_teaches_the_structured_version(cutting):
    """Each whole cut is a selection and a cut; both versions show the same inventory at the selection."""
    assembly = cutting("flat", "masked", n_episodes=4)
    data = assembly.experiment.trainer.options.demonstrations
    demonstrations = open_demonstrations(data, assembly.trainer_context())
    assert isinstance(demonstrations, TakenApart)
    recorded = TrajectoryDataset.open(data.options.path)
    for index, episode in enumerate(recorded):
        taken = demonstrations.read(index)
        assert demonstrations.lengths[index] == 2 * len(episode)
        select, cut = taken["select"], taken["cut"]
        np.testing.assert_array_equal(select.place, 2 * np.arange(len(episode)))
        np.testing.assert_array_equal(cut.place, 2 * np.arange(len(episode)) + 1)
        for name in ("inventory", "ordered_piece"):
            np.testing.assert_array_equal(select.observation[name], episode.observation["0"][name])
        for head, part in (("piece_idx", select), ("cut_rotation", cut), ("cut_order", cut)):
            np.testing.assert_array_equal(part.action[head], episode.action["0"][head])
        chosen = episode.action["0"]["piece_idx"]
        np.testing.assert_array_equal(
            cut.observation["selected_piece"],
            episode.observation["0"]["inventory"][np.arange(len(episode)), chosen],
        )
        for key, decisions in taken.items():
            space = assembly.spaces.observation[key]
            for row in range(len(decisions.place)):
                assert space.contains({name: array[row] for name, array in decisions.observation.items()})
    demonstrations.close()


def test_what_is_taken_apart_is_learnt_like_what_was_recorded_in_parts(cutting):
    trainers = []
    for recorded in ("flat", "masked"):
        assembly = cutting(recorded, "masked", n_episodes=4, folder=recorded)
        trainers.append(assembly.make_trainer(assembly.trainer_context()))
    first = [trainer.train_epoch() for trainer in trainers]
    for _ in range(20):
        last = [trainer.train_epoch() for trainer in trainers]
    tag = "ImitationEvents/policy_loss"
    assert last[0][tag] < 0.8 * first[0][tag]
    for key in ("select", "cut"):
        tables = [
            trainer._minibatches._parts.loaded(0, trainer._minibatches._parts.part(0, 0))[key] for trainer in trainers
        ]
        for name in tables[0].observation:
            np.testing.assert_array_equal(*(table.observation[name].numpy() for table in tables))
        for name in tables[0].action:
            np.testing.assert_array_equal(*(table.action[name].numpy() for table in tables))
    for trainer in trainers:
        trainer.close()


def test_a_structured_environment_that_does_not_say_what_follows_is_refused(cutting, monkeypatch):
    from maze_cutting2d.core_env import StructuredCuttingCoreEnv
    from maze_runtime.env.core_env import CoreEnv

    monkeypatch.setattr(StructuredCuttingCoreEnv, "preview_sub_step", CoreEnv.preview_sub_step)
    assembly = cutting("flat", "masked")
    with pytest.raises(RequestError, match="what follows a sub-step") as refusal:
        assembly.make_trainer(assembly.trainer_context())
    assert "preview_sub_step" in refusal.value.help


def test_a_conversion_that_does_not_find_its_part_is_named(cutting, monkeypatch):
    from maze_cutting2d.structured_conversions import CutConversion

    monkeypatch.setattr(CutConversion, "maze_to_space", lambda self, action, state: {"cut_rotation": action.turn})
    assembly = cutting("flat", "masked")
    demonstrations = open_demonstrations(assembly.experiment.trainer.options.demonstrations, assembly.trainer_context())
    with pytest.raises(EnvError, match="'cut' does not find its part") as refusal:
        demonstrations.read(0)
    assert refusal.value.owner == "CutConversion.maze_to_space"
    demonstrations.close()


@pytest.mark.parametrize("workers", [False, True])
def test_decisions_of_other_policy_keys_are_refused_by_name(cutting, identity_recording, assemble, workers):
    pool = {"workers": {"use": "inline", "count": 2}} if workers else {}
    assembly = cutting("structured", "flat", **pool)
    with pytest.raises(SpaceError, match="policy key 'select', 'cut'") as refusal:
        assembly.make_trainer(assembly.trainer_context())
    assert refusal.value.expected == "'0'"
    structured = {"use": "maze_testing.structured_environments:DoorAndKey"}
    wrappers = [{"use": "observation-normalization"}]
    assembly = assemble(identity_recording(), env=structured, wrappers=wrappers, **pool)
    with pytest.raises(SpaceError, match="policy key '0'") as refusal:
        assembly.make_trainer(assembly.trainer_context())
    assert refusal.value.expected == "'door', 'key'"


def test_other_policy_keys_are_shown_where_the_demonstrations_are_named(identity_recording, kernel, tmp_path):
    file = tmp_path / "experiment.toml"
    env = '[env]\nuse = "maze_testing.structured_environments:DoorAndKey"'
    where = f'demonstrations = {{ path = "{identity_recording()}" }}'
    file.write_text(f'name = "x"\n{env}\n[trainer]\nuse = "bc"\n{where}\n')
    assembly = Assembly(load_experiment(file, kernel=kernel), kernel)
    with pytest.raises(SpaceError) as refusal:
        assembly.make_trainer(assembly.trainer_context())
    assert "experiment.toml:6:" in refusal.value.render()


pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:minari.*")


@pytest.fixture
def minari_dataset(tmp_path, monkeypatch):
    """A dataset made of two episodes of a raw Gymnasium space with names and an uneven start."""
    from minari.data_collector import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    observation = spaces.Dict(
        {"at": spaces.Box(-10, 10, (2,), np.float64), "eye": spaces.Dict({"left": spaces.Discrete(4, start=1)})}
    )
    action = spaces.Discrete(3, start=2)

    def episode(n, first):
        at = np.arange(first, first + 2 * (n + 1), dtype=np.float64).reshape(n + 1, 2) / 10
        buffer = {"at": at, "eye": {"left": 1 + np.arange(n + 1) % 4}}
        flags = np.arange(n) == n - 1
        return EpisodeBuffer(
            observations=buffer,
            actions=2 + np.arange(n) % 3,
            rewards=np.ones(n),
            terminations=flags,
            truncations=~flags & flags,
        )

    minari.create_dataset_from_buffers(
        "toy/two-v0", [episode(5, 0), episode(3, 50)], observation_space=observation, action_space=action
    )
    return "toy/two-v0"


WANTED = flat_spaces(
    spaces.Dict({"at": spaces.Box(-10, 10, (2,), np.float32), "eye_left": spaces.Discrete(4)}),
    spaces.Dict({"action": spaces.Discrete(3)}),
)


def test_minari_datasets_come_in_the_spaces_of_the_environment(minari_dataset):
    episodes = RecordedArrays(FittedMinari(MinariSource(minari_dataset), WANTED))
    assert list(episodes.lengths) == [5, 3]
    decisions = episodes.read(1)["0"]
    np.testing.assert_allclose(decisions.observation["at"], [[5.0, 5.1], [5.2, 5.3], [5.4, 5.5]])
    assert decisions.observation["at"].dtype == np.float32
    np.testing.assert_array_equal(decisions.observation["eye_left"], [0, 1, 2])
    np.testing.assert_array_equal(decisions.action["action"], [0, 1, 2])


def test_a_minari_dataset_may_be_named_by_its_folder(minari_dataset, tmp_path):
    assert list(MinariSource(str(tmp_path / "minari" / minari_dataset)).lengths) == [5, 3]


def test_the_folder_of_a_minari_dataset_is_sought_where_the_experiment_was_read(minari_dataset, tmp_path, monkeypatch):
    """Workers may have been started elsewhere."""

    class Bare:
        structured_spaces = WANTED

        def close(self):
            return

    monkeypatch.delenv("MINARI_DATASETS_PATH")
    context = DatasetContext(make_env=Bare, folder=tmp_path)
    assert list(open_minari(context, MinariOptions(id=f"minari/{minari_dataset}")).lengths) == [5, 3]


def test_minari_datasets_that_do_not_fit_are_refused(minari_dataset):
    narrow = flat_spaces(
        spaces.Dict({"at": spaces.Box(-10, 10, (3,), np.float32), "eye_left": spaces.Discrete(4)}), WANTED.action["0"]
    )
    with pytest.raises(SpaceError, match="'at'"):
        FittedMinari(MinariSource(minari_dataset), narrow)
    with pytest.raises(RequestError, match="toy/none-v0"):
        MinariSource("toy/none-v0")


BOX = spaces.Box(-2.0, 2.0, (2,), np.float32)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (spaces.Discrete(6), spaces.Discrete(4)),
        (spaces.Discrete(3), spaces.Discrete(4)),
        (spaces.MultiDiscrete([2, 3]), spaces.MultiDiscrete([2, 4])),
        (BOX, spaces.Box(-2, 2, (2,), np.int64)),
    ],
)
@pytest.mark.parametrize("what", ["observation", "action"])
def test_minari_datasets_with_other_options_or_kinds_of_numbers_are_refused(make_minari, what, theirs, ours):
    plain = {"observation": spaces.Discrete(2), "action": spaces.Discrete(2)}
    source = make_minari(**plain | {what: theirs})
    wanted = flat_spaces(*(spaces.Dict({name: space}) for name, space in (plain | {what: ours}).items()))
    with pytest.raises(SpaceError, match=f"{what!r} of the Minari dataset does not fit") as refusal:
        FittedMinari(source, wanted)
    assert (refusal.value.received, refusal.value.expected) == (str(theirs), str(ours))


@pytest.mark.parametrize(
    ("what", "theirs", "ours", "values", "received"),
    [
        ("action", BOX, spaces.Box(-1.0, 1.0, (2,), np.float32), [0.5, 1.75], "from 0.5 to 1.75"),
        ("action", BOX, spaces.Box(-np.inf, 1.0, (2,), np.float32), [-2.0, 1.000001], None),
        ("action", spaces.Box(-9, 9, (2,), np.int64), spaces.Box(0, 9, (2,), np.float32), [-1, 9], "from -1 to 9"),
        ("observation", spaces.Box(0, 999, (2,), np.int64), spaces.Box(0, 9, (2,), np.uint8), [0, 300], "0 to 300"),
        ("observation", BOX, spaces.Box(-1.0, 1.0, (2,), np.float32), [-2.0, 2.0], None),
    ],
)
def test_what_lies_outside_of_the_environments_spaces_is_refused(make_minari, what, theirs, ours, values, received):
    plain = {"observation": spaces.Discrete(2), "action": spaces.Discrete(2)}
    source = make_minari(**plain | {what: theirs}, values={what: np.array(values, theirs.dtype)})
    wanted = flat_spaces(*(spaces.Dict({name: space}) for name, space in (plain | {what: ours}).items()))
    fitted = FittedMinari(source, wanted)
    if received is None:
        read = getattr(fitted.read(0), what)["0"][what]
        np.testing.assert_array_equal(read, np.array([values] * 3, ours.dtype))
        return
    with pytest.raises(SpaceError, match=f"{what} {what!r} in episode 0 .* outside of the environment's") as refusal:
        fitted.read(0)
    assert received in refusal.value.received
    assert refusal.value.expected == str(ours)


@pytest.fixture
def make_minari(tmp_path, monkeypatch):
    """`make_minari(observation=space, action=space, values={name: value})`: one episode of three steps."""
    from minari.data_collector import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))

    def make(*, observation, action, values=()):
        given = {"observation": observation.sample(), "action": action.sample()} | dict(values)
        last = np.arange(3) == 2
        episode = EpisodeBuffer(
            observations=np.stack([given["observation"]] * 4),
            actions=np.stack([given["action"]] * 3),
            rewards=np.ones(3),
            terminations=last,
            truncations=last & False,
        )
        minari.create_dataset_from_buffers("toy/one-v0", [episode], observation_space=observation, action_space=action)
        return MinariSource("toy/one-v0")

    return make


def test_recorded_arrays_are_taken_as_they_are_where_there_are_no_states(identity_recording, assemble):
    assembly = assemble(identity_recording())
    options = assembly.experiment.trainer.options.demonstrations
    demonstrations = open_demonstrations(options, assembly.trainer_context())
    assert isinstance(demonstrations, RecordedArrays)
    decisions = demonstrations.read(2)["0"]
    np.testing.assert_array_equal(decisions.observation["observation"].argmax(-1), decisions.action["action"])
