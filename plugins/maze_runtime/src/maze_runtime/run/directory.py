"""The run directory: its name, its `experiment.toml` and `run.json`, and reading them back without running code."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from maze_kernel.errors import CheckpointError, FormatError, RequestError
from maze_kernel.shown_command import shown_command
from maze_runtime.run.folder_lock import LOCK, FolderLock
from maze_runtime.run.provenance import Provenance, provenance
from maze_runtime.run.storage import TEMPORARY_PREFIX, Storage, remove_leftovers, replace_file, replace_json
from maze_runtime.run.stored_data import from_data, to_data

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.loader import Kernel

FORMAT = 1
"""Version of the layout of a run directory, written to `run.json`."""


@attrs.frozen(kw_only=True)
class Resumption:
    """One `maze train --resume`: the epoch it went on from, and its `--set` items."""

    epoch: int
    overrides: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class RunRecord(Provenance):
    """All of `run.json`.

    Attributes:
        experiment: plain data with every default filled in.
        metric: what selects the best model, as `[evaluation] metric` spells it; empty where an older version wrote it.
    """

    format: int
    name: str
    created: str = "?"
    source: str = ""
    overrides: tuple[str, ...]
    seeds: Mapping[str, int] = attrs.field(factory=dict)
    experiment: Mapping[str, Any]
    metric: str = ""
    resumed: tuple[Resumption, ...] = ()


@attrs.frozen(kw_only=True)
class StoredRun:
    """A run directory as read: plain data, nothing resolved, nothing imported.

    Attributes:
        resolved: the experiment with every default filled in; structure it against installed plugins only.
        record: all of `run.json`, this and more.
    """

    path: Path
    name: str
    resolved: Mapping[str, Any]
    overrides: tuple[str, ...]
    record: RunRecord


def create_run_directory(
    loaded: LoadedExperiment, kernel: Kernel, path: Path, *, shown: Path | None = None, overwrite: bool = False
) -> FolderLock:
    """A new run directory with what describes the run; locked.

    What a start that was killed left there under temporary names is no content.

    Args:
        path: absolute.
        shown: the path in messages, as it was given; None: as it is.
        overwrite: remove the run in `path` first, if there is one.

    Raises:
        RequestError: `path` exists and is not empty, is being trained, cannot be created, or is to be overwritten and
            is no run.
    """
    shown = shown or path
    try:
        if overwrite and path.is_dir():
            _check_run(path, shown)
        elif path.exists() and not is_unused(path):
            raise _occupied(shown)
        path.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            lock = stack.enter_context(FolderLock(path, "run"))
            if overwrite:
                _remove_run(path)
            elif not is_unused(path):  # somebody was faster
                raise _occupied(shown)
            remove_leftovers(path)
            # `run.json` makes the folder a run and comes first: whatever happens next, the run can be resumed.
            replace_json(Storage(), path / "run.json", to_data(_record(loaded, kernel)))
            write_experiment(path, loaded)
            stack.pop_all()
    except OSError as error:
        raise RequestError(f"the run directory {shown} cannot be created: {error}") from error
    return lock


def _occupied(path: Path) -> RequestError:
    if path.is_file():
        return RequestError(f"the run directory {path} is a file", help="name a folder, which need not exist")
    return RequestError(
        f"the run directory {path} exists and is not empty",
        help="name another one, replace it with --overwrite, or continue it with: "
        + shown_command("maze", "train", "--resume", path),
    )


def is_unused(path: Path) -> bool:
    """Whether a folder holds nothing, or only what a start left that was killed before it was a run."""
    return path.is_dir() and all(
        entry.name.startswith(TEMPORARY_PREFIX) or entry.name == LOCK for entry in path.iterdir()
    )


def write_experiment(path: Path, loaded: LoadedExperiment) -> None:
    """Write `experiment.toml`, for people to read, where it is not there yet."""
    file = path / "experiment.toml"
    if not file.exists():
        replace_file(Storage(), file, _experiment_text(loaded).encode())


def open_run(path: Path | str) -> StoredRun:
    """Read a run directory.

    Raises:
        RequestError: it is no run directory.
        FormatError: another version of Maze wrote it.
        CheckpointError: it is damaged.
    """
    path = Path(path)
    file = path / "run.json"
    if not file.is_file():
        unused = is_unused(path)
        raise RequestError(
            f"{path} is no run directory: it has no run.json",
            help=f"nothing was begun there; begin with: {shown_command('maze', 'train', 'FILE', '--out', path)}"
            if unused
            else "give the folder of one run",
        )
    try:
        data = json.loads(file.read_bytes())
        if data["format"] != FORMAT:
            raise FormatError(
                f"run {path} has format {data['format']}, this Maze reads format {FORMAT}",
                received=f"format {data['format']}",
                expected=f"format {FORMAT}",
                help=f"load it with maze-kernel {_writer(data)}, which wrote it",
            )
        record = from_data(data, RunRecord)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{file} is damaged: {error!r}") from error
    return StoredRun(path=path, name=record.name, resolved=record.experiment, overrides=record.overrides, record=record)


def note_resumption(path: Path, experiment: Mapping[str, Any], resumption: Resumption) -> None:
    """Write down in `run.json` that the run goes on, and with which experiment; atomically.

    Raises:
        CheckpointError: the disk refused.
    """
    record = open_run(path).record
    _write_record(path, attrs.evolve(record, experiment=experiment, resumed=(*record.resumed, resumption)))


def note_metric(path: Path, metric: str) -> None:
    """Write down in `run.json` what selects the best model, which may be the trainer's choice; atomically.

    Raises:
        CheckpointError: the disk refused, or the run is gone.
    """
    require_present(path)
    record = open_run(path).record
    if record.metric != metric:
        _write_record(path, attrs.evolve(record, metric=metric))


def require_present(path: Path) -> None:
    """Refuse to write a part of a run where the run is not any more.

    Raises:
        CheckpointError: it is gone.
    """
    if not (path / "run.json").is_file():
        raise CheckpointError(
            f"the run directory {path} is gone: it was moved or deleted while it was trained",
            received="no run.json",
            help="put it back where it was, and go on from its last checkpoint with: "
            + shown_command("maze", "train", "--resume", path),
        )


def _write_record(path: Path, record: RunRecord) -> None:
    try:
        replace_json(Storage(), path / "run.json", to_data(record))
    except OSError as error:
        told = f"run.json could not be written: {error}"
        raise CheckpointError(told, received=str(path), help="free some disk space; the run is as it was") from error


def _check_run(path: Path, shown: Path) -> None:
    if not is_unused(path) and not (path / "run.json").is_file():
        raise RequestError(
            f"{shown} is no run directory and is not overwritten",
            received="a folder with other files and no run.json",
            help="name another folder, or remove this one yourself",
        )


def _remove_run(path: Path) -> None:
    """Empty the folder of a run but for its lock; `run.json`, which says that it is one, goes last."""
    storage = Storage()
    for entry in sorted(path.iterdir(), key=lambda entry: entry.name == "run.json"):
        if entry.name != LOCK:
            storage.remove(entry)


def clean_run_directory(path: Path) -> list[str]:
    """Remove temporary files that a crash left; returns their names."""
    return remove_leftovers(path)


def new_path(root: Path, name: str) -> Path:
    """A path that nobody uses yet: `root/<name>/<UTC time>-<4 hex>`."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return root / _folder_name(name) / f"{stamp}-{secrets.token_hex(2)}"


def _folder_name(name: str) -> str:
    """The experiment's name with everything that could lead out of the folder replaced."""
    kept = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
    return kept.strip(".-")[:100] or "run"


def _experiment_text(loaded: LoadedExperiment) -> str:
    if loaded.text:
        return loaded.text
    try:
        from maze_kernel.config.resolved import to_toml

        return to_toml(loaded.resolved)
    except (TypeError, ValueError):
        return "# built in Python from objects that TOML cannot hold; run.json describes them\n"


def _record(loaded: LoadedExperiment, kernel: Kernel) -> RunRecord:
    return RunRecord(
        format=FORMAT,
        name=loaded.experiment.name,
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        source=loaded.path,
        overrides=loaded.overrides,
        seeds={"run": loaded.experiment.seed},
        experiment=json.loads(encode_json_lenient(loaded.resolved)),
        **attrs.asdict(provenance(kernel.plugins), recurse=False),
    )


def encode_json_lenient(data: Any) -> str:
    """JSON in which an object given from Python becomes its description, so that it never runs when read."""
    return json.dumps(data, default=lambda value: {"python-object": repr(value)[:200]})


def _writer(data: Mapping[str, Any]) -> str:
    packages = data.get("packages")
    return str(packages.get("maze-kernel", "")) if isinstance(packages, Mapping) else ""


def logger_folder(run_dir: Path, experiment: Mapping[str, Any], use: str, default: str) -> Path:
    """Where a logger of a run wrote, the first of that name.

    Args:
        run_dir: of the run.
        experiment: as resolved.
        use: the name of the logger, without its distribution.
        default: its folder where the experiment names none.
    """
    for table in experiment.get("loggers") or ():
        if isinstance(table, Mapping) and str(table.get("use")).rpartition(":")[2] == use:
            return run_dir / str(table.get("folder") or default)
    return run_dir / default
