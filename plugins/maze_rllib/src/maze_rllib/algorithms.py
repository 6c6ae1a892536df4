"""What each algorithm of RLlib can serve, and how it is told about a Maze experiment."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import torch
from gymnasium import VectorizeMode, spaces

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.trainer import TrainerContext
from maze_kernel.errors import RequestError, SpaceError
from maze_rllib.configuration import configured, refusal
from maze_rllib.environments import FlatEnvs, StructuredEnvs, policy_key_of
from maze_rllib.options import RLlibOptions
from maze_rllib.statistics import note_episode, note_events
from maze_runtime.env.mask_reading import masks_of
from maze_runtime.env.to_gymnasium import plain_space
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
        own: module to the names of its parameters of the model; empty: there is one module, and all are its.
        n_cpus: CPUs that its actors ask of Ray.
    """

    algorithm: str
    config: Any
    make_envs: Any
    modules: dict[str, str]
    own: dict[str, tuple[str, ...]]
    n_cpus: int


def make_plan(context: TrainerContext, options: RLlibOptions, model: ActorCritic, device: torch.device) -> Plan:
    """What RLlib is told of an experiment.

    Raises:
        RequestError: a key, a model, a space or a wrapper that the algorithm cannot serve.
    """
    algorithm = options.algorithm
    config = configured(algorithm, options.config)
    _require_fit(context, algorithm, model)
    own = {} if context.spaces.is_flat else owned_parameters(model)
    if "num_env_runners" not in options.config:
        config.env_runners(num_env_runners=0)
    if "num_envs_per_env_runner" not in options.config:
        config.env_runners(num_envs_per_env_runner=context.n_envs)
    config.learners(num_gpus_per_learner=int(device.type == "cuda"))
    config.callbacks(on_episode_end=note_episode, on_sample_end=note_events)
    config.debugging(log_level="ERROR")
    # Actions are in the space's own units already.
    config.normalize_actions = config.clip_actions = False
    _adapt(config, algorithm, options, context.spaces)
    if context.spaces.is_flat:
        modules = {ONE_MODULE: context.spaces.policy_keys[0]}
        _tell_flat(config, algorithm, model)
        make_envs: Any = FlatEnvs(context.make_env, context.transforms)
    else:
        modules = {key: key for key in context.spaces.policy_keys}
        _tell_structured(config, algorithm, model)
        make_envs = StructuredEnvs(context.make_env, context.transforms)
    try:
        config.copy(copy_frozen=False).validate()
    except Exception as error:
        raise refusal(algorithm, error) from error
    return Plan(
        algorithm=algorithm, config=config, make_envs=make_envs, modules=modules, own=own, n_cpus=_n_cpus(config)
    )


def _adapt(config: Any, algorithm: str, options: RLlibOptions, structured: StructuredSpaces) -> None:
    """What follows for an algorithm from the networks' being Maze's."""
    if algorithm == "DQN":
        config.training(dueling=False, num_atoms=1, noisy=False)
    if algorithm == "SAC" and options.config.get("target_entropy", "auto") == "auto":
        from maze_rllib.soft_actor_critic import target_entropy

        (space,) = structured.action[structured.policy_keys[0]].spaces.values()
        config.training(target_entropy=target_entropy(space))


def _tell_flat(config: Any, algorithm: str, model: ActorCritic) -> None:
    config.env_runners(gym_env_vectorize_mode=VectorizeMode.VECTOR_ENTRY_POINT)
    config.rl_module(rl_module_spec=_spec(algorithm, model, model.spaces.policy_keys[0]))


def _tell_structured(config: Any, algorithm: str, model: ActorCritic) -> None:
    from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec

    keys = model.spaces.policy_keys
    specs = {key: _spec(algorithm, model, key) for key in keys}
    config.rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs=specs))
    config.env_runners(gym_env_vectorize_mode=VectorizeMode.SYNC)
    config.multi_agent(policies=set(keys), policy_mapping_fn=_module_of)


def _module_of(agent_id: str, *_: Any, **__: Any) -> str:
    return policy_key_of(agent_id)


def owned_parameters(model: ActorCritic) -> dict[str, tuple[str, ...]]:
    """Policy key to the names of the parameters that its logits and values depend on.

    Raises:
        RequestError: two policy keys share some: RLlib trains each key by itself.
    """
    own: dict[str, tuple[str, ...]] = {}
    for key in model.spaces.policy_keys:
        own[key] = _reached(model, key)
    for key, names in own.items():
        shared = {name for other, theirs in own.items() if other != key for name in names if name in theirs}
        if shared:
            raise RequestError(
                "RLlib trains every policy key by itself, but these share networks",
                received=f"policy key {key!r} shares {min(shared)!r}",
                expected='a critic for each policy key: critic = "step-state"',
                owner=OWNER,
                help='set critic = "step-state" in [model], or choose another trainer',
            )
    return own


def _reached(model: Any, policy_key: str) -> tuple[str, ...]:
    named = dict(model.named_parameters())
    space = model.spaces.observation[policy_key]
    observation = {name: torch.zeros((1, *part.shape), dtype=_dtype(part)) for name, part in space.items()}
    for name in masks_of(space, model.spaces.action[policy_key]):
        observation[name] = torch.ones_like(observation[name])
    with torch.enable_grad():
        logits, value = model.logits_and_value(policy_key, observation)
        total = value.sum() + sum(tensor.sum() for tensor in logits.values())
        gradients = torch.autograd.grad(total, list(named.values()), allow_unused=True)
    return tuple(name for name, gradient in zip(named, gradients, strict=True) if gradient is not None)


def _dtype(space: spaces.Space[Any]) -> torch.dtype:
    return torch.from_numpy(np.zeros(1, space.dtype)).dtype


def _n_cpus(config: Any) -> int:
    runners = config.num_env_runners * max(1, config.num_cpus_per_env_runner)
    return int(runners + config.num_learners + config.num_aggregator_actors_per_learner * max(1, config.num_learners))


def _spec(algorithm: str, model: ActorCritic, policy_key: str) -> Any:
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec

    from maze_rllib import module, soft_actor_critic

    classes = {
        "PPO": module.ActorCriticModule,
        "IMPALA": module.ActorCriticModule,
        "APPO": module.TargetedActorCriticModule,
        "DQN": module.QNetworkModule,
        "SAC": soft_actor_critic.SoftActorCriticModule,
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
                expected="statistics that are estimated before training",
                owner=OWNER,
                help="estimate the statistics before training, or choose another trainer",
            )
    if algorithm in ("DQN", "SAC"):
        _require_one_head(context.spaces, algorithm)
    if not context.spaces.is_flat:
        _require_fixed_agents(context.spaces, model)


def _require_one_head(structured: StructuredSpaces, algorithm: str) -> None:
    """One network of values cannot serve several heads, nor RLlib's replay several policy keys."""
    if not structured.is_flat:
        keys = ", ".join(structured.policy_keys)
        raise _refused_space(
            f"RLlib's {algorithm} cannot serve structured environments here",
            f"policy keys {keys}",
            "a flat environment",
        )
    heads = structured.action[structured.policy_keys[0]]
    space = next(iter(heads.spaces.values()))
    counts = isinstance(space, spaces.Discrete) and int(space.start) == 0
    moves = algorithm == "SAC" and isinstance(space, spaces.Box) and space.is_bounded("both")
    if len(heads.spaces) > 1 or not (counts or moves):
        bounded = " or one Box with bounds" if algorithm == "SAC" else ""
        expected = f"one head: a Discrete that counts from 0{bounded}"
        raise _refused_space(f"RLlib's {algorithm} cannot serve these actions", str(heads), expected)


def _require_fixed_agents(structured: StructuredSpaces, model: Any) -> None:
    if any(count < 0 for count in structured.agent_counts.values()):
        received = f"agents {dict(structured.agent_counts)}"
        raise _refused_space("RLlib must know all agents before an episode begins", received, "a fixed number of each")
    kind = getattr(model, "critic_kind", "shared-state")
    if kind != "step-state":
        raise RequestError(
            "RLlib values the decisions of each agent by themselves",
            received=f"a critic of the kind {kind!r}",
            expected='"step-state"',
            owner=OWNER,
            help='set critic = "step-state" in [model], or choose another trainer',
        )


def _refused_space(what: str, received: str, expected: str) -> SpaceError:
    help_ = 'choose algorithm = "PPO", "APPO" or "IMPALA", or another trainer'
    return SpaceError(what, received=received, expected=expected, owner=OWNER, help=help_)
