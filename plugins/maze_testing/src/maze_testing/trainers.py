"""Conformance of trainers: a saved and restored trainer continues exactly like the one that never stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maze_kernel.contracts.trainer import Trainer
from maze_testing.conformance import as_array, require, same

LOOP_OPTIONS = ("n_epochs", "patience", "device", "compile")


def check_trainer(factory: Callable[[], Trainer], *, n_epochs: int = 2) -> None:
    """Train, save, train on; restore what was saved into a new trainer and train on: same weights, same statistics.

    Args:
        factory: builds the trainer from one context and one seed; called several times.
        n_epochs: before and after saving.

    Raises:
        ConformanceError: naming the rule that is broken.
    """
    trainer, restored = factory(), factory()
    try:
        missing = [name for name in LOOP_OPTIONS if not hasattr(trainer.options, name)]
        require(not missing, f"its options lack {', '.join(missing)}")
        before = _weights(trainer)
        require(same(before, _weights(restored)), "two trainers built alike start with different weights")
        trainer.start_segment(0)
        _train(trainer, n_epochs)
        require(not same(before, _weights(trainer)), "training leaves the weights as they were")
        weights, state = _weights(trainer), _frozen(trainer.state_dict())
        restored.model.load_state_dict({name: _like(value) for name, value in weights.items()})  # type: ignore[attr-defined]
        restored.load_state_dict(state)
        require(restored.env_steps == trainer.env_steps, "env_steps is lost by state_dict()")
        for each in (trainer, restored):
            each.start_segment(n_epochs)
        one, other = _train(trainer, n_epochs), _train(restored, n_epochs)
        require(same(_weights(trainer), _weights(restored)), "a restored trainer ends with other weights")
        for a, b in zip(one, other, strict=True):
            for tag in a:
                if not tag.startswith("Timing/"):
                    require(tag in b and same(a[tag], b[tag]), f"a restored trainer reports another {tag}")
    finally:
        trainer.close()
        restored.close()


def _train(trainer: Trainer, n_epochs: int) -> list[dict[str, Any]]:
    statistics = []
    for _ in range(n_epochs):
        steps = trainer.env_steps
        statistics.append(dict(trainer.train_epoch()))
        steps_at_all = hasattr(trainer.options, "max_env_steps")
        require(not steps_at_all or trainer.env_steps > steps, "an epoch adds no env_steps")
        require(steps_at_all or not trainer.env_steps, "it takes env_steps, but its options lack max_env_steps")
        values = {tag: value for tag, value in statistics[-1].items() if np.ndim(value) == 0}
        bad = [tag for tag, value in values.items() if not isinstance(value, str) and np.isinf(float(value))]
        require(not bad, f"statistics are infinite: {', '.join(bad)}")
    return statistics


def _weights(trainer: Trainer) -> dict[str, np.ndarray]:
    state: dict[str, Any] = trainer.model.state_dict()  # type: ignore[attr-defined]
    return {name: as_array(tensor).copy() for name, tensor in state.items()}


def _like(array: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(array.copy())


def _frozen(value: Any) -> Any:
    """A copy, so that what the trainer does next does not reach what was saved."""
    if isinstance(value, dict):
        return {key: _frozen(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_frozen(inner) for inner in value)
    if hasattr(value, "detach"):
        return value.detach().clone()
    return value.copy() if isinstance(value, np.ndarray) else value
