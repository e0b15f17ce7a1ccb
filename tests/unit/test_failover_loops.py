"""What goes around a failure does not go round for ever: how long names are remembered (dependable.md 3.3.4, S-38)."""

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.machine.effects import Effect, Send
from tidings.machine.message import Contact, Message
from tidings.model.bounds import GOSSIP_HOPS_MAX
from tidings.protocols.gossip.failover.messages import GossipPublications
from tidings.protocols.gossip.failover.params import FailoverParams
from tidings.protocols.gossip.failover.propagation import GossipPropagation
from tidings.pubsub.publications import Publications, encode_head

HOPS = GOSSIP_HOPS_MAX
"""Enough to go around these networks more than once, where nothing is remembered."""


class NothingPassed:
    def has_passed(self, advertisement: str, number: int) -> bool:
        return False


def send(contact: Contact, message: Message) -> list[Effect]:
    return [Send(contact.node, message)]


def publication(number: int) -> Publications:
    return Publications("p", "p/1@a", 0.0, 0, (number,), (encode_head({"k": number}),), (b"",))


def told_on(views: dict[str, list[str]], publications: int, remembered: int) -> Counter[tuple[str, int]]:
    """How often each broker tells each publication on. One is stranded at the first broker each tick, and one tick is
    what a message takes from one broker to the next."""
    params = FailoverParams(hops=HOPS, relays_max=remembered)
    parts = {name: GossipPropagation(name, params, NothingPassed(), send) for name in views}
    told: Counter[tuple[str, int]] = Counter()
    first = next(iter(views))
    under_way: deque[tuple[str, GossipPublications]] = deque()
    for tick in range(publications + HOPS):
        arriving, under_way = under_way, deque()
        effects: list[tuple[str, list[Effect]]] = []
        if tick < publications:
            contacts = [Contact(other) for other in views[first]]
            effects.append((first, parts[first].strand(publication(tick + 1), "f", True, (), contacts)))
        for name, message in arriving:
            effects.append((name, parts[name].hear(message, [Contact(other) for other in views[name]])))
        for name, made in effects:
            for each in made:
                if isinstance(each, Send) and isinstance(each.message, GossipPublications):
                    under_way.append((each.to, each.message))
            passed = [number for each in made if isinstance(each, Send) for number in numbers_of(each.message)]
            told.update((name, number) for number in dict.fromkeys(passed))
    for part in parts.values():
        part.check()
    return told


def numbers_of(message: Message) -> tuple[int, ...]:
    return message.batch.numbers if isinstance(message, GossipPublications) else ()


def ring(size: int) -> dict[str, list[str]]:
    return {f"b{place}": [f"b{(place + 1) % size}"] for place in range(size)}


@pytest.mark.spec("S-38")
@pytest.mark.parametrize("size", [2, 3, 4])
def test_what_is_remembered_for_as_long_as_it_takes_around_the_ring_goes_around_it_once(size: int) -> None:
    told = told_on(ring(size), publications=40, remembered=size + 1)
    assert set(told.values()) == {1} and len(told) == 40 * size


@pytest.mark.parametrize("size", [3, 4])
def test_what_is_forgotten_sooner_goes_round_until_its_hops_are_spent(size: int) -> None:
    told = told_on(ring(size), publications=40, remembered=size - 2)
    assert max(told.values()) == -(-HOPS // size)


@st.composite
def random_views(draw: st.DrawFn) -> dict[str, list[str]]:
    names = [f"b{place}" for place in range(draw(st.integers(2, 7)))]
    return {name: draw(st.lists(st.sampled_from(names), max_size=4, unique=True)) for name in names}


@pytest.mark.spec("S-38")
@given(views=random_views(), publications=st.integers(1, 12))
def test_whatever_the_views_are_nobody_tells_a_publication_on_twice(
    views: dict[str, list[str]], publications: int
) -> None:
    """A message is under way at most as many ticks as there are brokers before everybody has told it on."""
    told = told_on(views, publications, remembered=len(views) + 1)
    assert not told or max(told.values()) == 1
