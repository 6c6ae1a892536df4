"""Episodes that begin somewhere else each time."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from maze_kernel.contracts.env import Observation, StructuredEnv
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.contracts.vector import Group
from maze_kernel.errors import EnvError
from maze_runtime.env.seeding import SeedTree
from maze_runtime.env.single import batch_of_one
from maze_runtime.env.wrapper import EnvWrapper
from maze_runtime.rollout.random_policy import RandomPolicy
from maze_wrappers.given_actions import copied, given_actions
from maze_wrappers.left_out import leave_out
from maze_wrappers.options import RandomResetOptions
from maze_wrappers.whole_games import refuse_whole_games

_OWNER = "maze-wrappers: random-reset"
MOST_EPISODES = 1000
"""That may end one behind the other while steps are skipped."""


class RandomReset(EnvWrapper):
    """Takes a random number of random flat steps after every reset, which are no part of the episode, nor are events.

    Masks are respected. With `noop` that action is taken in place of random ones. Should the episode end meanwhile, the
    environment is reset again and skipping begins anew.

    Raises:
        RequestError: `noop` is no action of the environment, or a whole game is one flat step.
    """

    def __init__(self, env: StructuredEnv, options: RandomResetOptions) -> None:
        super().__init__(env)
        refuse_whole_games(env.structured_spaces, _OWNER)
        self.options = options
        self._rng = np.random.default_rng()
        self._noops = None
        if options.noop is not None:
            self._noops = given_actions(env.structured_spaces, options.noop, "noop", _OWNER)
        self._policy = RandomPolicy(PolicyContext(spaces=env.structured_spaces, seed=0))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode; the steps that are skipped follow from the seed, too.

        Raises:
            EnvError: no episode is as long as what has to be skipped.
        """
        if seed is not None:
            own = SeedTree(seed).child("random-reset")  # the environment draws from the seed itself
            self._rng = own.generator("steps")
            self._policy.seed(own.seed("actions"))
        observation, info = self.env.reset(seed=seed, options=options)
        left = int(self._rng.integers(self.options.min_skip, self.options.max_skip + 1))
        n_episodes = 0
        while left:
            observation, ended, info = self._skip(observation)
            left -= self.env.is_flat_step_end()
            if ended or left == 0:
                leave_out(self.env)
            if ended:
                n_episodes += 1
                if n_episodes == MOST_EPISODES:
                    raise _too_short(self.options)
                observation, info = self.env.reset(options=options)
                left = int(self._rng.integers(self.options.min_skip, self.options.max_skip + 1))
        return observation, info

    def clone_from(self, other: RandomReset) -> None:
        """Go on from where another one is, random state included."""
        super().clone_from(other)
        self._rng, self._policy = copy.deepcopy((other._rng, other._policy))

    def _skip(self, observation: Observation) -> tuple[Observation, bool, dict[str, Any]]:
        key, agent = self.env.actor_id()
        if self._noops is not None:
            observation, _, terminated, truncated, info = self.env.step(copied(self._noops[key]))
            return observation, bool(terminated or truncated), info
        group = Group(np.zeros(1, np.int64), np.array([agent]), batch_of_one(observation))
        action = {head: value[0] for head, value in self._policy.act(key, group).items()}
        observation, _, terminated, truncated, info = self.env.step(action)
        return observation, bool(terminated or truncated), info


def _too_short(options: RandomResetOptions) -> EnvError:
    return EnvError(
        f"{MOST_EPISODES} episodes one behind the other ended while steps were skipped after the reset",
        expected=f"episodes longer than the {options.min_skip} to {options.max_skip} steps of random-reset",
        help="make min_skip smaller, or what ends episodes (a time-limit) larger",
    )
