"""Messages to bytes and back: frames, messages, the handshake, and the list of all message types."""

from tidings.wire.errors import BadFrame, BadMessage, WireError
from tidings.wire.frames import FRAME_BYTES_MAX, FrameReader, frame
from tidings.wire.registry import REGISTRY, decode, encode

__all__ = [
    "FRAME_BYTES_MAX",
    "REGISTRY",
    "BadFrame",
    "BadMessage",
    "FrameReader",
    "WireError",
    "decode",
    "encode",
    "frame",
]
