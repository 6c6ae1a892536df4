"""The `auto` model derives a stack from every kind of observation, with blocks from the catalog."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

import maze_blocks_graph.plugin
import maze_blocks_pointnet.plugin
import maze_blocks_recurrent.plugin
import maze_distributions.plugin
import maze_perception.plugin
from maze_kernel.config.load import select
from maze_kernel.contracts.model import ModelContext
from maze_kernel.errors import PluginError, RequestError, SpaceError
from maze_kernel.loader import Kernel
from maze_perception.models.modalities import modalities_of
from maze_runtime.env.flat import flat_spaces
from maze_runtime.models.observation_encoding import ObservationEncoder
from maze_runtime.models.shared_action_values import joined_space
from maze_testing.models import check_model

EVERYTHING = Kernel.of(
    maze_perception.plugin,
    maze_distributions.plugin,
    maze_blocks_graph.plugin,
    maze_blocks_pointnet.plugin,
    maze_blocks_recurrent.plugin,
)
BARE = Kernel.of(maze_perception.plugin, maze_distributions.plugin)


def box(*shape):
    return spaces.Box(-1.0, 1.0, shape)


SET = {"points": box(5, 3), "points_mask": spaces.MultiBinary(5)}
GRAPH = {
    "net_nodes": box(4, 3),
    "net_edge_links": spaces.Box(-1, 3, (6, 2), np.int64),
    "net_edges": box(6, 2),
    "net_node_mask": spaces.MultiBinary(4),
}
GRAPH_OF_NUMBERS = {"nodes": box(4, 3), "edge_links": GRAPH["net_edge_links"]}
OBSERVATIONS = {
    "sequence": {"history": box(7, 3)},
    "set": SET,
    "graph": GRAPH,
    "bare-graph": GRAPH_OF_NUMBERS,
    "mixed": {**SET, **GRAPH, "history": box(7, 3), "speed": box(2), "counts": spaces.MultiDiscrete([2, 3])},
    "mixed-with-image": {**SET, "screen": spaces.Box(0, 255, (16, 16, 3), np.uint8), "speed": box(2)},
}


SAID = {"sequences": ["history"]}


def model_of(observation, kernel=EVERYTHING, action=None, critic="state-value", **options):
    structured = flat_spaces(spaces.Dict(observation), spaces.Dict(action or {"action": spaces.Discrete(3)}))
    context = ModelContext(spaces=structured, catalog=kernel.catalog, seed=3, critic=critic)
    said = SAID if "history" in observation and "sequences" not in options else {}
    return kernel.catalog.build(select(kernel, "model", {"use": "auto", **said, **options}), context), structured


def kinds(observation, features=None, sequences=("history",)):
    found = modalities_of(spaces.Dict(observation), features or tuple(observation), sequences)
    return {modality.name: (modality.kind, set(modality.parts.values())) for modality in found}


def test_every_observation_is_told_by_its_space_and_name():
    assert kinds(OBSERVATIONS["mixed"]) == {
        "net_graph": ("graph", set(GRAPH)),
        "points": ("set", set(SET)),
        "history": ("sequence", {"history"}),
        "speed": ("vector", {"speed"}),
        "counts": ("vector", {"counts"}),
    }
    boxes = {"a": spaces.Box(0, 255, (8, 8), np.uint8), "b": box(3, 9, 9), "c": box(9, 9, 3), "d": box(2, 2, 2)}
    assert [kind for kind, _ in kinds(boxes).values()] == ["image", "image", "image", "vector"]
    # channels are first or last: a grid whose middle dimension is short is no image
    assert kinds({"grid": box(10, 3, 10)}) == {"grid": ("vector", {"grid"})}
    assert kinds({"grid": box(12, 4, 10)}) == {"grid": ("vector", {"grid"})}
    # the mask of an action head is no mask of a set; nodes without links are no graph; rows no sequence, unless said
    assert kinds(SET, ("points",)) == {"points": ("vector", {"points"})}
    assert kinds({"inventory": box(200, 2)}) == {"inventory": ("vector", {"inventory"})}
    assert kinds({"nodes": box(4, 3)}) == {"nodes": ("vector", {"nodes"})}
    assert kinds(SET, sequences=["points"]) == {
        "points": ("sequence", {"points"}),
        "points_mask": ("vector", {"points_mask"}),
    }


def test_an_inventory_is_flattened_and_a_history_that_is_said_to_be_one_is_read_in_time():
    inventory, _ = model_of({"inventory": box(200, 2)})
    assert inventory.notes == (
        "the model reads inventory (200, 2) as numbers, flattened; dense layers of 64 and 64 units, tanh",
    )
    assert "gru" not in str(inventory).lower()
    history, _ = model_of({"history": box(7, 3), "speed": box(2)})
    assert history.notes == (
        "the model reads history (7, 3) as a sequence, speed (2,) as numbers; dense layers of 64 and 64 units, tanh",
    )
    assert "gru" in str(history).lower()
    choices, _ = model_of(
        {"day": spaces.Discrete(10), "kinds": spaces.MultiDiscrete([2, 3]), "on": spaces.MultiBinary(4)}
    )
    assert choices.notes == (
        "the model reads day as a one-hot of 10, kinds (2,) as one-hots, on (4,) as numbers; "
        "dense layers of 64 and 64 units, tanh",
    )


MULTI = {"points": spaces.MultiDiscrete(np.full((5, 3), 2)), "points_mask": spaces.MultiDiscrete([5])}
LINKS_OF_CHOICES = spaces.MultiDiscrete(np.full((6, 2), 4))


@pytest.mark.parametrize(
    "observation",
    [
        MULTI,
        {**SET, "points_mask": MULTI["points_mask"]},
        {**GRAPH, "net_edge_links": LINKS_OF_CHOICES},
        {**GRAPH, "net_node_mask": spaces.MultiDiscrete([2] * 4)},
    ],
    ids=["set", "set-mask", "links", "node-mask"],
)
def test_choices_are_one_vector_whatever_they_are_called(observation):
    assert {kind for kind, _ in kinds(observation, sequences=()).values()} == {"vector"}
    model_of(observation)


@pytest.mark.parametrize(
    ("name", "near"),
    [("histroy", ("history",)), ("speed", ()), ("points", ())],
    ids=["no observation", "one dimension", "one-hots"],
)
def test_what_cannot_be_a_sequence_is_refused(name, near):
    with pytest.raises(RequestError, match=f"to read '{name}' as a sequence") as caught:
        model_of({"history": box(7, 3), "speed": box(2), "points": MULTI["points"]}, sequences=[name])
    assert caught.value.nearest == near


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_every_default_model_conforms(name):
    structured = model_of(OBSERVATIONS[name])[1]
    check_model(lambda: model_of(OBSERVATIONS[name])[0], structured)


@pytest.mark.parametrize("action", [spaces.Discrete(3), box(2)])
def test_default_models_value_actions_too(action):
    model, structured = model_of(OBSERVATIONS["mixed"], action={"action": action}, critic="state-action")
    structured.observation["0"].seed(0)
    row = structured.observation["0"].sample()
    inputs = {name: torch.from_numpy(np.stack([np.asarray(value)] * 2)) for name, value in row.items()}
    encoded = None if isinstance(action, spaces.Discrete) else torch.zeros(2, 2)
    values = model.action_value_critic("0")(inputs, encoded)
    assert values.shape == ((2, 2, 3) if encoded is None else (2, 2))


@pytest.mark.parametrize(
    ("observation", "critic", "words"),
    [
        ({"x": box(2), "taken_action": box(3)}, "state-action", "'taken_action', as Q networks call the action"),
        ({"p@1": box(5, 3)}, "state-value", "'p@1' has an @ in its name"),
    ],
)
def test_observations_with_names_that_models_use_themselves_are_refused(observation, critic, words):
    with pytest.raises(SpaceError, match=words):
        model_of(observation, action={"action": box(2)}, critic=critic)


def logits_of(model, observation):
    batch = {name: torch.as_tensor(np.asarray(value))[None] for name, value in observation.items()}
    return model.logits("0", batch)["action"].detach()


def test_masked_points_and_their_order_do_not_matter():
    model, _ = model_of(SET)
    points = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    mask = np.array([1, 1, 0, 1, 0], np.int8)
    logits = logits_of(model, {"points": points, "points_mask": mask})
    changed = points.copy()
    changed[[2, 4]] = 9.0
    order = np.array([3, 4, 1, 0, 2])
    torch.testing.assert_close(logits_of(model, {"points": changed, "points_mask": mask}), logits)
    torch.testing.assert_close(logits_of(model, {"points": points[order], "points_mask": mask[order]}), logits)


def test_nodes_that_do_not_exist_and_their_numbers_do_not_matter():
    model, _ = model_of(GRAPH)
    rng = np.random.default_rng(0)
    graph = {
        "net_nodes": rng.normal(size=(4, 3)).astype(np.float32),
        "net_node_mask": np.array([1, 1, 1, 0], np.int8),
        "net_edge_links": np.array([[0, 1], [1, 2], [2, 0], [-1, -1], [-1, -1], [-1, -1]]),
        "net_edges": rng.normal(size=(6, 2)).astype(np.float32),
    }
    logits = logits_of(model, graph)
    changed = {**graph, "net_nodes": graph["net_nodes"].copy(), "net_edges": graph["net_edges"].copy()}
    changed["net_nodes"][3], changed["net_edges"][3:] = 9.0, 9.0
    torch.testing.assert_close(logits_of(model, changed), logits)
    place = np.array([2, 0, 1, 3])  # old number to new number
    renamed = {**graph, "net_nodes": graph["net_nodes"][np.argsort(place)]}
    links = graph["net_edge_links"]
    renamed["net_edge_links"] = np.where(links < 0, links, place[np.clip(links, 0, 3)])
    torch.testing.assert_close(logits_of(model, renamed), logits)


def test_links_of_bytes_are_node_numbers():
    links = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [2, 0], [1, 3]])
    graph = {"nodes": np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32), "edge_links": links}
    of_bytes = {**GRAPH_OF_NUMBERS, "edge_links": spaces.Box(0, 255, (6, 2), np.uint8)}
    logits = [logits_of(model_of(observation)[0], graph) for observation in (GRAPH_OF_NUMBERS, of_bytes)]
    torch.testing.assert_close(*logits)


def test_links_of_bytes_are_node_numbers_for_a_critic_of_several_policy_keys():
    graph = spaces.Dict({**GRAPH_OF_NUMBERS, "edge_links": spaces.Box(0, 255, (6, 2), np.uint8)})
    joined = spaces.Dict(joined_space({"a": graph, "b": graph}))
    links = np.array([[[0, 3]] * 6], np.uint8)
    encoded = ObservationEncoder(joined).encode_numpy(
        {name: links if "links" in name else np.zeros((1, 4, 3), np.float32) for name in joined}
    )
    for key in "ab":
        np.testing.assert_array_equal(encoded[f"edge_links@{key}"], links)


@pytest.mark.parametrize(
    ("name", "distribution"),
    [("sequence", "maze-blocks-recurrent"), ("set", "maze-blocks-pointnet"), ("graph", "maze-blocks-graph")],
)
def test_a_block_family_that_is_not_installed_is_named(name, distribution):
    with pytest.raises(PluginError) as caught:
        model_of(OBSERVATIONS[name], BARE)
    assert f"pip install {distribution}" in caught.value.render()
    assert repr(next(iter(OBSERVATIONS[name]))) in caught.value.what


SCREEN = {"screen": spaces.Box(0, 255, (16, 16, 3), np.uint8), "speed": box(2)}


def test_twins_that_read_an_action_share_the_stack_of_images_and_nothing_else():
    model, _ = model_of(SCREEN, action={"action": box(2)}, critic="state-action")
    critic = model.action_value_critic("0")
    stack, (first, second) = list(critic.shared.parameters()), critic.networks
    assert any(p.dim() == 4 for p in stack)
    own = [{id(p) for p in network.parameters()} for network in (first, second)]
    assert own[0]
    assert not own[0] & own[1]
    assert not {id(p) for p in stack} & (own[0] | own[1] | {id(p) for p in model.policies.parameters()})
    assert not any(p.dim() == 4 for network in (first, second) for p in network.parameters())
    assert {id(p) for p in critic.parameters()} == {id(p) for p in stack} | own[0] | own[1]

    rng = np.random.default_rng(0)
    observation = {
        "screen": torch.from_numpy(rng.integers(0, 256, (3, 16, 16, 3), dtype=np.uint8)),
        "speed": torch.from_numpy(rng.uniform(-1, 1, (3, 2)).astype(np.float32)),
    }
    action = torch.from_numpy(rng.uniform(-1, 1, (3, 2)).astype(np.float32))
    values = critic(observation, action)
    assert not torch.allclose(values[0], values[1])
    torch.testing.assert_close(critic.first(observation, action), values[0])
    for twin in range(2):
        gradients = torch.autograd.grad(values[twin].sum(), stack, retain_graph=True)
        assert all(bool((gradient != 0).any()) for gradient in gradients)


@pytest.mark.parametrize(
    ("observation", "action"), [({"speed": box(2)}, box(2)), (SCREEN, spaces.Discrete(3))], ids=["vectors", "choices"]
)
def test_other_twins_share_nothing(observation, action):
    model, _ = model_of(observation, action={"action": action}, critic="state-action")
    critic = model.action_value_critic("0")
    first, second = ({id(p) for p in network.parameters()} for network in critic.networks)
    assert critic.shared is None
    assert not first & second


@pytest.mark.parametrize("name", OBSERVATIONS)
@pytest.mark.parametrize("critic", ["state-value", "state-action"])
def test_without_hidden_units_heads_are_linear_in_what_the_stacks_give(name, critic):
    model, structured = model_of(OBSERVATIONS[name], critic=critic, hidden_units=[])
    if critic == "state-value":
        check_model(lambda: model_of(OBSERVATIONS[name], hidden_units=[])[0], structured)
    assert model.notes[0].endswith("; no dense layers, heads are linear")
    assert not any("dense" in block.name for graph in model.network_graphs() for block in graph.blocks)


def test_a_linear_policy_of_numbers_has_one_weight_an_observation_and_choice():
    model, _ = model_of({"speed": box(2), "place": box(3)}, hidden_units=[])
    policy = [tensor.shape for tensor in model.policies.parameters()]
    assert policy == [(3, 5), (3,)]
    rows = {"speed": torch.rand(4, 2), "place": torch.rand(4, 3)}
    weight, bias = (tensor.detach() for tensor in model.policies.parameters())
    expected = torch.cat([rows["place"], rows["speed"]], -1) @ weight.t() + bias
    torch.testing.assert_close(model.logits("0", rows)["action"].detach(), expected)
    mirror = model.numpy_logits("0")({name: own.numpy() for name, own in rows.items()})
    np.testing.assert_allclose(mirror["action"], expected.numpy(), rtol=1e-5, atol=1e-6)
