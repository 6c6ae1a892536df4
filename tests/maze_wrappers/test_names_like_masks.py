"""A picture called `road_mask` is a picture: what is a mask follows from heads and sizes, not from an ending."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from maze_gym.env import GymEnv
from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.errors import RequestError
from maze_runtime.env.mask_reading import masks_of
from maze_wrappers.joined_actions import JoinedActions
from maze_wrappers.joined_observations import JoinedObservations
from maze_wrappers.normalized_keys import normalized_boxes
from maze_wrappers.observation_stack import ObservationStack
from maze_wrappers.options import ObservationStackOptions, StepSkipOptions
from maze_wrappers.step_skip import StepSkip
from maze_wrappers.step_skip import _boxes as boxes_of

BITS = spaces.Box(0.0, 1.0, (3,), np.float32)
OBSERVATION = spaces.Dict(
    road_mask=spaces.Box(0.0, 255.0, (4, 4), np.float32),
    turn_mask=BITS,
    cars=spaces.Box(-1.0, 1.0, (3, 2), np.float32),
    cars_mask=BITS,
    far_nodes=spaces.Box(-1.0, 1.0, (5, 2), np.float32),
    far_node_mask=spaces.Box(0.0, 1.0, (5,), np.float32),
)
ACTION = spaces.Dict(turn=spaces.Discrete(3), speed=spaces.Box(-1.0, 1.0, (1,)))
SPACES = StructuredSpaces(observation={"0": OBSERVATION}, action={"0": ACTION}, agent_counts={"0": 1})
MASKS = {"turn_mask", "cars_mask", "far_node_mask"}


def test_masks_are_those_of_heads_and_of_items():
    assert masks_of(OBSERVATION, ACTION) == MASKS
    two = spaces.Dict(turn=spaces.Discrete(3), honk=spaces.Discrete(2))
    assert masks_of(spaces.Dict(action_mask=BITS, turn_mask=spaces.MultiBinary(4)), two) == {"action_mask"}


def test_a_picture_is_stacked_and_normalised():
    stack = ObservationStack(ObservationStackOptions(n=2))
    outer = stack.bind(SPACES).observation["0"]
    stacked = {name for name in outer.spaces if outer[name].shape != OBSERVATION[name].shape}
    assert stacked == OBSERVATION.spaces.keys() - MASKS
    assert {box.name for box in normalized_boxes(SPACES)["0"]} == OBSERVATION.spaces.keys() - MASKS


def test_links_of_graphs_are_neither_scaled_nor_mixed():
    links = spaces.Box(-1, 4, (6, 2), np.int64)
    observation = spaces.Dict(
        far_nodes=OBSERVATION["far_nodes"], far_edge_links=links, edge_links=links, nodes=links, near_edge_links=links
    )
    bound = StructuredSpaces(observation={"0": observation}, action={"0": ACTION}, agent_counts={"0": 1})
    left = {"far_nodes", "nodes", "near_edge_links"}  # the last one without nodes: numbers like all others
    assert {box.name for box in normalized_boxes(bound)["0"]} == left
    assert set(boxes_of(observation, ACTION)) == left


@pytest.mark.parametrize(("masks", "beside"), [("keep", MASKS), ("join", set()), ("drop", set())])
def test_a_picture_is_joined(masks, beside):
    joined = JoinedObservations(OBSERVATION, ACTION, "all", masks)
    assert set(joined.space.spaces) == {"all", *beside}
    n_joined = sum(
        int(np.prod(space.shape)) for name, space in OBSERVATION.spaces.items() if masks == "join" or name not in MASKS
    )
    assert joined.space["all"].shape == (n_joined,)


NUMBERS = spaces.Box(-1.0, 1.0, (2,), np.float32)
CHOICES = {"pick": spaces.Discrete(2), "place": spaces.Discrete(3)}


@pytest.mark.parametrize("action", [{"pick": NUMBERS}, {"pick": NUMBERS, "place": NUMBERS}, CHOICES], ids=len)
def test_a_picture_with_the_name_of_an_action_stays_beside_joined_actions(action):
    observation = spaces.Dict(x=NUMBERS, pick_mask=spaces.Box(0.0, 1.0, (4, 4), np.float32))
    joined = JoinedActions(spaces.Dict(action), observation, "action")
    assert joined.observation_space == observation
    seen = observation.sample()
    assert joined.join_masks(seen) is seen


def test_a_joined_mask_takes_the_place_of_no_observation():
    observation = spaces.Dict(pick_mask=spaces.MultiBinary(2), action_mask=spaces.Box(0.0, 1.0, (4, 4)))
    with pytest.raises(RequestError, match="'action_mask', as an observation is"):
        JoinedActions(spaces.Dict(CHOICES), observation, "action")
    assert set(JoinedActions(spaces.Dict(CHOICES), observation, "do").observation_space) == {"action_mask", "do_mask"}


class Brighter(gymnasium.Env):
    """Its picture flickers: what is bright in one step is dark in the next."""

    observation_space = spaces.Dict(road_mask=OBSERVATION["road_mask"], action_mask=BITS)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return self._observe(), {}

    def step(self, action):
        self._time += 1
        return self._observe(), 0.0, False, False, {}

    def _observe(self):
        picture = np.zeros((4, 4), np.float32)
        picture[self._time % 4] = 255.0
        return {"road_mask": picture, "action_mask": np.eye(3, dtype=np.float32)[self._time % 2]}


def test_a_picture_is_the_maximum_of_what_skipped_steps_showed_and_a_mask_the_last():
    env = StepSkip(GymEnv(Brighter()), StepSkipOptions(n_steps=2, max_of=2, mode="noop", noop={"action": 0}))
    env.reset(seed=0)
    env.env.env._time = 1
    observation = env.step({"action": 0})[0]
    assert observation["road_mask"].max(1).tolist() == [0.0, 0.0, 255.0, 255.0]
    assert observation["action_mask"].tolist() == [0.0, 1.0, 0.0]
