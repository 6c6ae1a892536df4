"""Recorded episodes as transitions for replay: soft actor-critic from demonstrations (Vecerik et al. 2017)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from maze_kernel.errors import RequestError, SpaceError
from maze_kernel.training.contract import TrainerContext
from maze_kernel.trajectories.dataset import TrajectoryDataset
from maze_sac.options import SACOptions, TrajectoryData
from maze_sac.replay import ReplayBuffer, Transitions, rows_of_episodes

OWNER = "maze-sac"


class DemonstrationMemory:
    """Puts demonstrations into a replay buffer, or keeps them beside it and mixes them into the batches.

    Args:
        context: of the trainer.
        options: of the trainer; without `demonstrations` nothing is done here.

    Raises:
        RequestError, SpaceError: as `RecordedDemonstrations`.
    """

    def __init__(self, context: TrainerContext, options: SACOptions) -> None:
        data = options.demonstrations
        self._recorded = None if data is None else RecordedDemonstrations(data, context)
        self._options = options
        self._spaces = context.spaces
        self._kept: ReplayBuffer | None = None

    @property
    def n_transitions(self) -> int:
        """Transitions that are kept here."""
        return 0 if self._kept is None else self._kept.n_transitions

    def fill(self, replay: ReplayBuffer) -> None:
        """Read the demonstrations and store them, once.

        Raises:
            RequestError: they do not fit into `replay`, which is to hold them.
        """
        if self._recorded is None:
            return
        read = self._recorded.read(self._options.gamma)
        n_rows = rows_of_episodes(read.transitions, read.ends)
        if self._options.keep_demonstrations:
            self._kept = self._make_kept(n_rows + 1)
            self._kept.add_episodes(0, read.transitions, read.ends)
        elif n_rows >= replay.n_rows:
            raise RequestError(
                "the demonstrations do not fit into the replay buffer",
                received=f"{len(read.ends)} transitions for an environment's share of {replay.n_rows} rows",
                owner=OWNER,
                help="raise trainer.replay_buffer_size, or set trainer.keep_demonstrations = true",
            )
        else:
            replay.add_episodes(0, read.transitions, read.ends)

    def sample_with(self, replay: ReplayBuffer, size: int, rng: np.random.Generator) -> Transitions:
        """A batch of both: `demonstration_fraction` of it from here, or every transition equally likely."""
        if self._kept is None:
            return replay.sample(size, rng)
        n_kept, fraction = self._kept.n_transitions, self._options.demonstration_fraction
        share = n_kept / (n_kept + replay.n_transitions)
        n_own = round(fraction * size) if fraction else int(rng.binomial(size, share))
        own, played = self._kept.sample(n_own, rng), replay.sample(size - n_own, rng)
        return own.followed_by(played)

    def state_dict(self) -> dict[str, Any]:
        """What is kept."""
        return {} if self._kept is None else {"n_rows": self._kept.n_rows, "kept": self._kept.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        if state:
            self._kept = self._make_kept(int(state["n_rows"]))
            self._kept.load_state_dict(state["kept"])

    def _make_kept(self, n_rows: int) -> ReplayBuffer:
        (key,) = self._spaces.policy_keys
        return ReplayBuffer(self._spaces.observation[key], self._spaces.action[key], 1, n_rows)


@attrs.frozen
class Demonstrations:
    """Whole episodes, one behind the other.

    Attributes:
        transitions: their steps.
        ends: (n,) bool, the last step of each episode.
    """

    transitions: Transitions
    ends: np.ndarray


class RecordedDemonstrations:
    """Recorded episodes of the training environment, as its wrappers would have shown them.

    Args:
        data: where they are.
        context: of the trainer.

    Raises:
        RequestError: there is no recording.
        SpaceError: it is of an environment with other spaces, or a structured one.
    """

    def __init__(self, data: TrajectoryData, context: TrainerContext) -> None:
        self._transforms = context.transforms
        self._dataset = TrajectoryDataset.open(data.path).through(context.transforms)
        if not context.spaces.is_flat:
            raise SpaceError(
                "sac learns from demonstrations of flat environments only",
                received=f"policy keys {', '.join(context.spaces.policy_keys)}",
                owner=OWNER,
                help="clone them with bc, and go on from there with initialize_from",
            )
        if self._dataset.spaces != context.spaces:
            raise SpaceError(
                f"the demonstrations in {data.path} are of an environment with other spaces",
                received=str(self._dataset.spaces),
                expected=str(context.spaces),
                owner=OWNER,
                help="record them with the environment and the wrappers of this experiment",
            )

    def read(self, gamma: float) -> Demonstrations:
        """All episodes; rewards are what the wrappers make of the recorded ones."""
        steps = self._dataset.flat_transitions()
        reward = steps.reward
        for transform in self._transforms:
            reward = np.asarray(transform.reward(reward), np.float32)
        transitions = Transitions(
            observation=steps.observation,
            action=steps.action,
            reward=reward,
            next_observation=steps.next_observation,
            discount=np.where(steps.terminated, 0.0, gamma).astype(np.float32),
        )
        return Demonstrations(transitions, steps.terminated | steps.truncated)
