"""Each family of blocks installs alone beside the kernel and maze-perception, and builds its blocks there.

The suite that calls them comes from maze-testing.
"""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FAMILIES = sorted(path.name for path in (ROOT / "plugins").glob("maze_blocks_*"))
BUILD = """
import torch
from maze_kernel.loader import Kernel
from maze_kernel.config.load import select
from maze_testing.blocks import check_block

SHAPES = {
    "multi-head-attention": [(2, 64), (5, 64), (5, 64)], "self-attention-seq": [(5, 64)],
    "self-attention-conv": [(4, 6, 6)],
    "graph-convolution": [(5, 3), (5, 5)], "graph-attention": [(5, 3), (5, 5)], "message-passing": [(5, 3), (7, 2)],
    "point-net": [(7, 2)], "nature-cnn": [(3, 40, 40)],
}
kernel = Kernel.installed()
assert {plugin.status for plugin in kernel.plugins} == {"active"}
entries = [entry for entry in kernel.catalog.entries("block") if "blocks" in entry.plugin.distribution]
for entry in entries:
    name = entry.component.name
    image = "convolution" in name
    shapes = SHAPES.get(name, [(3, 40, 40)] if image else [(6, 3)])
    keys = [f"in{index}" for index in range(len(shapes))]
    selection = select(kernel, "block", {"use": name})
    check_block(lambda: kernel.catalog.build(selection, keys, ["out"], shapes), leading=((1,), (2, 2)))
    print(name)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_needs_nothing_but_kernel_and_perception(name, clean_environment, tmp_path):
    python = clean_environment(name, "maze_testing")
    done = subprocess.run([str(python), "-c", BUILD], cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    readme = (ROOT / "plugins" / name / "README.md").read_text(encoding="utf-8")
    assert done.stdout.split()
    assert all(f"`{block}`" in readme for block in done.stdout.split())
