"""What agents reach at equal environment steps, ours beside Stable-Baselines3, on the tasks of suite_tasks.toml.

    python benchmarks/suite.py --out suite                               train whatever is not there yet
    python benchmarks/suite.py --out suite --only PPO CartPole-v1        a part of it
    python benchmarks/suite.py --out suite --missing                     what suite.json has not, and no more
    python benchmarks/suite.py --out suite --report                      tables and pictures of what is finished
    python benchmarks/suite.py --out suite --pack                        … into benchmarks/results/suite.json
    python benchmarks/suite.py --write PAGE PAGE                         pages and pictures from that file

Every job (library, algorithm, task, seed) runs in a process of its own and leaves one file of JSON lines,
`<name>.jsonl`, when it is done. A finished job is never run again; one that was cut, or that the system killed, goes on
from its last checkpoint (ours) or starts over (the peer's); one that raised leaves `<name>.failed` with what it said,
and is begun anew by the next call. Peers: `benchmarks/requirements.txt`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs

from suite_report import report, write_pages, write_pictures
from suite_results import OVERSHOOT, PACKED, Results, packed, read_packed, read_results
from suite_tasks import SETTINGS, Job, Task, jobs_of, read_candidates, read_tasks

N_LINES = 30
"""Of what a failed job said."""


class Runner:
    """Runs jobs in processes of their own, several at a time.

    Args:
        out: the folder of their files.
        n_parallel: jobs at a time.
    """

    def __init__(self, out: Path, n_parallel: int) -> None:
        self._out = out
        self._n_parallel = n_parallel
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._is_over = False

    def run(self, jobs: Sequence[Job]) -> list[Job]:
        """Run what is not finished; returns what failed."""
        left = [job for job in jobs if not self._file(job, "jsonl").exists()]
        print(f"{len(jobs)} jobs, {len(jobs) - len(left)} of them finished", flush=True)
        with ThreadPoolExecutor(self._n_parallel) as threads:
            try:
                succeeded = list(threads.map(self._train, left))
            except BaseException:
                self._stop()
                raise
        return [job for job, is_done in zip(left, succeeded, strict=True) if not is_done]

    def _train(self, job: Job) -> bool:
        part, failed = self._file(job, "part"), self._file(job, "failed")
        part.parent.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable,
            str(Path(__file__).with_name("suite_job.py")),
            json.dumps(attrs.asdict(job)),
            str(part),
        ]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with self._lock:
            if self._is_over:
                return False
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
            )
            self._running.add(process)
        said, _ = process.communicate()
        with self._lock:
            self._running.discard(process)
        if self._is_over:
            return False
        failed.unlink(missing_ok=True)
        if process.returncode == 0:
            part.replace(self._file(job, "jsonl"))
            print(f"done    {job}: {_last_score(self._file(job, 'jsonl'))}", flush=True)
            return True
        if process.returncode > 0:  # it raised, and may do so again from its last checkpoint
            part.unlink(missing_ok=True)
        lines = said.splitlines()[-N_LINES:]
        # The last line that is not indented: what was raised.
        what = next((line for line in reversed(lines) if line[:1].strip()), "it said nothing")
        what = f"{what} (exit status {process.returncode})"
        failed.write_text("\n".join([json.dumps(attrs.asdict(job)), what, *lines]) + "\n", encoding="utf-8")
        print(f"FAILED  {job}: {what}", flush=True)
        return False

    def _stop(self) -> None:
        with self._lock:
            self._is_over = True
            for process in self._running:
                process.kill()

    def _file(self, job: Job, ending: str) -> Path:
        return self._out / f"{job.name}.{ending}"


def _last_score(path: Path) -> str:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    steps = lines[0]["steps"]
    scores = [line["score"] for line in lines if "score" in line and line["env_steps"] <= steps * (1 + OVERSHOOT)]
    return f"{scores[-1]:g} at the end, {lines[-1]['seconds']:.0f} s" if scores else "no evaluation"


def random_scores(tasks: dict[str, Task], only: Sequence[str], n_episodes: int = 100) -> None:
    """Print what a policy at random reaches, for the `range` of the tasks."""
    from maze_suite import RunContext

    for task in tasks.values():
        if not only or task.name in only:
            preset = {} if task.preset is None else {"preset": task.preset}
            context = RunContext(
                experiment={"name": "random", "env": dict(task.env), "trainer": {"use": "ppo"}, **preset}
            )
            print(task.name, context.rollout(n_episodes, policy="random").summary["reward"], flush=True)


def main() -> None:
    """Parse the arguments; train, list or report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder of the jobs' files")
    parser.add_argument(
        "--settings",
        choices=(*SETTINGS, *read_candidates()),
        default="default",
        help="each library's own (longer: for more steps), our examples', or a candidate's",
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="libraries, algorithms, tasks")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps-factor", type=float, default=1.0, metavar="F", help="times the steps of the table")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="jobs at a time")
    parser.add_argument("--missing", action="store_true", help=f"leave out what {PACKED.name} has already")
    parser.add_argument("--list", action="store_true", help="say what is finished, what failed and what is left")
    parser.add_argument("--report", action="store_true", help="tables of what is finished, and pictures")
    parser.add_argument(
        "--pack", type=Path, nargs="?", const=PACKED, metavar="FILE", help="add what is finished to FILE"
    )
    parser.add_argument("--write", type=Path, nargs="+", metavar="PAGE", help="tables and pictures into pages")
    parser.add_argument("--random", action="store_true", help="scores of a policy at random")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    tasks = read_tasks()
    if arguments.random:
        random_scores(tasks, arguments.only)
        return
    jobs = jobs_of(
        tasks,
        settings=arguments.settings,
        seeds=arguments.seeds,
        only=arguments.only,
        steps_factor=arguments.steps_factor,
    )
    found = _found(arguments.out)
    if arguments.list:
        _list(jobs, found)
    elif arguments.pack:
        arguments.pack.parent.mkdir(parents=True, exist_ok=True)
        arguments.pack.write_text(packed(found), encoding="utf-8")
    elif arguments.write:
        everything = [job for name in SETTINGS for job in jobs_of(tasks, settings=name, seeds=arguments.seeds)]
        write_pages(arguments.write, found, tasks, everything)
    elif arguments.report:
        print(report(found, tasks, jobs))
        if arguments.out is not None:
            print("\npictures:", *(arguments.out / name for name in write_pictures(arguments.out, found, tasks)))
    elif arguments.out is None:
        parser.error("--out FOLDER: where the jobs' files go")
    elif failed := Runner(arguments.out, arguments.jobs).run(_missing(jobs) if arguments.missing else jobs):
        raise SystemExit("\n".join(["failed:", *(f"  {job}" for job in failed)]))


def _found(out: Path | None) -> Results:
    """What was packed before, and over it what lies in a folder."""
    results = read_packed(PACKED) if PACKED.exists() else Results()
    return results if out is None else results.updated(read_results(out))


def _missing(jobs: Sequence[Job]) -> list[Job]:
    """What has not been packed, whichever machine it ran on."""
    packed_curves = read_packed(PACKED).curves if PACKED.exists() else {}
    return [job for job in jobs if job not in packed_curves]


def _list(jobs: Sequence[Job], found: Results) -> None:
    for job in jobs:
        state = "done" if job in found.curves else "FAILED" if job in found.failed else "left"
        print(f"{state:<7} {job}")


if __name__ == "__main__":
    main()
