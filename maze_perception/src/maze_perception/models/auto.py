"""The `auto` model: a documented default stack for every observation, derived from its space.

Graphs, masked sets, images and what the option `sequences` names each pass a stack of their own (`models.modalities`).
Vectors (numbers, bits, one-hots; flattened where they have more dimensions) are concatenated with the features of
graphs, sets and sequences, and pass dense layers; `recurrence` follows. Policy and critic are separate networks, except
that they share one body where there is an image. Twin Q networks share nothing with the policy, and with each other the
stacks of images where they read an action.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import attrs
from gymnasium import spaces

from maze_kernel.catalog import nearest
from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import ModelContext
from maze_kernel.errors import RequestError
from maze_perception.blocks.dense import Dense
from maze_perception.blocks.general import Flatten
from maze_perception.graph import GraphBuilder, chosen_block
from maze_perception.models.assembly import assemble, find_inputs
from maze_perception.models.concat import add_concatenation
from maze_perception.models.modalities import Modality, add_stack, is_image, modalities_of, rows_of, told
from maze_perception.models.precision import with_precision
from maze_perception.options import AutoOptions, DenseOptions, FlattenOptions, Initialisation, NonLinearity
from maze_runtime.models.actor_critic import StructuredActorCritic
from maze_runtime.models.shared_critic import ReadTogether


def make_auto_model(context: ModelContext, options: AutoOptions | None = None) -> StructuredActorCritic:
    """The target of the model `auto`, which a run without `[model]` uses."""
    options = chosen_for(options or AutoOptions(), context.critic)
    check_sequences(context, options.sequences)
    model = assemble(context, AutoTemplate(options, context.catalog), options.distributions)
    model.notes = tuple(_notes(context, options))
    return with_precision(model, options.precision)


def chosen_for(options: AutoOptions, critic: str) -> AutoOptions:
    """The options with activation and initial weights in the place of "auto"; see docs/decisions/0028.

    Args:
        critic: what the trainer asks for, see `ModelContext`.
    """
    non_lin: NonLinearity = "relu" if critic == "state-action" else "tanh"
    init: Initialisation = "torch" if critic == "state-action" else "orthogonal"
    return attrs.evolve(
        options,
        non_lin=non_lin if options.non_lin == "auto" else options.non_lin,
        init=init if options.init == "auto" else options.init,
    )


def check_sequences(context: ModelContext, names: Iterable[str]) -> None:
    """Refuse names of sequences that are no observations of two dimensions.

    Raises:
        RequestError: names the first one.
    """
    known: dict[str, list[spaces.Space[Any]]] = {}
    for observation in context.spaces.observation.values():
        for name, space in observation.spaces.items():
            known.setdefault(name, []).append(space)
    for name in names:
        if any(len(rows_of(space)) == 2 for space in known.get(name, ())):
            continue
        raise RequestError(
            f"the model is to read {name!r} as a sequence, which is no observation of two dimensions",
            received=" or ".join(map(str, known[name])) if name in known else None,
            expected="a Box or MultiBinary (T, D), its steps in the order of time",
            option="sequences",
            owner="maze-perception",
            nearest=() if name in known else nearest(name, known),
            help="take it out of [model] sequences",
        )


def _notes(context: ModelContext, options: AutoOptions) -> Iterator[str]:
    """One line a policy key: what each observation is taken for, and the layers behind it."""
    for key, action in context.spaces.action.items():
        observation = context.spaces.observation[key]
        features = find_inputs(observation, action)[1]
        reader = "the model reads" if len(context.spaces.action) == 1 else f"the model of policy key {key!r} reads"
        if features:
            modalities = modalities_of(observation, features, options.sequences)
            yield f"{reader} {told(observation, modalities)}{_told_layers(options, modalities)}"


def _told_layers(options: AutoOptions, modalities: Iterable[Modality]) -> str:
    """What `AutoTemplate` puts behind the stacks, in words; images have dense layers of their own."""
    units = " and ".join(map(str, options.hidden_units))
    has_dense = any(modality.kind != "image" for modality in modalities)
    dense = f"; dense layers of {units} units, {options.non_lin}" if units else "; no dense layers, heads are linear"
    layers = dense if has_dense else ""
    return layers if options.recurrence is None else f"{layers}; behind them {options.recurrence.use}"


@attrs.frozen
class AutoTemplate:
    """The layers of `auto`.

    Args:
        options: after `chosen_for`.
        readers: of a network that policy keys share: input to the keys that read it.
    """

    options: AutoOptions
    catalog: Any
    readers: Mapping[str, tuple[PolicyKey, ...]] = attrs.field(factory=dict)

    @property
    def init(self) -> str:
        return self.options.init

    @property
    def action_frequencies(self) -> Mapping[str, tuple[float, ...]]:
        return self.options.action_frequencies

    @property
    def critic_kind(self) -> str | None:
        return self.options.critic

    @property
    def separate_agent_nets(self) -> tuple[str, ...]:
        return self.options.separate_agent_nets

    def of(self, policy_key: PolicyKey) -> AutoTemplate:
        return self

    def joined(self, readers: Mapping[str, tuple[PolicyKey, ...]]) -> AutoTemplate:
        return attrs.evolve(self, readers=readers)

    def groups(self, observation: spaces.Dict, features: tuple[str, ...]) -> list[ReadTogether]:
        return [modality.read_together() for modality in self._modalities(observation, features)]

    def shares_body(self, observation: spaces.Dict, features: tuple[str, ...]) -> bool:
        return any(is_image(observation[name]) for name in features)

    def shared_blocks(self, observation: spaces.Dict, features: tuple[str, ...]) -> tuple[str, ...]:
        return ()

    def critic_body(self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...]) -> str:
        return self.policy_body(graph, observation, features)

    def shared_critic_body(
        self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...], who: str
    ) -> str:
        return self._body(graph, observation, features, [who])

    def policy_body(self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...]) -> str:
        return self._body(graph, observation, features, [])

    def _body(self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...], extra: list[str]) -> str:
        images, vectors = self._stacks(graph, observation, features)
        vectors += extra
        latents = [*images, self._dense(graph, vectors)] if vectors else images
        latent = latents[0] if len(latents) == 1 else add_concatenation(graph, latents, "features")
        return self._remember(graph, latent)

    def _remember(self, graph: GraphBuilder, latent: str) -> str:
        selection = self.options.recurrence
        if selection is None:
            return latent
        return graph.add("recurrence", chosen_block(self.catalog, selection), (latent,), "model/recurrence")

    def action_value_body(
        self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...], action: str
    ) -> str:
        """Dense layers over the features of all observations and the action."""
        images, vectors = self._stacks(graph, observation, features)
        return self._remember(graph, self._dense(graph, [*images, *vectors, action]))

    def twins_share(self, observation: spaces.Dict, features: tuple[str, ...]) -> tuple[str, ...]:
        """The stacks of images, which cost more than all that follows."""
        modalities = self._modalities(observation, features)
        return tuple(f"{modality.name}_image" for modality in modalities if modality.kind == "image")

    def _stacks(
        self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...]
    ) -> tuple[list[str], list[str]]:
        """Features of images, and what the dense layers read; each in the order of the observations."""
        images: list[str] = []
        vectors: list[str] = []
        for modality in self._modalities(observation, features):
            if modality.kind == "vector":
                vectors.append(modality.parts["main"])
            else:
                (images if modality.kind == "image" else vectors).append(add_stack(graph, modality, self.catalog))
        return images, vectors

    def _modalities(self, observation: spaces.Dict, features: tuple[str, ...]) -> list[Modality]:
        return modalities_of(observation, features, self.options.sequences, self.readers)

    def _dense(self, graph: GraphBuilder, names: list[str]) -> str:
        flat = [name if len(graph.shapes[name]) == 1 else _flattened(graph, name) for name in names]
        vector = flat[0] if len(flat) == 1 else add_concatenation(graph, flat, "vectors")
        if not self.options.hidden_units:
            return vector
        non_lin = self.options.non_lin
        assert non_lin != "auto"  # as `chosen_for` left it
        options = DenseOptions(hidden_units=self.options.hidden_units, non_lin=non_lin)
        return graph.add("dense", partial(Dense, options=options), (vector,), "model/dense")


def _flattened(graph: GraphBuilder, name: str) -> str:
    options = FlattenOptions()
    return graph.add(f"{name}_flat", partial(Flatten, options=options), (name,), f"model/{name}_flat")
