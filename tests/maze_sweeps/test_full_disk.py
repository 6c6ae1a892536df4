"""A disk that is full at any write ends a sweep with a plain message, and the sweep goes on when there is space."""

import errno
import json
import os

import pytest

from maze_kernel.config import load_experiment
from maze_kernel.errors import MazeError, RequestError
from maze_runtime.run.storage import Storage
from maze_sweeps import sweep
from maze_sweeps.folder import locked

SWEEP = """
experiment = "small.toml"
seeds = 2

[searcher]
use = "grid"

[workers]
use = "inline"

[confirm]
top = 1
seeds = 1

[space]
trainer.lr = { values = [1e-3, 1e-2] }
"""


@pytest.fixture
def file(folder):
    (folder / "sweep.toml").write_text(SWEEP)
    return folder / "sweep.toml"


@pytest.fixture
def full_disk(monkeypatch):
    """`full_disk(name, n)`: the n-th write of files with this in their path fails, and all after it; 0: none does."""
    written = []
    write_bytes = Storage.write_bytes

    def fill(name, n):
        written.clear()

        def write(self, path, data):
            if name in str(path):
                written.append(path)
                if 0 < n <= len(written):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            write_bytes(self, path, data)

        monkeypatch.setattr(Storage, "write_bytes", write)
        return written

    yield fill
    monkeypatch.setattr(Storage, "write_bytes", write_bytes)


def epochs(path):
    """Run to its evaluations, in the order in which they were made."""
    return {
        str(run.relative_to(path).parent): [json.loads(line)["epoch"] for line in run.read_text().splitlines()]
        for run in sorted(path.rglob("evaluations.jsonl"))
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("trial.json", r"trial [01] could not be written to .*/trials/000[01]/trial\.json"),
        ("table.csv", r"the table of the trials could not be written to .*/table\.csv"),
        ("best.toml", r"the best experiment could not be written to .*/best\.toml"),
        ("checkpoints", r"trial [01], seed [123] could not be written"),
    ],
)
def test_a_full_disk_ends_a_sweep_that_can_go_on(file, folder, full_disk, name, said):
    loaded = load_experiment(folder / "small.toml")
    written = full_disk(name, 0)
    whole = sweep(file, out="whole", silent=True).path
    n_writes = len(written)
    for n in sorted({1, n_writes // 2, n_writes}):
        path = folder / f"cut-{n}"
        full_disk(name, n)
        with pytest.raises(MazeError, match=said) as caught:
            sweep(file, out=path, silent=True)
        assert "No space left on device" in caught.value.received
        assert f"free some disk space, then go on with: maze sweep --resume {path}" in caught.value.help
        full_disk(name, 0)
        again = sweep(resume=path, experiment=loaded, silent=True)
        assert [trial.state for trial in again.trials] == ["done", "done"]
        assert (path / "table.csv").read_text() == (whole / "table.csv").read_text()
        assert epochs(path) == epochs(whole)


def test_on_a_disk_that_is_full_no_sweep_begins(file, folder, full_disk):
    full_disk("sweep.json", 1)
    with pytest.raises(RequestError, match="cannot be written"):
        sweep(file, out="new", silent=True)
    assert not (folder / "new").exists()


def test_the_lock_holds_where_its_text_cannot_be_written(folder, monkeypatch):
    def write(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write)
        with locked(folder), pytest.raises(RequestError, match="being trained already") as caught, locked(folder):
            pass
    assert caught.value.received == "by an unknown process"
