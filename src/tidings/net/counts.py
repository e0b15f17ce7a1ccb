"""What a host counts. Plain numbers: the paths where they grow are the busiest there are.

`metrics.py` shows them to Prometheus. A reason that names a drop comes from a protocol or from the list below, so there
are few different ones; a bound keeps it so.
"""

from collections import Counter

REASONS_MAX = 64
"""Different reasons that are told apart; what comes after is counted under OTHER."""

OTHER = "other"

QUEUE_FULL = "queue full"
NO_LINK = "no link"
NO_ADDRESS = "no address is known"
UNREACHABLE = "unreachable"
LINK_DOWN = "link went down"
NO_BYTES = "cannot be encoded"
TOO_LARGE = "longer than the peer reads"
NO_BROADCAST = "a stream has one receiver"
NOBODY_HEARS = "nobody hears it"
DATAGRAM_TOO_LARGE = "too large for a datagram"
DATAGRAM_NOT_SENT = "the socket took no datagram"
DATAGRAMS_OFF = "datagrams are off: they are not encrypted"
UNKNOWN_SENDER = "datagram of an unknown sender"
BAD_DATAGRAM = "datagram that is no message"
BAD_ADDRESS = "an address that cannot, or may not, be called"
TOO_MANY_LEARNED = "as many addresses as are allowed are learned, and in use"


class HostCounts:
    """All since the start of the host."""

    def __init__(self) -> None:
        self.stream_messages_received = 0
        self.stream_bytes_received = 0
        self.stream_messages_sent = 0
        self.stream_bytes_sent = 0
        self.datagrams_received = 0
        self.datagrams_sent = 0
        self.delivered = 0
        self.timers_fired = 0
        self.inputs = 0
        self.inputs_waited = 0
        self.handle_seconds = 0.0
        self.step_seconds = 0.0
        """With what the machine ordered carried out."""
        self.dial_failures = 0
        self.streams_opened = 0
        self.saves = 0
        self.save_errors = 0
        self.save_seconds = 0.0
        self.computations = 0
        self.drops: Counter[str] = Counter()
        """By reason."""
        self.closings: Counter[str] = Counter()
        """Connections that ended, by `Cause`."""

    def drop(self, reason: str, count: int = 1) -> bool:
        """Count it; whether it is the first of its kind."""
        if reason not in self.drops and len(self.drops) >= REASONS_MAX:
            reason = OTHER
        self.drops[reason] += count
        return self.drops[reason] == count
