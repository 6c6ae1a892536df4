"""Every block that is installed keeps every promise of blocks; one that is missing here fails the first test."""

import pytest
import torch

from maze_kernel.config.load import select
from maze_kernel.loader import Kernel
from maze_perception.block import BlockError, PerceptionBlock
from maze_perception.inference import InferenceBlock
from maze_runtime.models.captured_calls import CapturedCalls
from maze_runtime.training.gradient_step import GradientStep
from maze_runtime.training.recorded_gradient import N_COMPARED, N_PLAIN
from maze_testing.blocks import check_block, check_compiled_block, check_exported_block

KERNEL = Kernel.installed()
SMALL_CONVOLUTION = {"hidden_channels": [4], "hidden_kernels": [3], "hidden_strides": [2]}
SMALL_VGG = {"hidden_channels": [3, 4]}
GRAPH = [(5, 3), (5, 5)]
CASES = {
    "action-masking": ({}, [(4,), (4,)]),
    "concatenation": ({}, [(2,), (3,)]),
    "correlation": ({}, [(4,), (3, 4)]),
    "dense": ({"hidden_units": [5, 3]}, [(4,)]),
    "flatten": ({}, [(2, 3)]),
    "flatten-dense": ({"hidden_units": [5]}, [(2, 3)]),
    "functional": ({"function": "torch:tanh"}, [(4,)]),
    "global-average-pooling": ({}, [(3, 4, 4)]),
    "graph-attention": ({"hidden_features": [4, 2], "num_heads": 3}, GRAPH),
    "graph-convolution": ({"hidden_features": [4, 2]}, GRAPH),
    "gru": ({"hidden_size": 3}, [(4, 2)]),
    "gru-last-step": ({"hidden_size": 3, "bidirectional": True}, [(4, 2)]),
    "linear-output": ({"output_units": 2}, [(4,)]),
    "lstm": ({"hidden_size": 3, "num_layers": 2}, [(4, 2)]),
    "lstm-last-step": ({"hidden_size": 3}, [(4, 2)]),
    "masked-global-pooling": ({"pooling": "max"}, [(5, 3), (5,)]),
    "message-passing": ({"hidden_units": [4]}, [(5, 3), (7, 2), (7, 2)]),
    "multi-head-attention": ({"num_heads": 2, "masked": True}, [(2, 4), (5, 4), (5,)]),
    "multi-index-slicing": ({"indices": [2, 0]}, [(4,)]),
    "nature-cnn": ({"hidden_units": [6]}, [(2, 36, 40)]),
    "one-hot": ({"n_classes": 3}, [(2,)]),
    "point-net": ({"hidden_units": [3, 5], "input_transform": True}, [(7, 2), (7,)]),
    "repeat-to-match": ({}, [(3,), (5, 2)]),
    "self-attention-conv": ({}, [(4, 3, 5)]),
    "self-attention-seq": ({"num_heads": 2}, [(5, 4), (5,)]),
    "slice": ({"index": 1}, [(3, 2)]),
    "strided-convolution": (SMALL_CONVOLUTION, [(2, 9, 7)]),
    "strided-convolution-dense": ({**SMALL_CONVOLUTION, "hidden_units": [6]}, [(2, 9, 7)]),
    "torch-model": ({"module": "torch.nn:Linear", "kwargs": {"in_features": 4, "out_features": 2}}, [(4,)]),
    "vgg-convolution": (SMALL_VGG, [(2, 8, 8)]),
    "vgg-convolution-dense": ({**SMALL_VGG, "hidden_units": [6]}, [(2, 8, 8)]),
    "vgg-convolution-gap": (SMALL_VGG, [(2, 8, 8)]),
}


def test_every_block_is_in_the_list():
    own = [entry.component.name for entry in KERNEL.catalog.entries("block") if "maze" in entry.plugin.distribution]
    assert set(own) == set(CASES)


def builder(name):
    """Builds the block again and again, from `in0`, `in1`, … to `out`."""
    options, in_shapes = CASES[name]
    selection = select(KERNEL, "block", {"use": name, **options})
    in_keys = [f"in{index}" for index in range(len(in_shapes))]
    return lambda: KERNEL.catalog.build(selection, in_keys, ["out"], in_shapes)


@pytest.mark.parametrize("name", CASES)
def test_it_conforms(name):
    """Leading dimensions, rows that do not see each other, gradients, state_dict, its form in NumPy."""
    check_block(builder(name))


class Source(PerceptionBlock):
    """Gives its input."""

    def forward(self, inputs):
        return {self.out_keys[0]: inputs[self.in_keys[0]]}


@pytest.mark.parametrize("name", CASES)
def test_a_misfit_names_block_received_expected_and_source(name):
    (first, *others), keys = CASES[name][1], [f"in{index}" for index in range(len(CASES[name][1]))]
    wrong = (*first[:-1], first[-1] + 1)
    blocks = {"source": Source(["raw"], ["in0"], [wrong]), "probe": builder(name)()}
    shapes = {"raw": wrong, **dict(zip(keys[1:], others, strict=True))}
    with pytest.raises(BlockError) as caught:
        InferenceBlock(blocks, shapes, ["out"])
    text = caught.value.render()
    assert all(part in text for part in ("block 'probe'", "'in0'", f"{wrong} from block 'source'", f"{first}"))


@pytest.mark.parametrize("name", CASES)
def test_a_missing_tensor_is_named_while_running(name):
    shapes = dict(zip((f"in{index}" for index in range(9)), CASES[name][1], strict=False))
    graph = InferenceBlock({"probe": builder(name)()}, shapes, ["out"])
    inputs = {key: torch.zeros(2, *shape) for key, shape in shapes.items()}
    del inputs["in0"]
    with pytest.raises(BlockError) as caught:
        graph(inputs)
    assert "block 'probe' reads 'in0'" in caught.value.render()


RECORDED = [
    *("action-masking", "concatenation", "correlation", "dense", "flatten", "flatten-dense", "global-average-pooling"),
    *("graph-attention", "graph-convolution"),
    *("linear-output", "masked-global-pooling", "message-passing", "multi-index-slicing", "one-hot", "point-net"),
    *("repeat-to-match", "slice"),
]
"""Blocks that say that they run the same operations at every call."""

CAPTURED = [
    *("gru", "gru-last-step", "lstm", "lstm-last-step", "multi-head-attention", "nature-cnn", "self-attention-conv"),
    *("self-attention-seq", "strided-convolution", "strided-convolution-dense", "vgg-convolution"),
    *("vgg-convolution-dense", "vgg-convolution-gap"),
]
"""Others that say so, of whose operations some are not recorded on the CPU."""


class Steps:
    """Gradient steps on a block behind a layer, whose gradient goes through the block and which every step moves."""

    def __init__(self, name, *, recorded, device="cpu"):
        torch.manual_seed(0)
        width = CASES[name][1][0][-1]
        self._device, self._shapes = device, CASES[name][1]
        self._generator = torch.Generator().manual_seed(1)
        model = torch.nn.ModuleList([torch.nn.Linear(width, width), builder(name)()]).to(device)
        self.step = GradientStep(model, self._loss, epsilon=1e-8, max_grad_norm=0.0, compiled=False, recorded=recorded)

    def _loss(self, model, inputs):
        before, block = model
        outputs = block({"in0": before(inputs["in0"]), **{key: inputs[key] for key in inputs if key != "in0"}})
        total = sum(out.square().sum() for out in outputs.values()) + 0.0 * before.weight.sum()
        return total, total.detach()[None]

    def __call__(self):
        inputs = [torch.rand(6, *shape, generator=self._generator) for shape in self._shapes]
        return self.step(0.01, {f"in{i}": each.to(self._device) for i, each in enumerate(inputs)})


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_gradient_is_the_same_bit_for_bit(name):
    plain, recorded = (Steps(name, recorded=recorded) for recorded in (False, True))
    for _ in range(N_PLAIN + N_COMPARED + 5):
        assert torch.equal(plain(), recorded())
    assert torch.equal(plain.step.flat.data, recorded.step.flat.data)
    assert all(form.replay is not None for form in recorded.step._recorded._forms.values())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", [*RECORDED, *CAPTURED])
def test_a_captured_gradient_is_the_same(name, monkeypatch):
    captured, capture = [], CapturedCalls._capture
    monkeypatch.setattr(CapturedCalls, "_capture", lambda self, *more: captured.append(capture(self, *more)) or True)
    plain, graph = (Steps(name, recorded=recorded, device="cuda") for recorded in (False, True))
    for _ in range(15):
        torch.testing.assert_close(plain(), graph(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(plain.step.flat.data, graph.step.flat.data, rtol=1e-4, atol=1e-5)
    assert captured == [True]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_it_compiles(name):
    check_compiled_block(builder(name))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", CASES)
def test_it_compiles_on_a_gpu(name):
    check_compiled_block(builder(name), device="cuda")


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_it_exports(name, tmp_path):
    """ONNX Runtime gives the same outputs, whatever the batch size."""
    check_exported_block(builder(name), tmp_path)
