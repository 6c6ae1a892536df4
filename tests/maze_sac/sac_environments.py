"""Environments that tests of soft actor-critic share."""

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import ActorID, StructuredSpaces

GAMMA = 0.9
CREWS = {
    "flat": {"0": 1},
    "two keys in turn": {"pick": 1, "place": 1},
    "agents out of step": {"pick": 2, "place": 1},
    "agents that leave": {"pick": 3, "place": 2},
    "divided rewards": {"pick": 1, "place": 2},
    "a team that changes": {"pick": -1, "place": 1},
    "divided among a team": {"pick": -1, "place": -1},
    "agents whom others drive out": {"pick": 3, "place": 2},
    "a team whom others thin out": {"pick": -1, "place": 2},
}


def spaces_of(agent_counts):
    observation = spaces.Dict({"x": spaces.Box(-np.inf, np.inf, (2,), np.float32)})
    action = spaces.Dict({"a": spaces.Discrete(1000)})
    return StructuredSpaces(
        observation=dict.fromkeys(agent_counts, observation),
        action=dict.fromkeys(agent_counts, action),
        agent_counts=agent_counts,
    )


class Wanderer:
    """Random actors, rewards and ends; every observation has a number of its own, and everything is written down."""

    def __init__(self, crew, index):
        self.crew, self.structured_spaces = crew, spaces_of(CREWS[crew])
        self.rng = np.random.default_rng(index)
        self.count = 100_000 * index
        self.episodes = []

    def reset(self, *, seed=None, options=None):
        self.present = [ActorID(key, agent) for key, n in CREWS[self.crew].items() for agent in range(abs(n))]
        self.n_seen = len(self.present)
        self.decisions, self.turn, self.sub_rewards = [], [], []
        self.episodes.append({"decisions": self.decisions, "end": None})
        return self._next(), {}

    def _next(self):
        """Who is next and what is seen."""
        if not self.turn:
            self._welcome()
            self.turn = list(self.present)
            if self.crew == "agents out of step":
                self.turn = [self.present[i] for i in self.rng.integers(len(self.present), size=3)]
        self.actor = self.turn.pop(0)
        self.count += 1
        self.episodes[-1]["last"] = (self.actor, float(self.count))
        return {"x": np.array([self.count, self.count], np.float32)}

    def _welcome(self):
        """Where a policy key has a changing number of agents, up to three new ones come."""
        growing = [key for key, count in CREWS[self.crew].items() if count < 0]
        for _ in range(int(self.rng.integers(4)) if growing and len(self.present) < 7 else 0):
            self.present.append(ActorID(growing[self.rng.integers(len(growing))], 10 * self.n_seen))
            self.n_seen += 1

    def _drive_out(self, who):
        others = [actor for actor in self.present if actor != who]
        drives = "others" in self.crew and others and self.rng.random() < 0.15
        self.gone = (others[self.rng.integers(len(others))],) if drives else ()
        self.present = [actor for actor in self.present if actor not in self.gone]
        self.turn = [actor for actor in self.turn if actor not in self.gone]

    def step(self, action):
        reward, who, seen = float(self.rng.normal()), *self.episodes[-1]["last"]
        self._drive_out(who)
        self.flat_end = not self.turn
        leaving = self.crew in ("agents that leave", "a team that changes", "divided among a team")
        self.done = leaving and len(self.present) > 1 and self.rng.random() < 0.15
        end = self.rng.choice([None, "terminated", "truncated"], p=[0.85, 0.08, 0.07])
        row = {"actor": who, "seen": seen, "action": int(action["a"]), "reward": reward}
        self.decisions.append(row | {"gamma": GAMMA if self.flat_end else 1.0, "done": self.done, "gone": self.gone})
        self.sub_rewards.append(reward)
        self.divided = None
        if self.done:
            self.present.remove(who)
        if self.flat_end:
            if self.crew.startswith("divided"):
                self.divided = self.rng.normal(size=len(self.sub_rewards)).astype(np.float32)
                for decision, share in zip(self.decisions[-len(self.divided) :], self.divided, strict=True):
                    decision["reward"] = float(share)
            self.sub_rewards = []
        self.episodes[-1]["end"] = end
        return self._next(), reward, end == "terminated", end == "truncated", {}

    def actor_id(self):
        return self.actor

    def is_actor_done(self):
        return self.done

    def departed_actors(self):
        return self.gone

    def is_flat_step_end(self):
        return self.flat_end

    def get_actor_rewards(self):
        return self.divided

    def render(self):
        return None

    def close(self):
        return None
