"""From an id, class, factory or instance to a `gymnasium.Env`, with errors that say what to install or write."""

from __future__ import annotations

import copy
import difflib
import re
from typing import Any, NoReturn

import gymnasium
from gymnasium import error as gym_error
from gymnasium.wrappers import TimeLimit

from maze_gym.known_packages import how_to_get
from maze_gym.mujoco_warnings import say_mujoco_warnings_once
from maze_gym.options import GymOptions
from maze_kernel.errors import EnvError, RequestError
from maze_kernel.selection import own_copies
from maze_runtime.env.cloning import copied
from maze_runtime.env.display import prepare_drawing
from maze_runtime.env.importing import imported, imported_module

OWNER = "maze-gym"


def make_gym_env(options: GymOptions) -> gymnasium.Env[Any, Any]:
    """Build the Gymnasium environment that the options name.

    Raises:
        RequestError: the id is unknown, or what it needs is not installed.
        EnvError: what was named does not make a gymnasium.Env.
    """
    source: Any = options.id
    if isinstance(source, str) and source not in gymnasium.registry:
        source = _imported(source)
    env: Any
    if isinstance(source, str):
        env = _registered(source, options)
    elif isinstance(source, gymnasium.Env):
        env = _copied(source)
    else:
        env = source(**keyword_arguments(options))
    if not isinstance(env, gymnasium.Env):
        raise EnvError(
            "what should make a Gymnasium environment made something else",
            received=type(env).__name__,
            expected="a gymnasium.Env",
            owner=OWNER,
            help='give a StructuredEnv directly: [env] use = "my_package.module:make_env"',
        )
    if options.max_episode_steps is None:
        result: gymnasium.Env[Any, Any] = env
        return result
    if _limit_inside(env, options.max_episode_steps):
        return env
    return TimeLimit(env, options.max_episode_steps)


def _limit_inside(env: gymnasium.Env[Any, Any], max_episode_steps: int) -> bool:
    """Give every `TimeLimit` among the wrappers this limit; whether there is one."""
    has_limit = False
    while isinstance(env, gymnasium.Wrapper):
        if type(env) is TimeLimit:
            env._max_episode_steps, has_limit = max_episode_steps, True
        env = env.env
    return has_limit


def _copied(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """An environment like the one given, which stays as it is: a batch needs several, each with a state of its own."""
    try:
        return copy.deepcopy(env)
    except Exception as error:  # simulations in C often cannot be copied, but made again
        if env.spec is not None:
            return gymnasium.make(env.spec)
        raise EnvError(
            "the environment cannot be copied, and every environment of a batch needs one of its own",
            received=f"{type(env.unwrapped).__name__}: {error}",
            option="id",
            owner=OWNER,
            help="give its class, or a function that makes it",
        ) from error


def cloned(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """A copy in the same state, random state included; windows and surfaces stay with the original.

    Raises:
        EnvError: something in it cannot be copied.
    """
    try:
        return copied(env)  # type: ignore[no-any-return]
    except Exception as error:
        raise EnvError(
            "the environment cannot be cloned",
            received=f"{type(env.unwrapped).__name__}: {error}",
            expected="an environment that copy.deepcopy copies",
            owner=OWNER,
            help="give it a method __deepcopy__, or write a Maze environment with clone_from",
        ) from error


def require_spec(env_id: str) -> Any:
    """The registry's entry of an id.

    Raises:
        RequestError: there is none; names the nearest ids.
    """
    try:
        return gymnasium.spec(env_id)
    except (gym_error.Error, ModuleNotFoundError):
        _raise_unknown(env_id)


def _registered(env_id: str, options: GymOptions) -> gymnasium.Env[Any, Any]:
    say_mujoco_warnings_once(require_spec(env_id).entry_point)
    try:
        return gymnasium.make(
            env_id,
            max_episode_steps=options.max_episode_steps,
            disable_env_checker=True,
            **keyword_arguments(options),
        )
    except (gym_error.DependencyNotInstalled, ModuleNotFoundError) as error:
        raise RequestError(
            f"the environment {env_id!r} needs a package that is not installed",
            received=str(error),
            option="id",
            owner=OWNER,
            help=_install_hint(env_id, str(error)),
        ) from error
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise RequestError(
            f"the environment {env_id!r} does not take these kwargs",
            received=str(error),
            option="kwargs",
            owner=OWNER,
            help="leave out what the environment does not know",
        ) from error


def keyword_arguments(options: GymOptions) -> dict[str, Any]:
    """What an environment is built with."""
    return {**own_copies(dict(options.kwargs)), **prepare_drawing(options.render_mode)}


def _imported(name: str) -> Any:
    """The attribute that "module:attribute" names, or the id itself where that is an id of its own."""
    module, colon, attribute = name.partition(":")
    if not colon:
        return name
    if module and attribute:
        imported_module(module, owner=OWNER, option="id")  # which may register the id
    if attribute in gymnasium.registry:
        return attribute
    if "-" in attribute:
        _raise_unknown(attribute)
    return imported(name, owner=OWNER, option="id", takes=gymnasium.Env)


def _raise_unknown(env_id: str) -> NoReturn:
    known = {known_id.lower(): known_id for known_id in gymnasium.registry}
    near = [known[match] for match in difflib.get_close_matches(env_id.lower(), known, n=3, cutoff=0.5)]
    unknown = 'check the spelling; what a package registers is id = "package:Env-v0", a class of yours "module:Class"'
    raise RequestError(
        f"there is no Gymnasium environment {env_id!r}",
        option="id",
        nearest=tuple(near),
        owner=OWNER,
        help=how_to_get(env_id) or unknown,
    )


def _install_hint(env_id: str, message: str) -> str:
    quoted = re.search(r"gymnasium\[([\w-]+)\]", message)
    if quoted is not None:
        return f"pip install 'gymnasium[{quoted.group(1)}]'"
    entry_point = str(gymnasium.registry[env_id].entry_point) if env_id in gymnasium.registry else ""
    for extra in ("box2d", "mujoco", "classic_control", "toy_text"):
        if f".{extra}" in entry_point:
            return f"pip install 'gymnasium[{extra.replace('_', '-')}]'"
    return "install the package that the message names"
