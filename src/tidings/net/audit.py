"""The audit: one line for whoever comes in, is refused something, or has other rights than before.

A line says what happened, which node it was, from which address, which principal answers for it, in which role, and
why. It never holds credentials, and whatever a stranger chose (its name, above all) is escaped, so that no name can
write a line of its own. Lines have their own logger: on stderr beside the log (`log=audit`), or in a file of their own.

    timestamp=... level=warning event="turned away" log=audit node=b1 peer=mallory address=10.0.0.7:5123 ...

Protocols tell these things as notes (`pubsub/notes.py`); here they are written down. Refusals can come as fast as
strangers call, so of those at most `REFUSALS_MAX` are written in a second, and the next line tells how many were not;
all others are written always.
"""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tidings.machine.effects import Note
from tidings.model.identity import NodeId
from tidings.net.errors import HostError
from tidings.net.logs import make_logger
from tidings.pubsub.notes import EntryRejected, RequestRefused, RightsChanged, VisitorAdmitted, VisitorTurnedAway

REFUSALS_MAX = 100
"""Lines on refusals in a second."""

TITLES: Mapping[type[Note], tuple[str, str]] = {
    VisitorAdmitted: ("info", "let in"),
    VisitorTurnedAway: ("warning", "turned away"),
    RequestRefused: ("warning", "refused"),
    RightsChanged: ("info", "rights changed"),
    EntryRejected: ("warning", "we are rejected"),
}
"""What is written, how important it is, and as what."""

REFUSALS = (VisitorTurnedAway, RequestRefused, EntryRejected)


class Audit:
    """`address_of(node)` is where a linked node calls from, as far as it is known; `clock` any that goes on."""

    def __init__(self, log: Any, address_of: Callable[[NodeId], str], clock: Callable[[], float]) -> None:
        self.log, self.address_of, self.clock = log, address_of, clock
        self.second, self.refusals, self.left_out = 0, 0, 0

    def hear(self, note: Note) -> None:
        """A protocol notes something."""
        if isinstance(note, REFUSALS) and self.is_too_much():
            return
        level, event = TITLES[type(note)]
        fields = msgspec.structs.asdict(note)
        peer = fields.pop("node")
        # Another may go by the name that a stranger claims, and calls from elsewhere.
        address = self.address_of(fields.pop("visitor", "") or peer)
        self.write(level, event, peer=peer, address=address, **fields)

    def write(self, level: str, event: str, **fields: object) -> None:
        if self.left_out:
            fields["refusals_left_out"], self.left_out = self.left_out, 0
        getattr(self.log, level)(event, **fields)

    def is_too_much(self) -> bool:
        second = int(self.clock())
        if second != self.second:
            self.second, self.refusals = second, 0
        self.refusals += 1
        if self.refusals <= REFUSALS_MAX:
            return False
        self.left_out += 1
        return True

    @property
    def performers(self) -> dict[type, Callable[[Any], None]]:
        """By the notes that are written, for whoever carries out effects."""
        return dict.fromkeys(TITLES, self.hear)


def make_audit_logger(node_id: NodeId, level: str, file: Path | None = None) -> Any:
    """On stderr, as much as the log tells there; or all of it, at the end of a file that is its owner's only."""
    logger = make_logger(node_id, level) if file is None else make_logger(node_id, stream=AuditFile(file))
    return logger.bind(log="audit")


class AuditFile:
    """Opened for each line, so that it can be moved away at any time. What cannot be written there goes to stderr."""

    def __init__(self, file: Path) -> None:
        self.file = file
        try:
            self.append("")
        except OSError as problem:
            raise HostError(f"audit: cannot write {file}: {problem.strerror}; name another file") from None

    def append(self, text: str) -> None:
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as stream:
            stream.write(text)

    def write(self, text: str) -> int:
        try:
            self.append(text)
        except OSError:
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        pass
