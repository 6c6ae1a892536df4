"""RLlib's own keys: which there are, what types they have, and what is refused before anything runs.

A key is an argument of one of RLlib's configuration methods, `AlgorithmConfig.training` and its neighbours, whose
annotations say its type. What describes environments, networks and evaluation is Maze's to say, and refused here.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal, get_args, get_origin

from maze_kernel.catalog import nearest
from maze_kernel.errors import RequestError
from maze_rllib.session import quiet_ray

METHODS = ("training", "env_runners", "learners", "fault_tolerance", "reporting")
"""Configuration methods whose arguments are keys."""

_CONFIGS = {
    "PPO": "ray.rllib.algorithms.ppo:PPOConfig",
    "DQN": "ray.rllib.algorithms.dqn:DQNConfig",
    "SAC": "ray.rllib.algorithms.sac:SACConfig",
    "APPO": "ray.rllib.algorithms.appo:APPOConfig",
    "IMPALA": "ray.rllib.algorithms.impala:IMPALAConfig",
}

_NETWORKS = "the networks are those of the [model] table"
_RLLIB_TYPES = "it holds classes or functions of RLlib, which a file cannot name"
_ENVIRONMENTS = "environments, wrappers and their batches are those of the experiment"
_OTHER_STACK = "it belongs to RLlib's older API, which is not used"

MAZE_DECIDES = {
    **dict.fromkeys(
        ("model", "q_model_config", "policy_model_config", "dueling", "hiddens", "noisy", "sigma0"), _NETWORKS
    ),
    **dict.fromkeys(("num_atoms", "v_min", "v_max", "burn_in_len", "twin_q", "vf_share_layers"), _NETWORKS),
    **dict.fromkeys(("gym_env_vectorize_mode", "create_env_on_local_worker", "clip_actions"), _ENVIRONMENTS),
    **dict.fromkeys(("remote_worker_envs", "remote_env_batch_wait_ms", "create_local_env_runner"), _ENVIRONMENTS),
    **dict.fromkeys(("num_gpus_per_learner", "local_gpu_idx"), "the option device says where it learns"),
    **dict.fromkeys(("observation_filter", "preprocessor_pref", "exploration_config", "optimizer"), _OTHER_STACK),
    **dict.fromkeys(
        ("lr_schedule", "entropy_coeff_schedule", "adam_epsilon", "sampler_perf_stats_ema_coef"), _OTHER_STACK
    ),
    **dict.fromkeys(("use_worker_filter_stats", "update_worker_filter_stats", "enable_tf1_exec_eagerly"), _OTHER_STACK),
    "store_buffer_in_checkpoints": "replay is not stored: it is empty after a resume",
    "custom_stats_cls_lookup": _RLLIB_TYPES,
    "learner_config_dict": _RLLIB_TYPES,
}
"""Keys of RLlib that are refused, and why."""


def config_class(algorithm: str) -> Any:
    """RLlib's configuration class of an algorithm."""
    module, _, name = _CONFIGS[algorithm].partition(":")
    found = getattr(import_module(module), name)
    quiet_ray()  # the import has undone it
    return found


def configured(algorithm: str, given: Mapping[str, Any]) -> Any:
    """RLlib's configuration of an algorithm with these keys.

    Raises:
        RequestError: an unknown key, a value of a wrong type, one that RLlib refuses, or a key that is Maze's to say.
    """
    config = config_class(algorithm)()
    methods = _keys(type(config))
    for key, value in given.items():
        _check(algorithm, key, value, methods)
    for method in METHODS:
        arguments = {key: value for key, value in given.items() if methods[key][0] == method}
        if arguments:
            try:
                getattr(config, method)(**arguments)
            except Exception as error:
                raise refusal(algorithm, error, next(iter(arguments))) from error
    return config


def refusal(algorithm: str, error: Exception, key: str | None = None) -> RequestError:
    """What RLlib itself says against a configuration."""
    return RequestError(
        f"RLlib refuses the configuration of {algorithm}: {_first_sentence(error)}",
        option=None if key is None else f"config.{key}",
        owner="maze-rllib",
        help="correct [trainer.config]",
    )


def _first_sentence(error: Exception) -> str:
    return " ".join(str(error).split())[:400]


def _check(algorithm: str, key: str, value: Any, methods: Mapping[str, tuple[str, list[Any]]]) -> None:
    option = f"config.{key}"
    if key in MAZE_DECIDES:
        what = f"trainer.{option} is not for an experiment to say: {MAZE_DECIDES[key]}"
        raise RequestError(what, option=option, owner="maze-rllib", help=f"leave {key} out")
    if key not in methods:
        raise RequestError(
            f"trainer.{option} is not a key of RLlib's {algorithm}",
            option=option,
            nearest=nearest(key, [name for name in methods if name not in MAZE_DECIDES]),
            owner="maze-rllib",
            help="RLlib's documentation of AlgorithmConfig lists the keys",
        )
    annotations = methods[key][1]
    if not any(fits(value, annotation) for annotation in annotations):
        raise RequestError(
            f"trainer.{option} has the wrong type",
            option=option,
            received=f"{value!r} ({type(value).__name__})",
            expected=_show(annotations[0]),
            owner="maze-rllib",
            help=f"RLlib's documentation of AlgorithmConfig.{methods[key][0]} says what {key} is",
        )


def _keys(config: type) -> dict[str, tuple[str, list[Any]]]:
    """Key to the method that takes it and every annotation it has, the algorithm's own first."""
    from ray.rllib.utils.from_config import NotProvided

    found: dict[str, tuple[str, list[Any]]] = {}
    for owner in config.__mro__:
        for method in METHODS:
            function = owner.__dict__.get(method)
            if function is None:
                continue
            for name, parameter in inspect.signature(function).parameters.items():
                if parameter.default is NotProvided and not name.startswith("_"):  # others are deprecated
                    found.setdefault(name, (method, []))[1].append(parameter.annotation)
    return found


def fits(value: Any, annotation: Any) -> bool:
    """Whether a value of a file has the type that RLlib annotates; what cannot be judged fits.

    >>> fits(3, float), fits("3", float), fits([[0, 1.0]], float | list[list[float]]), fits(True, int)
    (True, False, True, False)
    """
    if annotation in (Any, inspect.Parameter.empty) or isinstance(annotation, str | typing.ForwardRef | typing.TypeVar):
        return True
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, member) for member in arguments if member is not type(None))
    if origin is Literal:
        return value in arguments
    kind = origin or annotation
    if kind in (bool, str):
        return type(value) is kind
    if kind in (int, float):
        return type(value) is int or (kind is float and type(value) is float)
    if kind in (dict, Mapping):
        return isinstance(value, dict)
    if kind in (list, tuple):
        return isinstance(value, list | tuple) and _items_fit(value, kind, arguments)
    return False


def _items_fit(values: typing.Sequence[Any], kind: type, arguments: tuple[Any, ...]) -> bool:
    if not arguments:
        return True
    if kind is tuple and Ellipsis not in arguments:
        return len(values) == len(arguments) and all(map(fits, values, arguments))
    return all(fits(value, arguments[0]) for value in values)


def _show(annotation: Any) -> str:
    """A type as a file's author knows it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_show(member) for member in arguments if member is not type(None)))
    names = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}
    names |= {dict: "a table", list: "a list", tuple: "a list"}
    return names.get(origin or annotation, "a class or function, which a file cannot name")
