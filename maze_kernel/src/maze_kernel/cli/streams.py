"""Output streams whose reader has gone."""

from __future__ import annotations

import os
from typing import Any


def discard(stream: Any) -> None:
    """Send what is still buffered nowhere, so that the interpreter does not fail on it at its end."""
    try:
        target = stream.fileno()
    except (AttributeError, OSError, ValueError):
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, target)
    os.close(null)
