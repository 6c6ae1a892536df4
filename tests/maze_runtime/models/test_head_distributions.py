"""What a model says of the distributions behind its heads, and of the layers that give their logits."""

from types import SimpleNamespace

import pytest
from gymnasium import spaces

from maze_distributions.categorical import Categorical
from maze_kernel.config import select
from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.model import ModelContext
from maze_kernel.loader import Kernel
from maze_runtime.models.action_distribution import ProductDistribution
from maze_runtime.models.head_distributions import HeadDistribution, head_distributions

ACTION = spaces.Dict(gear=spaces.Discrete(3), push=spaces.Box(-1.0, 1.0, (2,)))
OBSERVATION = spaces.Dict(x=spaces.Box(-1.0, 1.0, (4,)), gear_mask=spaces.MultiBinary(3))


@pytest.fixture
def model():
    """Two policy keys, the agents of the second one with networks of their own."""
    catalog = Kernel.installed().catalog
    keys = ("car", "truck")
    structured = StructuredSpaces(
        observation=dict.fromkeys(keys, OBSERVATION),
        action=dict.fromkeys(keys, ACTION),
        agent_counts={"car": 1, "truck": 2},
    )
    table = {"use": "auto", "hidden_units": [4], "separate_agent_nets": ["truck"]}
    table |= {"distributions": [{"use": "squashed-gaussian", "space": "Box", "initial_log_std": -1.0}]}
    return catalog.build(select(catalog, "model", table), ModelContext(spaces=structured, catalog=catalog))


def test_a_model_says_the_distribution_of_every_head_with_its_options(model):
    found = head_distributions(model)
    assert list(found) == ["car", "truck"]
    assert found["car"] == found["truck"]
    gear, push = found["car"]["gear"], found["car"]["push"]
    assert (gear.use, gear.space, gear.n_logits, gear.options) == ("maze-distributions:categorical", "Discrete", 3, {})
    assert (push.use, push.kind) == ("squashed-gaussian", "maze_distributions.squashed_gaussian:SquashedGaussian")
    assert (push.space, push.n_logits, push.options["initial_log_std"]) == ("BoundedBox", 4, -1.0)


def test_the_layers_of_a_head_are_those_before_its_mask_of_every_agent(model):
    paths = {name for name, _ in model.named_modules()}
    one = model.head_layers("car")
    assert list(one) == ["gear", "push"]
    assert all(len(own) == 1 and paths.issuperset(own) for own in one.values())
    several = model.head_layers("truck")
    assert all(len(own) == 2 and paths.issuperset(own) for own in several.values())
    names = {name for name in model.policy_state_dict() if name.startswith(f"{one['push'][0]}.")}
    assert {name.rpartition(".")[2] for name in names} == {"weight", "bias", "constants"}


def test_a_distribution_that_the_model_built_by_itself_is_called_by_its_class():
    gear = spaces.Discrete(3)
    structured = StructuredSpaces(observation={0: OBSERVATION}, action={0: spaces.Dict(gear=gear)})
    own = SimpleNamespace(spaces=structured, distributions={0: ProductDistribution({"gear": Categorical(gear)})})
    (head,) = head_distributions(own)["0"].values()
    assert (head.use, head.options) == ("maze_distributions.categorical:Categorical", {})
    assert head_distributions(SimpleNamespace()) == {}


def test_options_that_choose_by_the_trainer_are_no_difference():
    def head(**options):
        return HeadDistribution(use="x", kind="x:X", space="BoundedBox", n_logits=2, options=options)

    own, other = head(std_from="observation", width=1.0, ours=1), head(std_from="auto", width=2.0, theirs=2)
    assert own.changed_options(other) == {"width": (1.0, 2.0)}
    assert own.changed_options(own) == {}
