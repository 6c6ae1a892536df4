"""PPO and A2C on every kind of space, distribution and model: recorded, compiled or plain, the update is the same."""

import copy
import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_runtime.env.flat import FlatEnv, flat_spaces

OBSERVATION = {
    "vector": spaces.Box(-1.0, 1.0, (3,), np.float32),
    "matrix": spaces.Box(-1.0, 1.0, (2, 3), np.float32),
    "kind": spaces.Discrete(4),
    "kinds": spaces.MultiDiscrete([2, 3]),
    "bits": spaces.MultiBinary(3),
}
IMAGE = {"image": spaces.Box(0, 255, (24, 24, 1), np.uint8), "vector": OBSERVATION["vector"]}
BOX, OPEN = spaces.Box(-1.0, 2.0, (2,), np.float32), spaces.Box(-np.inf, np.inf, (2,), np.float32)
PARTLY = spaces.Box(np.array([-1.0, 0.0, -np.inf], np.float32), np.array([1.0, np.inf, np.inf], np.float32))
UNEVEN = spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 5.0], np.float32))
ACTIONS = {
    "discrete": {"action": spaces.Discrete(3)},
    "multi-discrete": {"action": spaces.MultiDiscrete([3, 4, 5])},
    "even-multi-discrete": {"action": spaces.MultiDiscrete([[2, 2], [2, 2]])},
    "multi-binary": {"action": spaces.MultiBinary(3)},
    "box": {"action": BOX},
    "uneven-box": {"action": UNEVEN},
    "open-box": {"action": OPEN},
    "partly-bounded-box": {"action": PARTLY},
    "gaussian": {"action": BOX},
    "beta": {"action": BOX},
    "heads": {
        "move": spaces.Discrete(3),
        "aim": BOX,
        "arms": spaces.MultiDiscrete([3, 2]),
        "bits": spaces.MultiBinary(2),
    },
    "masked": {"action": spaces.Discrete(3)},
    "masked-heads": {"move": spaces.Discrete(3), "arms": spaces.MultiDiscrete([3, 2])},
}
RULES = {
    "gaussian": [{"space": "BoundedBox", "use": "diagonal-gaussian"}],
    "beta": [{"space": "BoundedBox", "use": "beta"}],
}
CONCAT = {
    "use": "concat",
    "blocks": {"flat": {"use": "flatten-dense", "hidden_units": [6]}},
    "hidden": {"use": "dense", "hidden_units": [8]},
}
MODELS = {"auto": {"use": "auto", "hidden_units": [8]}, "concat": CONCAT}


class Everything(FlatEnv):
    """Observations and rewards at random, spaces by name."""

    def __init__(self, *, kind, images=False):
        self._masks = {}
        if kind == "masked":
            self._masks = {"action_mask": spaces.Box(0, 1, (3,), np.int8)}
        if kind == "masked-heads":
            self._masks = {
                "move_mask": spaces.Box(0, 1, (3,), np.int8),
                "arms_mask": spaces.Box(0, 1, (5,), np.int8),
            }
        observation = IMAGE if images else OBSERVATION
        self.structured_spaces = flat_spaces(spaces.Dict({**observation, **self._masks}), spaces.Dict(ACTIONS[kind]))
        self._space = copy.deepcopy(spaces.Dict(observation))  # draws of its own

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self._space.seed(seed)
            self._rng = np.random.default_rng(seed)
        self._n_steps = 0
        return self._observe(), {}

    def step(self, action):
        self._n_steps += 1
        return self._observe(), float(self._rng.normal()), self._n_steps == 9, False, {}

    def _observe(self):
        masks = {name: np.ones(space.shape, np.int8) for name, space in self._masks.items()}
        for mask in masks.values():
            mask[self._rng.integers(3)] = 0
        return {**self._space.sample(), **masks}


def tables(kind, *, model="auto", algorithm="ppo", images=False, **trainer):
    rules = {"distributions": RULES[kind]} if kind in RULES else {}
    options = {"use": algorithm, "n_rollout_steps": 8, "epoch_length": 5, "max_grad_norm": 0.5, **trainer}
    if algorithm == "ppo":
        options |= {"batch_size": 9, "n_optimization_epochs": 2}
    else:
        options |= {"epoch_length": 40}
    return {
        "env": {"use": f"{__name__}:Everything", "kind": kind, "images": images},
        "model": {**MODELS[model], **rules},
        "vector": {"n_envs": 4, "mode": "sequential"},
        "trainer": options,
    }


def weights(trainer):
    return torch.cat([parameter.detach().reshape(-1) for parameter in trainer.model.parameters()])


def n_recordings(trainer):
    return sum(form.replay is not None for form in trainer._gradient_step._recorded._forms.values())


CASES = [(kind, "auto", "ppo") for kind in ACTIONS] + [("heads", "concat", "ppo"), ("heads", "auto", "a2c")]


@pytest.mark.parametrize(("kind", "model", "algorithm"), CASES)
def test_recorded_updates_equal_plain_ones_bit_for_bit(make_trainer, kind, model, algorithm):
    recorded, plain = (make_trainer(**tables(kind, model=model, algorithm=algorithm)) for _ in range(2))
    plain._gradient_step._recorded = None
    for epoch in range(2):
        for trainer in (recorded, plain):
            trainer.start_segment(epoch)
        assert (
            recorded.train_epoch()["ActorCriticEvents/grad_norm"] == plain.train_epoch()["ActorCriticEvents/grad_norm"]
        )
    assert torch.equal(weights(recorded), weights(plain))
    assert n_recordings(recorded) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "model", "images"),
    [*((kind, "auto", False) for kind in ACTIONS), ("heads", "concat", False), ("heads", "auto", True)],
)
def test_compiled_updates_equal_plain_ones_or_say_in_one_line_why_they_are_not_compiled(
    make_trainer, kind, model, images
):
    given = {"model": model, "images": images, "epoch_length": 1}
    plain = make_trainer(**tables(kind, **given))
    compiled = make_trainer(**tables(kind, compile=True, **given))
    plain.train_epoch()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled.train_epoch()
    told = [str(one.message) for one in caught if str(one.message).startswith("compile = true:")]
    assert len(told) == int(compiled._gradient_step._compilation.is_eager)
    assert not any("\n" in line for line in told)
    np.testing.assert_allclose(weights(plain), weights(compiled), rtol=1e-3, atol=2e-5)
