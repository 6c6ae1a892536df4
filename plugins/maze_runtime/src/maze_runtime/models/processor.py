"""What this processor can do, which decides who multiplies matrices: read once, and the same for every run here."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import torch

_FIRST_FAMILY = 26
"""Zen 5. Zen 4 has the instructions, and takes two cycles for what these take one."""

_CPUINFO = Path("/proc/cpuinfo")


def is_wide_amd(processor: str) -> bool:
    """Whether this is AMD's Zen 5 or newer, as Linux (`/proc/cpuinfo`) or Windows describes it."""
    family = re.search(r"family\s*:?\s*(\d+)", processor, re.IGNORECASE)
    return "AuthenticAMD" in processor and family is not None and int(family[1]) >= _FIRST_FAMILY


def _description() -> str:
    try:
        return _CPUINFO.read_text().split("\n\n", 1)[0]
    except OSError:
        return platform.processor()


_PROCESSOR = _description()

_CAPABILITY = torch.backends.cpu.get_cpu_capability()

HAS_VECTORS = _CAPABILITY in ("AVX2", "AVX512")
"""Whether the processor has vectors of 256 or 512 bits: `maze_runtime.native` is written for these."""


def _uses_onednn() -> bool:
    has_both = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return has_both and _CAPABILITY == "AVX512" and is_wide_amd(_PROCESSOR)


USES_ONEDNN = _uses_onednn()
"""Whether oneDNN takes large products here: by the processor alone, so that a run gives the same numbers again."""
