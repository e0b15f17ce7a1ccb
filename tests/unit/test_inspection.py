"""A broker answers questions about itself: who may ask, what it says, page by page."""

import msgspec
import pytest

from tidings.machine.effects import Deliver, Drop, Send
from tidings.machine.inputs import Input, LinkDown, LinkUp, Received
from tidings.model.bounds import REPORT_ROWS_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.model.language.parser import parse
from tidings.protocols.inspection.clients import NOT_ASKED, Inquirer, InspectAnswer, InspectRequest
from tidings.protocols.inspection.inspection import (
    BAD_REPORT,
    NO_SUCH_CLIENT,
    Inspection,
    InspectionParams,
)
from tidings.protocols.inspection.messages import Inspect, Report, TransportReport
from tidings.pubsub.notes import RequestRefused
from tidings.pubsub.rows import (
    BrokerRow,
    ClientRow,
    CounterRow,
    LinkRow,
    TransportRow,
)
from tidings.pubsub.signals import (
    LET_GO,
    ClientDown,
    ClientUp,
    LinkFailed,
    NeighbourDown,
    NeighbourUp,
    PeerDown,
    PeerUp,
)

OWN = BrokerRow(broker="b1", listen="127.0.0.1:7411", http="127.0.0.1:9411")


def make(**more: object) -> Inspection:
    made = Inspection(lambda: OWN, **{"is_open": True, **more})  # type: ignore[arg-type]
    made.start(0.0)
    return made


def rows(inspection: Inspection, table: str, kind: type, client: str = "ann") -> list[object]:
    """All rows of a table, as a client reads them."""
    inspection.handle(1.0, ClientUp(client, client))
    found: list[object] = []
    row = 0
    while True:
        (sent,) = inspection.handle(1.0, Received(client, Inspect(5, table, "", row)))
        assert isinstance(sent, Send) and sent.to == client
        assert sent.message.problem == ""
        found += msgspec.json.decode(sent.message.rows, type=list[kind])  # type: ignore[valid-type]
        inspection.check()
        row = sent.message.row_next
        if not row:
            return found


def problem(inspection: Inspection, client: str, table: str = "broker", row: int = 0) -> str:
    sent = inspection.handle(1.0, Received(client, Inspect(1, table, "", row)))[-1]
    assert isinstance(sent, Send)
    return str(sent.message.problem)


def test_the_broker_tells_about_itself() -> None:
    assert rows(make(), "broker", BrokerRow) == [OWN]


def test_a_broker_that_comes_up_is_remembered_with_its_address() -> None:
    inspection = make(configured=["@127.0.0.1:7412", "@127.0.0.1:7413"])
    inspection.handle(1.0, LinkUp("b2", 1, "@127.0.0.1:7412"))
    inspection.handle(1.0, LinkDown("@127.0.0.1:7413", 0, "refused"))
    assert inspection.handle(1.0, PeerUp("b2", 1, address="127.0.0.1:7412")) == []
    inspection.handle(1.0, NeighbourUp("b2", 1))
    waiting = LinkRow(address="127.0.0.1:7413", is_configured=True, problem="refused")
    known = LinkRow(
        broker="b2",
        address="127.0.0.1:7412",
        is_configured=True,
        is_up=True,
        is_neighbour=True,
        is_synchronised=True,
    )
    assert rows(inspection, "links", LinkRow) == [known, waiting]


def test_a_broker_that_is_gone_is_still_shown_with_the_reason() -> None:
    inspection = make()
    for signal in (PeerUp("b2", 1), NeighbourUp("b2", 1), NeighbourDown("b2", 1), PeerDown("b2", 1, "it broke")):
        inspection.handle(1.0, signal)
        inspection.check()
    assert rows(inspection, "links", LinkRow) == [LinkRow(broker="b2", problem="it broke")]
    inspection.handle(2.0, LinkDown("b2", 1, "connection refused"))
    assert rows(inspection, "links", LinkRow) == [LinkRow(broker="b2", problem="connection refused")]


def test_a_link_that_was_asked_for_at_run_time_and_is_gone_is_shown_with_the_reason() -> None:
    inspection = make()
    for signal in (PeerUp("b2", 1, address="h:1"), PeerDown("b2", 1, "it broke"), LinkFailed("b2", "no answer")):
        inspection.handle(1.0, signal)
    assert rows(inspection, "links", LinkRow) == [LinkRow(broker="b2", address="h:1", problem="no answer")]


@pytest.mark.parametrize("is_told_first", [True, False])
def test_a_link_that_both_ends_let_go_has_no_problem_whichever_news_of_it_comes_first(is_told_first: bool) -> None:
    inspection = make()
    inspection.handle(1.0, PeerUp("b2", 1))
    news: list[Input] = [PeerDown("b2", 1, LET_GO), LinkDown("b2", 1, LET_GO)]
    for input in news if is_told_first else reversed(news):
        inspection.handle(2.0, input)
    assert rows(inspection, "links", LinkRow) == [LinkRow(broker="b2")]


def test_of_too_many_brokers_the_first_that_is_gone_is_forgotten() -> None:
    inspection = make(params=InspectionParams(brokers_max=2))
    for name in ("b2", "b3"):
        inspection.handle(1.0, PeerUp(name, 1))
    inspection.handle(1.0, PeerDown("b3", 1))
    inspection.handle(1.0, PeerUp("b4", 1))
    assert list(inspection.others.links) == ["b2", "b4"]


def test_clients_are_those_that_the_signals_told() -> None:
    inspection = make()
    inspection.handle(1.0, ClientUp("bob", "robert", parse("a = 1"), None, ("admin",)))
    assert rows(inspection, "clients", ClientRow) == [
        ClientRow(client="bob", principal="robert", roles=("admin",), publish_bound="a = 1"),
        ClientRow(client="ann", principal="ann"),
    ]


def test_only_admins_may_ask_unless_the_broker_is_open() -> None:
    inspection = make(is_open=False)
    inspection.handle(1.0, ClientUp("ann", "ann"))
    inspection.handle(1.0, ClientUp("root", "root", roles=("admin",)))
    reason = "not permitted: this needs a token with the role admin"
    note = inspection.handle(1.0, Received("ann", Inspect(1, "broker", "", 0)))[0]
    assert note == RequestRefused("ann", "ann", "inspect", reason)
    assert problem(inspection, "ann") == reason
    assert problem(inspection, "root") == ""


def test_somebody_who_is_not_attached_gets_no_answer() -> None:
    question = Inspect(1, "broker", "", 0)
    assert make().handle(1.0, Received("eve", question)) == [Drop(question, NO_SUCH_CLIENT)]


def test_clients_tell_of_their_transports_and_the_broker_says_whose_it_is() -> None:
    inspection = make()
    inspection.handle(1.0, ClientUp("bob", "bob"))
    told = TransportRow(client="not bob", kind="stream", publisher="pub", lost=3)
    report = TransportReport(msgspec.json.encode([told]))
    assert inspection.handle(1.0, Received("bob", report)) == []
    assert rows(inspection, "transport", TransportRow) == [msgspec.structs.replace(told, client="bob")]
    latest = TransportReport(b'[{"kind":"client","a column of tomorrow":1}]')
    assert inspection.handle(2.0, Received("bob", latest)) == []
    assert rows(inspection, "transport", TransportRow) == [TransportRow(client="bob", kind="client")]
    inspection.handle(3.0, ClientDown("bob"))
    assert rows(inspection, "transport", TransportRow) == []


@pytest.mark.parametrize("text", [b"", b"[1]", b'[{"lost":3}]', b'[{"kind":"x"}' + b',{"kind":"x"}' * 100 + b"]"])
def test_a_report_that_is_none_is_dropped(text: bytes) -> None:
    inspection = make()
    inspection.handle(1.0, ClientUp("bob", "bob"))
    report = TransportReport(text)
    assert inspection.handle(1.0, Received("bob", report)) == [Drop(report, BAD_REPORT)]
    assert inspection.handle(1.0, Received("eve", report)) == [Drop(report, NO_SUCH_CLIENT)]
    assert rows(inspection, "transport", TransportRow) == []


def test_an_unknown_table_is_answered_with_those_that_there_are() -> None:
    inspection = make(views={"counters": lambda argument: []})
    inspection.handle(1.0, ClientUp("ann", "ann"))
    answer = problem(inspection, "ann", "cutlery")
    assert answer == ("there is no table 'cutlery' here; there are broker, links, clients, transport, counters")


def test_a_long_table_comes_in_pages_that_are_of_one_moment() -> None:
    many = [CounterRow(name=f"{number:06}" + "x" * 2000, value=number) for number in range(300)]
    inspection = make(views={"counters": lambda argument: many})
    inspection.handle(1.0, ClientUp("ann", "ann"))
    (first,) = inspection.handle(1.0, Received("ann", Inspect(1, "counters", "", 0)))
    assert isinstance(first, Send)
    assert 0 < first.message.row_next < 300
    assert len(first.message.rows) <= REPORT_ROWS_BYTES_MAX
    assert rows(inspection, "counters", CounterRow) == many


def test_a_row_that_fits_no_report_is_left_out() -> None:
    wide = [CounterRow(name="x" * REPORT_ROWS_BYTES_MAX, value=0), CounterRow(name="y", value=1)]
    assert rows(make(views={"counters": lambda argument: wide}), "counters", CounterRow) == wide[1:]


def test_a_table_beyond_its_bound_is_refused_and_not_cut() -> None:
    many = [CounterRow(name="x", value=0)] * 4
    inspection = make(views={"counters": lambda argument: many}, params=InspectionParams(rows_max=3))
    inspection.handle(1.0, ClientUp("ann", "ann"))
    assert problem(inspection, "ann", "counters") == "the table has more than 3 rows; raise inspection.rows_max"
    inspection.check()
    assert len(rows(make(views={"counters": lambda argument: many}), "counters", CounterRow)) == 4


def test_the_oldest_look_is_given_up_for_a_new_one_and_its_reader_is_told() -> None:
    many = [CounterRow(name="x" * 2000, value=number) for number in range(300)]
    inspection = make(views={"counters": lambda argument: many}, params=InspectionParams(looks_max=1))
    for client in ("ann", "bob"):
        inspection.handle(1.0, ClientUp(client, client))
        assert problem(inspection, client, "counters") == ""
        inspection.check()
    assert problem(inspection, "ann", "counters", 5).startswith("the table was put away")
    inspection.handle(1.0, ClientDown("bob"))
    inspection.check()


@pytest.mark.parametrize("name", ["rows_max", "looks_max", "brokers_max"])
def test_every_bound_leaves_room(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        InspectionParams(**{name: 0})


def test_a_machine_that_asks_gets_all_pages_of_one_answer_after_the_other() -> None:
    asking = Inquirer()
    asking.start(0.0)
    assert asking.handle(0.0, InspectRequest("b1", "links")) == [Send("b1", Inspect(1, "links", "", 0))]
    assert asking.handle(0.0, InspectRequest("b1", "event", "p/7")) == []
    assert asking.handle(0.0, Received("b1", Report(1, b"[1]", 1, ""))) == [Send("b1", Inspect(2, "links", "", 1))]
    assert asking.handle(0.0, Received("b1", Report(2, b"[2]", 0, ""))) == [
        Deliver(InspectAnswer(InspectRequest("b1", "links"), (b"[1]", b"[2]"))),
        Send("b1", Inspect(3, "event", "p/7", 0)),
    ]
    asking.check()
    assert asking.handle(0.0, Received("b1", Report(3, b"[]", 0, "no"))) == [
        Deliver(InspectAnswer(InspectRequest("b1", "event", "p/7"), problem="no"))
    ]


def test_a_link_that_breaks_ends_the_questions() -> None:
    asking = Inquirer()
    asking.start(0.0)
    asking.handle(0.0, InspectRequest("b1", "links"))
    asking.handle(0.0, InspectRequest("b2", "links"))
    down = PeerDown("b1", 1, "gone")
    assert asking.handle(0.0, down) == [
        Deliver(InspectAnswer(InspectRequest("b1", "links"), problem="gone")),
        Send("b2", Inspect(2, "links", "", 0)),
        Deliver(down),
    ]
    late = Report(1, b"[]", 0, "")
    assert asking.handle(0.0, Received("b1", late)) == [Drop(late, NOT_ASKED)]
    asking.check()
