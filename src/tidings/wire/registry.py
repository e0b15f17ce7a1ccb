"""Every message there is, with its code: the one list.

A code is for ever. A message that changes its fields gets a new code under a new version of the protocol
(`handshake.py`), and one that goes leaves its code unused, so that old traces and old nodes are never misread.
The first byte of a code tells the family, and a new family takes the next free one.
"""

from tidings.machine.publications import PublicationBatch, decode_event, encode_event
from tidings.protocols.teaching import gossip, ping
from tidings.wire.codec import Registry
from tidings.wire.frames import OPENING_BYTES_MAX
from tidings.wire.handshake import Goodbye, Heartbeat, Hello

REGISTRY = Registry()

REGISTRY.add(0x0001, Hello, bytes_max=OPENING_BYTES_MAX)
REGISTRY.add(0x0002, Goodbye)
REGISTRY.add(0x0003, Heartbeat)

REGISTRY.add(0x0100, PublicationBatch)

REGISTRY.add(0x0F00, ping.Probe)
REGISTRY.add(0x0F01, ping.Echo)

REGISTRY.add(0x0F10, gossip.Digest)
REGISTRY.add(0x0F11, gossip.Request)
REGISTRY.add(
    0x0F12,
    gossip.Repair,
    encode=lambda repair: encode_event(repair.event),
    decode=lambda data: gossip.Repair(decode_event(data)),
)

encode = REGISTRY.encode
"""The bytes of a message; UsageError if it has none."""

decode = REGISTRY.decode
"""The message of these bytes; BadMessage if they are none."""
