"""The `concat` template: one block a mapped observation -> concatenation -> hidden -> recurrence -> heads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain, count
from typing import Any, NamedTuple

import attrs
from gymnasium import spaces

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.model import ModelContext
from maze_kernel.errors import RequestError
from maze_kernel.selection import Selection
from maze_perception.blocks.combining import RepeatToMatch
from maze_perception.blocks.general import Concatenation
from maze_perception.graph import GraphBuilder, chosen_block
from maze_perception.models.assembly import assemble, find_inputs
from maze_perception.models.numbered import warn_of_amounts
from maze_perception.models.precision import with_precision
from maze_perception.models.wiring import (
    add_wired,
    check_wiring,
    observations_below,
    unknown_name,
    wired_groups,
    wired_observations,
)
from maze_perception.options import ConcatenationOptions, ConcatOptions, RepeatToMatchOptions
from maze_runtime.models.actor_critic import StructuredActorCritic
from maze_runtime.models.shared_critic import ReadTogether

IGNORE = "ignore"
FIXED_BLOCKS = ("concatenation", "hidden", "recurrence")
"""Blocks that are in no table of names."""


def make_concat_model(context: ModelContext, options: ConcatOptions) -> StructuredActorCritic:
    """The target of the model `concat`.

    Raises:
        RequestError: an observation without a block, or a name in `modalities` that is no observation or block.
    """
    _check_names(context, options)
    template = _ConcatTemplate(options, context.catalog)
    _check_critic(context.spaces, template)
    if context.critic == "state-action" and options.critic.share_embedding:
        raise RequestError(
            "[model.critic] share_embedding is not possible with this trainer",
            received="true",
            expected="false: Q networks share nothing with the policy",
            owner="maze-perception",
        )
    own = options.critic.blocks or options.critic.hidden
    if options.critic.share_embedding is True and own:
        raise _not_its_own("[model.critic] blocks" if options.critic.blocks else "[model.critic] hidden")
    model = assemble(context, template, options.distributions)
    return with_precision(model, options.precision)


def options_of(options: ConcatOptions, policy_key: PolicyKey) -> ConcatOptions:
    """The options of one policy key: its own in place of the common ones."""
    own = options.policies.get(policy_key)
    if own is None:
        return options
    return attrs.evolve(
        options,
        blocks={**options.blocks, **own.blocks},
        modalities={**options.modalities, **own.modalities},
        inputs={**options.inputs, **own.inputs},
        hidden=own.hidden or options.hidden,
        recurrence=own.recurrence or options.recurrence,
    )


@attrs.frozen
class _Part:
    """Observations of a network that the same options say how to read.

    Attributes:
        suffix: what the network has behind their names: nothing, or `@key`.
    """

    options: ConcatOptions
    suffix: str
    names: tuple[str, ...]


class _OwnBlock(NamedTuple):
    """The block of one observation: what the graph calls it, what `[model.blocks]` calls it, and what it is."""

    name: str
    block: str
    selection: Selection


@attrs.frozen
class _ConcatTemplate:
    options: ConcatOptions
    catalog: Any
    readers: Mapping[str, tuple[PolicyKey, ...]] = attrs.field(factory=dict)
    """Of a network that policy keys share: input to the keys that read it."""

    @property
    def init(self) -> str:
        return self.options.init

    @property
    def action_frequencies(self) -> Mapping[str, tuple[float, ...]]:
        return self.options.action_frequencies

    @property
    def critic_kind(self) -> str | None:
        return self.options.critic.use

    @property
    def separate_agent_nets(self) -> tuple[str, ...]:
        return self.options.separate_agent_nets

    def of(self, policy_key: PolicyKey) -> _ConcatTemplate:
        return _ConcatTemplate(options_of(self.options, policy_key), self.catalog)

    def joined(self, readers: Mapping[str, tuple[PolicyKey, ...]]) -> _ConcatTemplate:
        """Each input has a block of a key that reads it; of several, of `hidden` too, the first one's with options."""
        own = self.options.policies.values()
        hidden = next((one.hidden for one in own if one.hidden), self.options.hidden)
        recurrence = next((one.recurrence for one in own if one.recurrence), self.options.recurrence)
        options = attrs.evolve(self.options, hidden=hidden, recurrence=recurrence)
        return _ConcatTemplate(options, self.catalog, readers)

    def groups(self, observation: spaces.Dict, features: tuple[str, ...]) -> list[ReadTogether]:
        wired = wired_groups(self.options.inputs, features)
        grouped = {name for group in wired for name in group.observations}
        return [*wired, *(ReadTogether((name,)) for name in self._own_blocks(features) if name not in grouped)]

    def twins_share(self, observation: spaces.Dict, features: tuple[str, ...]) -> tuple[str, ...]:
        return ()

    def shares_body(self, observation: spaces.Dict, features: tuple[str, ...]) -> bool:
        return self.options.critic.share_embedding is True

    def shared_blocks(self, observation: spaces.Dict, features: tuple[str, ...]) -> tuple[str, ...]:
        """The blocks that `share_embedding` names, those of them that the policy key has."""
        return tuple(block for name in self.shared_names for block in self.blocks_called(name, features))

    @property
    def shared_names(self) -> tuple[str, ...]:
        """What `share_embedding` names."""
        named = self.options.critic.share_embedding
        return () if isinstance(named, bool) else (named,) if isinstance(named, str) else named

    def blocks_called(self, name: str, features: tuple[str, ...]) -> list[str]:
        """What the graph calls a block of `[model.blocks]`, of which every observation has its own, or another one."""
        if name in FIXED_BLOCKS:
            return [name]
        inputs = self.options.inputs
        if name in inputs:
            return [name] if observations_below(name, inputs) <= set(features) else []
        return [own.name for own in self._own_blocks(features).values() if own.block == name]

    def _parts(self, features: Iterable[str]) -> list[_Part]:
        found: dict[tuple[PolicyKey | None, str], list[str]] = {}
        for feature in features:
            name, at, key = feature.partition("@")
            readers = self.readers.get(feature, ())
            reader = next((one for one in (*self.options.policies, *readers) if one in readers), None)
            found.setdefault((reader, at + key), []).append(name)
        return [
            _Part(self.options if reader is None else options_of(self.options, reader), suffix, tuple(names))
            for (reader, suffix), names in found.items()
        ]

    def _own_blocks(self, features: tuple[str, ...]) -> dict[str, _OwnBlock]:
        """The block of each observation that has one of its own, because it is not among `inputs`, or is named in
        `modalities` besides. The graph calls it `observation_block`, with a number where another one has that name.
        """
        parts = self._parts(features)
        taken = {block + part.suffix for part in parts for block in part.options.inputs}
        found: dict[str, _OwnBlock] = {}
        for part in parts:
            wired = wired_observations(part.options.inputs) - set(part.options.modalities)
            for observation in part.names:
                block = IGNORE if observation in wired else block_of(observation, part.options)
                if block != IGNORE:
                    feature = observation + part.suffix
                    names = chain([f"{feature}_{block}"], (f"{feature}_{block}_{number}" for number in count(2)))
                    name = next(free for free in names if free not in taken)
                    found[feature] = _OwnBlock(name, block, part.options.blocks[block])
                    taken.add(name)
        return {feature: found[feature] for feature in features if feature in found}

    def policy_body(self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...]) -> str:
        latent = self._body(graph, features, {}, self.options.hidden)
        warn_of_amounts(graph, observation)
        return latent

    def critic_body(self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...]) -> str:
        return self._critic_body(graph, features, ())

    def shared_critic_body(
        self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...], who: str
    ) -> str:
        return self._critic_body(graph, features, (who,))

    def _critic_body(self, graph: GraphBuilder, features: tuple[str, ...], extra: tuple[str, ...]) -> str:
        critic = self.options.critic
        own = [("hidden", "hidden")] if critic.hidden is not None else []
        own += [(f"blocks.{name}", block) for name in critic.blocks for block in self.blocks_called(name, features)]
        for place, block in own:
            if block in graph.given:
                raise _not_its_own(f"[model.critic] {place}")
        return self._body(graph, features, critic.blocks, critic.hidden or self.options.hidden, extra=extra)

    def action_value_body(
        self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...], action: str
    ) -> str:
        """The critic's blocks; the action joins before `hidden`, else at the input of each vector's block."""
        blocks, hidden = self.options.critic.blocks, self.options.critic.hidden or self.options.hidden
        if hidden is not None:
            return self._body(graph, features, blocks, hidden, extra=(action,))
        own = self._own_blocks(features)
        joined = {name: self._join(graph, name, action) for name in own if len(graph.shapes[name]) == 1}
        if not joined:
            raise RequestError(
                "nothing in [model] reads observation and action together",
                received="no vector with a block of its own, and no hidden block",
                expected="a hidden block after the concatenation",
                owner="maze-perception",
                help='add a table [model.critic.hidden] with use = "dense"',
            )
        return self._body(graph, features, blocks, None, inputs=joined)

    def _join(self, graph: GraphBuilder, name: str, action: str) -> str:
        return add_concatenation(graph, [name, action], f"{name}_and_action")

    def _body(
        self,
        graph: GraphBuilder,
        features: tuple[str, ...],
        changed: Mapping[str, Selection],
        hidden: Selection | None,
        *,
        inputs: Mapping[str, str] | None = None,
        extra: tuple[str, ...] = (),
    ) -> str:
        """Blocks, concatenation with `extra`, hidden, recurrence.

        Args:
            changed: blocks in the place of those of that name.
            inputs: observation to what its block reads instead.
        """
        builder = partial(chosen_block, self.catalog)
        latents: list[str] = []
        for part in self._parts(features):
            blocks = {**part.options.blocks, **changed}
            latents += add_wired(graph, part.names, part.suffix, blocks, part.options.inputs, builder)
        for feature, (name, block, selection) in self._own_blocks(features).items():
            build, source = builder(changed.get(block, selection)), (inputs or {}).get(feature, feature)
            latents.append(graph.add(name, build, (source,), f"model/{name}"))
        if not latents:
            raise RequestError("[model.modalities] ignores every observation", help="leave one to learn from")
        latents += extra
        latent = latents[0]
        if len(latents) > 1:
            latent = add_concatenation(graph, _joinable(graph, latents))
        for name, layer in (("hidden", hidden), ("recurrence", self.options.recurrence)):
            if layer is not None:
                latent = graph.add(name, builder(layer), (latent,), f"model/{name}")
        return latent


def _joinable(graph: GraphBuilder, keys: list[str]) -> list[str]:
    """Vectors as they are; beside sequences (T, D) those are joined step by step, and vectors repeated at every step.

    Raises:
        BlockError: something else, or sequences of different lengths.
    """
    sequences = [key for key in keys if len(graph.shapes[key]) == 2]
    if not sequences:
        return [graph.require_vector(key) for key in keys]
    for key in sequences:
        graph.require_steps(key, sequences[0])
    options = RepeatToMatchOptions()

    def repeated(key: str) -> str:
        name = f"{key.removeprefix('model/')}_repeated"
        inputs = (graph.require_vector(key), sequences[0])
        return graph.add(name, partial(RepeatToMatch, options=options), inputs, f"model/{name}")

    return [key if key in sequences else repeated(key) for key in keys]


def add_concatenation(graph: GraphBuilder, keys: list[str], name: str = "concatenation") -> str:
    """Vectors, one behind the other."""
    options = ConcatenationOptions()
    return graph.add(name, partial(Concatenation, options=options), keys, f"model/{name}")


def block_of(name: str, options: ConcatOptions) -> str:
    """The block of an observation: from `modalities`, else of its own name, else the only one outside `inputs`.

    Raises:
        RequestError: none of these.
    """
    if name in options.modalities:
        return options.modalities[name]
    blocks = [block for block in options.blocks if block not in options.inputs]
    if name in blocks:
        return name
    if len(blocks) == 1:
        return blocks[0]
    raise RequestError(
        f"observation {name!r} has no block",
        received=f"blocks {', '.join(repr(block) for block in options.blocks)}",
        expected="a block of the observation's name, or an entry in [model.modalities]",
        owner="maze-perception",
        help=f'add {name} = "{next(iter(options.blocks))}" (or "{IGNORE}") to [model.modalities]',
    )


def _check_names(context: ModelContext, options: ConcatOptions) -> None:
    for key in options.policies:
        if key not in context.spaces.policy_keys:
            raise unknown_name(f"[model.policies] names the policy key {key!r}", set(context.spaces.policy_keys))
    spaces_ = context.spaces.observation
    _check_modalities("model", {name for space in spaces_.values() for name in space.spaces}, options)
    for key in context.spaces.policy_keys:
        own = options_of(options, key)
        if key in options.policies:
            _check_modalities(f"model.policies.{key}", set(spaces_[key].spaces), own, options.policies[key].modalities)
        if not own.blocks:
            raise RequestError(
                "[model.blocks] is empty"
                + (f" and policy key {key!r} has none of its own" if len(spaces_) > 1 else ""),
                expected="at least one block",
                owner="maze-perception",
                help='add a table [model.blocks.feature] with use = "dense"',
            )
        check_wiring(own.inputs, own.blocks, {name for space in spaces_.values() for name in space.spaces})
        _refuse_masks(own, context.spaces)


def _check_critic(spaces_: StructuredSpaces, template: _ConcatTemplate) -> None:
    """Refuse names of blocks in `[model.critic]` that no policy key has."""
    known = {block for key in spaces_.policy_keys for block in template.of(key).options.blocks}
    own = [(template.of(key), find_inputs(spaces_.observation[key], space)[1]) for key, space in spaces_.action.items()]
    for place, names, more in (
        ("[model.critic] share_embedding", template.shared_names, FIXED_BLOCKS),
        ("[model.critic.blocks]", template.options.critic.blocks, ()),
    ):
        for name in names:
            if name not in {*known, *more}:
                raise unknown_name(f"{place} names the block {name!r}", {*known, *more})
            if not any(one.blocks_called(name, features) for one, features in own):
                raise RequestError(
                    f"{place} names the block {name!r}, to which no observation goes", owner="maze-perception"
                )


def _refuse_masks(options: ConcatOptions, spaces_: StructuredSpaces) -> None:
    """Refuse `[model.inputs]` that name the mask of an action head, which goes to the logits alone."""
    inputs = [find_inputs(spaces_.observation[key], action) for key, action in spaces_.action.items()]
    read = {name for _, features, _ in inputs for name in features}
    for head, mask in ((head, mask) for masks, _, _ in inputs for head, mask in masks.items()):
        if mask in wired_observations(options.inputs) - read:
            raise RequestError(
                f"[model.inputs] names {mask!r}, the mask of the action head {head!r}, which networks do not read",
                expected=f"some of {', '.join(sorted(read))}",
                owner="maze-perception",
                help="take it out; a copy of it under another name can be read",
            )


def _check_modalities(
    table: str, observations: set[str], options: ConcatOptions, modalities: Mapping[str, str] | None = None
) -> None:
    for name, block in (options.modalities if modalities is None else modalities).items():
        if name not in observations:
            raise unknown_name(f"[{table}.modalities] names the observation {name!r}", observations)
        known = {*options.blocks, *(block for own in options.policies.values() for block in own.blocks), IGNORE}
        if block not in known:
            raise unknown_name(f"[{table}.modalities] names the block {block!r}", known)


def _not_its_own(place: str) -> RequestError:
    return RequestError(
        f"{place} would never be used: the critic shares that block with the policy",
        owner="maze-perception",
        help="take it out, or let share_embedding name a block before it",
    )
