"""Where the processor has vectors of 512 bits, the code for those of 256 is run as well."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        torch.backends.cpu.get_cpu_capability() != "AVX512", reason="all tests run on such vectors here"
    ),
]

A_COMPILED_UPDATE = """
import torch
from torch import nn
from maze_runtime.training.gradient_step import GradientStep

def loss(model, batch):
    error = model(batch).square().mean()
    return error, error.detach().reshape(1)

torch.manual_seed(0)
network = nn.Sequential(nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 3))
step = GradientStep(network, loss, epsilon=1e-8, max_grad_norm=0.0, compiled=True)
for _ in range(3):
    step(0.01, torch.randn(32, 24))
print("NUMBERS", *step.flat.data.tolist())
"""


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


def test_code_for_wider_vectors_that_the_compiler_has_kept_is_not_taken_for_them(tmp_path):
    found = []
    for capability in ("avx512", "avx2"):
        own = {"ATEN_CPU_CAPABILITY": capability, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", A_COMPILED_UPDATE]
        done = subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-4000:]
        found.append(torch.tensor([float(number) for number in done.stdout.split("NUMBERS")[-1].split()]))
    assert torch.allclose(*found, atol=1e-5)
