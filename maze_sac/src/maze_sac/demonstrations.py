"""Recorded episodes as transitions for replay: soft actor-critic from demonstrations (Vecerik et al. 2017)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import attrs
import numpy as np

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.trainer import TrainerContext
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import RequestError, SpaceError
from maze_kernel.selection import Selection
from maze_replay.drawing import Only
from maze_replay.replay import ReplayBuffer
from maze_replay.scales import ScalesOfNow
from maze_replay.transitions import Transitions
from maze_runtime.datasets.contract import DatasetContext, Episode
from maze_runtime.datasets.finite import require_finite
from maze_runtime.datasets.opening import open_dataset, open_source
from maze_runtime.datasets.transformed import outer_actions, transformed
from maze_runtime.datasets.transitions import concatenate, flat_transitions
from maze_sac.joint import JointKeys
from maze_sac.options import SACOptions
from maze_sac.recorded_play import add_episodes, rows_needed

OWNER = "maze-sac"


class DemonstrationMemory:
    """Puts demonstrations into the replay buffers, or keeps them beside these and mixes them into the batches.

    Args:
        context: of the trainer.
        options: of the trainer; without `demonstrations` nothing is done here.
        scales: what replay keeps of the steps of play, and so of demonstrations.
        joint: joins the decisions of all policy keys; None: each key's are kept by themselves.
    """

    def __init__(
        self, context: TrainerContext, options: SACOptions, scales: ScalesOfNow, joint: JointKeys | None = None
    ) -> None:
        self._context = context
        self._recorded: RecordedDemonstrations | None = None
        self._scales = scales
        self._options = options
        self._run_length = 1 if options.split_rollouts_into_transitions else options.n_rollout_steps
        self._joint = joint
        self._spaces = scales.spaces if joint is None else joint.spaces
        self._kept: dict[PolicyKey, ReplayBuffer] = {}

    @property
    def n_transitions(self) -> int:
        """Transitions that are kept here, of all policy keys."""
        return sum(kept.n_transitions for kept in self._kept.values())

    def open(self) -> None:
        """Look for the demonstrations; a run that is resumed after its first update has no need of them.

        Raises:
            MazeError: as `RecordedDemonstrations`.
        """
        if self._recorded is None and self._options.demonstrations is not None:
            self._recorded = RecordedDemonstrations(self._options.demonstrations, self._context, self._scales)

    def fill(self, replay: Mapping[PolicyKey, ReplayBuffer]) -> None:
        """Read the demonstrations and store them, once.

        Args:
            replay: of each policy key; the demonstrations go into the first environment's rings unless they are kept.

        Raises:
            RequestError: they do not fit into `replay`, which is to hold them; or there are none.
            NonFiniteError: NaN or infinity among them; names the episode.
            MazeError: as `open`.
        """
        self.open()
        if self._recorded is None:
            return
        episodes = self._recorded.read()
        if self._joint is not None:
            episodes = [self._joint.episode(episode) for episode in episodes if len(episode)]
        needed = rows_needed(episodes, self._spaces.agent_counts)
        if self._options.keep_demonstrations:
            self._kept = {
                key: self._make_kept(key, n_rows + replay[key].n_spare_rows) for key, n_rows in needed.items()
            }
        else:
            _require_room(replay, needed)
        _store(episodes, self._kept or replay, self._spaces, self._options.gamma)

    def sample_with(
        self, key: PolicyKey, replay: ReplayBuffer, size: int, rng: np.random.Generator, only: Only | None = None
    ) -> Transitions:
        """A batch of both: `demonstration_fraction` of it from here, or every transition equally likely.

        Where rollouts are not split, `size` counts runs of transitions, see `ReplayBuffer.sample`.
        """
        kept = self._kept.get(key)
        n_kept = 0 if kept is None else kept.count(only)
        if kept is None or not n_kept:
            return replay.sample(size, rng, only=only, run_length=self._run_length)
        fraction, share = self._options.demonstration_fraction, n_kept / (n_kept + replay.count(only))
        n_own = round(fraction * size) or int(rng.binomial(size, fraction or share))
        own, played = (
            buffer.sample(n, rng, only=only, run_length=self._run_length)
            for buffer, n in ((kept, n_own), (replay, size - n_own))
        )
        return own.followed_by(played)

    def state_dict(self) -> dict[str, Any]:
        """What is kept."""
        return {key: {"n_rows": kept.n_rows, "kept": kept.state_dict()} for key, kept in self._kept.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        for key, part in state.items():
            self._kept[key] = self._make_kept(key, int(part["n_rows"]))
            self._kept[key].load_state_dict(part["kept"])

    def _make_kept(self, key: PolicyKey, n_rows: int) -> ReplayBuffer:
        n_agents = max(1, self._spaces.agent_counts[key])
        kept = ReplayBuffer(self._spaces.observation[key], self._spaces.action[key], n_agents, n_agents * n_rows)
        self._scales.serve({key: kept})
        return kept


class RecordedDemonstrations:
    """Recorded episodes of the training environment, as replay keeps what its wrappers show.

    Args:
        data: the dataset that holds them.
        context: of the trainer; with workers, these read them.
        scales: what replay keeps.

    Raises:
        MazeError: see `open_dataset`.
        SpaceError: they are of an environment with other spaces.
    """

    def __init__(self, data: Selection, context: TrainerContext, scales: ScalesOfNow) -> None:
        self._data, self._context = data, context
        transforms = list(context.transforms)
        n_inside, n_paid = (
            transforms.index(layers[0].transform) if layers else len(transforms)
            for layers in (scales.layers, scales.reward_layers)
        )
        self._inside, self._paid = transforms[:n_inside], transforms[:n_paid]
        with closing(open_dataset(data, DatasetContext(make_env=context.make_env))) as recorded:
            spaces, name = recorded.spaces, recorded.name
        for transform in context.transforms:
            spaces = transform.bind(spaces)
        if spaces != context.spaces:
            raise SpaceError(
                "the demonstrations are of an environment with other spaces",
                received=f"{spaces} in {name}",
                expected=str(context.spaces),
                owner=OWNER,
                help="record them with the environment and the wrappers of this experiment",
            )

    def read(self) -> list[Episode]:
        """All episodes; rewards are what those wrappers make of the recorded ones inside of which replay stores.

        Raises:
            RequestError: there are no decisions, or only actions were recorded.
            NonFiniteError: NaN or infinity among them.
        """
        with closing(open_source(self._data, open_dataset, self._context)) as source:
            indices = range(len(source.lengths))
            source.expect(indices)
            episodes = [self._read(index, source.read(index)) for index in indices]
        if not any(len(episode) for episode in episodes):
            raise RequestError(
                "the demonstrations hold no decisions", owner=OWNER, help="record some: maze rollout --record"
            )
        return episodes

    def _read(self, index: int, recorded: Episode) -> Episode:
        if len(recorded) and not recorded.observation:
            raise RequestError(
                "only actions were recorded, so there are no transitions", help="replay it, and record that"
            )
        _require_finite(index, recorded)
        episode, divided = transformed(recorded, self._inside), recorded.actor_reward
        return attrs.evolve(
            episode,
            action=outer_actions(recorded, self._context.transforms),
            reward=_outer_reward(recorded.reward, self._paid),
            actor_reward=None if divided is None else _outer_reward(divided, self._paid),
        )


def _outer_reward(reward: np.ndarray, transforms: Sequence[Transform]) -> np.ndarray:
    for transform in transforms:
        reward = np.asarray(transform.reward(reward), np.float32)
    return reward


def _require_finite(index: int, episode: Episode) -> None:
    for what, by_key in (("observation", episode.observation), ("action", episode.action)):
        for key, arrays in by_key.items():
            require_finite(index, {f"{what} {name!r} of policy key {key!r}": a for name, a in arrays.items()}, OWNER)
    require_finite(
        index, {f"final observation {name!r}": a[None] for name, a in episode.final_observation.items()}, OWNER
    )
    require_finite(index, {"reward": episode.reward}, OWNER)


def _require_room(replay: Mapping[PolicyKey, ReplayBuffer], needed: Mapping[PolicyKey, int]) -> None:
    for key in needed:
        n_rows = needed[key] + replay[key].n_spare_rows
        if n_rows > replay[key].n_rows:
            raise RequestError(
                f"the demonstrations do not fit into the replay buffer of policy key {key!r}",
                received=f"{n_rows} rows for an environment's share of {replay[key].n_rows}",
                owner=OWNER,
                help="raise trainer.replay_buffer_size, or set trainer.keep_demonstrations = true",
            )


def _store(
    episodes: Sequence[Episode], replay: Mapping[PolicyKey, ReplayBuffer], spaces: StructuredSpaces, gamma: float
) -> None:
    if not spaces.is_flat or not all(episode.flat_step_end.all() for episode in episodes):
        add_episodes(episodes, replay, spaces.agent_counts, gamma)
        return
    steps = concatenate([flat_transitions(episode) for episode in episodes if len(episode)])
    transitions = Transitions(
        observation=steps.observation,
        action=steps.action,
        reward=steps.reward,
        next_observation=steps.next_observation,
        discount=np.where(steps.terminated, 0.0, gamma).astype(np.float32),
    )
    (buffer,) = replay.values()
    buffer.add_episodes(0, transitions, steps.terminated | steps.truncated)
