"""What all tests share: the command line, and trainers built from an experiment, as the loop builds them.

Fixtures import what they need themselves: the tests of the kernel run where nothing else is installed.
"""

import gc
import importlib.util
import os
import time
from pathlib import Path

import pytest

STARTED = pytest.StashKey[float]()
"""When this run of the tests began."""


def pytest_addoption(parser):
    parser.addoption(
        "--seconds",
        type=float,
        default=float("inf"),
        help="tests that have not begun after so many seconds are skipped",
    )


def pytest_configure(config):
    config.stash[STARTED] = time.monotonic()
    if importlib.util.find_spec("hypothesis"):
        from hypothesis import HealthCheck, settings

        # How fast a machine draws examples is nothing that a test is about.
        settings.register_profile("maze", suppress_health_check=[HealthCheck.too_slow])
        settings.load_profile("maze")


def pytest_runtest_setup(item):
    """`.ci/run` gives the slow tests ten minutes; what a run has begun it ends."""
    if time.monotonic() - item.config.stash[STARTED] > item.config.getoption("--seconds"):
        pytest.skip("no time left for this test today")


@pytest.fixture(scope="session")
def kernel():
    """Everything that is installed."""
    from maze_kernel.loader import Kernel

    return Kernel.installed()


@pytest.fixture
def maze(tmp_path, monkeypatch):
    """Runs the command line in an empty folder: `maze("check", "x.toml")`."""
    from typer.testing import CliRunner

    from maze_kernel.cli.app import make_app

    monkeypatch.chdir(tmp_path)
    runner = CliRunner()

    def run(*arguments):
        return runner.invoke(make_app(), [str(argument) for argument in arguments])

    return run


@pytest.fixture
def read_only(monkeypatch):
    """`read_only(folder)`: nothing may be written into it. The superuser, whom nothing stops, is only told so."""
    folders = []

    def protect(folder):
        folder.chmod(0o555)
        folders.append(folder.absolute())

    if os.geteuid() == 0:
        access = os.access

        def told(path, mode, **options):
            return not (mode & os.W_OK and Path(path).absolute() in folders) and access(path, mode, **options)

        monkeypatch.setattr(os, "access", told)
    yield protect
    for folder in folders:
        folder.chmod(0o755)


@pytest.fixture
def default_tables():
    """Tables of the experiment that `assemble` builds; a folder's own conftest replaces it."""
    return {"env": {"use": "gym", "id": "CartPole-v1"}, "vector": {"n_envs": 4}}


@pytest.fixture
def assemble(kernel, default_tables):
    """`assemble(trainer={...}, env={...}, **tables)` -> Assembly; the options of a default trainer stay below."""
    from maze_kernel.config import experiment_from_mapping
    from maze_runtime.run.assembly import Assembly

    def build(**tables):
        trainer = {**default_tables.get("trainer", {}), **tables.pop("trainer", {})}
        data = {"name": "test", **default_tables, **tables, "trainer": trainer}
        return Assembly(experiment_from_mapping(data, kernel=kernel), kernel)

    return build


@pytest.fixture
def make_trainer(assemble):
    """A trainer that has started its first segment; closed after the test."""
    trainers = []

    def build(**tables):
        assembly = assemble(**tables)
        trainer = assembly.make_trainer(assembly.trainer_context())
        trainers.append(trainer)
        trainer.start_segment(0)
        return trainer

    yield build
    for trainer in trainers:
        trainer.close()


@pytest.fixture
def assert_flat():
    """`assert_flat(step, warm_up, n)`: calling `step` n times more takes no memory, files, threads or children."""
    import psutil

    def used():
        gc.collect()
        me = psutil.Process()
        return me.memory_info().rss, me.num_fds(), me.num_threads(), len(me.children(recursive=True))

    def check(step, warm_up, n, bytes_allowed=4 << 20):
        for _ in range(warm_up):
            step()
        before = used()
        for _ in range(n):
            step()
        after = used()
        assert after[0] - before[0] < bytes_allowed
        assert after[1:] == before[1:]

    return check
