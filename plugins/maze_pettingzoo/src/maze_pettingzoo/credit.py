"""Who is paid for what: rewards that a game gives its agents, put to the decisions they were earned with."""

from __future__ import annotations

import numpy as np

from maze_runtime.env.own_returns import differences, returns_of_paid


class Ledger:
    """The decisions of one episode and what each agent was paid after them.

    PettingZoo pays an agent when its turn comes, with all it earned since its last turn; that belongs to its last
    decision.
    """

    def __init__(self) -> None:
        self._agents: list[str] = []
        self._paid: list[float] = []
        self._last: dict[str, int] = {}

    def decide(self, agent: str) -> None:
        """Note a decision."""
        self._last[agent] = len(self._agents)
        self._agents.append(agent)
        self._paid.append(0.0)

    def pay(self, agent: str, reward: float) -> None:
        """Pay an agent; what comes before its first decision is nobody's merit."""
        if agent in self._last:
            self._paid[self._last[agent]] += reward

    def rewards(self) -> np.ndarray:
        """(D,) one reward a decision such that the sum of those from a decision on is what its agent got from it on.

        With G_d the pay of decision d's agent from d on: R_d = G_d − G_{d+1}. Sums of R over the decision stream of all
        agents are then each agent's own return, whoever decides in between.
        """
        return differences(returns_of_paid(self._paid, self._agents))


def own_rewards(paid: np.ndarray) -> np.ndarray:
    """`Ledger.rewards` of an episode in which all agents decide in turn, round by round.

    Args:
        paid: (rounds, agents) what each was paid after a round.

    Returns:
        (rounds × agents,) one reward a decision.
    """
    return differences(np.cumsum(paid[::-1], axis=0)[::-1].reshape(-1))
