"""Whether the environment of an experiment can be built and played: what `maze check FILE --steps N` does."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.capabilities import capability
from maze_kernel.contracts.env import PolicyKey, StructuredEnv
from maze_kernel.contracts.vector import ArrayDict, Tick, VectorEnv
from maze_kernel.errors import EnvError, MazeError
from maze_runtime.env.batch_form import require_batch
from maze_runtime.env.division import DividesReward, MisdividedWarning
from maze_runtime.env.mask_reading import mask_names
from maze_runtime.events.raw_reward import raw_reward_of
from maze_runtime.playing.seed_check import first_difference
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.run.assembly import Assembly
from maze_runtime.run.batch_factory import wrap_batch
from maze_runtime.run.evaluators import EvaluationSide, evaluators_of, plays_its_own
from maze_runtime.run.observation_sizes import ObservationSizes, play_at_random
from maze_runtime.run.used_parts import place_error

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.contracts.transform import Transform
    from maze_kernel.loader import Kernel


@attrs.frozen(kw_only=True)
class EnvReport:
    """What was played.

    Attributes:
        n_steps: decisions.
        returns: of the episodes that ended.
        sizes: see `ObservationSizes.found`; empty where wrappers still have to estimate what they scale by.
        unseeded: where a second environment with the same seed and actions went another way; None: nowhere.
    """

    n_steps: int
    returns: Sequence[float]
    sizes: Mapping[str, float]
    unseeded: str | None = None


def check_environment(loaded: LoadedExperiment, kernel: Kernel, *, n_steps: int, seed: int) -> EnvReport:
    """Build one environment inside its wrappers, and the model for its spaces, and play at random; its batch likewise.

    Transforms that estimate statistics before training, and those outside of them, are bound to their spaces and
    not played.

    Args:
        n_steps: decisions to take.
        seed: of the first episode and of the actions; later episodes are unseeded, as in training.

    Raises:
        MazeError: something cannot be built, does not fit, raises, or breaks its contract; an error of the
            environment names seed and step.
    """
    report = _check(Assembly(loaded, kernel), n_steps=n_steps, seed=seed)
    _check_batch(Assembly(loaded, kernel), n_steps, seed)
    return report


def _check_batch(assembly: Assembly, n_steps: int, seed: int) -> None:
    """Play the environment's own batch, too, where the experiment steps it."""
    _ = assembly.spaces
    factory, experiment = assembly.batch_factory(), assembly.experiment
    mode, n_envs, owner = experiment.vector.mode, experiment.vector.n_envs, experiment.env.owner
    is_stepped = mode is None or mode.use.rpartition(":")[2] in ("auto", "native")
    if factory.native is None or factory.env_factory.wrappers or not is_stepped:
        return
    batch = factory.native(n_envs)
    if batch is None:
        return
    with closing(batch):
        require_batch(batch, n_envs, factory.spaces, owner)
        checked = wrap_batch(SpaceCheck(batch, f"the batch of {owner}"), (), training=True, owner=owner)
        play_at_random(checked, n_steps, seed=seed, see=lambda _tick: None)


def check_evaluators(loaded: LoadedExperiment, kernel: Kernel, *, n_steps: int, seed: int) -> dict[str, EnvReport]:
    """The same of the environments that evaluators have of their own, by evaluator; they also have to fit the policy.

    Raises:
        MazeError: as `check_environment`, or the policy of training cannot act there.
    """
    reports = {}
    for name, options in evaluators_of(loaded.experiment).items():
        if not plays_its_own(options):
            continue
        training = Assembly(loaded, kernel)
        side = EvaluationSide(training, name)
        side.check()
        reports[name] = _check(Assembly(side.assembly.loaded, kernel), n_steps=n_steps, seed=seed)
    return reports


def _check(assembly: Assembly, *, n_steps: int, seed: int) -> EnvReport:
    factory = assembly.env_factory(writes_files=False)
    batch = SequentialVectorEnv([factory], checks_steps=True)
    try:
        assembly.bind(assembly.transforms, batch.structured_spaces)
        assembly.make_model()
    except BaseException:
        batch.close()
        raise
    played = _played(assembly.transforms)
    checked = wrap_batch(SpaceCheck(batch, batch.describe), played, training=True, looks_always=True)
    try:
        with closing(checked):
            report = _play(checked, n_steps, seed)
    except MazeError as error:
        place_error(error, assembly)
        raise
    if len(played) < len(assembly.transforms):
        report = attrs.evolve(report, sizes={})
    return attrs.evolve(report, unseeded=first_difference(factory, seed, n_steps))


def _played(transforms: Sequence[Transform]) -> list[Transform]:
    waiting = next((i for i, transform in enumerate(transforms) if transform.estimation_steps), len(transforms))
    return list(transforms[:waiting])


def _play(vector_env: Any, n_steps: int, seed: int) -> EnvReport:
    sizes = ObservationSizes(vector_env.structured_spaces)
    returns, running, told = [], 0.0, 0.0

    def see(tick: Tick) -> None:
        nonlocal running, told
        sizes.add(tick)
        running += float(tick.reward[0])
        if tick.terminated[0] or tick.truncated[0]:
            paid, n_episodes = raw_reward_of(vector_env)  # of all episodes that are over
            returns.append(paid - told if n_episodes else running)
            running, told = 0.0, paid

    play_at_random(vector_env, n_steps, seed=seed, see=see)
    return EnvReport(n_steps=n_steps, returns=returns, sizes=sizes.found())


class SpaceCheck:
    """Implements `VectorEnv`: passes ticks on as they are, unless something lies outside of its space.

    Args:
        vector_env: the raw batch.
        describe: says which environment it was, from its number; or the name of the batch.

    Raises:
        EnvError: from `reset` and `step`; an observation outside of its space, a mask that forbids every choice, or a
            reward that is divided into parts of another sum.
    """

    def __init__(self, vector_env: VectorEnv, describe: Callable[[int], str] | str) -> None:
        self.vector_env = vector_env
        self._describe = describe
        self.n_envs = vector_env.n_envs
        self.structured_spaces = vector_env.structured_spaces

    def reset(self, seeds: Sequence[Sequence[int]]) -> Tick:
        """Start new episodes everywhere; see `VectorEnv.reset`."""
        self._seeds = seeds
        return self._checked(self.vector_env.reset(seeds))

    def step(self, actions: Mapping[PolicyKey, ArrayDict]) -> Tick:
        """Take one decision everywhere; see `VectorEnv.step`."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MisdividedWarning)  # an error below
            tick = self._checked(self.vector_env.step(actions))
        if isinstance(self.vector_env, SequentialVectorEnv):
            for index, env in enumerate(self.vector_env.envs):
                self._check_division(env, index)
        return tick

    def render(self) -> Any:
        """The wrapped batch's drawing."""
        return self.vector_env.render()

    def close(self) -> None:
        """Close the wrapped batch."""
        self.vector_env.close()

    def _checked(self, tick: Tick) -> Tick:
        for key, group in tick.groups.items():
            for row, index in enumerate(group.env_index.tolist()):
                observation = {name: array[row] for name, array in group.observation.items()}
                self._check(key, observation, index)
                if tick.awaiting_reset is None or not tick.awaiting_reset[index]:
                    self._check_masks(key, observation, index)
        for key, final in tick.final_observation.items():
            for row, index in enumerate(final.env_index.tolist()):
                self._check(key, {name: array[row] for name, array in final.observation.items()}, index)
        return tick

    def _check(self, key: PolicyKey, observation: Mapping[str, np.ndarray], index: int) -> None:
        for name, space in self.structured_spaces.observation[key].spaces.items():
            value: Any = observation[name]
            if not space.contains(value if np.ndim(value) else np.asarray(value, space.dtype)[()]):
                self._raise(
                    f"the observation {name!r}{_of(key, self.structured_spaces.policy_keys)} lies outside of its space",
                    _shown(value, space),
                    str(space),
                    "return what the observation space declares, or correct the space",
                    index,
                )

    def _check_division(self, env: StructuredEnv, index: int) -> None:
        divides = capability(env, DividesReward)  # type: ignore[type-abstract]
        if divides is not None and (problem := divides.division_problem()) is not None:
            self._raise(
                problem.what,
                f"parts with the sum {problem.total:g}",
                f"{problem.reward:g}, what step returned for its decisions",
                "divide the reward that it is asked about among the decisions of the flat step",
                index,
            )

    def _check_masks(self, key: PolicyKey, observation: Mapping[str, np.ndarray], index: int) -> None:
        action = self.structured_spaces.action[key]
        for head, name in mask_names(self.structured_spaces.observation[key], action).items():
            value = observation[name]
            if not _leaves_a_choice(np.ravel(value), action[head]):
                self._raise(
                    f"the mask {name!r} forbids every choice",
                    str(np.ravel(value).tolist()),
                    "at least one allowed choice",
                    "allow one choice (a no-op, say) in every state, or end the episode there",
                    index,
                )

    def _raise(self, what: str, received: str, expected: str, help_: str, index: int) -> None:
        where = f"environment {index} of {self._describe}" if isinstance(self._describe, str) else self._describe(index)
        error = EnvError(what, received=received, expected=expected, owner=where, help=help_)
        error.seed = int(self._seeds[index][0]) if self._seeds[index] else None
        raise error


def _of(key: PolicyKey, keys: Sequence[PolicyKey]) -> str:
    return f" of policy key {key!r}" if len(keys) > 1 else ""


def _shown(value: Any, space: spaces.Space[Any]) -> str:
    """A small value itself; of a large one how far it reaches, and where it is out of bounds first."""
    array = np.asarray(value)
    if array.size <= 8:
        return str(array.tolist())
    text = f"values from {array.min():g} to {array.max():g}"
    if isinstance(space, spaces.Box):
        outside = np.argwhere((array < space.low) | (array > space.high))
        if len(outside):
            first = tuple(outside[0].tolist())
            text += f"; {array[first]:g} at {list(first)}"
    return text


def _leaves_a_choice(mask: np.ndarray, space: spaces.Space[Any]) -> bool:
    if isinstance(space, spaces.Discrete):
        return bool(mask.any())
    if isinstance(space, spaces.MultiDiscrete):
        return all(part.any() for part in np.split(mask, np.cumsum(np.ravel(space.nvec))[:-1]))
    return True
