"""The tasks and candidates of `suite.py`, and the jobs they make: library, algorithm, task, seed."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

TABLE = Path(__file__).with_name("suite_tasks.toml")
CANDIDATES = Path(__file__).with_name("suite_candidates.toml")
LIBRARIES = ("maze", "sb3")
SETTINGS = ("default", "longer", "tuned")
WITHOUT_PEER = ("IMPALA",)
REPORTED = range(5)
"""Seeds of the tables of each library's defaults and of tuned settings; on others defaults are searched."""


@attrs.frozen(kw_only=True)
class Task:
    """One environment and what is trained on it.

    Attributes:
        env: the table `[env]` of an experiment.
        range: scores that become 0 and 1 where tasks are put together.
        algorithms: to environment steps.
        preset: of ours, where the environment cannot be played without one.
        wrapper: "module:function" around the peer's environment.
        policy: of the peer.
        no_peer: algorithms that the peer does not have there.
        n_episodes: of an evaluation.
        longer: algorithms whose own defaults are also run for more steps, of both libraries.
        tuned: algorithm to `file`, `steps`, and `overrides` of its values.
        published: algorithm to `score` and `steps`.
        others: algorithm to further libraries and what they publish after as many steps.
    """

    name: str
    env: Mapping[str, Any]
    range: tuple[float, float] = attrs.field(converter=tuple)
    algorithms: Mapping[str, int]
    preset: str | None = None
    wrapper: str | None = None
    policy: str = "MlpPolicy"
    is_masked: bool = False
    is_atari: bool = False
    no_peer: Sequence[str] = ()
    n_episodes: int = 20
    longer: Mapping[str, int] = attrs.field(factory=dict)
    tuned: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    published: Mapping[str, Mapping[str, float]] = attrs.field(factory=dict)
    others: Mapping[str, Mapping[str, float]] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Candidate:
    """Settings that are tried as defaults of ours.

    Attributes:
        name: what `settings` of its jobs says.
        overrides: tables and values of an experiment; those of the trainer are merged with the others.
        scaled: with the wrappers that the trainer's defaults are meant for (`TrainerComponent.preset`); most
            candidates are older than these.
        longer: for as many steps as `Task.longer` says.
    """

    name: str
    algorithm: str
    overrides: Mapping[str, Any] = attrs.field(factory=dict)
    scaled: bool = False
    longer: bool = False


@attrs.frozen(kw_only=True)
class Job:
    """One training. Its `name` is that of its file; `settings` is one of `SETTINGS` or the name of a candidate."""

    settings: str
    library: str
    algorithm: str
    task: str
    seed: int
    steps: int

    @property
    def name(self) -> str:
        place = "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in self.task)
        return f"{self.settings}/{place}/{self.algorithm}-{self.library}-{self.steps}-seed{self.seed}"

    def __str__(self) -> str:
        return (
            f"{self.library} {self.algorithm} on {self.task}, seed {self.seed}, {self.steps:,} steps, {self.settings}"
        )


def read_tasks(path: Path = TABLE) -> dict[str, Task]:
    """By name, in the order of the file."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))["task"]
    return {table["name"]: Task(**table) for table in tables}


def read_candidates(path: Path = CANDIDATES) -> dict[str, Candidate]:
    """By name, in the order of the file."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))["candidate"]
    return {table["name"]: Candidate(**table) for table in tables}


def jobs_of(
    tasks: Mapping[str, Task],
    *,
    settings: str = "default",
    seeds: Sequence[int] = (0, 1, 2),
    only: Sequence[str] = (),
    steps_factor: float = 1.0,
) -> list[Job]:
    """All jobs, seed by seed, so that what is stopped early has some of everything.

    Args:
        tasks: of `read_tasks`.
        settings: "default" or "longer", or "tuned" or the name of a candidate, which ours alone has.
        seeds: of each.
        only: names of libraries, algorithms and tasks; of each of the three kinds those named, all where none is.
        steps_factor: times the steps of the table.
    """
    _refuse_unknown(only, tasks)

    def wanted(name: str, kind: Sequence[str]) -> bool:
        named = [other for other in only if other in kind]
        return not named or name in named

    algorithms = _algorithms(tasks)
    return [
        Job(
            settings=settings,
            library=library,
            algorithm=algorithm,
            task=task.name,
            seed=seed,
            steps=round(steps * steps_factor),
        )
        for seed in seeds
        for task in tasks.values()
        for algorithm, steps in steps_of(task, settings).items()
        for library in libraries_of(task, algorithm, settings)
        if wanted(task.name, list(tasks)) and wanted(algorithm, algorithms) and wanted(library, LIBRARIES)
    ]


def steps_of(task: Task, settings: str) -> Mapping[str, int]:
    """Algorithm to environment steps."""
    if settings == "tuned":
        return {algorithm: int(tuned["steps"]) for algorithm, tuned in task.tuned.items()}
    if settings == "default":
        return task.algorithms
    if settings == "longer":
        return task.longer
    candidate = read_candidates()[settings]
    table = task.longer if candidate.longer else task.algorithms
    return {algorithm: steps for algorithm, steps in table.items() if algorithm == candidate.algorithm}


def libraries_of(task: Task, algorithm: str, settings: str) -> tuple[str, ...]:
    """Ours, and the peer where it has the algorithm."""
    has_peer = settings in ("default", "longer") and algorithm not in (*WITHOUT_PEER, *task.no_peer)
    return LIBRARIES if has_peer else LIBRARIES[:1]


def _algorithms(tasks: Mapping[str, Task]) -> list[str]:
    return list(dict.fromkeys(name for task in tasks.values() for name in (*task.algorithms, *task.tuned)))


def _refuse_unknown(only: Sequence[str], tasks: Mapping[str, Task]) -> None:
    known = [*LIBRARIES, *_algorithms(tasks), *tasks]
    for name in only:
        if name not in known:
            raise SystemExit(f"--only {name}: there is {', '.join(known)}")
