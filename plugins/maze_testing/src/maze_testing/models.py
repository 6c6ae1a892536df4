"""Conformance of models: actor-critics built from the spaces of an environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.model import ActorCritic
from maze_runtime.models.capabilities import EvaluatesKeysTogether
from maze_testing.conformance import change_parameters, require, same
from maze_testing.policies import check_policy, random_group


def check_model(factory: Callable[[], ActorCritic], spaces: StructuredSpaces, *, n_rows: int = 5) -> None:
    """Logits and values have their shapes and agree however they are asked for; its policy acts; no parameter is dead.

    Args:
        factory: builds the model for `spaces` from one seed; called twice.

    Raises:
        ConformanceError: naming the rule that is broken.
    """
    model: Any = factory()
    total: Any = 0.0
    alone: dict[str, tuple[dict[str, torch.Tensor], torch.Tensor]] = {}
    for key in spaces.policy_keys:
        rows = _rows(spaces, key, n_rows)
        inputs = {name: torch.from_numpy(array) for name, array in rows.items()}
        agent_id = torch.zeros(n_rows, dtype=torch.long)
        logits, value = alone[key] = model.logits_and_value(key, inputs, agent_id)
        shapes = {head: (n_rows, *shape) for head, shape in model.distributions[key].logits_shapes().items()}
        found = {head: tuple(tensor.shape) for head, tensor in logits.items()}
        require(found == shapes, f"logits have shapes {found}, their distributions want {shapes}")
        require(tuple(value.shape) == (n_rows,), f"values have shape {tuple(value.shape)}, not ({n_rows},)")
        require(_close(logits, model.logits(key, inputs, agent_id)), "logits() and logits_and_value() differ")
        require(torch.allclose(value, model.value(key, inputs, agent_id)), "value() and logits_and_value() differ")
        mirror = model.numpy_logits(key)
        if mirror is not None:
            mirrored = {head: torch.from_numpy(np.array(array)) for head, array in mirror(rows).items()}
            require(_close(logits, mirrored), "numpy_logits() and logits() differ")
        total = total + value.square().sum() + sum(tensor.clamp(-1e3, 1e3).square().sum() for tensor in logits.values())
    if isinstance(model, EvaluatesKeysTogether):
        _check_together(model, spaces, alone, n_rows)
    total.backward()
    dead = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    require(not dead, f"no gradient reaches the parameters {', '.join(dead)}")
    again: Any = factory()
    require(same(model.state_dict(), again.state_dict()), "two models of one seed have different weights")
    _check_acting(model, spaces, n_rows)
    _check_mirrors_follow(model, spaces, n_rows)


def _check_mirrors_follow(model: Any, spaces: StructuredSpaces, n_rows: int) -> None:
    mirrors = {key: model.numpy_logits(key) for key in spaces.policy_keys}
    change_parameters(model)
    for key, mirror in mirrors.items():
        if mirror is None:
            continue
        rows = _rows(spaces, key, n_rows)
        inputs = {name: torch.from_numpy(array) for name, array in rows.items()}
        logits = model.logits(key, inputs, torch.zeros(n_rows, dtype=torch.long))
        mirrored = {head: torch.from_numpy(np.array(array)) for head, array in mirror(rows).items()}
        require(
            _close(logits, mirrored),
            "numpy_logits() keeps to old parameters when they change: it has to read their memory, no copy",
        )


def _check_acting(model: ActorCritic, spaces: StructuredSpaces, n_rows: int) -> None:
    check_policy(lambda: model.make_policy(7), spaces, n_rows=n_rows)
    groups = {key: random_group(spaces, key, n_rows, 7) for key in spaces.policy_keys}
    one, other = model.make_policy(1), model.make_policy(2)
    for key, group in groups.items():
        actions = [policy.act(key, group, deterministic=True) for policy in (one, other)]
        require(same(*actions), "its policy draws something where it is asked to be deterministic")


def _check_together(
    model: EvaluatesKeysTogether,
    spaces: StructuredSpaces,
    alone: dict[str, tuple[dict[str, torch.Tensor], torch.Tensor]],
    n_rows: int,
) -> None:
    keys = spaces.policy_keys
    rows = {key: {name: torch.from_numpy(a) for name, a in _rows(spaces, key, n_rows).items()} for key in keys}
    agents = {key: torch.zeros(n_rows, dtype=torch.long) for key in keys}
    logits, value = model.logits_and_values(rows, agents)
    require(all(_close(logits[key], alone[key][0]) for key in keys), "logits_and_values() gives other logits")
    values = torch.cat([alone[key][1] for key in keys])
    require(
        value.shape == values.shape and torch.allclose(value, values, atol=1e-5),
        "logits_and_values() gives other values than logits_and_value() of each policy key, or in another order",
    )


def _close(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.allclose(one[k], other[k], atol=1e-4) for k in one)


def _rows(spaces: StructuredSpaces, key: str, n_rows: int) -> dict[str, np.ndarray]:
    space = spaces.observation[key]
    space.seed(7)
    samples = [space.sample() for _ in range(n_rows)]
    return {name: np.stack([np.asarray(sample[name]) for sample in samples]) for name in space.spaces}
