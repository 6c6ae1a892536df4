"""Options of all wrappers of this distribution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import attrs

from maze_kernel.config import inside_run_dir
from maze_kernel.selection import Selection
from maze_kernel.validators import above, at_least, between, each, optional

EVERY_OTHER = "*"
"""The entry of `keys` for those that have none of their own."""

STRATEGIES = ("mean-zero-std-one", "range-zero-one")


def _strategy(_instance: object, attribute: attrs.Attribute[Any], value: str | None) -> None:
    if value is not None and value not in STRATEGIES and ":" not in value:
        known = ", ".join(map(repr, STRATEGIES))
        raise ValueError(f'{attribute.name} must be {known} or "package.module:Class", not {value!r}')


def _import_path(_instance: object, attribute: attrs.Attribute[Any], value: str) -> None:
    if value and ":" not in value:
        raise ValueError(f'{attribute.name} must be "package.module:function", not {value!r}')


def _ordered(_instance: object, attribute: attrs.Attribute[Any], value: tuple[float, float] | None) -> None:
    if value is not None and not value[0] < value[1]:
        raise ValueError(f"{attribute.name} must be [low, high] with low below high, not {list(value)}")


@attrs.frozen(kw_only=True)
class KeyNormalization:
    """Settings of one observation key; what is unset follows the wrapper's own settings."""

    strategy: str | None = attrs.field(default=None, validator=_strategy)
    """"mean-zero-std-one", "range-zero-one" or the import path of a class, for this key."""
    axis: tuple[int, ...] | None = None
    """Axes of the stacked samples to take statistics over, for this key."""
    clip_range: tuple[float, float] | None = attrs.field(default=None, validator=_ordered)
    """Bounds of this key's normalised values."""
    mean: tuple[float, ...] | None = None
    """Mean given by hand, one number or one a feature; with `std`, strategy mean-zero-std-one."""
    std: tuple[float, ...] | None = None
    """Standard deviation given by hand, one number or one a feature; 0 counts as 1."""
    min: tuple[float, ...] | None = None
    """Lowest value given by hand, one number or one a feature; with `max`, strategy range-zero-one."""
    max: tuple[float, ...] | None = None
    """Highest value given by hand, one number or one a feature; equal to `min` counts as `min` + 1."""

    def __attrs_post_init__(self) -> None:
        for first, second in (("mean", "std"), ("min", "max")):
            if (getattr(self, first) is None) != (getattr(self, second) is None):
                raise ValueError(f"{first} and {second} must be given together")
        if self.mean is not None and self.min is not None:
            raise ValueError("give mean and std, or min and max, not both")
        if self.std is not None and min(self.std) < 0:
            raise ValueError(f"std must not be negative, and {min(self.std)} is")


@attrs.frozen(kw_only=True)
class ObservationNormalizationOptions:
    """Options of `observation-normalization`."""

    strategy: str = attrs.field(default="mean-zero-std-one", validator=_strategy)
    """"mean-zero-std-one": (x − mean) / std; "range-zero-one": (x − min) / (max − min); a divisor of 0 counts as 1. Or "package.module:Class", a class with the methods of `maze_wrappers.running_statistics.RunningStatistics`, which may normalise by any function."""  # noqa: E501
    statistics: Literal["estimated", "running"] = "estimated"
    """"estimated": from random steps before training, then fixed; "running": updated by every training step, frozen in evaluation. Keys with values given by hand keep those."""  # noqa: E501
    n_estimation_steps: int = attrs.field(default=1000, validator=above(0))
    """Environment steps of the sampling policy for "estimated", in all environments and workers together."""
    sampling_policy: Annotated[Selection, "policy"] | None = None
    """Who acts while statistics are estimated: a table with `use`, a policy by its name or "package.module:Class", and its options; unset: the random policy."""  # noqa: E501
    statistics_from: str | None = None
    """Take statistics from here instead of estimating them, or begin running ones with them: a run directory, or a JSON file with `mean` and `std`, or `min` and `max`, by observation key. Running ones count them as `n_estimation_steps` samples, or as the `count` beside them."""  # noqa: E501
    axis: tuple[int, ...] = (0,)
    """Axes of the stacked samples to take statistics over; axis 0 counts the samples. [0]: one value a feature; []: one value for everything."""  # noqa: E501
    clip_range: tuple[float, float] | None = attrs.field(default=None, validator=_ordered)
    """Bounds of the normalised values, e.g. [-10.0, 10.0]; unset does not clip."""
    exclude: tuple[str, ...] = ()
    """Observation keys to leave alone. Discrete and binary keys, masks and the links of graphs (`edge_links` beside `nodes`, with any prefix) are always left alone."""  # noqa: E501
    images: bool = True
    """Whether keys of three and more dimensions are normalised, too, unless they are excluded."""
    keys: Mapping[str, KeyNormalization] = attrs.field(factory=dict)
    """Settings of single keys, e.g. [wrappers.keys.observation]; those of [wrappers.keys."*"] are for all others."""


@attrs.frozen(kw_only=True)
class RewardScalingOptions:
    """Options of `reward-scaling`."""

    scale: float
    """Factor of every reward."""


@attrs.frozen(kw_only=True)
class RewardClippingOptions:
    """Options of `reward-clipping`."""

    min_val: float = -1.0
    """Lowest reward."""
    max_val: float = 1.0
    """Highest reward."""

    def __attrs_post_init__(self) -> None:
        if self.min_val > self.max_val:
            raise ValueError(f"min_val {self.min_val} is above max_val {self.max_val}")


@attrs.frozen(kw_only=True)
class ReturnNormalizationOptions:
    """Options of `return-normalization`."""

    gamma: float = attrs.field(default=0.99, validator=between(0.0, 1.0))
    """Discount of the return whose standard deviation is tracked; take the trainer's."""
    epsilon: float = attrs.field(default=1e-8, validator=above(0))
    """Added to the variance before the root."""
    clip_range: tuple[float, float] | None = attrs.field(default=None, validator=_ordered)
    """Bounds of the normalised reward, e.g. [-10.0, 10.0]; unset does not clip."""


@attrs.frozen(kw_only=True)
class TimeLimitOptions:
    """Options of `time-limit`."""

    max_episode_steps: int = attrs.field(validator=at_least(0))
    """Environment steps after which an episode is truncated; 0: no limit."""
    training_only: bool = False
    """Leave evaluation and rollouts without this limit."""


@attrs.frozen(kw_only=True)
class OneKeyOptions:
    """What every pre-processor of one observation key takes."""

    observation: str
    """The observation key to pre-process, as it is called at this place in the list."""
    keep_original: bool = False
    """Keep the observation that was pre-processed beside the outcome."""


@attrs.frozen(kw_only=True)
class FlattenObservationOptions(OneKeyOptions):
    """Options of `flatten`."""

    n_dims: int = attrs.field(default=0, validator=at_least(0))
    """How many of the last dimensions to join into one; 0: all."""


@attrs.frozen(kw_only=True)
class OneHotObservationOptions(OneKeyOptions):
    """Options of `one-hot`."""


@attrs.frozen(kw_only=True)
class ResizeImgOptions(OneKeyOptions):
    """Options of `resize-img`."""

    target_size: tuple[int, int] = attrs.field(validator=each(above(0)))
    """Height and width of the outcome, e.g. [84, 84]."""
    method: Literal["linear", "area"] = "linear"
    """How pixels are weighed: "linear" falls off with the distance, "area" is the mean of what a new pixel covers."""
    channels_first: bool = False
    """The image is (C, H, W) rather than (H, W, C); one without channels is (H, W) either way."""


@attrs.frozen(kw_only=True)
class TransposeOptions(OneKeyOptions):
    """Options of `transpose`."""

    axes: tuple[int, ...]
    """The observation's dimensions in their new order, e.g. [2, 0, 1] for (H, W, C) to (C, H, W)."""


@attrs.frozen(kw_only=True)
class UnsqueezeOptions(OneKeyOptions):
    """Options of `unsqueeze`."""

    dim: int
    """Where the new dimension stands in the outcome: 0 the first, −1 the last."""


@attrs.frozen(kw_only=True)
class Rgb2GrayOptions(OneKeyOptions):
    """Options of `rgb2gray`."""

    rgb_dim: int = -1
    """The dimension of the three colours: −1 for (H, W, 3), 0 for (3, H, W)."""


@attrs.frozen(kw_only=True)
class SortedSpacesOptions:
    """Options of `sorted-spaces`: none."""


@attrs.frozen(kw_only=True)
class DictObservationOptions:
    """Options of `dict-observation`."""

    key: str = "observation"
    """Name of an observation that has none; those of a Tuple become KEY_0, KEY_1, …"""


@attrs.frozen(kw_only=True)
class DictActionOptions:
    """Options of `dict-action`."""

    key: str = "action"
    """Name of an action that has none; those of a Tuple become KEY_0, KEY_1, …"""


Masks = Literal["keep", "join", "drop"]


@attrs.frozen(kw_only=True)
class NoDictObservationOptions:
    """Options of `no-dict-observation`."""

    key: str = "observation"
    """Name of the one array."""
    masks: Masks = "keep"
    """Masks, of actions or items: "keep" them beside the array, where policies find them, "join" them with it, or "drop" them."""  # noqa: E501


@attrs.frozen(kw_only=True)
class NoDictActionOptions:
    """Options of `no-dict-action`."""

    key: str = "action"
    """Name of the one action."""


@attrs.frozen(kw_only=True)
class NoDictSpacesOptions:
    """Options of `no-dict-spaces`."""

    observation_key: str = "observation"
    """Name of the one observation."""
    action_key: str = "action"
    """Name of the one action."""
    masks: Masks = "keep"
    """What becomes of action masks; as in `no-dict-observation`."""


@attrs.frozen(kw_only=True)
class SplitActionsOptions:
    """Options of `split-actions`."""

    heads: Mapping[str, Mapping[str, tuple[int, ...]]]
    """For each action to split its parts: name to elements, e.g. heads.action = { steer = [0], pedals = [1, 2] }. Its mask is split with it."""  # noqa: E501


@attrs.frozen(kw_only=True)
class HeadBins:
    """The bins of one action."""

    n_bins: tuple[int, ...] | None = attrs.field(
        default=None,
        validator=optional(each(above(1))),
    )
    """Number of bins, one number or one an element; at most one for each whole number."""
    low: tuple[float, ...] | None = None
    """Lower end of the lowest bin, one number or one an element; unset: the space's bound."""
    high: tuple[float, ...] | None = None
    """Upper end of the highest bin, one number or one an element; unset: the space's bound."""


@attrs.frozen(kw_only=True)
class DiscretizeActionsOptions:
    """Options of `discretize-actions`."""

    n_bins: int = attrs.field(default=5, validator=above(1))
    """Number of bins of every element of an action, at most one for each whole number; bin k means its centre."""
    heads: Mapping[str, HeadBins] = attrs.field(factory=dict)
    """The actions to discretise, with settings of their own, e.g. [wrappers.heads.action]; without any, all continuous ones."""  # noqa: E501


@attrs.frozen(kw_only=True)
class ObservationStackOptions:
    """Options of `observation-stack`."""

    n: int = attrs.field(default=4, validator=above(0))
    """How many observations a stack holds, the newest included."""
    keys: tuple[str, ...] = ()
    """Observation keys to stack, under each policy key where they are Boxes; without any all Box keys but masks."""
    deltas: bool = False
    """All but the newest entry are changes between successive observations, as float32."""
    keep_original: bool = False
    """Keep the newest observation under its name and call the stack KEY-stack."""


@attrs.frozen(kw_only=True)
class LogStatsOptions:
    """Options of `log-stats`."""

    name: str = ""
    """Stands at the end of the tags, where several of them are in one list."""


@attrs.frozen(kw_only=True)
class MonitoringOptions:
    """Options of `monitoring`."""

    actions: bool = True
    """Count choices of discrete actions (bars) and sample continuous ones (violins)."""
    observations: bool = False
    """Sample observations (mean, spread, violins)."""
    rewards: bool = False
    """Sample rewards of single steps (mean, spread, histogram)."""
    n_samples: int = attrs.field(default=1000, validator=above(0))
    """Rows of a sample an epoch, at most."""
    name: str = ""
    """Stands at the end of all tags; tells several of them in one list apart, such as original and processed values."""


@attrs.frozen(kw_only=True)
class ObservationVisualizationOptions:
    """Options of `observation-visualization`."""

    plot_function: str = attrs.field(default="", validator=_import_path)
    """Import path "package.module:function" of what draws; called with (m, …) observations and (policy key, name), returns a matplotlib figure. Unset: images as images, all else as violins."""  # noqa: E501
    keys: tuple[str, ...] = ()
    """Observation keys to draw; without any all."""
    n_samples: int = attrs.field(default=64, validator=above(0))
    """Observations an epoch, at most."""


@attrs.frozen(kw_only=True)
class RandomResetOptions:
    """Options of `random-reset`."""

    min_skip: int = attrs.field(default=0, validator=at_least(0))
    """Fewest random steps after a reset."""
    max_skip: int = attrs.field(default=30, validator=at_least(0))
    """Most random steps after a reset."""
    noop: Mapping[str, Any] | None = None
    """The action these steps take in place of random ones, by name, e.g. { action = 0 }."""

    def __attrs_post_init__(self) -> None:
        if self.min_skip > self.max_skip:
            raise ValueError(f"min_skip {self.min_skip} is above max_skip {self.max_skip}")


@attrs.frozen(kw_only=True)
class StepSkipOptions:
    """Options of `step-skip`."""

    n_steps: int = attrs.field(default=4, validator=above(0))
    """Environment steps a decision, its own included."""
    mode: Literal["sticky", "noop"] = "sticky"
    """Which actions the skipped steps take: "sticky" the decision's, "noop" those that change nothing."""
    noop: Mapping[str, Any] | None = None
    """The action that changes nothing, by name, for environments that do not say so themselves, e.g. { action = 0 }."""
    max_of: int = attrs.field(default=1, validator=above(0))
    """Box observations are the elementwise maximum over so many of the last of these steps; 2 for screens that flicker."""  # noqa: E501

    def __attrs_post_init__(self) -> None:
        if self.max_of > self.n_steps:
            raise ValueError(f"max_of {self.max_of} is above n_steps {self.n_steps}")


@attrs.frozen(kw_only=True)
class LifeLossOptions:
    """Options of `life-loss`."""

    key: str = "lives"
    """The number in `info` that falls when a life is lost."""
    go_on: bool = True
    """The next episode begins where the life was lost, unless the game was over; false: with a new game."""
    training_only: bool = True
    """Evaluation and rollouts play whole games."""


@attrs.frozen(kw_only=True)
class FirstActionsOptions:
    """Options of `first-actions`."""

    actions: tuple[Mapping[str, Any], ...]
    """What to do after each reset, by name, e.g. [{ action = 1 }] for games that begin when a button is pressed."""
    key: str = ""
    """Take them within an episode, too, whenever this number in `info` has fallen: "lives", where the game waits for
    the button after each lost life and evaluations play on; empty: after resets alone."""


@attrs.frozen(kw_only=True)
class VideoRecordingOptions:
    """Options of `video-recording`."""

    folder: str = attrs.field(default="videos", validator=inside_run_dir)
    """Where the films go, in the run directory."""
    every_episodes: int = attrs.field(default=100, validator=above(0))
    """Films the first episode of every environment and then each one after so many."""
    max_frames: int = attrs.field(default=10_000, validator=above(0))
    """Frames of a film, at most."""
