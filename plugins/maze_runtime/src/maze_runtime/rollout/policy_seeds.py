"""What a policy is told of the seed of an episode: a stream of its own, and, if it asks, which episode it is.

Gymnasium makes its generator from the seed of `reset` as everybody does. A policy that did the same with the same seed
would draw the environment's numbers: it would guess every coin.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from maze_kernel.contracts.model import Policy
from maze_runtime.env.seeding import SeedTree


@runtime_checkable
class FollowsEpisodes(Protocol):
    """A policy that has to know which episode it plays, as one does that repeats recorded ones."""

    def follow_episode(self, seed: int) -> None:
        """The environment begins the episode of this seed next; called before `seed`."""
        ...


def policy_seed(episode_seed: int) -> int:
    """The seed of what acts in the episode of a seed; in [0, 2**31).

    >>> policy_seed(7) == 7
    False
    """
    return SeedTree(episode_seed).seed("policy")


def seed_policy(policy: Policy, episode_seed: int) -> None:
    """Get a policy ready for an episode: what it draws is independent of what the environment draws."""
    if isinstance(policy, FollowsEpisodes):
        policy.follow_episode(episode_seed)
    policy.seed(policy_seed(episode_seed))
