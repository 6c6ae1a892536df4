"""Masks of an agent's discrete actions, in `info` or in its observation, as observation keys `<head>_mask`.

A mask in the observation that fits the agent's only discrete head is an observation like others, and not read here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from gymnasium import spaces

from maze_gym.masks import MaskReader, head_sizes
from maze_kernel.contracts.env import ActorID, Observation
from maze_kernel.errors import EnvError

MASK = "action_mask"


@attrs.frozen
class AgentMasks:
    """Reads the masks of one agent's game, or of a batch of them.

    Attributes:
        reader: takes masks of several heads, and lists with one a dimension, apart.
        in_info: they are in `info`, and otherwise in the observation.
        only: key and bits of the mask, where there is one; else a key that is none.
    """

    reader: MaskReader
    in_info: bool
    only: tuple[str, int]

    @property
    def spaces(self) -> dict[str, spaces.MultiBinary]:
        """The observation keys they become."""
        return self.reader.spaces

    def add_to(self, observation: Observation, raw: Any, info: Mapping[str, Any], lead: tuple[int, ...]) -> None:
        """Put them into an observation; all ones where `info` has none.

        Args:
            observation: in Maze's form.
            raw: in the game's form.
            info: what the game says beside it.
            lead: () of one game, (N,) of a batch.
        """
        mask = info.get(MASK) if self.in_info else raw[MASK]
        key, size = self.only
        if mask is None:
            observation.update(self.reader.all_allowed(lead))
        elif type(mask) is np.ndarray and mask.shape == (*lead, size):
            observation[key] = np.asarray(mask, np.int8)  # what `split` comes to
        else:
            observation.update(self.reader.split(mask, lead))


def examples_in_info(game: Any, agents: Sequence[str], keys: Mapping[str, str]) -> dict[str, Any]:
    """By agent a mask like those to come in `info`, as a game shows it after its reset; None has one of every head.

    An agent that joins later has one if anybody has: that of an agent with the same actions, of its own policy first,
    or else one of every head.

    Args:
        game: just reset.
        agents: all possible ones.
        keys: their policies.
    """
    given = {agent: mask for agent in agents if (mask := game.infos.get(agent, {}).get(MASK)) is not None}
    examples = dict(given)
    for agent in agents:
        if given and agent not in game.agents:
            examples[agent] = _of_one_alike(game, agent, given, keys)
    return examples


def _of_one_alike(game: Any, agent: str, given: Mapping[str, Any], keys: Mapping[str, str]) -> Any:
    alike = [other for other in given if game.action_space(other) == game.action_space(agent)]
    alike.sort(key=lambda other: keys[other] != keys[agent])
    return given[alike[0]] if alike else None


def masks_like(example: Any, action_space: spaces.Dict, in_info: bool) -> AgentMasks | None:
    """What reads masks of the form of an example, or of every head where that is None; None: none can be masked.

    Raises:
        EnvError: the example fits no head.
    """
    sizes = head_sizes(action_space)
    if not sizes:
        return None
    every = {head: np.ones(size, np.int8) for head, size in sizes.items()}
    reader = MaskReader(sizes, None, every if example is None else example)
    only = reader.heads[0] if len(reader.heads) == len(sizes) == 1 else ""
    return AgentMasks(reader, in_info, (f"{only}_mask", sizes.get(only, -1)))


def split_observation(
    space: spaces.Space[Any], action_space: spaces.Dict
) -> tuple[spaces.Space[Any], spaces.Space[Any] | None]:
    """The observation space without a mask that has to be taken apart, and the space of that mask."""
    sizes = tuple(head_sizes(action_space).values())
    if not (isinstance(space, spaces.Dict) and MASK in space.spaces and sizes):
        return space, None
    mask = space[MASK]
    if mask.shape == sizes:  # the bits of an only head
        return space, None
    return spaces.Dict({key: child for key, child in space.spaces.items() if key != MASK}), mask


def refuse_unread_mask(info: Mapping[str, Any], actor: ActorID, action_space: spaces.Dict) -> None:
    """Refuse a mask in `info` that nobody reads, rather than let an agent take forbidden actions.

    Raises:
        EnvError: `info["action_mask"]` is there.
    """
    if info[MASK] is None:
        return
    can_be_masked = bool(head_sizes(action_space))
    late = "give it from the reset on, with ones where all is allowed; for an agent that joins, to those there before"
    raise EnvError(
        f"info[{MASK!r}] holds a mask of agent {actor.agent_id} of policy {actor.step_key!r} that "
        + ("was not there at the first reset" if can_be_masked else "fits no action head"),
        received=f"the action space {action_space}",
        expected="a mask from the first reset on, of a Discrete, MultiDiscrete or MultiBinary action",
        help=late if can_be_masked else "leave it out: a Box cannot be masked",
    )
