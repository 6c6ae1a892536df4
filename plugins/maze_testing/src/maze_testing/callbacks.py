"""Conformance of callbacks: a scripted run shows them what a run may, and finds them as they were where it goes on.

Nothing is trained: rewards are given, so that a suite takes a moment, and a callback that stops runs or lowers
schedules meets better and worse evaluations, plateaus, and epochs without any.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import torch

from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.contracts.logger import EpochRecord
from maze_kernel.errors import MazeError
from maze_kernel.loader import Kernel
from maze_runtime.run.metric_text import MEAN_REWARD
from maze_runtime.training.callbacks import CallbackContext, Callbacks, named_callbacks
from maze_runtime.training.checkpoint import LoopState
from maze_runtime.training.metric import Metric
from maze_runtime.training.run_in_progress import RunInProgress
from maze_runtime.training.schedules import Schedule
from maze_runtime.training.state_tree import flatten_state, unflatten_state
from maze_testing.conformance import ConformanceError, require, same

REWARDS = (1.0, 3.0, 2.0, 2.0, 2.0, 4.0, 4.0, 4.0, 3.0, 5.0)
"""The mean reward of each epoch's evaluation; of training it is one less."""

_CHECKPOINT_EVERY = 2
_EXPERIMENT = {
    "name": "conformance",
    "env": {"use": "maze_testing.environments:Identity"},
    "trainer": {"use": "maze_testing.callbacks:scripted_trainer"},
}


@attrs.frozen(kw_only=True)
class ScriptedOptions:
    """Options of the trainer of a scripted run; callbacks may change both."""

    lr: float | Schedule = 0.1
    """Learning rate."""
    noise_stddev: float | Schedule = attrs.field(factory=lambda: Schedule(start=0.2, end=0.1))
    """Standard deviation of perturbations."""


def scripted_trainer(_context: Any, options: ScriptedOptions) -> Any:
    """A trainer that never trains: what callbacks look at, and weights that they leave alone."""
    return SimpleNamespace(options=options, env_steps=0, model=torch.nn.Linear(2, 2))


def check_callback(factory: Callable[[CallbackContext], Any], run_dir: Path) -> None:
    """Call it through a whole run, one whose epochs are not all evaluated, one without evaluation, and resumed ones.

    Args:
        factory: the callback's target with its options bound; called for each run.
        run_dir: an empty directory; files must stay inside it.

    Raises:
        ConformanceError: naming the rule that is broken.
    """
    beside = set(run_dir.parent.rglob("*"))
    for every_epochs in (1, 2, 0):
        _check_run(factory, run_dir / f"every-{every_epochs}", every_epochs)
    outside = [path for path in set(run_dir.parent.rglob("*")) - beside if not path.is_relative_to(run_dir)]
    require(not outside, f"it writes outside the run directory: {', '.join(map(str, outside))}")


def _check_run(factory: Callable[[CallbackContext], Any], folder: Path, every_epochs: int) -> None:
    """One run to its end; then again up to each of its checkpoints, and on from there with a new callback."""
    whole = _ScriptedRun(factory, folder / "whole", every_epochs)
    whole.play(1)
    for epoch, saved in whole.saved.items():
        later = _ScriptedRun(factory, folder / f"from-{epoch}", every_epochs)
        later.restore(epoch, saved)
        require(
            same(_through_json(later.callbacks.state_dict()), saved["states"]),
            "state_dict after load_state_dict is not what was loaded",
        )
        later.play(epoch + 1)
        expected = [seen for seen in whole.trace if seen["epoch"] > epoch]
        require(
            later.trace == expected,
            f"a run that goes on from epoch {epoch} does something else than one that never stopped: what the callback "
            f"remembers belongs in state_dict; {_first_difference(later.trace, expected)}",
        )


class _ScriptedRun:
    """The parts of a loop that `RunInProgress` reads, and the script.

    Attributes:
        trace: what was done in each epoch: its number, the reason to stop, the changed options, the lines.
        saved: what a checkpoint keeps of callbacks, by epoch.
    """

    def __init__(self, factory: Callable[[CallbackContext], Any], run_dir: Path, every_epochs: int) -> None:
        run_dir.mkdir(parents=True)
        evaluation = {"n_episodes": 1 if every_epochs else 0, "every_epochs": max(1, every_epochs)}
        loaded = experiment_from_mapping({**_EXPERIMENT, "evaluation": evaluation}, kernel=Kernel())
        self.assembly: Any = SimpleNamespace(experiment=loaded.experiment)
        self.trainer: Any = scripted_trainer(None, ScriptedOptions())
        self.evaluators: Any = self
        self.loggers: Any = self
        self.state = LoopState()
        self.metric = Metric(MEAN_REWARD)
        self.record: EpochRecord | None = None
        self.trace: list[dict[str, Any]] = []
        self.saved: dict[int, dict[str, Any]] = {}
        self._every_epochs = every_epochs
        self._lines: list[str] = []
        self._run_dir = run_dir
        self._seen = RunInProgress(self, run_dir)
        context = CallbackContext(run_dir=run_dir, name="conformance", metric=self.metric.tag)
        kernel: Any = None  # an object is no component's name
        try:
            named = named_callbacks(kernel, context, (), (factory(context),))
        except MazeError as error:
            raise ConformanceError(f"{error.what}; it needs {error.expected}") from error
        self.callbacks = Callbacks(named)

    def value(self, metric: Metric, train: Mapping[str, Any], evaluation: Mapping[str, Any] | None) -> float | None:
        """As `Evaluators.value`."""
        if not self._every_epochs:
            return metric.of(train, None)
        return metric.of(train, evaluation) if evaluation or metric.of_training else None

    def message(self, text: str) -> None:
        """As `FanOut.message`."""
        self._lines.append(text)

    def restore(self, epoch: int, saved: Mapping[str, Any]) -> None:
        """Begin where a checkpoint was written; with its own copy of what that holds."""
        for past in range(1, epoch + 1):
            self._measure(past)
        for name, value in saved["options"].items():
            self._seen.set_option(name, value)
        tree, tensors = flatten_state(saved["states"])
        self._guarded(lambda: self.callbacks.load_state_dict(unflatten_state(tree, tensors)))

    def play(self, first: int) -> None:
        """Epochs up to the end of the script, or until the callback stops the run."""
        for epoch in range(first, len(REWARDS) + 1):
            evaluated = self._measure(epoch)
            for method in ("on_evaluation", "on_epoch") if evaluated else ("on_epoch",):
                self._call(method)
            if epoch % _CHECKPOINT_EVERY == 0 and self._seen.stop_reason is None:
                self._save(epoch)
            self._note(epoch)
            if self._seen.stop_reason is not None:
                return

    def _measure(self, epoch: int) -> bool:
        """The statistics of an epoch; whether it was evaluated."""
        evaluated = bool(self._every_epochs) and epoch % self._every_epochs == 0
        reward, state = REWARDS[epoch - 1], self.state
        state.epoch, self.trainer.env_steps = epoch, 100 * epoch
        value = reward if evaluated else reward - 1.0
        if evaluated or not self._every_epochs:
            if self.metric.is_better(value, state.best_metric):
                state.best_epoch, state.best_metric, state.stale_evaluations = epoch, value, 0
            else:
                state.stale_evaluations += 1
        self.record = EpochRecord(
            epoch=epoch,
            env_steps=100 * epoch,
            wall_seconds=float(epoch),
            train={MEAN_REWARD: reward - 1.0, "ActorCriticEvents/policy_loss": 1.0 / epoch},
            evaluation={MEAN_REWARD: reward, "BaseEnvEvents/episode_length/mean": 10.0 * epoch} if evaluated else {},
            is_best=state.best_epoch == epoch,
            metric=value if evaluated or not self._every_epochs else None,
            best_metric=state.best_metric,
        )
        return evaluated

    def _call(self, method: str, *arguments: Any) -> None:
        assert self.record is not None
        weights = {name: tensor.clone() for name, tensor in self.trainer.model.state_dict().items()}
        before = dict(self.record.train), dict(self.record.evaluation)
        self._guarded(lambda: self.callbacks.call(method, self._seen, *arguments))
        require(same(weights, self.trainer.model.state_dict()), f"{method} changes weights of the model")
        after = dict(self.record.train), dict(self.record.evaluation)
        require(before == after, f"{method} changes the statistics of the epoch, which others read too")
        reason = self._seen.stop_reason
        require(reason is None or bool(reason.partition(": ")[2].strip()), f"{method} stops the run without a reason")

    def _save(self, epoch: int) -> None:
        states = self._guarded(self.callbacks.state_dict)
        again = self._guarded(self.callbacks.state_dict)
        require(same(states, again), "state_dict gives something else when it is called again")
        self.saved[epoch] = {"states": _through_json(states), "options": dict(self._seen.changed)}
        folder = self._run_dir / "checkpoints" / f"epoch-{epoch:06d}"
        folder.mkdir(parents=True)
        self._call("on_checkpoint", folder)

    def _note(self, epoch: int) -> None:
        options = attrs.asdict(self.trainer.options)
        self.trace.append(
            {"epoch": epoch, "stop": self._seen.stop_reason, "options": options, "lines": list(self._lines)}
        )
        self._lines.clear()

    def _guarded(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except MazeError as error:
            raise ConformanceError(error.what) from error


def _through_json(states: Any) -> Any:
    """As a checkpoint gives them back."""
    tree, tensors = flatten_state(states)
    return unflatten_state(json.loads(json.dumps(tree)), tensors)


def _first_difference(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> str:
    for one, other in zip(found, expected, strict=False):
        for name in one:
            if one[name] != other[name]:
                return f"in epoch {other['epoch']} {name} is {one[name]!r} and was {other[name]!r}"
    return f"it ends after {len(found)} epochs more and did after {len(expected)}"
