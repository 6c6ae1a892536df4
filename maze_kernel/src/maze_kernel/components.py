"""Component records: the frozen descriptions that plugin hooks return.

A record names something a plugin can build. It holds strings, never classes, so listing every component of
every installed plugin imports neither torch nor gymnasium. `load_attribute` resolves a target on first use.
What a kind's target is called with is written at its class below.
"""

from __future__ import annotations

import importlib
import re
from functools import reduce
from typing import Any, ClassVar

import attrs

from maze_kernel.validators import at_least, one_of

PLUGIN_API = 1
"""The integer a plugin declares as `MAZE_PLUGIN_API`; raised only when a hook or a record changes incompatibly."""

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def _check_name(_instance: object, attribute: attrs.Attribute[str], value: object) -> None:
    if not isinstance(value, str) or _NAME.fullmatch(value) is None:
        raise ValueError(f"{attribute.name} {value!r} is not lower-case words joined by hyphens, e.g. 'my-wrapper'")


def _check_target(_instance: object, attribute: attrs.Attribute[str], value: object) -> None:
    left_out = value is None and attribute.name != "target"
    if not left_out and (not isinstance(value, str) or _TARGET.fullmatch(value) is None):
        home = "; in a plugin file of any name f'{__name__}:attribute' will do"
        raise ValueError(f"{attribute.name} {value!r} is not 'package.module:attribute'{home}")


def fold(name: str) -> str:
    """The spelling of a plugin's name that all its spellings share."""
    return re.sub(r"[-_.\s]+", "-", name).lower()


def load_attribute(target: str) -> Any:
    """Import `"package.module:attribute"` and return the attribute.

    Raises:
        ImportError: the module cannot be imported.
        AttributeError: the module has no such attribute.
    """
    module_name, _, path = target.partition(":")
    return reduce(getattr, path.split("."), importlib.import_module(module_name))


@attrs.frozen(kw_only=True)
class Component:
    """One thing a plugin provides.

    A target is called with the positional arguments of its kind, then with its options: an instance of the
    options class if the record names one, otherwise keyword arguments checked against the target's own
    keyword-only parameters.
    """

    kind: ClassVar[str] = ""

    name: str = attrs.field(validator=_check_name)
    """What an experiment writes behind `use =`."""
    target: str = attrs.field(validator=_check_target)
    """`"package.module:attribute"` of the class or function that builds it."""
    options: str | None = attrs.field(default=None, validator=_check_target)
    """`"package.module:Class"` of a frozen attrs class; None: the target's keyword-only parameters are the options."""
    summary: str = attrs.field(default="", validator=attrs.validators.instance_of(str))
    """One line for `maze list-plugins` and `maze describe`."""

    def targets(self) -> dict[str, str]:
        """What the record names for import: field to `"package.module:attribute"`."""
        named = [field.name for field in attrs.fields(type(self)) if field.validator is _check_target]
        return {name: target for name in named if (target := getattr(self, name)) is not None}


@attrs.frozen(kw_only=True)
class EnvComponent(Component):
    """Target: `(options) -> StructuredEnv`."""

    kind: ClassVar[str] = "env"
    vector_target: str | None = attrs.field(default=None, validator=_check_target)
    """`(n_envs, options) -> VectorEnv | None`: the natively vectorised form, None where these options have none."""
    adapts: str | None = attrs.field(default=None, validator=_check_target)
    """`(env: object) -> StructuredEnv | None`: wraps an environment of another library, None for what it does not know. It is asked where an import path or a factory from Python makes something that is no StructuredEnv."""  # noqa: E501
    default: bool = False
    """Whether bare ids given from Python, "CartPole-v1", and environments of a library go to it as its option `id`."""


@attrs.frozen(kw_only=True)
class WrapperComponent(Component):
    """Target: a `Transform` subclass `(options)`, or an env wrapper `(env, options) -> StructuredEnv`."""

    kind: ClassVar[str] = "wrapper"


@attrs.frozen(kw_only=True)
class BlockComponent(Component):
    """Target: `(in_keys, out_keys, in_shapes, options) -> torch.nn.Module`, dict of tensors in and out."""

    kind: ClassVar[str] = "block"


@attrs.frozen(kw_only=True)
class DistributionComponent(Component):
    """Target: `(space, options) -> Distribution` over one action head."""

    kind: ClassVar[str] = "distribution"
    default_for: tuple[str, ...] = ()
    """Spaces it is the default for: of "Discrete", "MultiDiscrete", "MultiBinary", "BoundedBox", "PartlyBoundedBox", "UnboundedBox"."""  # noqa: E501
    spaces: tuple[str, ...] = ()
    """Every space it can serve, in the same words."""


@attrs.frozen(kw_only=True)
class TrainerComponent(Component):
    """Target: `(context: TrainerContext, options) -> Trainer`."""

    kind: ClassVar[str] = "trainer"
    critic: str = attrs.field(default="state-value", validator=one_of(("state-value", "state-action", "none")))
    """The critic it trains: "state-value", V(s); "state-action", twin Q networks; or "none": its models have state values that nobody trains, and `initialize_from` leaves them out."""  # noqa: E501
    recurrent: bool = False
    """Whether it trains models that carry state from step to step, as a sequence; others are refused such models."""
    collects_rollouts: bool = False
    """Whether it takes no single steps in its batch: it lets one collect that can (`collector_for`), or needs none."""
    takes_modes: bool = False
    """Whether its policies draw nothing: asked to sample, they take the modes of their distributions as well."""
    n_envs: int | None = attrs.field(default=None, validator=attrs.validators.optional(at_least(1)))
    """Environments its defaults are meant for, which a run has where `[vector]` says nothing; None: as there."""
    preset: str | None = None
    """Preset of the wrappers or the model that its defaults are meant for: a run that names none has them, if the preset is installed; "plugin:name", or a name, of one's own plugin first."""  # noqa: E501
    default: bool = False
    """Whether Python code that names no trainer gets it."""


@attrs.frozen(kw_only=True)
class LoggerComponent(Component):
    """Target: `(context: LoggerContext, options) -> Logger`."""

    kind: ClassVar[str] = "logger"
    default: bool = False
    """Whether a run without a `[[loggers]]` table uses it."""


@attrs.frozen(kw_only=True)
class ModelComponent(Component):
    """Target: `(context: ModelContext, options) -> ActorCritic`."""

    kind: ClassVar[str] = "model"
    default: bool = False
    """Whether a run without a `[model]` table uses it."""


@attrs.frozen(kw_only=True)
class PolicyComponent(Component):
    """Target: `(context: PolicyContext, options) -> Policy`; needs no training."""

    kind: ClassVar[str] = "policy"


@attrs.frozen(kw_only=True)
class DatasetComponent(Component):
    """Target: `(context: DatasetContext, options) -> EpisodeSource`."""

    kind: ClassVar[str] = "dataset"
    default: bool = False
    """Whether a table without `use` selects it."""


@attrs.frozen(kw_only=True)
class WorkersComponent(Component):
    """Target: `(options) -> WorkerPool`."""

    kind: ClassVar[str] = "workers"
    default: bool = False
    """Whether `--workers N` uses it where the experiment names no pool; it needs an option `count`."""


@attrs.frozen(kw_only=True)
class VectorComponent(Component):
    """Target: `(context: VectorContext, options) -> VectorEnv`; how N environments are stepped together."""

    kind: ClassVar[str] = "vector"
    in_process: bool = True
    """Whether it steps environments in the process that builds it, so that workers too may use it for theirs; else they step by the rule of "auto"."""  # noqa: E501
    for_evaluation: bool = False
    """Whether evaluations in the main process use it too; else these step one environment after the other."""
    only_collects: bool = False
    """Whether its batches take no single steps; trainers that take some are refused it."""


@attrs.frozen(kw_only=True)
class SearcherComponent(Component):
    """Target: `(context: SearchContext, options) -> Searcher`; chooses the trials of a sweep."""

    kind: ClassVar[str] = "searcher"
    default: bool = False
    """Whether a sweep that names no searcher uses it."""


@attrs.frozen(kw_only=True)
class PresetComponent(Component):
    """Target: a mapping, or `"package:file.toml"`: tables of an experiment, beneath those that name the preset."""

    kind: ClassVar[str] = "preset"


@attrs.frozen(kw_only=True)
class CallbackComponent(Component):
    """Target: `(context: CallbackContext, options) -> Callback`; sees a run between epochs, and may stop it."""

    kind: ClassVar[str] = "callback"


@attrs.frozen(kw_only=True)
class CommandComponent(Component):
    """Target: a function whose parameters are annotated as typer's are; it is imported when the command runs.

    Its return value is the exit code (None: 0). A `MazeError` it raises is shown without a traceback.
    """

    kind: ClassVar[str] = "command"


COMPONENT_TYPES: dict[str, type[Component]] = {
    record.kind: record
    for record in (
        EnvComponent,
        WrapperComponent,
        BlockComponent,
        DistributionComponent,
        TrainerComponent,
        LoggerComponent,
        ModelComponent,
        PolicyComponent,
        DatasetComponent,
        WorkersComponent,
        VectorComponent,
        SearcherComponent,
        PresetComponent,
        CallbackComponent,
        CommandComponent,
    )
}
"""Every kind, in the order `maze list-plugins` shows them; the hook of kind `env` is `maze_envs`, and so on."""
