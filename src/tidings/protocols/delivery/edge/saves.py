"""What a durable edge has asked the disk to keep, and what it does when it hears that it is kept, or that it is not.

A publication is accepted when it is on the disk, with all that its publisher published before it. A disk that is full
takes a small batch and not the large one before it; if the broker crashed then, the number of the large one would be
known to be used and nothing would be there, as if it had been declined. So when a batch could not be saved its
publisher is *stuck*: those behind it wait, and a while later all of them are saved again, in their order. The storage
does its part: behind a save that failed those fail that were asked for before the failure was heard of.

Advertisements, marks and beginnings of groups are saved again as they are then.

Timer: ("save", name).
"""

from tidings.machine.effects import Drop, Effect, Save, Send, SetTimer
from tidings.protocols.delivery.edge.advertisements import Publisher
from tidings.protocols.delivery.edge.groups import SHELF as GROUPS
from tidings.protocols.delivery.edge.groups import Groups
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.publishers import Publishers, encoder
from tidings.pubsub.client import Accepted

NOT_SAVED = "could not be saved; is saved again later"


class Saves:
    def __init__(self, params: EdgeParams, publishers: Publishers, groups: Groups) -> None:
        self.params, self.publishers, self.groups = params, publishers, groups

    def hear(self, now: float, name: str, error: str | None) -> list[Effect]:
        kind, _, id = name.partition("/")
        unsaved, publisher = self.publishers.unsaved, self.publisher_of_batch(name)
        if kind == "advertisement":
            (unsaved.discard if error is None else unsaved.add)(id)
        again = SetTimer(("save", name), now + self.params.save_again_after)
        batch = None if publisher is None else publisher.saving.get(name)
        if error is not None:
            is_known = batch is not None and publisher is not None and publisher.is_stuck
            if batch is not None and publisher is not None:
                publisher.is_stuck = True
            return [Drop(name, NOT_SAVED)] if is_known else [Drop(name, NOT_SAVED), again]
        if publisher is None or batch is None:
            return []
        if batch.advertisement in unsaved:
            # Without it nobody finds the way to the batch after a restart.
            return [again]
        client, before = publisher.client, publisher.saved_through
        del publisher.saving[name]
        through = 0 if client is None else min(publisher.saved_through, client.told_through)
        told = [] if client is None or through <= before else [Send(client.name, Accepted(through))]
        return [*told, *self.publishers.save_declined(publisher)]

    def again(self, name: str) -> list[Effect]:
        """As it is now; of what is published, all that waits behind it, too."""
        publisher = self.publisher_of_batch(name)
        if publisher is not None and publisher.is_stuck:
            publisher.is_stuck = False
            return [Save(each, encoder.encode(batch)) for each, batch in publisher.saving.items()]
        if publisher is not None and name in publisher.saving:
            return [Save(name, encoder.encode(publisher.saving[name]))]
        if name.startswith(GROUPS):
            return self.groups.save_again(name)
        kind, _, id = name.partition("/")
        if kind == "advertisement" and id in self.publishers.offered:
            return self.publishers.save_advertisement(self.publishers.offered[id])
        if kind == "publisher" and id in self.publishers.all:
            return self.publishers.save_marks(self.publishers.all[id])
        if kind == "publisher" and id in self.publishers.numbers.marks:
            return [Save(name, encoder.encode(self.publishers.numbers.marks[id]))]
        return [Save(name, None)]

    def publisher_of_batch(self, name: str) -> Publisher | None:
        kind, _, rest = name.partition("/")
        return self.publishers.all.get(rest.rpartition("/")[0]) if kind == "publication" else None
