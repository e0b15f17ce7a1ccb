"""Changes of tables on their way to one neighbour: packed, and counted in a window of bytes.

The problem. A table may hold a hundred thousand entries. Told one by one and all at once, they are more messages than
the queue of a link holds; the link ends, and when it is back the same happens again.

The idea. What one step has to tell a neighbour leaves together. A few changes leave as they are, more of them packed
into `TableChanges`, each so small that the neighbour carries it out in a moment and other traffic gets in between. All
of it is counted in a window of bytes, which the neighbour opens again by telling how much it has taken (`TablesTaken`).
A walk through a table (`walks.py`) goes on only while there is room in the window. A single change never waits: what is
sent behind it, such as a question of delivery, must not overtake it. Only when `is_overfull` do changes wait, as places
in the table that the next walk comes by; so does what a client leaves behind, as soon as there is no room.

A single change stands behind all that is on the way, and where filters are long that may be a second of work for the
neighbour. So the window is narrow to begin with and wide where much is taken soon (`machine/window.py`).

Everything that leaves here leaves before the other effects of its step: a neighbour has the subscriptions before
whatever delivery sends when it hears of an advertisement.

Answers are packed in the same way (`packed_answers`).
"""

from collections.abc import Sequence
from typing import Any

from tidings.machine.effects import Effect, Send
from tidings.machine.message import Message
from tidings.machine.window import YieldingWindow
from tidings.model.bounds import CHANGES_PACKED_MAX
from tidings.model.identity import NodeId
from tidings.protocols.routing.messages import (
    AdvertisementAdded,
    AdvertisementRemoved,
    ChangesInstalled,
    ChangesNotInstalled,
    Installed,
    NotInstalled,
    PartTold,
    SubscriptionAdded,
    SubscriptionRemoved,
    TableChanges,
)
from tidings.protocols.routing.params import TABLES_NARROWEST_SHARE, RoutingParams

MESSAGE_BYTES = 512
"""What the smallest message counts, so that the window bounds messages as well as bytes."""

CHANGE_BYTES = 64
"""What a change counts beside its texts."""

PACKED_MIN = 16
"""Changes of one step from which on they are packed. Fewer leave one by one, and can be read one by one in a trace."""

PARTS_PACKED_MAX = 2
"""Ends of parts in one packet: what a neighbour has in them and was not told has to be removed there."""

PACKET_BYTES = 4 * 1024
"""Size from which on nothing more is packed into the same message. The neighbour reads all filters in it in one step,
and long ones take milliseconds."""

Change = AdvertisementAdded | AdvertisementRemoved | SubscriptionAdded | SubscriptionRemoved | PartTold

PLACES: dict[type, int] = {
    AdvertisementAdded: 0,
    AdvertisementRemoved: 1,
    SubscriptionAdded: 2,
    SubscriptionRemoved: 3,
    PartTold: 4,
}
"""The order in which the changes of a packet are carried out."""


def size_of_change(change: Any) -> int:
    """What a change counts at both ends of a window."""
    match change:
        case SubscriptionAdded() | SubscriptionRemoved():
            return CHANGE_BYTES + len(change.filter)
        case AdvertisementAdded():
            return CHANGE_BYTES + len(change.filter) + len(change.advertisement) + len(change.publisher)
        case PartTold():
            return CHANGE_BYTES
    return CHANGE_BYTES + len(change.advertisement)


def size_of_told(message: Any) -> int:
    """What a message counts at both ends of a window."""
    changes = changes_of(message) if type(message) is TableChanges else (message,)
    return MESSAGE_BYTES + sum(map(size_of_change, changes))


def changes_of(packet: TableChanges) -> Sequence[Change]:
    """In the order in which they are to be carried out."""
    return (
        *packet.advertisements_added,
        *packet.advertisements_removed,
        *packet.subscriptions_added,
        *packet.subscriptions_removed,
        *packet.parts_told,
    )


class TableOutbox:
    """What leaves at the end of a step, before its other effects."""

    def __init__(self) -> None:
        self.sends: list[Effect] = []
        self.flows: list[TableFlow] = []
        """Those in which something waits for the end of the step."""
        self.now = 0.0
        """When the step is."""

    def at(self, now: float) -> "TableOutbox":
        self.now = now
        return self

    def take(self) -> list[Effect]:
        for flow in self.flows:
            flow.flush()
        sends, self.sends, self.flows = self.sends, [], []
        return sends


class TableFlow:
    """One life of a link. The taker's end is `TakenBytes`, kept with the link."""

    def __init__(self, neighbour: NodeId, params: RoutingParams, outbox: TableOutbox) -> None:
        self.neighbour, self.outbox = neighbour, outbox
        self.window = YieldingWindow(params.tables_window_bytes, TABLES_NARROWEST_SHARE, is_careful=True)
        self.changes_bytes_max = params.changes_bytes_max
        self.unsent: list[Change] = []
        self.is_closed = False

    @property
    def has_room(self) -> bool:
        return self.window.has_room

    @property
    def is_overfull(self) -> bool:
        return self.window.under_way_bytes >= self.changes_bytes_max

    def put(self, change: Change) -> None:
        if not self.unsent:
            self.outbox.flows.append(self)
        self.unsent.append(change)

    def put_through(self, message: Message) -> None:
        """Something that is no change, behind all that are."""
        self.flush()
        self.outbox.sends.append(Send(self.neighbour, message))

    def flush(self) -> None:
        unsent, self.unsent = self.unsent, []
        if self.is_closed:
            return
        for message in unsent if len(unsent) < PACKED_MIN else packets_of(unsent):
            self.window.send(self.outbox.now, size_of_told(message))
            self.outbox.sends.append(Send(self.neighbour, message))

    def close(self) -> None:
        """The link is gone."""
        self.is_closed = True


def packets_of(changes: Sequence[Change]) -> list[Message]:
    """The same changes in fewer messages. What must not be exchanged is not: a packet ends where a kind comes whose
    place in it has passed. The end of a part may come later than it was said, behind what was told meanwhile."""
    packets: list[Message] = []
    columns: tuple[list[Any], ...] = ([], [], [], [], [])
    count = size_bytes = place = 0

    def close() -> None:
        if count:
            packets.append(TableChanges(*map(tuple, columns)))
            for column in columns:
                column.clear()

    for change in changes:
        is_end = type(change) is PartTold
        is_behind = not is_end and PLACES[type(change)] < place
        is_full = count >= CHANGES_PACKED_MAX or len(columns[4]) >= PARTS_PACKED_MAX
        if is_full or is_behind or size_bytes >= PACKET_BYTES:
            close()
            count = size_bytes = 0
        columns[PLACES[type(change)]].append(change)
        if not is_end:
            place = PLACES[type(change)]
        count, size_bytes = count + 1, size_bytes + size_of_change(change)
    close()
    return packets


def packed_answers(effects: list[Effect]) -> list[Effect]:
    """The same effects with equal answers to one neighbour in one message, in the place of the first."""
    together: dict[tuple[Any, ...], list[int]] = {}
    kept: list[Effect | tuple[Any, ...]] = []
    for effect in effects:
        kind = type(effect.message) if type(effect) is Send else None
        if kind is Installed or kind is NotInstalled:
            assert isinstance(effect, Send)
            answer: Any = effect.message
            said = (answer.brokers, answer.brokers_count) if kind is Installed else (answer.reason,)
            key = effect.to, kind, *said
            if key not in together:
                together[key] = []
                kept.append(key)
            together[key].append(answer.number)
        else:
            kept.append(effect)
    packed: list[Effect] = []
    for each in kept:
        if not isinstance(each, tuple):
            packed.append(each)
            continue
        neighbour, one, *content = each
        numbers = together[each]
        if len(numbers) == 1:
            packed.append(Send(neighbour, one(numbers[0], *content)))
            continue
        many = ChangesInstalled if one is Installed else ChangesNotInstalled
        for begin in range(0, len(numbers), CHANGES_PACKED_MAX):
            packed.append(Send(neighbour, many(tuple(numbers[begin : begin + CHANGES_PACKED_MAX]), *content)))
    return packed


def answers_of(answers: ChangesInstalled | ChangesNotInstalled) -> list[Installed | NotInstalled]:
    """As if each had come by itself."""
    if isinstance(answers, ChangesInstalled):
        return [Installed(number, answers.brokers, answers.brokers_count) for number in answers.numbers]
    return [NotInstalled(number, answers.reason) for number in answers.numbers]
