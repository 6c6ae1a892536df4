"""Flexible job shops: which job goes on next, and on which of the machines that can do it, both masked.

Instances: "mk01" of Brandimarte (1993), "Routing and scheduling in a flexible job shop by tabu search", whose best
makespan is 40; "ft06" and "ft10" of Fisher and Thompson (1963), 55 and 930, where every operation has one machine and
the second decision is never asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import ActorID
from maze_suite import FlatEnv, Heuristic, StructuredSpaces

Operation = Mapping[int, int]
"""Machine to the time that it takes there."""

FT06 = """
2 1 0 3 1 6 3 7 5 3 4 6
1 8 2 5 4 10 5 10 0 10 3 4
2 5 3 4 5 8 0 9 1 1 4 7
1 5 0 5 2 5 3 3 4 8 5 9
2 9 1 3 4 5 5 4 0 3 3 1
1 3 3 3 5 9 0 10 4 4 2 1
"""
FT10 = """
0 29 1 78 2 9 3 36 4 49 5 11 6 62 7 56 8 44 9 21
0 43 2 90 4 75 9 11 3 69 1 28 6 46 5 46 7 72 8 30
1 91 0 85 3 39 2 74 8 90 5 10 7 12 6 89 9 45 4 33
1 81 2 95 0 71 4 99 6 9 8 52 7 85 3 98 9 22 5 43
2 14 0 6 1 22 5 61 3 26 4 69 8 21 7 49 9 72 6 53
2 84 1 2 5 52 3 95 8 48 9 72 0 47 6 65 4 6 7 25
1 46 0 37 3 61 2 13 6 32 5 21 9 32 8 89 7 30 4 55
2 31 0 86 1 46 5 74 4 32 6 88 8 19 9 48 7 36 3 79
0 76 1 69 3 76 5 51 2 85 9 11 6 40 7 89 4 26 8 74
1 85 0 13 2 61 6 7 8 64 9 76 5 47 3 52 4 90 7 45
"""
MK01 = """
6 2 1 5 3 4 3 5 3 3 5 2 1 2 3 4 6 2 3 6 5 2 6 1 1 1 3 1 3 6 6 3 6 4 3
5 1 2 6 1 3 1 1 1 2 2 2 6 4 6 3 6 5 2 6 1 1
5 1 2 6 2 3 4 6 2 3 6 5 2 6 1 1 3 3 4 2 6 6 6 2 1 1 5 5
5 3 6 5 2 6 1 1 1 2 6 1 3 1 3 5 3 3 5 2 1 2 3 4 6 2
6 3 5 3 3 5 2 1 3 6 5 2 6 1 1 1 2 6 2 1 5 3 4 2 2 6 4 6 3 3 4 2 6 6 6
6 2 3 4 6 2 1 1 2 3 3 4 2 6 6 6 1 2 6 3 6 5 2 6 1 1 2 1 3 4 2
5 1 6 1 2 1 3 4 2 3 3 4 2 6 6 6 3 2 6 5 1 1 6 1 3 1
5 2 3 4 6 2 3 3 4 2 6 6 6 3 6 5 2 6 1 1 1 2 6 2 2 6 4 6
6 1 6 1 2 1 1 5 5 3 6 6 3 6 4 3 1 1 2 3 3 4 2 6 6 6 2 2 6 4 6
6 2 3 4 6 2 3 3 4 2 6 6 6 3 5 3 3 5 2 1 1 6 1 2 2 6 4 6 2 1 3 4 2
"""


def read_instance(name: str) -> list[list[Operation]]:
    """The operations of each job, in their order.

    Args:
        name: "mk01", "ft06" or "ft10".
    """
    text = {"mk01": MK01, "ft06": FT06, "ft10": FT10}[name]
    lines = [[int(number) for number in line.split()] for line in text.split("\n") if line]
    if name != "mk01":  # machine and time of each operation
        return [[{machine: time} for machine, time in zip(line[::2], line[1::2], strict=True)] for line in lines]
    return [_flexible(line) for line in lines]


def _flexible(line: Sequence[int]) -> list[Operation]:
    """How many operations; for each, how many machines, and these from 1 on with their times."""
    numbers = iter(line[1:])
    return [{next(numbers) - 1: next(numbers) for _ in range(next(numbers))} for _ in range(line[0])]


def _shares(operation: Operation, n_machines: int) -> np.ndarray:
    """Of each machine, its time by the number of machines that can do it."""
    return np.array([operation.get(machine, 0) / max(1, len(operation)) for machine in range(n_machines)])


@attrs.define(eq=False)
class Plan:
    """The schedule so far: an operation starts when its job and its machine are done with all that was planned before.

    Attributes:
        jobs: the operations of each job.
        next: of each job, the operation that is to be planned, (J,).
        job_ready: when the last operation planned of each job ends, (J,).
        machine_ready: when the last operation planned on each machine ends, (M,).
        chosen: the job whose machine is to be chosen; None: a job is.
        entries: what was planned: job, operation, machine, start, end.
    """

    jobs: Sequence[Sequence[Operation]]
    next: np.ndarray
    job_ready: np.ndarray
    machine_ready: np.ndarray
    chosen: int | None = None
    entries: list[tuple[int, int, int, int, int]] = attrs.field(factory=list)

    def operation(self, job: int) -> Operation:
        """The next one of a job that is not done."""
        return self.jobs[job][self.next[job]]

    def is_open(self) -> np.ndarray:
        """Which jobs are not done, (J,)."""
        return np.array([n < len(job) for n, job in zip(self.next, self.jobs, strict=True)])

    def add(self, job: int, machine: int) -> None:
        """Plan the next operation of a job on a machine."""
        start = max(self.job_ready[job], self.machine_ready[machine])
        end = start + self.operation(job)[machine]
        self.entries.append((job, int(self.next[job]), machine, int(start), int(end)))
        self.job_ready[job] = self.machine_ready[machine] = end
        self.next[job] += 1


class JobShop(FlatEnv):
    """Plan all operations; the rewards of an episode add up to minus the makespan.

    "job" says which job goes on, "machine" where. The reward of a step is minus what it adds to the makespan that would
    be possible if every job had all machines for itself, as in Zhang et al. (2020), "Learning to Dispatch for Job Shop
    Scheduling via Deep Reinforcement Learning", and an equal share of that of the empty plan.

    Args:
        instance: see `read_instance`.
    """

    def __init__(self, *, instance: Literal["mk01", "ft06", "ft10"] = "mk01") -> None:
        self.jobs = read_instance(instance)
        n_jobs, n_machines = len(self.jobs), 1 + max(m for job in self.jobs for operation in job for m in operation)
        self._n_machines, self._n_operations = n_machines, sum(map(len, self.jobs))
        # Shortest time of each operation, and of it and all that follow it, by job
        self._shortest = [[min(operation.values()) for operation in job] for job in self.jobs]
        self._work = [np.append(np.cumsum(times[::-1])[::-1], 0) for times in self._shortest]
        # Work that each machine may get from an operation and all that follow it in its job
        self._shares = [
            np.cumsum([_shares(op, n_machines) for op in [*job, {}]][::-1], axis=0)[::-1] for job in self.jobs
        ]
        self._longest = float(max(work[0] for work in self._work))
        box = {"low": -np.inf, "high": np.inf, "dtype": np.float32}
        self.structured_spaces = StructuredSpaces(
            observation={
                "job": spaces.Dict(
                    jobs=spaces.Box(shape=(n_jobs, 8 + 2 * n_machines), **box),
                    jobs_mask=spaces.MultiBinary(n_jobs),
                    shop=spaces.Box(shape=(3 + 2 * n_machines,), **box),
                    go_on_mask=spaces.MultiBinary(n_jobs),
                ),
                "machine": spaces.Dict(
                    machines=spaces.Box(shape=(n_machines, 7), **box),
                    machines_mask=spaces.MultiBinary(n_machines),
                    shop=spaces.Box(shape=(3 + 2 * n_machines,), **box),
                    place_mask=spaces.MultiBinary(n_machines),
                ),
            },
            action={
                "job": spaces.Dict(go_on=spaces.Discrete(n_jobs)),
                "machine": spaces.Dict(place=spaces.Discrete(n_machines)),
            },
            agent_counts={"job": 1, "machine": 1},
        )

    def actor_id(self) -> ActorID:
        """Who decides next."""
        return ActorID("job" if self.plan.chosen is None else "machine", 0)

    def is_flat_step_end(self) -> bool:
        """A step of time is one operation planned."""
        return self.plan.chosen is None

    def reset(self, *, seed=None, options=None):
        """The empty plan."""
        zeros = [np.zeros(n, np.int64) for n in (len(self.jobs), len(self.jobs), self._n_machines)]
        self.plan = Plan(self.jobs, *zeros)
        return self._observe(), {}

    def step(self, action):
        """Remember the job, or plan its operation; the machine is not asked for where there is only one."""
        plan, before = self.plan, self._bound()
        if plan.chosen is None:
            plan.chosen = int(action["go_on"])
            machines = list(plan.operation(plan.chosen))
            if len(machines) > 1:
                return self._observe(), 0.0, False, False, {}
        else:
            machines = [int(action["place"])]
        plan.add(plan.chosen, machines[0])
        plan.chosen = None
        reward = before - self._bound() - self._longest / self._n_operations
        return self._observe(), float(reward), not plan.is_open().any(), False, {"makespan": int(plan.job_ready.max())}

    def get_maze_state(self) -> Plan:
        """The plan as it is now."""
        return self.plan

    def _bound(self) -> float:
        """When the last job would end if each had all machines for itself."""
        plan = self.plan
        return max(ready + work[n] for ready, work, n in zip(plan.job_ready, self._work, plan.next, strict=True))

    def _observe(self):
        plan, unit = self.plan, self._longest
        bound, now = self._bound(), plan.machine_ready.min()
        load = sum(shares[n] for shares, n in zip(self._shares, plan.next, strict=True))
        so_far = len(plan.entries) / self._n_operations * unit
        shop = (np.array([bound - now, so_far, unit, *(plan.machine_ready - now), *load]) / unit).astype(np.float32)
        if plan.chosen is None:
            is_open = plan.is_open()
            jobs = np.zeros((len(self.jobs), 8 + 2 * self._n_machines), np.float32)
            for job in np.flatnonzero(is_open):
                jobs[job] = self._job(job, now, bound)
            mask, jobs_mask = is_open | ~is_open.any(), is_open.astype(np.int8)
            return {"jobs": jobs / unit, "jobs_mask": jobs_mask, "shop": shop, "go_on_mask": mask.astype(np.int8)}
        machines = np.zeros((self._n_machines, 7), np.float32)
        work = self._work[plan.chosen][plan.next[plan.chosen] + 1]
        for machine, time in plan.operation(plan.chosen).items():
            ready = plan.machine_ready[machine]
            start = max(plan.job_ready[plan.chosen], ready)
            end = start + time
            machines[machine] = (time, start - now, end - now, start - ready, end + work - bound, load[machine], unit)
        able = (machines[:, 0] > 0).astype(np.int8)
        return {"machines": machines / unit, "machines_mask": able, "shop": shop, "place_mask": able}

    def _job(self, job: int, now: int, bound: float) -> tuple[float, ...]:
        """What is known of a job that is not done."""
        plan, n = self.plan, self.plan.next[job]
        operation, ready, work = plan.operation(job), plan.job_ready[job], self._work[job][n]
        starts = {machine: max(ready, plan.machine_ready[machine]) for machine in operation}
        end = min(starts[machine] + time for machine, time in operation.items())
        return (
            ready - now,
            work,
            ready + work - bound,
            len(self.jobs[job]) - n,
            self._shortest[job][n],
            min(starts.values()) - now,
            end - now,
            end + self._work[job][n + 1] - bound,
            *(operation.get(machine, 0) for machine in range(self._n_machines)),
            *self._shares[job][n],
        )


class _Rule(Heuristic):
    """A dispatching rule for jobs; an operation goes to the machine where it ends first."""

    def act_one(self, observation, moment):
        """From the observation alone."""
        if moment.policy_key == "machine":
            return {"place": _least(observation["machines"][:, 2], observation["place_mask"])}
        return {"go_on": _least(self.urgency(*observation["jobs"][:, :8].T), observation["go_on_mask"])}


def _least(values: np.ndarray, mask: np.ndarray) -> int:
    return int(np.argmin(np.where(mask, values, np.inf)))


class MostWorkLeft(_Rule):
    """The job with the most work left goes on."""

    def urgency(self, ready, work, *others):
        """The less, the earlier, (J,)."""
        return -work


class EarliestStart(_Rule):
    """The job whose next operation can start first goes on; among several the one with the most work left."""

    def urgency(self, ready, work, end_alone, n_left, shortest, start, end, end_then):
        """The less, the earlier, (J,)."""
        return start - 1e-3 * work
