"""A toy environment, model and trainer whose every number depends on seeds, weights and random states.

Loaded as a plugin file, so that it exists in worker processes and in runs of the command line too.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import attrs
import numpy as np
import torch
from gymnasium import spaces

from maze_kernel import hookimpl
from maze_kernel.components import EnvComponent, LoggerComponent, ModelComponent, TrainerComponent, WorkersComponent
from maze_kernel.contracts.logger import Progress
from maze_kernel.errors import NonFiniteError
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.models.network_policy import NetworkPolicy

MAZE_PLUGIN_API = 1


@hookimpl
def maze_envs():
    yield EnvComponent(name="toy-env", target="toy_plugin:ToyEnv")


@hookimpl
def maze_models():
    yield ModelComponent(name="toy-model", target="toy_plugin:ToyModel")


@hookimpl
def maze_trainers():
    yield TrainerComponent(name="toy-trainer", target="toy_plugin:ToyTrainer", options="toy_plugin:ToyOptions")


@hookimpl
def maze_loggers():
    yield LoggerComponent(name="broken-logger", target="toy_plugin:BrokenLogger")
    yield LoggerComponent(name="leaving-logger", target="toy_plugin:LeavingLogger")
    yield LoggerComponent(name="mute-logger", target="toy_plugin:MuteLogger")


@hookimpl
def maze_workers():
    yield WorkersComponent(
        name="toy-subprocess",
        target="maze_processes.pool:SubprocessPool",
        options="maze_runtime.workers.options:WorkersOptions",
    )


class ToyEnv(FlatEnv):
    """Episodes of 5 to 9 steps; a reward for guessing the sign of what is shown."""

    structured_spaces = flat_spaces(
        spaces.Dict({"observation": spaces.Box(-10, 10, (2,), np.float32)}), spaces.Dict({"action": spaces.Discrete(2)})
    )

    def __init__(self):
        self._rng = np.random.default_rng()

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._left = int(self._rng.integers(5, 10))
        return self._observe(), {}

    def step(self, action):
        reward = float(int(action["action"]) == int(self._shown[0] > 0))
        self._left -= 1
        return self._observe(), reward, self._left == 0, False, {}

    def _observe(self):
        self._shown = self._rng.normal(size=2).astype(np.float32)
        return {"observation": self._shown}


class ToyDistribution:
    def mode_numpy(self, logits):
        return {"action": np.argmax(logits["action"], axis=-1)}

    def sample_numpy(self, logits, rng):
        noise = rng.gumbel(size=logits["action"].shape)
        return {"action": np.argmax(logits["action"] + noise, axis=-1)}


class ToyModel(torch.nn.Module):
    def __init__(self, context, *, padding: int = 4):
        super().__init__()
        self.spaces = context.spaces
        self.distributions = {"0": ToyDistribution()}
        generator = torch.Generator().manual_seed(context.seed)
        self.weight = torch.nn.Parameter(torch.randn(2, 2, generator=generator))
        self.padding = torch.nn.Parameter(torch.zeros(padding))
        self.dropout = torch.nn.Dropout(0.5)

    def numpy_logits(self, policy_key):
        return lambda observation: {"action": observation["observation"] @ self.weight.detach().numpy()}

    def make_policy(self, seed):
        return NetworkPolicy(self, seed)


@attrs.frozen(kw_only=True)
class ToyOptions:
    n_epochs: int = 10
    """Epochs."""
    patience: int = 0
    """Patience."""
    max_env_steps: int = 0
    """Budget."""
    nan_at_epoch: int = 0
    """Poison a weight in this epoch."""
    refuse_at_epoch: int = 0
    """Raise NonFiniteError with its batch in this epoch."""
    worse_from_epoch: int = 0
    """Turn the policy upside down from this epoch on."""
    signal_file: str = ""
    """Append a line an epoch here; sleep a little so that a test can interrupt."""


class ToyTrainer:
    def __init__(self, context, options):
        self.options = options
        self.context = context
        self.model = context.make_model()
        self.env_steps = 0
        self.epoch = 0
        self.momentum = torch.zeros_like(self.model.padding)
        self.vector_env = context.make_vector_env()
        self.rng = np.random.default_rng(context.seeds.seed("toy"))
        self.segments = []

    def start_segment(self, epoch):
        self.segments.append(epoch)
        seeds = self.context.seeds.seeds(self.context.n_envs, "train-envs", epoch)
        self.policy = self.context.make_policy(self.model, self.context.seeds.seed("policy", epoch))
        self.tick = self.vector_env.reset([[seed] for seed in seeds])

    def train_epoch(self):
        self.epoch += 1
        total = 0.0
        for _ in range(7):
            self.tick = self.vector_env.step({k: self.policy.act(k, g) for k, g in self.tick.groups.items()})
            self.env_steps += self.context.n_envs
            total += float(self.tick.reward.sum())
        self._update(total)
        self.context.progress(Progress(env_steps=self.env_steps, fraction=0.9, phase="update"))
        if self.options.signal_file:
            with open(self.options.signal_file, "a") as file:
                file.write(f"{self.epoch} {os.getpid()}\n")
            time.sleep(0.02)
        return {
            "ActorCriticEvents/policy_loss": -total,
            "BaseEnvEvents/reward/mean": total,
            "BaseEnvEvents/episode_count": self.epoch,
            "ToyEvents/epoch": self.epoch,
        }

    def _update(self, total):
        step = torch.from_numpy(self.rng.normal(size=(2, 2)).astype(np.float32)) + torch.randn(2, 2)
        with torch.no_grad():
            self.model.weight += 0.01 * step * total + float(np.random.normal()) * 0.01
            self.momentum.mul_(0.9).add_(total)
            self.model.padding += self.momentum
            if self.options.worse_from_epoch and self.epoch >= self.options.worse_from_epoch:
                self.model.weight.copy_(torch.tensor([[10.0, -10.0], [0.0, 0.0]]))
            elif self.options.worse_from_epoch and self.epoch == 2:
                self.model.weight.copy_(torch.tensor([[-10.0, 10.0], [0.0, 0.0]]))
            if self.options.nan_at_epoch == self.epoch:
                self.model.weight[0, 0] = float("nan")
        if self.options.refuse_at_epoch == self.epoch:
            batch = {"observation": np.full((3, 2), np.nan, np.float32)}
            raise NonFiniteError("a gradient is not finite", help="lower lr", batch=batch)

    def state_dict(self):
        return {
            "rng": self.rng.bit_generator.state,
            "momentum": self.momentum,
            "env_steps": self.env_steps,
            "epoch": self.epoch,
        }

    def load_state_dict(self, state):
        self.rng.bit_generator.state = state["rng"]
        self.momentum.copy_(state["momentum"])
        self.env_steps, self.epoch = state["env_steps"], state["epoch"]

    def close(self):
        self.vector_env.close()


class BrokenLogger:
    def __init__(self, context):
        self.path = Path(context.run_dir)

    def write(self, record):
        raise OSError("no space left for statistics")


class LeavingLogger:
    def __init__(self, context):
        pass

    def write(self, record):
        sys.exit("enough of it")


class MuteLogger:
    def __init__(self, context):
        pass
