"""From a module, class, factory or instance to an `AECEnv`, with errors that say what to install or write."""

from __future__ import annotations

import copy
import difflib
import importlib
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

OWNER = "maze-pettingzoo"


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


def _near(error: ImportError, module_name: str) -> tuple[str, ...]:
    """Modules beside one that does not exist, which are called nearly so: another version of the game, say."""
    package, _, own = module_name.rpartition(".")
    if error.name != module_name or not package:
        return ()
    places = getattr(sys.modules.get(package), "__path__", ())
    known = [module.name for module in pkgutil.iter_modules(places)]
    return tuple(f"{package}.{name}" for name in difflib.get_close_matches(own, known, n=1))


def _imported(name: str) -> Any:
    if name in gymnasium.registry:
        return partial(gymnasium.make, name, disable_env_checker=True)
    module_name, colon, attribute = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise RequestError(
            f"the game {name!r} cannot be imported",
            received=str(error),
            expected='a module with a game, e.g. "pettingzoo.classic.connect_four_v3", or "module:attribute"',
            option="id",
            owner=OWNER,
            help="pip install 'maze-pettingzoo[games]' has connect four and mpe2; others: 'pettingzoo[classic]'",
            nearest=_near(error, module_name),
        ) from error
    if attribute in gymnasium.registry:
        return partial(gymnasium.make, attribute, disable_env_checker=True)
    names = [attribute] if colon else ["env", "parallel_env"]
    found = next((getattr(module, name) for name in names if hasattr(module, name)), None)
    if found is None:
        raise RequestError(
            f"{module_name!r} has no {' or '.join(names)}",
            option="id",
            owner=OWNER,
            help="name the module of a game, or module:attribute of what makes one",
        )
    return found
