"""Pictures as PNG bytes with the standard library alone."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from maze_kernel.errors import EnvError


def encode_png(picture: np.ndarray) -> bytes:
    """A PNG file.

    Args:
        picture: (H, W, 3) or (H, W) uint8.

    Raises:
        EnvError: it is no such picture.
    """
    if picture.dtype != np.uint8 or picture.ndim not in (2, 3) or picture.shape[2:] not in ((), (3,)):
        raise EnvError(
            "the environment rendered no picture",
            received=f"shape {picture.shape}, dtype {picture.dtype}",
            expected="(height, width, 3) uint8",
        )
    height, width = picture.shape[:2]
    rows = picture.reshape(height, -1)
    # Each row begins with the number of its filter; 2 stores differences to the row above, which pack well.
    above = np.vstack([np.zeros_like(rows[:1]), rows[:-1]])
    filtered = np.hstack([np.full((height, 1), 2, np.uint8), rows - above])
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if picture.ndim == 3 else 0, 0, 0, 0)
    parts = (_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(filtered.tobytes(), 6)), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
