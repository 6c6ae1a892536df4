"""Recorded episodes of small environments, and trainers built from an experiment, as the loop builds them."""

import numpy as np
import pytest

from maze_kernel.components import load_attribute
from maze_kernel.config import experiment_from_mapping
from maze_runtime.env.simulation import Recording
from maze_runtime.playing.roll_out import RolloutOptions, roll_out
from maze_runtime.run.assembly import Assembly
from maze_trajectories.recording import RecordingEnv

PROBE = "maze_testing.environments:"


@pytest.fixture
def record(tmp_path):
    """`record(make_env, expert, n_episodes)` -> folder; `expert(observation)` gives the action."""

    def play(make_env, expert, n_episodes=6, folder="demonstrations"):
        env = RecordingEnv(make_env(), Recording(folder=tmp_path / folder))
        for seed in range(n_episodes):
            observation, _ = env.reset(seed=seed)
            ended = False
            while not ended:
                observation, _, terminated, truncated, _ = env.step(expert(observation))
                ended = terminated or truncated
        env.close()
        return tmp_path / folder

    return play


def right_answer(kind):
    """What `Identity` wants, read from its observation."""

    def discrete(shown):
        return int(shown.argmax())

    def multi_discrete(shown):
        return np.array([shown[:3].argmax(), shown[3:].argmax()])

    def as_bits(shown):
        return (shown > 0.5).astype(np.int8)

    answers = {"discrete": discrete, "multi-discrete": multi_discrete, "multi-binary": as_bits, "box": np.copy}
    return lambda observation: {"action": answers[kind](observation["observation"])}


def masked_answer(observation):
    """What `MaskedDict` wants."""
    numbers, mask = observation["observation"], observation["pick_mask"]
    pick = int(np.where(mask, numbers, -2.0).argmax())
    return {"pick": pick, "sign": np.array([numbers[pick] > 0], np.int8)}


@pytest.fixture
def identity_recording(record):
    """`identity_recording(kind)` -> folder with what an expert does in `Identity`."""

    def make(kind="discrete", n_episodes=6, n_steps=20, **more):
        identity = load_attribute(PROBE + "Identity")
        return record(lambda: identity(kind=kind, n_steps=n_steps), right_answer(kind), n_episodes, **more)

    return make


@pytest.fixture
def masked_recording(record):
    return lambda n_episodes=10: record(load_attribute(PROBE + "MaskedDict"), masked_answer, n_episodes)


@pytest.fixture
def assemble(kernel):
    """`assemble(folder, trainer={...}, env={...}, **tables)` -> Assembly."""

    def build(folder, *, trainer=None, **tables):
        trainer = {"use": "bc", "device": "cpu", "demonstrations": {"path": str(folder)}, **(trainer or {})}
        data = {"name": "test", "env": {"use": PROBE + "Identity"}, "trainer": trainer, **tables}
        return Assembly(experiment_from_mapping(data, kernel=kernel), kernel)

    return build


@pytest.fixture
def make_trainer(assemble):
    """A trainer that has started its first segment."""

    def build(folder, **tables):
        assembly = assemble(folder, **tables)
        trainer = assembly.make_trainer(assembly.trainer_context())
        trainer.start_segment(0)
        return trainer

    return build


@pytest.fixture
def cutting(kernel, tmp_path):
    """Greedy episodes of a version of the cutting environment, and the context of a trainer in another."""

    def make(recorded, trained, n_episodes=3, folder="cuts", **tables):
        def load(version, **tables):
            env = {"use": "cutting-2d", "version": version, "max_episode_steps": 12}
            trainer = {"use": "bc", "device": "cpu", "demonstrations": {"path": str(tmp_path / folder)}}
            data = {"name": "cuts", "env": env, "trainer": trainer, **tables}
            return experiment_from_mapping(data, kernel=kernel)

        if not (tmp_path / folder).exists():
            options = RolloutOptions(n_episodes=n_episodes, n_workers=1, record_dir=tmp_path / folder)
            roll_out(load(recorded), kernel, options, policy="cutting-2d-greedy")
        return Assembly(load(trained, **tables), kernel)

    return make
