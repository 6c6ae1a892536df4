import errno
import hashlib
import json
import resource
import shutil
import subprocess
import sys
import textwrap

import attrs
import numpy as np
import pytest
import torch

from maze_kernel.errors import CheckpointError, FormatError, MazeWarning, NonFiniteError
from maze_runtime.run.storage import TEMPORARY_PREFIX, Storage
from maze_runtime.training.checkpoint import Checkpoint, LoopState
from maze_runtime.training.checkpoint_store import CheckpointStore
from maze_runtime.training.state_tree import StateError, flatten_state, unflatten_state


def checkpoint(epoch, **changes):
    generator = np.random.default_rng(epoch)
    trainer = {"rng": generator.bit_generator.state, "replay": np.full((3, 2), epoch, np.float64), "empty": {}}
    model = {"weight": torch.full((4,), float(epoch))}
    return Checkpoint(epoch=epoch, model=model, loop=LoopState(epoch=epoch), trainer=trainer, **changes)


def assert_whole(store, epoch):
    loaded = store.load(epoch)
    assert torch.equal(loaded.model["weight"], torch.full((4,), float(epoch)))


class FailingStorage(Storage):
    """Raises at the nth call; with `torn` a write leaves half of its bytes behind and nothing is cleaned up."""

    def __init__(self, n, error, torn=False):
        self.n_calls, self.n, self.error, self.torn = 0, n, error, torn

    def _count(self, act, path=None, data=b""):
        self.n_calls += 1
        if self.n_calls == self.n or (self.torn and self.n and self.n_calls > self.n):
            if self.torn and path is not None:
                path.write_bytes(data[: len(data) // 2])
            raise self.error
        act()

    def make_directory(self, path):
        self._count(lambda: super(FailingStorage, self).make_directory(path))

    def write_bytes(self, path, data):
        self._count(lambda: super(FailingStorage, self).write_bytes(path, data), path, data)

    def rename(self, source, target):
        self._count(lambda: super(FailingStorage, self).rename(source, target))

    def sync_directory(self, path):
        self._count(lambda: super(FailingStorage, self).sync_directory(path))

    def symlink(self, path, target):
        self._count(lambda: super(FailingStorage, self).symlink(path, target))

    def remove(self, path):
        self._count(lambda: super(FailingStorage, self).remove(path))


def save_with(run_dir, storage):
    store = CheckpointStore(run_dir, keep=1, storage=storage)
    best = checkpoint(3, resumable=False)
    store.save(checkpoint(4), best=best, best_epoch=3)


def number_of_calls(tmp_path):
    storage = FailingStorage(0, OSError())
    CheckpointStore(tmp_path / "count").save(checkpoint(2), best_epoch=2)
    save_with(tmp_path / "count", storage)
    return storage.n_calls


def test_a_disk_that_fails_at_any_call_leaves_a_whole_checkpoint(tmp_path):
    n_calls = number_of_calls(tmp_path)
    assert n_calls > 15
    for n in range(1, n_calls + 1):
        run_dir = tmp_path / str(n)
        CheckpointStore(run_dir).save(checkpoint(2), best_epoch=2)
        with pytest.raises(CheckpointError, match="free some disk space"):
            save_with(run_dir, FailingStorage(n, OSError(errno.ENOSPC, "No space left on device")))
        store = CheckpointStore(run_dir, keep=1)
        newest, skipped = store.load_newest()
        assert newest.epoch in (2, 4)
        assert skipped == []
        assert store.load_named("best").epoch in (2, 3)
        store.save(checkpoint(4), best=checkpoint(3, resumable=False), best_epoch=3)
        assert store.epochs() == [3, 4]


def test_a_crash_at_any_call_leaves_nothing_unreadable_under_a_final_name(tmp_path):
    for n in range(1, number_of_calls(tmp_path) + 1):
        run_dir = tmp_path / str(n)
        CheckpointStore(run_dir).save(checkpoint(2), best_epoch=2)
        with pytest.raises(KeyboardInterrupt):
            save_with(run_dir, FailingStorage(n, KeyboardInterrupt(), torn=True))
        store = CheckpointStore(run_dir, keep=1)
        for epoch in store.epochs():
            assert_whole(store, epoch)
        assert store.load_newest()[0].epoch in (2, 4)
        store.clean()
        assert not [path for path in store.folder.iterdir() if path.name.startswith(TEMPORARY_PREFIX)]


@pytest.mark.parametrize("name", ["model.safetensors", "trainer.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_a_damaged_checkpoint_is_passed_over_and_reported(tmp_path, name, damage):
    store = CheckpointStore(tmp_path)
    store.save(checkpoint(2))
    store.save(checkpoint(4))
    path = store.folder / "epoch-000004" / name
    data = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    else:
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(bytes(data) if damage == "flipped" else bytes(data[: len(data) // 2]))
    newest, skipped = store.load_newest()
    assert newest.epoch == 2
    assert "epoch-000004" in skipped[0]
    with pytest.warns(MazeWarning, match=r'"last" cannot be used: .*epoch-000004.*epoch-000002, the newest whole one'):
        assert store.load_named("last").epoch == 2


@pytest.mark.parametrize("name", ["state.json", "manifest.json"])
def test_json_that_is_nested_beyond_reading_is_damage(tmp_path, name):
    store = CheckpointStore(tmp_path)
    store.save(checkpoint(2))
    store.save(checkpoint(4))
    write_into(store.folder / "epoch-000004", name, b"[" * 200_000)
    newest, skipped = store.load_newest()
    assert (newest.epoch, len(skipped)) == (2, 1)


def write_into(folder, name, data):
    """Another content of a file, whose checksum is right."""
    (folder / name).write_bytes(data)
    if name != "manifest.json":
        manifest = json.loads((folder / "manifest.json").read_bytes())
        manifest["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        (folder / "manifest.json").write_text(json.dumps(manifest))


def test_a_checkpoint_of_another_epoch_than_its_folder_says_is_refused(tmp_path):
    store = CheckpointStore(tmp_path)
    store.save(checkpoint(2))
    (store.folder / "epoch-000002").rename(store.folder / "epoch-000007")
    with pytest.raises(CheckpointError, match="epoch-000007 is of epoch 2"):
        store.load(7)


@pytest.mark.parametrize("callbacks", [[1], "words", 3])
def test_callbacks_that_are_no_table_are_damage(tmp_path, callbacks):
    store = CheckpointStore(tmp_path)
    store.save(checkpoint(2))
    folder = store.folder / "epoch-000002"
    state = json.loads((folder / "state.json").read_bytes())
    state["state"]["callbacks"] = callbacks
    write_into(folder, "state.json", json.dumps(state).encode())
    with pytest.raises(CheckpointError, match="damaged"):
        store.load(2)


def was_best(epoch, best_epoch):
    loop = LoopState(epoch=epoch, best_epoch=best_epoch, best_metric=10.0 * best_epoch, stale_evaluations=1)
    return attrs.evolve(checkpoint(epoch), loop=loop)


@pytest.mark.parametrize("damage", ["flipped", "missing"])
def test_a_damaged_best_checkpoint_gives_way_to_the_one_that_was_best_before(tmp_path, damage):
    store = CheckpointStore(tmp_path, keep=9)
    for epoch, best_epoch in ((1, 1), (2, 1), (3, 3), (4, 3), (5, 3)):
        store.save(was_best(epoch, best_epoch), best_epoch=best_epoch)
    assert store.with_whole_best(newest := store.load(5)) == (newest, [])
    for lost, best_epoch in ((3, 1), (1, None)):
        folder = store.folder / f"epoch-{lost:06d}"
        (folder / "model.safetensors").write_bytes(b"")
        if damage == "missing":
            shutil.rmtree(folder)
        with pytest.warns(MazeWarning, match=rf"epoch-{lost:06d}.*epoch-000005, the newest whole one, is taken"):
            assert store.load_named("best").epoch == 5
        whole, (line,) = store.with_whole_best(store.load(5))
        assert f"epoch-{lost:06d}" in line
        assert (whole.loop.best_epoch, whole.loop.best_metric) == (best_epoch, best_epoch and 10.0 * best_epoch)
        assert whole.loop.stale_evaluations == (1 if best_epoch else 0)
        store.go_on_from(5, best_epoch)
        assert store.pointed("best") == best_epoch
        if best_epoch:
            store.save(was_best(5, best_epoch), best_epoch=best_epoch)
    assert "the next evaluation is the best so far" in line
    assert store.load_named("best").epoch == 5


def test_a_checkpoint_comes_back_field_by_field(tmp_path):
    store = CheckpointStore(tmp_path)
    loop = LoopState(epoch=2, best_epoch=1, best_metric=float("-inf"), stale_evaluations=1, wall_seconds=0.1)
    transforms = [{"mean": np.arange(3.0)}, {}]
    saved = attrs.evolve(checkpoint(2), loop=loop, transforms=transforms)
    best = attrs.evolve(checkpoint(1, resumable=False), loop=None, trainer={}, transforms=transforms)
    store.save(saved, best=best, best_epoch=1)
    loaded = store.load(2)
    assert (loaded.epoch, loaded.loop, loaded.resumable) == (2, loop, True)
    assert loaded.trainer["rng"] == saved.trainer["rng"]
    np.testing.assert_array_equal(loaded.trainer["replay"], saved.trainer["replay"])
    np.testing.assert_array_equal(loaded.transforms[0]["mean"], np.arange(3.0))
    weights = store.load_named("best")
    assert (weights.epoch, weights.loop, weights.trainer, weights.resumable) == (1, None, {}, False)
    np.testing.assert_array_equal(weights.transforms[0]["mean"], np.arange(3.0))


def test_another_format_is_a_hint_and_not_a_fallback(tmp_path):
    store = CheckpointStore(tmp_path)
    store.save(checkpoint(2))
    store.save(checkpoint(4))
    path = store.folder / "epoch-000004" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    for load in (store.load_newest, lambda: store.load_named("last"), lambda: store.load_named("best")):
        with pytest.raises(FormatError, match="format 99") as caught:
            load()
        assert "run.json" in caught.value.help


def test_only_the_newest_and_the_best_are_kept(tmp_path):
    store = CheckpointStore(tmp_path, keep=2)
    for epoch in range(1, 8):
        store.save(checkpoint(epoch), best_epoch=min(epoch, 3))
    assert store.epochs() == [3, 6, 7]
    assert (store.pointed("best"), store.pointed("last")) == (3, 7)


def test_nan_weights_are_refused_and_nothing_is_written(tmp_path):
    store = CheckpointStore(tmp_path)
    bad = Checkpoint(epoch=1, model={"weight": torch.tensor([1.0, float("inf")])})
    with pytest.raises(NonFiniteError, match="weight"):
        store.save(bad)
    assert store.epochs() == []


def test_a_state_that_cannot_be_stored_is_refused_and_nothing_is_written(tmp_path):
    store = CheckpointStore(tmp_path)
    with pytest.raises(StateError, match="trainer"):
        store.save(attrs.evolve(checkpoint(1), trainer={"own": object()}))
    assert list(store.folder.iterdir()) == []


def test_a_pointer_that_leads_elsewhere_is_not_followed(tmp_path):
    store = CheckpointStore(tmp_path / "run")
    store.save(checkpoint(2))
    (store.folder / "last").unlink()
    (store.folder / "last").symlink_to("../../secret")
    assert store.load_named("last").epoch == 2


def test_a_full_disk_keeps_the_previous_checkpoint(tmp_path):
    code = f"""
        import resource, torch
        from pathlib import Path
        from maze_kernel.errors import CheckpointError
        from maze_runtime.training.checkpoint import Checkpoint
        from maze_runtime.training.checkpoint_store import CheckpointStore
        store = CheckpointStore(Path({str(tmp_path)!r}))
        store.save(Checkpoint(epoch=1, model={{"weight": torch.ones(10)}}))
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            store.save(Checkpoint(epoch=2, model={{"weight": torch.ones(100_000)}}))
        except CheckpointError as error:
            print("refused:", error.help)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert "refused: free some disk space" in done.stdout
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    store = CheckpointStore(tmp_path)
    assert [entry.name for entry in sorted(store.folder.iterdir())] == ["epoch-000001", "last"]
    assert store.load(1).model["weight"].sum() == 10


def test_state_comes_back_as_it_was():
    generator = torch.Generator().manual_seed(3)
    state = {
        "big": 2**130,
        "tuple": (1, [2.5, None]),
        "integers": {1: "a", 2: "b"},
        "infinite": float("inf"),
        "scalar": np.float32(0.1),
        "bytes": b"\x00\xff",
        "array": np.arange(6, dtype=np.int16).reshape(2, 3)[:, ::-1],
        "flags": np.array([True, False]),
        "none-of-it": np.zeros((0, 3), np.float32),
        "scalar-array": np.array(2.5),
        "generator": generator.get_state(),
        "dots.in.names": {"a.b": torch.ones(2), "a": {"b": torch.zeros(2)}},
        "__maze__": "not a marker",
    }
    tree, tensors = flatten_state(state)
    back = unflatten_state(json.loads(json.dumps(tree)), tensors)
    assert list(back) == list(state)
    for name in ("array", "flags", "none-of-it", "scalar-array"):
        assert back[name].dtype == state[name].dtype
        np.testing.assert_array_equal(back[name], state[name])
    assert torch.equal(back["generator"], state["generator"])
    assert torch.equal(back["dots.in.names"]["a.b"], torch.ones(2))
    assert torch.equal(back["dots.in.names"]["a"]["b"], torch.zeros(2))
    for name in ("big", "tuple", "integers", "infinite", "bytes", "__maze__", "scalar"):
        assert back[name] == state[name]
        assert type(back[name]) is type(state[name])


def test_state_of_another_kind_is_refused_by_its_path():
    with pytest.raises(TypeError, match=r"'trainer\.hook' is of the type function"):
        flatten_state({"trainer": {"hook": lambda: None}})


def test_the_best_checkpoint_of_a_copy_without_links_is_read(tmp_path):
    """As trackers and archives keep it: a folder called best, and none of its epoch."""
    store = CheckpointStore(tmp_path / "run")
    store.save(checkpoint(3))
    (tmp_path / "copy" / "checkpoints").mkdir(parents=True)
    shutil.copytree(store.folder / "epoch-000003", tmp_path / "copy" / "checkpoints" / "best")
    loaded = CheckpointStore(tmp_path / "copy").load_named("best")
    assert torch.equal(loaded.model["weight"], torch.full((4,), 3.0))
