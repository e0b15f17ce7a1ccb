"""Messages to bytes and back: frames, messages, the handshake, and the list of all message types."""

from tidings.model.bounds import FRAME_BYTES_MAX
from tidings.wire.codec import BadFrame, BadMessage, WireError
from tidings.wire.frames import FrameReader, frame
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
