"""The `concat` template: one block a mapped observation -> concatenation -> hidden -> recurrence -> heads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain, count
from typing import Any

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
from maze_perception.models.precision import with_precision
from maze_perception.models.wiring import (
    add_wired,
    check_wiring,
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
    model = assemble(context, _ConcatTemplate(options, context.catalog), options.distributions)
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
class _ConcatTemplate:
    options: ConcatOptions
    catalog: Any

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
        """The blocks of all policy keys; where several name one differently, the first one's."""
        joined = self.options
        for key in reversed(self.options.policies):
            joined = options_of(joined, key)
        return _ConcatTemplate(joined, self.catalog)

    def groups(self, observation: spaces.Dict, features: tuple[str, ...]) -> list[ReadTogether]:
        wired = wired_groups(self.options.inputs, features)
        grouped = {name for group in wired for name in group.observations}
        return [*wired, *(ReadTogether((name,)) for name in features if name not in grouped)]

    def twins_share(self, observation: spaces.Dict, features: tuple[str, ...]) -> tuple[str, ...]:
        return ()

    def shares_body(self, observation: spaces.Dict, features: tuple[str, ...]) -> bool:
        return self.options.critic.share_embedding is True

    def shared_blocks(self, observation: spaces.Dict, features: tuple[str, ...]) -> tuple[str, ...]:
        """The blocks that `share_embedding` names.

        Raises:
            RequestError: one of them is none.
        """
        named = self.options.critic.share_embedding
        names = () if isinstance(named, bool) else (named,) if isinstance(named, str) else named
        return tuple(block for name in names for block in self._blocks_called(name, features))

    def _blocks_called(self, name: str, features: tuple[str, ...]) -> list[str]:
        """What the graph calls a block of `[model.blocks]`, of which every observation has its own, or another one."""
        if name in FIXED_BLOCKS:
            return [name]
        if name in self.options.inputs:
            return [name]
        blocks = block_names(features, self.options)
        found = [block for one, block in blocks.items() if block_of(one, self.options) == name]
        if not found:
            raise unknown_name(
                f"[model.critic] share_embedding names the block {name!r}", {*self.options.blocks, *FIXED_BLOCKS}
            )
        return found

    def policy_body(self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...]) -> str:
        return self._body(graph, features, self.options.blocks, self.options.hidden)

    def critic_body(self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...]) -> str:
        return self._critic_body(graph, features, ())

    def shared_critic_body(
        self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...], who: str
    ) -> str:
        return self._critic_body(graph, features, (who,))

    def _critic_body(self, graph: GraphBuilder, features: tuple[str, ...], extra: tuple[str, ...]) -> str:
        critic = self.options.critic
        own = [("hidden", "hidden")] if critic.hidden is not None else []
        own += [(f"blocks.{name}", block) for name in critic.blocks for block in self._blocks_called(name, features)]
        for place, block in own if graph.given else ():
            if block in graph.given:
                raise _not_its_own(f"[model.critic] {place}")
        blocks, hidden = {**self.options.blocks, **critic.blocks}, critic.hidden or self.options.hidden
        return self._body(graph, features, blocks, hidden, extra=extra)

    def action_value_body(
        self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...], action: str
    ) -> str:
        """The critic's blocks; the action joins before `hidden`, else at the input of each vector's block."""
        critic = self.options.critic
        blocks, hidden = {**self.options.blocks, **critic.blocks}, critic.hidden or self.options.hidden
        if hidden is not None:
            return self._body(graph, features, blocks, hidden, extra=(action,))
        used = block_names(features, self.options)
        joined = {name: self._join(graph, name, action) for name in used if len(graph.shapes[name]) == 1}
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
        blocks: Mapping[str, Selection],
        hidden: Selection | None,
        *,
        inputs: Mapping[str, str] | None = None,
        extra: tuple[str, ...] = (),
    ) -> str:
        """Blocks, concatenation with `extra`, hidden, recurrence; `inputs` names what a block reads instead."""
        builder = partial(chosen_block, self.catalog)
        latents = add_wired(graph, features, blocks, self.options.inputs, builder)
        for name, block in block_names(features, self.options).items():
            build, source = builder(blocks[block_of(name, self.options)]), (inputs or {}).get(name, name)
            latents.append(graph.add(block, build, (source,), f"model/{block}"))
        if not latents:
            raise RequestError("[model.modalities] ignores every observation", help="leave one to learn from")
        latents += extra
        latent = latents[0]
        if len(latents) > 1:
            latent = add_concatenation(graph, _joinable(graph, latents))
        for name, selection in (("hidden", hidden), ("recurrence", self.options.recurrence)):
            if selection is not None:
                latent = graph.add(name, builder(selection), (latent,), f"model/{name}")
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


def unwired(features: Iterable[str], options: ConcatOptions) -> list[str]:
    """Observations with a block of their own: not among `inputs`, or named in `modalities` besides."""
    wired = wired_observations(options.inputs) - set(options.modalities)
    return [name for name in features if name.partition("@")[0] not in wired]


def block_names(features: Iterable[str], options: ConcatOptions) -> dict[str, str]:
    """What the graph calls the block of each observation that has one of its own: `observation_block`, with a number
    behind it where another block has that name.
    """
    suffixes = {"".join(name.partition("@")[1:]) for name in features}
    taken = {block + suffix for block in options.inputs for suffix in suffixes}
    names: dict[str, str] = {}
    for feature in unwired(features, options):
        block = block_of(feature, options)
        if block != IGNORE:
            name = f"{feature}_{block}"
            numbered = (f"{name}_{number}" for number in count(2))
            names[feature] = next(free for free in chain([name], numbered) if free not in taken)
            taken.add(names[feature])
    return names


def block_of(name: str, options: ConcatOptions) -> str:
    """The block of an observation: from `modalities`, else of its own name, else the only one outside `inputs`.

    Raises:
        RequestError: none of these.
    """
    if name not in {*options.modalities, *options.blocks}:
        name = name.partition("@")[0]
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
    blocks = {block for key in context.spaces.policy_keys for block in options_of(options, key).blocks}
    for block in options.critic.blocks:
        if block not in blocks:
            raise unknown_name(f"[model.critic.blocks] names the block {block!r}", blocks)


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
