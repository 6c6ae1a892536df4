"""Where the data comes from: training environments, the acting policies, and the replay buffers behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.trainer import TrainerContext
from maze_kernel.contracts.vector import ArrayDict
from maze_kernel.errors import RequestError
from maze_replay.collector import TransitionStore
from maze_replay.scales import ScalesOfNow
from maze_replay.transitions import Transitions
from maze_runtime.models.acting_copy import ActingCopy
from maze_runtime.models.action_encoding import Choices
from maze_runtime.models.capabilities import ActionValueModel
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.rollout.episode_statistics import EpisodeReturns
from maze_runtime.rollout.final_masks import check_final_masks
from maze_sac.demonstrations import DemonstrationMemory
from maze_sac.initial_policy import InitialPolicy
from maze_sac.joint import ALL, WHO, Context, JointKeys
from maze_sac.options import SACOptions
from maze_sac.play import make_play


class Drawn(NamedTuple):
    """A batch of a policy key.

    Attributes:
        observation, action: by the key's own names, (B, ...).
        transitions: as they were stored, with rewards and discounts.
        next_observation: (B, ...) by name, of the same key; or policy key to that, where any key may follow.
        next_key: (B,) int64, number of the key that follows; None: the same key.
        context, next_context: what else was seen and done in the flat step, where any key may follow.
    """

    observation: ArrayDict
    action: ArrayDict
    transitions: Transitions
    next_observation: Mapping[str, Any]
    next_key: np.ndarray | None = None
    context: Context | None = None
    next_context: Context | None = None

    @classmethod
    def of_actor(cls, transitions: Transitions) -> Drawn:
        """A batch of transitions that run from a decision to the same actor's next one."""
        return cls(transitions.observation, transitions.action, transitions, transitions.next_observation)

    @classmethod
    def of_whoever(cls, joint: JointKeys, key: PolicyKey, transitions: Transitions) -> Drawn:
        """A batch of transitions that run from a decision of a policy key to the next one, whoever takes it."""
        now, then = transitions.observation, transitions.next_observation
        return cls(
            joint.observation_of(key, now),
            joint.action_of(key, transitions.action),
            transitions,
            {each: joint.observation_of(each, then) for each in joint.keys},
            then[WHO],
            joint.context(now),
            joint.context(then),
        )


def _require_split(options: SACOptions) -> None:
    if not options.split_rollouts_into_transitions:
        raise RequestError(
            "rollouts hold the decisions of all policy keys, and a batch those of one",
            received='split_rollouts_into_transitions = false, and a critic of the kind "shared-state"',
            option="split_rollouts_into_transitions",
            owner="maze-sac",
            help='leave it out, or choose critic = "step-state" in [model]',
        )


def values_whoever_decides(model: Any) -> bool:
    """Whether the decisions of an environment are one series to the model's critics."""
    return getattr(model, "critic_kind", "") == "shared-state-action"


class Experience:
    """Plays with the newest weights, or with the initial policy, and stores every actor's transitions.

    Args:
        context: of the trainer.
        model: being trained.
        parameters: of its policies.
        options: of the trainer.

    Attributes:
        replay: policy key to its buffer; one for all keys, where the critics value whoever decides.
    """

    def __init__(
        self, context: TrainerContext, model: ActionValueModel, parameters: FlatParameters, options: SACOptions
    ) -> None:
        self._seeds = context.seeds
        self._vector_env = context.make_vector_env()
        self._acting: ActingCopy[FlatParameters] = ActingCopy(model, parameters)
        network = self._network = context.make_policy(self._acting.model, 0)
        self._initial = InitialPolicy(options.initial_sampling_policy, network, context, self._vector_env)
        self._play = make_play(self._vector_env, network, self._initial, self._acting.flat, options.n_rollout_steps)
        spaces = context.spaces
        self._joint = None
        if values_whoever_decides(model):
            _require_split(options)
            self._joint = JointKeys(spaces, self._vector_env.n_envs)
        self._statistics = EpisodeReturns(self._vector_env.n_envs)
        self._scales = ScalesOfNow(self._vector_env, joins_keys=self._joint is not None)
        self._store = TransitionStore(
            self._scales.spaces if self._joint is None else self._joint.spaces,
            self._vector_env.n_envs,
            gamma=options.gamma,
            size=options.replay_buffer_size,
            report=self._statistics.add_step,
        )
        self.replay = self._store.replay
        self._scales.serve(self.replay)
        self._choosing = {
            key for key in spaces.policy_keys if any(isinstance(head, Choices) for head in spaces.action[key].values())
        }
        self._keys = spaces.policy_keys
        self._memory = DemonstrationMemory(context, options, self._scales, self._joint)

    @property
    def n_transitions(self) -> int:
        """Transitions that can be drawn, of all policy keys, kept demonstrations included."""
        return sum(replay.n_transitions for replay in self.replay.values()) + self._memory.n_transitions

    @property
    def silent_keys(self) -> list[PolicyKey]:
        """Policy keys of which nothing can be drawn that was played."""
        if self._joint is None:
            return [key for key, replay in self.replay.items() if not replay.n_transitions]
        return [key for key in self._keys if not self.replay[ALL].count(self._joint.only(key))]

    def sample(self, size: int, rng: np.random.Generator) -> dict[PolicyKey, Drawn]:
        """A batch of `size` transitions of every policy key."""
        joint = self._joint
        if joint is None:
            return {
                key: Drawn.of_actor(self._memory.sample_with(key, replay, size, rng))
                for key, replay in self.replay.items()
            }
        replay = self.replay[ALL]
        parts = {key: self._memory.sample_with(ALL, replay, size, rng, joint.only(key)) for key in self._keys}
        return {key: Drawn.of_whoever(joint, key, part) for key, part in parts.items()}

    def open_demonstrations(self) -> None:
        """Refuse demonstrations that are missing or do not fit, if there shall be any, before anything is played."""
        self._memory.open()

    def add_demonstrations(self) -> None:
        """Before anything was played: read the demonstrations, if there are any."""
        self._memory.fill(self.replay)
        self._store.look_again()

    def start_segment(self, epoch: int) -> None:
        """Re-seed environments and action samples from the run's seed and `epoch`, and start new episodes."""
        n_envs = self._vector_env.n_envs
        self._play.start(self._seeds.seeds(n_envs, "train-envs", epoch), self._seeds.seed("act", epoch))
        self._statistics.reset()
        self._scales.begin()
        self._store.begin_episodes()
        if self._joint is not None:
            self._joint.begin_episodes()

    def collect(self, n_steps: int, *, initial: bool = False) -> int:
        """Take decisions everywhere, `n_steps` times; returns the environment steps it took.

        Args:
            n_steps: a multiple of the option `n_rollout_steps`.
            initial: the initial policy takes them.
        """
        self._acting.refresh()
        n_env_steps = 0
        for step in self._play.steps(n_steps, initial=initial):
            if step.restarted is not None:
                self._statistics.forget(step.restarted)
            stored = self._scales.stored(step) if self._joint is None else self._joint.step(step)
            n_env_steps += self._store.add(stored, step.tick.reward)
            cut = step.tick.truncated & ~step.tick.terminated
            for key in self._choosing & step.tick.final_observation.keys():
                check_final_masks(self._network, key, step.tick.final_observation[key], cut, "maze-sac")
        return n_env_steps

    def mean_return(self) -> float | None:
        """Of the episodes that ended since the last `drain`; None without any."""
        return self._statistics.mean()

    def drain(self) -> dict[str, Any]:
        """Statistics of the episodes finished since the last call."""
        return self._statistics.drain()

    def state_dict(self) -> dict[str, Any]:
        """The replay buffers and kept demonstrations; what waits for its successor is forgotten with the segment."""
        replay = {key: replay.state_dict() for key, replay in self.replay.items()}
        return {"replay": replay, "demonstrations": self._memory.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        for key, replay in self.replay.items():
            replay.load_state_dict(state["replay"][key])
        self._memory.load_state_dict(state["demonstrations"])

    def close(self) -> None:
        """Close the environments."""
        self._vector_env.close()
        self._initial.close()
