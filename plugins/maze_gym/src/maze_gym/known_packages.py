"""Which package registers an id that is not known here: for the messages that say what to install."""

from __future__ import annotations

import re

_ATARI = r"ALE/|.*(NoFrameskip|-ram)-v\d|(Pong|Breakout|SpaceInvaders|Seaquest|Qbert|MsPacman|BeamRider|Enduro)-v\d"
_ROADS = r"(highway|merge|roundabout|parking|intersection|racetrack|exit|lane-keeping|two-way|u-turn)(-[\w-]+)?-v\d"
_PACKAGES = (
    (_ATARI, "ale-py"),
    (r"(MiniGrid|BabyAI)-", "minigrid"),
    (_ROADS, "highway-env"),
    (r"(Fetch|Hand|Adroit|AntMaze|PointMaze|FrankaKitchen)", "gymnasium-robotics"),
    (r"popgym-", "popgym"),
    (r"(stocks|forex)-", "gym-anytrading"),
    (r"mobile-", "mobile-env"),
    (r"rware-", "rware"),
    (r"Foraging-", "lbforaging"),
    (r"mo-|deep-sea-treasure|resource-gathering", "mo-gymnasium"),
    (r"SuperMarioBros", "gym-super-mario-bros"),
)
"""Beginnings of ids, as regular expressions, and the distribution."""


def package_of(env_id: str) -> str | None:
    """The distribution that is known to register ids like this one."""
    return next((name for pattern, name in _PACKAGES if re.match(pattern, env_id)), None)


def how_to_get(env_id: str) -> str | None:
    """What to install, and how to write the id so that the package is imported; None for ids of unknown origin."""
    package = package_of(env_id)
    if package is None:
        return None
    return f'pip install {package}, and have it imported: id = "{package.replace("-", "_")}:{env_id}"'
