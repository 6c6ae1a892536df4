"""The `auto` model: a documented default stack for every observation, derived from its space.

Vectors (numbers, bits, one-hots; flattened where they have more dimensions) are concatenated and pass dense layers.
Each image passes strided convolutions and a dense layer. Policy and critic are separate networks, except that they
share one body where there is an image.
"""

from __future__ import annotations

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.models.actor_critic import StructuredActorCritic
from maze_kernel.models.contract import ModelContext
from maze_perception.blocks.dense import Dense
from maze_perception.blocks.general import Flatten
from maze_perception.blocks.image import ImageFeatures
from maze_perception.graph import GraphBuilder
from maze_perception.models.assembly import assemble
from maze_perception.models.concat import add_concatenation
from maze_perception.options import AutoOptions, DenseOptions, FlattenOptions


def make_auto_model(context: ModelContext, options: AutoOptions | None = None) -> StructuredActorCritic:
    """The target of the model `auto`, which a run without `[model]` uses."""
    options = options or AutoOptions()
    return assemble(context, _AutoTemplate(options), options.distributions)


def is_image(space: spaces.Space) -> bool:
    """A Box of three dimensions, or of two with bytes, at least 8 pixels high and wide."""
    if not isinstance(space, spaces.Box):
        return False
    if len(space.shape) == 2:
        return bool(space.dtype == np.uint8) and min(space.shape) >= 8
    return len(space.shape) == 3 and sorted(space.shape)[1] >= 8


@attrs.frozen
class _AutoTemplate:
    options: AutoOptions

    @property
    def init(self) -> str:
        return self.options.init

    def shares_body(self, observation: spaces.Dict, features: tuple[str, ...]) -> bool:
        return any(is_image(observation[name]) for name in features)

    def critic_body(self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...]) -> str:
        return self.policy_body(graph, observation, features)

    def policy_body(self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...]) -> str:
        images = [name for name in features if is_image(observation[name])]
        vectors = [name for name in features if name not in images]
        latents = [graph.add(f"{name}_image", ImageFeatures, (name,), f"model/{name}_image") for name in images]
        if vectors:
            latents.append(self._dense(graph, vectors))
        return latents[0] if len(latents) == 1 else add_concatenation(graph, latents, "features")

    def action_value_body(
        self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...], action: str
    ) -> str:
        """Dense layers over the features of images, the vectors and the action."""
        inputs = [
            graph.add(f"{name}_image", ImageFeatures, (name,), f"model/{name}_image")
            if is_image(observation[name])
            else name
            for name in features
        ]
        return self._dense(graph, [*inputs, action])

    def _dense(self, graph: GraphBuilder, names: list[str]) -> str:
        options = DenseOptions(hidden_units=self.options.hidden_units, non_lin=self.options.non_lin)
        flat = [name if len(graph.shapes[name]) == 1 else _flattened(graph, name) for name in names]
        vector = flat[0] if len(flat) == 1 else add_concatenation(graph, flat, "vectors")
        return graph.add("dense", lambda *arguments: Dense(*arguments, options), (vector,), "model/dense")


def _flattened(graph: GraphBuilder, name: str) -> str:
    options = FlattenOptions()
    return graph.add(f"{name}_flat", lambda *arguments: Flatten(*arguments, options), (name,), f"model/{name}_flat")
