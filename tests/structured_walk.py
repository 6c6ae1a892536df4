"""A slow walk through a structured rollout, one environment and one decision at a time: what tests compare with."""

import numpy as np
import torch


class Walk:
    """One environment of a `StructuredBuffer`; values from the model, one observation at a time.

    Args:
        model: values and acts.
        buffer: a whole rollout.
        n: index of the environment.
        carried: what a delta critic's value of the decision before the rollout was, 0 where that ended a flat step.
    """

    def __init__(self, model, buffer, n, carried):
        self.model, self.buffer, self.n = model, buffer, n
        self.kind = model.critic_kind
        self.values, self.carried = [], carried
        for t in range(buffer.n_steps):
            self.values.append(self.value(*self.decision(t), self.carried))
            self.carried = 0.0 if self.over(t) else self.values[-1]

    def key(self, t):
        return self.buffer.policy_keys[self.buffer.key_index[t, self.n]]

    def actor(self, t):
        return self.key(t), int(self.buffer.agent_id[t, self.n])

    def gone(self, t, actor):
        """Whether the actor left with the decision of another one."""
        keys = self.buffer.policy_keys
        left = [(d.step, d.env_index, (keys[d.key_index], d.agent_id)) for d in self.buffer.departures]
        return (t, self.n, actor) in left

    def decision(self, t):
        """Policy key, observation and agent."""
        table = self.buffer.tables[self.key(t)].observation
        row = {name: array[self.buffer.row[t, self.n]] for name, array in table.items()}
        return self.key(t), row, self.buffer.agent_id[t, self.n]

    def over(self, t):
        flags = (self.buffer.flat_step_end, self.buffer.terminated, self.buffer.truncated)
        return any(array[t, self.n] for array in flags)

    def value(self, key, observation, agent_id, before):
        with torch.no_grad():
            value = float(self.model.value(key, one_row(observation), torch.tensor([int(agent_id)])))
        return value + before if self.kind == "delta-state" else value

    def log_prob(self, t):
        """Of the action that was taken."""
        key, observation, agent_id = self.decision(t)
        action = self.buffer.tables[key].action
        row = {name: array[self.buffer.row[t, self.n]] for name, array in action.items()}
        with torch.no_grad():
            logits = self.model.logits(key, one_row(observation), torch.tensor([int(agent_id)]))
            return float(self.model.distributions[key].log_prob(logits, one_row(row)))

    def final(self, t):
        """(actor, value) of the final observation of the episode that was cut at t."""
        for step, index, final in self.buffer.truncations:
            if step == t and self.n in index:
                (row,) = np.flatnonzero(index == self.n)
                observation = {name: array[row] for name, array in final.observation.items()}
                before = 0.0 if self.buffer.flat_step_end[t, self.n] else self.values[t]
                agent = int(final.agent_id[row])
                return (final.policy_key, agent), self.value(final.policy_key, observation, agent, before)
        raise AssertionError("a cut episode without a final observation")

    def last(self):
        """(actor, value) of the observation after the rollout."""
        key = self.buffer.policy_keys[self.buffer.last_key_index[self.n]]
        agent = int(self.buffer.last_agent_id[self.n])
        observation = {name: array[self.n] for name, array in self.buffer.last_observation[key].items()}
        return (key, agent), self.value(key, observation, agent, self.carried)

    def follow(self, k, gamma):
        """What follows decision k for its critic: rewards until then, discount, value, and the decision or None."""
        buffer, n, actor, by_actor = self.buffer, self.n, self.actor(k), self.kind == "step-state"
        if by_actor and buffer.actor_done[k, n]:
            return float(buffer.actor_reward[k, n]), 0.0, 0.0, None
        paid, discount = 0.0, 1.0
        for t in range(k, buffer.n_steps):
            paid += discount * float(buffer.actor_reward[t, n])
            discount *= gamma if buffer.flat_step_end[t, n] else 1.0
            if buffer.terminated[t, n] or (by_actor and self.gone(t, actor)):
                return paid, 0.0, 0.0, None
            if buffer.truncated[t, n] or t + 1 == buffer.n_steps:
                follower, value = self.final(t) if buffer.truncated[t, n] else self.last()
                return paid, discount, self.values[k] if by_actor and follower != actor else value, None
            if not by_actor or self.actor(t + 1) == actor:
                return paid, discount, self.values[t + 1], t + 1
        raise AssertionError("a rollout without an end")

    def return_from(self, k, gamma):
        """Bootstrapped Monte Carlo return of decision k."""
        paid, discount, value, following = self.follow(k, gamma)
        return paid + discount * (value if following is None else self.return_from(following, gamma))


def one_row(arrays):
    return {name: torch.as_tensor(array)[None] for name, array in arrays.items()}
