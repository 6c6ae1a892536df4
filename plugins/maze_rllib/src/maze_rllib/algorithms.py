"""What each algorithm of RLlib can serve, and how it is told about a Maze experiment."""

from __future__ import annotations

from typing import Any

import attrs
import torch
from gymnasium import VectorizeMode, spaces

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.trainer import TrainerContext
from maze_kernel.errors import RequestError, SpaceError
from maze_rllib.configuration import configured, refusal
from maze_rllib.environments import FlatEnvs, plain_space
from maze_rllib.options import RLlibOptions
from maze_rllib.statistics import note_episode
from maze_runtime.models.agent_networks import refuse_agent_networks
from maze_runtime.models.network_policy import require_sampling

OWNER = "maze-rllib"
ONE_MODULE = "default_policy"
"""What RLlib calls the module of a flat environment."""


@attrs.frozen(kw_only=True)
class Plan:
    """Everything that RLlib needs to come to life.

    Attributes:
        algorithm: its name.
        config: RLlib's configuration, complete but for the seed.
        make_envs: builds its environments.
        modules: module to policy key.
        n_cpus: CPUs that its actors ask of Ray; 0: it runs in this process and needs no Ray.
    """

    algorithm: str
    config: Any
    make_envs: Any
    modules: dict[str, str]
    n_cpus: int


def make_plan(context: TrainerContext, options: RLlibOptions, model: ActorCritic, device: torch.device) -> Plan:
    """What RLlib is told of an experiment.

    Raises:
        RequestError: a key, a model, a space or a wrapper that the algorithm cannot serve.
    """
    algorithm = options.algorithm
    config = configured(algorithm, options.config)
    _require_fit(context, algorithm, model)
    config.env_runners(gym_env_vectorize_mode=VectorizeMode.VECTOR_ENTRY_POINT)
    if "num_env_runners" not in options.config:
        config.env_runners(num_env_runners=0)
    if "num_envs_per_env_runner" not in options.config:
        config.env_runners(num_envs_per_env_runner=context.n_envs)
    config.learners(num_gpus_per_learner=int(device.type == "cuda"))
    config.callbacks(on_episode_end=note_episode)
    config.debugging(log_level="ERROR")
    # Actions are in the space's own units already.
    config.normalize_actions = config.clip_actions = False
    modules = {ONE_MODULE: context.spaces.policy_keys[0]}
    config.rl_module(rl_module_spec=_spec(algorithm, model, modules[ONE_MODULE]))
    return Plan(
        algorithm=algorithm,
        config=config,
        make_envs=FlatEnvs(context.make_env, context.transforms),
        modules=modules,
        n_cpus=_n_cpus(config),
    )


def _n_cpus(config: Any) -> int:
    runners = config.num_env_runners * max(1, config.num_cpus_per_env_runner)
    return int(runners + config.num_learners + config.num_aggregator_actors_per_learner * max(1, config.num_learners))


def _spec(algorithm: str, model: ActorCritic, policy_key: str) -> Any:
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec

    from maze_rllib import module

    classes = {
        "PPO": module.ActorCriticModule,
        "IMPALA": module.ActorCriticModule,
        "APPO": module.TargetedActorCriticModule,
        "DQN": module.QNetworkModule,
    }
    return RLModuleSpec(
        module_class=classes[algorithm],
        observation_space=plain_space(model.spaces.observation[policy_key]),
        action_space=plain_space(model.spaces.action[policy_key]),
        model_config={module.MODEL: model, module.POLICY_KEY: policy_key},
    )


def _require_fit(context: TrainerContext, algorithm: str, model: ActorCritic) -> None:
    refuse_agent_networks(model, OWNER)
    require_sampling(model, OWNER)
    for transform in context.transforms:
        if transform.keeps_running_statistics:
            raise RequestError(
                f"{type(transform).__name__} learns from every step of training, which RLlib takes by itself",
                received="running statistics",
                owner=OWNER,
                help="estimate the statistics before training, or choose another trainer",
            )
    if algorithm in ("DQN", "SAC"):
        _require_one_head(context.spaces, algorithm)


def _require_one_head(structured: StructuredSpaces, algorithm: str) -> None:
    (key,) = structured.policy_keys
    heads = structured.action[key].spaces
    if algorithm == "DQN":
        fits = len(heads) == 1 and all(isinstance(s, spaces.Discrete) and int(s.start) == 0 for s in heads.values())
        expected = "one Discrete head that counts from 0"
    raise_unless(fits, f"RLlib's {algorithm} cannot serve these actions", str(structured.action[key]), expected)


def raise_unless(fits: bool, what: str, received: str, expected: str) -> None:
    """Refuse spaces by name.

    Raises:
        SpaceError: unless they fit.
    """
    if not fits:
        others = 'algorithm = "PPO", "APPO" or "IMPALA", or another trainer'
        raise SpaceError(what, received=received, expected=expected, owner=OWNER, help=f"choose {others}")
