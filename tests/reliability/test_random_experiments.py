"""Whatever is asked for runs, or an error of Maze's own says what is wrong with it."""

import re
import warnings

import pytest
import torch
from random_experiments import Experiments

from maze_kernel.errors import MazeError
from maze_kernel.loader import Kernel
from maze_suite import RunContext

N_EACH = 12
"""Experiments of a test."""
WRAPPED = re.compile("raised [A-Z][A-Za-z]*:|failed: ")
"""How an error begins that passes on another one, which nobody foresaw."""


@pytest.fixture(scope="module")
def experiments():
    return Experiments(Kernel.installed())


def refusal(experiment, run_dir):
    """What Maze says against it; None where it was trained, played, and trained on."""
    try:
        context = RunContext(experiment=experiment, run_dir=run_dir, silent=True)
        context.train()
        context.rollout(1, deterministic=False)
        RunContext.load(run_dir, env=experiment["env"], silent=True).train(1)
    except MazeError as error:
        return error
    return None


@pytest.mark.parametrize(
    "block", [2, *(pytest.param(block, marks=pytest.mark.slow) for block in range(30) if block != 2)]
)
def test_experiments_at_random_run_or_say_why_not(experiments, block, tmp_path):
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    n_run = 0
    try:
        for seed in range(N_EACH * block, N_EACH * (block + 1)):
            experiment = experiments.experiment(seed)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    refused = refusal(experiment, tmp_path / str(seed))
                n_run += refused is None
                assert refused is None or not WRAPPED.search(refused.what), str(refused)
            except BaseException as error:
                error.add_note(f"seed {seed}: {experiment}")
                raise
    finally:
        torch.set_num_threads(n_threads)
    assert n_run >= N_EACH // 4, "hardly any experiment runs: nothing is shown"
