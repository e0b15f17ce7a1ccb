"""The last numbers of publishers of which nothing else is known any more.

A program publishes, ends before it hears that everything was accepted, and is started again an hour later: it repeats
its last publications under their numbers. The broker has long sent their history away. So that they are not taken for
new ones, the last number of a publisher is remembered for `numbers_age` after its last publication, of at most
`numbers_max` publishers; the one whose last publication is oldest is forgotten first.
"""

import msgspec

from tidings.model.identity import NodeId
from tidings.protocols.delivery.edge.history import PublisherHistory
from tidings.protocols.delivery.edge.params import EdgeParams


class SavedPublisher(msgspec.Struct, frozen=True, array_like=True):
    """What was forgotten: the number and the time of the last; and what was never here."""

    publisher: str
    through: int
    at: float
    base: int = 0
    elsewhere: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def decode(data: bytes) -> "SavedPublisher":
        return decoder.decode(data)


decoder = msgspec.msgpack.Decoder(SavedPublisher)


def marks_of(publisher: NodeId, history: PublisherHistory) -> SavedPublisher:
    elsewhere = tuple(history.elsewhere)
    return SavedPublisher(publisher, history.forgotten_through, history.forgotten_at, history.base or 0, elsewhere)


class PublisherNumbers:
    def __init__(self, params: EdgeParams) -> None:
        self.params = params
        self.marks: dict[NodeId, SavedPublisher] = {}
        self.is_sorted = True

    @property
    def expires_at(self) -> float:
        """The time of day from which on the oldest of them is too old, at the latest."""
        return next(iter(self.marks.values())).at + self.params.numbers_age

    def add(self, marks: SavedPublisher) -> None:
        self.marks[marks.publisher] = marks
        self.is_sorted = False

    def take(self, publisher: NodeId) -> SavedPublisher | None:
        """It is here again."""
        return self.marks.pop(publisher, None)

    def clear(self) -> None:
        self.marks.clear()

    def sweep(self, time_of_day: float) -> list[NodeId]:
        """Forget what is too old, or too much; answers with their names."""
        if not self.is_sorted:
            self.marks = dict(sorted(self.marks.items(), key=lambda entry: (entry[1].at, entry[0])))
            self.is_sorted = True
        excess = len(self.marks) - self.params.numbers_max
        gone: list[NodeId] = []
        for name, marks in self.marks.items():
            if len(gone) >= excess and time_of_day - marks.at < self.params.numbers_age:
                break
            gone.append(name)
        for name in gone:
            del self.marks[name]
        return gone

    def check(self) -> None:
        assert len(self.marks) <= self.params.numbers_max, "more numbers are remembered than numbers_max allows"
