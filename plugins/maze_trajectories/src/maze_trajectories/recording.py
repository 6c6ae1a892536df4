"""Records what happens to one environment: what the wrappers of recordings have in common."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import numpy as np

from maze_kernel.config.paths import path_inside
from maze_kernel.contracts.capabilities import capability
from maze_kernel.contracts.env import Action, Observation, StructuredEnv
from maze_kernel.errors import MazeError
from maze_runtime.env.batching import scalar_reward
from maze_runtime.env.departures import ReportsDepartures
from maze_runtime.env.simulation import Recordable, Recording
from maze_runtime.env.wrapper import EnvWrapper
from maze_trajectories.builder import EpisodeBuilder
from maze_trajectories.maze_steps import MazeStepRecorder
from maze_trajectories.writer import TrajectoryWriter, episode_name


class RecordingEnv(EnvWrapper):
    """Writes every episode when it ends: with its last step, with the next `reset`, with `close`, or when it fails.

    Observations, actions and rewards are those seen here, so wrappers outside of it do not change them. What was
    never stepped is not written. An episode that begins without a seed after one that had one, as they do in
    training, is given a seed that follows from that one if it is recorded: so it can be played again.

    Args:
        env: what is recorded.
        recording: where to; None: nowhere. Without `numbers` a part of the episode's id is in the name of its file.
        actions_only: leave out observations, states and events: enough for a replay.
        every_episodes: record the first episode and then each one after so many.
    """

    def __init__(
        self,
        env: StructuredEnv,
        recording: Recording | None,
        *,
        actions_only: bool = False,
        every_episodes: int = 1,
    ) -> None:
        super().__init__(env)
        self._every_episodes = every_episodes
        self._n_resets = 0
        self._active = False
        self.record_into(recording)
        self._builder = EpisodeBuilder(env.structured_spaces, actions_only=actions_only)
        self._reports = capability(env, ReportsDepartures)  # type: ignore[type-abstract]
        self._recordable = capability(env, Recordable)  # type: ignore[type-abstract]
        has_steps = self._recordable is not None and not actions_only
        self._maze_steps = MazeStepRecorder(self._recordable) if has_steps and self._recordable else None
        self._n_episodes = 0
        self._seed: int | None = None
        self._given_seed: int | None = None
        self._n_since_seed = 0
        self._last: Observation = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode; one that was cut off is written first."""
        self._write()
        self._active = self._writer is not None and self._n_resets % self._every_episodes == 0
        self._n_resets += 1
        seed = self._seed_for(seed)
        observation, info = self.env.reset(seed=seed, options=options)
        if not self._active:
            return observation, info
        self._seed, self._last = seed, observation
        self._builder.observe(self.env.actor_id(), observation)
        if self._maze_steps is not None:
            self._maze_steps.begin()
        return observation, info

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one decision and record it."""
        env, builder = self.env, self._builder
        if not self._active:
            return env.step(action)
        actor = env.actor_id()
        builder.decide(actor, action)
        try:
            observation, reward, terminated, truncated, info = env.step(action)
        except Exception as error:
            self._write(error.what if isinstance(error, MazeError) else f"{type(error).__name__}: {error}")
            raise
        flat_step_end = env.is_flat_step_end()
        builder.result(
            actor,
            scalar_reward(reward),
            terminated,
            truncated,
            flat_step_end=flat_step_end,
            actor_done=env.is_actor_done(),
            actor_rewards=env.get_actor_rewards() if flat_step_end else None,
            departed=() if self._reports is None else self._reports.departed_actors(),
        )
        self._last = observation
        if self._maze_steps is not None:
            self._maze_steps.add(flat_step_end)
        if terminated or truncated:
            self._write()
        else:
            builder.observe(env.actor_id(), observation)
        return observation, reward, terminated, truncated, info

    def record_into(self, recording: Recording | None) -> None:
        """Record the following episodes; None: do not. See `RecordsEpisodes`."""
        self._about = about = recording or Recording(folder=Path())
        self._writer: TrajectoryWriter | None = None
        if recording is not None:
            spaces = self.env.structured_spaces
            self._writer = TrajectoryWriter(about.folder, spaces, experiment=about.experiment, policy=about.policy)

    def record_below(self, root: Path | None, folder: str) -> None:
        """Record the following episodes into a folder below another one; `root` None: nowhere.

        Raises:
            RequestError: `folder` leads out of `root`.
        """
        self.record_into(None if root is None else Recording(folder=path_inside(root, folder)))

    def close(self) -> None:
        """Write an unfinished episode and close the environment."""
        self._write()
        self.env.close()

    def clone_from(self, other: Any) -> None:
        """Go on from where another one is; the rest of the episode is not recorded, for its beginning is not here."""
        self._write()
        self._active = False
        super().clone_from(other)

    def _seed_for(self, seed: int | None) -> int | None:
        """The seed of the episode that begins: the given one, or, for a recorded episode, one that follows from it."""
        if seed is not None:
            self._given_seed, self._n_since_seed = seed, 0
            return seed
        self._n_since_seed += 1
        if self._given_seed is None or not self._active:
            return None
        sequence = np.random.SeedSequence(self._given_seed, spawn_key=(self._n_since_seed,))
        return int(sequence.generate_state(1, np.uint32)[0]) >> 1

    def _write(self, error: str | None = None) -> None:
        """Write the episode so far, if it has a step, and forget it."""
        builder, maze_steps = self._builder, self._maze_steps
        if len(builder) and self._writer is not None:
            info = {"episode_id": self._episode_id(), "seed": self._seed, "error": error, "policy": self._about.policy}
            last = None if error is not None else (self.env.actor_id(), self._last)
            objects = None if maze_steps is None else maze_steps.arrays(failed=error is not None)
            self._writer.write(self._name(str(info["episode_id"])), builder.finish(info, last), objects)
            self._n_episodes += 1
        builder.clear()
        if maze_steps is not None:
            maze_steps.clear()

    def _episode_id(self) -> str:
        return str(uuid.uuid4()) if self._recordable is None else self._recordable.episode_id

    def _name(self, episode_id: str) -> str:
        numbers = self._about.numbers
        number = None if numbers is None or self._seed is None else numbers.get(self._seed)
        if number is not None:
            return episode_name(number, self._seed)
        return f"{episode_name(self._n_episodes, self._seed)}-{episode_id[:8]}"
