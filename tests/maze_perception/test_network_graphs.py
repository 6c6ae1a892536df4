"""Drawn networks: blocks, parameters, shares and shapes are those of the model."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from maze_drawing.mermaid import mermaid
from maze_drawing.network_drawing import draw
from maze_kernel.config.load import select
from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.model import ModelContext
from maze_perception.blocks.dense import Dense
from maze_perception.inference import InferenceBlock
from maze_perception.options import DenseOptions
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
    assert policy.note == critic.note == f"{count(model.shared):,} of them shared by policy and critic"
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


class Attending(nn.Module):
    """A convolution, an attention whose inner projections are one layer, a shared layer, a parameter of its own."""

    def __init__(self, *, obs_shapes, action_logits_shapes):
        super().__init__()
        self.look = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2))
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.body = nn.Linear(4, 6)
        self.back = nn.Linear(6, 6)
        self.scale = nn.Parameter(torch.ones(6))
        self.heads = nn.ModuleDict({name: nn.Linear(6, n) for name, (n,) in action_logits_shapes.items()})

    def forward(self, observation):
        items = self.look(observation["grid"].unsqueeze(1)).flatten(2).transpose(1, 2)
        latent = self.back(self.body(self.attention(items, items, items)[0].mean(1)).tanh())
        latent = self.back(latent + observation["x"].sum(-1, keepdim=True)) * self.scale
        return {name: head(latent) for name, head in self.heads.items()}


GRID = flat_spaces(
    spaces.Dict(grid=spaces.Box(-1, 1, (8, 8)), x=VECTOR), spaces.Dict(action=spaces.Discrete(2), more=VECTOR)
)


def test_the_layers_of_a_network_of_ones_own_are_drawn(make_model):
    """With their parameters, what they read through functions between them, and how often they run."""
    model = make_model(GRID, {"use": "custom", "policy": Attending})
    policy, _ = model.network_graphs()
    blocks = {block.name.removeprefix("Attending."): block for block in policy.blocks}
    assert list(blocks) == [
        "look.0",
        "look.2",
        "attention",
        "body",
        "back",
        "back (2)",
        "heads.action",
        "heads.more",
        "Attending",
    ]
    assert policy.n_parameters == count(model.policies)
    assert blocks["attention"].n_parameters == 4 * 4 * 4 + 4 * 4
    assert (blocks["back"].n_parameters, blocks["back (2)"].n_parameters) == (42, 0)
    assert blocks["Attending"].n_parameters == 6  # `scale`, which belongs to no layer
    assert blocks["look.0"].in_keys == ("grid",)
    assert blocks["look.2"].in_keys == blocks["look.0"].out_keys
    assert set(blocks["back (2)"].in_keys) == {*blocks["back"].out_keys, "x"}
    assert blocks["heads.action"].out_keys == ("network/action",)
    assert policy.shapes[blocks["look.0"].out_keys[0]] == (4, 6, 6)
    assert policy.shapes[blocks["look.2"].out_keys[0]] == (4, 3, 3)
    assert set(policy.inputs) == {"grid", "x"}
    texts = texts_of(draw(policy, "policy").to_svg())
    assert any(text.startswith("MultiheadAttention · 80 · ") for text in texts)


class Shared(nn.Module):
    """Perception blocks inside a module; what is shared leaves one of them, the logits are no block's own output."""

    def __init__(self, *, obs_shapes, action_logits_shapes):
        super().__init__()
        options = DenseOptions(hidden_units=(7,))
        block = Dense(("x",), ("latent",), (obs_shapes["x"],), options)
        self.net = InferenceBlock({"dense": block}, {"x": obs_shapes["x"]}, ["latent"])
        self.head = nn.Linear(7, 1)

    def forward(self, observation):
        latent = self.net(observation)["latent"]
        value = self.head(latent)
        return {"action": torch.cat([value, -value], -1), "latent": latent}


def test_perception_blocks_inside_are_blocks_and_the_rest_is_one_box(make_model):
    structured = flat_spaces(
        spaces.Dict(x=VECTOR, action_mask=spaces.MultiBinary(2)), spaces.Dict(action=spaces.Discrete(2))
    )
    model = make_model(structured, {"use": "custom", "policy": Shared})
    policy, critic = model.network_graphs()
    kinds = [(block.name, block.kind) for block in policy.blocks]
    assert kinds == [
        ("Shared.net.blocks.dense_block", "Dense"),
        ("Shared.head", "Linear"),
        ("Shared", "Shared"),
        ("action_masking", "ActionMasking"),
    ]
    dense, head, rest, masking = policy.blocks
    assert (dense.out_keys, head.in_keys, rest.in_keys) == (("latent",), ("latent",), head.out_keys)
    assert (rest.out_keys, masking.in_keys) == (("network/action",), ("network/action", "action_mask"))
    assert critic.blocks[0] == dense
    assert critic.n_parameters == count(model.shared) + count(model.critics)
    assert any("latent" in block.in_keys for block in critic.blocks[2:])


def test_watching_a_network_changes_nothing_of_it(make_model):
    model = make_model(GRID, {"use": "custom", "policy": Attending})
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    model.network_graphs()
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert not any(module._forward_hooks for module in model.modules())


def test_a_block_around_a_module_shows_its_layers(make_model):
    structured = flat_spaces(spaces.Dict(observation=VECTOR), spaces.Dict(action=spaces.Discrete(2)))
    block = {"use": "torch-model", "module": f"{__name__}:two_layers"}
    policy, _ = make_model(structured, {"use": "concat", "blocks": {"net": block}}).network_graphs()
    assert [block.name for block in policy.blocks] == ["observation_net.0", "observation_net.2", "action_logits"]
    assert policy.blocks[1].out_keys == policy.blocks[2].in_keys


def two_layers():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8))


def _policy_and_critic_of_one_class_name():
    class Net(nn.Module):
        def __init__(self, *, obs_shapes, action_logits_shapes):
            super().__init__()
            self.body, self.head, self.more = nn.Linear(4, 8), nn.Linear(8, 3), nn.Linear(8, 8)

        def forward(self, observation):
            hidden = self.body(observation["x"]).tanh()
            return {"action": self.head(hidden), "latent": self.more(hidden)}

    policy = Net

    class Net(nn.Module):
        def __init__(self, *, obs_shapes, output_shapes):
            super().__init__()
            self.body, self.head = nn.Linear(8, 2), nn.Linear(2, 1)

        def forward(self, observation):
            return {"value": self.head(self.body(observation["latent"]))}

    return policy, Net


def test_networks_of_one_class_name_are_drawn_behind_each_other(make_model):
    policy, critic = _policy_and_critic_of_one_class_name()
    structured = flat_spaces(spaces.Dict(x=spaces.Box(-1, 1, (4,))), spaces.Dict(action=spaces.Discrete(3)))
    graphs = named_graphs(make_model(structured, {"use": "custom", "policy": policy, "critic": critic}))
    blocks = {block.name: (block.in_keys, block.n_parameters) for block in graphs["critic"].blocks}
    assert blocks == {
        "Net.body": (("x",), 40),
        "Net.head": (("Net.body",), 27),
        "Net.more": (("Net.body",), 72),
        "Net.body [2]": (("latent",), 18),
        "Net.head [2]": (("Net.body [2]",), 3),
    }
    assert len(draw(graphs["critic"], "critic").boxes) > len(blocks)
