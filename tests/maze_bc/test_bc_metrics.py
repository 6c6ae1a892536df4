"""Metrics by head against counting by hand."""

import numpy as np
import torch
from gymnasium import spaces

from maze_bc.metrics import head_metrics
from maze_runtime.models.action_distribution import make_action_distribution


def metrics(kernel, space, logits, action, **more):
    head = make_action_distribution(spaces.Dict({"a": space}), kernel.catalog).heads["a"]
    found = head_metrics(space, head, torch.tensor(logits, dtype=torch.float32), torch.tensor(action), **more)
    return {name: values.tolist() for name, values in found.items()}


def test_discrete(kernel):
    logits = [[0.0, 3.0, 2.0, 1.0, -1.0, -2.0, -3.0]] * 3
    found = metrics(kernel, spaces.Discrete(7, start=10), logits, [11, 13, 16])
    assert found == {"accuracy": [1.0, 0.0, 0.0], "rank": [1.0, 3.0, 7.0], "top_5_accuracy": [1.0, 1.0, 0.0]}


def test_few_options_have_no_top_five(kernel):
    assert set(metrics(kernel, spaces.Discrete(5), [[0.0] * 5], [0])) == {"accuracy", "rank"}


def test_every_k_that_leaves_options_out_is_a_statistic(kernel):
    logits = [[0.0, 3.0, 2.0, 1.0, -1.0, -2.0, -3.0]] * 3
    found = metrics(kernel, spaces.Discrete(7, start=10), logits, [11, 13, 16], top_k=(1, 3, 6, 7))
    assert {name: values for name, values in found.items() if name.startswith("top")} == {
        "top_1_accuracy": [1.0, 0.0, 0.0],
        "top_3_accuracy": [1.0, 1.0, 0.0],
        "top_6_accuracy": [1.0, 1.0, 0.0],
    }


def test_multi_discrete_is_the_mean_over_dimensions(kernel):
    found = metrics(kernel, spaces.MultiDiscrete([2, 3]), [[1.0, 0.0, 0.0, 1.0, 2.0]], [[0, 0]])
    assert found == {"accuracy": [0.5], "rank": [2.0]}


def test_bits(kernel):
    found = metrics(kernel, spaces.MultiBinary(4), [[1.0, -1.0, 1.0, -1.0]], np.array([[1, 1, 1, 1]], np.int8))
    assert found == {"binary_accuracy": [0.5]}


def test_boxes_in_units_of_the_action(kernel):
    box = spaces.Box(-10.0, 10.0, (2,), np.float32)
    found = metrics(kernel, box, [[0.0, 0.0, -1.0, -1.0]], np.array([[1.0, -3.0]], np.float32))
    assert found == {"mean_abs_deviation": [2.0]}
