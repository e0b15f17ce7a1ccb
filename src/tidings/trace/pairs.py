"""Which receive belongs to which send.

A trace tells that a sent something and that b received something; an arrow between the two is a conclusion. A receive
is paired with the oldest send of the same message (same sender, receiver, type, key and fields) that is still open, a
loss with the latest one, because a world that loses a message does so when it is sent. A receive that finds no open
send repeats the last one that was paired: the message was duplicated. A send that stays open was under way when the
records end.
"""

from collections import defaultdict, deque
from collections.abc import Sequence

import msgspec

from tidings.trace.record import Record

Identity = tuple[str, str, str | None, str | None, str | None]


class Arrow(msgspec.Struct):
    """A message on its way: the places, in the list of records, of its send and of what became of it."""

    send: int | None
    """None if it was sent before the first record."""
    receive: int | None = None
    drop: int | None = None
    is_duplicate: bool = False


def pair(records: Sequence[Record]) -> list[Arrow]:
    """One arrow for each message, in the order of the records that begin them."""
    arrows: list[Arrow] = []
    open_arrows: defaultdict[Identity, deque[Arrow]] = defaultdict(deque)
    latest: dict[Identity, Arrow] = {}
    for place, record in enumerate(records):
        if record.peer is None or record.kind not in ("send", "receive", "drop"):
            continue
        ends = (record.peer, record.node) if record.kind == "receive" else (record.node, record.peer)
        identity = (*ends, record.message, record.key, record.detail)
        waiting = open_arrows[identity]
        if record.kind == "send":
            arrows.append(Arrow(place))
            waiting.append(arrows[-1])
        elif record.kind == "receive":
            arrow = waiting.popleft() if waiting else repeated(latest.get(identity), arrows)
            arrow.receive = place
            latest[identity] = arrow
        elif waiting:
            waiting.pop().drop = place
    return arrows


def repeated(original: Arrow | None, arrows: list[Arrow]) -> Arrow:
    arrows.append(Arrow(None) if original is None else Arrow(original.send, is_duplicate=True))
    return arrows[-1]
