"""`maze sweep`: try settings of an experiment, and find the best; `maze sweep-schema`: for editors."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maze_kernel.cli.experiments import Overrides
from maze_kernel.cli.tables import print_table
from maze_kernel.errors import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, RequestError
from maze_kernel.shown_command import shown_command
from maze_sweeps.kept import count_states, is_sweep

if TYPE_CHECKING:
    from maze_sweeps.base_experiment import BaseExperiment
    from maze_sweeps.sweep_reading import LoadedSweep
    from maze_sweeps.sweeping import SweepResult

_TOP = 10


def sweep(
    file: Annotated[Path | None, typer.Argument(help="The file of a sweep; may be left out with --resume.")] = None,
    overrides: Overrides = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", metavar="FOLDER", help="Continue the sweep in this folder.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder of the sweep; else sweeps/NAME/TIME.")] = None,
    parallel: Annotated[
        int | None, typer.Option("--parallel", min=1, help="Runs at a time; else as the file says, or one a processor.")
    ] = None,
    trials: Annotated[int | None, typer.Option("--trials", min=1, help="How many, whatever the file says.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the settings of the trials as --set items; train nothing.")
    ] = False,
) -> int:
    """Try settings of an experiment, in parallel, and find the best; --set changes the experiment of every trial."""
    from maze_runtime.training.interruption import ignore_ctrl_c

    items = tuple(overrides or ())
    base = None
    begun = [] if resume is None else [resume]

    def announce(path: Path) -> None:
        begun.append(path)
        print(f"folder of the sweep: {path}", file=sys.stderr)

    try:
        from maze_sweeps.sweeping import resume_sweep, run_sweep  # takes seconds, in which Ctrl-C may be pressed

        if resume is not None:
            _check_resume(out, items, dry_run)
            base = None if file is None else _experiment_of(file, resume)
            result = resume_sweep(resume, base, n_parallel=parallel, n_trials=trials)
        elif file is None:
            raise RequestError("there is nothing to sweep", help="give the file of a sweep, or --resume FOLDER")
        else:
            loaded = _read(file, items)
            if dry_run:
                return _print_trials(loaded, items, trials)
            base = loaded.base
            result = run_sweep(loaded, out=out, n_parallel=parallel, n_trials=trials, on_path=announce)
    except KeyboardInterrupt:
        ignore_ctrl_c()
        if not begun or not is_sweep(begun[0]):
            raise
        print(f"interrupted; {_kept(begun[0])}go on with: {_resume_command(begun[0], file, base)}", file=sys.stderr)
        return EXIT_INTERRUPTED
    if result.interrupted is not None:
        ignore_ctrl_c()
    experiment = base if base is not None and base.imports_code else None
    _print_result(result, experiment)
    if result.interrupted is not None:
        print(f"interrupted; go on with: {_resume_command(result.path, file, base)}")
        return EXIT_INTERRUPTED
    return EXIT_FAILED if result.best is None else EXIT_DONE


def sweep_schema(
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write it to this file.")] = None,
) -> None:
    """Print the JSON Schema of sweep files, for editors."""
    from maze_kernel.loader import Kernel
    from maze_runtime.run.writable import writing
    from maze_sweeps.sweep_schema import sweep_schema as schema_of

    text = json.dumps(schema_of(Kernel.installed()), indent=2, sort_keys=True)
    if out is None:
        typer.echo(text)
        return
    with writing(out, "the schema"):
        out.write_text(f"{text}\n", encoding="utf-8")
    typer.echo(f"wrote {out}; begin the file of a sweep with the line `#:schema {out}`", err=True)


def _read(file: Path, items: tuple[str, ...]) -> LoadedSweep:
    """The sweep of a file; modules beside it and beside its experiment can be imported."""
    from maze_sweeps.sweep_reading import experiment_path, load_sweep

    for beside in (file, experiment_path(file)):
        folder = str(beside.resolve().parent)
        if folder not in sys.path:
            sys.path.append(folder)
    return load_sweep(file, overrides=items)


def _experiment_of(file: Path, folder: Path) -> BaseExperiment:
    """The experiment that the user's own file names, changed as it was when the sweep began."""
    from maze_sweeps.folder import read_record

    return _read(file, tuple(read_record(folder)["set"])).base


def _kept(folder: Path) -> str:
    """The trials that an interrupted sweep has in its folder, for what is said before how to go on."""
    counts = ", ".join(f"{count} {state}" for state, count in count_states(folder).items())
    return f"trials kept: {counts}; " if counts else ""


def _resume_command(folder: Path, file: Path | None, base: BaseExperiment | None) -> str:
    """What goes on with a sweep; only the user's own file may ask for code by path, as one not yet read might."""
    own = (file,) if file is not None and (base is None or base.imports_code) else ()
    return shown_command("maze", "sweep", *own, "--resume", folder)


def _check_resume(out: Path | None, items: tuple[str, ...], dry_run: bool) -> None:
    if out is not None:
        raise RequestError("a resumed sweep stays in its folder", received=f"--out {out}", help="leave it out")
    if items:
        raise RequestError("a resumed sweep keeps its experiment", received=f"--set {items[0]}", help="leave --set out")
    if dry_run:
        raise RequestError("a dry run begins nothing", received="--dry-run and --resume", help="leave one of them out")


def _print_trials(loaded: LoadedSweep, shared: tuple[str, ...], n_trials: int | None) -> int:
    from maze_sweeps.items import set_items
    from maze_sweeps.sweeping import dry_run

    for settings in dry_run(loaded, n_trials):
        items = (*shared, *set_items(settings))
        print(shown_command(settings=items))
    return EXIT_DONE


def _print_result(result: SweepResult, experiment: BaseExperiment | None) -> None:
    """Everything a sweep came to.

    Args:
        experiment: where it imports code by path, which only the user's own file may ask for.
    """
    from maze_sweeps.ranking import in_order
    from maze_sweeps.tables import terminal_table

    states = [trial.state for trial in result.trials]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    print(f"{len(states)} trials by {result.metric}{', less is better' if result.minimize else ''}: {counts or 'none'}")
    ordered = in_order(result.trials, result.minimize)
    print_table(*terminal_table(ordered, _TOP))
    if len(ordered) > _TOP:
        print(f"… and {len(ordered) - _TOP} more in {result.path / 'table.csv'}")
    for trial in ordered:
        if trial.state == "failed":
            print(f"trial {trial.number} failed: {trial.reason}", file=sys.stderr)
    if result.importances:
        print("\nhow much each setting mattered")
        shares = sorted(result.importances.items(), key=lambda item: -item[1])
        print_table(["setting", "share"], [[name, f"{share:.0%}"] for name, share in shares])
    _print_best(result, experiment)


def _print_best(result: SweepResult, experiment: BaseExperiment | None) -> None:
    from maze_sweeps.items import set_items

    best = result.best
    if best is None:
        print("no trial was finished")
        return
    confirmed = "" if best.confirmed is None else f", {best.confirmed:.6g} on seeds that the search never saw"
    print(f"\nbest: trial {best.number} with {best.value:.6g}{confirmed}")
    for item in set_items(best.settings):
        print(f"  {item}")
    file = result.path / "best.toml"
    if file.is_file():
        print(f"as an experiment: {file}")
        items = () if experiment is None else (*experiment.shared, *set_items(best.settings))
        source = file if experiment is None else experiment.origin.file
        print(f"train it with: {shown_command('maze', 'train', source, settings=items)}")
    print(f"compare the trials with: {shown_command('maze', 'compare', result.path / 'trials')}")
    report = result.path / "report.html"
    if report.is_file():
        print(f"open in a browser: {report}")
    else:
        print(f"report them with: {shown_command('maze', 'report', result.path)}")
