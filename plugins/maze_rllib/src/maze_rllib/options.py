"""Options of the trainer; their texts feed `maze describe`, the README table and the JSON Schema. Imports no Ray."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from maze_kernel.validators import at_least


@attrs.frozen(kw_only=True)
class RLlibOptions:
    """An algorithm of Ray RLlib. An epoch is one of its training iterations."""

    algorithm: Literal["PPO", "DQN", "SAC", "APPO", "IMPALA"] = "PPO"
    """Which algorithm: "PPO", "DQN", "SAC", "APPO" or "IMPALA", with RLlib's defaults but for those that the README names."""  # noqa: E501
    n_epochs: int = attrs.field(default=0, validator=at_least(0))
    """Training iterations; 0: until another budget, patience or the user stops the run."""
    patience: int = attrs.field(default=0, validator=at_least(0))
    """Stop after so many evaluations without a better one; 0: never."""
    max_env_steps: int = attrs.field(default=0, validator=at_least(0))
    """Stop after the epoch that reaches this number of environment steps; 0: no budget."""
    device: str = "cpu"
    """Where RLlib learns: "auto", "cpu" or "cuda". The copy of the model that evaluates stays on the CPU."""
    compile: bool = False
    """Every trainer has this option; RLlib's updates are not compiled and ignore it."""
    config: dict[str, Any] = attrs.field(factory=dict)
    """RLlib's own keys: the arguments of `training`, `env_runners`, `learners`, `fault_tolerance` and `reporting` of the algorithm's configuration, for example `lr`, `gamma`, `train_batch_size_per_learner` or `num_env_runners`."""  # noqa: E501

    @property
    def critic(self) -> str:
        """The critic that the algorithm asks of the model, in the words of `TrainerComponent.critic`."""
        return "state-action" if self.algorithm == "SAC" else "state-value"

    def check_ready(self) -> None:
        """Refuse what RLlib would refuse of `config`, without starting Ray.

        Raises:
            PluginError: Ray is missing.
            RequestError: an unknown key, a value of a wrong type, or one that RLlib refuses.
        """
        from maze_rllib.session import quiet_ray, require_ray

        require_ray()
        quiet_ray()
        from maze_rllib.configuration import configured

        configured(self.algorithm, self.config)
