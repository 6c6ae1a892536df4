"""The figures of `cluster.py` that size a cluster, and the sums for a thousand actors.

`docs/explanation/scaling.md` explains them; the letters are those of that page.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cluster_tables import LARGE_BYTES, SUBPROCESS, Figure, grouped, median_of, table_of

N_ACTORS, N_ENVS, N_STEPS = 1000, 16, 128
WEIGHT_BYTES, DECISION_BYTES = 40_000, 47
"""P and d of LunarLander-v3 with the default model (scaling.py)."""
NETWORK_BYTES = 1.25e9
"""B: a connection of 10 Gbit/s."""
SIMULATIONS = {"78 µs": 78e-6, "1 ms": 1e-3, "10 ms": 1e-2}
"""t: LunarLander-v3 (scaling.py), and two that take longer."""
CORE_SECONDS = {"PPO": 11e-6, "IMPALA": 2.9e-6}
"""u on one core: a compiled gradient step of 730 µs for 256 decisions, four passes and one (performance.md)."""
SPEEDS = {"one core": 1, "a learner 100 × as fast": 100}


class Costs(NamedTuple):
    """What actors on a pool cost, in seconds.

    Attributes:
        call: an empty call and its answer.
        load: what one more actor adds to a broadcast of 40 KB, its call included.
        load_large: the same of 40 MB.
        byte: one byte of a large answer.
    """

    call: float
    load: float
    load_large: float
    byte: float


def sums(figures: Sequence[Figure]) -> list[str]:
    """Both tables; nothing where too little was measured."""
    pools = list(dict.fromkeys(figure.pool for figure in figures))
    costs = {pool: found for pool in pools if (found := costs_of(figures, pool)) is not None}
    if not costs:
        return []
    clusters = [pool for pool in costs if pool != SUBPROCESS]
    return [_named(costs), *(_thousand(pool, costs[pool]) for pool in clusters[-1:])]


def costs_of(figures: Sequence[Figure], pool: str) -> Costs | None:
    """The costs on a pool; None where one of the figures was not measured."""
    most = max(figure.n_actors for figure in figures)
    call = median_of(figures, "calls", pool, most)
    answers = median_of(figures, "answers-10mb", pool, most)
    small, large = (_added(figures, part, pool, most) for part in ("broadcast-40kb", "broadcast-40mb"))
    if call is None or answers is None or small is None or large is None:
        return None
    return Costs(1 / call, small, large, 1 / (answers * LARGE_BYTES))


def _added(figures: Sequence[Figure], part: str, pool: str, most: int) -> float | None:
    """Seconds that each further actor adds to a broadcast."""
    first, last = (median_of(figures, part, pool, n_actors) for n_actors in (1, most))
    if first is None or last is None or most == 1:
        return None
    return (1 / last - 1 / first) / (most - 1)


def _named(costs: dict[str, Costs]) -> str:
    rows = [
        ["`call`, µs", *(f"{cost.call * 1e6:.0f}" for cost in costs.values())],
        ["`load`, 40 KB, µs", *(f"{cost.load * 1e6:.0f}" for cost in costs.values())],
        ["`load`, 40 MB, ms", *(f"{cost.load_large * 1e3:.2g}" for cost in costs.values())],
        ["`byte`, ns", *(f"{cost.byte * 1e9:.2g}" for cost in costs.values())],
    ]
    return table_of("The figures that sums need", ["", *costs], rows)


def _thousand(pool: str, cost: Costs) -> str:
    """The sums for each simulation and learner."""
    decisions = N_ENVS * N_STEPS
    serving = cost.load + decisions * DECISION_BYTES * cost.byte
    sending = (WEIGHT_BYTES + decisions * DECISION_BYTES) / NETWORK_BYTES
    rows = [
        _line("a rollout of an actor, R", _time),
        _line("serving all, W · s", lambda _: _time(N_ACTORS * serving)),
        _line("the network, W · n", lambda _: _time(N_ACTORS * sending)),
    ]
    for (name, seconds), (speed, factor) in itertools.product(CORE_SECONDS.items(), SPEEDS.items()):
        rows += _with_learner(f"{name}, {speed}", name == "PPO", decisions * seconds / factor, max(serving, sending))
    letters = (
        f"W = {grouped(N_ACTORS)}, E = {N_ENVS}, T = {N_STEPS}, P = {WEIGHT_BYTES // 1000} KB, d = {DECISION_BYTES}"
    )
    return table_of(f"A thousand actors, {pool}: {letters}", ["t, a decision", *SIMULATIONS], rows)


def _with_learner(name: str, waits: bool, learning: float, exchange: float) -> list[list[str]]:
    """What a learner adds.

    Args:
        waits: actors for the learner, and it for them.
        learning: l, from the rollout of one actor.
        exchange: max(s, n).
    """

    def at_work(rollout: float) -> str:
        busy = N_ACTORS * exchange, N_ACTORS * learning
        return f"{rollout / (rollout + sum(busy) if waits else max(rollout, *busy)):.0%}"

    def feeds_on(rollout: float) -> str:
        return grouped(rollout / (exchange + learning if waits else max(exchange, learning)))

    return [
        _line(f"{name}: learning from all, W · l", lambda _: _time(N_ACTORS * learning)),
        _line(f"{name}: of their time actors work", at_work),
        _line(f"{name}: actors it feeds on, W*", feeds_on),
    ]


def _line(name: str, text: Callable[[float], str]) -> list[str]:
    """A row with a text for the rollout of each simulation."""
    return [name, *(text(N_ENVS * N_STEPS * seconds) for seconds in SIMULATIONS.values())]


def _time(seconds: float) -> str:
    value, unit = (seconds, "s") if seconds >= 1 else (seconds * 1e3, "ms")
    return f"{grouped(value) if value >= 10 else f'{value:.2g}'} {unit}"
