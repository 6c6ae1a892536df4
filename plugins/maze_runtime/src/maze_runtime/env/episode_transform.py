"""The observations and actions of one episode through a list of transforms, outside of any environment.

For whoever has observations from elsewhere: a recording to imitate, a caller that steps its simulation itself.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np

from maze_kernel.contracts.env import ActorID, PolicyKey
from maze_kernel.contracts.transform import Transform
from maze_runtime.env.single import batch_of_one, only_row, tick_of_one

Values = dict[str, np.ndarray]


class EpisodeTransform:
    """Applies bound transforms to one episode after the other, in the order in which it happened.

    Args:
        transforms: innermost first, bound; their statistics are used as they are.
    """

    def __init__(self, transforms: Sequence[Transform]) -> None:
        self._transforms = list(transforms)
        self._memories = [transform.memory(1) for transform in self._transforms]
        self._is_first = True

    def begin(self) -> None:
        """The next observation is the first one of an episode."""
        self._is_first = True

    def observation(self, actor: ActorID, observation: Values, acted: tuple[PolicyKey, Values] | None = None) -> Values:
        """An inner observation as it is seen outside.

        Args:
            actor: who sees it.
            observation: name to array, of one environment.
            acted: the policy key and the outer action that led here; None for the first one of an episode.
        """
        before = {} if acted is None else {acted[0]: batch_of_one(acted[1])}
        for transform, memory in zip(self._transforms, self._memories, strict=True):
            observation = transform.observation(actor.step_key, observation)
            if memory is not None:
                tick = tick_of_one(actor, observation)
                observation = only_row(memory.reset(tick) if self._is_first else memory.step(before, tick))
        self._is_first = False
        return observation

    def preview(self, actor: ActorID, observation: Values, acted: tuple[PolicyKey, Values] | None = None) -> Values:
        """What `observation` would return; the episode does not go on."""
        kept = copy.deepcopy(self._memories), self._is_first
        try:
            return self.observation(actor, observation, acted)
        finally:
            self._memories, self._is_first = kept

    def action(self, policy_key: PolicyKey, action: Values) -> Values:
        """An outer action as the environment gets it."""
        for transform in reversed(self._transforms):
            action = transform.action(policy_key, action)
        return action

    def reverse_action(self, policy_key: PolicyKey, action: Values) -> Values:
        """A recorded inner action as the policy would have chosen it.

        Raises:
            EnvError: a transform does not say how actions map back.
        """
        for transform in self._transforms:
            action = transform.reverse_action(policy_key, action)
        return action
