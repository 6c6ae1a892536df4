"""The experiment, structured: what every other room reads instead of TOML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import attrs

from maze_kernel.config.paths import check_run_name
from maze_kernel.errors import RequestError
from maze_kernel.selection import Selection
from maze_kernel.validators import at_least, each, matches

AUTO_MODE = "auto"
"""What `[vector] mode` says where no vector mode is selected: native where the environment has it, else sequential."""


@attrs.frozen(kw_only=True)
class VectorOptions:
    """How training environments are batched. The table also holds the options of its mode."""

    n_envs: int = attrs.field(default=8, validator=at_least(1))
    """Environments stepped together; a trainer may have another default, which its summary says."""
    mode: Annotated[Selection, "vector"] | None = attrs.field(default=None, metadata={"inline": AUTO_MODE})
    """How they are stepped: "auto" (native where the environment has it, else sequential), "native", "sequential", "subprocess", "workers" or another installed mode; options of the mode stand beside it."""  # noqa: E501


def _check_evaluator(options: Any, _attribute: object, metric: str | None) -> None:
    """Attrs validator of a metric: `hard/BaseEnvEvents/reward/mean` is measured where there is an evaluator `hard`."""
    name, _, tag = (metric or "").removeprefix("-").removeprefix("eval_").partition("/")
    if "Events/" in tag and name not in options.evaluators:
        known = ", ".join(options.evaluators) or "none"
        raise RequestError(
            f"no evaluator is called {name!r}", help=f"add [evaluation.evaluators.{name}]; known: {known}"
        )


@attrs.frozen(kw_only=True)
class EvaluatorOptions:
    """Episodes that are played with the weights just trained."""

    n_episodes: int = attrs.field(default=8, validator=at_least(0))
    """Episodes an evaluation, the same ones every time; 0: none, and where that is `[evaluation]` itself the training reward selects."""  # noqa: E501
    deterministic: bool = True
    """Take the mode of each distribution instead of sampling."""
    every_epochs: int = attrs.field(default=1, validator=at_least(1))
    """Evaluate each so many epochs; the last epoch always."""
    env: Annotated[Selection, "env"] | None = None
    """The environment that is played; without it that of training."""
    wrappers: tuple[Annotated[Selection, "wrapper"], ...] | None = None
    """Wrappers around it, the first one innermost; without them those of training."""


@attrs.frozen(kw_only=True)
class EvaluationOptions(EvaluatorOptions):
    """Evaluation of the weights just trained, on environments of its own."""

    metric: str | None = attrs.field(default=None, validator=_check_evaluator)
    """Statistic to maximise, or to minimise where a minus stands before it, for the best model and for patience; `NAME/` before it for one of `[evaluation.evaluators.NAME]`; unset: what the trainer says, which is the mean reward of the evaluation as a rule."""  # noqa: E501
    evaluators: dict[str, EvaluatorOptions] = attrs.field(
        factory=dict, validator=each(matches("(?!evaluation$)[A-Za-z][A-Za-z0-9-]*"))
    )
    """Further evaluations, a table `[evaluation.evaluators.NAME]` each; `NAME/` stands before their statistics."""


@attrs.frozen(kw_only=True)
class CheckpointOptions:
    """When the run is saved. At each such boundary the training environments are re-seeded."""

    every_epochs: int = attrs.field(default=5, validator=at_least(1))
    """Epochs between checkpoints, where training environments begin new episodes; the last epoch is always saved."""
    keep: int = attrs.field(default=2, validator=at_least(1))
    """Newest checkpoints kept besides the best one."""


@attrs.frozen(kw_only=True)
class PluginOptions:
    """Which plugins this experiment needs or leaves out."""

    require: tuple[str, ...] = ()
    """Distributions with plugins that must be installed, with a version range if wanted: "maze-ppo >=0.1,<0.2"."""
    disable: tuple[str, ...] = ()
    """Plugins not to load; of a name that no plugin has, the run warns."""
    load: tuple[str, ...] = ()
    """Python files beside this one that are loaded as plugins; no packaging needed."""


@attrs.frozen(kw_only=True)
class Experiment:
    """One experiment, complete: every default filled in, every component found."""

    name: str = attrs.field(validator=check_run_name)
    """Names the folder of its runs: letters, digits, - _ and . only."""
    preset: str | tuple[str, ...] = attrs.field(default=(), eq=False)
    """Presets, a name or several, that give what this file leaves open; `maze list-presets` shows them."""
    seed: int = attrs.field(default=0, validator=at_least(0))
    """All randomness of a run follows from it."""
    initialize_from: str | None = None
    """A run directory whose compatible weights and normaliser to start from."""
    env: Annotated[Selection, "env"]
    """The environment."""
    vector: VectorOptions = attrs.field(factory=VectorOptions)
    """How training environments are batched."""
    wrappers: tuple[Annotated[Selection, "wrapper"], ...] = ()
    """Wrappers around the environment, the first one innermost."""
    model: Annotated[Selection, "model"] | None = None
    """Policy and critic; without it a model is derived from the environment's spaces."""
    trainer: Annotated[Selection, "trainer"]
    """The training algorithm."""
    evaluation: EvaluationOptions = attrs.field(factory=EvaluationOptions)
    """Evaluation of the weights just trained."""
    checkpoint: CheckpointOptions = attrs.field(factory=CheckpointOptions)
    """When the run is saved."""
    workers: Annotated[Selection, "workers"] | None = None
    """The pool that runs actors; without it they run in the main process."""
    loggers: tuple[Annotated[Selection, "logger"], ...] = ()
    """Writers of statistics; without any the default ones."""
    callbacks: tuple[Annotated[Selection, "callback"], ...] = ()
    """What sees the run between epochs, and may stop it or change a schedule."""
    plugins: PluginOptions = attrs.field(factory=PluginOptions)
    """Which plugins the experiment needs or leaves out."""


@attrs.frozen(kw_only=True)
class LoadedExperiment:
    """An experiment with what it came from.

    Attributes:
        data: what was given, without overrides, presets and defaults.
        text: the file verbatim; "" when built in Python.
        overrides: the `--set` items as given.
        resolved: plain data (TOML types) with every default filled in; structuring it again gives `experiment`.
        kernel: the `Kernel` it was checked against, with the plugins its `[plugins]` table asks for.
    """

    experiment: Experiment
    path: str
    text: str = ""
    overrides: tuple[str, ...]
    resolved: Mapping[str, Any]
    data: Mapping[str, Any] = attrs.field(factory=dict, eq=False, repr=False)
    kernel: Any = attrs.field(default=None, eq=False, repr=False)
