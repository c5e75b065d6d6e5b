"""Messages between the processes of the kernel: four bytes of length, then that many bytes."""

import struct
from typing import BinaryIO

from theatre.axion.common.errors import GateBrokenError

_LENGTH = struct.Struct(">I")
MAX_FRAME = 16 * 1024 * 1024
LENGTH_BYTES = _LENGTH.size


def frame(data: bytes) -> bytes:
    """Return `data` as it goes over the pipe."""
    return _LENGTH.pack(len(data)) + data


def length_of(prefix: bytes) -> int:
    """Return the length that `prefix` announces; raises GateBrokenError beyond 16 MiB."""
    (length,) = _LENGTH.unpack(prefix)
    if length > MAX_FRAME:
        raise GateBrokenError(f"expected a message of at most {MAX_FRAME} bytes, got {length}")
    return int(length)


def read_frame(stream: BinaryIO) -> bytes | None:
    """Return the next message, or None at the end of the stream.

    Raises GateBrokenError for a message that ends early.
    """
    prefix = stream.read(LENGTH_BYTES)
    if not prefix:
        return None
    if len(prefix) < LENGTH_BYTES:
        raise GateBrokenError("expected a whole message, got the beginning of one")
    length = length_of(prefix)
    data = stream.read(length)
    if len(data) < length:
        raise GateBrokenError(f"expected a message of {length} bytes, got {len(data)}")
    return data


def write_frame(stream: BinaryIO, data: bytes) -> None:
    """Write one message and flush it."""
    stream.write(frame(data))
    stream.flush()
