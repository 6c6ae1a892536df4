"""Who sits where: the agents of a game, the policy that decides for each, and its spaces in Maze's form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import attrs
import numpy as np
from gymnasium import spaces

from maze_gym.masks import head_sizes
from maze_gym.space_adapter import SpaceAdapter
from maze_kernel.contracts.env import Action, ActorID, Observation, StructuredSpaces
from maze_kernel.errors import RequestError
from maze_pettingzoo.agent_masks import (
    MASK,
    AgentMasks,
    examples_in_info,
    masks_like,
    refuse_unread_mask,
    split_observation,
)
from maze_pettingzoo.options import PettingZooOptions

OWNER = "maze-pettingzoo"


@attrs.frozen
class Seat:
    """One agent.

    Attributes:
        actor: its policy key, and its number among the agents of that key.
        order: its place among all agents.
        masks: reads those masks that are more than an observation; None: there are none.
        mask_keys: the observations that are masks.
    """

    actor: ActorID
    order: int
    observations: SpaceAdapter
    actions: SpaceAdapter
    masks: AgentMasks | None
    mask_keys: tuple[str, ...]
    observation_space: spaces.Dict

    def observation(self, raw: Any, info: Mapping[str, Any], lead: tuple[int, ...] = ()) -> Observation:
        """What the game shows the agent, in Maze's form; of a batch of games with `lead` = (N,)."""
        observation = self.observations.decode(raw)
        if self.masks is not None:
            self.masks.add_to(observation, raw, info, lead)
        elif MASK in observation:
            observation[MASK] = np.asarray(observation[MASK], np.int8)
        elif MASK in info and not self.mask_keys:
            refuse_unread_mask(info, self.actor, self.actions.outer)
        return observation

    def may_choose(self, observation: Observation) -> bool:
        """Whether masks allow anything at all."""
        for key in self.mask_keys:
            if np.asarray(observation[key]).any():
                return True
        return not self.mask_keys

    def masks_by_head(self, observation: Observation) -> dict[str, np.ndarray]:
        """The masks in an observation; `action_mask` is that of the only head that can have one."""
        heads = head_sizes(self.actions.outer)
        named = {f"{head}_mask": head for head in heads}
        if len(heads) == 1:
            named.setdefault(MASK, next(iter(heads)))
        return {named[key]: observation[key] for key in self.mask_keys if key in named}

    def action(self, action: Action) -> Any:
        """An action in the game's form."""
        return self.actions.encode(action)


def take_seats(game: Any, options: PettingZooOptions) -> dict[str, Seat]:
    """Every possible agent with its seat; resets the game to see whether masks are in `info`.

    Raises:
        RequestError: the options name agents that the game does not have, or a policy for agents of unlike spaces.
    """
    agents = list(game.possible_agents)
    _require_agents("policies", options.policies, agents)
    _require_agents("random_agents", options.random_agents, agents)
    game.reset()
    seats: dict[str, Seat] = {}
    counts: dict[str, int] = {}
    keys = _policy_keys(game, agents, options.policies)
    examples = examples_in_info(game, agents, keys)
    for order, agent in enumerate(agents):
        key = keys[agent]
        actor = ActorID(key, counts.get(key, 0))
        counts[key] = actor.agent_id + 1
        seats[agent] = _seat(game, agent, actor, order, examples)
    return seats


def structured_spaces(seats: Mapping[str, Seat], rewards: Literal["own", "team"]) -> StructuredSpaces:
    """The spaces by policy key; an agent that is the only one is its own team.

    Raises:
        RequestError: agents of one policy have unlike spaces.
    """
    by_key: dict[str, Seat] = {}
    counts: dict[str, int] = {}
    for agent, seat in seats.items():
        key = seat.actor.step_key
        first = by_key.setdefault(key, seat)
        counts[key] = counts.get(key, 0) + 1
        ours, theirs = _spaces(seat), _spaces(first)
        if ours != theirs:
            raise RequestError(
                f"the agents of policy {key!r} have unlike spaces",
                received=f"{agent}: {ours}",
                expected=str(theirs),
                option="policies",
                owner=OWNER,
                help="give them different policies, or pad the game (supersuit.pad_observations_v0)",
            )
    return StructuredSpaces(
        observation={key: seat.observation_space for key, seat in by_key.items()},
        action={key: seat.actions.outer for key, seat in by_key.items()},
        agent_counts=counts,
        pays_differences=rewards == "own" and len(seats) > 1,
    )


def _seat(game: Any, agent: str, actor: ActorID, order: int, examples: Mapping[str, Any]) -> Seat:
    actions = SpaceAdapter(game.action_space(agent), "action")
    seen, mask_space = split_observation(game.observation_space(agent), actions.outer)
    observations = SpaceAdapter(seen, "observation")
    leaves = dict(observations.outer.spaces)
    keys, masks = _mask_keys(leaves, actions.outer), None
    if mask_space is not None:
        masks = masks_like(mask_space.sample(), actions.outer, in_info=False)
    elif not keys and agent in examples:
        masks = masks_like(examples[agent], actions.outer, in_info=True)
    if MASK in leaves:
        leaves[MASK] = spaces.MultiBinary(int(np.prod(leaves[MASK].shape or ())))
    if masks is not None:
        leaves.update(masks.spaces)
        keys = tuple(masks.spaces)
    return Seat(actor, order, observations, actions, masks, keys, spaces.Dict(leaves))


def _mask_keys(leaves: Mapping[str, spaces.Space[Any]], action_space: spaces.Dict) -> tuple[str, ...]:
    """The observations that are masks by name and size."""
    bits = {f"{head}_mask": size for head, size in head_sizes(action_space).items()}
    return tuple(key for key, space in leaves.items() if key == MASK or bits.get(key) == np.prod(space.shape or ()))


def _policy_keys(game: Any, agents: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """Numbered agents with the same spaces share the key of their common name."""
    families: dict[str, list[str]] = {}
    for agent in agents:
        families.setdefault(re.sub(r"_?\d+$", "", agent) or agent, []).append(agent)
    keys = {}
    for family, members in families.items():
        kinds = {str((game.observation_space(agent), game.action_space(agent))) for agent in members}
        keys.update({agent: family if len(kinds) == 1 else agent for agent in members})
    return keys | dict(given)


def _spaces(seat: Seat) -> tuple[spaces.Dict, spaces.Dict]:
    return seat.observation_space, seat.actions.outer


def _require_agents(option: str, named: Iterable[str], agents: Sequence[str]) -> None:
    for agent in named:
        if agent not in agents:
            raise RequestError(
                f"the game has no agent {agent!r}",
                expected=", ".join(agents),
                option=option,
                owner=OWNER,
                help="name one of its agents",
            )
