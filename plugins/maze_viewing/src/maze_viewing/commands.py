"""`maze view`: recorded episodes as a page for browsers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from maze_kernel.cli.experiments import read_experiment
from maze_kernel.errors import RequestError

_ELSEWHERE = "name a file in another folder: --out FILE"


def view(
    source: Annotated[
        Path, typer.Argument(metavar="RUN|RECORDING", help="A run directory, a recording, or the file of an episode.")
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Write the page here; else view.html beside the episodes.")
    ] = None,
    episodes: Annotated[int, typer.Option("--episodes", min=1, help="Show at most so many episodes.")] = 3,
    seeds: Annotated[
        list[int] | None, typer.Option("--seed", help="Show the episode with this seed; may be given again.")
    ] = None,
    max_decisions: Annotated[
        int, typer.Option("--max-decisions", min=0, help="Draw no more decisions of an episode.")
    ] = 400,
    arguments: Annotated[
        list[str] | None,
        typer.Option("--draw", metavar="NAME=VALUE", help="An argument of the renderer; may be given again."),
    ] = None,
    experiment: Annotated[
        Path | None, typer.Option("--experiment", help="Read the experiment here instead of from the recording.")
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Show recorded episodes in the browser; a run without any plays some first."""
    from maze_runtime.run.writable import require_writable, writing
    from maze_trajectories.dataset import recordings_in
    from maze_viewing.recorded import recorded
    from maze_viewing.viewer import ViewOptions, view_page

    if out is not None and out.is_dir():
        raise RequestError(f"{out} is a folder", option="--out", expected="the file to write")
    options = ViewOptions(
        n_episodes=episodes, seeds=tuple(seeds or ()), max_decisions=max_decisions, arguments=_pairs(arguments or [])
    )
    loaded = None if experiment is None else read_experiment(experiment)
    source = recorded(source, episodes, loaded)
    if out is None and source.exists():
        folder = source.parent if source.is_file() else (recordings_in(source) or [source])[-1]
        out = folder / "view.html"
    if out is not None:
        require_writable(out.parent.absolute(), "the page", help=_ELSEWHERE)
    page = view_page(source, options, experiment=loaded, report=_report if sys.stderr.isatty() else lambda _text: None)
    assert out is not None  # a source that is not there has no page
    with writing(out, "the page", help=_ELSEWHERE):
        out.write_text(page, encoding="utf-8")
    print(f"open in a browser: {out}")
    if open_page:
        typer.launch(out.resolve().as_uri())


def _pairs(items: list[str]) -> dict[str, str]:
    pairs = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise RequestError(f"--draw takes NAME=VALUE, not {item!r}")
        pairs[name.strip()] = value.strip()
    return pairs


def _report(text: str) -> None:
    print(f"\r\033[Kdrawing {text}", end="\r\033[K" if text.split()[1] == text.split()[-1] else "", file=sys.stderr)
