"""Reads an event file as far as it is whole; the loader of TensorBoard stops at the first damage without a word.

A record is its length (uint64), the checksum of that (uint32), so many bytes, and their checksum (uint32).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[import-untyped]
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c  # type: ignore[import-untyped]

_BEFORE, _BEHIND = 12, 4


def events_in(path: Path) -> Iterator[Any]:
    """The events of a file, and None in place of damage; half a record at its end is one whose writer was killed."""
    data, at = path.read_bytes(), 0
    while len(data) - at >= _BEFORE:
        length, checksum = struct.unpack_from("<QI", data, at)
        if checksum != masked_crc32c(data[at : at + 8]):  # nothing says where the next one begins
            yield None
            return
        begin, end = at + _BEFORE, at + _BEFORE + length
        if end + _BEHIND > len(data):
            return
        record, at = data[begin:end], end + _BEHIND
        yield _event(record) if struct.unpack_from("<I", data, end)[0] == masked_crc32c(record) else None


def _event(record: bytes) -> Any:
    try:
        return Event.FromString(record)
    except Exception:  # a class of protobuf
        return None
