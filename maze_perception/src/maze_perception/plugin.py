"""What this distribution gives to Maze: perception blocks, model templates and a preset."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import BlockComponent, ModelComponent, PresetComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_blocks() -> Iterable[BlockComponent]:
    """The general blocks."""
    yield BlockComponent(
        name="dense",
        target="maze_perception.blocks.dense:Dense",
        options="maze_perception.options:DenseOptions",
        summary="Fully connected layers over the last dimension.",
    )
    yield BlockComponent(
        name="flatten",
        target="maze_perception.blocks.general:Flatten",
        options="maze_perception.options:FlattenOptions",
        summary="Joins trailing dimensions into one.",
    )
    yield BlockComponent(
        name="flatten-dense",
        target="maze_perception.blocks.dense:FlattenDense",
        options="maze_perception.options:FlattenDenseOptions",
        summary="Flattens, then fully connected layers.",
    )
    yield BlockComponent(
        name="concatenation",
        target="maze_perception.blocks.general:Concatenation",
        options="maze_perception.options:ConcatenationOptions",
        summary="Joins several tensors along one dimension.",
    )
    yield BlockComponent(
        name="linear-output",
        target="maze_perception.blocks.dense:LinearOutput",
        options="maze_perception.options:LinearOutputOptions",
        summary="One linear layer: logits or values.",
    )
    yield BlockComponent(
        name="action-masking",
        target="maze_perception.blocks.general:ActionMasking",
        summary="Gives logits a large negative value where the mask is zero.",
    )
    yield BlockComponent(
        name="global-average-pooling",
        target="maze_perception.blocks.general:GlobalAveragePooling",
        options="maze_perception.options:GlobalAveragePoolingOptions",
        summary="Averages trailing dimensions away.",
    )
    yield BlockComponent(
        name="slice",
        target="maze_perception.blocks.general:Slice",
        options="maze_perception.options:SliceOptions",
        summary="Takes one position of one dimension.",
    )
    yield BlockComponent(
        name="multi-index-slicing",
        target="maze_perception.blocks.combining:MultiIndexSlicing",
        options="maze_perception.options:MultiIndexSlicingOptions",
        summary="Takes several positions of one dimension.",
    )
    yield BlockComponent(
        name="masked-global-pooling",
        target="maze_perception.blocks.pooling:MaskedGlobalPooling",
        options="maze_perception.options:MaskedGlobalPoolingOptions",
        summary="Mean, sum or maximum over the items that a mask lets through.",
    )
    yield BlockComponent(
        name="correlation",
        target="maze_perception.blocks.combining:Correlation",
        options="maze_perception.options:CorrelationOptions",
        summary="Products of two feature tensors, summed over the last dimension.",
    )
    yield BlockComponent(
        name="repeat-to-match",
        target="maze_perception.blocks.combining:RepeatToMatch",
        options="maze_perception.options:RepeatToMatchOptions",
        summary="Repeats one tensor along a dimension to the size of another.",
    )
    yield BlockComponent(
        name="one-hot",
        target="maze_perception.blocks.combining:OneHot",
        options="maze_perception.options:OneHotOptions",
        summary="Class numbers to one-hot vectors.",
    )
    yield BlockComponent(
        name="functional",
        target="maze_perception.blocks.foreign:Functional",
        options="maze_perception.options:FunctionalOptions",
        summary="Any function of tensors, by import path.",
    )
    yield BlockComponent(
        name="torch-model",
        target="maze_perception.blocks.foreign:TorchModel",
        options="maze_perception.options:TorchModelOptions",
        summary="Any torch.nn.Module, by import path.",
    )


@hookimpl
def maze_models() -> Iterable[ModelComponent]:
    """The default model and the template for models stated in an experiment."""
    yield ModelComponent(
        name="auto",
        target="maze_perception.models.auto:make_auto_model",
        options="maze_perception.options:AutoOptions",
        default=True,
        summary="Derives policy and critic networks from the spaces.",
    )
    yield ModelComponent(
        name="concat",
        target="maze_perception.models.concat:make_concat_model",
        options="maze_perception.options:ConcatOptions",
        summary="One block an observation, concatenated, hidden layers, heads.",
    )
    yield ModelComponent(
        name="custom",
        target="maze_perception.models.custom:make_custom_model",
        options="maze_perception.options:CustomOptions",
        summary="Policy, critic, or both are networks of your own; the other is a default network.",
    )


@hookimpl
def maze_presets() -> Iterable[PresetComponent]:
    """Networks that a trainer may want by default (`TrainerComponent.preset`)."""
    yield PresetComponent(
        name="dense-128",
        target="maze_perception.presets:dense_128.toml",
        summary="The networks of `auto` with two layers of 128 units.",
    )
