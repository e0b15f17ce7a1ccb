"""Friendship: a few peers that are near and read what we read, found among thousands by asking friends for theirs.

The problem. A peer that wants a new feed, or has lost its place in a tree, should find somebody near who has it,
without asking the publisher, and without anybody who knows everybody.

The idea. Each peer has up to `friends_max` *friends*, and whoever has it as a friend is its *fan*; that it is not
mutual is what keeps it cheap. Pings carry the names of friends, so everybody hears of friends of friends and friends of
fans. Who is named often is worth a look: once in a while the *candidate* with most votes is *audited*: we ask for its
profile, work out by how much the best exchange of one friend for it would raise the utility of the set (`utility.py`),
and ask it if that is more than `gain`. It accepts if it has room for one more fan. Nobody negotiates, nobody waits for
anybody, and the sets get better until no exchange is worth it.

State. `friends` with what is known of each; `fans`; `candidates`; the audit that is under way, at most one.

Messages. `ProfileAsked`, `ProfileTold`; `FriendAsked`, `FriendAnswered` (with the other's friends, whatever it says);
`FriendRemoved`.

Timers. "audit", in a phase of its own; "unanswered", for the audit under way; ("fan", node), after which a fan is
forgotten.

Takes `PulseHeard`, `PulseAnswered`, `PeerSilent` from the pulse, `CoordinateFixed`, `FeedsChanged`, `NodeMet` and
`AuditsContinual`; tells `FriendsChanged`, `PeerWatched`.

Guaranteed. Friends, fans and candidates are bounded at all times; nobody is its own; with a full set each exchange
raises the utility by more than `gain`, so exchanges end. Not guaranteed: the best set there is. A liar who claims to
read everything from nearby is a friend until it fails to answer: what depends on friends (trees) checks for itself.

Source: peer-to-peer.md 3C with errata X-1 and X-2 (P-28 to P-49).
"""

from random import Random

import msgspec

from tidings.machine.effects import CancelTimer, Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.model.identity import NodeId
from tidings.protocols.feeds.candidates import Candidates
from tidings.protocols.feeds.messages import (
    FeedMessage,
    FriendAnswered,
    FriendAsked,
    FriendRemoved,
    ProfileAsked,
    ProfileTold,
)
from tidings.protocols.feeds.own import OwnStanding
from tidings.protocols.feeds.params import FriendshipParams, PulseParams
from tidings.protocols.feeds.profile import Profile, from_bytes, interests_of, may_read, to_bytes
from tidings.protocols.feeds.utility import Reader, set_utility
from tidings.pubsub.feeds import (
    AuditsContinual,
    CoordinateFixed,
    FeedId,
    FeedsChanged,
    FriendsChanged,
    NodeMet,
    PeerSilent,
    PeerWatched,
    PulseAnswered,
    PulseHeard,
    Versions,
    VersionsSeen,
)

NOT_ASKED = "answers what was not asked, or too late"
OLD_NEWS = "tells an older profile than the one that is known"


class FriendAudit(msgspec.Struct):
    candidate: NodeId
    asked_friendship: bool = False


class Friendship:
    messages: tuple[type, ...] = (ProfileAsked, ProfileTold, FriendAsked, FriendAnswered, FriendRemoved)
    hears: tuple[type, ...] = (
        *(CoordinateFixed, FeedsChanged, VersionsSeen, NodeMet, AuditsContinual),
        *(PulseHeard, PulseAnswered, PeerSilent),
    )
    tells: tuple[type[Signal], ...] = (FriendsChanged, PeerWatched)

    def __init__(self, own: OwnStanding, params: FriendshipParams, pulse: PulseParams, rng: Random) -> None:
        self.own, self.params, self.silence_max, self.rng = own, params, pulse.silence_max, rng
        self.friends: dict[NodeId, Profile] = {}
        self.fans: dict[NodeId, float] = {}
        """With when each was heard last."""
        self.candidates = Candidates(params.candidates_max)
        self.auditing: FriendAudit | None = None
        self.fetching: dict[NodeId, Versions] = {}
        """Friends who have a newer profile, which is asked for."""
        self.is_continual = False
        self.audits = self.exchanges = 0

    def start(self, now: float) -> list[Effect]:
        """Friends of an earlier life are no friends any more: whoever begins a session probes them."""
        self.friends.clear()
        self.fans.clear()
        self.fetching.clear()
        self.auditing, self.is_continual = None, False
        return [SetTimer("audit", now + self.rng.uniform(0.0, self.params.audit_period))]

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(sender, FeedMessage() as message):
                # Who else hears of news is told by the part that received it; here that is ourselves.
                news = [it for seen in self.own.news(sender, message) for it in self.handle(now, seen)]
                return news + self.hear(now, sender, message)
            case Fired("audit"):
                pause = self.params.continual_pause if self.is_continual else self.params.audit_period
                return [SetTimer("audit", now + pause), *self.audit(now)]
            case Fired("unanswered") if self.auditing is not None:
                self.candidates.forget(self.auditing.candidate)
                self.auditing = None
                return self.audit(now) if self.has_room else []
            case Fired(("fan", str(node))):
                self.fans.pop(node, None)
            case PulseHeard() as heard:
                return self.pulse_heard(now, heard)
            case PulseAnswered(node, friends, _, _, is_fan):
                self.hear_all(now, friends)
                return self.drop_friend(now, node) if node in self.friends and not is_fan else []
            case PeerSilent(node):
                self.candidates.forget(node)
                return self.drop_friend(now, node, is_gone=True) if node in self.friends else []
            case VersionsSeen(node, versions) if node in self.friends:
                return self.fetch(node, versions)
            case NodeMet(node):
                self.hear_of(now, node)
            case AuditsContinual(is_on):
                self.is_continual = is_on
                return [SetTimer("audit", now)] if is_on else []
            case CoordinateFixed(place, version):
                self.own.place = place
                self.own.versions = Versions(self.own.versions.interests, version)
            case FeedsChanged(feeds):
                self.own.interests = interests_of(feeds)
                self.own.versions = Versions(self.own.versions.interests + 1, self.own.versions.place)
        return []

    def hear(self, now: float, sender: NodeId, message: object) -> list[Effect]:
        match message:
            case ProfileAsked():
                if not self.own.place:
                    return []
                return [Send(sender, ProfileTold(self.own.versions, to_bytes(self.own.interests), self.own.place))]
            case ProfileTold() as told:
                return self.told(now, sender, told)
            case FriendAsked():
                return self.asked(now, sender)
            case FriendAnswered() as answer:
                return self.answered(now, sender, answer)
            case FriendRemoved():
                self.fans.pop(sender, None)
                return [CancelTimer(("fan", sender))]
        return []

    # Who there is.

    def hear_of(self, now: float, node: NodeId) -> None:
        if node != self.own.node_id and node not in self.friends:
            self.candidates.hear(now, node)

    def hear_all(self, now: float, nodes: tuple[NodeId, ...]) -> None:
        for node in nodes:
            self.hear_of(now, node)

    def pulse_heard(self, now: float, heard: PulseHeard) -> list[Effect]:
        self.hear_all(now, heard.friends)
        if heard.node not in self.fans:
            return []
        self.hear_of(now, heard.node)
        if not heard.as_friend:
            # It gave us up, and its word of it was lost.
            del self.fans[heard.node]
            return [CancelTimer(("fan", heard.node))]
        self.fans[heard.node] = now
        return [SetTimer(("fan", heard.node), now + self.silence_max)]

    # Profiles.

    def fetch(self, node: NodeId, versions: Versions) -> list[Effect]:
        known = self.friends[node].versions
        is_newer = versions.interests > known.interests or versions.place > known.place
        if not is_newer or self.fetching.get(node) == versions:
            return []
        self.fetching[node] = versions
        return [Send(node, ProfileAsked(self.own.versions))]

    def told(self, now: float, sender: NodeId, told: ProfileTold) -> list[Effect]:
        profile = Profile(from_bytes(told.interests), told.place, told.versions)
        if self.auditing is not None and self.auditing.candidate == sender and not self.auditing.asked_friendship:
            candidate = self.candidates.known.get(sender)
            if candidate is None:
                return self.end_audit()
            candidate.profile = profile
            return self.judge(now, sender, profile)
        if sender not in self.fetching:
            return [Drop(told, NOT_ASKED)]
        del self.fetching[sender]
        known = self.friends.get(sender)
        if known is None or told.versions.interests < known.versions.interests:
            return [Drop(told, OLD_NEWS)]
        self.friends[sender] = profile
        return [FriendsChanged(self.friend_names())]

    # Audits.

    @property
    def has_room(self) -> bool:
        return len(self.friends) < self.params.friends_max

    def audit(self, now: float) -> list[Effect]:
        if self.auditing is not None or not self.own.place or not self.own.interests:
            return []
        node = self.candidates.next_audit()
        if node is None:
            return []
        self.audits += 1
        candidate = self.candidates.known[node]
        candidate.audited = True
        self.auditing = FriendAudit(node)
        if candidate.profile is None:
            return [Send(node, ProfileAsked(self.own.versions)), self.patience(now)]
        return self.judge(now, node, candidate.profile)

    def patience(self, now: float) -> SetTimer:
        return SetTimer("unanswered", now + self.params.audit_timeout)

    def end_audit(self) -> list[Effect]:
        self.auditing = None
        return [CancelTimer("unanswered")]

    def judge(self, now: float, node: NodeId, profile: Profile) -> list[Effect]:
        assert self.auditing is not None
        if not self.has_room and self.victim_for(profile) is None:
            return self.end_audit()
        self.auditing.asked_friendship = True
        return [Send(node, FriendAsked(self.own.versions)), self.patience(now)]

    def victim_for(self, profile: Profile) -> NodeId | None:
        """Whom to exchange for it, if that is worth it."""
        own, law = self.own.interests, self.params.law
        readers = {node: self.reader(known) for node, known in self.friends.items()}
        new = self.reader(profile)
        base = set_utility(own, list(readers.values()), law)
        best, victim = max(
            (set_utility(own, [*(it for other, it in readers.items() if other != node), new], law), node)
            for node in readers
        )
        return victim if best > (1 + self.params.gain) * base else None

    def reader(self, profile: Profile) -> Reader:
        return Reader(profile.interests, self.own.distance(profile.place))

    def asked(self, now: float, sender: NodeId) -> list[Effect]:
        self.hear_of(now, sender)
        is_accepted = sender in self.fans or len(self.fans) < self.params.fans_max
        answer = FriendAnswered(self.own.versions, is_accepted, self.friend_names())
        if not is_accepted:
            return [Send(sender, answer)]
        self.fans[sender] = now
        return [Send(sender, answer), SetTimer(("fan", sender), now + self.silence_max)]

    def answered(self, now: float, sender: NodeId, answer: FriendAnswered) -> list[Effect]:
        self.hear_all(now, answer.friends)
        audit = self.auditing
        if audit is None or audit.candidate != sender or not audit.asked_friendship:
            is_wanted = sender in self.friends or not answer.is_accepted
            removed = [] if is_wanted else [Send(sender, FriendRemoved(self.own.versions))]
            return [Drop(answer, NOT_ASKED), *removed]
        ended = self.end_audit()
        candidate = self.candidates.known.get(sender)
        if not answer.is_accepted:
            return [*ended, *(self.audit(now) if self.has_room else [])]
        # Since it was asked, the set may have changed.
        profile = candidate.profile if candidate is not None else None
        victim = None if self.has_room or profile is None else self.victim_for(profile)
        if profile is None or (victim is None and not self.has_room):
            return [*ended, Send(sender, FriendRemoved(self.own.versions))]
        self.exchanges += 1
        removed = []
        if victim is not None:
            removed = [Send(victim, FriendRemoved(self.own.versions))]
            self.remove(now, victim)
        self.candidates.forget(sender)
        self.friends[sender] = profile
        self.candidates.reset()
        more = self.audit(now) if self.is_continual else []
        return [*ended, *removed, PeerWatched(sender), FriendsChanged(self.friend_names()), *more]

    def remove(self, now: float, node: NodeId, is_gone: bool = False) -> None:
        profile = self.friends.pop(node)
        self.fetching.pop(node, None)
        if not is_gone:
            self.candidates.keep(now, node, profile)

    def drop_friend(self, now: float, node: NodeId, is_gone: bool = False) -> list[Effect]:
        self.remove(now, node, is_gone)
        self.candidates.reset()
        return [FriendsChanged(self.friend_names()), *self.audit(now)]

    # What other parts read.

    def friend_names(self) -> tuple[NodeId, ...]:
        return tuple(self.friends)

    def is_fan(self, node: NodeId) -> bool:
        return node in self.fans

    def covering(self, feed: FeedId) -> list[NodeId]:
        """Friends who read it, as far as their filters tell, the nearest first."""
        near = [
            (self.own.distance(it.place), node) for node, it in self.friends.items() if may_read(it.interests, feed)
        ]
        return [node for _, node in sorted(near)]

    def check(self) -> None:
        params, own = self.params, self.own.node_id
        assert len(self.friends) <= params.friends_max, "more friends than alpha"
        assert len(self.fans) <= params.fans_max, "more fans than twice alpha"
        assert len(self.candidates) <= params.candidates_max, "more candidates than may be"
        assert own not in self.friends and own not in self.fans and own not in self.candidates, "knows itself"
        assert not self.friends.keys() & self.candidates.known.keys(), "a friend is a candidate"
        assert self.fetching.keys() <= self.friends.keys(), "fetches of somebody who is no friend"
