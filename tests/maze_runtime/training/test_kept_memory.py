"""Memory that one minibatch frees is kept for the next, while somebody trains."""

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only with the GNU C library")

PROGRAM = """
import resource
import numpy as np
from maze_runtime.training.kept_memory import freed_memory_is_kept

def pages_asked_for():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [np.ones(1 << 20) for _ in range(16)]  # 8 MiB each
    del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

pages_asked_for()
outside = pages_asked_for()
with freed_memory_is_kept():
    pages_asked_for()
    inside = pages_asked_for()
pages_asked_for()
behind = pages_asked_for()
print(outside, inside, behind)
"""


def pages(**settings):
    given = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=given | settings, capture_output=True, text=True, check=True
    )
    return tuple(map(int, done.stdout.split()))


def test_blocks_are_handed_out_again_inside_and_given_back_behind_it():
    outside, inside, behind = pages()
    assert inside < 100
    assert outside > 1000
    assert behind > 1000


def test_who_sets_the_allocator_up_is_not_overruled():
    _, inside, _ = pages(MALLOC_TRIM_THRESHOLD_="100000", MALLOC_MMAP_THRESHOLD_="100000")
    assert inside > 1000
