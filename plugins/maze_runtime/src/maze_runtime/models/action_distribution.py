"""The distribution over a whole Dict action, and which distribution serves which head."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from maze_kernel.config.load import select
from maze_kernel.config.resolved import plain
from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import Distribution
from maze_kernel.contracts.vector import ArrayDict
from maze_kernel.errors import MazeError, RequestError, SpaceError
from maze_kernel.selection import Selection
from maze_runtime.env.box_bounds import bounds_of
from maze_runtime.models.distribution_form import require_a_result_a_row
from maze_runtime.models.distribution_rule import DistributionRule
from maze_runtime.models.masking import MaskError
from maze_runtime.models.same_operations import runs_same_operations, same_operations
from maze_runtime.models.tensor_dict import TensorDict

if TYPE_CHECKING:
    from maze_runtime.models.capabilities import ArraySampler


@same_operations
class ProductDistribution:
    """Independent heads: log-probability, entropy and KL are sums over them. Implements `ActionDistribution`.

    Args:
        heads: head name to its distribution, in the order of the action space.
        tables: head name to the table that chooses its distribution; of heads that an experiment chose.
    """

    def __init__(
        self, heads: Mapping[str, Distribution], tables: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        self.heads = dict(heads)
        self.tables = dict(tables or {})
        self._items = tuple(self.heads.items())

    def logits_shapes(self) -> dict[str, tuple[int, ...]]:
        """Head name to (L,)."""
        return {name: head.logits_shape for name, head in self._items}

    def sample(self, logits: TensorDict, generator: torch.Generator | None = None) -> TensorDict:
        """Head name to (B, ...) actions."""
        return {name: head.sample(logits[name], generator) for name, head in self._items}

    def mode(self, logits: TensorDict) -> TensorDict:
        """Head name to (B, ...) most likely actions."""
        return {name: head.mode(logits[name]) for name, head in self._items}

    def log_prob(self, logits: TensorDict, action: TensorDict) -> Tensor:
        """Sum over heads, (B,)."""
        return _total([head.log_prob(logits[name], action[name]) for name, head in self._items])

    def entropy(self, logits: TensorDict) -> Tensor:
        """Sum over heads, (B,), in nats."""
        return _total([head.entropy(logits[name]) for name, head in self._items])

    def log_prob_and_entropy(self, logits: TensorDict, action: TensorDict) -> tuple[Tensor, Tensor]:
        """Both, sharing what they have in common where a head's distribution offers that."""
        log_probs, entropies = [], []
        for name, head in self._items:
            both = getattr(head, "log_prob_and_entropy", None)
            if both is None:
                log_prob, entropy = head.log_prob(logits[name], action[name]), head.entropy(logits[name])
            else:
                log_prob, entropy = both(logits[name], action[name])
            log_probs.append(log_prob)
            entropies.append(entropy)
        return _total(log_probs), _total(entropies)

    def kl(self, logits: TensorDict, other_logits: TensorDict) -> Tensor:
        """KL(logits ‖ other_logits), sum over heads, (B,)."""
        return _total([head.kl(logits[name], other_logits[name]) for name, head in self._items])

    def temper(self, logits: TensorDict, temperature: float) -> TensorDict:
        """Logits at a temperature: below 1 more deterministic, above 1 more random.

        Raises:
            RequestError: a temperature that is not positive.
        """
        if not temperature > 0:
            raise RequestError("a temperature must be positive", received=str(temperature), expected="a number > 0")
        return {name: head.temper(logits[name], temperature) for name, head in self._items}

    def is_like(self, other: ProductDistribution) -> bool:
        """Whether the other one has the same heads: it gives the same numbers for the same logits and actions."""
        return list(self.heads) == list(other.heads) and all(map(_are_alike, self.heads.values(), other.heads.values()))

    def sample_numpy(self, logits: ArrayDict, rng: np.random.Generator) -> ArrayDict:
        """Like `sample`.

        Raises:
            MaskError: a row of a head is masked throughout; names the head.
        """
        return _sampled(((name, head.sample_numpy) for name, head in self._items), logits, rng)

    def native_sampler(self) -> Callable[[ArrayDict, np.random.Generator], ArrayDict] | None:
        """`sample_numpy` for one thread, in C++ for the heads that offer it (`DrawsNatively`); None where none does."""
        natives: dict[str, ArraySampler | None] = {name: native_sampler_of(head) for name, head in self._items}
        if not any(natives.values()):
            return None
        samplers = tuple((name, natives[name] or head.sample_numpy) for name, head in self._items)
        return lambda logits, rng: _sampled(samplers, logits, rng)

    def mode_numpy(self, logits: ArrayDict) -> ArrayDict:
        """Like `mode`; raises as `sample_numpy` does."""
        actions = {}
        for name, head in self._items:
            try:
                actions[name] = head.mode_numpy(logits[name])
            except MaskError as error:
                raise _naming(error, name) from None
        return actions


def _sampled(samplers: Iterable[tuple[str, ArraySampler]], logits: ArrayDict, rng: np.random.Generator) -> ArrayDict:
    """Actions by head."""
    actions = {}
    for name, sample in samplers:
        try:
            actions[name] = sample(logits[name], rng)
        except MaskError as error:
            raise _naming(error, name) from None
    return actions


def native_sampler_of(distribution: Any) -> Any:
    """What its `native_sampler` gives; None where it has none, or a subclass draws by a `sample_numpy` of its own."""
    names = ("native_sampler", "sample_numpy")
    drawing = next((cls for cls in type(distribution).__mro__ if any(name in vars(cls) for name in names)), object)
    ask = vars(drawing).get("native_sampler")
    return None if ask is None else ask(distribution)


def one_where_alike(distributions: Mapping[PolicyKey, ProductDistribution]) -> dict[PolicyKey, ProductDistribution]:
    """The same distributions, and one object for all policy keys whose distributions are alike."""
    kept: list[ProductDistribution] = []
    chosen = {}
    for key, own in distributions.items():
        like = next((one for one in kept if type(one) is type(own) is ProductDistribution and one.is_like(own)), None)
        kept += [own] if like is None else []
        chosen[key] = own if like is None else like
    return chosen


def _are_alike(head: Distribution, other: Distribution) -> bool:
    """Whether two distributions that compute by the same operations at every call have the same settings."""
    return runs_same_operations([head]) and _are_equal(head, other)


def _are_equal(value: Any, other: Any) -> bool:
    """Whether two settings are: numbers, arrays, and objects that consist of such."""
    if type(value) is not type(other) or callable(value):
        return value is other
    if isinstance(value, Tensor):
        return torch.equal(value, other)
    if isinstance(value, np.ndarray):
        return np.array_equal(value, other)
    if isinstance(value, (list, tuple)):
        return len(value) == len(other) and all(map(_are_equal, value, other))
    if isinstance(value, dict):
        return _are_equal(list(value.items()), list(other.items()))
    return _are_equal(vars(value), vars(other)) if hasattr(value, "__dict__") else bool(value == other)


def _total(terms: list[Tensor]) -> Tensor:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _naming(error: MaskError, head: str) -> MaskError:
    return MaskError(
        f"the mask of action head {head!r} forbids every choice",
        received=error.received,
        expected=error.expected,
        help=error.help,
    )


def space_word(space: spaces.Space[Any]) -> str:
    """The word of a space in a component record, e.g. "BoundedBox"; its class name where there is none."""
    if isinstance(space, spaces.Box):
        bounds = bounds_of(space)
        has_none = not (bounds.below.any() or bounds.above.any())
        return "BoundedBox" if bounds.both.all() else "UnboundedBox" if has_none else "PartlyBoundedBox"
    return type(space).__name__


def make_action_distribution(
    space: spaces.Dict, catalog: Any, rules: Iterable[DistributionRule] = ()
) -> ProductDistribution:
    """One distribution a head of a Dict action space.

    Args:
        space: the action space of one policy key.
        catalog: finds and builds distributions by name.
        rules: choices of the experiment; the last one that matches a head wins, else the space's default.

    Raises:
        SpaceError: a head without a number, one that the chosen distribution cannot serve, or one to whose rows it
            gives no results of their own.
        PluginError: no default distribution for a space, or several.
        ComponentError: a distribution that refuses the space; one of these, each names the head.
    """
    rules = tuple(rules)
    made = {name: _make_head(name, head, catalog, rules) for name, head in space.spaces.items()}
    tables = {name: plain(selection) for name, (_, selection) in made.items()}
    return ProductDistribution({name: head for name, (head, _) in made.items()}, tables)


def _make_head(
    name: str, space: spaces.Space[Any], catalog: Any, rules: tuple[DistributionRule, ...]
) -> tuple[Distribution, Selection]:
    _require_numbers(name, space)
    word = space_word(space)
    chosen = [rule for rule in rules if rule.matches(name, word)]
    selection = chosen[-1].use if chosen else None
    try:
        if selection is None:
            selection = select(catalog, "distribution", catalog.default("distribution", word).qualified_name)
        distribution: Distribution = catalog.build(selection, space)
    except MazeError as error:
        error.what = f"action head {name!r}: {error.what}"
        if error.location is None and chosen:
            error.location = chosen[-1].use.location
        error.received = error.received or str(space)
        raise
    require_a_result_a_row(name, space, distribution, selection.owner)
    return distribution, selection


def _require_numbers(name: str, space: spaces.Space[Any]) -> None:
    if 0 in (space.shape or ()):
        raise SpaceError(
            f"action head {name!r} holds no numbers",
            received=str(space),
            expected="at least one number",
            owner="maze-runtime",
            help="leave it out; where nothing is left to decide, the action is a constant: Discrete(1)",
        )
