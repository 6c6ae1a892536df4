"""Training on a GPU beside Stable-Baselines3 on the same GPU.

    python benchmarks/gpu.py --list
    python benchmarks/gpu.py --only sac pong --rounds 3 --compile
    python benchmarks/gpu.py --compile --json gpu.json --write docs/how-to/gpu.md

Rows, networks and settings are those of kinds.py. Contenders take turns in one process and warm up once, so that
start-up, compilation and the capture of most graphs are excluded. One torch thread.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

import kind_peers
from interleaved import Contender, median_ratio, take_turns
from kind_ours import ours
from kind_rows import ROWS

PEER, OURS, COMPILED, CPU = "peer", "ours", "compiled", "cpu"
WORK = ["pong", "pong-batch", "sac", "sac-dict", "sac-images", "td3", "dqn", "halfcheetah", "dict", "lstm-128"]
FEWER_STEPS = {"halfcheetah": 2048, "dqn": 2000}
BEGIN, END = "<!-- figures: benchmarks/gpu.py -->", "<!-- end of figures -->"


def measure(name: str, rounds: int, contenders: Sequence[str]) -> dict[str, list[float]]:
    """Environment steps a second of each contender, in turn."""
    row, kind_peers.device = ROWS[name], "cuda"
    steps = FEWER_STEPS.get(name, row.steps)
    makers: Mapping[str, Callable[[], Contender]] = {
        PEER: lambda: row.make_peer(steps),
        OURS: lambda: ours(row.experiment, steps, device="cuda"),
        COMPILED: lambda: ours(row.experiment, steps, compiled=True, device="cuda"),
        CPU: lambda: ours(row.experiment, steps),
    }
    return take_turns({contender: makers[contender]() for contender in contenders}, rounds)


def table(results: Mapping[str, Mapping[str, Sequence[float]]]) -> list[str]:
    """A Markdown table."""
    titles = {OURS: "ours ÷ it", COMPILED: "compiled ÷ it", CPU: "ours on the CPU ÷ it"}
    shown = [own for own in titles if any(own in figures for figures in results.values())]
    columns = ["work", "beside, on the GPU", "its steps/s", *(titles[own] for own in shown)]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for name, figures in results.items():
        row = ROWS[name]
        ratios = [f"{median_ratio(figures[own], figures[PEER]):.2f}" if own in figures else "–" for own in shown]
        lines.append(f"| {row.what} | {row.peer} | {statistics.median(figures[PEER]):,.0f} | {' | '.join(ratios)} |")
    return lines


def write(page: Path, lines: Sequence[str]) -> None:
    """Replace the table between the two comments of a page."""
    before, rest = page.read_text().split(BEGIN)
    after = rest.split(END)[1]
    page.write_text("\n".join([before + BEGIN, *lines, END]) + after)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="ROW", choices=WORK, default=WORK)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compile", action="store_true", help="add the compiled contenders")
    parser.add_argument("--cpu", action="store_true", help="add ours on the CPU of the same machine")
    parser.add_argument("--list", action="store_true", help="name the rows and end")
    parser.add_argument("--json", type=Path, help="keep the figures of each round; what is there of other rows stays")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="all figures of --json into the table of this page")
    return parser.parse_args()


def main() -> None:
    """Measure, print and keep."""
    arguments = _arguments()
    if arguments.list:
        print("\n".join(f"{name:<12} {ROWS[name].what}; beside {ROWS[name].peer}" for name in WORK))
        return
    if not torch.cuda.is_available():
        sys.exit("there is no CUDA device here")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    torch.set_num_threads(1)
    contenders = [PEER, OURS, *([COMPILED] if arguments.compile else []), *([CPU] if arguments.cpu else [])]
    kept = arguments.json is not None and arguments.json.exists()
    results = json.loads(arguments.json.read_text()) if kept else {}
    for name in arguments.only:
        print(f"# {name}", file=sys.stderr, flush=True)
        results[name] = measure(name, arguments.rounds, contenders)
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    print("\n".join(table(results)))
    if arguments.write:
        write(arguments.write, table(results))


if __name__ == "__main__":
    main()
