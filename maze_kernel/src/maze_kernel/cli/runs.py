"""`maze train`, `maze rollout` and `maze show`."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maze_kernel.cli.experiments import Overrides, read_experiment
from maze_kernel.cli.rollout_report import print_rollout, rollout_as_data
from maze_kernel.cli.tables import print_table
from maze_kernel.errors import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EnvError,
    MazeError,
    RequestError,
    WorkerError,
)

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.loader import Kernel
    from maze_kernel.rollout.episodes import EpisodeResult
    from maze_kernel.rollouts import ReplayResult, RolloutOptions, RolloutResult
    from maze_kernel.run.logging_contract import Outcome
    from maze_kernel.training.checkpoint import Checkpoint


def train(
    file: Annotated[Path | None, typer.Argument(help="An experiment file; may be left away with --resume.")] = None,
    overrides: Overrides = None,
    resume: Annotated[Path | None, typer.Option("--resume", help="Continue this run directory.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Run directory; else runs/NAME/TIME.")] = None,
    max_seconds: Annotated[float | None, typer.Option("--max-seconds", help="Stop after this wall-clock time.")] = None,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show all statistics of each epoch.")] = False,
) -> int:
    """Train an experiment, or continue a run."""
    from maze_kernel.training.train import train as run_training

    loaded, kernel = _experiment_to_train(file, tuple(overrides or ()), resume)
    run_dirs: list[Path] = []

    def announce(path: Path) -> None:
        run_dirs.append(path)
        print(f"run directory: {path}", file=sys.stderr)

    try:
        result = run_training(
            loaded,
            kernel,
            run_dir=out,
            resume=None if resume is None else newest_run(resume),
            max_seconds=max_seconds,
            verbosity=int(verbose),
            on_run_dir=announce,
        )
    except (EnvError, WorkerError) as error:
        _say_how_to_go_on(error, run_dirs, file, overrides)
        raise
    if result.outcome.status == "interrupted":
        print(
            f"interrupted after epoch {result.epochs}; go on with: {_resume_command(result.run_dir, file, overrides)}"
        )
        return EXIT_INTERRUPTED
    steps = f" and {result.env_steps} environment steps" if result.env_steps else ""
    print(f"{result.outcome.status} after epoch {result.epochs}{steps}{_best(result.outcome)}")
    print(f"roll it out with: maze rollout {result.run_dir}{_experiment_option(result.run_dir, file)}")
    return EXIT_FAILED if result.outcome.status == "failed" else EXIT_DONE


def _best(outcome: Outcome) -> str:
    """The best value and what it is a value of: of evaluations or, in a run without any, of training episodes."""
    if outcome.best_metric is None:
        return ""
    what = "mean reward" if outcome.metric == "BaseEnvEvents/reward/mean" else outcome.metric
    return f", best {what} {outcome.best_metric:.6g}"


def rollout(
    source: Annotated[Path, typer.Argument(metavar="RUN|FILE", help="A run directory or an experiment file.")],
    episodes: Annotated[int, typer.Option("--episodes", min=1, help="Episodes to play.")] = 10,
    policy: Annotated[
        str | None, typer.Option("--policy", help="A policy by name or import path, instead of the trained one.")
    ] = None,
    deterministic: Annotated[
        bool, typer.Option("--deterministic/--stochastic", help="Take the mode of each distribution, or sample.")
    ] = True,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The seeds of all episodes follow from it.")] = 0,
    checkpoint: Annotated[str, typer.Option("--checkpoint", help="best, last or epoch-N.")] = "best",
    experiment: Annotated[
        Path | None, typer.Option("--experiment", help="Read the experiment here instead of from the run.")
    ] = None,
    max_steps: Annotated[int | None, typer.Option("--max-steps", min=1, help="Cut longer episodes.")] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes that play; else as the experiment says.")
    ] = None,
    render: Annotated[bool, typer.Option("--render", help="Show the episodes in a window.")] = False,
    video: Annotated[Path | None, typer.Option("--video", metavar="DIR", help="Write a film of each episode.")] = None,
    record: Annotated[
        bool,
        typer.Option("--record", help="Record the episodes into RUN/trajectories/TIME, or trajectories/NAME/TIME."),
    ] = False,
    record_to: Annotated[
        Path | None, typer.Option("--record-to", metavar="DIR", help="Record the episodes into this new folder.")
    ] = None,
    replayed: Annotated[
        Path | None,
        typer.Option(
            "--replay", metavar="DIR", help="Take the actions of these recorded episodes again, seed by seed."
        ),
    ] = None,
    events: Annotated[
        bool, typer.Option("--events", help="Write every event as CSV into RUN/events/TIME, or events/NAME/TIME.")
    ] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Show where the time goes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> int:
    """Play episodes with a trained policy or another one."""
    from maze_kernel.config import select
    from maze_kernel.rollouts import ReplayResult, RolloutOptions, replay, roll_out

    if replayed is not None and policy is not None:
        raise RequestError("--replay and --policy exclude each other", help="leave one out")
    loaded, kernel, weights = what_to_play(source, experiment, "replay" if replayed else policy, checkpoint)
    if record and record_to is None:
        record_to = new_folder(source, "trajectories", loaded.experiment.name)
    events_to = new_folder(source, "events", loaded.experiment.name) if events else None
    options = RolloutOptions(
        n_episodes=episodes,
        seed=seed,
        deterministic=deterministic,
        max_steps=max_steps,
        n_workers=workers,
        render=render,
        video_dir=video,
        record_dir=record_to,
        events_dir=events_to,
        profile=profile,
    )
    run_dir = None if source.is_file() else newest_run(source)
    result: RolloutResult
    if replayed is not None:
        result = replay(loaded, kernel, replayed, options, run_dir=run_dir)
        player = f"the recording {replayed}"
    else:
        player_selection = select(kernel, "policy", policy or "random", origin="--policy")
        result = roll_out(
            loaded,
            kernel,
            options,
            checkpoint=weights,
            policy=player_selection,
            run_dir=run_dir,
            on_result=_report_progress(episodes),
            report=lambda text: print(text, file=sys.stderr),
        )
        player = policy or ("random" if weights is None else f"{source} at epoch {weights.epoch}")
    if as_json:
        print(json.dumps(rollout_as_data(result, player, options), indent=2))
    else:
        print_rollout(result, player)
        if isinstance(result, ReplayResult):
            _compare_with_recording(result)
        _print_what_was_written(options)
    for episode in result.episodes:
        if episode.error is not None:
            print(f"failed: episode with seed {episode.seed}: {episode.error}", file=sys.stderr)
    return EXIT_FAILED if result.summary["n_failed"] else EXIT_DONE


def _print_what_was_written(options: RolloutOptions) -> None:
    if options.video_dir is not None:
        print(f"films in {options.video_dir}")
    if options.events_dir is not None:
        print(f"events in {options.events_dir}")
    if options.record_dir is not None:
        print(f"recorded in {options.record_dir}; look at it with: maze view {options.record_dir}")


def new_folder(source: Path, kind: str, name: str) -> Path:
    """A new folder for "trajectories" or "events": in the run directory, or beside those of other experiments."""
    from maze_kernel.run.directory import new_path

    return new_path(Path(kind), name) if source.is_file() else new_path(newest_run(source), kind)


def _compare_with_recording(result: ReplayResult) -> None:
    n_episodes, different = len(result.episodes), result.different_seeds
    print(f"{n_episodes - len(different)} of {n_episodes} episodes came out as they were recorded")
    if different:
        shown = ", ".join(map(str, different[:10])) + (" …" if len(different) > 10 else "")
        print(f"different: the episodes with seeds {shown}", file=sys.stderr)
    if result.n_left_out:
        print(f"{result.n_left_out} left out, which were cut off before their end", file=sys.stderr)


def show(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print run.json as it is.")] = False,
) -> None:
    """Show what a run is, where it came from and its checkpoints."""
    from maze_kernel.run.directory import open_run
    from maze_kernel.training.checkpoint_store import CheckpointStore

    stored = open_run(newest_run(run))
    if as_json:
        print((stored.path / "run.json").read_text(encoding="utf-8"), end="")
        return
    store = CheckpointStore(stored.path)
    epochs = ", ".join(str(epoch) for epoch in store.epochs()) or "none yet"
    record = stored.record
    rows = [
        ("run", str(stored.path)),
        ("name", stored.name),
        ("created", record.created),
        ("environment", _describe(stored.resolved.get("env"))),
        ("trainer", _describe(stored.resolved.get("trainer"))),
        ("seed", str(stored.resolved.get("seed"))),
        ("state", _last_note(stored.path)),
        ("overrides", " ".join(stored.overrides) or "none"),
        ("resumed", ", ".join(f"from epoch {entry.epoch}" for entry in record.resumed) or "never"),
        ("checkpoints", f"{epochs} (best {store.pointed('best')}, last {store.pointed('last')})"),
        ("plugins", ", ".join(f"{plugin.name} {plugin.version}".strip() for plugin in record.plugins)),
    ]
    print_table(("", ""), rows)


def _last_note(run: Path) -> str:
    """The last line of `log.txt`, e.g. "done: all 24 epochs done"."""
    try:
        lines = (run / "log.txt").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    return lines[-1].partition(" ")[2] if lines else "nothing noted"


def newest_run(path: Path) -> Path:
    """The run directory itself, or the newest run in a folder of runs."""
    if (path / "run.json").is_file() or not path.is_dir():
        return path
    runs = sorted(child for child in path.iterdir() if (child / "run.json").is_file())
    return runs[-1] if runs else path


def _experiment_to_train(
    file: Path | None, overrides: tuple[str, ...], resume: Path | None
) -> tuple[LoadedExperiment, Kernel]:
    from maze_kernel.training.resume import stored_experiment

    if file is not None:
        return _and_kernel(read_experiment(file, overrides))
    if resume is None:
        raise RequestError("there is nothing to train", help="give an experiment file, or --resume RUN")
    return _and_kernel(stored_experiment(newest_run(resume), overrides=overrides))


def _experiment_option(run: Path, file: Path | None) -> str:
    """` --experiment FILE` where the run imports code by path, which only the user's own file may ask for."""
    from maze_kernel.training.resume import stored_experiment

    try:
        stored_experiment(run)
    except RequestError:
        return f" --experiment {file}"
    return ""


def _resume_command(run: Path, file: Path | None, overrides: list[str] | None) -> str:
    """What goes on from the last checkpoint of `run`; a file is read again with the overrides that it had."""
    if not _experiment_option(run, file):
        return f"maze train --resume {run}"
    settings = "".join(f" --set {shlex.quote(item)}" for item in overrides or ())
    return f"maze train {file}{settings} --resume {run}"


def _say_how_to_go_on(error: MazeError, run_dirs: list[Path], file: Path | None, overrides: list[str] | None) -> None:
    """Name the command that goes on from the last checkpoint of a run that failed, if it has one."""
    from maze_kernel.training.checkpoint_store import CheckpointStore

    epochs = CheckpointStore(run_dirs[0]).epochs() if run_dirs else []
    if not epochs:
        return
    error.help = f"{error.help}; " if error.help else ""
    error.help += f"go on from epoch {epochs[-1]} with: {_resume_command(run_dirs[0], file, overrides)}"


def _and_kernel(loaded: LoadedExperiment) -> tuple[LoadedExperiment, Kernel]:
    return loaded, loaded.kernel


def what_to_play(
    source: Path, experiment: Path | None, policy: str | None, checkpoint: str
) -> tuple[LoadedExperiment, Kernel, Checkpoint | None]:
    """Experiment, plugins and weights of a run; no weights for an experiment file, or where a policy is named."""
    from maze_kernel.training.playing import load_checkpoint
    from maze_kernel.training.resume import stored_experiment

    if source.is_file():
        return *_and_kernel(read_experiment(source)), None
    if not source.exists():
        raise RequestError(f"there is no run directory or experiment file {source}", help="maze train FILE makes a run")
    run = newest_run(source)
    if experiment is not None:
        loaded, kernel = _and_kernel(read_experiment(experiment))
    else:
        loaded, kernel = _and_kernel(stored_experiment(run))
    return loaded, kernel, None if policy is not None else load_checkpoint(run, checkpoint)


def _report_progress(n_episodes: int) -> Any:
    """A counter on stderr while episodes are played, on a terminal only."""
    if not sys.stderr.isatty():
        return lambda _result: None
    done = 0

    def report(_result: EpisodeResult) -> None:
        nonlocal done
        done += 1
        print(f"\repisode {done} of {n_episodes}", end="" if done < n_episodes else "\r\033[K", file=sys.stderr)

    return report


def _describe(table: Any) -> str:
    if not isinstance(table, dict):
        return "?"
    return f"{table.get('use', '?')} {table['id']}" if isinstance(table.get("id"), str) else str(table.get("use", "?"))
