"""The pieces of the index one by one; `tests/properties/test_index.py` holds it against a linear scan as a whole."""

from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from tests.ordering import in_order
from tidings.matching import Index, IndexParams
from tidings.matching.index.records import Breaker, without_holes
from tidings.matching.index.vocabulary import ALWAYS, DIMENSIONS_MAX, TextAtoms, Vocabulary
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language.expression import Attribute, Compare
from tidings.model.language.parser import parse
from tidings.model.sets.constraint import Constraint, above, at_least, between, equal_to, number_set
from tidings.model.sets.patterns import SearchWeight
from tidings.model.sets.texts import TextSet
from tidings.model.values import Value
from tidings.model.work import WORK

INFINITY = float("inf")
ENGINES = ["plain", "fast"]
SMALL = IndexParams(
    chunk_records=8,
    direct_records=2,
    block_records=8,
    waiting_filters=8,
    link_filters=4,
    own_links_max=2,
    learning_records=16,
    learning_events=8,
)


@pytest.fixture(params=ENGINES)
def index(request: pytest.FixtureRequest) -> Index:
    return Index(request.param)


@pytest.fixture(params=ENGINES)
def small_index(request: pytest.FixtureRequest) -> Index:
    return Index(request.param, SMALL)


def both(*constraints: Constraint) -> Filter:
    return Filter((constraints,))


def text(name: str, *strings: str) -> Constraint:
    return Constraint(name, text=TextSet(include=strings))


def at_least_one(name: str, number: float) -> Filter:
    return both(Constraint(name, number=at_least(number)))


# -- text atoms


def test_patterns_are_found_through_beginning_ending_gram_or_trial() -> None:
    atoms = TextAtoms()
    for atom, pattern in enumerate(["ab%", "%yz", "%mno%", "%q%", "a%z"], 1):
        atoms.add_pattern(atom, pattern)
    assert atoms.find("ab mno yz") == [1, 5, 2, 3]
    assert atoms.find("abz") == [1, 5]
    assert atoms.find("qqq") == [4]
    assert atoms.find("") == []


def test_a_long_beginning_is_looked_up_by_its_first_characters_and_then_tried() -> None:
    atoms = TextAtoms()
    atoms.add_pattern(1, "a" * 40 + "%")
    assert atoms.find("a" * 40 + "b") == [1]
    assert atoms.find("a" * 39 + "b") == []


def test_text_atoms_are_empty_again_when_everything_was_removed() -> None:
    atoms = TextAtoms()
    for atom, pattern in enumerate(["ab%", "%yz", "%mno%", "_"], 1):
        atoms.add_pattern(atom, pattern)
    atoms.add_listed(5, ("x", "y"))
    atoms.add_range(6, "m", None)
    for atom, pattern in enumerate(["ab%", "%yz", "%mno%", "_"], 1):
        atoms.remove_pattern(atom, pattern)
    atoms.remove_listed(5, ("x", "y"))
    atoms.remove_range(6)
    assert atoms.is_empty()


# -- vocabulary


def test_equal_conditions_are_one_atom_until_the_last_reference_is_released() -> None:
    vocabulary = Vocabulary(memo_strings=10)
    symbol = vocabulary.attribute("symbol")
    first, second = (vocabulary.texts_atom(symbol, ("IBM",)) for _ in range(2))
    assert first == second
    vocabulary.release(first)
    assert symbol.read("IBM") == (None, (first,))
    vocabulary.release(first)
    assert symbol.read("IBM") == (None, ())
    vocabulary.check()


def test_what_is_remembered_about_a_string_is_forgotten_when_an_atom_of_it_comes() -> None:
    vocabulary = Vocabulary(memo_strings=10)
    symbol = vocabulary.attribute("symbol")
    assert symbol.read("IBM") == (None, ())
    atom = vocabulary.texts_atom(symbol, ("IBM",))
    pattern = vocabulary.atom(symbol, "like", "I%")
    assert symbol.read("IBM") == (None, (atom, pattern))


def test_memory_for_strings_is_bounded() -> None:
    vocabulary = Vocabulary(memo_strings=3)
    symbol = vocabulary.attribute("symbol")
    vocabulary.atom(symbol, "like", "I%")
    for number in range(100):
        symbol.read(f"I{number}")
    assert len(symbol.memo) <= 3


def test_a_number_satisfies_atoms_on_its_number_its_text_and_its_existence() -> None:
    vocabulary = Vocabulary(memo_strings=10)
    size = vocabulary.attribute("size")
    number = vocabulary.atom(size, "numbers", (5,))
    spelled = vocabulary.texts_atom(size, ("5",))
    exists = vocabulary.atom(size, "exists")
    assert in_order(size.read(5.0)[1]) == in_order([number, spelled, exists])
    assert in_order(size.read("05")[1]) == in_order([number, exists])
    assert size.read(True)[1] == (exists,)


# -- records


def test_a_conjunction_becomes_one_record_of_intervals_and_atoms() -> None:
    breaker = Breaker(Vocabulary(memo_strings=10))
    filter = both(Constraint("price", number=between(1, 5)), text("symbol", "IBM"))
    [(dimensions, bounds, atoms)], doubtful = breaker.break_filter(filter)
    assert (dimensions, bounds, len(atoms), doubtful) == ((0,), (1, 5), 1, False)


def test_a_single_number_cut_out_is_an_atom_refused_and_not_two_records() -> None:
    breaker = Breaker(Vocabulary(memo_strings=10))
    records, doubtful = breaker.break_filter(both(Constraint("size", number=equal_to(5).complement())))
    assert [record[:2] for record in records] == [((0,), (-INFINITY, INFINITY))]
    assert [atom < 0 for atom in records[0][2]] == [True] and not doubtful


def test_holes_of_one_number_are_closed_and_others_kept() -> None:
    numbers = equal_to(5).complement() & between(7, 9).complement()
    joined, holes = without_holes(numbers.intervals)
    assert holes == [5] and len(joined) == 2


def test_a_bound_that_is_no_double_makes_the_filter_doubtful_and_its_interval_wider() -> None:
    breaker = Breaker(Vocabulary(memo_strings=10))
    [(_, bounds, _)], doubtful = breaker.break_filter(at_least_one("size", 2**53 + 1))
    assert doubtful and bounds[0] == 2.0**53


def test_an_impossible_conjunction_has_no_record() -> None:
    breaker = Breaker(Vocabulary(memo_strings=10))
    assert breaker.break_filter(both(text("symbol"), Constraint("size", number=above(5)))) == ([], False)


def test_references_of_a_filter_with_several_records_are_all_released() -> None:
    index = Index("plain")
    index.add("k", both(text("symbol", "IBM"), Constraint("size", number=number_set([(1, 2), (5, 6), (8, 9)]))))
    assert index.discard("k")
    assert index.describe()["atoms"] == 1  # ALWAYS
    index.check()


# -- the index


def test_an_added_filter_matches_at_once_and_a_discarded_one_no_more(index: Index) -> None:
    event = Event({"price": 105, "symbol": "IBM"})
    index.add("k", both(Constraint("price", number=above(100)), text("symbol", "AAPL", "IBM")))
    assert index.match(event) == ["k"] and "k" in index and len(index) == 1
    assert index.discard("k") is True
    assert index.match(event) == [] and "k" not in index and len(index) == 0
    assert index.discard("k") is False


def test_adding_a_key_again_replaces_its_filter(index: Index) -> None:
    index.add("k", at_least_one("price", 100))
    index.add("k", at_least_one("price", 10))
    assert index.match(Event({"price": 50})) == ["k"] and len(index) == 1


def test_a_key_that_occurs_twice_in_a_bulk_load_has_its_last_filter(index: Index) -> None:
    index.add_many([("k", at_least_one("price", 10)), ("k", at_least_one("price", 100))])
    assert index.match(Event({"price": 50})) == []
    assert index.match(Event({"price": 500})) == ["k"]


def test_a_filter_that_matches_through_two_conjunctions_is_answered_once(index: Index) -> None:
    index.add("k", Filter(((Constraint("a", number=above(1)),), (Constraint("b", number=above(1)),))))
    event = Event({"a": 2, "b": 2})
    assert index.match(event) == ["k"]
    assert list(index.match_batch([event, event])) == [["k"], ["k"]]


def test_the_filter_without_constraints_matches_every_event_and_the_one_without_conjunctions_none(index: Index) -> None:
    index.add_many([("all", Filter(((),))), ("none", Filter(()))])
    assert index.match(Event({})) == ["all"]
    assert index.match(Event({"x": 1})) == ["all"]


def test_an_absent_attribute_satisfies_no_constraint_negated_or_not(index: Index) -> None:
    index.add("not", both(Constraint("symbol", text=TextSet(exclude=("IBM",)))))
    index.add("unlike", both(Constraint("symbol", text=TextSet(unlikes=("I%",)))))
    index.add("absent", both(Constraint("symbol", present=False)))
    assert index.match(Event({"price": 1})) == ["absent"]
    assert in_order(index.match(Event({"symbol": "AAPL"}))) == ["not", "unlike"]
    assert index.match(Event({"symbol": "IBM"})) == []


def test_integers_beyond_doubles_are_told_apart(index: Index) -> None:
    even, odd = 2**53, 2**53 + 1
    index.add_many((n, both(Constraint("n", number=between(n, n + 1)))) for n in (even, odd))
    assert in_order(index.match(Event({"n": odd}))) == [even, odd]
    assert index.match(Event({"n": even})) == [even]
    assert index.match(Event({"n": even + 2})) == [odd]


def test_a_residual_is_asked_of_candidates_only_and_decides(index: Index) -> None:
    residual = Compare("<", Attribute("hop"), Attribute("ttl"))
    index.add("k", Filter(((Constraint("hop"), Constraint("ttl")),), residual), "north")
    events = [Event({"hop": 1, "ttl": 2}), Event({"hop": 2, "ttl": 1}), Event({"hop": 1})]
    assert list(index.match_batch(events)) == [["k"], [], []]
    assert index.match_links(events) == [["north"], [], []]
    assert [index.match(event) for event in events] == [["k"], [], []]


def test_filters_on_more_attributes_than_there_are_dimensions_are_still_exact(index: Index) -> None:
    index.add_many((n, at_least_one(f"a{n}", 5)) for n in range(DIMENSIONS_MAX + 20))
    last = f"a{DIMENSIONS_MAX + 19}"
    assert index.match(Event({last: 6, "a0": 1})) == [DIMENSIONS_MAX + 19]
    assert index.match(Event({last: 4, "a0": 7})) == [0]


def test_links_are_answered_in_the_order_in_which_they_came(small_index: Index) -> None:
    for number in range(30):
        small_index.add(number, at_least_one("price", number % 3), ["west", "east", "north"][number % 3])
    assert small_index.match_links([Event({"price": 5}), Event({"price": 1}), Event({})]) == [
        ["west", "east", "north"],
        ["west", "east"],
        [],
    ]
    small_index.check()


def test_filters_without_a_link_do_not_count_for_links(index: Index) -> None:
    index.add("k", at_least_one("price", 0))
    assert index.match_links([Event({"price": 5})]) == [[]]
    index.add("l", at_least_one("price", 3), "north")
    assert index.match_links([Event({"price": 5}), Event({"price": 1})]) == [["north"], []]


def test_a_link_whose_filters_are_gone_is_forgotten_and_its_number_used_again(small_index: Index) -> None:
    for turn in range(5):
        small_index.add_many((n, at_least_one("price", n), f"link {turn}") for n in range(12))
        assert small_index.match_links([Event({"price": 50})]) == [[f"link {turn}"]]
        for n in range(12):
            small_index.discard(n)
        small_index.check()
    assert small_index.describe()["links"] == 0


def test_large_links_of_the_fast_engine_get_partitions_of_their_own_and_give_them_back() -> None:
    index = Index("fast", SMALL)
    for n in range(40):
        index.add(n, at_least_one("price", n), n % 5)
        index.check()
    assert index.describe()["partitions"] == 1 + SMALL.own_links_max
    for n in range(40):
        index.discard(n)
        index.check()
    assert not index.engine.partition_of_link


def test_a_thousand_random_filters_survive_growth_and_decline(small_index: Index) -> None:
    rng = Random(7)
    filters = {}
    for n in range(1000):
        low = rng.random()
        number = Constraint(f"n{rng.randrange(4)}", number=between(low, low + rng.choice([0.01, 0.1, 1])))
        filters[n] = both(number, text("s", f"v{rng.randrange(20)}")) if n % 3 else both(number)
    small_index.add_many(filters.items())
    events = [Event({"s": f"v{i % 20}", **{f"n{j}": rng.random() for j in range(4)}}) for i in range(40)]
    while filters:
        for event in events[:5]:
            assert in_order(small_index.match(event)) == [n for n in filters if filters[n].matches(event)]
        expected = [[n for n in filters if filters[n].matches(event)] for event in events]
        assert [in_order(found) for found in small_index.match_batch(events)] == expected
        small_index.check()
        for n in rng.sample(in_order(filters), min(len(filters), 250)):
            del filters[n]
            small_index.discard(n)
    assert small_index.describe()["records"] == 0


def test_new_edges_are_learned_when_events_turn_out_different_from_filters() -> None:
    index = Index("fast", SMALL)
    index.add_many((n, both(Constraint("x", number=between(n, n + 2000)))) for n in range(0, 200))
    engine = index.engine
    for turn in range(40):
        values = [1990 + 0.25 * i + turn for i in range(40)]
        expected = [[n for n in range(200) if n <= value <= n + 2000] for value in values]
        assert [in_order(found) for found in index.match_batch([Event({"x": value}) for value in values])] == expected
        index.check()
    assert not engine.renewing


def test_answers_keep_their_keys_when_the_index_changes_before_they_are_read(index: Index) -> None:
    index.add("old", at_least_one("price", 1))
    matches = index.match_batch([Event({"price": 5})])
    index.discard("old")
    index.add("new", at_least_one("price", 1))
    assert list(matches) == [["old"]]
    assert list(index.match_batch([Event({"price": 5})])) == [["new"]]


def test_matches_are_a_sequence_with_flat_offsets_and_keys(index: Index) -> None:
    index.add_many([(n, at_least_one("price", n)) for n in range(3)])
    matches = index.match_batch([Event({"price": 1}), Event({}), Event({"price": 0})])
    assert len(matches) == 3 and matches[-1] == [0] and matches[0:2] == [[0, 1], []]
    assert list(matches.offsets) == [0, 2, 2, 3] and list(matches.keys) == [0, 1, 0]
    with pytest.raises(IndexError):
        matches[3]


def test_a_batch_without_events_and_an_index_without_filters_answer_nothing(index: Index) -> None:
    assert list(index.match_batch([])) == [] and index.match_links([]) == []
    assert index.match(Event({"a": 1})) == [] and list(index.match_batch([Event({})])) == [[]]


# -- Arrow


def test_arrow_columns_of_every_kind_match_like_events(index: Index) -> None:
    index.add("int", both(Constraint("i", number=between(2**53 + 1, 2**53 + 3))))
    index.add("float", at_least_one("f", 0.5))
    index.add("bool", both(Constraint("b", truth=True)))
    index.add("text", both(text("s", "x")))
    index.add("coded", both(Constraint("d", text=TextSet(likes=("a%",)))))
    index.add("number as text", both(text("i", "7")))
    index.add("text as number", at_least_one("s", 3))
    index.add("absent", both(Constraint("f", present=False)))
    batch = pa.record_batch(
        {
            "i": pa.array([2**53 + 1, 7, None, 2**53]),
            "f": pa.array([0.5, None, 0.25, 1.0]),
            "b": pa.array([True, False, None, True]),
            "s": pa.array(["x", "4", None, "3"]),
            "d": pa.array(["ab", "b", "a", None]).dictionary_encode(),
        }
    )
    answers = [in_order(found) for found in index.match_batch(batch)]
    assert answers == [
        ["bool", "coded", "float", "int", "text"],
        ["absent", "number as text", "text as number"],
        ["coded"],
        ["bool", "float", "text as number"],
    ]
    rows = [Event({k: v for k, v in row.items() if v is not None}) for row in batch.to_pylist()]
    assert [in_order(index.match(row)) for row in rows] == answers
    assert [in_order(found) for found in index.match_batch(pa.Table.from_batches([batch, batch]))] == answers * 2
    assert [in_order(found) for found in index.match_batch(batch.slice(1, 2))] == answers[1:3]


@pytest.mark.parametrize(
    "column",
    [pa.array([float("nan")]), pa.array([INFINITY]), pa.array([2**63], pa.uint64()), pa.array([0], pa.timestamp("s"))],
)
def test_an_arrow_column_that_no_event_could_have_is_refused_by_name(index: Index, column: pa.Array) -> None:
    index.add("k", at_least_one("price", 0))
    with pytest.raises(UsageError, match="price"):
        index.match_batch(pa.record_batch({"price": column}))


# -- building


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(UsageError, match="engine"):
        Index("quick")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong", [{"chunk_records": 100}, {"chunk_records": 1024}, {"direct_records": 0}, {"link_filters": 0}]
)
def test_params_that_contradict_each_other_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        IndexParams(**wrong)


def test_the_plain_engine_imports_neither_numpy_nor_numba(run_python) -> None:  # type: ignore[no-untyped-def]
    run_python(
        "import sys\n"
        "from tidings.matching import Index\n"
        "from tidings.model.event import Event\n"
        "Index('plain').match(Event({'a': 1}))\n"
        "assert not {'numpy', 'numba', 'pyarrow'} & set(sys.modules), sorted(sys.modules)\n"
    )


@pytest.fixture
def run_python():  # type: ignore[no-untyped-def]
    import subprocess
    import sys

    return lambda code: subprocess.run([sys.executable, "-c", code], check=True)


def test_always_is_an_atom_that_no_condition_gets() -> None:
    vocabulary = Vocabulary(memo_strings=10)
    assert vocabulary.atom(vocabulary.attribute("a"), "exists") != ALWAYS


@pytest.mark.parametrize("engine", ENGINES)
def test_a_head_that_was_searched_some_patterns_at_a_time_matches_the_same(engine: Any) -> None:
    def decode(head: bytes) -> Event:
        return Event(msgspec.msgpack.decode(head))

    rng = Random(5)
    filters = [parse(f"a LIKE '%{''.join(rng.choices('ab_', k=6))}%'") for _ in range(60)]
    index = Index(engine, decode=decode)
    for _ in range(10):
        event: dict[str, Value] = {"a": "".join(rng.choices("ab", k=300)), "b": 1}
        head = msgspec.msgpack.encode(event)
        searches = 0
        while not index.search(head, WORK.units + 50):
            searches += 1
            number = rng.randrange(len(filters))
            if number in index:
                index.discard(number)
            else:
                index.add(number, filters[number])
        wanted = [number for number, filter in enumerate(filters) if number in index and filter.matches(Event(event))]
        assert in_order(index.match_heads([head])[0] or ()) == wanted
        for number, filter in enumerate(filters):
            index.add(number, filter)
    assert searches > 1
    assert index.weight != SearchWeight()
    for number in range(len(filters)):
        index.discard(number)
    index.add("asked itself", parse("LOWER(a) LIKE '%x_y%'"))
    assert index.weight.finds > 1
    index.discard("asked itself")
    assert index.weight == SearchWeight()


# -- filters that wait


def test_what_is_gone_before_anybody_asks_is_never_broken() -> None:
    index = Index("plain")
    index.add("few", at_least_one("apples", 1), "north")
    assert index.discard("few") and not len(index)
    assert not index.vocabulary.attributes, "the filter was broken"
    index.add("many", at_least_one("pears", 10), "south")
    assert index.match(Event({"apples": 5, "pears": 12})) == ["many"]
    assert [*index.vocabulary.attributes] == ["pears"]
    index.check()


def test_no_more_filters_wait_than_may() -> None:
    index = Index("plain", SMALL)
    for number in range(20):
        index.add(number, at_least_one("apples", number))
        assert len(index.waiting) <= SMALL.waiting_filters
    assert index.match(Event({"apples": 3})) == [0, 1, 2, 3]


def test_links_keep_the_order_in_which_they_came_although_filters_wait() -> None:
    index = Index("plain")
    index.add("gone", at_least_one("apples", 1), "first")
    index.add("other", at_least_one("apples", 1), "second")
    index.add("stays", at_least_one("apples", 1), "first")
    index.discard("gone")
    assert index.match_links([Event({"apples": 5})]) == [["first", "second"]]
