"""Large products by oneDNN: the numbers of plain ones, where they are taken, and in recordings and compiled code."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad_and_value
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from maze_runtime.models import wide_products
from maze_runtime.models.processor import is_wide_amd
from maze_runtime.models.same_operations import same_operations
from maze_runtime.models.wide_products import FEWEST, linear, wide_linear
from maze_runtime.training import recorded_gradient
from maze_runtime.training.gradient_step import GradientStep

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")

SIZES = [(256, 256, 256), (2048, 64, 64), (512, 20, 256), (8192, 256, 1)]


@pytest.fixture
def on_such_a_processor(monkeypatch):
    monkeypatch.setattr(wide_products, "USES_ONEDNN", True)


def tensors(n_rows, n_inputs, n_units):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in ((n_rows, n_inputs), (n_units, n_inputs), (n_units,))]


class Counted(TorchDispatchMode):
    """Counts the products that go to oneDNN."""

    n = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.n += function is wide_linear
        return function(*args, **(kwargs or {}))


def products_of(function):
    with Counted() as counted:
        function()
    return counted.n


def gradients(function, inputs, needed):
    leaves = [own.clone().requires_grad_(is_needed) for own, is_needed in zip(inputs, needed, strict=True)]
    function(*leaves).tanh().sum().backward()
    return [leaf.grad for leaf in leaves]


def exact(x, weight, bias):
    return x.double() @ weight.double().T + bias.double()


@pytest.mark.usefixtures("on_such_a_processor")
@pytest.mark.parametrize("sizes", SIZES)
def test_values_are_those_of_double_precision(sizes):
    x, weight, bias = tensors(*sizes)
    assert torch.allclose(linear(x, weight, bias).double(), exact(x, weight, bias), rtol=1e-5, atol=1e-4)
    assert torch.allclose(linear(x, weight, None).double(), exact(x, weight, 0 * bias), rtol=1e-5, atol=1e-4)


@pytest.mark.usefixtures("on_such_a_processor")
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(
    "needed", [(True, True, True), (False, True, True), (True, False, False), (False, True, False)]
)
def test_gradients_are_those_of_double_precision(sizes, needed):
    inputs = tensors(*sizes)
    of_ours, of_exact = gradients(linear, inputs, needed), gradients(exact, inputs, needed)
    assert [one is not None for one in of_ours] == list(needed)
    for ours, theirs in zip(of_ours, of_exact, strict=True):
        assert theirs is None or torch.allclose(ours, theirs.float(), rtol=1e-4, atol=2e-3)


def second_derivative(function, x, weight, bias):
    leaves = [own.clone().requires_grad_() for own in (x, weight, bias)]
    (of_x,) = torch.autograd.grad(function(*leaves).tanh().sum(), leaves[0], create_graph=True)
    return torch.autograd.grad(of_x.square().sum(), leaves)


@pytest.mark.usefixtures("on_such_a_processor")
@pytest.mark.parametrize("sizes", [(256, 256, 256), (512, 20, 256)])
def test_second_derivatives_are_those_of_double_precision(sizes):
    inputs = [0.1 * own for own in tensors(*sizes)]
    in_double = second_derivative(exact, *(own.double() for own in inputs))
    for ours, theirs in zip(second_derivative(linear, *inputs), in_double, strict=True):
        assert theirs.abs().max() > 0
        assert torch.allclose(ours.double(), theirs, rtol=1e-3, atol=1e-4 * float(theirs.abs().max()))


def layouts(n_rows, n_columns):
    wide = torch.randn(2 * n_rows, 2 * n_columns, generator=torch.Generator().manual_seed(1))
    return [
        wide[:n_rows, :n_columns],
        wide[::2, ::2],
        wide[::2, 1::2].t().contiguous().t(),
        wide[:1, ::2].expand(n_rows, -1),
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("on_such_a_processor")
def test_tensors_may_lie_in_any_way():
    bias = torch.randn(512, generator=torch.Generator().manual_seed(2))
    for own_bias in (bias[:256], bias[::2], bias[:1].expand(256), bias[1:257]):
        for x in layouts(256, 64):  # 256 × 64 × 256: above the limit
            for weight in layouts(256, 64):
                close = torch.allclose(linear(x, weight, own_bias).double(), exact(x, weight, own_bias), atol=1e-3)
                assert close, (x.stride(), weight.stride(), own_bias.stride())


@pytest.mark.usefixtures("on_such_a_processor")
def test_gradients_may_be_one_number_for_all():
    leaves = [own.clone().requires_grad_() for own in tensors(512, 20, 256)]
    linear(*leaves).sum().backward()
    expected = [own.clone().requires_grad_() for own in tensors(512, 20, 256)]
    exact(*expected).sum().backward()
    for ours, theirs in zip(leaves, expected, strict=True):
        assert torch.allclose(ours.grad, theirs.grad, rtol=1e-4, atol=1e-3)


@pytest.mark.usefixtures("on_such_a_processor")
def test_large_products_go_to_onednn_forward_and_backward():
    inputs = tensors(256, 256, 256)
    assert products_of(lambda: linear(*inputs)) == 1
    assert products_of(lambda: gradients(linear, inputs, (True, True, True))) == 3
    assert products_of(lambda: gradients(linear, inputs, (False, True, True))) == 2


@pytest.mark.usefixtures("on_such_a_processor")
def test_what_onednn_is_no_help_for_stays_with_torch():
    x, weight, bias = tensors(256, 256, 256)
    assert products_of(lambda: linear(*tensors(FEWEST // 64 // 64 - 1, 64, 64))) == 0
    assert products_of(lambda: linear(x[None], weight, bias)) == 0
    assert products_of(lambda: linear(x.double(), weight.double(), bias.double())) == 0
    assert products_of(lambda: torch.vmap(linear, (0, None, None))(x[None], weight, bias)) == 0
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert products_of(lambda: linear(x, weight, bias)) == 0
        assert linear(x, weight, bias).dtype == torch.bfloat16


@pytest.mark.usefixtures("on_such_a_processor")
def test_shapes_that_do_not_fit_are_named_by_torch():
    x, weight, bias = tensors(256, 256, 256)
    with pytest.raises(RuntimeError, match="256x300"):
        linear(torch.cat([x, x[:, :44]], 1), weight, bias)


def test_other_processors_leave_everything_to_torch(monkeypatch):
    monkeypatch.setattr(wide_products, "USES_ONEDNN", False)
    inputs = tensors(256, 256, 256)
    assert products_of(lambda: gradients(linear, inputs, (True, True, True))) == 0


@pytest.mark.parametrize(
    ("description", "wide"),
    [
        ("processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2", True),
        ("vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17", False),
        ("vendor_id\t: GenuineIntel\ncpu family\t: 6", False),
        ("vendor_id\t: GenuineIntel\ncpu family\t: 27", False),
        ("AMD64 Family 26 Model 68 Stepping 0, AuthenticAMD", True),
        ("AMD64 Family 23 Model 113 Stepping 0, AuthenticAMD", False),
        ("Intel64 Family 6 Model 183 Stepping 1, GenuineIntel", False),
        ("arm", False),
        ("", False),
    ],
)
def test_processors_are_told_apart(description, wide):
    assert is_wide_amd(description) is wide


@same_operations
class Wide(nn.Linear):
    """A layer by `linear`."""

    def forward(self, x):
        return linear(x, self.weight, self.bias)


def network():
    torch.manual_seed(0)
    return nn.Sequential(Wide(256, 256), nn.ReLU(), Wide(256, 1))


def loss(model, batch):
    error = (model(batch).squeeze(-1) - batch[:, 0]).square().mean()
    return error, error.detach().reshape(1)


def batch(seed):
    return torch.randn(256, 256, generator=torch.Generator().manual_seed(seed))


@pytest.mark.slow
@pytest.mark.usefixtures("on_such_a_processor")
def test_recordings_keep_them_bit_for_bit():
    options = {"epsilon": 1e-8, "max_grad_norm": 0.0, "compiled": False}
    plain, recorded = (GradientStep(network(), loss, **options, recorded=one) for one in (False, True))
    for seed in range(recorded_gradient.N_PLAIN + recorded_gradient.N_COMPARED + 5):
        assert torch.equal(plain(0.01, batch(seed)), recorded(0.01, batch(seed)))
    assert torch.equal(plain.flat.data, recorded.flat.data)
    (form,) = recorded._recorded._forms.values()
    assert form.replay is not None
    assert products_of(lambda: recorded(0.01, batch(0))) == 2


def update(weights, x):
    model = network()
    named = dict(zip([name for name, _ in model.named_parameters()], weights, strict=True))
    return grad_and_value(lambda own: functional_call(model, own, (x,)).square().mean())(named)


def test_compiled_graphs_get_them_in_the_place_of_large_products():
    from maze_runtime.training.compiled_products import WideProducts  # loads the compiler, which takes seconds

    weights = [parameter.detach() for parameter in network().parameters()]
    traced = make_fx(update, tracing_mode="fake")(weights, batch(0))
    before = traced(weights, batch(0))
    WideProducts(native=False, onednn=True)(traced.graph)
    traced.recompile()
    after = traced(weights, batch(0))
    assert products_of(lambda: traced(weights, batch(0))) == 2
    for name, gradient in before[0].items():
        assert torch.allclose(gradient, after[0][name], rtol=1e-4, atol=1e-5)
    assert torch.allclose(before[1], after[1])


@pytest.mark.slow
def test_compiled_updates_take_the_steps_of_eager_ones(monkeypatch):
    for name in ("USES_ONEDNN", "HAS_VECTORS"):
        monkeypatch.setattr(f"maze_runtime.training.compiled_update.{name}", True)
    options = {"epsilon": 1e-8, "max_grad_norm": 0.0}
    eager, compiled = (GradientStep(network(), loss, **options, compiled=one) for one in (False, True))
    for seed in range(3):
        assert torch.allclose(eager(0.001, batch(seed)), compiled(0.001, batch(seed)), rtol=1e-4)
    assert torch.allclose(eager.flat.data, compiled.flat.data, atol=1e-5)
