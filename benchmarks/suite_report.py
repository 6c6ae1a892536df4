"""Tables and pictures of `suite.py`. Statistics and drawing are those of `maze compare`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from cluster_tables import replace_marked, table_of
from maze_reports.aggregate import Aggregate, aggregates, normalized
from maze_reports.improvement import improvements
from maze_reports.listing import number
from maze_reports.output import interval_text, n_text
from maze_runtime.series.bootstrap import (
    ENOUGH_RUNS,
    MIN_RUNS,
    ConfidenceInterval,
    bootstrap_interval,
    interquartile_mean,
    probability_of_improvement,
)
from suite_pictures import picture
from suite_results import Results
from suite_tasks import LIBRARIES, REPORTED, Job, Task, read_candidates

BEGIN, END = "<!-- begin: benchmarks/suite.py, {} -->", "<!-- end: benchmarks/suite.py, {} -->"
"""Around a part of the report in a page, by its name."""
NAMES = {"maze": "Maze", "sb3": "Stable-Baselines3"}
BY_TASK = "task by task"
"""The part that pictures belong to."""
NARROW = f"Intervals of fewer than {ENOUGH_RUNS} seeds are narrower than the 95 % that they are meant to be."
"""Said once, not in every cell."""


@attrs.frozen(kw_only=True, eq=False)
class Group:
    """The finished jobs of one library with one algorithm on one task.

    Attributes:
        scores: (n,), one a seed.
    """

    task: Task
    algorithm: str
    library: str
    steps: int
    scores: np.ndarray
    jobs: tuple[Job, ...]


def on_shared_seeds(groups: Mapping[str, Group]) -> dict[str, np.ndarray]:
    """Scores of the seeds that all groups have, for runs of one seed play the same evaluation episodes."""
    shared = set.intersection(*({job.seed for job in group.jobs} for group in groups.values()))
    return {
        label: group.scores[[job.seed in shared for job in group.jobs]] for label, group in groups.items() if shared
    }


def groups_of(
    results: Results, tasks: Mapping[str, Task], settings: str, seeds: Container[int] = REPORTED
) -> list[Group]:
    """In the order of the tasks and of their algorithms; none without a score."""
    found: dict[tuple[str, str, int, str], list[Job]] = {}
    for job in sorted(results.curves, key=lambda job: (job.steps, job.seed)):
        is_asked = job.settings == settings and job.task in tasks and job.seed in seeds
        if is_asked and results.score(job) is not None:
            found.setdefault((job.task, job.algorithm, job.steps, job.library), []).append(job)
    places = [
        (task.name, algorithm, library)
        for task in tasks.values()
        for algorithm in dict.fromkeys((*task.algorithms, *task.tuned))
        for library in LIBRARIES
    ]
    order = sorted(found, key=lambda key: places.index((key[0], key[1], key[3])))
    return [_group(tasks[key[0]], found[key], results) for key in order]


def _group(task: Task, jobs: Sequence[Job], results: Results) -> Group:
    return Group(
        task=task,
        algorithm=jobs[0].algorithm,
        library=jobs[0].library,
        steps=jobs[0].steps,
        scores=np.array([results.score(job) for job in jobs]),
        jobs=tuple(jobs),
    )


def report(results: Results, tasks: Mapping[str, Task], planned: Sequence[Job]) -> str:
    """Tables of what is finished, then what failed and what of the plan is left."""
    n_finished = sum(job in results.curves for job in planned)
    finished = f"{n_finished} of the {len(planned)} jobs of this plan are finished."
    return "\n\n".join([*filter(None, parts_of(results, tasks, planned).values()), finished])


def write_pages(pages: Sequence[Path], results: Results, tasks: Mapping[str, Task], planned: Sequence[Job]) -> None:
    """Each part of the report wherever a page has its two comments, `BEGIN` and `END` with its name, and pictures.

    Raises:
        SystemExit: A page has no such place, or one for a part that there is not.
    """
    parts = parts_of(results, tasks, planned)
    for page in pages:
        text = page.read_text(encoding="utf-8")
        asked = re.findall(BEGIN.format("(.*)"), text)
        if not asked:
            raise SystemExit(f"{page} has no place for a part of the report: {BEGIN.format('NAME')}")
        if unknown := [name for name in asked if name not in parts]:
            raise SystemExit(f"{page} asks for {', '.join(unknown)}; the parts are {', '.join(parts)}")
        if BY_TASK in asked:
            pictures = write_pictures(page.parents[1] / "figures", results, tasks).items()
            shown = [f"![{title}](../figures/{name})" for name, title in pictures]
            parts[BY_TASK] = "\n\n".join([parts[BY_TASK], *shown])
        for name in asked:
            text = replace_marked(text, parts[name] or "Nothing.", BEGIN.format(name), END.format(name))
        page.write_text(text, encoding="utf-8")


def parts_of(results: Results, tasks: Mapping[str, Task], planned: Sequence[Job]) -> dict[str, str]:
    """The report by the names of its parts; empty where there is nothing to say."""
    parts = {
        "together": _together(results, tasks),
        BY_TASK: _by_task_table(results, tasks),
        "more steps": _longer_table(results, tasks),
        "reference tasks": _tuned_table(results, tasks),
        **_candidate_tables(results, tasks),
        "not run": [*_failures(results), *_left([job for job in planned if job not in results.curves])],
    }
    return {name: "\n\n".join(texts) for name, texts in parts.items()}


def write_pictures(folder: Path, results: Results, tasks: Mapping[str, Task]) -> dict[str, str]:
    """One an algorithm, with the defaults of both libraries; returns names of files and titles."""
    groups = groups_of(results, tasks, "default")
    written = {}
    for algorithm in dict.fromkeys(group.algorithm for group in groups):
        own = [group for group in groups if group.algorithm == algorithm]
        name = f"suite-{algorithm.lower()}.svg"
        (folder / name).write_text(picture(own, results, NAMES), encoding="utf-8")
        n_panels = len({(group.task.name, group.steps) for group in own})
        words = f"{n_panels} tasks" if n_panels > 1 else own[0].task.name
        written[name] = f"{algorithm} on {words}, returns against environment steps"
    return written


def _by_task_table(results: Results, tasks: Mapping[str, Task]) -> list[str]:
    groups = groups_of(results, tasks, "default")
    title = f"Each library's own defaults, task by task. {_ran(results, groups)}"
    return [_beside_the_peer(title, groups)] if groups else ["Nothing is finished."]


def _longer_table(results: Results, tasks: Mapping[str, Task]) -> list[str]:
    groups = groups_of(results, tasks, "longer")
    title = f"Each library's own defaults with more steps. {_ran(results, groups)}"
    return [_beside_the_peer(title, groups)] if groups else []


def _beside_the_peer(title: str, groups: Sequence[Group]) -> str:
    """A row a task, algorithm and number of steps."""
    header = ["task", "algorithm", "steps", *_columns(NAMES["maze"]), *_columns(NAMES["sb3"]), "P(Maze better)"]
    by_place: dict[tuple[str, str, int], dict[str, Group]] = {}
    for group in groups:
        by_place.setdefault((group.task.name, group.algorithm, group.steps), {})[group.library] = group
    rows = [
        [task, algorithm, _thousands(steps), *_cells(own.get("maze")), *_cells(own.get("sb3")), _probability(own)]
        for (task, algorithm, steps), own in by_place.items()
    ]
    return table_of(title, header, rows)


def _columns(name: str) -> list[str]:
    return [f"{name}: IQM", "95 %", "lowest … highest", "n"]


def _cells(group: Group | None) -> list[str]:
    if group is None:
        return ["–", "", "", ""]
    interval = bootstrap_interval([group.scores], interquartile_mean)
    n = len(group.scores)
    ends = f"{number(float(group.scores.min()))} … {number(float(group.scores.max()))}"
    shown = "–" if interval is None else _interval(interval, n)
    return [number(float(interquartile_mean(group.scores))), shown, ends, str(n)]


def _interval(interval: ConfidenceInterval | None, n: int, digits: int | None = None) -> str:
    """Without what `NARROW` says of all."""
    return interval_text(interval and attrs.evolve(interval, is_narrow=False), n, digits)


def _probability(own: Mapping[str, Group]) -> str:
    scores = on_shared_seeds(own) if len(own) == len(LIBRARIES) else {}
    return f"{probability_of_improvement([scores['maze']], [scores['sb3']]):.2f}" if scores else ""


def _together(results: Results, tasks: Mapping[str, Task]) -> list[str]:
    """Each algorithm over the tasks that both libraries have finished."""
    groups = groups_of(results, tasks, "default")
    rows, pairs = [], []
    for algorithm in dict.fromkeys(group.algorithm for group in groups):
        by_task = _by_task([group for group in groups if group.algorithm == algorithm])
        references = {name: tasks[name].range for name in by_task}
        if len(by_task) < 2:
            continue
        rows += [[algorithm, str(len(by_task)), *_aggregate_cells(own)] for own in aggregates(by_task, references)]
        (pair,) = improvements("", normalized(by_task, references))
        interval = _interval(pair.interval, min(pair.n, pair.n_other), digits=2)
        pairs.append([algorithm, pair.label, pair.other, f"{pair.probability:.2f}", interval])
    if not rows:
        return []
    ranges = ", ".join(f"{name} {task.range[0]:g} and {task.range[1]:g}" for name, task in tasks.items())
    return [
        table_of(
            "Each library's own defaults on tasks that both have finished: 0 a policy at random, 1 a good one",
            ["algorithm", "tasks", "library", "n a task", "IQM", "mean", "95 % of IQM"],
            rows,
        ),
        table_of("Over these tasks", ["algorithm", "better", "than", "with probability", "95 %"], pairs),
        f"0 and 1: {ranges}.",
        NARROW,
    ]


def _by_task(groups: Sequence[Group]) -> dict[str, dict[str, np.ndarray]]:
    """Task to library to scores of the seeds that both have; of several numbers of steps the largest.

    Those with too few seeds for an interval are left out where others have enough: one of them leaves all without.
    """
    found: dict[str, dict[str, np.ndarray]] = {}
    for steps in sorted({group.steps for group in groups}):
        for name in dict.fromkeys(group.task.name for group in groups):
            own = {NAMES[g.library]: g for g in groups if (g.steps, g.task.name) == (steps, name)}
            if len(own) == len(LIBRARIES) and (scores := on_shared_seeds(own)):
                found[name] = scores
    enough = {name: scores for name, scores in found.items() if len(scores[NAMES["maze"]]) >= MIN_RUNS}
    return enough if len(enough) > 1 else found


def _aggregate_cells(aggregate: Aggregate) -> list[str]:
    n = aggregate.n.values()
    interval = _interval(aggregate.iqm_interval, min(n))
    return [aggregate.label, n_text(n), number(aggregate.iqm), number(aggregate.mean), interval]


def _tuned_table(results: Results, tasks: Mapping[str, Task]) -> list[str]:
    """Our examples beside what is published for tuned settings of the peer."""
    groups = groups_of(results, tasks, "tuned")
    if not groups:
        return []
    rows = []
    for group in groups:
        published = group.task.published.get(group.algorithm)
        beside = ["–", ""] if published is None else [number(published["score"]), _thousands(int(published["steps"]))]
        others = group.task.others.get(group.algorithm, {})
        beside.append(", ".join(f"{library} {number(score)}" for library, score in others.items()) or "–")
        name = _example(group.task.tuned[group.algorithm])
        rows.append([group.task.name, group.algorithm, name, _thousands(group.steps), *_cells(group), *beside])
    header = ["task", "algorithm", "example", "steps", *_columns("ours"), "rl-zoo3", "its steps", "others"]
    return [table_of(f"Reference tasks, tuned settings. {_ran(results, groups)}", header, rows)]


def _example(tuned: Mapping[str, Any]) -> str:
    """A link to the file, and the settings that are others than its own; its environment stands beside it."""
    file, overrides = tuned["file"], tuned.get("overrides", {})
    others = [f"`{path} = {json.dumps(value)}`" for path, value in overrides.items() if path != "env.id"]
    return ", ".join([f"[{Path(file).stem}](../../examples/{file})", *others])


def _candidate_tables(results: Results, tasks: Mapping[str, Task]) -> dict[str, list[str]]:
    """For each algorithm with candidates: the peer, the defaults and the candidates beside each other."""
    tables: dict[tuple[str, str], list[str]] = {}
    for candidate in read_candidates().values():
        tables.setdefault((candidate.algorithm, "longer" if candidate.longer else "default"), []).append(candidate.name)
    parts: dict[str, list[str]] = {}
    every_seed = {job.seed for job in results.curves}
    for (algorithm, defaults), names in tables.items():
        columns: dict[str, dict[str, Group]] = {}
        for settings in (defaults, *names):
            for group in groups_of(results, tasks, settings, seeds=every_seed):
                if group.algorithm == algorithm:
                    own = "default" if settings == defaults else settings
                    label = own if group.library == "maze" else NAMES[group.library]
                    columns.setdefault(label, {})[group.task.name] = group
        if len(columns.keys() & set(names)):
            steps = " with more steps" if defaults == "longer" else ""
            title = f"Candidates for the defaults of {algorithm}{steps}: interquartile means (seeds)"
            parts.setdefault(f"candidates of {algorithm}", []).append(_beside_each_other(title, columns, tasks))
    return parts


def _beside_each_other(title: str, columns: Mapping[str, Mapping[str, Group]], tasks: Mapping[str, Task]) -> str:
    """A row a task; the last ones put the tasks together that all have, on the seeds that all have there."""
    candidates = [own for label, own in columns.items() if label not in ("default", NAMES["sb3"])]
    rows = []
    for name in tasks:
        if any(name in own for own in candidates):
            cells = (
                f"{_iqm(own[name].scores)} ({len(own[name].scores)})" if name in own else "–"
                for own in columns.values()
            )
            rows.append([name, *cells])
    by_task = {
        name: scores
        for name in tasks
        if all(name in own for own in columns.values())
        if (scores := on_shared_seeds({label: own[name] for label, own in columns.items()}))
    }
    together = aggregates(by_task, {name: tasks[name].range for name in by_task}) if len(by_task) > 1 else []
    if together:
        n = n_text(together[0].n.values())
        rows.append([f"{len(by_task)} tasks, n = {n}: IQM", *(number(own.iqm) for own in together)])
        rows.append([f"{len(by_task)} tasks, n = {n}: mean", *(number(own.mean) for own in together)])
    return table_of(title, ["task", *columns], rows)


def _iqm(scores: np.ndarray) -> str:
    return number(float(interquartile_mean(scores)))


def _ran(results: Results, groups: Iterable[Group]) -> str:
    """How many runs and what they ran with."""
    jobs = [job for group in groups for job in group.jobs]
    versions: dict[str, set[str]] = {}
    for job in jobs:
        for name, version in results.curves[job].versions.items():
            versions.setdefault(name, set()).add(version)
    words = ", ".join(f"{name} {' and '.join(sorted(own))}" for name, own in sorted(versions.items()))
    hours = sum(results.curves[job].seconds for job in jobs) / 3600
    return f"{len(jobs)} runs, {hours:.1f} hours of one core: {words}"


def _failures(results: Results) -> list[str]:
    lines = [f"- {job}: {text}" for job, text in results.failed.items()]
    lines += [f"- {job}: no evaluation within its steps" for job in results.curves if results.score(job) is None]
    return ["Without a score:\n\n" + "\n".join(lines)] if lines else []


def _left(left: Sequence[Job]) -> list[str]:
    """A row a task with the algorithms that are left, and how many seeds of each."""
    if not left:
        return []
    counts = Counter((f"{job.task} ({job.settings})", job.library, job.algorithm) for job in left)
    rows = [
        [task, *(", ".join(f"{of[2]} {n}" for of, n in counts.items() if of[:2] == (task, own)) for own in LIBRARIES)]
        for task in dict.fromkeys(of[0] for of in counts)
    ]
    return [table_of("Not run: seeds that are left", ["task", *NAMES.values()], rows)]


def _thousands(steps: int) -> str:
    return f"{steps:,}".replace(",", " ")
