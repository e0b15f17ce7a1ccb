"""A link that breaks and comes back: both ends end with the same tables, and nothing is told that was known."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.brokers import BrokerWorld
from tidings.model.language.parser import parse
from tidings.protocols.routing.messages import AdvertisementAdded, SubscriptionAdded, TableChanges
from tidings.protocols.routing.packets import changes_of
from tidings.protocols.routing.params import ReductionName, RoutingParams
from tidings.protocols.routing.router import Router
from tidings.pubsub.signals import Known, Offer, Unoffer, Unwant, Want

seeds = st.integers(0, 2**32)
NUMBERS = 400
"""Filters that may be wanted at each end."""


class Pair:
    """Two brokers with one link. Everything that can be wanted at one of them is offered at the other."""

    def __init__(self, rng: Random, reduction: ReductionName, checks: bool = True, **params: int) -> None:
        self.rng, self.reduction, self.params = rng, reduction, params
        self.routers = {name: self.make(name) for name in "ab"}
        self.world = BrokerWorld(dict(self.routers), rng, checks=checks)
        self.told: list[tuple[str, object]] = []
        """What was told since `listen`, unpacked, with its teller."""
        self.world.watch = self.watch
        self.world.link("a", "b")
        for name, attribute in (("a", "y"), ("b", "x")):
            self.world.tell(name, Offer(name, name, parse(f"{attribute} >= 0")))
        self.world.run(rng.randrange(10))

    def make(self, name: str) -> Router:
        return Router(name, RoutingParams(reduction=self.reduction, engine="plain", **self.params))  # type: ignore[arg-type]

    def watch(self, sender: str, to: str, message: object) -> None:
        self.told += [(sender, it) for it in (changes_of(message) if isinstance(message, TableChanges) else [message])]

    def want(self, name: str, number: int) -> None:
        attribute = "x" if name == "a" else "y"
        self.world.tell(name, Want((name, number), parse(f"{attribute} = {number}")))

    def change(self, count: int) -> None:
        for _ in range(count):
            name, number = self.rng.choice("ab"), self.rng.randrange(NUMBERS)
            if (name, number) in self.routers[name].tables.local:
                self.world.tell(name, Unwant((name, number)))
            else:
                self.want(name, number)

    def break_link(self) -> None:
        self.world.cut("a", "b")
        for name, other in ("ab", "ba"):
            self.world.hear(name, other)

    def mend_link(self) -> None:
        self.world.link("a", "b")

    def restart(self, name: str) -> None:
        self.routers[name] = self.make(name)
        self.world.crash(name, self.routers[name])

    def go_on(self, steps: int) -> None:
        for _ in range(steps):
            self.world.go_on()

    def check(self) -> None:
        for name, other in ("ab", "ba"):
            there, here = self.routers[other].tables, self.routers[name].links[other]
            assert there.texts[name].keys() == here.filters.keys()
            assert there.offers_of[name].keys() == here.advertisements.keys()
            assert not there.absent
            assert self.routers[name].hop_toward(other) == other
        told = self.routers["a"].links["b"].filters
        if self.reduction == "plain":
            assert told.keys() == self.routers["a"].tables.texts[None].keys()

    def filters_told(self) -> list[tuple[str, str]]:
        return [(name, each.filter) for name, each in self.told if isinstance(each, SubscriptionAdded)]


def narrow(rng: Random) -> dict[str, int]:
    window = rng.choice([700, 5000, 100_000])
    return {
        "turn_entries": rng.choice([2, 16, 128]),
        "tables_window_bytes": window,
        "changes_bytes_max": window * rng.choice([1, 8]),
    }


@pytest.mark.parametrize("reduction", ["plain", "covering", "merging"])
@given(seed=seeds)
def test_after_breaks_and_restarts_at_any_moment_both_ends_have_the_same_tables(
    reduction: ReductionName, seed: int
) -> None:
    rng = Random(seed)
    pair = Pair(rng, reduction, True, **narrow(rng))
    pair.change(rng.randrange(60))
    for _ in range(rng.randint(1, 5)):
        pair.go_on(rng.choice([0, 3, 30, 300]))
        if rng.random() < 0.25:
            name = rng.choice("ab")
            pair.restart(name)
            pair.world.hear("b" if name == "a" else "a", name)
            pair.world.tell(name, Offer(name, name, parse("y >= 0" if name == "a" else "x >= 0")))
        else:
            pair.break_link()
        pair.change(rng.randrange(10))
        pair.go_on(rng.choice([0, 0, 5, 100]))
        pair.mend_link()
        pair.change(rng.randrange(10))
    pair.world.settle()
    pair.check()


@given(seed=seeds)
def test_what_is_known_at_both_ends_is_not_told_again(seed: int) -> None:
    rng = Random(seed)
    pair = Pair(rng, rng.choice(["plain", "covering"]), True, **narrow(rng))
    pair.change(rng.randrange(200))
    pair.world.settle()
    pair.world.heard.clear()
    for _ in range(2):
        pair.break_link()
        pair.told.clear()
        pair.mend_link()
        pair.world.settle()
        pair.check()
        assert not pair.filters_told()
        assert not any(isinstance(each, AdvertisementAdded) for _, each in pair.told)
    again = [(name, signal.advertisement) for name, signal in pair.world.heard if isinstance(signal, Known)]
    assert sorted(again) == [("a", "b"), ("a", "b"), ("b", "a"), ("b", "a")], "delivery asks for what it lacks"


@given(seed=seeds)
def test_what_changed_during_a_break_is_told_with_its_part_of_the_table(seed: int) -> None:
    rng = Random(seed)
    pair = Pair(rng, "plain", False, **narrow(rng))
    for number in range(300):
        pair.want("a", number)
    pair.world.settle()
    pair.break_link()
    pair.told.clear()
    changed = rng.randrange(1, 4)
    for number in rng.sample(range(300), changed):
        pair.world.tell("a", Unwant(("a", number)))
    for number in range(300, 300 + changed):
        pair.want("a", number)
    pair.mend_link()
    pair.world.settle()
    pair.check()
    assert changed <= len(pair.filters_told()) < 300 // 2, "some parts of a table of about twenty"


@given(seed=seeds)
def test_a_table_that_was_told_to_the_middle_is_told_from_there(seed: int) -> None:
    rng = Random(seed)
    pair = Pair(rng, "plain", False, turn_entries=16, tables_window_bytes=4000, changes_bytes_max=8000)
    pair.world.settle()
    pair.break_link()
    for number in range(300):
        pair.want("a", number)
    pair.mend_link()
    while len(pair.routers["b"].tables.texts.get("a", ())) < 150:
        assert pair.world.go_on()
    pair.break_link()
    held = set(pair.routers["b"].tables.texts["a"])
    pair.told.clear()
    pair.mend_link()
    pair.world.settle()
    pair.check()
    again = [text for name, text in pair.filters_told() if name == "a" and text in held]
    assert len(again) < 40, "those of parts that were told half"


def test_who_does_not_come_back_is_forgotten_in_turns() -> None:
    pair = Pair(Random(1), "covering", turn_entries=16)
    for number in range(200):
        pair.want("a", number)
    pair.world.settle()
    pair.break_link()
    pair.world.rest()
    b = pair.routers["b"]
    assert len(b.tables.texts["a"]) == 200 and not b.links
    pair.world.tell("b", Unoffer("b"))
    lengths = []
    while pair.world.go_on():
        lengths.append(len(b.tables.texts.get("a", ())))
        b.check()
    assert b.tables.texts.keys() == {None} and not b.tables.absent and not b.departures.is_under_way
    assert max(before - after for before, after in pairwise(lengths)) <= 16
    assert not pair.routers["a"].state.covers.filters
