"""Where the data comes from: training environments, the acting policy, and the buffer between them."""

from __future__ import annotations

from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.trainer import Statistics, TrainerContext
from maze_runtime.models.acting_copy import ActingCopy
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.network_policy import NetworkPolicy, require_sampling
from maze_runtime.rollout.buffer import RolloutBuffer
from maze_runtime.rollout.collector import Collector, collector_for, make_buffer
from maze_runtime.rollout.structured_buffer import StructuredBuffer


class RolloutSource:
    """Collects rollouts with the newest weights.

    Args:
        context: of the trainer.
        model: being trained, on its device.
        parameters: the model's flat parameters.
        n_steps: T.

    Raises:
        RequestError: the model acts by another rule than its distributions.
    """

    def __init__(self, context: TrainerContext, model: ActorCritic, parameters: FlatParameters, n_steps: int) -> None:
        require_sampling(model, "maze-ppo")
        self._seeds = context.seeds
        self._acting = ActingCopy(model, parameters)
        self.vector_env = context.make_vector_env()
        self.policy = context.make_policy(self._acting.model, 0)
        self.collector = collector_for(self.vector_env, self.policy, self._acting.flat, n_steps)
        self.buffer = make_buffer(self.vector_env.structured_spaces, n_steps, self.vector_env.n_envs)
        self._keep_evaluations(model)

    def start_segment(self, epoch: int) -> None:
        """Re-seed environments and action samples from the run's seed and `epoch`, and start new episodes."""
        self.policy.seed(self._seeds.seed("act", epoch))
        env_seeds = self._seeds.seeds(self.vector_env.n_envs, "train-envs", epoch)
        self.collector.reset([[seed] for seed in env_seeds])

    def collect(self) -> tuple[RolloutBuffer | StructuredBuffer, int]:
        """The next rollout, which the one after overwrites, and the environment steps in it."""
        self._acting.refresh()
        steps_before = self.collector.env_steps
        self.collector.collect(self.buffer)
        return self.buffer, self.collector.env_steps - steps_before

    def drain(self) -> Statistics:
        """Statistics of the episodes that ended since the last call."""
        return self.collector.statistics.drain()

    def close(self) -> None:
        """Close the environments."""
        self.vector_env.close()

    def _keep_evaluations(self, model: ActorCritic) -> None:
        """Let rollouts hold values and logits where the policy works them out anyway."""
        buffer, policy = self.buffer, self.policy
        if not (isinstance(self.collector, Collector) and isinstance(buffer, RolloutBuffer)):
            return
        if isinstance(policy, NetworkPolicy) and policy.keep_values():
            buffer.keep_evaluations(model.distributions[buffer.policy_key].logits_shapes())
