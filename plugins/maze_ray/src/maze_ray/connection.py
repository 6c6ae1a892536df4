"""The connection of this process to a Ray cluster: made once, kept until the process ends.

Ray has one connection a process. Starting a cluster takes seconds, and ending one ends the actors of everybody in this
process, so pools come and go and the connection stays. A cluster that this process started ends with it, by Ray's own
exit handler; one that it joined goes on. `ray stop` is never called: it ends every cluster of the machine.
"""

from __future__ import annotations

import contextlib
import functools
import signal
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import ray
import ray.exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from maze_kernel.errors import MazeWarning, RequestError
from maze_ray import facts, output
from maze_ray.authentication import check_address, protect_token_file, unanswered, unauthenticated
from maze_ray.board import Board
from maze_ray.options import RayOptions
from maze_runtime.workers import modules

_INSPECT_SECONDS = 60.0
_OWNER = "maze-ray"
_GONE = (
    ray.exceptions.NodeDiedError,
    ray.exceptions.TaskUnschedulableError,
    ray.exceptions.WorkerCrashedError,
    ray.exceptions.LocalRayletDiedError,
)


@attrs.define
class Connection:
    """What pools ask the cluster for; all pools of a process share it.

    Attributes:
        job: Ray's identifier of this process.
        target: address and folder that were asked for first.
        reserved: processors and GPUs that groups of this process hold, by group.
        board: a handle of the `Board` on this node.
        versions: of this process.
    """

    job: str
    target: tuple[str, str] | None = None
    reserved: dict[str, dict[str, float]] = attrs.field(factory=dict)
    board: Any = attrs.field(init=False)
    versions: dict[str, str] = attrs.field(factory=facts.versions_here)
    _importable: dict[str, dict[str, bool]] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.board = ray.remote(Board).options(num_cpus=0, max_restarts=-1, scheduling_strategy=here).remote()

    def check_capacity(self, n_actors: int, need: Mapping[str, float]) -> None:
        """Refuse a group for which the cluster is too small; Ray itself would wait for ever.

        Args:
            need: of one actor, by resource.

        Raises:
            RequestError: names what is wanted and what is there.
        """
        need = {name: amount for name, amount in need.items() if amount > 0}
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        total = {name: sum(node.get(name, 0.0) for node in nodes) for name in need}
        held = {name: sum(group.get(name, 0.0) for group in self.reserved.values()) for name in need}
        places = sum(min((int(node.get(name, 0.0) / need[name]) for name in need), default=n_actors) for node in nodes)
        if places >= n_actors and all(n_actors * need[name] <= total[name] - held[name] for name in need):
            return
        present = [f"{total[name]:g} {name}" for name in need]
        present += [f"{held[name]:g} {name} held by other actors of this process" for name in need if held[name]]
        raise RequestError(
            f"the Ray cluster is too small for {n_actors} actors",
            received=f"{', '.join(present)}, on {len(nodes)} node{'s' if len(nodes) != 1 else ''}",
            expected=", ".join(f"{n_actors * amount:g} {name} ({amount:g} an actor)" for name, amount in need.items()),
            owner=_OWNER,
            help="lower count or cpus_per_worker of [workers], or add machines to the cluster",
        )

    def examine(self, packages: Iterable[str]) -> set[str]:
        """Compare the versions of every node with those of this process, and ask what it can import.

        Args:
            packages: top-level ones.

        Returns:
            Those that every node finds by name.

        Raises:
            RequestError: names the first node that differs, and what differs.
        """
        wanted = set(packages)
        alive = _alive()
        for node, (versions, found) in self._inspect(wanted, alive).items():
            differing = facts.differences(self.versions, versions)
            if differing:
                raise facts.refusal(_address_of(node), differing)
            self._importable.setdefault(node, {}).update({name: name in found for name in wanted})
        answers = [self._importable[node] for node in alive if node in self._importable]
        return {name for name in wanted if all(answer.get(name, False) for answer in answers)}

    def _inspect(self, packages: set[str], nodes: Iterable[str]) -> dict[str, tuple[dict[str, str], set[str]]]:
        """Ask the nodes that were not asked for all of these packages before; one that is gone gives no answer."""
        inspect = ray.remote(facts.inspect)
        pending: dict[Any, str] = {}
        with _by_value(facts, modules):
            for node in nodes:
                if node in self._importable and packages <= self._importable[node].keys():
                    continue
                there = NodeAffinitySchedulingStrategy(node, soft=False)
                task = inspect.options(num_cpus=0, max_retries=0, scheduling_strategy=there)
                pending[task.remote(set(self.versions) - {"Python"}, packages)] = node
        if not pending:
            return {}
        done, silent = ray.wait(list(pending), num_returns=len(pending), timeout=_INSPECT_SECONDS)
        for reference in silent:
            warnings.warn(f"node {_address_of(pending[reference])} does not answer", MazeWarning, stacklevel=2)
        found = {}
        for reference in done:
            with contextlib.suppress(*_GONE):
                found[pending[reference]] = ray.get(reference)
        return found


def connect(options: RayOptions) -> Connection:
    """Join the cluster that the options name, or start one; later calls return the same connection.

    A process that is connected already, by a script that called `ray.init`, stays where it is.

    Raises:
        RequestError: an earlier pool of this process asked for another cluster or folder, or the cluster refuses us.
        WorkerError: nobody answers at that address.
    """
    if not ray.is_initialized():
        _initialize(options)
    connection = _of_job(ray.get_runtime_context().get_job_id())
    wanted = (options.address, options.working_dir)
    if connection.target is None:
        connection.target = wanted
    if connection.target != wanted:
        raise RequestError(
            "this process is connected to a Ray cluster and stays so until it ends",
            received=f"address {wanted[0]!r}, working_dir {wanted[1]!r}",
            expected=f"address {connection.target[0]!r}, working_dir {connection.target[1]!r}",
            owner=_OWNER,
            help="use one cluster and one folder in a process",
        )
    return connection


@functools.lru_cache(maxsize=1)
def _of_job(job: str) -> Connection:
    """The connection belongs to the process as Ray's own does; a new one follows where a script ended Ray's."""
    return Connection(job)


def _initialize(options: RayOptions) -> None:
    how: dict[str, Any] = {"address": options.address or "local", "logging_level": "ERROR"}
    if not options.address:
        how["include_dashboard"] = False
    else:
        check_address(options.address)
    if options.working_dir:
        how["runtime_env"] = {"working_dir": str(_existing(options.working_dir))}
    try:
        with _signals_kept():
            ray.init(**how)
    except ray.exceptions.AuthenticationError as error:
        raise unauthenticated(options.address, str(error)) from error
    except ConnectionError as error:
        why = str(error).strip().partition("\n")[0]
        raise unanswered(options.address or "this machine", why or type(error).__name__) from error
    except (RuntimeError, ValueError) as error:
        raise RequestError(
            f"the Ray cluster at {options.address or 'this machine'!r} refuses this process",
            received=str(error),
            owner=_OWNER,
            help="use the cluster's versions of Ray and Python",
        ) from error
    if not options.address:
        protect_token_file()
    output.divert()


def _existing(folder: str) -> Path:
    path = Path(folder).expanduser().resolve()
    if not path.is_dir():
        raise RequestError(
            "the folder that is to be sent to the cluster is not there",
            received=str(path),
            option="working_dir",
            owner=_OWNER,
            help="give the folder of the experiment",
        )
    return path


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray takes SIGTERM over, on which a run saves a checkpoint."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _by_value(*which: Any) -> Iterator[None]:
    """A node without Maze can be asked all the same."""
    for module in which:
        ray.cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in which:
            ray.cloudpickle.unregister_pickle_by_value(module)


def _alive() -> list[str]:
    return [node["NodeID"] for node in ray.nodes() if node["Alive"]]


def _address_of(node_id: str) -> str:
    addresses = [node["NodeManagerAddress"] for node in ray.nodes() if node["NodeID"] == node_id]
    return f"{addresses[0] if addresses else 'unknown'} ({node_id[:8]})"
