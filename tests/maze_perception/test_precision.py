"""Networks whose convolutions and matrix products are of bfloat16."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_kernel.config.load import select
from maze_kernel.contracts.model import ModelContext
from maze_kernel.contracts.vector import Group
from maze_kernel.loader import Kernel
from maze_perception.inference import InferenceBlock
from maze_runtime.env.flat import flat_spaces
from maze_runtime.models.network_policy import NetworkPolicy

RunContext = pytest.importorskip("maze_suite").RunContext

EPSILON = 2.0**-8
"""Half of the last digit of a bfloat16, relative."""
GRAPH = [(5, 3), (5, 5)]
BLOCKS = {
    "dense": ({}, [(4,)]),
    "flatten-dense": ({}, [(2, 3)]),
    "linear-output": ({"output_units": 2}, [(4,)]),
    "concatenation": ({}, [(2,), (3,)]),
    "action-masking": ({}, [(4,), (4,)]),
    "masked-global-pooling": ({}, [(5, 3), (5,)]),
    "correlation": ({}, [(4,), (3, 4)]),
    "functional": ({"function": "torch:softmax", "kwargs": {"dim": -1}}, [(4,)]),
    "torch-model": ({"module": "torch.nn:Linear", "kwargs": {"in_features": 4, "out_features": 2}}, [(4,)]),
    "strided-convolution-dense": (
        {"hidden_channels": [3, 4], "hidden_kernels": [3, 2], "hidden_strides": [2, 1]},
        [(2, 9, 7)],
    ),
    "nature-cnn": ({}, [(4, 84, 84)]),
    "vgg-convolution-dense": ({"hidden_channels": [3, 4]}, [(2, 9, 8)]),
    "vgg-convolution-gap": ({"hidden_channels": [3, 4]}, [(2, 9, 8)]),
    "self-attention-conv": ({"embed_dim": 3}, [(4, 3, 5)]),
    "multi-head-attention": ({"num_heads": 2, "masked": True}, [(5, 4), (5,)]),
    "self-attention-seq": ({"num_heads": 2}, [(5, 4), (5,)]),
    "graph-convolution": ({"hidden_features": [4, 2]}, GRAPH),
    "graph-attention": ({"hidden_features": [4, 2], "num_heads": 3}, GRAPH),
    "message-passing": ({"hidden_units": [6, 4]}, [(5, 3), (7, 2)]),
    "point-net": ({"hidden_units": [3, 5]}, [(7, 2), (7,)]),
    "lstm": ({}, [(5, 3)]),
    "gru": ({}, [(5, 3)]),
    "lstm-last-step": ({}, [(5, 3)]),
    "gru-last-step": ({}, [(5, 3)]),
}
IMAGE = spaces.Dict(screen=spaces.Box(0, 255, (84, 84, 4), np.uint8))
ACTION = spaces.Dict(move=spaces.Discrete(6))
CONCAT = {"use": "concat", "blocks": {"feature": {"use": "nature-cnn"}}, "critic": {"share_embedding": True}}


@pytest.fixture(scope="module")
def installed():
    return Kernel.installed()


def network_of(kernel, name, precision):
    options, in_shapes = BLOCKS[name]
    inputs = {f"in{index}": shape for index, shape in enumerate(in_shapes)}
    torch.manual_seed(0)
    block = kernel.catalog.build(select(kernel, "block", {"use": name, **options}), list(inputs), ["out"], in_shapes)
    network = InferenceBlock({"block": block}, inputs, ["out"])
    network.precision = precision
    return network


def inputs_of(network):
    generator = torch.Generator().manual_seed(1)
    inputs = {key: torch.rand(6, *shape, generator=generator) for key, shape in network.in_shapes.items()}
    last = list(inputs)[-1]
    if len(inputs) > 1 and len(network.in_shapes[last]) == 1:
        inputs[last] = (inputs[last] > 0.2).float()  # a mask
    return inputs


@pytest.mark.parametrize("name", BLOCKS)
def test_every_block_gives_float32_near_what_it_gives_in_full(installed, name):
    full, mixed = (network_of(installed, name, precision) for precision in (torch.float32, torch.bfloat16))
    inputs = inputs_of(full)
    expected, found = full(inputs)["out"], mixed(inputs)["out"]
    assert found.dtype == torch.float32
    scale = expected.abs().max().item()
    torch.testing.assert_close(found, expected, rtol=8 * EPSILON, atol=8 * EPSILON * scale)
    for out in (expected, found):
        if out.requires_grad:
            out.square().sum().backward()
    gradients = [(own.grad, other.grad) for own, other in zip(mixed.parameters(), full.parameters(), strict=True)]
    scale = max((other.abs().max().item() for _, other in gradients), default=0.0)
    for gradient, other in gradients:
        assert gradient.dtype == torch.float32
        torch.testing.assert_close(gradient, other, rtol=0.1, atol=16 * EPSILON * scale)


def test_products_are_of_bfloat16_and_heads_are_not(installed):
    dense, head = (network_of(installed, name, torch.bfloat16) for name in ("dense", "linear-output"))
    x = inputs_of(dense)
    out = dense(x)["out"]
    assert torch.equal(out, out.bfloat16().float())
    assert not torch.equal(head(x)["out"], head(x)["out"].bfloat16().float())
    assert torch.equal(head(x)["out"], network_of(installed, "linear-output", torch.float32)(x)["out"])


@pytest.mark.parametrize("table", [{"use": "auto"}, CONCAT], ids=["auto", "concat"])
def test_acting_and_learning_see_the_same_logits_to_the_bit(installed, table):
    context = ModelContext(spaces=flat_spaces(IMAGE, ACTION), catalog=installed.catalog, seed=0)
    model = installed.catalog.build(select(installed, "model", {**table, "precision": "bfloat16"}), context)
    (key,) = model.spaces.policy_keys
    screens = np.random.default_rng(0).integers(0, 256, (8, 84, 84, 4), dtype=np.uint8)
    acted = NetworkPolicy(model).logits(key, Group(np.arange(8), np.zeros(8, np.int64), {"screen": screens}))
    learnt = model.logits(key, {"screen": torch.from_numpy(screens)})
    assert learnt["move"].requires_grad
    np.testing.assert_array_equal(acted["move"], learnt["move"].detach().numpy())
    assert any("bfloat16" in note for note in model.notes)


def test_dense_networks_act_in_torch_then(make_model):
    vector = flat_spaces(spaces.Dict(x=spaces.Box(-1.0, 1.0, (3,))), ACTION)
    plain, mixed = (make_model(vector, {"use": "auto", "precision": own}) for own in ("float32", "bfloat16"))
    assert (NetworkPolicy(plain).is_mirrored, NetworkPolicy(mixed).is_mirrored) == (True, False)


class Corner(gymnasium.Env):
    """A bright square in one of four corners: name the corner. Episodes of 8 steps."""

    observation_space = spaces.Box(0, 255, (20, 20, 1), np.uint8)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.n_steps = 0
        return self._picture(), {}

    def step(self, action):
        reward = float(action == self.corner)
        self.n_steps += 1
        return self._picture(), reward, False, self.n_steps == 8, {}

    def _picture(self):
        self.corner = int(self.np_random.integers(4))
        screen = np.zeros((20, 20, 1), np.uint8)
        row, column = divmod(self.corner, 2)
        screen[10 * row : 10 * row + 10, 10 * column : 10 * column + 10] = 255
        return screen


LEARNERS = {
    "ppo": {"n_epochs": 2, "epoch_length": 2, "n_rollout_steps": 64},
    "a2c": {"n_epochs": 2, "epoch_length": 60},
    "impala": {"n_epochs": 2, "epoch_length": 60},
    "dqn": {"n_epochs": 2, "epoch_length": 40, "initial_buffer_size": 100, "batch_size": 32},
    "sac": {"n_epochs": 1, "epoch_length": 10, "initial_buffer_size": 100, "batch_size": 16},
    "es": {"n_epochs": 1, "n_rollouts_per_update": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize("trainer", LEARNERS)
def test_every_trainer_trains_such_networks(trainer):
    context = RunContext(
        env=Corner,
        trainer=trainer,
        overrides={
            **{f"trainer.{name}": value for name, value in LEARNERS[trainer].items()},
            "model": {"use": "auto", "precision": "bfloat16"},
            "evaluation.n_episodes": 2,
        },
        silent=True,
    )
    context.train()
    assert 0.0 <= context.rollout(n_episodes=4).summary["reward"]["mean"] <= 8.0


@pytest.mark.learning
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_ppo_learns_from_images(compiled):
    overrides = {
        "seed": 3,
        "model": {"use": "auto", "precision": "bfloat16"},
        "trainer": {"use": "ppo", "n_epochs": 2, "epoch_length": 2, "n_rollout_steps": 64, "compile": compiled},
        "evaluation.n_episodes": 10,
    }
    context = RunContext(env=Corner, overrides=overrides, silent=True)
    context.train()
    assert context.rollout(n_episodes=20).summary["reward"]["mean"] > 7.9


def test_another_word_is_answered(make_model):
    with pytest.raises(Exception, match="bfloat16") as found:
        make_model(flat_spaces(IMAGE, ACTION), {"use": "auto", "precision": "bf16"})
    assert "precision" in str(found.value)
