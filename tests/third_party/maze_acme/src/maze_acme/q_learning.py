"""The trainer "acme-q-learning": one step of gradient descent after every decision of the batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maze_acme.options import QLearningOptions
from maze_acme.q_network import QNetwork
from maze_kernel.contracts.trainer import Statistics, TrainerContext
from maze_kernel.contracts.vector import ArrayDict, Tick
from maze_kernel.errors import RequestError
from maze_runtime.rollout.episode_statistics import EpisodeReturns
from maze_runtime.training.counters import Counters


class QLearning:
    """Q(s, a) ← Q(s, a) + α (r + γ max_a' Q(s', a') − Q(s, a)). Source: Watkins 1989.

    Raises:
        RequestError: the model gives no values of actions, or is to be trained elsewhere than on the CPU.
    """

    def __init__(self, context: TrainerContext, options: QLearningOptions) -> None:
        if options.device != "cpu":
            raise RequestError("this trainer runs on the CPU", received=options.device, option="device")
        model: Any = context.make_model()
        if not isinstance(model, QNetwork):
            raise RequestError(
                "Q-learning needs a model of action values",
                received=type(model).__name__,
                expected='[model] use = "acme-q-network"',
                owner="maze-acme",
            )
        self.options = options
        self.model: QNetwork = model
        self._context = context
        self._policy = model.make_policy(0)
        self._counters = Counters(options, context.progress)
        self._batch = context.make_vector_env()
        self._returns = EpisodeReturns(context.n_envs)
        self._optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)

    @property
    def env_steps(self) -> int:
        """Environment steps of the whole run."""
        return self._counters.env_steps

    def start_segment(self, epoch: int) -> None:
        """New episodes and a new random stream, from the seed of the run and the epoch."""
        seeds = self._context.seeds
        self._policy.seed(seeds.seed("act", epoch))
        self._returns.reset()
        self._tick = self._batch.reset([[seed] for seed in seeds.seeds(self._context.n_envs, "train-envs", epoch)])

    def train_epoch(self) -> Statistics:
        """`n_steps` decisions of every environment, an update after each."""
        self._policy.epsilon = self._exploration()
        errors = []
        for step in range(self.options.n_steps):
            errors.append(self._step())
            if step % 32 == 0:
                self._counters.report(step / self.options.n_steps, "rollout")
        self._counters.epoch += 1
        return {
            **self._returns.drain(),
            "QLearningEvents/epsilon": self._policy.epsilon,
            "QLearningEvents/squared_error": float(np.mean(errors)),
        }

    def state_dict(self) -> dict[str, Any]:
        """Counters and the policy's random state; plain gradient descent remembers nothing."""
        return {"policy": self._policy.state_dict(), **self._counters.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._policy.load_state_dict(state["policy"])
        self._counters.load_state_dict(state)

    def close(self) -> None:
        """Close the training environments."""
        self._batch.close()

    def _exploration(self) -> float:
        part = min(1.0, self._counters.epoch / max(1, self.options.n_epochs - 1))
        return 1.0 + part * (self.options.final_epsilon - 1.0)

    def _step(self) -> float:
        key = self.model.policy_key
        group = self._tick.groups[key]
        void = self._tick.awaiting_reset
        values = self.model(group.observation)
        action = self._policy.act(key, group)
        self._tick = tick = self._batch.step({key: action})
        void = np.zeros(len(tick.reward), np.bool_) if void is None else void
        self._returns.add_step(tick.reward, tick.terminated | tick.truncated, void)
        self._counters.env_steps += int(np.count_nonzero(~void))
        return self._learn(values.gather(-1, self.model.columns(action)[:, None])[:, 0], tick, void)

    def _learn(self, values: Tensor, tick: Tick, void: np.ndarray) -> float:
        with torch.no_grad():
            following = self.model(self._next_observation(tick)).max(-1).values
        alive = torch.from_numpy(~tick.terminated)
        # y = r + γ max_a' Q(s', a'), without the second term where the episode terminated
        target = torch.from_numpy(tick.reward.copy()) + self.options.gamma * alive * following
        loss = ((target - values).square() * torch.from_numpy(~void)).mean()
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        return float(loss.detach())

    def _next_observation(self, tick: Tick) -> ArrayDict:
        """What the decision led to: of an episode that ended its last observation, not the first of the next one."""
        observation = tick.groups[self.model.policy_key].observation
        final = tick.final_observation.get(self.model.policy_key)
        if final is None:
            return observation
        merged = {name: array.copy() for name, array in observation.items()}
        for name, array in final.observation.items():
            merged[name][final.env_index] = array
        return merged
