"""What `maze rollout` prints: rewards and lengths, event statistics and KPIs, and where the time went."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from maze_kernel.cli.tables import print_table

if TYPE_CHECKING:
    from maze_runtime.playing.roll_out import RolloutOptions, RolloutResult

_MOST_SHOWN = 8
"""So many numbers of an array are shown, e.g. how often each discrete action was taken."""

_SAMPLE = ("mean", "std", "min", "max", "median", "iqm")


def print_rollout(result: RolloutResult, player: str) -> None:
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


def rollout_as_data(result: RolloutResult, player: str, options: RolloutOptions) -> dict[str, Any]:
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
    about |= {**result.summary, "events": _plain(result.events)}
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
    """Nested values as JSON holds them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, (int, float, str, bool, type(None))) else str(value)
