"""What MuJoCo warns of, said once a process.

By itself it prints a warning whenever it comes up, and writes it to MUJOCO_LOG.TXT in the working directory: fifteen
times the same about Gymnasium's own HalfCheetah in the first seconds of a training.
"""

from __future__ import annotations

import importlib
import logging
import re
import sys

_log = logging.getLogger(__name__)
_PACKAGES = ("gymnasium.envs.mujoco", "gymnasium_robotics")
_NUMBER = re.compile(r"-?\d[\d.]*(e[+-]?\d+)?")
_said: set[str] = set()


def say_mujoco_warnings_once(entry_point: object) -> None:
    """Take MuJoCo's warnings before an environment is built that uses it; not if somebody takes them already.

    Args:
        entry_point: of the environment, as Gymnasium's registry has it.
    """
    if "mujoco" not in sys.modules and not str(entry_point).startswith(_PACKAGES):
        return
    try:
        mujoco = importlib.import_module("mujoco")
    except ImportError:  # who builds the environment says what is missing
        return
    if hasattr(mujoco, "set_mju_user_warning") and mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_say)


def _say(message: str) -> None:
    """Warnings that differ in numbers alone, such as the time, are the same one."""
    kind = _NUMBER.sub("#", message)
    if kind not in _said:
        _said.add(kind)
        _log.warning("MuJoCo warns, which is said once a process: %s", message)
