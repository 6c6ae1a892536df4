"""The folder of a sweep: what is written when it begins, what is read when it goes on, and who may write to it.

sweep.toml         the sweep's file, verbatim; what counts when it goes on
sweep.json         name, metric, number of trials, seeds, where the files came from and what they said
experiment.toml    what every trial is loaded from; the experiment's file, verbatim
.maze-lock         process and host that train it, while they do
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from maze_kernel.config.resolved import to_toml
from maze_kernel.config.source import parse_toml, read_toml
from maze_kernel.errors import ExperimentError, FormatError, RequestError
from maze_kernel.shown_command import shown_command
from maze_runtime.run.directory import encode_json_lenient, new_path
from maze_runtime.run.folder_lock import FolderLock
from maze_runtime.run.storage import Storage, remove_leftovers, replace_file, replace_json
from maze_sweeps.base_experiment import BaseExperiment, base_of_file
from maze_sweeps.kept import is_sweep
from maze_sweeps.sweep_reading import STORED_EXPERIMENT, STORED_SWEEP, LoadedSweep, load_sweep

FORMAT = 1
MAY_CHANGE = ("workers", "timeout_seconds")
"""Entries of the sweep's file that say how it is trained, and not what."""
_STORAGE = Storage()


def locked(folder: Path) -> FolderLock:
    """Be the only one that trains a sweep, in a `with` block.

    Raises:
        RequestError: another process trains it.
    """
    return FolderLock(folder, "sweep")


def create_folder(sweep: LoadedSweep, out: Path | None) -> Path:
    """A new folder, `sweeps/<name>/<UTC time>-<4 hex>/` or `out`, without its `sweep.json`.

    Raises:
        RequestError: `out` is in use, or the folder cannot be written.
    """
    path = new_path(Path("sweeps"), sweep.name) if out is None else out
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        go_on = f", or continue it with: {shown_command('maze', 'sweep', '--resume', path)}"
        help_ = f"name another one{go_on if is_sweep(path) else ''}"
        raise RequestError(f"the folder {path} exists and is not empty", help=help_)
    try:
        path.mkdir(parents=True, exist_ok=True)
        for name, text in _stored_files(sweep).items():
            replace_file(_STORAGE, path / name, text.encode())
    except OSError as error:
        raise RequestError(f"the folder {path} cannot be written: {error}") from error
    return path


def write_record(path: Path, sweep: LoadedSweep, n_trials: int) -> None:
    """Write `sweep.json`, which makes the folder a sweep.

    Raises:
        RequestError: the folder cannot be written.
    """
    record = {
        "format": FORMAT,
        "name": sweep.name,
        "metric": sweep.metric.text,
        "objective": sweep.file.objective,
        "n_trials": n_trials,
        "seeds": list(sweep.file.search_seeds),
        "confirm_seeds": list(sweep.file.confirm_seeds),
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "source": sweep.source,
        "experiment": sweep.base.origin.file,
        "set": list(sweep.base.shared),
        "files": {name: _as_json(parse_toml(text, name)[0]) for name, text in _stored_files(sweep).items()},
        "resolved": _as_json(sweep.base.loaded.resolved),
    }
    _write(path, record)


def _stored_files(sweep: LoadedSweep) -> dict[str, str]:
    """Name to text of the files of a folder that count; an experiment with objects from Python has none."""
    files = {STORED_SWEEP: sweep.text, STORED_EXPERIMENT: sweep.base.text}
    return {name: text for name, text in files.items() if text}


def _as_json(data: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(encode_json_lenient(data))
    return found


def change_n_trials(path: Path, n_trials: int) -> None:
    """Let a sweep want another number of trials; where it came from stays.

    Raises:
        RequestError: the folder has no readable `sweep.json`, or cannot be written.
    """
    _write(path, {**read_record(path), "n_trials": n_trials})


def _write(path: Path, record: Mapping[str, Any]) -> None:
    try:
        replace_json(_STORAGE, path / "sweep.json", record)
    except OSError as error:
        raise RequestError(f"the folder {path} cannot be written: {error}") from error


def read_record(path: Path) -> Mapping[str, Any]:
    """The content of `sweep.json`.

    Raises:
        RequestError: the folder has none, or it is damaged.
        FormatError: another version of Maze wrote it.
    """
    file = path / "sweep.json"
    if not file.is_file():
        raise RequestError(
            f"{path} is not the folder of a sweep: it has no sweep.json",
            help="give the folder that maze sweep printed when it began",
        )
    try:
        record = json.loads(file.read_bytes())
        if record["format"] != FORMAT:
            raise FormatError(
                f"{file} has another format", received=f"format {record['format']}", expected=f"format {FORMAT}"
            )
        _ = int(record["n_trials"]), [str(item) for item in record["set"]], dict(record["resolved"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RequestError(f"{file} cannot be read: {error!r}", help="give the folder of a sweep") from error
    return record  # type: ignore[no-any-return]


def open_sweep(path: Path, experiment: BaseExperiment | None = None) -> tuple[LoadedSweep, int]:
    """The sweep of a folder, and how many trials it wants.

    Args:
        experiment: that of the user's own file, where it imports code by path; it must be the stored one.

    Raises:
        RequestError: the folder is none of a sweep, its files have changed since, or the experiment is another one or
            imports code by path.
        ExperimentError: the files have problems.
    """
    record = read_record(path)
    remove_leftovers(path)
    for name, stored in record.get("files", {}).items():  # folders of older versions lack them
        may_change = MAY_CHANGE if name == STORED_SWEEP else ()
        now = {key: value for key, value in read_toml(path / name)[1].items() if key not in may_change}
        _check_same(str(path / name), _as_json(now), {key: stored[key] for key in stored if key not in may_change})
    if experiment is None:
        experiment = _stored_experiment(path, record["set"])
    else:
        _check_same("the experiment", _as_json(experiment.loaded.resolved), record["resolved"])
    sweep = load_sweep(path / STORED_SWEEP, experiment=experiment, import_paths=experiment.import_paths)
    return attrs.evolve(sweep, source=record.get("source", "")), int(record["n_trials"])


def _stored_experiment(path: Path, shared: Sequence[str]) -> BaseExperiment:
    file = path / STORED_EXPERIMENT
    if not file.is_file():
        raise RequestError(
            "the sweep's experiment holds objects from Python, which are not stored",
            help="go on from Python: maze_sweeps.sweep(..., experiment=..., resume=FOLDER)",
        )
    try:
        return base_of_file(file, shared, import_paths=False)
    except ExperimentError as error:
        for problem in error.problems:
            if "--resume" in (problem.help or ""):
                problem.help = f"name the sweep's file too: {shown_command('maze', 'sweep', 'FILE', '--resume', path)}"
        raise


def _check_same(what: str, now: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    changed = _changes(now, stored)
    if changed:
        trials = ": another number of trials is --trials N" if changed == ["n_trials"] else ", or begin a new sweep"
        raise RequestError(
            f"{what} has changed since the sweep began",
            received=f"changes in {', '.join(changed)}",
            expected="what it was: trials of different settings would stand in one table",
            help=f"undo the changes{trials}",
        )


def _changes(now: Mapping[str, Any], stored: Mapping[str, Any], path: str = "") -> list[str]:
    """Dotted names of the values that differ."""
    changed: list[str] = []
    for key in {**stored, **now}:
        own, kept = now.get(key), stored.get(key)
        if isinstance(own, Mapping) and isinstance(kept, Mapping):
            changed += _changes(own, kept, f"{path}{key}.")
        elif json.dumps(own) != json.dumps(kept):  # a NaN differs from itself
            changed.append(path + key)
    return changed


def write_best(path: Path, resolved: Mapping[str, Any], source: str, heading: str) -> None:
    """Write `best.toml`, which `maze train` takes.

    Args:
        resolved: the experiment with every default filled in.
        source: the experiment's file, which paths of plugin files are relative to.
        heading: of its first line.
    """
    data = json.loads(json.dumps(resolved))
    load = data.get("plugins", {}).get("load", [])
    if load:
        data["plugins"]["load"] = [str((Path(source).parent / name).resolve()) for name in load]
    replace_file(_STORAGE, path / "best.toml", f"# {heading}\n{to_toml(data)}".encode())
