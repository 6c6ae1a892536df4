"""Whether a batch of environments keeps to the form of `VectorEnv`: all of what it returns at first, a glance later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.vector import Tick, VectorEnv
from maze_kernel.errors import EnvError, MazeError
from maze_runtime.env.batching import layout
from maze_runtime.env.tracebacks import ALONE, user_traceback

_BATCHES = "VectorEnv and Tick in maze_kernel.contracts.vector"
_FLAG = np.dtype(np.bool_)
_N_STEPS = 3
_N_ENDS = 2


class BatchForm:
    """Looks at the ticks of a batch: whole ones after each reset, in the first steps and where episodes end first.

    At every step shapes and dtypes of reward and flags are compared: NumPy would spread one number over all
    environments, and take flags of integers for row numbers.

    Args:
        vector_env: the batch.
        owner: what provides its environment, for messages; None: its module.
        whose: who gives the ticks, for messages.
        contract: what they break where they do not fit, likewise.

    Raises:
        EnvError: from `see_reset` and `see_step`; names what does not fit, and the owner.
    """

    def __init__(
        self, vector_env: VectorEnv, owner: str | None = None, *, whose: str = "the batch", contract: str = _BATCHES
    ) -> None:
        kind = type(vector_env)
        self._owner = owner or kind.__module__
        self._whose, self._contract = whose, contract
        self._says_itself = kind.__module__.startswith("maze_runtime.")
        self._n_envs = vector_env.n_envs
        self._rows = (vector_env.n_envs,)
        self._spaces = vector_env.structured_spaces
        self._phase = "reset"
        self._steps_left, self._ends_left = _N_STEPS, _N_ENDS

    def see_reset(self, tick: Tick) -> None:
        """Examine what `reset` returned."""
        self.examine(tick, "reset")

    def see_step(self, tick: Tick) -> None:
        """Examine what `step` returned, as far as it has to be."""
        if self._steps_left:
            self._steps_left -= 1
            self.examine(tick)
            return
        ended, cut = tick.terminated, tick.truncated
        fits = tick.reward.shape == ended.shape == cut.shape == self._rows
        if not (fits and ended.dtype == _FLAG and cut.dtype == _FLAG):
            self.examine(tick)
        elif self._ends_left and (ended | cut).any():
            self._ends_left -= 1
            self.examine(tick)

    def require_finite(self, tick: Tick) -> None:
        """Refuse NaN and infinity in rewards and observations."""
        numbers = [("reward", tick.reward)]
        for whose, by_key in (("the observation", tick.groups), ("the final observation", tick.final_observation)):
            for key, part in by_key.items():
                numbers += [(f"{whose} {name!r}{self._of(key)}", array) for name, array in part.observation.items()]
        for what, array in numbers:
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                self._refuse(f"{what} is not finite", str(array[~np.isfinite(array)][0]), "finite numbers")

    def raised(self, error: Exception, phase: str) -> Exception:
        """What to raise for an exception of the batch: batches of the runtime say themselves who raised."""
        if isinstance(error, MazeError) or self._says_itself:
            return error
        raised = EnvError(f"its {phase} raised {type(error).__name__}: {error}", owner=self._owner, help=ALONE)
        raised.user_traceback = user_traceback(error)
        raised.__cause__ = error
        return raised

    def examine(self, tick: Tick, phase: str = "step") -> None:
        """Compare all of a tick."""
        self._phase = phase
        if not isinstance(tick, Tick):
            self._refuse("it is no Tick", type(tick).__name__, "maze_kernel.contracts.vector.Tick")
        self._require("reward", tick.reward, self._rows, np.dtype(np.float32))
        for name in ("terminated", "truncated"):
            self._require(name, getattr(tick, name), self._rows, _FLAG)
        for name in ("flat_step_end", "actor_done", "awaiting_reset"):
            if getattr(tick, name) is not None:
                self._require(name, getattr(tick, name), self._rows, _FLAG)
        deciding = self._examine_rows(tick.groups, "the observation")
        self._require_envs("groups", deciding, np.arange(self._n_envs))
        for key, group in tick.groups.items():
            if group.aligned and len(group.env_index) < self._n_envs:
                self._refuse(f"the group{self._of(key)} is aligned, and lacks environments", str(group.env_index))
        ended = np.flatnonzero(tick.terminated | tick.truncated)
        last = self._examine_rows(tick.final_observation, "the final observation")
        self._require_envs("final observations", last, ended)

    def _examine_rows(self, by_key: Mapping[PolicyKey, Any], whose: str) -> np.ndarray:
        """Observations of each policy key; returns the environments that they are of."""
        found: list[np.ndarray] = []
        for key, part in by_key.items():
            if key not in self._spaces.observation:
                keys = ", ".join(map(repr, self._spaces.policy_keys))
                self._refuse(f"{whose} has an unknown policy key", repr(key), f"one of {keys}")
            index = part.env_index
            self._require(f"env_index{self._of(key)}", index, (len(index),), np.dtype(np.int64))
            if (np.diff(index) <= 0).any():
                self._refuse(f"env_index{self._of(key)} does not rise", str(index.tolist()), "rows in rising order")
            if part.agent_id is not None:
                self._require(f"agent_id{self._of(key)}", part.agent_id, index.shape, np.dtype(np.int64))
            self._examine_observation(key, part.observation, len(index), whose)
            found.append(index)
        return np.sort(np.concatenate(found)) if found else np.zeros(0, np.int64)

    def _examine_observation(self, key: PolicyKey, observation: Mapping[str, Any], n_rows: int, whose: str) -> None:
        if not isinstance(observation, Mapping):
            self._refuse(f"{whose}{self._of(key)} is no dict", type(observation).__name__, "arrays by name")
        for name, leaf in layout(self._spaces.observation[key]).items():
            if name not in observation:
                shown = ", ".join(map(repr, observation)) or "no keys"
                self._refuse(f"{whose}{self._of(key)} lacks the key {name!r}", shown, repr(name))
            self._require(f"{whose} {name!r}{self._of(key)}", observation[name], (n_rows, *leaf.shape), leaf.dtype)

    def _require(self, what: str, array: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """An array of this shape; numbers of any width where that is a cast that loses nothing."""
        is_array = isinstance(array, np.ndarray)
        fits = is_array and array.shape == shape
        same = is_array and (array.dtype == dtype or (dtype.kind != "f" and np.can_cast(array.dtype, dtype)))
        if what == "reward":
            same = is_array and array.dtype.kind == "f"
        if not (fits and same):
            given = f"shape {array.shape}, dtype {array.dtype}" if is_array else type(array).__name__
            self._refuse(f"{what} has another form", given, f"an array of shape {shape}, dtype {dtype}")

    def _require_envs(self, what: str, found: np.ndarray, expected: np.ndarray) -> None:
        if not np.array_equal(found, expected):
            self._refuse(
                f"the {what} are of other environments",
                str(found.tolist()),
                f"{expected.tolist()}: " + ("one row of each" if what == "groups" else "each whose episode ended"),
            )

    def _of(self, key: PolicyKey) -> str:
        return f" of policy key {key!r}" if len(self._spaces.policy_keys) > 1 else ""

    def _refuse(self, what: str, received: str, expected: str | None = None) -> NoReturn:
        raise EnvError(
            f"{self._whose} gave at a {self._phase} what does not fit its spaces: {what}",
            received=received,
            expected=expected,
            owner=self._owner,
            help=f"see {self._contract}",
        )


def require_batch(vector_env: Any, n_envs: int, single: Any | None, owner: str | None) -> None:
    """Check that a batch is as large as it was asked to be, and has the spaces of a single environment.

    Args:
        vector_env: the batch.
        n_envs: what it was asked for.
        single: `StructuredSpaces` of one environment; None: not known.
        owner: see `BatchForm`.

    Raises:
        EnvError: it is not, or it has others.
    """
    if getattr(vector_env, "n_envs", None) != n_envs:
        raise EnvError(
            "the batch has another number of environments than it was asked for",
            received=f"n_envs = {getattr(vector_env, 'n_envs', None)}",
            expected=f"n_envs = {n_envs}",
            owner=owner,
        )
    if single is None:
        return
    own = vector_env.structured_spaces
    for what in ("observation", "action"):
        if (found := _form(getattr(own, what))) != (expected := _form(getattr(single, what))):
            raise EnvError(
                f"the batch has another {what} space than a single environment",
                received=str(found),
                expected=str(expected),
                owner=owner,
                help='give both the same spaces, or step single environments: [vector] mode = "sequential"',
            )


def _form(by_key: Mapping[PolicyKey, Any]) -> dict[PolicyKey, Any]:
    """Spaces without the bounds of numbers, which do no harm where they differ."""
    return {key: {name: _shape(leaf) for name, leaf in space.spaces.items()} for key, space in by_key.items()}


def _shape(leaf: spaces.Space[Any]) -> Any:
    return f"Box{leaf.shape} {leaf.dtype}" if isinstance(leaf, spaces.Box) else leaf
