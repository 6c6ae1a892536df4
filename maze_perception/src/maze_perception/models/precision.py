"""The number format in which networks compute convolutions and matrix products."""

from __future__ import annotations

import torch

from maze_perception.inference import InferenceBlock
from maze_perception.options import Precision
from maze_runtime.models.actor_critic import StructuredActorCritic


def with_precision(model: StructuredActorCritic, precision: Precision) -> StructuredActorCritic:
    """The same model, all networks of which compute in this precision, with a note where it is not float32."""
    if precision == "float32":
        return model
    for network in model.modules():
        if isinstance(network, InferenceBlock):
            network.precision = torch.bfloat16
    slow = "" if processor_has_bfloat16() else ", for which this processor has no instructions: slow but on a GPU"
    model.notes = (*model.notes, f"convolutions and matrix products are of {precision}{slow}")
    return model


def processor_has_bfloat16() -> bool:
    """False where it is an x86 without such instructions; true where nobody knows."""
    found = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return found.get("architecture") != "x86_64" or bool(found.get("avx512_bf16") or found.get("amx_bf16"))
