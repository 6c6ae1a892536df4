"""Searchers and environments that tests of sweeps choose; what they see is written beside the sweep."""

import json
import os
import signal
from pathlib import Path

import numpy as np

from maze_sweeps.random_search import RandomSearcher
from maze_testing.environments import Identity


class Scribe(RandomSearcher):
    """Random search that writes down what it is told."""

    def __init__(self, context, *, gives_up: bool = False):
        super().__init__(context)
        self._file = context.folder / "told.jsonl"
        self._gives_up = gives_up

    def _write(self, *row):
        with self._file.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def restore(self, trials):
        self._write("restore", [(trial.number, trial.state) for trial in trials])

    def report(self, number, step, value):
        self._write("report", number, step, value)
        return self._gives_up and number % 2 == 0

    def finish(self, number, state, value):
        self._write("finish", number, state, value)

    def importances(self):
        return {leaf.name: 1.0 for leaf in self._context.space.leaves[:1]}

    def close(self):
        self._write("close")


class Wild(RandomSearcher):
    """Every other draw lies outside of the space."""

    def propose(self, number):
        draw = super().propose(number)
        return None if draw is None else {**draw, "vector.n_envs": 0 if number % 2 else 2}


class Mortal(Identity):
    """The process dies at one of its steps, as often as there are files `death-*` in a folder."""

    def __init__(self, *, folder: str, at: int = 40, kind: str = "discrete", n_steps: int = 8):
        super().__init__(kind=kind, n_steps=n_steps)
        self._deaths = Path(folder)
        self._left = at

    def step(self, action):
        self._left -= 1
        if self._left == 0:
            for file in sorted(self._deaths.glob("death-*")):
                file.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


class Poisoned(Identity):
    """Rewards are no numbers after some steps."""

    def __init__(self, *, at: int = 1000, kind: str = "discrete", n_steps: int = 8):
        super().__init__(kind=kind, n_steps=n_steps)
        self._left = at

    def step(self, action):
        self._left -= 1
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, np.nan if self._left < 0 else reward, terminated, truncated, info
