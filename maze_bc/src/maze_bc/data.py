"""The data side: recorded episodes as the training environment would show them, split by whole episodes.

Reading a file format is not here but in `maze_trajectories`; minibatches are in
`maze_bc.minibatches`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import Action, ActorID, Observation, PolicyKey, StructuredSpaces
from maze_kernel.contracts.transform import Transform
from maze_kernel.contracts.vector import ArrayDict
from maze_kernel.errors import RequestError, SpaceError
from maze_runtime.datasets.contract import Source
from maze_runtime.datasets.finite import require_finite
from maze_runtime.env.batching import layout, stack_rows
from maze_runtime.env.episode_transform import EpisodeTransform

OWNER = "maze-bc"

_N_AHEAD = 16
"""Episodes that may be read ahead of a walk over all of them."""


class Decisions(NamedTuple):
    """What the actors of one policy key saw and did, in one or several episodes: n rows.

    Attributes:
        observation: name to (n, ...).
        action: head to (n, ...).
        agent_id: (n,) int64.
        place: (n,) int64, of each decision among all decisions of its episode.
        kept: (n,) bool, which are learnt from; None: all. Wrappers and policies that remember see the others, too.
    """

    observation: ArrayDict
    action: ArrayDict
    agent_id: np.ndarray
    place: np.ndarray
    kept: np.ndarray | None = None

    def without_the_rest(self) -> Decisions:
        """Those that are learnt from."""
        if self.kept is None:
            return self
        observation, action = ({n: array[self.kept] for n, array in own.items()} for own in self[:2])
        return Decisions(observation, action, self.agent_id[self.kept], self.place[self.kept])


Episode = dict[PolicyKey, Decisions]
"""The decisions of one episode, by policy key."""


Demonstrations = Source[Episode]
"""Recorded episodes; each is read when it is asked for, and not kept."""


@attrs.frozen
class Transformed:
    """Demonstrations as a policy outside of transforms would have seen them and acted.

    Attributes:
        inner: what was recorded.
        transforms: bound, innermost first.
        spaces: outside of the transforms.
        whole: give the decisions that are not learnt from, too; `Decisions.kept` tells them.
    """

    inner: Demonstrations
    transforms: Sequence[Transform]
    spaces: StructuredSpaces
    whole: bool = False

    @property
    def lengths(self) -> Sequence[int]:
        """As recorded."""
        return self.inner.lengths

    def expect(self, episodes: Sequence[int]) -> None:
        """As recorded."""
        self.inner.expect(episodes)

    def read(self, index: int) -> Episode:
        """One episode, its observations and actions through each transform in turn, from the innermost out."""
        episode = self.inner.read(index)
        if any(transform.memory(1) is not None for transform in self.transforms):
            episode = self._step_by_step(episode)
        else:
            episode = {key: self._through(key, decisions) for key, decisions in episode.items()}
        return episode if self.whole else {key: own.without_the_rest() for key, own in episode.items()}

    def close(self) -> None:
        """Close what was recorded."""
        self.inner.close()

    def _through(self, key: PolicyKey, decisions: Decisions) -> Decisions:
        observation, action = decisions.observation, decisions.action
        for transform in self.transforms:
            observation = transform.observation(key, observation)
            action = transform.reverse_action(key, action)
        return decisions._replace(observation=observation, action=action)

    def _step_by_step(self, episode: Episode) -> Episode:
        """In the order of the decisions, for transforms that remember the ones before."""
        walk = EpisodeTransform(self.transforms)
        shown: dict[PolicyKey, list[tuple[Observation, Action]]] = {key: [] for key in episode}
        acted: tuple[PolicyKey, Action] | None = None
        order = [(place, key, row) for key, own in episode.items() for row, place in enumerate(own.place.tolist())]
        for _, key, row in sorted(order):
            own = episode[key]
            actor = ActorID(key, int(own.agent_id[row]))
            observation = walk.observation(actor, {name: array[row] for name, array in own.observation.items()}, acted)
            action = walk.reverse_action(key, {name: array[row] for name, array in own.action.items()})
            acted = key, action
            shown[key].append((observation, action))
        return {key: self._stacked(key, episode[key], rows) for key, rows in shown.items()}

    def _stacked(self, key: PolicyKey, decisions: Decisions, rows: list[tuple[Observation, Action]]) -> Decisions:
        return decisions._replace(
            observation=stack_rows(self.spaces.observation[key], [observation for observation, _ in rows]),
            action=stack_rows(self.spaces.action[key], [action for _, action in rows]),
        )


def through(demonstrations: Demonstrations, transforms: Sequence[Transform], *, whole: bool = False) -> Transformed:
    """The demonstrations outside of the transforms of the training environments, which are bound here."""
    outer = demonstrations.spaces
    for transform in transforms:
        outer = transform.bind(outer)
    return Transformed(demonstrations, transforms, outer, whole)


def estimate_transforms(
    demonstrations: Demonstrations, episodes: Sequence[int], transforms: Sequence[Transform]
) -> None:
    """Give transforms with statistics those of the demonstrated observations: the ones a clone will see.

    Args:
        demonstrations: as recorded.
        episodes: those to learn from.
        transforms: innermost first; each sees what those inside of it make of the observations.
    """
    for index, transform in enumerate(transforms):
        seen = through(demonstrations, transforms[:index])
        transform.bind(seen.spaces)
        if transform.estimation_steps:
            transform.finish_estimation([transform.collect(_observations(seen, episodes))])
        elif transform.keeps_running_statistics:
            for observation in _observations(seen, episodes):
                transform.observe_reset(observation, 1)


def _observations(demonstrations: Demonstrations, episodes: Sequence[int]) -> Iterator[Mapping[PolicyKey, ArrayDict]]:
    for position, index in enumerate(episodes):
        demonstrations.expect(episodes[position : position + _N_AHEAD])
        yield {key: decisions.observation for key, decisions in demonstrations.read(index).items()}


def split_episodes(
    n_episodes: int, validation_percentage: float, rng: np.random.Generator
) -> tuple[list[int], list[int]]:
    """Episodes to learn from and to validate on, chosen at random: one each at least, where both are wanted.

    >>> split_episodes(10, 20.0, np.random.default_rng(0))[1]
    [2, 4]
    >>> split_episodes(1, 20.0, np.random.default_rng(0))
    ([0], [])
    """
    wanted = 0 if not validation_percentage else max(1, round(n_episodes * validation_percentage / 100.0))
    n_validation = min(wanted, n_episodes - 1)
    order = rng.permutation(n_episodes).tolist()
    return sorted(order[n_validation:]), sorted(order[:n_validation])


def require_known_keys(recorded: StructuredSpaces, wanted: StructuredSpaces) -> None:
    """Refuse decisions of policy keys that the training environment does not have.

    Raises:
        SpaceError: names them.
    """
    unknown = [key for key in recorded.policy_keys if key not in wanted.action]
    if unknown:
        raise SpaceError(
            f"the demonstrations are of another environment: policy key {', '.join(map(repr, unknown))}",
            received=f"policy keys {', '.join(map(repr, recorded.policy_keys))}",
            expected=", ".join(map(repr, wanted.policy_keys)),
            option="demonstrations",
            owner=OWNER,
            help="train in the environment they were recorded in, or record this one",
        )


def require_decisions(demonstrations: Demonstrations) -> None:
    """Refuse data from which nothing is learnt.

    Raises:
        RequestError: there are no decisions.
    """
    if not sum(demonstrations.lengths):
        raise RequestError(
            "the demonstrations hold no decisions to learn from",
            option="demonstrations",
            owner=OWNER,
            help="record some: maze rollout --record; or let trainer.processor keep more",
        )


def check_demonstrations(demonstrations: Demonstrations, wanted: StructuredSpaces) -> None:
    """Refuse data that the policies of the training environment cannot learn from.

    Raises:
        RequestError: there are no decisions.
        SpaceError: names, shapes or kinds differ from those of the training environment.
    """
    require_decisions(demonstrations)
    require_known_keys(demonstrations.spaces, wanted)
    for what in ("observation", "action"):
        theirs, ours = getattr(demonstrations.spaces, what), getattr(wanted, what)
        for key, space in theirs.items():
            if _summary(space) != _summary(ours[key]):
                raise SpaceError(
                    f"the {what}s of the demonstrations are not those of the training environment",
                    received=_summary(space),
                    expected=_summary(ours[key]),
                    option="demonstrations",
                    owner=OWNER,
                    help="train in the environment they were recorded in, with wrappers that give the same spaces",
                )


def _summary(space: spaces.Dict) -> str:
    """What has to agree: names, kinds, shapes and numbers of options; bounds may differ."""
    return ", ".join(f"{name}: {_kind(leaf)}" for name, leaf in sorted(space.spaces.items()))


def _kind(leaf: spaces.Space[Any]) -> str:
    return f"Box{leaf.shape} {leaf.dtype}" if isinstance(leaf, spaces.Box) else str(leaf)


def row_bytes(structured: StructuredSpaces) -> int:
    """Memory of one decision of the largest policy key."""
    keys = structured.policy_keys
    return max(
        sum(
            int(np.prod(leaf.shape, dtype=np.int64)) * leaf.dtype.itemsize
            for space in (structured.observation[key], structured.action[key])
            for leaf in layout(space).values()
        )
        for key in keys
    )


Targets = Mapping[PolicyKey, Callable[[ArrayDict], ArrayDict]]
"""Policy key to what turns recorded actions into those that are learnt."""


def load(demonstrations: Demonstrations, episodes: Sequence[int], targets: Targets) -> Episode:
    """The decisions of several episodes in one table a policy key, in order.

    Raises:
        NonFiniteError: NaN or infinity among them; names the episode.
    """
    return joined(read(demonstrations, episodes), demonstrations.spaces.policy_keys, targets)


def read(demonstrations: Demonstrations, episodes: Sequence[int]) -> list[Episode]:
    """Several episodes, of each the policy keys that decided in it.

    Raises:
        NonFiniteError: NaN or infinity among them; names the episode.
    """
    demonstrations.expect(episodes)
    episodes_read = [(index, demonstrations.read(index)) for index in episodes]
    for index, episode in episodes_read:
        _require_finite(index, episode)
    return [{key: own for key, own in episode.items() if len(own.agent_id)} for _, episode in episodes_read]


def joined(episodes: Sequence[Episode], policy_keys: Iterable[PolicyKey], targets: Targets) -> Episode:
    """The decisions of several episodes in one table a policy key, in order; actions as they are learnt."""
    table = {}
    for key in policy_keys:
        parts = [episode[key] for episode in episodes if key in episode]
        if parts:
            table[key] = Decisions(
                _joined([part.observation for part in parts]),
                targets[key](_joined([part.action for part in parts])),
                np.concatenate([part.agent_id for part in parts]),
                np.concatenate([part.place for part in parts]),
            )
    return table


def _joined(parts: Sequence[ArrayDict]) -> ArrayDict:
    return {name: np.concatenate([own[name] for own in parts]) for name in parts[0]}


def _require_finite(index: int, episode: Episode) -> None:
    for key, decisions in episode.items():
        for what, arrays in (("observation", decisions.observation), ("action", decisions.action)):
            require_finite(index, {f"{what} {name!r} of policy key {key!r}": a for name, a in arrays.items()}, OWNER)
