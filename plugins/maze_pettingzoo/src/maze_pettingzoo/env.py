"""A PettingZoo game as a `StructuredEnv`: the agent whose turn it is decides next."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import Action, ActorID, Observation
from maze_kernel.errors import EnvError
from maze_pettingzoo.credit import Ledger
from maze_pettingzoo.options import PettingZooOptions
from maze_pettingzoo.random_actions import sampled
from maze_pettingzoo.seats import OWNER, Seat, structured_spaces, take_seats
from maze_runtime.env.cloning import copy_state
from maze_runtime.env.outside import Outside, Reply
from maze_runtime.env.seeding import SeedTree

_MAX_GAMES = 100
"""Games in a row that may be over before anyone decides."""


def make_env(options: PettingZooOptions) -> PettingZooEnv:
    """The target of the component "pettingzoo"."""
    from maze_pettingzoo.making import make_game

    return PettingZooEnv(make_game(options), options)


def adapt(env: object) -> PettingZooEnv | None:
    """Any game that an import path or a factory made, with default options."""
    if "pettingzoo" not in sys.modules:
        return None  # nobody can have made one
    from pettingzoo import AECEnv, ParallelEnv

    from maze_pettingzoo.making import as_turns

    return PettingZooEnv(as_turns(env)) if isinstance(env, (AECEnv, ParallelEnv)) else None


class PettingZooEnv:
    """Agents take turns; those that are out of the game are stepped over, random ones play by themselves.

    The reward of a step is what the learning agents were paid in it, together. The episode ends when no learning
    agent is left; it is terminated if one of them was, and truncated if all were cut off. Building it takes one
    unseeded reset.

    Args:
        game: an `AECEnv`; closed with this environment.
        options: see `PettingZooOptions`; its `id`, `kwargs` and `render_mode` are not read.
    """

    def __init__(self, game: Any, options: PettingZooOptions | None = None) -> None:
        from maze_pettingzoo.access import Access

        options = options or PettingZooOptions(id="")
        self.game = game
        try:
            self._seats = take_seats(game, options)
        except Exception as error:
            _explain(game, error)
        self._access = Access(game)
        self.structured_spaces = structured_spaces(self._seats, options.rewards)
        self._random = frozenset(options.random_agents)
        self._learners = frozenset(self._seats) - self._random
        self._pays_own = self.structured_spaces.pays_differences
        self._rng = np.random.default_rng()
        self._ledger = Ledger()
        self._agent = next(iter(self._seats))
        self._observation: Observation = {}
        self._actor_done = False
        self._present = self._learners
        self._departed: tuple[ActorID, ...] = ()
        self._flat_step_end = True
        self._over = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        if seed is not None:
            self._rng = SeedTree(seed).generator("random-agents")  # the game draws from the seed itself
        for _ in range(_MAX_GAMES):
            try:
                self._begin(seed, options)
            except Exception as error:
                _explain(self.game, error)
            if not self._over:
                return self._observation, {}
            seed = int(self._rng.integers(2**31))
        raise EnvError(
            "the random agents end every game before another agent decides",
            received=f"{_MAX_GAMES} games without a decision",
            owner=OWNER,
            help="let fewer agents play at random (random_agents)",
        )

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one decision of the agent whose turn it is."""
        acted, seat = self._agent, self._seats[self._agent]
        self._paid = 0.0
        self._ledger.decide(acted)
        try:
            self._access.step(seat.action(action))
            self._pass_turns()
        except Exception as error:
            _explain(self.game, error)
        self._note_departures(acted)
        is_new_round = self._seats[self._agent].order <= seat.order
        self._flat_step_end = self._over or (is_new_round and not self._pays_own)
        truncated = self._over and self._truncated and not self._terminated
        return self._observation, self._paid, self._over and not truncated, truncated, {}

    def actor_id(self) -> ActorID:
        """The agent whose turn it is; the last one that acted at the end of an episode."""
        return self._seats[self._agent].actor

    def is_actor_done(self) -> bool:
        """Whether the agent that just acted is out of the game, which goes on, and got its last pay.

        Not where agents are paid their own: what an agent got after its last decision is the sum of `Ledger.rewards`
        from there to the end of the episode, in which nothing of the others is left.
        """
        return self._actor_done and not self._over and not self._pays_own

    def departed_actors(self) -> tuple[ActorID, ...]:
        """The other agents that are out since this step, which brought them their last pay."""
        return () if self._over or self._pays_own else self._departed

    def is_flat_step_end(self) -> bool:
        """Whether a round is over; where agents are paid their own, an episode."""
        return self._flat_step_end

    def get_actor_rewards(self) -> np.ndarray | None:
        """Each agent's own pay, put to its decisions (`Ledger.rewards`); None where all are paid as a team."""
        return self._ledger.rewards() if self._pays_own else None

    def clone_from(self, other: PettingZooEnv) -> None:
        """Go on from where another environment is, with its game and its random state; nothing is drawn.

        Raises:
            EnvError: the game cannot be copied.
        """
        copy_state(self, other, shared=("_seats",), simulation=getattr(other.game, "unwrapped", other.game))

    def detach(self, outside: Outside) -> None:
        """Let observations come from outside; agents take their turns as in the game, and random ones play."""
        from maze_pettingzoo.access import Access
        from maze_pettingzoo.outside import OutsideGame

        self.game.close()
        self.game = OutsideGame(self.game, outside)
        self._access = Access(self.game)

    def preview(self, reply: Reply) -> Observation:
        """The observation that a reply of one agent gives."""
        return self._seat_of(reply.actor_id).observation(reply.maze_state, reply.info)

    def by_agent(self, reply: Reply, actor: ActorID | str | None) -> dict[str, Reply]:
        """See `NamesAgents`."""
        from maze_pettingzoo.outside import told_by_agent

        actors = {agent: seat.actor for agent, seat in self._seats.items()}
        return told_by_agent(reply, actor, actors, self.game.agents)

    def together(self, replies: Mapping[str, Reply], *, is_first: bool) -> Reply | None:
        """See `NamesAgents`; what it is paid, and how it ended, is that of the learning agents."""
        from maze_pettingzoo.outside import in_turn

        turns = in_turn(replies, () if is_first else self.game.agents)
        if turns is None:
            return None
        own = {agent: reply for agent, reply in turns.replies.items() if agent in self._learners}
        terminated = any(reply.terminated for reply in own.values()) or (not is_first and self._terminated)
        truncated = any(reply.truncated for reply in own.values()) or (not is_first and self._truncated)
        cut_off = turns.is_over and truncated and not terminated
        return Reply(
            maze_state=turns,
            reward=sum(reply.reward for reply in own.values()),
            terminated=turns.is_over and not cut_off,
            truncated=cut_off,
            flat_step_end=not self._pays_own and self._begins_round(own),
        )

    def _begins_round(self, replies: Mapping[str, Reply]) -> bool:
        """Whether the next of these agents to decide is not behind the one that decided last."""
        for agent, reply in replies.items():
            if not reply.ends_episode and self._seats[agent].may_choose(self.preview(reply)):
                return self._seats[agent].order <= self._seats[self._agent].order
        return False

    def is_outside_observation(self, observation: Any, actor: ActorID | None = None) -> bool:
        """Whether this is an observation of the game itself: no dict by other names than the agent's own."""
        own = self.game.observation_space(self._agent_of(actor))
        return not isinstance(observation, Mapping) or (
            isinstance(own, spaces.Dict) and observation.keys() == own.spaces.keys()
        )

    def outside_action(self, action: Action, actor: ActorID | None = None) -> Any:
        """The action in the game's own space of an agent."""
        return self._seat_of(actor).action(action)

    def _seat_of(self, actor: ActorID | None) -> Seat:
        return self._seats[self._agent_of(actor)]

    def _agent_of(self, actor: ActorID | None) -> str:
        """Whoever decided last, where nobody is named."""
        if actor is None:
            return self._agent
        agent = next((agent for agent, seat in self._seats.items() if seat.actor == actor), None)
        if agent is None:
            known = ", ".join(str(tuple(seat.actor)) for seat in self._seats.values())
            raise EnvError("the game has no such agent", received=str(tuple(actor)), expected=known, owner=OWNER)
        return agent

    def render(self) -> Any:
        """The game's own drawing, as its `render_mode` says."""
        return self.game.render()

    def close(self) -> None:
        """Close the game."""
        self.game.close()

    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> None:
        self.game.reset(seed=seed, options=options)
        self._ledger = Ledger()
        self._terminated = self._truncated = self._over = self._actor_done = False
        self._flat_step_end = True
        self._paid = 0.0
        self._pass_turns()
        self._present = self._learners.intersection(self._access.read.agents)

    def _pass_turns(self) -> None:
        """Pay whoever's turn comes, step over agents that are out, play random ones, until a learner decides.

        A turn whose mask allows nothing is no decision; the game, which wants some action, gets any.
        """
        game, step = self._access.read, self._access.step
        while game.agents:
            agent = game.agent_selection
            _, reward, terminated, truncated, _ = game.last(observe=False)
            if agent in self._learners:
                self._ledger.pay(agent, float(reward))
                self._paid += float(reward)
            if terminated or truncated:
                if agent in self._learners:
                    self._terminated |= bool(terminated)
                    self._truncated |= bool(truncated)
                step(None)
            elif agent in self._random or not self._is_decision(agent):
                step(self._random_action(agent))
            else:
                return
        self._over = True
        self._observation = self._look(self._agent)

    def _note_departures(self, acted: str) -> None:
        """Who was out when its turn came, which is when the game pays it for the last time; agents may also join."""
        present = self._learners.intersection(self._access.read.agents)
        if present == self._present:
            self._actor_done, self._departed = False, ()
            return
        gone = self._present - present
        self._present = present
        self._actor_done = acted in gone
        self._departed = tuple(seat.actor for agent, seat in self._seats.items() if agent in gone and agent != acted)

    def _is_decision(self, agent: str) -> bool:
        """Whether an agent has a choice; if so it is the one who decides next."""
        observation = self._look(agent)
        if not self._seats[agent].may_choose(observation):
            return False
        self._agent, self._observation = agent, observation
        return True

    def _random_action(self, agent: str) -> Any:
        raw, _, _, _, info = self._access.read.last()
        seat = self._seats[agent]
        observation = seat.observation(raw, info)
        if seat.mask_keys and seat.may_choose(observation):
            return seat.action(sampled(seat.actions.outer, seat.masks_by_head(observation), self._rng))
        space = self.game.action_space(agent)
        space.seed(int(self._rng.integers(2**31)))
        return space.sample()

    def _look(self, agent: str) -> Observation:
        game = self._access.read
        return self._seats[agent].observation(game.observe(agent), game.infos.get(agent, {}))


def _explain(game: Any, error: Exception) -> NoReturn:
    """Raise what is wrong with the game, or else the error itself."""
    from maze_pettingzoo.mistakes import explained

    if (mistake := explained(game, error)) is not None:
        raise mistake from None  # what it stumbled over is in PettingZoo or here
    raise error
