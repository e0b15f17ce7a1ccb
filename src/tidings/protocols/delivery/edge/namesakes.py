"""Two processes that publish under one name at the same time: both are told.

The problem. A program is started twice by mistake, at one broker or at two. Each life of a publisher has numbers of its
own (`model/identity.py`), so nothing is lost by that; but what arrives is the work of two, and nobody knows.

The idea, at two brokers. Advertisements are known everywhere. A broker that serves a publisher and knows an
advertisement of the same name at another broker tells that one (`NamesakeFar`, hop by hop on the way of the
advertisement). Whoever is told, and serves that publisher too, tells its client. The other broker does the same, so
both hear of it. A publisher that has left is still advertised, for as long as its history is kept; its broker serves
nobody then, and nobody is told anything.

At one broker the second process takes the place of the first, which comes back and takes the place of the second. So a
life that comes back after a later one was here has a namesake; each of the two is told when it does.

State. `elsewhere`: advertisements at other brokers, by the name of their publisher. `serving`: who publishes here.
`latest`: which life of each name published here last. A client is told once of each namesake, and of at most
`TOLD_MAX` over one connection.

Not guaranteed: a process that was killed, and whose connection is not yet known to be broken, is taken for one that is
there.
"""

from msgspec.structs import replace

from tidings.machine.effects import Drop, Effect, Send
from tidings.model.identity import LIFE_MARK, NodeId, name_of
from tidings.protocols.delivery.edge.advertisements import origin_of, publisher_of
from tidings.protocols.delivery.edge.clients import ServedClient
from tidings.protocols.delivery.edge.publishers import Publishers
from tidings.protocols.delivery.edge.references import (
    NO_WAY,
    NOT_A_NEIGHBOUR,
    TOO_FAR,
    WRONG_PATH,
    References,
    lengthened,
)
from tidings.protocols.delivery.messages import NamesakeFar
from tidings.pubsub.client import Namesake
from tidings.pubsub.notes import NamesakeFound
from tidings.pubsub.signals import AdvertisementId, Known

TOLD_MAX = 8
"""Namesakes of which a client is told over one connection."""

LATEST_MAX = 10_000
"""Names whose last life is remembered; the one that came first is forgotten first."""


class Namesakes:
    def __init__(self, node_id: NodeId, publishers: Publishers, references: References) -> None:
        self.node_id, self.publishers, self.references = node_id, publishers, references
        self.elsewhere: dict[NodeId, dict[AdvertisementId, None]] = {}
        self.serving: dict[NodeId, ServedClient] = {}
        self.latest: dict[NodeId, NodeId] = {}

    # Who publishes here.

    def begin(self, client: ServedClient, is_known: bool) -> list[Effect]:
        """It publishes from now on; `is_known` says whether it did before."""
        if self.serving.get(client.name) is client:
            return []
        self.serving[client.name] = client
        before = self.latest.pop(client.name, client.publisher)
        self.latest[client.name] = client.publisher
        if len(self.latest) > LATEST_MAX:
            del self.latest[next(iter(self.latest))]
        effects = self.tell(client, before, self.node_id) if is_known and before != client.publisher else []
        origins = {origin_of(each): each for each in self.elsewhere.get(client.name, ())}
        for advertisement in origins.values():
            effects += self.warn(client, advertisement)
        return effects

    def leave(self, client: ServedClient) -> None:
        if self.serving.get(client.name) is client:
            del self.serving[client.name]

    # Who publishes elsewhere.

    def learn(self, known: Known) -> list[Effect]:
        name = name_of(known.publisher)
        if known.hop is None:
            return []
        self.elsewhere.setdefault(name, {})[known.advertisement] = None
        client = self.serving.get(name)
        return [] if client is None else self.warn(client, known.advertisement)

    def unlearn(self, advertisement: AdvertisementId) -> None:
        name = name_of(publisher_of(advertisement))
        others = self.elsewhere.get(name, {})
        others.pop(advertisement, None)
        if not others:
            self.elsewhere.pop(name, None)

    def warn(self, client: ServedClient, advertisement: AdvertisementId) -> list[Effect]:
        """Tell the broker of the advertisement that we serve its publisher too, or a namesake."""
        hop = self.references.routes.hop_toward(advertisement)
        if hop is None or hop not in self.references.neighbours:
            # It becomes known again when there is a way.
            return []
        return [Send(hop, NamesakeFar(advertisement, client.publisher, self.node_id, (self.node_id,)))]

    def hear(self, sender: NodeId, message: NamesakeFar) -> list[Effect]:
        if sender not in self.references.neighbours:
            return [Drop(message, NOT_A_NEIGHBOUR)]
        path = message.path
        longer = lengthened(path, self.node_id)
        if path[-1:] != (sender,) or self.node_id in path or path[0] != message.broker:
            return [Drop(message, WRONG_PATH)]
        if message.advertisement in self.publishers.offered:
            client = self.serving.get(name_of(message.publisher))
            return [] if client is None else self.tell(client, message.publisher, message.broker)
        hop = self.references.routes.hop_toward(message.advertisement)
        if hop is None or hop == sender or hop not in self.references.neighbours:
            return [Drop(message, NO_WAY.format(broker=self.node_id))]
        return [Drop(message, TOO_FAR)] if longer is None else [Send(hop, replace(message, path=longer))]

    def tell(self, client: ServedClient, publisher: NodeId, broker: NodeId) -> list[Effect]:
        is_itself = publisher == client.publisher and LIFE_MARK in publisher
        if is_itself or (publisher, broker) in client.namesakes or len(client.namesakes) >= TOLD_MAX:
            return []
        client.namesakes[publisher, broker] = None
        found = NamesakeFound(client.publisher, publisher, broker)
        return [found, Send(client.name, Namesake(publisher, broker))]

    def check(self) -> None:
        assert len(self.latest) <= LATEST_MAX, "too many names are remembered"
        assert all(self.elsewhere.values()), "a name is remembered for nothing"
        for name, client in self.serving.items():
            assert name == client.name and len(client.namesakes) <= TOLD_MAX, "told too often"
