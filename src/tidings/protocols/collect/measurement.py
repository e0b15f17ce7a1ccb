"""Measurement: what paths and accesses carry.

Round robin: every so often a train of blocks goes to the next peer, which times them, the first against the last, and
says the rate. When the round is over the rates go to the directory (Patel thesis, section 3.4.2). A host that has just
been given peers goes through its first round quickly, so that something is known soon.

A blast finds what an access carries: all peers send to a host at once for `blast_seconds`, then it sends to all of
them; either way the highest average over five seconds counts (section 3.4.2.1). It disturbs whatever else goes on, so
it is done when it is asked for (`MeasureAccess`), and never while a collection is under way here.

State. `order` and `place`: the round. `trains`: whose blocks come, and when the first of them did.

Timers. "probe": the next peer. ("blast", stage): the stages of a blast.
"""

from collections.abc import Callable

from tidings.machine.effects import Drop, Effect, Send, SetTimer, Transfer
from tidings.machine.inputs import Fired, Input, Received, Request, Signal, Transferred
from tidings.machine.message import Contact
from tidings.model.identity import NodeId
from tidings.protocols.collect.messages import BlastAsked, PathsMeasured, PeersAssigned, ProbeAnswered, ProbeBlock
from tidings.protocols.collect.params import CollectParams
from tidings.protocols.collect.rates import PeakRate
from tidings.pubsub.signals import LinkUnwanted, LinkWanted, PeerDown, PeerUp

FIRST_ROUND = 0.5
"""Seconds between two peers in the first round."""
FILLED = 4
"""Blocks of a blast on the way to one peer."""
USER = "measurement"
NOT_ASKED = "answers what was not asked"
NOT_ASSIGNED = "peers are assigned by whom we enlisted with"
BUSY = "a blast is under way here already"


class MeasureAccess(Request, frozen=True):
    """Find what our access carries, in both directions."""


class Measurement:
    messages: tuple[type, ...] = (PeersAssigned, ProbeBlock, ProbeAnswered, BlastAsked)
    hears: tuple[type, ...] = (PeerUp, PeerDown, MeasureAccess)
    tells: tuple[type[Signal], ...] = (LinkWanted, LinkUnwanted)

    def __init__(self, node_id: NodeId, params: CollectParams, is_busy: Callable[[], bool] = lambda: False) -> None:
        self.node_id, self.params, self.is_busy = node_id, params, is_busy
        self.linked: dict[NodeId, bool] = {}
        """Whether it is one that we called."""
        self.directory: NodeId = ""
        self.order: list[NodeId] = []
        self.place = self.nonce = 0
        self.is_first_round = True
        self.rates: dict[NodeId, float] = {}
        self.trains: dict[NodeId, tuple[int, float, int]] = {}
        self.asked: dict[int, NodeId] = {}
        self.down_bps = self.up_bps = 0.0
        self.peak: PeakRate | None = None
        self.is_blasting_out = False
        self.blasting: dict[NodeId, float] = {}
        """Whom we send to as much as we can, and until when."""

    def start(self, now: float) -> list[Effect]:
        self.linked.clear()
        self.trains.clear()
        return [SetTimer("probe", now + FIRST_ROUND)] if self.params.probe_period else []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case PeerUp(peer, asked=asked, is_configured=is_configured):
                self.linked[peer] = bool(asked) or is_configured
            case PeerDown(peer):
                self.linked.pop(peer, None)
                self.trains.pop(peer, None)
                self.blasting.pop(peer, None)
            case Received(sender, message) if sender not in self.linked and sender != self.node_id:
                return [Drop(message, NOT_ASKED)]
            case Received(sender, PeersAssigned(peers) as assigned):
                if sender != self.node_id and not self.linked.get(sender):
                    return [Drop(assigned, NOT_ASSIGNED)]
                self.directory = sender
                return self.assigned(now, peers)
            case Received(sender, ProbeBlock() as block):
                return self.probed(now, sender, block)
            case Received(sender, ProbeAnswered(nonce, rate_bps)) if self.asked.get(nonce) == sender:
                del self.asked[nonce]
                self.rates[sender] = rate_bps
                # A path so slow that the round was over before its answer.
                return [self.told()] if self.place == 0 and self.directory else []
            case Received(sender, BlastAsked(seconds)):
                self.blasting[sender] = now + min(seconds, self.params.blast_seconds)
                return [self.filler(sender, place) for place in range(FILLED)]
            case Transferred(("blast", str(peer), int(place)), error):
                if error is None and peer in self.linked and now < self.blasting.get(peer, 0.0):
                    if self.is_blasting_out and self.peak is not None:
                        self.peak.add(now, self.params.block_bytes * 8)
                    return [self.filler(peer, place)]
            case Fired("probe"):
                return self.probe(now)
            case Fired(("blast", stage)):
                return self.blast(now, str(stage))
            case MeasureAccess():
                return self.blast(now, "down") if self.peak is None and not self.is_busy() else [Drop(input, BUSY)]
        return []

    def assigned(self, now: float, peers: tuple[Contact, ...]) -> list[Effect]:
        before = dict.fromkeys(self.order)
        self.order = [contact.node for contact in peers if contact.node != self.node_id]
        self.place, self.is_first_round = 0, True
        new = [contact for contact in peers if contact.node not in before and contact.node != self.node_id]
        effects: list[Effect] = [LinkWanted(contact, USER) for contact in new if contact.node not in self.linked]
        effects += [LinkUnwanted(node, USER) for node in before if node not in self.order]
        if self.params.probe_period and self.order:
            effects.append(SetTimer("probe", now + FIRST_ROUND))
        return effects

    def probe(self, now: float) -> list[Effect]:
        """The next peer, or the end of a round."""
        wait = FIRST_ROUND if self.is_first_round else self.params.probe_period
        if not self.order or self.is_busy():
            return [SetTimer("probe", now + self.params.probe_period)]
        if self.place >= len(self.order):
            self.place, self.is_first_round = 0, False
            return [self.told(), SetTimer("probe", now + self.params.probe_period)]
        peer = self.order[self.place]
        self.place += 1
        effects: list[Effect] = [SetTimer("probe", now + wait)]
        if peer in self.linked:
            self.nonce += 1
            # A train may take longer than the time to the next peer; one that was not answered counts no more.
            self.asked = {nonce: each for nonce, each in self.asked.items() if each != peer and each in self.order}
            self.asked[self.nonce] = peer
            count, filler = self.params.probe_blocks, bytes(self.params.block_bytes)
            effects += [
                Transfer(("probe", self.nonce, place), peer, ProbeBlock(self.nonce, place, count, filler), len(filler))
                for place in range(count)
            ]
        return effects

    def probed(self, now: float, sender: NodeId, block: ProbeBlock) -> list[Effect]:
        if block.count == 0:
            if self.peak is not None and not self.is_blasting_out:
                self.peak.add(now, len(block.filler) * 8)
            return []
        nonce, first, size = self.trains.get(sender, (-1, now, 0))
        if nonce != block.nonce:
            # What the first block brings is not counted: when it was begun is not known.
            self.trains[sender] = (block.nonce, now, 0)
            return []
        size += len(block.filler)
        self.trains[sender] = (nonce, first, size)
        if block.place != block.count - 1:
            return []
        del self.trains[sender]
        rate = size * 8 / max(now - first, 1e-6)
        return [Send(sender, ProbeAnswered(block.nonce, min(rate, 1e14)))]

    def filler(self, peer: NodeId, place: int) -> Transfer:
        filler = bytes(self.params.block_bytes)
        return Transfer(("blast", peer, place), peer, ProbeBlock(0, place, 0, filler), len(filler))

    def blast(self, now: float, stage: str) -> list[Effect]:
        """First all send to us, then we to all."""
        seconds = self.params.blast_seconds
        peers = [peer for peer in self.order if peer in self.linked]
        if stage == "down":
            self.peak = PeakRate(self.params.rate_seconds)
            asked = [Send(peer, BlastAsked(seconds)) for peer in peers]
            return [*asked, SetTimer(("blast", "up"), now + seconds + 1.0)]
        assert self.peak is not None
        if stage == "up":
            self.down_bps = self.peak.peak
            self.peak, self.is_blasting_out = PeakRate(self.params.rate_seconds), True
            self.blasting |= dict.fromkeys(peers, now + seconds)
            fillers = [self.filler(peer, place) for peer in peers for place in range(FILLED)]
            return [*fillers, SetTimer(("blast", "over"), now + seconds + 1.0)]
        self.up_bps = self.peak.peak
        self.peak, self.is_blasting_out = None, False
        return [self.told()] if self.directory else []

    def told(self) -> Send:
        rates = tuple((peer, self.rates[peer]) for peer in self.order if peer in self.rates)
        access = self.up_bps or self.params.up_bps, self.down_bps or self.params.down_bps
        return Send(self.directory, PathsMeasured(rates, *access))

    def check(self) -> None:
        assert 0 <= self.place <= len(self.order)
