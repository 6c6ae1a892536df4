"""The suites pass on components that keep their contract and name the rule on components that break it."""

import attrs
import numpy as np
import pytest
import torch
from gymnasium import spaces

import maze_kernel.builtin
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.contracts.transform import Transform
from maze_runtime.env.flat import flat_spaces
from maze_runtime.rollout.random_policy import RandomPolicy
from maze_testing.blocks import check_block
from maze_testing.conformance import ConformanceError
from maze_testing.environments import ObservationReward
from maze_testing.envs import check_env, check_wrapper
from maze_testing.fixtures import isolated_kernel  # noqa: F401
from maze_testing.loggers import check_logger
from maze_testing.policies import check_policy
from maze_testing.trainers import check_trainer
from maze_testing.transforms import check_transform

SPACES = flat_spaces(
    spaces.Dict({"observation": spaces.Box(-2.0, 2.0, (3,), np.float32)}), spaces.Dict({"action": spaces.Discrete(3)})
)


def test_the_isolated_kernel_sees_only_what_it_is_given(isolated_kernel):  # noqa: F811
    assert [plugin.name for plugin in isolated_kernel(maze_kernel.builtin).plugins] == ["maze_kernel.builtin"]
    with pytest.raises(AssertionError, match="MAZE_PLUGIN_API is missing"):
        isolated_kernel(object())


class WrongDtype(ObservationReward):
    def reset(self, **arguments):
        observation, info = super().reset(**arguments)
        return {name: array.astype(np.float64) for name, array in observation.items()}, info


class NotSeeded(ObservationReward):
    def reset(self, *, seed=None, options=None):
        return super().reset()


class NaNReward(ObservationReward):
    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, float("nan"), *rest


class NoReward(ObservationReward):
    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, None, *rest


class ActionInPlace(ObservationReward):
    def step(self, action):
        result = super().step(action)
        for name, value in action.items():
            action[name] = np.zeros_like(value) + 2
        return result


class Leaving(ObservationReward):
    def step(self, action):
        raise SystemExit(0)


def test_env():
    check_env(ObservationReward)


@pytest.mark.parametrize(
    ("env", "rule"),
    [
        (WrongDtype, "dtype float64"),
        (NotSeeded, "one seed"),
        (NaNReward, "not one finite number"),
        (NoReward, "None is not one finite number"),
        (ActionInPlace, "step.. changes its argument"),
        (Leaving, "it raised SystemExit"),
    ],
)
def test_broken_env(env, rule):
    with pytest.raises(ConformanceError, match=rule):
        check_env(env)


class PassOn:
    def __init__(self, env):
        self.__dict__["_env"] = env

    def __getattr__(self, name):
        return getattr(self._env, name)


class KeepOpen(PassOn):
    def close(self):
        pass


def test_wrapper():
    check_wrapper(PassOn, ObservationReward)
    with pytest.raises(ConformanceError, match="does not close"):
        check_wrapper(KeepOpen, ObservationReward)


class Doubling(Transform):
    def bind(self, inner):
        outer = spaces.Dict({"observation": spaces.Box(-4.0, 4.0, (3,), np.float32)})
        return attrs.evolve(inner, observation={"0": outer})

    def observation(self, policy_key, observation):
        return {name: array * np.float32(2) for name, array in observation.items()}


class SpacesForgotten(Doubling):
    def bind(self, inner):
        return inner


class InPlace(Doubling):
    def observation(self, policy_key, observation):
        for array in observation.values():
            array *= 2
        return observation


class RewardInPlace(Transform):
    def reward(self, reward):
        reward *= 0.5
        return reward


class MeanReward(Transform):
    def reward(self, reward):
        return np.asarray(reward).mean()


class TickInPlace(Transform):
    def memory(self, n_envs):
        return self

    def reset(self, tick):
        return tick

    def step(self, actions, tick):
        tick.reward *= 0
        return tick


class StateForNoCheckpoint(Transform):
    def state_dict(self):
        return {"seen": {1, 2}}


class NoSpaces(Transform):
    def bind(self, inner):
        return None


class NoObservation(Transform):
    def observation(self, policy_key, observation):
        return None


class OverTheBatch(Transform):
    def observation(self, policy_key, observation):
        return {
            name: (array - (array.mean(axis=0) if array.ndim > 1 else 0)).clip(-2, 2)
            for name, array in observation.items()
        }


class Forgetful(Transform):
    total = np.float32(0)

    def observe_step(self, observation, reward, ended):
        self.total = self.total + reward.sum()

    def reward(self, reward):
        return reward + self.total


class DenialOfChange(Doubling):
    def changes(self, what):
        return False


class DenialOfLearning(Transform):
    keeps_running_statistics = False
    n = 0

    def observe_step(self, observation, reward, ended):
        self.n += 1

    def state_dict(self):
        return {"n": self.n}

    def load_state_dict(self, state):
        self.n = state["n"]


class DenialOfState(DenialOfLearning):
    keeps_running_statistics = True
    saves_state = False


def test_transform():
    check_transform(Doubling, SPACES)


@pytest.mark.parametrize(
    ("transform", "rule"),
    [
        (SpacesForgotten, "outside"),
        (InPlace, "in place"),
        (RewardInPlace, "reward.. changes its argument in place"),
        (MeanReward, "rewards has shape"),
        (TickInPlace, "step.. of its memory changes the tick"),
        (StateForNoCheckpoint, "holds what no checkpoint can"),
        (NoSpaces, "bind returns NoneType"),
        (NoObservation, "it raised AttributeError"),
        (OverTheBatch, "differs from one sample"),
        (Forgetful, "restored transform gives other rewards"),
        (DenialOfChange, "observation.. changes something"),
        (DenialOfLearning, "observe_step.. changes statistics"),
        (DenialOfState, "not empty"),
    ],
)
def test_broken_transform(transform, rule):
    with pytest.raises(ConformanceError, match=rule):
        check_transform(transform, SPACES)


class Block(torch.nn.Module):
    in_keys, out_keys, in_shapes = ("x",), ("y",), ((4,),)

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, inputs):
        return {"y": self.layer(inputs["x"])}

    def out_shapes(self):
        return ((2,),)


class WrongShape(Block):
    def out_shapes(self):
        return ((3,),)


class NoShapes(Block):
    def out_shapes(self):
        return 2


class DoubleNumbers(Block):
    def forward(self, inputs):
        return {"y": super().forward(inputs)["y"].double()}


class NoDict(Block):
    def forward(self, inputs):
        return self.layer(inputs["x"])


class Sum(torch.nn.Module):
    """State from step to step: what was seen of the episode so far."""

    in_keys, in_shapes = ("x", "state/y", "episode/begins"), ((2,), (2,), ())
    out_keys = ("y", "next_state/y")

    def forward(self, inputs):
        x, state, begins = (inputs[key] for key in self.in_keys)
        states = []
        for rows, restarts in zip(self.steps(x, state), self.steps(begins, state), strict=True):
            state = self.before(state, restarts) + rows
            states.append(state)
        sums = torch.cat(states)
        return {"y": sums.clone(), "next_state/y": sums}

    def steps(self, rows, state):
        return rows.split(len(state))

    def before(self, state, begins):
        return state * (1.0 - begins)[:, None]

    def out_shapes(self):
        return ((2,), (2,))


class SumOfOneStep(Sum):
    def forward(self, inputs):
        x, state, begins = (inputs[key] for key in self.in_keys)
        n_steps = len(x) // len(state)
        sums = self.before(state.repeat(n_steps, 1), begins) + x
        return {"y": sums.clone(), "next_state/y": sums}


class SumForever(Sum):
    def before(self, state, begins):
        return state


class SumOfAll(Sum):
    def before(self, state, begins):
        return super().before(state, begins).mean(0, keepdim=True).expand_as(state)


class DeadParameter(Block):
    def __init__(self):
        super().__init__()
        self.unused = torch.nn.Linear(1, 1)


class Unsaved(Block):
    def __init__(self):
        super().__init__()
        self.offset = torch.randn(2)

    def forward(self, inputs):
        return {"y": self.layer(inputs["x"]) + self.offset}


class Mirrored(Block):
    def make_mirror(self):
        weight, bias = (self.kept(parameter.detach().numpy()) for parameter in self.layer.parameters())
        return lambda arrays: {"y": arrays["x"] @ weight.T + bias}

    def kept(self, array):
        return array


class MirrorOfCopies(Mirrored):
    def kept(self, array):
        return array.copy()


class OtherMirror(Mirrored):
    def kept(self, array):
        return 2 * array


@pytest.mark.parametrize("block", [Block, Mirrored, Sum])
def test_block(block):
    check_block(block)


@pytest.mark.parametrize(
    ("block", "rule"),
    [
        (WrongShape, "announced"),
        (DeadParameter, "unused.weight"),
        (Unsaved, "restored"),
        (MirrorOfCopies, "read their memory"),
        (OtherMirror, "gives another output"),
        (NoShapes, "out_shapes.. is 2"),
        (DoubleNumbers, "dtype torch.float64"),
        (NoDict, "gives Tensor, not a dict"),
        (SumOfOneStep, "differs from the steps one by one"),
        (SumForever, "an episode begins"),
        (SumOfAll, "depends on the others"),
    ],
)
def test_broken_block(block, rule):
    with pytest.raises(ConformanceError, match=rule):
        check_block(block)


class GlobalRandom(RandomPolicy):
    def seed(self, seed):
        self._rng = np.random.default_rng()


class OutOfSpace(RandomPolicy):
    def act(self, policy_key, group, *, deterministic=False):
        return {"action": np.full(len(group.env_index), 3)}


def test_policy():
    check_policy(lambda: RandomPolicy(PolicyContext(spaces=SPACES)), SPACES)


@pytest.mark.parametrize(("policy", "rule"), [(GlobalRandom, "one seed"), (OutOfSpace, "outside")])
def test_broken_policy(policy, rule):
    with pytest.raises(ConformanceError, match=rule):
        check_policy(lambda: policy(PolicyContext(spaces=SPACES)), SPACES)


@attrs.frozen(kw_only=True)
class ToyOptions:
    n_epochs: int = 1
    patience: int = 0
    device: str = "cpu"
    compile: bool = False
    max_env_steps: int = 0


class ToyTrainer:
    saved = ("momentum",)

    def __init__(self):
        self.options = ToyOptions()
        self.model = torch.nn.Linear(1, 1)
        torch.nn.init.zeros_(self.model.weight)
        torch.nn.init.zeros_(self.model.bias)
        self.env_steps, self.momentum = 0, 0.0

    def start_segment(self, epoch):
        self.rng = np.random.default_rng(epoch)

    def train_epoch(self):
        self.momentum = 0.9 * self.momentum + self.rng.normal()
        with torch.no_grad():
            self.model.weight += self.momentum
        self.env_steps += 10
        return {"Toy/momentum": self.momentum}

    def state_dict(self):
        return {"env_steps": self.env_steps, **{name: getattr(self, name) for name in self.saved}}

    def load_state_dict(self, state):
        self.__dict__.update(state)

    def close(self):
        pass


class LosesMomentum(ToyTrainer):
    saved = ()


def test_trainer():
    check_trainer(ToyTrainer)
    with pytest.raises(ConformanceError, match="other weights"):
        check_trainer(LosesMomentum)


class FileLogger:
    def __init__(self, context):
        self.path = context.run_dir / "log.txt"

    def write(self, record):
        with self.path.open("a") as file:
            file.write(f"{record.epoch} {len(record.train)}\n")

    def close(self, outcome):
        pass


class Elsewhere(FileLogger):
    def __init__(self, context):
        self.path = context.run_dir.parent / "log.txt"


def test_logger(tmp_path):
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    check_logger(FileLogger, run_dir)
    assert run_dir.joinpath("log.txt").read_text().count("\n") == 6
    with pytest.raises(ConformanceError, match="outside the run directory"):
        check_logger(Elsewhere, run_dir)
