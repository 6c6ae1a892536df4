"""Updates of flat parameters, compiled by torch's compiler with passes and files of C++ of ours."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache, partial
from types import FunctionType
from typing import Any

import torch
from torch import fx

from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.processor import HAS_VECTORS, USES_ONEDNN
from maze_runtime.training.direct_calls import Code, DirectCalls

_NUMBERS = itertools.count()


def compile_update(update: Callable[..., Any], flat: FlatParameters) -> Callable[..., Any]:
    """Compile an update of `flat` whose closure is private to its caller and never changes.

    Only tensors are checked at each call: the other guards cost a fifth of a small network's step. They are also what
    tells two closures of one function apart in the compiler's cache, so each call here compiles a code object of its
    own. It has a new name, too: by name, file and line the compiler remembers which sizes a function met, and after
    another closure with others it would leave sizes open. Releases without the filter compile with all guards. On the
    CPU the code between the kernels is compiled too.

    The compiler is loaded by the first call, so that `BoundedCompilation` finds out what it lacks.
    """
    compiled = cache(partial(_compiled, update, flat))

    def run(*inputs: Any) -> Any:
        return compiled()(*inputs)

    return run


def _compiled(update: Callable[..., Any], flat: FlatParameters) -> Callable[..., Any]:
    guard_filter = getattr(torch.compiler, "keep_tensor_guards_unsafe", None)
    guards = {} if guard_filter is None else {"guard_filter_fn": guard_filter}
    code = update.__code__.replace(co_name=f"{update.__code__.co_name}_{next(_NUMBERS)}")
    own = FunctionType(code, update.__globals__, update.__name__, update.__defaults__, update.__closure__)
    if flat.data.device.type != "cpu":  # there all of an update is captured as a graph
        return torch.compile(own, fullgraph=True, options=guards)
    options = _options_on_cpu(flat)

    def inductor(graph: fx.GraphModule, examples: list[Any]) -> Code:
        make: Any = torch._dynamo.lookup_backend("inductor")
        code: Code = make(graph, examples, config_patches=options)
        return code

    return DirectCalls(lambda backend: torch.compile(own, fullgraph=True, backend=backend, options=guards), inductor)


def _options_on_cpu(flat: FlatParameters) -> dict[str, Any]:
    import torch._inductor.config as config  # loads the compiler, as what follows does

    # The inputs were compared with those that the code is made for; comparing again takes a tenth of a small step
    options: dict[str, Any] = {name: False for name in ("size_asserts", "alignment_asserts") if hasattr(config, name)}
    options["cpp_wrapper"] = True
    if hasattr(config.cpp, "enable_floating_point_contract_flag"):
        options["cpp.enable_floating_point_contract_flag"] = "fast"  # a product and a sum are one instruction
    if HAS_VECTORS:
        options |= _native_options(has_filters=any(parameter.dim() == 4 for parameter in flat.parameters))
    return options


def _native_options(*, has_filters: bool) -> dict[str, Any]:
    # Here, because this loads the compiler, which takes seconds
    from maze_runtime.native.by_name import shims_option
    from maze_runtime.native.convolutions import native_convolutions_shims
    from maze_runtime.native.products import native_products_shims
    from maze_runtime.training.compiled_convolutions import NativeConvolutions
    from maze_runtime.training.compiled_products import WideProducts
    from maze_runtime.training.graph_nodes import InTurn

    of_products = native_products_shims()
    of_convolutions = native_convolutions_shims() if has_filters else {}
    products = WideProducts(native=bool(of_products), onednn=USES_ONEDNN)
    passes = InTurn([products, NativeConvolutions()] if of_convolutions else [products])
    # What built the products knows these vectors. Torch would load libraries in processes of their own to find that
    # out, for a second of every run or two. What only newer compilers know, such as tiles, it tries by itself.
    known = {"cpp.vec_isa_ok": True} if of_products else {}
    return {**shims_option(of_products | of_convolutions), **known, "post_grad_custom_pre_pass": passes}
