"""What a damaged store held and a salvage could not keep: told to whoever asks for it.

A store that was damaged is salvaged outside of the broker: what is whole is kept, and for each entry that is not,
there is one `lost/NAME`. From the name of a batch its publisher and its numbers are known. Its history lacks these, as
if they had been forgotten, and a question that reaches so far is answered with their count.

A lost advertisement is made again, for everything, and withdrawn at once: it shows the way to what is stored under it.
A publisher whose marks are lost has forgotten all that is older than what it stores. Where names are lost too
(`lost/unknown`), whatever reaches back before the salvage may lack something, and is answered so.

An entry `lost/...` is removed when what it names would have been forgotten by now.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidings.machine.effects import Effect, Save
from tidings.model.identity import NodeId
from tidings.protocols.delivery.edge.advertisements import Publisher, SavedAdvertisement, advertisement_id, publisher_of

if TYPE_CHECKING:
    from tidings.protocols.delivery.edge.publishers import Publishers

LOST = "lost/"
UNKNOWN = "unknown"
EVERYTHING = "TRUE"


class StoreLosses:
    def __init__(self, publishers: "Publishers", at: float) -> None:
        """`at` is the time of day."""
        self.publishers, self.at = publishers, at

    def admit(self, names: Sequence[str]) -> list[Effect]:
        """The names of what is lost, as they are in the store."""
        effects: list[Effect] = []
        for entry in names:
            kind, _, rest = entry.removeprefix(LOST).partition("/")
            match kind:
                case "advertisement":
                    effects += [*self.advertise(rest), Save(entry, None)]
                case "publication":
                    effects += self.lose(entry, *rest.rpartition("/")[::2])
                case "publisher" if rest in self.publishers.all:
                    self.forget_marks(self.publishers.all[rest])
        if f"{LOST}{UNKNOWN}" in names:
            for publisher in self.publishers.all.values():
                publisher.history.shaken_through = publisher.through
                publisher.history.shaken_at = self.at
        return effects

    def advertise(self, id: str) -> list[Effect]:
        """Make a lost advertisement again, as far as its name tells."""
        name, number, generation = publisher_of(id), *parts_of(id)
        if not number or advertisement_id(name, number, self.publishers.node_id, generation) != id:
            return []
        if id in self.publishers.offered:
            return []
        publisher = self.publishers.restored(name)
        began = next((batch.numbers[0] for batch in publisher.history.batches), 1)
        record = SavedAdvertisement(name, number, EVERYTHING, began, generation, True)
        self.publishers.restore_advertisement(publisher, record)
        known = self.publishers.offered[id]
        known.stored = Counter(batch.advertisement for batch in publisher.history.batches)[id]
        return self.publishers.save_advertisement(known)

    def lose(self, entry: str, name: NodeId, numbers: str) -> list[Effect]:
        first, _, last = numbers.partition("-")
        if not (name and first.isdecimal() and (last or first).isdecimal()):
            return []
        effects: list[Effect] = []
        marks = self.publishers.numbers.marks.get(name)
        if marks is not None and int(last or first) <= marks.through:
            return [Save(entry, None)]
        if name not in self.publishers.all:
            effects += self.advertise(advertisement_id(name, 1, self.publishers.node_id))
        publisher = self.publishers.all[name]
        begin, end = int(first) - 1, int(last or first)
        history = publisher.history
        if end <= history.forgotten_through:
            return [*effects, Save(entry, None)]
        history.base = begin if history.base is None else min(history.base, begin)
        history.lose(begin, end)
        publisher.through = max(publisher.through, end)
        publisher.accepted_at = max(publisher.accepted_at, self.at)
        return effects

    def forget_marks(self, publisher: Publisher) -> None:
        """What it had forgotten is not known any more: all that is older than what is stored."""
        history = publisher.history
        offered = (*publisher.advertisements.values(), *publisher.retired.values())
        history.base = min((each.began for each in offered), default=1) - 1
        if history.batches:
            history.recall(history.batches[0].numbers[0] - 1, history.batches[0].accepted_at)
        history.shaken_through, history.shaken_at = publisher.through + 1, self.at


def parts_of(id: str) -> tuple[int, int]:
    """The number of an advertisement, and its generation; 0 where the name is none."""
    number, _, generation = id.rpartition("@")[0].rpartition("/")[2].partition(".")
    if not (number.isdecimal() and (generation or "0").isdecimal()):
        return 0, 0
    return int(number), int(generation or 0)
