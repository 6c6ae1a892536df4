"""Conformance of trainers: a saved and restored trainer continues exactly like the one that never stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maze_kernel.contracts.trainer import Trainer
from maze_testing.conformance import as_array, require, same

LOOP_OPTIONS = ("n_epochs", "patience", "device", "compile")


def make_trainer(
    trainer: Any,
    *,
    env: Any = "maze_testing.environments:Identity",
    n_envs: int = 4,
    seed: int = 0,
    kernel: Any = None,
    **tables: Any,
) -> Trainer:
    """A trainer as an experiment would build it, for tests; needs `maze-testing[runtime]`.

    Args:
        trainer: name, or table with `use` and options, as in `[trainer]`.
        env: name, table or factory.
        n_envs: environments a training batch.
        seed: of the run.
        kernel: what names stand for; None: everything installed.
        tables: further tables of the experiment, e.g. `model={"use": "auto"}` or `wrappers=["monitoring"]`; without
            `wrappers` there are none, not even those of `TrainerComponent.preset`: a trainer is tested by itself.

    Raises:
        ExperimentError: every problem of the tables.
    """
    from maze_kernel.config import experiment_from_mapping
    from maze_runtime.run.assembly import Assembly

    data = {"name": "test", "seed": seed, "env": env, "trainer": trainer, "vector": {"n_envs": n_envs}}
    data |= {"wrappers": [], **tables}
    loaded = experiment_from_mapping(data, kernel=kernel)
    assembly = Assembly(loaded, loaded.kernel)
    return assembly.make_trainer(assembly.trainer_context())


def check_trainer(factory: Callable[[], Trainer], *, n_epochs: int = 2, off_policy: bool = False) -> None:
    """Train, save, train on; restore what was saved into a new trainer and train on: same weights, same statistics.

    Args:
        factory: builds the trainer from one context and one seed; called several times.
        n_epochs: before and after saving.
        off_policy: it also learns from what it played before: what was saved is restored into a third trainer, which
            has played something else meanwhile, and has to take the place of its memory and of its target networks.

    Raises:
        ConformanceError: naming the rule that is broken.
    """
    trainer, restored = factory(), factory()
    used = factory() if off_policy else None
    try:
        missing = [name for name in LOOP_OPTIONS if not hasattr(trainer.options, name)]
        require(not missing, f"its options lack {', '.join(missing)}")
        before = _weights(trainer)
        require(same(before, _weights(restored)), "two trainers built alike start with different weights")
        trainer.start_segment(0)
        _train(trainer, n_epochs)
        require(not same(before, _weights(trainer)), "training leaves the weights as they were")
        weights, state = _weights(trainer), _frozen(trainer.state_dict())
        _restore(restored, weights, state)
        require(restored.env_steps == trainer.env_steps, "env_steps is lost by state_dict()")
        if used is not None:
            used.start_segment(n_epochs + 1)
            _train(used, n_epochs)
            _restore(used, weights, state)
            used.start_segment(n_epochs)
            _train(used, n_epochs)
        for each in (trainer, restored):
            each.start_segment(n_epochs)
        one, other = _train(trainer, n_epochs), _train(restored, n_epochs)
        require(same(_weights(trainer), _weights(restored)), "a restored trainer ends with other weights")
        if used is not None:
            kept = same(_weights(trainer), _weights(used))
            require(kept, "restored into a trainer that has played, something of what it played is left")
        for a, b in zip(one, other, strict=True):
            for tag in a:
                if not tag.startswith("Timing/"):
                    require(tag in b and same(a[tag], b[tag]), f"a restored trainer reports another {tag}")
    finally:
        for made in (trainer, restored, used):
            if made is not None:
                made.close()


def _restore(trainer: Trainer, weights: dict[str, np.ndarray], state: dict[str, Any]) -> None:
    trainer.model.load_state_dict({name: _like(value) for name, value in weights.items()})  # type: ignore[attr-defined]
    trainer.load_state_dict(_frozen(state))


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
