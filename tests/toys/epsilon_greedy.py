"""Q-learning by a third party: a model whose acting rule is ε-greedy, and a trainer that lowers ε while it learns.

It has no logits, no distribution and no state value; all that Maze knows of its way to act is `make_policy`. Loaded as
a plugin file, so that it exists in worker processes and in runs of the command line too.
"""

from __future__ import annotations

import attrs
import numpy as np
import torch

from maze_kernel import hookimpl
from maze_kernel.components import EnvComponent, ModelComponent, TrainerComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_envs():
    yield EnvComponent(name="identity", target="maze_testing.environments:Identity")


@hookimpl
def maze_models():
    yield ModelComponent(name="q-network", target="epsilon_greedy:QNetwork", options="epsilon_greedy:QNetworkOptions")


@hookimpl
def maze_trainers():
    yield TrainerComponent(
        name="q-learning",
        target="epsilon_greedy:QLearning",
        options="epsilon_greedy:QLearningOptions",
        critic="none",
    )


@attrs.frozen(kw_only=True)
class QNetworkOptions:
    epsilon: float = 0.25
    """Exploration of a policy that no trainer steers: in evaluations, rollouts and deployments that are not deterministic."""  # noqa: E501


class QNetwork(torch.nn.Module):
    """Q(s, ·), linear in a Box observation, for one Discrete action."""

    def __init__(self, context, options):
        super().__init__()
        self.spaces = context.spaces
        self.distributions = {}
        self.epsilon = options.epsilon
        self.head = next(iter(context.spaces.action["0"].spaces))
        n_actions = int(context.spaces.action["0"].spaces[self.head].n)
        n_inputs = context.spaces.observation["0"].spaces["observation"].shape[0]
        self.values = torch.nn.Linear(n_inputs, n_actions)
        torch.nn.init.zeros_(self.values.weight)
        torch.nn.init.zeros_(self.values.bias)

    def forward(self, observation):
        return self.values(observation)

    def make_policy(self, seed):
        return EpsilonGreedy(self, seed, self.epsilon)

    def policy_state_dict(self):
        return self.state_dict()


class EpsilonGreedy:
    """The action of greatest value; with probability `epsilon` any action, unless it is to be deterministic."""

    def __init__(self, model, seed, epsilon):
        self.epsilon = epsilon
        self._model = model
        self.seed(seed)

    def act(self, policy_key, group, *, deterministic=False):
        with torch.inference_mode():
            values = self._model(torch.from_numpy(np.ascontiguousarray(group.observation["observation"]))).numpy()
        action = values.argmax(axis=-1)
        if not deterministic:
            explores = self._rng.random(len(action)) < self.epsilon
            action = np.where(explores, self._rng.integers(values.shape[-1], size=len(action)), action)
        return {self._model.head: action}

    def begin_episodes(self, env_index):
        pass

    def seed(self, seed):
        self._rng = np.random.default_rng(seed)

    def state_dict(self):
        return {"rng": self._rng.bit_generator.state, "epsilon": self.epsilon}

    def load_state_dict(self, state):
        self._rng.bit_generator.state = state["rng"]
        self.epsilon = state["epsilon"]


@attrs.frozen(kw_only=True)
class QLearningOptions:
    n_epochs: int = 12
    """Epochs."""
    n_steps: int = 40
    """Decisions of every environment an epoch."""
    lr: float = 0.2
    """Step size."""
    gamma: float = 0.5
    """Discount."""
    max_env_steps: int = 0
    """Budget."""
    patience: int = 0
    """Patience."""
    device: str = "cpu"
    """Device."""
    compile: bool = False
    """Nothing to compile."""


class QLearning:
    """Q(s, a) ← Q(s, a) + α (r + γ max_a' Q(s', a') − Q(s, a)), ε from 1 to 0 over the epochs."""

    def __init__(self, context, options):
        self.options = options
        self.model = context.make_model()
        self.policy = self.model.make_policy(0)
        self.env_steps = 0
        self._context = context
        self._epoch = 0
        self._batch = context.make_vector_env()
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=options.lr)

    def start_segment(self, epoch):
        seeds = self._context.seeds
        self.policy.seed(seeds.seed("act", epoch))
        self._tick = self._batch.reset([[seed] for seed in seeds.seeds(self._context.n_envs, "train-envs", epoch)])

    def train_epoch(self):
        self.policy.epsilon = max(0.0, 1.0 - self._epoch / max(1, self.options.n_epochs - 1))
        total = sum(self._step() for _ in range(self.options.n_steps))
        self._epoch += 1
        return {"BaseEnvEvents/reward/mean": total, "QLearningEvents/epsilon": self.policy.epsilon}

    def _step(self):
        group, void = self._tick.groups["0"], self._tick.awaiting_reset
        observation = torch.from_numpy(group.observation["observation"].copy())
        action = self.policy.act("0", group)
        self._tick = tick = self._batch.step({"0": action})
        counted = np.ones(len(tick.reward), bool) if void is None else ~void
        self._learn(observation, torch.from_numpy(action[self.model.head]), tick, torch.from_numpy(counted))
        self.env_steps += int(counted.sum())
        return float(tick.reward[counted].sum())

    def _learn(self, observation, action, tick, counted):
        with torch.no_grad():
            following = self.model(torch.from_numpy(tick.groups["0"].observation["observation"].copy())).max(-1).values
            alive = torch.from_numpy(~tick.terminated)
            target = torch.from_numpy(tick.reward.copy()) + self.options.gamma * alive * following
        value = self.model(observation).gather(-1, action[:, None])[:, 0]
        loss = ((target - value).square() * counted).mean()
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()

    def state_dict(self):
        return {"policy": self.policy.state_dict(), "epoch": self._epoch, "env_steps": self.env_steps}

    def load_state_dict(self, state):
        self.policy.load_state_dict(state["policy"])
        self._epoch, self.env_steps = state["epoch"], state["env_steps"]

    def close(self):
        self._batch.close()
