"""Drawn networks: blocks, parameters, shares and shapes are those of the model."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from gymnasium import spaces

from maze_drawing.mermaid import mermaid
from maze_drawing.network_drawing import draw
from maze_kernel.config.load import select
from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.model import ModelContext
from maze_runtime.env.flat import flat_spaces
from maze_runtime.models.graph_building import named_graphs

VECTOR = spaces.Box(-1.0, 1.0, (4,))
SCREEN = spaces.Box(0, 255, (32, 32, 3), np.uint8)


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def texts_of(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_counts_shares_and_shapes_are_those_of_the_networks(make_model):
    model = make_model(flat_spaces(spaces.Dict(observation=VECTOR), spaces.Dict(action=spaces.Discrete(2))))
    policy, critic = model.network_graphs()
    assert (policy.role, critic.role) == ("policy", "critic")
    assert policy.n_parameters == count(model.policies) == 4 * 64 + 64 + 64 * 64 + 64 + 64 * 2 + 2
    assert critic.n_parameters == count(model.critics)
    dense, logits = policy.blocks
    assert (dense.n_parameters, logits.n_parameters) == (4480, 130)
    assert policy.share(dense) == pytest.approx(4480 / 4610)
    assert sum(map(policy.share, policy.blocks)) == pytest.approx(1.0)
    assert policy.shapes["model/dense"] == (64,)
    assert (policy.inputs, list(policy.outputs)) == (("observation",), ["action"])
    assert list(named_graphs(model)) == ["policy", "critic"]
    texts = texts_of(draw(policy, "policy").to_svg())
    assert "Dense · 4,480 · 97.2%" in texts
    assert "LinearOutput · 130 · 2.8%" in texts
    assert "policy of policy key '0' · 4,610 parameters" in texts


def test_shared_layers_stand_in_both_networks_and_masks_lead_to_their_heads(make_model):
    structured = flat_spaces(
        spaces.Dict(screen=SCREEN, action_mask=spaces.MultiBinary(3)), spaces.Dict(action=spaces.Discrete(3))
    )
    model = make_model(structured)
    policy, critic = model.network_graphs()
    assert policy.n_parameters == count(model.shared) + count(model.policies)
    assert critic.n_parameters == count(model.shared) + count(model.critics)
    assert (set(policy.inputs), critic.inputs) == ({"action_mask", "screen"}, ("screen",))
    masking = policy.blocks[-1]
    assert masking.in_keys == ("model/action_logits", "action_mask")
    assert policy.caption(masking) == "ActionMasking · no parameters"


def test_every_policy_key_and_the_twins_have_pictures_of_their_own(kernel):
    structured = StructuredSpaces(
        observation={"select": spaces.Dict(x=VECTOR), "cut it": spaces.Dict(y=spaces.Discrete(4))},
        action={"select": spaces.Dict(piece=spaces.Discrete(3)), "cut it": spaces.Dict(force=VECTOR)},
        agent_counts={"select": 1, "cut it": 1},
    )
    context = ModelContext(spaces=structured, catalog=kernel.catalog, critic="state-action")
    named = named_graphs(kernel.catalog.build(select(kernel, "model", "auto"), context))
    graphs = list(named.values())
    assert list(named) == ["policy-select", "policy-cut-it", "action-values-select", "action-values-cut-it"]
    assert graphs[2].note == "one of 2 alike"
    assert graphs[2].outputs == {"value": "model/value"}
    assert graphs[3].inputs == ("y", "taken_action")


def many_blocks(make_model):
    names = [f"sensor_{index}" for index in range(13)]
    observation = spaces.Dict({name: spaces.Box(-1, 1, (3 + i,)) for i, name in enumerate(names)})
    heads = {f"head_{index}": spaces.Discrete(3) for index in range(13)}
    masks = {f"head_{index}_mask": spaces.MultiBinary(3) for index in range(13)}
    table = {
        "use": "concat",
        "blocks": {"sensor": {"use": "dense", "hidden_units": [16]}},
        "hidden": {"use": "dense"},
    }
    return make_model(flat_spaces(spaces.Dict({**observation.spaces, **masks}), spaces.Dict(heads)), table)


def test_forty_blocks_do_not_overlap(make_model):
    policy, _ = many_blocks(make_model).network_graphs()
    assert len(policy.blocks) == 41
    drawing = draw(policy, "policy")
    boxes = drawing.boxes
    assert len(boxes) == 41 + 26 + 13
    for index, one in enumerate(boxes):
        assert one.x >= 0.0
        assert one.x + one.width <= drawing.width
        assert one.y + one.height <= drawing.height
        for other in boxes[:index]:
            apart_x = one.x + one.width <= other.x or other.x + other.width <= one.x
            apart_y = one.y + one.height <= other.y or other.y + other.height <= one.y
            assert apart_x or apart_y
    for label in drawing.labels[1:]:
        assert any(box.x <= label.x <= box.x + box.width and box.y <= label.y <= box.y + box.height for box in boxes)


def test_mermaid_names_blocks_tensors_and_arrows(make_model):
    model = make_model(flat_spaces(spaces.Dict({'a "b"': VECTOR}), spaces.Dict(action=spaces.Discrete(2))))
    text = mermaid(model.network_graphs())
    lines = [line.strip() for line in text.splitlines()]
    assert lines[:2] == ["flowchart TD", 'subgraph n0["policy of 0 · 4,610 parameters"]']
    assert 'n0i0(["a #quot;b#quot;<br/>4"])' in lines
    assert 'n0b0["dense<br/>Dense · 4,480 · 97.2%"]' in lines
    assert 'n0b0 -->|"64"| n0b1' in lines
    assert 'n0b1 -->|"2"| n0o0' in lines
    declared = set(re.findall(r"^\s+(n\d[iob]\d+)[(\[]", text, re.M))
    assert set(re.findall(r"n\d[iob]\d+", text)) == declared
