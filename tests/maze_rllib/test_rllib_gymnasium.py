"""The release of Gymnasium that `ray[rllib]` pins: the tests of this folder pass with it, too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray is not installed")

PINNED = "1.2.2"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Environment variables under which Python finds that release first."""
    folder = tmp_path_factory.mktemp("pinned")
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--retries", "1", "--target", str(folder)]
    code, output = output_of([*install, f"gymnasium=={PINNED}"], None)
    if code != 0:
        pytest.skip(f"gymnasium {PINNED} cannot be installed: {(output.strip().splitlines() or [''])[-1]}")
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}


def output_of(command, environment):
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_the_tests_of_this_folder_pass_with_the_release_that_ray_pins(environment):
    _, version = output_of(["-c", "import gymnasium; print(gymnasium.__version__)"], environment)
    assert version.strip() == PINNED
    code, output = output_of(["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "tests/maze_rllib"], environment)
    assert code == 0, output[-4000:]
    assert " passed" in output
