"""From a module, class, factory or instance to an `AECEnv`, with errors that say what to install or write."""

from __future__ import annotations

import copy
import difflib
import pkgutil
import sys
from functools import partial
from typing import Any

import gymnasium
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec

from maze_kernel.errors import EnvError, RequestError
from maze_kernel.selection import own_copies
from maze_pettingzoo.gym_team import GymTeam
from maze_pettingzoo.options import PettingZooOptions
from maze_runtime.env.display import prepare_drawing
from maze_runtime.env.importing import imported, imported_module

OWNER = "maze-pettingzoo"
_GAMES = "'maze-pettingzoo[games]' has connect four and mpe2, 'pettingzoo[classic]' others"


def make_game(options: PettingZooOptions) -> Any:
    """Build the game; one in which all act at once is turned into one in which they take turns.

    Raises:
        RequestError: it cannot be imported, or does not take the kwargs.
        EnvError: what was named makes no PettingZoo game.
    """
    source: Any = options.id
    if isinstance(source, str):
        source = _imported(source)
    if isinstance(source, (AECEnv, ParallelEnv, gymnasium.Env)):
        return as_turns(copy.deepcopy(source))
    try:
        return as_turns(source(**own_copies(dict(options.kwargs)), **prepare_drawing(options.render_mode)))
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise RequestError(
            f"the game {options.id!r} does not take these kwargs",
            received=str(error),
            option="kwargs",
            owner=OWNER,
            help="leave out what the game does not know",
        ) from error


def as_turns(game: Any) -> Any:
    """The game with agents that take turns; a Gymnasium environment with Tuple spaces is one, too.

    Raises:
        EnvError: it is no PettingZoo game.
    """
    if isinstance(game, gymnasium.Env):
        game = GymTeam(game)
    if not isinstance(game, (AECEnv, ParallelEnv)):
        raise EnvError(
            "what should make a PettingZoo game made something else",
            received=type(game).__name__,
            expected="a pettingzoo.AECEnv or ParallelEnv",
            owner=OWNER,
        )
    if missing := [name for name in ("possible_agents", "metadata") if not hasattr(game, name)]:
        raise EnvError(
            f"the game has no {' and no '.join(missing)}",
            received=f"{type(game).__module__}.{type(game).__qualname__}",
            expected="possible_agents, the names of all agents, and metadata, a dict with its name",
            owner=OWNER,
        )
    return parallel_to_aec(game) if isinstance(game, ParallelEnv) else game


def _imported(name: str) -> Any:
    if name in gymnasium.registry:
        return partial(gymnasium.make, name, disable_env_checker=True)
    module_name, colon, attribute = name.partition(":")
    module = _module(module_name) if module_name else None
    if attribute in gymnasium.registry:
        return partial(gymnasium.make, attribute, disable_env_checker=True)
    if colon:
        return imported(name, owner=OWNER, option="id", takes=(AECEnv, ParallelEnv, gymnasium.Env))
    found = next((getattr(module, own) for own in ("env", "parallel_env") if hasattr(module, own)), None)
    if found is None:
        raise RequestError(
            f"module {module_name} has no env or parallel_env",
            option="id",
            owner=OWNER,
            help="name the module of a game, or module:attribute of what makes one",
        )
    return found


def _module(name: str) -> Any:
    """A module; where it is missing, what may have been meant and where games come from."""
    try:
        return imported_module(name, owner=OWNER, option="id")
    except RequestError as error:
        cause = error.__cause__
        if isinstance(cause, ModuleNotFoundError) and f"{name}.".startswith(f"{cause.name}."):
            error.nearest = _near(name)
            error.expected = 'a module with a game, e.g. "pettingzoo.classic.connect_four_v3", or "module:attribute"'
            error.help = f"{error.help}: {_GAMES}"
        elif name.startswith("pettingzoo."):
            error.help = f"install what the game needs: {_GAMES}"
        raise


def _near(module_name: str) -> tuple[str, ...]:
    """What a module that does not exist is called nearly: another version of the game, say, or what a module has."""
    package, _, own = module_name.rpartition(".")
    parent = sys.modules.get(package)
    if own in getattr(parent, "__dict__", ()):
        return (f"{package}:{own}",)
    known = [module.name for module in pkgutil.iter_modules(getattr(parent, "__path__", ()))]
    return tuple(f"{package}.{name}" for name in difflib.get_close_matches(own, known, n=1))
