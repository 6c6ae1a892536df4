"""Graph blocks against loops over nodes, neighbours and links."""

import numpy as np
import pytest
import torch

import maze_blocks_graph.plugin
from maze_kernel.config.load import select
from maze_kernel.loader import Kernel
from maze_perception.block import BlockError
from maze_perception.inference import InferenceBlock
from maze_testing.blocks import check_block, check_compiled_block

KERNEL = Kernel.of(maze_blocks_graph.plugin)
GRAPH = [(5, 3), (5, 5)]
CASES = {
    "convolution": ("graph-convolution", {"hidden_features": [4, 2], "trainable_node_self_importance": True}, GRAPH),
    "plain convolution": ("graph-convolution", {"normalization": "none", "bias": False}, GRAPH),
    "attention": ("graph-attention", {"hidden_features": [4, 2], "num_heads": 3}, GRAPH),
    "messages": ("message-passing", {"hidden_units": [6, 4]}, [(5, 3), (7, 2)]),
    "edges": ("message-passing", {"hidden_units": [4]}, [(5, 3), (7, 2), (7, 2)]),
    "masked edges": ("message-passing", {"aggregation": "max"}, [(5, 3), (7, 2), (7, 2), (7,)]),
}
RNG = np.random.default_rng(5)
NODES = RNG.normal(size=(4, 5, 3)).astype(np.float32)
ADJACENCY = (RNG.random((4, 5, 5)) * (RNG.random((4, 5, 5)) < 0.5)).astype(np.float32)
ADJACENCY[1] = 0.0
ADJACENCY[2, 4] = ADJACENCY[2, :, 4] = 0.0
LINKS = RNG.integers(0, 5, (4, 7, 2))
LINKS[0, 3] = [-1, -1]
LINKS[1] = -1
LINKS[2, 5] = [5, 0]
EDGES = RNG.normal(size=(4, 7, 2)).astype(np.float32)
EDGE_MASK = RNG.integers(0, 2, (4, 7))


def build(name, options, in_shapes, out_keys=("out",)):
    in_keys = [f"in{index}" for index in range(len(in_shapes))]
    return KERNEL.catalog.build(select(KERNEL, "block", {"use": name, **options}), in_keys, out_keys, in_shapes)


def run(block, *arrays, key="out"):
    with torch.no_grad():
        return block({f"in{index}": torch.as_tensor(array) for index, array in enumerate(arrays)})[key].numpy()


def array(tensor):
    return tensor.detach().numpy()


@pytest.mark.parametrize("normalization", ["symmetric", "row", "none"])
@pytest.mark.parametrize("importance", [1.0, 0.0, 2.5])
def test_convolutions_mix_neighbours(normalization, importance):
    options = {"hidden_features": [4, 2], "non_lin": "tanh", "normalization": normalization}
    block = build("graph-convolution", {**options, "node_self_importance": importance}, GRAPH)
    expected = []
    for x, a in zip(NODES.astype(np.float64), ADJACENCY, strict=True):
        a = a + importance * np.eye(5)
        degree = a.sum(1)
        for layer in block.linear:
            h = x @ array(layer.weight).T
            mixed = np.zeros_like(h)
            for i in range(5):
                for j in range(5):
                    if normalization == "none":
                        mixed[i] += a[i, j] * h[j]
                    elif degree[i] > 0 and normalization == "row":
                        mixed[i] += a[i, j] / degree[i] * h[j]
                    elif degree[i] > 0 and degree[j] > 0:
                        mixed[i] += a[i, j] / np.sqrt(degree[i] * degree[j]) * h[j]
            x = np.tanh(mixed + array(layer.bias))
        expected.append(x)
    np.testing.assert_allclose(run(block, NODES, ADJACENCY), expected, atol=1e-5)


def test_the_importance_of_the_node_itself_can_be_learnt():
    block = build("graph-convolution", {"trainable_node_self_importance": True, "node_self_importance": 0.0}, GRAPH)
    block({"in0": torch.from_numpy(NODES), "in1": torch.from_numpy(ADJACENCY)})["out"].square().sum().backward()
    assert block.self_importance.grad.isfinite().all()
    assert (block.self_importance.grad != 0).any()
    assert "self_importance" not in dict(build("graph-convolution", {}, GRAPH).named_parameters())


@pytest.mark.parametrize("average", [True, False])
def test_nodes_attend_to_their_neighbours_and_themselves(average):
    options = {"hidden_features": [4, 2], "num_heads": 3, "avg_last_head_attentions": average, "non_lin": "tanh"}
    block = build("graph-attention", options, GRAPH)
    expected = []
    for x, a in zip(NODES.astype(np.float64), ADJACENCY, strict=True):
        for index, layer in enumerate(block.layers):
            size = layer.receiver.shape[1]
            heads = []
            for head in range(3):
                h = x @ array(layer.linear.weight)[head * size : (head + 1) * size].T
                out = np.zeros_like(h)
                for i in range(5):
                    seen = [j for j in range(5) if a[i, j] != 0 or i == j]
                    scores = [array(layer.receiver)[head] @ h[i] + array(layer.sender)[head] @ h[j] for j in seen]
                    weights = np.exp([score if score > 0 else 0.2 * score for score in scores])
                    out[i] = sum(w * h[j] for w, j in zip(weights / weights.sum(), seen, strict=True))
                heads.append(out)
            joined = np.mean(heads, 0) if average and index == 1 else np.concatenate(heads, -1)
            x = np.tanh(joined + array(layer.bias))
        expected.append(x)
    np.testing.assert_allclose(run(block, NODES, ADJACENCY), expected, atol=1e-5)
    assert block.out_shapes() == ((5, 2 if average else 6),)


def dense(layers, x):
    for layer in layers.linear:
        x = np.maximum(array(layer.weight) @ x + array(layer.bias), 0.0)
    return x


def pass_messages(block, nodes, links, edges, mask, aggregation):
    for edge_network, node_network in zip(block.edge_networks, block.node_networks, strict=True):
        exists = [mask[k] and min(links[k]) >= 0 and max(links[k]) < len(nodes) for k in range(len(links))]
        edges = [
            dense(edge_network, np.concatenate([edge, nodes[source], nodes[target]])) if there else None
            for edge, (source, target), there in zip(edges, links, exists, strict=True)
        ]
        size = edge_network.hidden_units[-1]
        after = []
        for i, node in enumerate(nodes):
            messages = [edge for edge, link in zip(edges, links, strict=True) if edge is not None and link[1] == i]
            joined = getattr(np, aggregation)(messages, axis=0) if messages else np.zeros(size)
            after.append(dense(node_network, np.concatenate([node, joined])))
        nodes = after
    return nodes, [np.zeros(size) if edge is None else edge for edge in edges]


@pytest.mark.parametrize("aggregation", ["mean", "sum", "max"])
@pytest.mark.parametrize("n_inputs", [2, 3, 4])
def test_messages_pass_along_the_links(aggregation, n_inputs):
    inputs = [NODES, LINKS, EDGES, EDGE_MASK][:n_inputs]
    options = {"hidden_units": [6, 4], "aggregation": aggregation, "n_rounds": 2}
    block = build("message-passing", options, [x.shape[1:] for x in inputs], ("out", "edges"))
    results = []
    for b in range(4):
        edges = EDGES[b] if n_inputs > 2 else np.zeros((7, 0))
        mask = EDGE_MASK[b] if n_inputs > 3 else np.ones(7)
        results.append(pass_messages(block, list(NODES[b]), LINKS[b], edges, mask, aggregation))
    for index, key in enumerate(("out", "edges")):
        np.testing.assert_allclose(run(block, *inputs, key=key), [result[index] for result in results], atol=1e-5)


def test_padded_links_get_no_gradient():
    block = build("message-passing", {"aggregation": "max"}, [(5, 3), (7, 2), (7, 2)], ("out", "edges"))
    edges = torch.from_numpy(EDGES).requires_grad_()
    outputs = block({"in0": torch.from_numpy(NODES), "in1": torch.from_numpy(LINKS).float(), "in2": edges})
    sum(value.square().sum() for value in outputs.values()).backward()
    absent = torch.from_numpy(((LINKS < 0) | (LINKS > 4)).any(-1))
    assert edges.grad.isfinite().all()
    assert (edges.grad[absent] == 0).all()
    assert (edges.grad[~absent] != 0).any()


@pytest.mark.parametrize("case", ["convolution", "attention"])
def test_renumbering_the_nodes_renumbers_the_result(case):
    block, order = build(*CASES[case]), [3, 0, 4, 1, 2]
    shuffled = run(block, NODES[:, order], ADJACENCY[:, order][:, :, order])
    np.testing.assert_allclose(shuffled, run(block, NODES, ADJACENCY)[:, order], atol=1e-5)


def test_a_graph_of_blocks_takes_two_outputs():
    block = build("message-passing", {}, [(5, 3), (7, 2)], ("nodes", "edges"))
    joined = InferenceBlock({"messages": block}, {"in0": (5, 3), "in1": (7, 2)}, ["nodes", "edges"])
    assert (joined.shapes["nodes"], joined.shapes["edges"]) == ((5, 64), (7, 64))


@pytest.mark.parametrize("case", CASES)
def test_they_conform(case):
    check_block(lambda: build(*CASES[case]))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_they_compile(case):
    check_compiled_block(lambda: build(*CASES[case]))


@pytest.mark.parametrize(
    ("name", "in_shapes", "words"),
    [
        ("graph-convolution", [(5, 3), (5, 4)], ["GraphConvolution", "'in1'", "(5, 4)", "(5, 5)", "'in0'"]),
        ("graph-attention", [(5, 3)], ["GraphAttention", "2 inputs", "nodes, adjacency", "in0"]),
        ("graph-attention", [(5,), (5, 5)], ["GraphAttention", "'in0'", "(5,)"]),
        ("message-passing", [(5, 3), (7, 3)], ["MessagePassing", "'in1'", "(7, 3)", "(7, 2)"]),
        ("message-passing", [(5, 3), (7, 2), (6, 2)], ["'in2'", "(6, 2)", "(7, 2)"]),
        ("message-passing", [(5, 3), (7, 2), (7, 2), (5,)], ["'in3'", "(5,)", "(7,)"]),
    ],
)
def test_inputs_that_do_not_fit_are_refused(name, in_shapes, words):
    with pytest.raises(BlockError) as caught:
        build(name, {}, in_shapes)
    for word in words:
        assert word in caught.value.render()


def test_three_outputs_are_refused():
    with pytest.raises(BlockError, match="1 to 2 outputs"):
        build("message-passing", {}, [(5, 3), (7, 2)], ("a", "b", "c"))


def test_forward_and_backward_trace_as_one_graph():
    check_compiled_block(lambda: build(*CASES["masked edges"]), backend="aot_eager")


@pytest.mark.parametrize("n_inputs", [0, 1, 5])
def test_another_number_of_inputs_is_refused(n_inputs):
    with pytest.raises(BlockError, match="MessagePassing takes") as caught:
        build("message-passing", {}, [NODES.shape[1:]] * n_inputs)
    assert "input" in caught.value.expected
