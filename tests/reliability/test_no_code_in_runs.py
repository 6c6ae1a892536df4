"""Promise 7: loading never runs code."""

import ast
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from maze_runtime.training.checkpoint import Checkpoint, LoopState
from maze_runtime.training.checkpoint_store import CheckpointStore

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path for folder in ("maze_*/src", "plugins/*/src", "examples") for path in ROOT.glob(f"{folder}/**/*.py")
)
PICKLERS = {"pickle", "cPickle", "_pickle", "dill", "shelve", "marshal", "joblib", "cloudpickle", "jsonpickle"}
SHIPPING = {
    "plugins/maze_processes/src/maze_processes/transport.py",
    "plugins/maze_ray/src/maze_ray/actor.py",
    "plugins/maze_ray/src/maze_ray/host.py",
    "plugins/maze_ray/src/maze_ray/messages.py",
    "plugins/maze_ray/src/maze_ray/pool.py",
    "plugins/maze_runtime/src/maze_runtime/workers/pickling.py",
    "plugins/maze_testing/src/maze_testing/by_value_pool.py",
}


def findings(path):
    """What a source file does that could run code while loading data."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (f"import {a.name}" for a in node.names if a.name.partition(".")[0] in PICKLERS)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PICKLERS:
            yield f"import {node.module}"
        if isinstance(node, ast.Call):
            function = ast.unparse(node.func)
            if function in ("torch.load", "torch.save") or function in ("eval", "exec"):
                yield function
            for keyword in node.keywords:
                if keyword.arg in ("allow_pickle", "weights_only"):
                    yield f"{keyword.arg}={ast.unparse(keyword.value)}"


def test_every_source_file_is_looked_at():
    assert len(SOURCES) > 60


def test_no_source_file_unpickles():
    found = {str(path.relative_to(ROOT)): list(findings(path)) for path in SOURCES}
    found = {path: what for path, what in found.items() if what}
    assert found.keys() == SHIPPING, "only worker pools may serialise code, to ship factories to processes"
    assert all(what.startswith("import ") for names in found.values() for what in names)


@pytest.fixture
def hostile_run(tmp_path):
    """A run directory whose every string names code, with Python files lying about."""
    run_dir = tmp_path / "run"
    target = "hostile_module:explode"
    store = CheckpointStore(run_dir)
    store.save(
        Checkpoint(epoch=1, model={"weight": torch.ones(2)}, loop=LoopState(epoch=1), trainer={"target": target})
    )
    experiment = {
        "name": "x",
        "env": {"use": target},
        "trainer": {"use": target},
        "plugins": {"load": ["hostile_module.py"]},
    }
    record = {"format": 1, "name": "x", "overrides": [], "experiment": experiment}
    (run_dir / "run.json").write_text(json.dumps(record))
    for folder in (run_dir, run_dir / "checkpoints" / "epoch-000001"):
        for name in ("hostile_module.py", "sitecustomize.py", "torch.py", "conftest.py"):
            (folder / name).write_text("raise SystemExit('code of the run was executed')\n")
    return run_dir


def test_loading_a_run_imports_nothing_from_it(hostile_run):
    code = f"""
        import sys
        from pathlib import Path
        import torch
        from maze_kernel.errors import MazeError
        from maze_kernel.loader import Kernel
        from maze_runtime.run.directory import open_run
        from maze_runtime.training.checkpoint_store import CheckpointStore
        from maze_runtime.training.resume import stored_experiment
        kernel = Kernel.installed()
        run_dir = {str(hostile_run)!r}
        def watch(event, arguments):
            if event in ("exec", "compile", "import", "os.system", "subprocess.Popen"):
                text = repr(arguments)
                if run_dir in text or "hostile" in text:
                    print("CODE", event, text[:300])
            if event == "pickle.find_class":
                print("CODE", event)
        sys.addaudithook(watch)
        run = open_run(run_dir)
        checkpoint = CheckpointStore(run.path).load_named("last")
        print("loaded", checkpoint.epoch)
        try:
            stored_experiment(run_dir, kernel=kernel)
        except MazeError as error:
            print("refused", type(error).__name__)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, cwd=hostile_run.parent
    )
    assert done.returncode == 0, done.stderr
    assert "CODE" not in done.stdout
    assert done.stdout.splitlines() == ["loaded 1", "refused ExperimentError"]
