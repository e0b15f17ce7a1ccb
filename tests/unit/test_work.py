"""Work is counted, and questions about filters have a limit, behind which they are answered on the safe side."""

from random import Random

from tests.worlds.edge import subscription
from tidings.machine.inputs import LinkUp, Received
from tidings.machine.message import Message
from tidings.model.language.parser import parse
from tidings.model.sets.texts import LISTED_UNITS
from tidings.model.work import ENDLESS, UNITS_PER_MS, WORK, limited
from tidings.nodes.broker import QUESTION_UNITS_MAX, BrokerNode, BrokerParams
from tidings.protocols.access.messages import Attach
from tidings.protocols.delivery.messages import Advertise
from tidings.protocols.routing.covering import Covers

APART = parse("a LIKE '%a____________________'"), parse("a LIKE '%b____________________'")
"""Two that do not overlap, though it takes more states to see it than anybody looks at."""

NARROW, WIDE = parse("a LIKE 'x%yy_'"), parse("a LIKE 'x%y_'")


def test_a_search_counts_its_steps_and_stops_at_the_limit() -> None:
    before, cut = WORK.units, WORK.cut_short
    with limited(UNITS_PER_MS):
        assert APART[0].overlaps(APART[1])
    assert UNITS_PER_MS <= WORK.units - before < 1.1 * UNITS_PER_MS
    assert WORK.cut_short == cut + 1
    assert WORK.limit == ENDLESS


def test_behind_the_limit_patterns_do_not_cover_and_may_overlap() -> None:
    assert WIDE.covers(NARROW)
    assert not parse("a LIKE '%x'").overlaps(parse("a LIKE '%y'"))
    with limited(0):
        cut = WORK.cut_short
        assert not WIDE.covers(NARROW)
        assert parse("a LIKE '%x'").overlaps(parse("a LIKE '%y'"))
        assert WORK.cut_short > cut


def test_other_questions_stay_exact_behind_the_limit() -> None:
    with limited(0):
        assert parse("a > 1").covers(parse("a > 2"))
        assert not parse("a > 1 AND b LIKE '%x%'").overlaps(parse("a < 1 AND b LIKE '%y%'"))
        assert not parse("a IN ('x', 'y')").overlaps(parse("a LIKE '%z'"))
        assert not parse("a LIKE 'x%'").overlaps(parse("a LIKE 'y%'"))


def test_a_filter_read_behind_the_limit_is_the_same_and_costs_nothing() -> None:
    text = "NOT (a LIKE '%q___r%' AND a LIKE '%r___q%') AND a LIKE 'behind%the%limit__'"
    with limited(0):
        before = WORK.units
        inside = parse(text + " AND b = 1")
        assert WORK.units == before
    assert inside == parse(text) & parse("b = 1")


def test_covers_that_are_not_looked_for_are_not_found() -> None:
    covers = Covers()
    covers.enter("wide", WIDE)
    assert covers.find_cover("narrow", NARROW, {"wide"}) == "wide"
    with limited(0):
        assert covers.find_cover("narrow", NARROW, {"wide"}) is None


def test_comparing_unions_ends_where_it_takes_too_long_and_the_answer_is_no() -> None:
    narrow = parse("x > 0 AND x < 1000 AND y > 0 AND y < 1000")
    wide = parse(" OR ".join(f"(x > {n} AND x < {n + 20} AND y > {n} AND y < {n + 15})" for n in range(0, 160, 10)))
    before = WORK.units
    wide.covers(narrow)
    whole = WORK.units - before
    with limited(whole // 4):
        before, cut_short = WORK.units, WORK.cut_short
        assert not wide.covers(narrow)
        assert WORK.units - before < whole // 2
        assert WORK.cut_short > cut_short


def test_a_step_of_a_broker_with_many_hostile_filters_has_a_bound_and_says_how_often_it_was_reached() -> None:
    node = BrokerNode("a", BrokerParams(), Random(1))
    node.start(0.0)
    costs = []

    def say(client: str, message: Message) -> None:
        before = WORK.units
        node.handle(1.0, Received(client, message))
        costs.append(WORK.units - before)

    for client in ("s", "p"):
        node.handle(0.0, LinkUp(client, 1))
        say(client, Attach("client", b""))
    for number in range(60):
        say("s", subscription(number + 1, f"a LIKE '%a{'_' * (20 + number)}'"))
    for number in range(10):
        say("p", Advertise(number + 1, f"a LIKE '%b{'_' * (20 + number)}'"))
    assert max(costs) > QUESTION_UNITS_MAX, "nothing here was dear; make it more hostile"
    assert max(costs) < 2 * QUESTION_UNITS_MAX
    gauges = {gauge.name: gauge.value for gauge in node.gauges()}
    assert gauges["questions_cut_short"] == node.questions_cut_short > 0
    assert WORK.limit == ENDLESS


def test_comparing_long_lists_counts_as_work() -> None:
    one, other = (parse(f"a IN ({', '.join(repr(f'w{n}') for n in range(begin, begin + 120))})") for begin in (0, 60))
    for compare in (one.overlaps, one.covers):
        before = WORK.units
        compare(other)
        assert WORK.units - before > 120 * LISTED_UNITS / 2
