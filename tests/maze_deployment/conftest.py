"""Trained contexts in seconds; no test leaves a thread behind."""

import threading

import pytest

from maze_runtime.context import RunContext

TINY = {
    "vector.n_envs": 2,
    "evaluation.n_episodes": 2,
    "trainer.epoch_length": 1,
    "trainer.n_rollout_steps": 32,
    "trainer.batch_size": 32,
}


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """A context after one short epoch; its run stands in a temporary folder."""

    def train_context(env, **arguments):
        overrides = TINY | arguments.pop("overrides", {})
        run_dir = tmp_path_factory.mktemp("runs") / "run"
        context = RunContext(env=env, overrides=overrides, run_dir=run_dir, silent=True, **arguments)
        context.train(n_epochs=1)
        return context

    return train_context


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert [thread for thread in threading.enumerate() if thread.name == "maze-deployment"] == []
