"""Where the processor has vectors of 512 bits, the code for those of 256 is run as well."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch


@pytest.mark.slow
@pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() != "AVX512", reason="all tests run on such vectors here")
def test_the_code_for_narrower_vectors_passes_the_same_tests():
    folder = Path(__file__).parent
    files = [str(own) for own in sorted(folder.glob("test_*.py")) if own != Path(__file__)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        env={**os.environ, "ATEN_CPU_CAPABILITY": "avx2"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-4000:]
