"""What `maze rollout` prints: rewards and lengths, event statistics and KPIs, where the time went, and what failed."""

from __future__ import annotations

import json
import math
import numbers
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maze_kernel.cli.guard import message_lines
from maze_kernel.cli.tables import print_table
from maze_kernel.errors import MazeError, WorkerError
from maze_kernel.shown_command import shown_command
from maze_runtime.env.tracebacks import ALONE

if TYPE_CHECKING:
    from maze_runtime.playing.roll_out import ReplayResult, RolloutOptions, RolloutResult

_MOST_SHOWN = 8
"""So many numbers of an array are shown, e.g. how often each discrete action was taken."""

_SAMPLE = ("mean", "std", "min", "max", "median", "iqm")


def print_result(
    result: RolloutResult, player: str, options: RolloutOptions, *, as_json: bool, began_in: Path = Path()
) -> None:
    """What came of it, on standard output.

    Args:
        began_in: where the paths of the options begin; an environment may have changed the working directory.
    """
    from maze_runtime.playing.roll_out import ReplayResult

    if as_json:
        print(json.dumps(_plain(_as_data(result, player, options)), indent=2, allow_nan=False))
        return
    _print_tables(result, player)
    if isinstance(result, ReplayResult):
        _compare_with_recording(result)
    _print_what_was_written(options, began_in)


def print_failures(result: RolloutResult, path: str, began_in: Path = Path()) -> None:
    """Each traceback once, then each episode, then how to see the first whose environment failed alone.

    What an error of Maze says besides is written below the first episode that it ended.
    """
    failed = [episode for episode in result.episodes if episode.error is not None]
    for text in dict.fromkeys(episode.traceback for episode in failed if episode.traceback):
        print(f"{text.rstrip()}\n", file=sys.stderr)
    of_env = [episode.seed for episode in failed if _is_of_environment(episode.cause)]
    sees_alone = bool(of_env) and (began_in / path).is_file()
    told: set[tuple[str | None, ...]] = set()
    for episode in failed:
        print(f"failed: episode with seed {episode.seed}: {episode.error}", file=sys.stderr)
        cause = episode.cause
        if cause is not None and (own := (cause.what, cause.received, cause.expected, cause.help)) not in told:
            told.add(own)
            _print_details(cause, with_help=not (sees_alone and cause.help == ALONE))
    if sees_alone:
        command = shown_command("maze", "check", path, "--steps", 1000, "--seed", of_env[0])
        print(f"help: see the environment alone with that seed: {command}", file=sys.stderr)


def _is_of_environment(cause: MazeError | None) -> bool:
    """Whether an environment raised it, or may have taken its process along."""
    return cause is not None and (cause.seed is not None or (isinstance(cause, WorkerError) and cause.is_lost))


def _print_details(cause: MazeError, *, with_help: bool) -> None:
    """The lines of an error behind its first sentence."""
    lines = message_lines(cause)[len(f"error: {cause.what}".splitlines()) :]
    for line in lines if with_help else lines[:-1]:
        print(line, file=sys.stderr)


def _print_what_was_written(options: RolloutOptions, began_in: Path) -> None:
    """Each folder that holds something; one that would be empty is said to be."""
    for folder, what in (
        (options.video_dir, "films"),
        (options.events_dir, "events"),
        (options.record_dir, "recorded"),
    ):
        if folder is None:
            continue
        written = began_in / folder
        if not written.is_dir() or not any(written.iterdir()):
            print(f"no {what} were written" if what != "recorded" else "nothing was recorded")
        else:
            look = f"; look at it with: {shown_command('maze', 'view', folder)}" if what == "recorded" else ""
            print(f"{what} in {folder}{look}")


def _compare_with_recording(result: ReplayResult) -> None:
    n_episodes, different = len(result.episodes), result.different_seeds
    print(f"{n_episodes - len(different)} of {n_episodes} episodes came out as they were recorded")
    if different:
        shown = ", ".join(map(str, different[:10])) + (" …" if len(different) > 10 else "")
        print(f"different: the episodes with seeds {shown}", file=sys.stderr)
    if result.n_left_out:
        print(f"{result.n_left_out} left out, which were cut off before their end", file=sys.stderr)


def _print_tables(result: RolloutResult, player: str) -> None:
    """The tables, one under the other."""
    summary = result.summary
    failed = f", {summary['n_failed']} failed" if summary["n_failed"] else ""
    print(f"{summary['n_episodes']} episodes played by {player}{failed}")
    rows = [
        (name, *(f"{summary[name][column]:.6g}" for column in _SAMPLE))
        for name in ("reward", "length")
        if summary[name]
    ]
    if rows:
        print_table(("", *_SAMPLE), rows)
    if result.events:
        print()
        print_table(
            ("event statistic", "value"), [(tag, _shown(value)) for tag, value in sorted(result.events.items())]
        )
    if result.profile:
        print()
        print_table(("time spent in", "share"), [(name, f"{share:.1%}") for name, share in result.profile.items()])


def _as_data(result: RolloutResult, player: str, options: RolloutOptions) -> dict[str, Any]:
    """The same as JSON values; event statistics that are drawn in training are lists."""
    episodes = [
        {
            "seed": episode.seed,
            "reward": None if episode.error else episode.total_reward,
            "length": episode.length,
            "terminated": episode.terminated,
            "truncated": episode.truncated,
            "error": episode.error,
        }
        for episode in result.episodes
    ]
    about: dict[str, Any] = {"policy": player, "seed": options.seed, "deterministic": options.deterministic}
    about |= {**result.summary, "events": result.events}
    if result.profile:
        about["profile"] = dict(result.profile)
    return {**about, "episodes": episodes}


def _shown(value: Any) -> str:
    if isinstance(value, numbers.Real):
        return f"{float(value):.6g}"
    if isinstance(value, str) or not hasattr(value, "__len__"):
        return str(value)
    if getattr(value, "ndim", 0) == 1 and len(value) <= _MOST_SHOWN:
        return " ".join(f"{float(number):.6g}" for number in value)
    return f"{' x '.join(map(str, getattr(value, 'shape', (len(value),))))} values"


def _plain(value: Any) -> Any:
    """Nested values as JSON holds them; what is not a finite number is null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, (int, str, bool, type(None))) else str(value)
