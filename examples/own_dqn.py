"""Deep Q-learning: replay, n-step returns, a target network, and exploration that fades."""

from __future__ import annotations

import attrs
import torch
from gymnasium import spaces

from maze_kernel.errors import SpaceError
from maze_kernel.validators import above, at_least, between
from maze_replay.collector import TransitionCollector
from maze_runtime.models.target_network import TargetNetwork
from maze_runtime.rollout.episode_statistics import EpisodeReturns
from maze_runtime.rollout.epsilon_greedy import EpsilonGreedy
from maze_runtime.training.counters import Counters
from maze_runtime.training.gradient_step import GradientStep
from maze_runtime.training.loop_options import LoopOptions
from maze_runtime.training.schedules import Schedule

FADING = Schedule(start=1.0, end=0.05)


@attrs.frozen(kw_only=True)
class DQNOptions(LoopOptions):
    """Deep Q-learning. Source: Mnih et al. 2015; double: van Hasselt et al. 2016."""

    epoch_length: int = attrs.field(default=500, validator=at_least(1))
    """Ticks an epoch: a decision of every environment each, and a gradient step."""
    lr: float = attrs.field(default=1e-3, validator=above(0.0))
    """Learning rate of Adam."""
    gamma: float = attrs.field(default=0.99, validator=between(0.0, 1.0))
    """Discount a flat step."""
    n_steps: int = attrs.field(default=3, validator=at_least(1))
    """Rewards that are summed up before the value of what follows."""
    batch_size: int = attrs.field(default=64, validator=at_least(1))
    """Transitions a gradient step."""
    replay_buffer_size: int = attrs.field(default=50_000, validator=at_least(1))
    """Transitions kept."""
    initial_buffer_size: int = attrs.field(default=500, validator=at_least(1))
    """Transitions before the first gradient step."""
    tau: float = attrs.field(default=0.01, validator=between(0.0, 1.0))
    """How far the target network moves towards the trained one, each step."""
    epsilon: float | Schedule = FADING
    """Probability of an action at random: a number, or a schedule over the run's budget."""


class DQN:
    """Q(s, a) is the logit of a: the mode of the policy is then the greedy action, with masks, wrappers and export.

    Raises:
        SpaceError: the environment is not flat with one Discrete action.
    """

    critic = "none"  # it trains no state values; a plugin says so in its TrainerComponent
    takes_modes = True  # logits are Q values: there are no probabilities to draw by

    def __init__(self, context, options: DQNOptions):
        (self._key,) = context.spaces.policy_keys if context.spaces.is_flat else ("",)
        heads = context.spaces.action[self._key].spaces if self._key else {}
        if len(heads) != 1 or not isinstance(next(iter(heads.values())), spaces.Discrete):
            raise SpaceError("dqn chooses among the actions of one Discrete space", received=str(heads))
        ((self._head, self._space),) = heads.items()
        self.options = options
        self.model = context.make_model()
        of_policy = set(self.model.policy_state_dict())
        self._step = GradientStep(
            self.model,
            self._loss,
            epsilon=1e-8,
            max_grad_norm=10.0,
            compiled=options.compile,
            parameters=[parameter for name, parameter in self.model.named_parameters() if name in of_policy],
        )
        self._target = TargetNetwork(self.model)
        self._policy = EpsilonGreedy(context.make_policy(self.model, 0), context.spaces)
        self._returns = EpisodeReturns(context.n_envs)
        self._collector = TransitionCollector(
            context.make_vector_env(),
            gamma=options.gamma,
            size=options.replay_buffer_size,
            report=self._returns.add_step,
        )
        self._replay = self._collector.replay[self._key]
        self._counters = Counters(options, context.progress)
        self._context = context

    @property
    def env_steps(self):
        return self._counters.env_steps

    def start_segment(self, epoch):
        """Everything random from here on follows from the run's seed and `epoch`."""
        seeds = self._context.seeds
        self._policy.seed(seeds.seed("act", epoch))
        self._rng = seeds.generator("replay", epoch)
        self._returns.reset()
        self._collector.reset([[seed] for seed in seeds.seeds(self._context.n_envs, "train-envs", epoch)])

    def train_epoch(self):
        """Act, store, draw, learn."""
        learnt = []
        for tick in self._counters.updates(self.options.epoch_length):
            done = tick / self.options.epoch_length
            self._policy.epsilon = self._counters.scheduled(self.options.epsilon, done)
            self._counters.env_steps += self._collector.collect(self._policy, 1)
            if self._replay.n_transitions >= self.options.initial_buffer_size:
                learnt.append(self._learn())
            if tick % 64 == 0:
                self._counters.report(done, "train")
        self._counters.epoch += 1
        statistics = {**self._returns.drain(), "DQNEvents/epsilon": self._policy.epsilon}
        if learnt:
            squared_error, value, norm = torch.stack(learnt).mean(0).tolist()
            statistics |= {"DQNEvents/squared_error": squared_error, "DQNEvents/value": value, "DQNEvents/norm": norm}
        return statistics

    def _learn(self):
        drawn = self._replay.sample(self.options.batch_size, self._rng, n_steps=self.options.n_steps)
        observation = {name: torch.from_numpy(array) for name, array in drawn.observation.items()}
        following = {name: torch.from_numpy(array) for name, array in drawn.next_observation.items()}
        action = torch.from_numpy(drawn.action[self._head] - self._space.start).long()
        with torch.no_grad():
            best = self._values(self.model, following).argmax(-1, keepdim=True)
            future = self._values(self._target.network, following).gather(-1, best)[:, 0]
            # y = R + γⁿ Q'(s', argmax_a Q(s', a)); the discount is 0 where the episode terminated
            target = torch.from_numpy(drawn.reward) + torch.from_numpy(drawn.discount) * future
        statistics = self._step(self.options.lr, observation, action, target)
        self._target.follow(self.options.tau)
        return statistics

    def _values(self, model, observation):
        """(B, A); a masked choice has a value so low that it is never the greatest."""
        return model.logits(self._key, observation)[self._head]

    def _loss(self, model, observation, action, target):
        value = self._values(model, observation).gather(-1, action[:, None])[:, 0]
        loss = (target - value).square().mean()
        return loss, torch.stack([loss.detach(), value.detach().mean()])

    def state_dict(self):
        """Everything but the model's weights."""
        return {
            "step": self._step.state_dict(),
            "target": self._target.state_dict(),
            "replay": self._replay.state_dict(),
            **self._counters.state_dict(),
        }

    def load_state_dict(self, state):
        self._step.load_state_dict(state["step"])
        self._target.load_state_dict(state["target"])
        self._replay.load_state_dict(state["replay"])
        self._counters.load_state_dict(state)

    def close(self):
        self._collector.close()
