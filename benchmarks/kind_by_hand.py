"""PPO as one writes it for one environment in an afternoon: the yardstick of natively batched environments."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from interleaved import Contender

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

N_STEPS, N_EPOCHS, N_MINIBATCHES = 128, 4, 4
GAMMA, LAMBDA = 0.99, 0.95


def by_hand(n_envs: int, steps: int) -> Contender:
    """Trains on `Hover` of examples/own_batch.py for `steps` environment steps a round; warmed up."""
    loop = _Loop(n_envs)
    loop.update()

    def run() -> float:
        start = time.perf_counter()
        for _ in range(max(1, steps // (n_envs * N_STEPS))):
            loop.update()
        return max(1, steps // (n_envs * N_STEPS)) * n_envs * N_STEPS / (time.perf_counter() - start)

    return run


class _Loop:
    def __init__(self, n_envs: int) -> None:
        from own_batch import Hover

        self.envs, self.n_envs = Hover(n_envs), n_envs
        self.policy, self.critic = _network(3), _network(1)
        self.parameters = [*self.policy.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, 2.5e-4, eps=1e-5)
        self.observation = self.envs.reset(seed=1)[0]

    def update(self) -> None:
        """One rollout and the passes over it."""
        seen, actions, log_probs, values, rewards, ended = self._rollout()
        advantages = _advantages(rewards, values, ended)
        returns = advantages + values[:-1]
        flat = [x.reshape(N_STEPS * self.n_envs, *x.shape[2:]) for x in (seen, actions, log_probs, advantages, returns)]
        for _ in range(N_EPOCHS):
            for rows in torch.randperm(len(flat[0])).chunk(N_MINIBATCHES):
                self._step(*(x[rows] for x in flat))

    @torch.no_grad()
    def _rollout(self) -> tuple[Tensor, ...]:
        seen = torch.zeros(N_STEPS, self.n_envs, 2)
        actions = torch.zeros(N_STEPS, self.n_envs, dtype=torch.int64)
        log_probs, rewards, ended = (torch.zeros(N_STEPS, self.n_envs) for _ in range(3))
        values = torch.zeros(N_STEPS + 1, self.n_envs)
        for t in range(N_STEPS):
            seen[t] = torch.from_numpy(self.observation)
            distribution = torch.distributions.Categorical(logits=self.policy(seen[t]))
            actions[t] = distribution.sample()
            log_probs[t] = distribution.log_prob(actions[t])
            values[t] = self.critic(seen[t])[:, 0]
            self.observation, reward, terminated, truncated, _ = self.envs.step(actions[t].numpy())
            rewards[t] = torch.from_numpy(reward)
            ended[t] = torch.from_numpy(np.logical_or(terminated, truncated))
        values[-1] = self.critic(torch.from_numpy(self.observation))[:, 0]
        return seen, actions, log_probs, values, rewards, ended

    def _step(self, seen: Tensor, actions: Tensor, log_probs: Tensor, advantages: Tensor, returns: Tensor) -> None:
        distribution = torch.distributions.Categorical(logits=self.policy(seen))
        ratio = (distribution.log_prob(actions) - log_probs).exp()
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        surrogate = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
        value_loss = (self.critic(seen)[:, 0] - returns).square().mean()
        loss = -surrogate + 0.5 * value_loss - 0.01 * distribution.entropy().mean()
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 0.5)
        self.optimizer.step()


def _network(n_outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, n_outputs))


def _advantages(rewards: Tensor, values: Tensor, ended: Tensor) -> Tensor:
    """Generalised advantage estimates, (time, environment); Schulman et al. 2016, equation 16."""
    advantages, trace = torch.zeros_like(rewards), torch.zeros(rewards.shape[1])
    for t in range(N_STEPS - 1, -1, -1):
        goes_on = 1.0 - ended[t]
        error = rewards[t] + GAMMA * values[t + 1] * goes_on - values[t]
        trace = error + GAMMA * LAMBDA * goes_on * trace
        advantages[t] = trace
    return advantages
