"""Every TOML block of docs/reference/models.md builds the model it describes, and the READMEs list every option."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_kernel.config.description import describe
from maze_kernel.config.load import select
from maze_kernel.contracts.model import ModelContext
from maze_runtime.env.flat import flat_spaces
from maze_runtime.models.recurrence import BEGINS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/models.md").read_text()
BLOCKS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
VECTOR = spaces.Box(-1.0, 1.0, (4,))
PLAIN = flat_spaces(spaces.Dict(observation=VECTOR), spaces.Dict(action=spaces.Discrete(2)))
SEVERAL = flat_spaces(
    spaces.Dict(position=VECTOR, speed=VECTOR, comment=VECTOR, grid=spaces.Box(0, 1, (5, 5))),
    spaces.Dict(action=spaces.Discrete(2)),
)
BOXES = flat_spaces(
    spaces.Dict(observation=VECTOR),
    spaces.Dict(action=spaces.Box(-1.0, 1.0, (1,)), special_action=spaces.Box(-1.0, 1.0, (1,))),
)
SET = flat_spaces(
    spaces.Dict(items=spaces.Box(-1, 1, (5, 4)), items_mask=spaces.MultiBinary(5), x=VECTOR, y=VECTOR),
    spaces.Dict(action=spaces.Discrete(2)),
)
GRAPH = flat_spaces(
    spaces.Dict(
        nodes=spaces.Box(-1, 1, (5, 3)),
        edge_links=spaces.Box(-1, 4, (6, 2), np.int64),
        edges=spaces.Box(-1, 1, (6, 2)),
        node_mask=spaces.MultiBinary(5),
    ),
    spaces.Dict(action=spaces.Discrete(2)),
)
HISTORIES = flat_spaces(
    spaces.Dict(a=spaces.Box(-1, 1, (3, 4)), b=spaces.Box(-1, 1, (3, 2)), c=spaces.Box(-1, 1, (4,))),
    spaces.Dict(action=spaces.Discrete(2)),
)
VECTOR_BLOCK = 4 * 64 + 64 + 64 * 64 + 64
FIRST_ROUND, SECOND_ROUND = (2 + 6) * 64 + 64 + (3 + 64) * 64 + 64, 192 * 64 + 64 + 128 * 64 + 64
EXPECTED = [
    (PLAIN, 4 * 128 + 128 + 128 * 128 + 128 + 128 * 2 + 2),
    (PLAIN, 4 * 64 + 64 + 64 * 64 + 64 + 64 * 2 + 2),
    (SEVERAL, 2 * (4 * 32 + 32) + 25 * 64 + 64 + 128 * 64 + 64 + 64 * 2 + 2),
    (SET, 4 * (4 * 4 + 4) + 2 * VECTOR_BLOCK + (4 + 128) * 2 + 2),
    (GRAPH, FIRST_ROUND + SECOND_ROUND + 2 * (64 * 64 + 64) + 64 * 2 + 2),
    (HISTORIES, 2 * (4 * 32 + 32) + 2 * 32 + 32 + 4 * 32 * (96 + 32) + 2 * 4 * 32 + 32 * 2 + 2),
    (PLAIN, 32 * 2 + 2),  # the rest is shared
    (PLAIN, 4 * 64 + 64 + 64 * 64 + 64 + 64 * 2 + 2),
    (PLAIN, 4 * 64 + 64 + 64 * 64 + 64 + 64 * 2 + 2),
    (PLAIN, 4 * 2 + 2),
    (BOXES, None),
]


def test_every_block_of_the_page_is_tested():
    assert len(BLOCKS) == len(EXPECTED)


@pytest.mark.parametrize(("text", "expected"), list(zip(BLOCKS, EXPECTED, strict=True)))
def test_models_of_the_page_have_the_stated_policy(kernel_with_blocks, text, expected):
    structured, n_parameters = expected
    catalog = kernel_with_blocks.catalog
    selection = select(kernel_with_blocks, "model", tomllib.loads(text)["model"])
    model = catalog.build(selection, ModelContext(spaces=structured, catalog=catalog))
    heads = model.distributions["0"].heads
    if n_parameters is None:
        assert [type(head).__name__ for head in heads.values()] == ["Beta", "SquashedGaussian"]
        assert heads["special_action"].options.max_log_std == 0.0
    else:
        assert sum(parameter.numel() for parameter in model.policies.parameters()) == n_parameters
    observation = {
        name: np.zeros((2, *space.shape), space.dtype) for name, space in structured.observation["0"].items()
    }
    batch = {name: torch.from_numpy(rows) for name, rows in observation.items()}
    batch |= {name: torch.zeros(2, *shape) for name, shape in model.state_shapes("0").items()} | {
        BEGINS: torch.zeros(2)
    }
    assert set(model.logits("0", batch)) == set(heads)


@pytest.mark.parametrize("folder", ["maze_perception", "plugins/maze_distributions"])
def test_the_readme_lists_every_component_and_option(kernel, folder):
    readme = (ROOT / folder / "README.md").read_text()
    package = folder.split("/")[-1]
    n_components = 0
    for entry in kernel.catalog.entries():
        if entry.component.target.startswith(package):
            n_components += 1
            component = entry.component
            assert f"`{component.name}`" in readme
            assert component.summary in readme
            if component.kind == "preset":
                continue  # a preset is a table, without options of its own
            section = readme.partition(f"### `{component.name}`\n")[2].partition("\n### ")[0]
            rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
            stated = {
                name.removeprefix("| "): (default, meaning.removesuffix(" |")) for name, _, default, meaning in rows
            }
            options = describe(kernel, component.kind, component.name).options
            assert stated == {f"`{row.name}`": (f"`{row.default}`", row.meaning) for row in options}
    assert n_components
