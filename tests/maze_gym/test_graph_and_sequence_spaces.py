"""Graph, Sequence and Text observations become padded arrays."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import GraphInstance

from maze_gym.env import GymEnv
from maze_gym.padding import Padding
from maze_gym.space_adapter import SpaceAdapter
from maze_kernel.errors import EnvError, SpaceError

VECTOR = spaces.Box(-1.0, 1.0, (3,))
GRAPH = spaces.Graph(node_space=VECTOR, edge_space=spaces.Box(0.0, 1.0, (2,)))
PADDING = Padding(max_nodes=4, max_edges=5, max_items=3)


def test_a_graph_becomes_nodes_links_edges_and_a_mask():
    adapter = SpaceAdapter(spaces.Dict(net=GRAPH, speed=VECTOR), "observation", PADDING)
    assert {key: space.shape for key, space in adapter.outer.spaces.items()} == {
        "net_nodes": (4, 3), "net_node_mask": (4,), "net_edge_links": (5, 2), "net_edges": (5, 2), "speed": (3,),
    }  # fmt: skip
    nodes, edges = np.full((2, 3), 0.5, np.float32), np.full((1, 2), 0.25, np.float32)
    graph = GraphInstance(nodes=nodes, edges=edges, edge_links=np.array([[0, 1]]))
    decoded = adapter.decode({"net": graph, "speed": np.zeros(3, np.float32)})
    assert adapter.outer.contains(decoded)
    assert decoded["net_node_mask"].tolist() == [1, 1, 0, 0]
    assert decoded["net_nodes"].sum(axis=1).tolist() == [1.5, 1.5, 0.0, 0.0]
    assert decoded["net_edge_links"].tolist() == [[0, 1], [-1, -1], [-1, -1], [-1, -1], [-1, -1]]
    assert decoded["net_edges"].sum(axis=1).tolist() == [0.5, 0.0, 0.0, 0.0, 0.0]


def test_numbers_become_one_hots_and_empty_graphs_are_served():
    adapter = SpaceAdapter(spaces.Graph(spaces.Discrete(3, start=1), None), "observation", PADDING)
    graph = GraphInstance(nodes=np.array([3, 1]), edges=None, edge_links=None)
    decoded = adapter.decode(graph)
    assert decoded["observation_nodes"].tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert (decoded["observation_edge_links"] == -1).all()
    assert "observation_edges" not in decoded


@pytest.mark.parametrize("stack", [False, True])
def test_a_sequence_becomes_items_and_a_mask(stack):
    adapter = SpaceAdapter(spaces.Sequence(VECTOR, stack=stack), "observation", PADDING)
    items = [np.full(3, 0.5, np.float32), np.full(3, -1.0, np.float32)]
    decoded = adapter.decode(np.stack(items) if stack else tuple(items))
    assert decoded["observation"].tolist() == [[0.5] * 3, [-1.0] * 3, [0.0] * 3]
    assert decoded["observation_mask"].tolist() == [1, 1, 0]


def test_a_text_becomes_the_numbers_of_its_words():
    padding = Padding(max_words=6, words=("go", "to", "Ball"))
    adapter = SpaceAdapter(spaces.Dict(mission=spaces.Text(60), speed=VECTOR), "observation", padding)
    assert adapter.outer["mission"] == spaces.MultiDiscrete([5] * 6)
    decoded = adapter.decode({"mission": "Go to the ball, to!", "speed": np.zeros(3, np.float32)})
    assert decoded["mission"].tolist() == [2, 3, 1, 4, 3, 0]
    assert adapter.outer.contains(decoded)
    assert adapter.decode({"mission": "", "speed": np.zeros(3, np.float32)})["mission"].tolist() == [0] * 6
    with pytest.raises(EnvError, match=r"words of 'mission' than .* max_words"):
        adapter.decode({"mission": "a b c d e f g", "speed": np.zeros(3, np.float32)})


def test_more_than_the_options_allow_is_an_error_that_names_the_option():
    adapter = SpaceAdapter(spaces.Sequence(VECTOR), "observation", PADDING)
    with pytest.raises(EnvError, match="max_items") as caught:
        adapter.decode(tuple(np.zeros(3, np.float32) for _ in range(4)))
    assert caught.value.received == "4"


@pytest.mark.parametrize(
    ("space", "padding", "word"),
    [
        (GRAPH, Padding(max_nodes=4), "max_edges"),
        (spaces.Sequence(VECTOR), Padding(), "max_items"),
        (spaces.Text(9), PADDING, "max_words"),
        (spaces.Sequence(spaces.Box(0, 1, (2, 2))), PADDING, "one dimension"),
    ],
)
def test_a_space_without_known_size_names_what_to_set(space, padding, word):
    with pytest.raises(SpaceError) as caught:
        SpaceAdapter(space, "observation", padding)
    assert word in caught.value.render()


class Growing(gymnasium.Env):
    """A graph that gets one node a step."""

    observation_space = spaces.Graph(VECTOR, None)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.n_nodes = 1
        return self._graph(), {}

    def step(self, action):
        self.n_nodes += 1
        return self._graph(), 0.0, self.n_nodes == 3, False, {}

    def _graph(self):
        links = np.array([[i, i + 1] for i in range(self.n_nodes - 1)]).reshape(-1, 2)
        return GraphInstance(nodes=np.ones((self.n_nodes, 3), np.float32), edges=None, edge_links=links)


def test_an_environment_of_graphs_steps():
    env = GymEnv(Growing(), padding=PADDING)
    observation, _ = env.reset(seed=0)
    assert observation["observation_node_mask"].tolist() == [1, 0, 0, 0]
    observation, *_ = env.step({"action": 0})
    assert observation["observation_node_mask"].tolist() == [1, 1, 0, 0]
    assert observation["observation_edge_links"][0].tolist() == [0, 1]
