"""Playing with what was trained, or with a policy that needs no training: from an experiment to an `EpisodePlayer`.

What travels to a worker is data: the experiment, the plugin records, weights as arrays, wrapper statistics as arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from maze_kernel.contracts.capabilities import capability
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.errors import CheckpointError, RequestError
from maze_runtime.env.simulation import HasRenderer, KeepsEventLogs
from maze_runtime.playing.recorder import RecordedEnvFactory, Recorder
from maze_runtime.rollout.cut_env import CutEnv
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.rollout.step_log import StepLog
from maze_runtime.rollout.video import FilmedEnv
from maze_runtime.run.assembly import Assembly
from maze_runtime.run.batch_factory import wrap_batch
from maze_runtime.run.directory import open_run
from maze_runtime.run.wrapper_lists import load_transforms
from maze_runtime.training.checkpoint import Checkpoint
from maze_runtime.training.checkpoint_store import CheckpointStore, checkpoint_name

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.contracts.env import StructuredEnv
    from maze_kernel.contracts.model import ActorCritic, Policy
    from maze_kernel.contracts.vector import VectorEnv
    from maze_kernel.loader import Kernel
    from maze_kernel.selection import Selection

N_SHOWN = 3
"""Of what a model and the weights for it differ in."""


@attrs.frozen(kw_only=True)
class Watch:
    """What lies around an environment while episodes are played; travels to worker processes.

    Attributes:
        max_steps: end episodes after so many flat steps; None: never.
        log_steps: write down rewards and actions of an environment without event logs.
        film: keep the frames.
        show: put them on the screen.
    """

    max_steps: int | None = None
    log_steps: bool = False
    film: bool = False
    show: bool = False

    def __call__(self, env: StructuredEnv) -> StructuredEnv:
        """The environment inside of these."""
        if self.log_steps and capability(env, KeepsEventLogs) is None:  # type: ignore[type-abstract]
            env = StepLog(env)
        if self.film or self.show:
            env = FilmedEnv(env, keep=self.film, show=self.show)
        return env if self.max_steps is None else CutEnv(env, self.max_steps)


@attrs.frozen
class PlayingEnv:
    """Builds a batch of one environment, its wrappers frozen.

    Attributes:
        states: statistics of the transforms; None: as they are when built.
        recorder: what records its episodes, inside of the transforms; None: nothing does.
        run_dir: see `Assembly`.
        watch: what lies around each environment, outside of what records.
    """

    loaded: LoadedExperiment
    kernel: Kernel
    states: Sequence[Mapping[str, Any]] | None = None
    recorder: Recorder | None = None
    run_dir: Path | None = None
    watch: Watch = attrs.field(factory=Watch)

    def __call__(self) -> VectorEnv:
        assembly = Assembly(self.loaded, self.kernel, self.run_dir)
        transforms = assembly.make_transforms()
        if self.states is not None:
            load_transforms(transforms, self.states)
        make_env: Callable[[], StructuredEnv] = assembly.env_factory(training=False)
        if self.recorder is not None:
            make_env = RecordedEnvFactory(make_env, self.recorder)
        return wrap_batch(SequentialVectorEnv([lambda: self.watch(make_env())]), transforms, training=False)


@attrs.frozen
class TrainedPolicy:
    """Builds a policy with the weights of a checkpoint, where it is called: it starts no workers."""

    loaded: LoadedExperiment
    kernel: Kernel
    weights: Mapping[str, np.ndarray]

    def __call__(self, seed: int) -> Policy:
        here = attrs.evolve(self.loaded, experiment=attrs.evolve(self.loaded.experiment, workers=None))
        assembly = Assembly(here, self.kernel)
        return assembly.make_policy(load_weights(assembly.make_model(), self.weights), seed)


@attrs.frozen
class ComponentPolicy:
    """Builds a policy that needs no training: random, a heuristic, or a class by its import path."""

    loaded: LoadedExperiment
    kernel: Kernel
    selection: Selection

    def __call__(self, seed: int) -> Policy:
        assembly = Assembly(self.loaded, self.kernel)
        make_env = assembly.env_factory(training=False, writes_files=False)
        env, transforms = make_env(), assembly.make_transforms()
        spaces = assembly.bind(transforms, env.structured_spaces)
        context = PolicyContext(spaces=spaces, seed=seed, env=env, transforms=tuple(transforms))
        return self.kernel.catalog.build(self.selection, context)  # type: ignore[no-any-return]


def load_checkpoint(run_dir: Path, name: str) -> Checkpoint:
    """A checkpoint by its name: "best", "last", or "epoch-40" with or without leading zeros.

    Raises:
        RequestError: there is no such run, or the name is none of these.
        CheckpointError: the run has no whole checkpoint of this name.
    """
    open_run(run_dir)
    prefix, _, number = name.partition("epoch-")
    if name not in ("best", "last") and (prefix or not number.isdigit()):
        raise RequestError(
            f"there is no checkpoint called {name!r}", expected='"best", "last" or "epoch-N"', received=repr(name)
        )
    store = CheckpointStore(run_dir)
    if not number.isdigit():
        return store.load_named(name)
    if int(number) not in (epochs := store.epochs()):
        kept = [f"epoch-{epoch}" for epoch in epochs]
        raise CheckpointError(
            f"{run_dir} has no checkpoint {checkpoint_name(int(number))}",
            received=repr(name),
            expected=", ".join(["best", "last", *(["…"] if len(kept) > N_SHOWN else []), *kept[-N_SHOWN:]]),
            help="name one of these; [checkpoint] keep of the experiment says how many stay",
        )
    return store.load(int(number))


def weights_of(checkpoint: Checkpoint) -> dict[str, np.ndarray]:
    """The weights as arrays, fit to travel."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in checkpoint.model.items()}


def load_weights(model: ActorCritic, weights: Mapping[str, np.ndarray]) -> ActorCritic:
    """Put weights into a model built for the same experiment, and set it to evaluation.

    Raises:
        CheckpointError: they are of another model; it names what differs.
    """
    import torch

    module: Any = model
    differences = _differences({name: tuple(own.shape) for name, own in module.state_dict().items()}, weights)
    if differences:
        raise CheckpointError(
            "the checkpoint does not fit the experiment: its weights are of another model",
            received="; ".join(differences[:N_SHOWN]) + (" …" if len(differences) > N_SHOWN else ""),
            help="give env, model and wrappers as they were when the run was trained: its experiment.toml has them",
        )
    module.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
    module.eval()
    return model


def _differences(shapes: Mapping[str, tuple[int, ...]], weights: Mapping[str, np.ndarray]) -> list[str]:
    """What a model and weights differ in, in words: names that one of them lacks, other shapes."""
    differences = []
    for name in dict.fromkeys((*shapes, *weights)):
        own, given = shapes.get(name), weights[name].shape if name in weights else None
        if own != given:
            there, here = ("none" if shape is None else str(shape) for shape in (given, own))
            differences.append(f"{name}: {there} instead of {here}")
    return differences


def with_drawing(loaded: LoadedExperiment, kernel: Kernel, render_mode: str) -> LoadedExperiment:
    """The experiment with its environment set to draw itself; as it is where a renderer draws its states.

    Raises:
        RequestError: the environment has neither a renderer nor an option `render_mode`.
    """
    env = loaded.experiment.env
    if env.instance is not None or _has_renderer(loaded, kernel):
        return loaded  # a factory from Python says itself how it draws
    if not env.takes("render_mode"):
        raise RequestError(
            f"environment {env.use!r} cannot be drawn: it has no renderer and no option render_mode",
            owner=env.owner,
            help="give its core environment a get_renderer, or roll out without --render and --video",
        )
    experiment = attrs.evolve(loaded.experiment, env=env.with_options(render_mode=render_mode))
    return attrs.evolve(loaded, experiment=experiment)


def _has_renderer(loaded: LoadedExperiment, kernel: Kernel) -> bool:
    env = Assembly(loaded, kernel).env_factory(training=False, writes_files=False)()
    try:
        simulation = capability(env, HasRenderer)  # type: ignore[type-abstract]
        return simulation is not None and simulation.get_renderer() is not None
    finally:
        env.close()
