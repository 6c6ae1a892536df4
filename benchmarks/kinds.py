"""Every kind of work beside who else does it: ratios of throughput in one process, interleaved, and of peak memory.

    python benchmarks/kinds.py --list
    python benchmarks/kinds.py --only cartpole dict --rounds 5 --compile
    python benchmarks/kinds.py --compile --memory --write docs/explanation/kinds.md

Start-up and compilation are excluded: every contender warms up once. One torch thread.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import gymnasium
import torch

from interleaved import take_turns
from kind_ours import ours
from kind_rows import ROWS, Row

PEER, EAGER, COMPILED = "peer", "eager", "compiled"
_NOTHING: Mapping[str, Sequence[str]] = MappingProxyType({})
N_PEAKS = 3
BEGIN, END = "<!-- figures: benchmarks/kinds.py -->", "<!-- end of figures -->"


def measure(row: Row, rounds: int, with_compiled: bool) -> dict[str, list[float]]:
    """Figures of each contender, in turn, environment steps a second."""
    contenders = {PEER: row.make_peer(row.steps), EAGER: ours(row.experiment, row.steps, decisions=row.decisions)}
    if with_compiled and row.compiled:
        contenders[COMPILED] = ours(row.experiment, row.steps, compiled=True, decisions=row.decisions)
    return take_turns(contenders, rounds)


def peak_memory(name: str) -> dict[str, float]:
    """Peak resident memory of either side of a row, MiB, each time a process of its own: medians of `N_PEAKS`.

    Each loads its own library and not the other's. What the allocator keeps between blocks differs from one run to the
    next by some percent.
    """
    code = "import kinds, sys; print('PEAK', kinds.alone(*sys.argv[1:]))"
    peaks: dict[str, list[float]] = {PEER: [], EAGER: []}
    for _ in range(N_PEAKS):
        for side, found in peaks.items():
            done = subprocess.run(
                [sys.executable, "-c", code, name, side],
                cwd=Path(__file__).parent,
                capture_output=True,
                text=True,
                check=True,
            )
            found.append(float(done.stdout.split("PEAK")[-1]))
    return {side: statistics.median(found) for side, found in peaks.items()}


def alone(name: str, side: str) -> float:
    """Run one side of a row for a round in this process; returns its peak memory, MiB."""
    torch.set_num_threads(1)
    row = ROWS[name]
    contender = row.make_peer(row.steps) if side == PEER else ours(row.experiment, row.steps, decisions=row.decisions)
    contender()
    return max(_own_peak(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 1024


def _own_peak() -> int:
    """Peak resident memory of this process, KiB. `ru_maxrss` would begin with that of the process that started it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def table(results: Mapping[str, Mapping[str, Any]], before: Mapping[str, Sequence[str]] = _NOTHING) -> list[str]:
    """A Markdown table; what was not measured of a row is what it was `before`."""
    lines = [
        "| work | beside | its steps/s | eager ÷ it | compiled ÷ it | wanted | peak memory ÷ it |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in ROWS.items():
        if name in results or name in before:
            known = before.get(name, [""] * 7)
            cells = [new or old or "–" for new, old in zip(_cells(row, results.get(name, {})), known, strict=True)]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def _cells(row: Row, result: Mapping[str, Any]) -> list[str]:
    """Of a line of the table; "" for what was not measured."""
    return [
        row.what,
        row.peer,
        f"{statistics.median(result[PEER]):,.0f}" if result.get(PEER) else "",
        _ratios(result, EAGER),
        _ratios(result, COMPILED),
        " / ".join("–" if wanted is None else f"{wanted:g}" for wanted in row.wanted),
        f"{result['memory'][EAGER] / result['memory'][PEER]:.2f}" if "memory" in result else "",
    ]


def _ratios(result: Mapping[str, Any], side: str) -> str:
    """Median and quartiles of the ratios of rounds that followed one another: 2.10 (2.05 to 2.21)."""
    if not result.get(side):
        return ""
    ratios = [mine / yours for mine, yours in zip(result[side], result[PEER], strict=True)]
    if len(ratios) < 3:
        return f"{statistics.median(ratios):.2f}"
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def write(page: Path, results: Mapping[str, Mapping[str, Any]]) -> None:
    """Bring the table between the two comments of a page up to date."""
    before, rest = page.read_text().split(BEGIN)
    old, after = rest.split(END)
    page.write_text("\n".join([before + BEGIN, *table(results, _known(old)), END]) + after)


def _known(old: str) -> dict[str, list[str]]:
    """The cells of a table by the name of their row; lines of rows that are no more are left out."""
    names = {(row.what, row.peer): name for name, row in ROWS.items()}
    lines = [line.strip("| ").split(" | ") for line in old.splitlines()]
    return {names[cells[0], cells[1]]: cells for cells in lines if tuple(cells[:2]) in names}


def _that_fit() -> list[str]:
    """Every row, without those in bfloat16 where the processor has no instructions: they take twenty minutes each."""
    # Here, so that `alone` measures a peer without our library
    from maze_perception.models.precision import processor_has_bfloat16

    has_bfloat16 = processor_has_bfloat16()
    return [name for name, row in ROWS.items() if has_bfloat16 or not row.in_bfloat16]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="ROW", choices=ROWS, default=_that_fit(), help="see --list")
    parser.add_argument("--rounds", type=int, default=5, help="0: no throughput, for --memory alone")
    parser.add_argument(
        "--compile", action="store_true", help="add the compiled contenders (a minute a row to compile)"
    )
    parser.add_argument("--memory", action="store_true", help="add peak memory, each side in a process of its own")
    parser.add_argument("--list", action="store_true", help="name the rows and end")
    parser.add_argument("--json", type=Path, help="keep the figures of each round")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="new figures into the table of this page")
    return parser.parse_args()


def main() -> None:
    """Measure, print and keep."""
    arguments = _arguments()
    if arguments.list:
        print("\n".join(f"{name:<18} {row.what}; beside {row.peer}" for name, row in ROWS.items()))
        return
    torch.set_num_threads(1)
    print(f"gymnasium {gymnasium.__version__}, torch {torch.__version__}\n")
    if left_out := [name for name in ROWS if name not in arguments.only]:
        print(f"not measured: {', '.join(left_out)}\n")
    measured: dict[str, dict[str, Any]] = {}
    for name in arguments.only:
        print(f"# {name}", file=sys.stderr)
        measured[name] = dict(measure(ROWS[name], arguments.rounds, arguments.compile)) if arguments.rounds else {}
        if arguments.memory and not ROWS[name].elsewhere:
            measured[name]["memory"] = peak_memory(name)
        if arguments.json:
            arguments.json.write_text(json.dumps(measured, indent=1) + "\n")
        if arguments.write:
            write(arguments.write, measured)
    print("\n".join(table(measured)))


if __name__ == "__main__":
    main()
