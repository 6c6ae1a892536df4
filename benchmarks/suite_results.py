"""What the jobs of `suite.py` left behind: read from their folder or from the packed file, and packed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from suite_tasks import Job

PACKED = Path(__file__).parent / "results" / "suite.json"
_JOB = tuple(field.name for field in attrs.fields(Job))

OVERSHOOT = 2e-4
"""Part of a budget by which a run that steps eight environments at once may pass it."""


@attrs.frozen(kw_only=True, eq=False)
class Curve:
    """The evaluations of a finished job.

    Attributes:
        env_steps, scores: (E,).
        seconds: of the whole job, evaluations included.
        versions: of what it ran with, by package.
    """

    env_steps: np.ndarray
    scores: np.ndarray
    seconds: float
    versions: Mapping[str, str]

    def until(self, steps: int) -> Curve:
        """The evaluations after at most so many steps: trainers that fill no rollout end a few steps later."""
        kept = self.env_steps <= steps * (1 + OVERSHOOT)
        return attrs.evolve(self, env_steps=self.env_steps[kept], scores=self.scores[kept])


@attrs.frozen(kw_only=True, eq=False)
class Results:
    """Finished and failed jobs; a job is in one of them at most.

    Attributes:
        failed: job to what it said.
    """

    curves: dict[Job, Curve] = attrs.field(factory=dict)
    failed: dict[Job, str] = attrs.field(factory=dict)

    def updated(self, other: Results) -> Results:
        """With what another folder has; a job that was finished stays so, whatever a later attempt came to."""
        curves = self.curves | other.curves
        failed = {job: text for job, text in (self.failed | other.failed).items() if job not in curves}
        return Results(curves=curves, failed=failed)

    def score(self, job: Job) -> float | None:
        """The last evaluation within the steps of the job; None without one."""
        if job not in self.curves:
            return None
        scores = self.curves[job].until(job.steps).scores
        return float(scores[-1]) if len(scores) else None


def read_results(out: Path) -> Results:
    """All jobs below a folder, `<settings>/<task>/<name>`; what is deeper belongs to jobs that are running."""
    results = Results()
    for path in sorted(out.glob("*/*/*.jsonl")):
        head, *lines, last = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
        results.curves[_job(head)] = Curve(
            env_steps=np.array([line["env_steps"] for line in lines], np.int64),
            scores=np.array([line["score"] for line in lines], np.float64),
            seconds=last["seconds"],
            versions=head["versions"],
        )
    for path in sorted(out.glob("*/*/*.failed")):
        head, what = path.read_text(encoding="utf-8").splitlines()[:2]
        results.failed[_job(json.loads(head))] = what
    return results


def packed(results: Results) -> str:
    """One JSON object: the versions, and a line a job."""
    versions = sorted({json.dumps(dict(curve.versions), sort_keys=True) for curve in results.curves.values()})
    rows = [
        {
            **attrs.asdict(job),
            "versions": versions.index(json.dumps(dict(curve.versions), sort_keys=True)),
            "seconds": round(curve.seconds),
            "env_steps": curve.env_steps.tolist(),
            "scores": [float(f"{score:.5g}") for score in curve.scores],
        }
        for job, curve in results.curves.items()
    ]
    rows += [{**attrs.asdict(job), "failed": text} for job, text in results.failed.items()]
    rows.sort(key=lambda row: [str(row[name]).zfill(12) for name in _JOB])
    lines = ",\n".join(json.dumps(row) for row in rows)
    return f'{{"versions": [{", ".join(versions)}],\n"jobs": [\n{lines}\n]}}\n'


def read_packed(path: Path = PACKED) -> Results:
    """What `packed` wrote."""
    table = json.loads(path.read_text(encoding="utf-8"))
    results = Results()
    for row, job in _rows(table["jobs"]):
        if "failed" in row:
            results.failed[job] = row["failed"]
        else:
            results.curves[job] = Curve(
                env_steps=np.array(row["env_steps"], np.int64),
                scores=np.array(row["scores"], np.float64),
                seconds=row["seconds"],
                versions=table["versions"][row["versions"]],
            )
    return results


def _rows(rows: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], Job]]:
    for row in rows:
        yield row, _job(row)


def _job(row: Mapping[str, Any]) -> Job:
    return Job(**{name: row[name] for name in _JOB})
