"""Calls, answers, broadcasts and rollouts on worker pools: Ray on one to three nodes, beside the subprocess pool.

    python benchmarks/cluster.py --parts calls rollouts-1ms --actors 1 4 --nodes 1
    python benchmarks/cluster.py --write docs/explanation/scaling.md --json cluster.json

The nodes are processes of this machine, so nothing crosses a network and all actors share its cores: the figures are
what pools and actors cost, not what a network adds. Pools take turns, several rounds; medians are printed as Markdown.
Without Ray its rows are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.util
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces

from cluster_sums import sums
from cluster_tables import SUBPROCESS, Figure, replace_marked, tables
from interleaved import Contender, take_turns
from maze_kernel.config import experiment_from_mapping
from maze_kernel.contracts.workers import ActorContext, ActorGroup
from maze_kernel.loader import Kernel
from maze_ppo.experience import RolloutSource
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.run.assembly import Assembly

N_ENVS, N_TICKS = 8, 16
"""Environments of an actor, stepped in turn, and steps of each in a rollout."""
STORE_BYTES = 1_000_000_000
"""Object store of a node; it holds what actors answer until the caller has let go of it."""
HERE = "no pool, one process"


class Work(NamedTuple):
    """What actors are asked for: `bytes` of answer or weights, or rollouts of environments that take `seconds`."""

    kind: str
    n_bytes: int = 0
    seconds: float = 0.0


Table = dict[str, Any]
"""A part of an experiment."""

PARTS = {
    "calls": Work("calls"),
    "answers-100kb": Work("calls", n_bytes=100_000),
    "answers-10mb": Work("calls", n_bytes=10_000_000),
    "broadcast-40kb": Work("broadcasts", n_bytes=40_000),
    "broadcast-40mb": Work("broadcasts", n_bytes=40_000_000),
    "rollouts-1ms": Work("rollouts", seconds=0.001),
    "rollouts-10ms": Work("rollouts", seconds=0.01),
}


class Actor:
    """Answers with arrays of its own, and keeps the weights it is given."""

    def __init__(self, _context: ActorContext) -> None:
        self._arrays: dict[int, np.ndarray] = {}
        self._weights: np.ndarray | None = None

    def nothing(self) -> None: ...

    def give(self, n_bytes: int) -> np.ndarray:
        if n_bytes not in self._arrays:
            self._arrays[n_bytes] = np.arange(n_bytes // 8, dtype=np.float64)
        return self._arrays[n_bytes]

    def load_weights(self, flat: np.ndarray, _version: int) -> None:
        if self._weights is None or self._weights.shape != flat.shape:
            self._weights = np.empty_like(flat)
        self._weights[...] = flat


class Sleeper(FlatEnv):
    """A simulation that takes its time but no processor; its episodes have a hundred steps."""

    structured_spaces = flat_spaces(
        spaces.Dict({"observation": spaces.Box(-1.0, 1.0, (8,), np.float32)}),
        spaces.Dict({"action": spaces.Discrete(4)}),
    )

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._n_steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self._n_steps = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(self._seconds)
        self._n_steps += 1
        return self._observation(), 1.0, self._n_steps == 100, False, {}

    def _observation(self) -> dict[str, np.ndarray]:
        return {"observation": np.full(8, self._n_steps / 100, np.float32)}


def calls(group: ActorGroup, n_bytes: int, seconds: float) -> float:
    """Answers a second; an actor is asked again as soon as it has answered, and answers are looked at."""
    method, arguments = ("give", (n_bytes,)) if n_bytes else ("nothing", ())
    for future in group.call_all(method, *arguments):
        future.result()
    futures = {future.actor_index: future for future in group.call_all(method, *arguments)}
    n_answers, start = 0, time.perf_counter()
    while time.perf_counter() < start + seconds or n_answers < group.n_actors:
        for future in group.wait_any(list(futures.values())):
            answer = future.result()
            assert not n_bytes or answer[-1] == n_bytes // 8 - 1
            futures[future.actor_index] = group.call(future.actor_index, method, *arguments)
            n_answers += 1
    elapsed = time.perf_counter() - start
    for future in futures.values():
        future.result()
    return n_answers / elapsed


def broadcasts(group: ActorGroup, versions: Iterator[int], n_bytes: int, seconds: float) -> float:
    """Broadcasts a second, each until the last actor has loaded the weights and answered an empty call."""
    flat = np.ones(n_bytes // 4, np.float32)

    def once() -> None:
        group.broadcast(flat, next(versions))
        for future in group.call_all("nothing"):
            future.result()

    once()
    n_times, start = 0, time.perf_counter()
    while time.perf_counter() < start + seconds or n_times < 2:
        once()
        n_times += 1
    return n_times / (time.perf_counter() - start)


def rollouts(source: RolloutSource, seconds: float) -> float:
    """Environment steps a second of whole rollouts, one broadcast each, without any learning."""
    source.collect()
    n_steps, start = 0, time.perf_counter()
    while time.perf_counter() < start + seconds:
        n_steps += source.collect()[1]
    return n_steps / (time.perf_counter() - start)


@functools.cache
def installed() -> Kernel:
    """The plugins, loaded once."""
    return Kernel.installed()


def assembly_of(workers: Table | None, n_actors: int, seconds: float) -> Assembly:
    """A PPO experiment on these workers, or in this process."""
    data: Table = {
        "name": "cluster",
        "env": functools.partial(Sleeper, seconds),
        "vector": {"n_envs": N_ENVS * n_actors, "mode": "sequential" if workers is None else "workers"},
        "trainer": {"use": "ppo", "n_rollout_steps": N_TICKS},
    }
    if workers is not None:
        data["workers"] = {**workers, "count": n_actors}
    return Assembly(experiment_from_mapping(data, kernel=installed()), installed())


@contextlib.contextmanager
def contender(workers: Table | None, work: Work, n_actors: int, seconds: float) -> Iterator[Contender]:
    """A round of the work, on actors that live as long as this context."""
    assembly = assembly_of(workers, n_actors, work.seconds)
    if work.kind == "rollouts":
        model: Any = assembly.make_model()
        source = RolloutSource(assembly.trainer_context(), model, FlatParameters(model), N_TICKS)
        with contextlib.closing(source):
            source.start_segment(0)
            yield functools.partial(rollouts, source, seconds)
        return
    with assembly.make_workers() as pool:
        group = pool.spawn(Actor, n_actors)
        if work.kind == "calls":
            yield functools.partial(calls, group, work.n_bytes, seconds)
        else:
            yield functools.partial(broadcasts, group, itertools.count(1), work.n_bytes, seconds)


def measure(part: str, n_actors: int, pools: dict[str, Table], arguments: argparse.Namespace) -> list[Figure]:
    """The figures of all pools for one part and one number of actors, taken in turn."""
    tables_of: dict[str, Table | None] = {**pools}
    if PARTS[part].kind == "rollouts" and n_actors == 1:
        tables_of[HERE] = None
    with contextlib.ExitStack() as stack:
        contenders = {
            pool: stack.enter_context(contender(workers, PARTS[part], n_actors, arguments.seconds))
            for pool, workers in tables_of.items()
        }
        print(f"{part}, {n_actors} actors", file=sys.stderr)
        figures = take_turns(contenders, arguments.rounds, "/s")
    return [Figure(part, pool, n_actors, values, figures[SUBPROCESS]) for pool, values in figures.items()]


@contextlib.contextmanager
def growing_cluster(n_cpus: int) -> Iterator[Callable[[int], str]]:
    """`grow(n)` gives the address of a cluster that then has n nodes; its files are removed at the end."""
    with tempfile.TemporaryDirectory(prefix="maze-", ignore_cleanup_errors=True) as folder:
        os.environ["RAY_TMPDIR"] = folder
        import ray
        from ray.cluster_utils import Cluster

        node = {"num_cpus": n_cpus, "object_store_memory": STORE_BYTES, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=node)

        def grow(n_nodes: int) -> str:
            while len(cluster.list_all_nodes()) < n_nodes:
                cluster.add_node(**{name: node[name] for name in ("num_cpus", "object_store_memory")})
            cluster.wait_for_nodes()
            return str(cluster.address)

        try:
            yield grow
        finally:
            ray.shutdown()
            cluster.shutdown()


def measure_all(arguments: argparse.Namespace) -> Iterator[list[Figure]]:
    """Every part with every number of actors, once for each number of nodes."""
    works = list(itertools.product(arguments.parts, arguments.actors))
    if not arguments.nodes or not all(importlib.util.find_spec(name) for name in ("ray", "maze_ray")):
        print("Ray's rows are left out: maze-ray is not installed, or no nodes are asked for", file=sys.stderr)
        for part, n_actors in works:
            yield measure(part, n_actors, {SUBPROCESS: {"use": "subprocess"}}, arguments)
        return
    with growing_cluster(max(arguments.actors)) as grow:
        for n_nodes in sorted(arguments.nodes):
            on_ray = {"use": "ray", "address": grow(n_nodes), "cpus_per_worker": 1.0}
            name = f"Ray, {n_nodes} node{'s' if n_nodes > 1 else ''}"
            for part, n_actors in works:
                yield measure(part, n_actors, {SUBPROCESS: {"use": "subprocess"}, name: on_ray}, arguments)


def main() -> None:
    """Measure what is asked for; print the tables, and write them where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--actors", nargs="+", type=int, default=[1, 2, 4, 8, 16])
    parser.add_argument("--nodes", nargs="*", type=int, default=[1, 2, 3], help="none: subprocess pool alone")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a round, at least")
    parser.add_argument("--json", type=Path, help="write every round to this file, as they come")
    parser.add_argument("--read", type=Path, help="tables of what --json wrote; nothing is measured")
    parser.add_argument("--write", type=Path, help="replace the tables of this page")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.read:
        figures = [Figure(**figure) for figure in json.loads(arguments.read.read_text())]
    else:
        figures = []
        with contextlib.closing(measure_all(arguments)) as measured:
            for some in measured:
                figures += some
                if arguments.json:
                    arguments.json.write_text(json.dumps([figure._asdict() for figure in figures], indent=1) + "\n")
    text = "\n\n".join([*tables(figures), *sums(figures)])
    print(text)
    if arguments.write:
        arguments.write.write_text(replace_marked(arguments.write.read_text(), text))


if __name__ == "__main__":
    main()
