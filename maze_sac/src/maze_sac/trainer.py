"""The SAC trainer: act, store, draw, update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.trainer import Statistics, TrainerContext
from maze_replay.filling import fill
from maze_replay.transitions import columns_by_key
from maze_runtime.models.action_value_critic import require_action_values
from maze_runtime.models.agent_networks import refuse_agent_networks
from maze_runtime.models.capabilities import ActionValueModel
from maze_runtime.models.device import resolve_device, threads_for
from maze_runtime.models.shared_action_values import Earlier
from maze_runtime.training.counters import Counters
from maze_runtime.training.epoch_timer import EpochTimer
from maze_runtime.training.key_statistics import named_by_key
from maze_runtime.training.non_finite import non_finite_update
from maze_sac.experience import Drawn, Experience
from maze_sac.joint import Context
from maze_sac.objectives import TransitionBatch
from maze_sac.options import SACOptions
from maze_sac.update import NORMS, STATISTICS, Update

OWNER = "maze-sac"


class SACTrainer:
    """Soft actor-critic, of every policy key of an environment at once.

    Raises:
        SpaceError: a policy key has a head SAC cannot serve.
        RequestError: the device does not exist, or the model has no Q networks, or one network an agent.
    """

    def __init__(self, context: TrainerContext, options: SACOptions) -> None:
        self.options = options
        device = resolve_device(options.device)
        model: Any = context.make_model()
        require_action_values(model, OWNER)
        refuse_agent_networks(model, OWNER)
        self.model: ActionValueModel = model.to(device)
        self._context = context
        self._device = device
        self._update = Update(self.model, options)
        self._experience = Experience(context, self.model, self._update.policy_flat, options)
        self._rng = np.random.default_rng()
        self._torch_state = torch.random.get_rng_state()
        self._counters = Counters(options, context.progress)
        self._n_updates = 0

    @property
    def env_steps(self) -> int:
        """Environment steps so far."""
        return self._counters.env_steps

    def start_segment(self, epoch: int) -> None:
        """Re-seed environments, action samples, batches and noise from the run's seed and `epoch`."""
        seeds = self._context.seeds
        if not self._n_updates:
            self._experience.open_demonstrations()
        self._experience.start_segment(epoch)
        self._rng = seeds.generator("replay", epoch)
        self._torch_state = torch.Generator().manual_seed(seeds.seed("update-noise", epoch)).get_state()

    def train_epoch(self) -> Statistics:
        """Fill the buffer if it is the first epoch, then `epoch_length` iterations."""
        timer = EpochTimer()
        steps_before, statistics = self.env_steps, []
        n_decisions = self.options.rollouts_per_iteration * self.options.n_rollout_steps
        n_parameters = len(self._update.policy_flat.data) + len(self._update.critic_flat.data)
        with threads_for(n_parameters, self.options.batch_size), torch.random.fork_rng(devices=self._cuda_devices()):
            self._set_noise()
            self._fill()
            timer.lap("rollout_seconds")
            for i in self._counters.updates(self.options.epoch_length):
                self._report(i, "train" if self._update.is_compiled else "compile")
                n_steps = self._experience.collect(n_decisions)
                self._counters.env_steps += n_steps
                timer.lap("rollout_seconds")
                n_updates = self.options.num_batches_per_iter or max(1, n_steps)
                statistics += [self._step(i) for _ in range(n_updates)]
                timer.lap("update_seconds")
            self._torch_state = torch.random.get_rng_state()
        self._counters.epoch += 1
        learner = torch.stack(statistics)
        # Other devices than the CPU are asked once an epoch, so that no update waits for them.
        if not bool(learner.isfinite().all()):
            raise non_finite_update(f"update {self._n_updates} or before", None, owner=OWNER)
        return self._summary(learner, timer, self.env_steps - steps_before)

    def _set_noise(self) -> None:
        torch.random.set_rng_state(self._torch_state)
        if self._device.type == "cuda":
            with torch.cuda.device(self._device):
                torch.cuda.manual_seed(int(torch.randint(2**62, ())))

    def _cuda_devices(self) -> list[int]:
        return [self._device.index or 0] if self._device.type == "cuda" else []

    def _fill(self) -> None:
        """Before the first update read the demonstrations, and play until there are `initial_buffer_size` transitions.

        Half of what fits is enough; every policy key needs one that was played.
        """
        if self._n_updates:
            return
        experience = self._experience
        experience.add_demonstrations()
        fill(
            experience.replay,
            self.options.initial_buffer_size,
            self._play_initially,
            lambda _n_steps: self._report(0, "rollout"),
            count=lambda: experience.n_transitions,
            silent=lambda: experience.silent_keys,
        )

    def _play_initially(self) -> int:
        n_steps = self._experience.collect(self.options.n_rollout_steps, initial=True)
        self._counters.env_steps += n_steps
        return n_steps

    def _step(self, iteration: int) -> Tensor:
        drawn = self._experience.sample(self.options.batch_size, self._rng)
        rate = self._counters.rate_of_update(self.options.lr, iteration / self.options.epoch_length)
        statistics = self._update(rate, {key: self._batch(key, part) for key, part in drawn.items()})
        self._n_updates += 1
        if self._device.type == "cpu" and not np.isfinite(statistics.numpy()).all():
            raise non_finite_update(
                f"update {self._n_updates}",
                columns_by_key({key: own.transitions for key, own in drawn.items()}),
                owner=OWNER,
            )
        return statistics

    def _batch(self, key: PolicyKey, drawn: Drawn) -> TransitionBatch:
        observation, following = self._tensors(drawn.observation), self._tensors(drawn.next_observation)
        if drawn.context is not None and drawn.next_context is not None:
            observation |= self._earlier(drawn.context)
            earlier = self._earlier(drawn.next_context)
            following = {each: own | earlier for each, own in following.items()}
        return TransitionBatch(
            observation,
            self._update.encoders[key].encode(self._tensors(drawn.action)),
            self._tensors(drawn.transitions.reward),
            following,
            self._tensors(drawn.transitions.discount),
            None if drawn.next_key is None else self._tensors(drawn.next_key),
        )

    def _earlier(self, context: Context) -> dict[str, Tensor]:
        """What shared Q networks read beside an observation."""
        encoders, acted = self._update.encoders, self._tensors(context.acted).float()
        did = {
            Earlier.did(key): encoders[key].encode(self._tensors(action)) * acted[:, number, None]
            for number, (key, action) in enumerate(context.did.items())
        }
        saw = {Earlier.saw(name): self._tensors(array) for name, array in context.saw.items()}
        return {**saw, **did, Earlier.SEEN: self._tensors(context.seen).float()}

    def _tensors(self, arrays: Any) -> Any:
        """An array, or a dict of them to any depth; the update moves them to its device."""
        if isinstance(arrays, Mapping):
            return {name: self._tensors(array) for name, array in arrays.items()}
        return torch.from_numpy(arrays)

    def _report(self, iteration: int, phase: str) -> None:
        if iteration % 16 == 0:
            self._counters.report(iteration / self.options.epoch_length, phase, self._experience.mean_return())

    def _summary(self, statistics: Tensor, timer: EpochTimer, n_steps: int) -> Statistics:
        n_usual = len(self._update.keys) * len(STATISTICS) + len(NORMS)
        # How torch adds up a column depends on how many stand beside it: the last digits of these are always the same
        usual, of_keys = (part.contiguous().mean(dim=0) for part in statistics.tensor_split([n_usual], dim=1))
        learner = self._named(torch.cat([usual, of_keys]))
        learner |= {
            "learning_rate": self._counters.reported_rate(self.options.lr),
            "buffer_size": self._experience.n_transitions,
            "n_updates": self._n_updates,
        }
        compile_seconds = self._update.take_compile_seconds()
        return {
            **self._experience.drain(),
            **{f"SACEvents/{name}": value for name, value in learner.items()},
            **timer.statistics(compile_seconds=compile_seconds, env_steps=n_steps, updates=len(statistics)),
        }

    def _named(self, numbers: Tensor) -> dict[str, float]:
        """Statistics by tag: means over the policy keys, norms, and those of each key if there are several."""
        norms = self._update.norms
        own = named_by_key(STATISTICS, self._update.keys, numbers[: -len(norms)])
        means = {name: own.pop(name) for name in STATISTICS}
        return means | dict(zip(norms, numbers[-len(norms) :].tolist(), strict=True)) | own

    def state_dict(self) -> dict[str, Any]:
        """Optimisers, target networks, temperature, replay buffer and counters."""
        return {
            "update": self._update.state_dict(),
            "experience": self._experience.state_dict(),
            **self._counters.state_dict(),
            "n_updates": self._n_updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._update.load_state_dict(state["update"])
        self._experience.load_state_dict(state["experience"])
        self._counters.load_state_dict(state)
        self._n_updates = int(state["n_updates"])

    def close(self) -> None:
        """Close the training environments."""
        self._experience.close()
