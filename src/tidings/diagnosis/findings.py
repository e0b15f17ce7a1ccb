"""Is everything in the tables that should be there, and nothing else?

From what clients want and offer, and from the links, it follows what each broker must have told each neighbour; the
diagnosis computes that and compares it with what was told. For a link from n to m, and the brokers on n's side of it:

    subscription    what anybody on n's side wants must be covered by what n told m
    advertisement   ... of that, what overlaps an advertisement from m's side
    hierarchical    ... only where m is the parent of n
    flooding        nothing is told, and nothing is missing

Brokers that route by destination tell nothing along the way: each has to know every other one, and its way there.

*Missing* is a subscription that no told filter covers: its events stop at m. *Too much* is a told filter that covers
no such subscription: events go where nobody wants them. Covering and merging may tell fewer and wider filters than
there are subscriptions, so filters are compared by what they match.

Tables change while they are read, and brokers are read one after the other. A finding counts when it is still there at
a second look; `lasting` compares two diagnoses.
"""

from collections.abc import Iterable, Iterator

import msgspec

from tidings.diagnosis.network import DESTINATIONS, Network
from tidings.pubsub.rows import SubscriptionRow

FLOODING, HIERARCHICAL, ADVERTISEMENT = "flooding", "hierarchical", "advertisement"
"""The strategies that differ from plain forwarding of subscriptions."""


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as it should be."""

    kind: str
    """One of the words below, for programs."""
    broker: str
    peer: str
    """The other broker or the client that it concerns; may be empty."""
    text: str
    advice: str


UNREACHED = "not reachable"
NOT_PERMITTED = "not permitted"
LINK_DOWN = "link down"
ONE_SIDED = "one-sided link"
NOT_SYNCHRONISED = "not synchronised"
IN_PARTS = "network in parts"
OVERLAYS_DIFFER = "overlays differ"
ALONE = "alone"
LOOP = "loop"
NOT_MIRRORED = "tables differ"
MISSING = "missing"
TOO_MUCH = "too much"
ADVERTISEMENT_MISSING = "advertisement missing"
ADVERTISEMENT_TOO_MUCH = "advertisement too much"
WRONG_HOP = "wrong hop"


def diagnose(network: Network) -> list[Finding]:
    """What is wrong, the most basic first."""
    findings = [*reachability(network), *links(network), *alone(network)]
    parts = network.parts()
    if len(parts) > 1:
        text = "; ".join(", ".join(part) for part in parts)
        findings.append(Finding(IN_PARTS, "", "", f"these brokers do not reach each other: {text}", "link them"))
    findings += overlays(network)
    for part in parts:
        # Brokers that route otherwise turn each other away, so all of a part route alike.
        if network.brokers[part[0]].broker.routing == DESTINATIONS:
            findings += destinations(network, part)
        elif not network.is_tree(part):
            text = f"the links over which {', '.join(part)} route form a loop"
            findings.append(Finding(LOOP, part[0], "", text, "wait for the overlay to settle; restart one of them"))
        else:
            findings += tables(network, part)
    return findings


def destinations(network: Network, part: tuple[str, ...]) -> Iterator[Finding]:
    """Where there are no tables along the way, every broker knows all others and the way to them."""
    for near in part:
        known = network.destinations(near)
        for far in part:
            if far != near and (far not in known or not known[far].hop):
                text = f"{near} {'knows no way to' if far in known else 'does not know'} {far}"
                advice = f"events of clients of {near} do not reach those of {far}; wait, then restart {far}"
                yield Finding(MISSING, near, far, text, advice)


def lasting(before: Iterable[Finding], after: Iterable[Finding]) -> list[Finding]:
    """What is found at both looks."""
    known = {(each.kind, each.broker, each.peer, each.text) for each in before}
    return [each for each in after if (each.kind, each.broker, each.peer, each.text) in known]


# Links.


def overlays(network: Network) -> Iterator[Finding]:
    """Brokers of different kinds of overlay are linked, and never neighbours."""
    kinds = {name: each.broker.overlay for name, each in network.brokers.items() if each.broker.overlay}
    if len(set(kinds.values())) > 1:
        text = "; ".join(f"{name} has {kind}" for name, kind in kinds.items())
        yield Finding(OVERLAYS_DIFFER, next(iter(kinds)), "", text, "give all brokers the same --overlay")


def alone(network: Network) -> Iterator[Finding]:
    """A broker that joins has no links of its own that could be down: it waits, and serves its clients meanwhile."""
    for name, each in network.brokers.items():
        if each.broker.alone:
            text = f"{name} has found none of the brokers that it was to join: {each.broker.alone}"
            yield Finding(ALONE, name, "", text, f"start one of them, or start {name} with another --join")


def reachability(network: Network) -> Iterator[Finding]:
    for each in network.unreached:
        if each in network.departed:
            continue
        name = f"broker {each.broker} at {each.address}" if each.broker else f"the broker at {each.address}"
        why = f", linked with {each.told_by}," if each.told_by else ""
        if each.is_refused:
            text, advice = f"{name}{why} does not let us look: {each.problem}", "use a token with the role admin"
            yield Finding(NOT_PERMITTED, each.broker, each.told_by, text, advice)
        else:
            text, advice = f"{name}{why} is not reachable: {each.problem}", "start it, or take the link out"
            yield Finding(UNREACHED, each.broker, each.told_by, text, advice)


def links(network: Network) -> Iterator[Finding]:
    unreached = {each.broker for each in network.unreached} | {each.address for each in network.unreached}
    for name, reported in network.brokers.items():
        for link in reported.links:
            other = link.broker or link.address
            if not link.is_up and link.is_configured and other not in unreached and link.address not in unreached:
                text = f"{name} has no link to {other}: {link.problem or 'no reason is known'}"
                yield Finding(LINK_DOWN, name, other, text, f"see the log of {name}")
            if not link.is_neighbour or link.broker not in network.brokers:
                continue
            back = [each for each in network.brokers[link.broker].links if each.broker == name]
            if not any(each.is_neighbour for each in back):
                text = f"{name} routes to {link.broker}, but not the other way round"
                yield Finding(ONE_SIDED, name, link.broker, text, f"restart the link: stop and start {name}")
            elif not link.is_synchronised:
                text = f"{name} has not yet been told the whole tables of {link.broker}"
                yield Finding(NOT_SYNCHRONISED, name, link.broker, text, "wait; then look again")


# Tables.


def tables(network: Network, part: tuple[str, ...]) -> Iterator[Finding]:
    for near in part:
        for far in network.neighbours[near]:
            yield from mirror(network, near, far)
            yield from told(network, near, far)
        yield from advertisements(network, near)


def mirror(network: Network, near: str, far: str) -> Iterator[Finding]:
    """What one end says it told must be what the other says it heard."""
    sent, heard = network.told_to(near, far), network.heard_from(far, near)
    advice = f"restart the link between {near} and {far}"
    for text in sorted(set(sent) - set(heard)):
        yield Finding(NOT_MIRRORED, far, near, f"{near} told {far}: {text}; {far} does not have it", advice)
    for text in sorted(set(heard) - set(sent)):
        yield Finding(NOT_MIRRORED, far, near, f"{far} has from {near}: {text}; {near} did not tell it", advice)


def told(network: Network, near: str, far: str) -> Iterator[Finding]:
    sent = dict.fromkeys(network.told_to(near, far))
    wanted = list(relevant(network, near, far))
    for owner, row in wanted:
        if row.filter not in sent and not any(network.covers(text, row.filter) for text in sent):
            text = f"{far} does not know that {row.client} at {owner} wants: {row.filter}"
            advice = f"its events stop at {far}; subscribe again, or restart the link between {near} and {far}"
            yield Finding(MISSING, far, near, text, advice)
    if not is_whole(network, near, far):
        return
    needed = dict.fromkeys(row.filter for _, row in wanted)
    for text in sent:
        if text not in needed and not any(network.covers(text, each) for each in needed):
            advice = "events go where nobody wants them, which costs and does no other harm"
            yield Finding(TOO_MUCH, far, near, f"{far} has from {near} what nobody there wants: {text}", advice)


def is_whole(network: Network, near: str, far: str) -> bool:
    """Whether all brokers on the near side answered; otherwise somebody whom we could not ask may want what is told."""
    return all(
        link.broker in network.brokers
        for name in network.side(near, far)
        for link in network.brokers[name].links
        if link.is_neighbour
    )


def relevant(network: Network, near: str, far: str) -> Iterator[tuple[str, SubscriptionRow]]:
    """What is wanted on the near side and has to be told over the link, with the broker of the one who wants it."""
    strategy = network.brokers[near].broker.strategy
    if strategy == FLOODING or (strategy == HIERARCHICAL and network.brokers[near].broker.parent != far):
        return
    offered = dict.fromkeys(
        row.filter for name in network.side(far, near) for row in network.brokers[name].advertisements if not row.hop
    )
    for name in network.side(near, far):
        for row in network.brokers[name].subscriptions:
            if strategy != ADVERTISEMENT or any(network.overlaps(row.filter, each) for each in offered):
                yield name, row


def advertisements(network: Network, near: str) -> Iterator[Finding]:
    """Every advertisement is known everywhere, from the side on which its publisher is."""
    known = {row.advertisement: row for row in network.brokers[near].advertisements if row.hop}
    for far in network.neighbours[near]:
        for owner in network.side(far, near):
            for row in network.brokers[owner].advertisements:
                if row.hop:
                    continue
                mine = known.pop(row.advertisement, None)
                if mine is None:
                    text = f"{near} does not know that {row.publisher} at {owner} offers: {row.filter}"
                    advice = f"its events do not reach clients of {near}; restart the link between {near} and {far}"
                    yield Finding(ADVERTISEMENT_MISSING, near, owner, text, advice)
                elif mine.hop != far:
                    text = f"{near} takes {mine.hop} for the way to {row.publisher}, but it is {far}"
                    yield Finding(WRONG_HOP, near, far, text, f"restart {near}")
    for row in known.values():
        if row.hop in network.neighbours[near] and is_whole(network, row.hop, near):
            text = f"{near} has from {row.hop} an advertisement that nobody there makes: {row.advertisement}"
            advice = "it costs memory and does no other harm; restart the link to be rid of it"
            yield Finding(ADVERTISEMENT_TOO_MUCH, near, row.hop, text, advice)
