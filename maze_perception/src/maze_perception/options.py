"""Options of the blocks and model templates. Imports neither torch nor gymnasium."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import attrs

from maze_kernel.selection import Selection
from maze_kernel.validators import at_least, at_most, length_at_least
from maze_runtime.models.distribution_rule import DistributionRule

NonLinearity = Literal["relu", "tanh", "sigmoid", "elu", "leaky-relu", "silu", "softplus", "gelu", "identity"]
AutoNonLinearity = Literal["auto", NonLinearity]
Pooling = Literal["mean", "sum", "max"]
Initialisation = Literal["orthogonal", "normc", "torch"]
AutoInitialisation = Literal["auto", Initialisation]
Precision = Literal["float32", "bfloat16"]

BlockSelection = Annotated[Selection, "block"]


def _positive_units(_instance: object, attribute: attrs.Attribute[Any], value: tuple[int, ...]) -> None:
    if any(units < 1 for units in value):
        raise ValueError(f"{attribute.name} {list(value)} must all be at least 1")


def _not_empty(_instance: object, attribute: attrs.Attribute[Any], value: tuple[int, ...]) -> None:
    if not value:
        raise ValueError(f"{attribute.name} must name at least one layer")


UNITS = [_not_empty, _positive_units]
"""Validators of a list of layer sizes."""


@attrs.frozen(kw_only=True)
class DenseOptions:
    """Options of `dense`."""

    hidden_units: tuple[int, ...] = attrs.field(default=(64, 64), validator=UNITS)
    """Units a layer, first layer first."""
    non_lin: NonLinearity = "relu"
    """Activation after every layer."""
    bias: bool = True
    """Whether the layers add a bias."""


@attrs.frozen(kw_only=True)
class FlattenOptions:
    """Options of `flatten`."""

    num_flatten_dims: int = attrs.field(default=0, validator=at_least(0))
    """Trailing dimensions joined into one; 0: all but the batch."""


@attrs.frozen(kw_only=True)
class FlattenDenseOptions:
    """Options of `flatten-dense`."""

    hidden_units: tuple[int, ...] = attrs.field(default=(64, 64), validator=UNITS)
    """Units a layer, first layer first."""
    non_lin: NonLinearity = "relu"
    """Activation after every layer."""
    bias: bool = True
    """Whether the layers add a bias."""
    num_flatten_dims: int = attrs.field(default=0, validator=at_least(0))
    """Trailing dimensions joined into one before the first layer; 0: all but the batch."""


@attrs.frozen(kw_only=True)
class ConcatenationOptions:
    """Options of `concatenation`."""

    dim: int = attrs.field(default=-1, validator=at_most(-1))
    """Dimension to join, counted from the end."""


@attrs.frozen(kw_only=True)
class LinearOutputOptions:
    """Options of `linear-output`."""

    output_units: int = attrs.field(validator=at_least(1))
    """Size of the output."""
    bias: bool = True
    """Whether it adds a bias."""
    constant_units: int = attrs.field(default=0, validator=at_least(0))
    """So many of the last units read no input: learnt numbers, 0 at first, such as the logarithms of standard deviations."""  # noqa: E501


@attrs.frozen(kw_only=True)
class GlobalAveragePoolingOptions:
    """Options of `global-average-pooling`."""

    n_dims: int = attrs.field(default=2, validator=at_least(1))
    """Trailing dimensions averaged away."""


@attrs.frozen(kw_only=True)
class SliceOptions:
    """Options of `slice`."""

    index: int = 0
    """Position taken; negative counts from the end."""
    dim: int = attrs.field(default=-1, validator=at_most(-1))
    """Dimension it is taken from, counted from the end; it disappears."""


@attrs.frozen(kw_only=True)
class MultiIndexSlicingOptions:
    """Options of `multi-index-slicing`."""

    indices: tuple[int, ...] = attrs.field(validator=length_at_least(1))
    """Positions taken, in this order; negative ones count from the end."""
    dim: int = attrs.field(default=-1, validator=at_most(-1))
    """Dimension they are taken from, counted from the end; it stays, even for one position."""


@attrs.frozen(kw_only=True)
class MaskedGlobalPoolingOptions:
    """Options of `masked-global-pooling`."""

    pooling: Pooling = "mean"
    """How the items are reduced; without any item the result is zero."""
    dim: int = attrs.field(default=-2, validator=at_most(-1))
    """Dimension of the items, counted from the end of the features; it disappears. The mask ends with it."""


@attrs.frozen(kw_only=True)
class CorrelationOptions:
    """Options of `correlation`."""

    reduce: bool = True
    """Sum the products over the last dimension, which disappears; false: keep them."""


@attrs.frozen(kw_only=True)
class RepeatToMatchOptions:
    """Options of `repeat-to-match`."""

    dim: int = attrs.field(default=-2, validator=at_most(-1))
    """Dimension of the result along which the first input is repeated, counted from the end. It is inserted where
    the first input has one dimension less than the second, else it must be of size 1."""


@attrs.frozen(kw_only=True)
class OneHotOptions:
    """Options of `one-hot`."""

    n_classes: int = attrs.field(validator=at_least(2))
    """Number of classes: the size of the new last dimension. Numbers outside 0 … n_classes - 1 become zeros."""


@attrs.frozen(kw_only=True)
class FunctionalOptions:
    """Options of `functional`."""

    function: str
    """"package.module:function", called with the inputs as tensors in their order; gives a tensor, or a tuple in the
    order of the outputs. It must cope with any leading dimensions: count from the end."""
    kwargs: dict[str, Any] = attrs.field(factory=dict)
    """Keyword arguments of the function."""


@attrs.frozen(kw_only=True)
class TorchModelOptions:
    """Options of `torch-model`."""

    module: str
    """"package.module:Class" of a torch.nn.Module, called with the inputs as (B, ...) tensors in their order; gives a
    tensor, a tuple in the order of the outputs, or a dict by their names. It begins with the weights that its
    constructor gives it."""
    kwargs: dict[str, Any] = attrs.field(factory=dict)
    """Keyword arguments of its constructor."""


CriticKind = Literal["shared-state", "step-state", "delta-state"]


@attrs.frozen(kw_only=True)
class CriticOptions:
    """The `[model.critic]` table."""

    use: CriticKind | None = None
    """Kind of critic. "shared-state": one network for all policy keys, one value of the state whoever decides;
    "step-state": a network a policy key, each actor valued for itself; "delta-state": a network a policy key, the
    first decision of a flat step valued, at the others what they change. Flat environments see no difference. Trainers
    that value actions get twin Q networks of the same blocks, and refuse "delta-state". Absent: "shared-state" where
    states are valued, "step-state" where actions are."""
    share_embedding: bool | str | tuple[str, ...] = False
    """Use the policy's blocks: all of them, with a linear value head of its own, or those up to the blocks of these
    names, of `[model.blocks]` or "concatenation", "hidden" and "recurrence", and the critic's own behind them."""
    blocks: dict[str, BlockSelection] = attrs.field(factory=dict)
    """Blocks that replace the policy's of the same name."""
    hidden: BlockSelection | None = None
    """Hidden block in place of the policy's."""


@attrs.frozen(kw_only=True)
class PolicyOptions:
    """A table `[model.policies.<policy key>]`: what one policy key has of its own."""

    blocks: dict[str, BlockSelection] = attrs.field(factory=dict)
    """Blocks beside those of `[model.blocks]`, or in the place of those of the same name."""
    modalities: dict[str, str] = attrs.field(factory=dict)
    """Entries beside those of `modalities`, or in their place."""
    inputs: dict[str, tuple[str, ...]] = attrs.field(factory=dict)
    """Entries beside those of `[model.inputs]`, or in their place."""
    hidden: BlockSelection | None = None
    """Block after the concatenation, in place of the common one."""
    recurrence: BlockSelection | None = None
    """Block after `hidden`, in place of the common one."""


@attrs.frozen(kw_only=True)
class ConcatOptions:
    """Options of the `concat` template: block an observation -> concatenation -> hidden -> recurrence -> heads."""

    blocks: dict[str, BlockSelection] = attrs.field(factory=dict)
    """Name to block, for all policy keys. An observation is fed to the block that `modalities` names, else to the
    block of its own name, else to the only block there is."""
    modalities: dict[str, str] = attrs.field(factory=dict)
    """Observation to the name of its block, or to "ignore". Several observations may name one block; each gets
    a copy with parameters of its own."""
    inputs: dict[str, tuple[str, ...]] = attrs.field(factory=dict)
    """Block to what it reads together, in its order: observations, or other blocks of this table. Blocks that no
    other one reads go to the concatenation."""
    hidden: BlockSelection | None = None
    """Block after the concatenation. Sequences (T, D) are concatenated step by step, vectors repeated at every step."""
    recurrence: BlockSelection | None = None
    """Block after `hidden`."""
    policies: dict[str, PolicyOptions] = attrs.field(factory=dict)
    """Policy key to what it has of its own, in structured environments."""
    separate_agent_nets: tuple[str, ...] = ()
    """Policy keys whose agents have networks of their own instead of a common one; needs a fixed number of agents."""
    critic: CriticOptions = attrs.field(factory=CriticOptions)
    """The critic; by default a network of its own of the policy's form."""
    init: Initialisation = "orthogonal"
    """Initial weights: "orthogonal" (gain √2 in bodies), "normc" (columns of norm 1) or "torch" (its defaults). The
    first two give policy heads 0.01, the value head 1, and zero biases."""
    action_frequencies: dict[str, tuple[float, ...]] = attrs.field(factory=dict)
    """Action head to how often each choice is taken before training: the probability of every value of a Discrete, of
    the values of every dimension of a MultiDiscrete one behind the other, of a 1 for every bit of a MultiBinary. The
    head's bias starts there."""
    precision: Precision = "float32"
    """Of convolutions and matrix products: "bfloat16" is faster for images, on GPUs and on processors that have it; weights, heads, losses and the optimiser stay float32."""  # noqa: E501
    distributions: tuple[DistributionRule, ...] = ()
    """Distributions of action heads in place of the defaults; later entries are more specific."""


@attrs.frozen(kw_only=True)
class DefaultStackOptions:
    """What the networks of `auto` are made of; in `custom` those that no table names."""

    hidden_units: tuple[int, ...] = attrs.field(default=(64, 64), validator=_positive_units)
    """Units a layer of the dense block of vectors, of each network; []: none, and the heads are linear in these."""
    non_lin: AutoNonLinearity = "auto"
    """Activation of the dense blocks; "auto": "relu" where the trainer values actions (SAC, TD3), else "tanh"."""
    sequences: tuple[str, ...] = ()
    """Observations (T, D) whose rows are steps in the order of time: a `gru-last-step` reads each. Without it numbers of two dimensions are flattened or, with a mask `<name>_mask` (T,), a set."""  # noqa: E501
    recurrence: BlockSelection | None = None
    """Block after these stacks, e.g. a `gru` with stateful = true, of each network."""
    init: AutoInitialisation = "auto"
    """Initial weights, as in `concat`; "auto": "torch" where the trainer values actions, else "orthogonal"."""
    action_frequencies: dict[str, tuple[float, ...]] = attrs.field(factory=dict)
    """Action head to how often each choice is taken before training, as in `concat`."""


@attrs.frozen(kw_only=True)
class AutoOptions(DefaultStackOptions):
    """Options of the `auto` model, which a run without `[model]` uses."""

    critic: CriticKind | None = None
    """Kind of critic, as in `concat`; absent: "shared-state" where states are valued, else "step-state"."""
    separate_agent_nets: tuple[str, ...] = ()
    """Policy keys whose agents have networks of their own, as in `concat`."""
    precision: Precision = "float32"
    """Of convolutions and matrix products: "bfloat16" is faster for images, on GPUs and on processors that have it; weights, heads, losses and the optimiser stay float32."""  # noqa: E501
    distributions: tuple[DistributionRule, ...] = ()
    """Distributions of action heads in place of the defaults; later entries are more specific."""


def _is_network(_instance: object, _attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, str) and not callable(value):
        raise ValueError(
            f"a network is no {type(value).__name__}: give a torch.nn.Module, its class or its import path"
        )


@attrs.frozen(kw_only=True)
class NetworkOptions:
    """A network of the `custom` model: a class of torch.nn.Module by import path, or from Python."""

    use: Annotated[str, "or an object"] = attrs.field(validator=_is_network)
    """"package.module:Class". Its constructor may take `obs_shapes`, and `action_logits_shapes` (policies) or
    `output_shapes` (critics): name to shape of one sample. From Python also a class, a function that makes a
    torch.nn.Module, or one itself, which is copied with its weights."""
    kwargs: dict[str, Any] = attrs.field(factory=dict)
    """Further keyword arguments of its constructor."""
    inputs: Literal["auto", "dict", "tensors"] = "auto"
    """How `forward` is called: with a "dict" of tensors by name, or with the "tensors" one behind the other; "auto":
    with a dict where the constructor takes `obs_shapes`."""


Network = NetworkOptions | Annotated[str, "or an object"]
"""A network with its options, or what is its `use`."""


def _network(name: str, value: Any) -> NetworkOptions | None:
    try:
        return value if value is None or isinstance(value, NetworkOptions) else NetworkOptions(use=value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _policy(value: Any) -> NetworkOptions | None:
    return _network("policy", value)


def _critic(value: Any) -> NetworkOptions | None:
    return _network("critic", value)


def _policies(value: Any) -> dict[str, NetworkOptions | None]:
    return {key: _network(f"policies.{key}", own) for key, own in value.items()}


def _critics(value: Any) -> dict[str, NetworkOptions | None]:
    return {key: _network(f"critics.{key}", own) for key, own in value.items()}


@attrs.frozen(kw_only=True)
class CustomOptions:
    """Options of the `custom` model: policy, critic, or both are networks of your own."""

    policy: Network | None = attrs.field(default=None, converter=_policy)
    """The policy: observations to the logits of every action head. A table, or its `use` alone; absent: the default
    policy."""
    critic: Network | None = attrs.field(default=None, converter=_critic)
    """The critic: observations, and what the policy gives besides logits, to `value`. Trainers that value actions get
    two of them, which may read `taken_action` too. A table, or its `use` alone; absent: the default critic."""
    policies: dict[str, Network] = attrs.field(factory=dict, converter=_policies)
    """Policy key to its policy, in place of `policy`."""
    critics: dict[str, Network] = attrs.field(factory=dict, converter=_critics)
    """Policy key to its critic, in place of `critic`."""
    default: DefaultStackOptions = attrs.field(factory=DefaultStackOptions)
    """What policies and critics that are not given are made of, as in `auto`."""
    critic_kind: CriticKind = "step-state"
    """What the values of the critics mean in structured environments, as in `concat`; each policy key has one."""
    distributions: tuple[DistributionRule, ...] = ()
    """Distributions of action heads in place of the defaults; later entries are more specific."""

    def policy_of(self, policy_key: str) -> NetworkOptions | None:
        """The policy of a policy key; None: the default one."""
        return _policy(self.policies.get(policy_key, self.policy))

    def critic_of(self, policy_key: str) -> NetworkOptions | None:
        """The critic of a policy key; None: the default one."""
        return _critic(self.critics.get(policy_key, self.critic))
