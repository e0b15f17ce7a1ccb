"""Names are printable, and what others chose is escaped wherever it is shown: on a terminal, in a log, in a picture."""

import io
import unicodedata
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tidings import UsageError
from tidings.cli import tenants, top
from tidings.cli.filters import covering_lines
from tidings.cli.output import drawn, in_ascii, json_line, print_json, show, table_lines
from tidings.cli.streams import StreamLoad, draw_streams
from tidings.cli.sub import Delivered, event_json, event_line
from tidings.cli.traces import print_sequence
from tidings.diagnosis.findings import Finding
from tidings.diagnosis.network import Network, Unreached
from tidings.diagnosis.way import Step, Way
from tidings.machine.message import Name
from tidings.model.escapes import PRINTABLE, check_printable, markup, printable, printable_syntax
from tidings.model.event import Event
from tidings.net.logs import make_logger
from tidings.net.params import HostParams
from tidings.protocols.access.judge import Principal
from tidings.protocols.delivery.messages import Subscribe
from tidings.pubsub.publications import encode_head
from tidings.pubsub.rows import PopularityRow, TransportRow
from tidings.trace.diagram import draw
from tidings.trace.record import Record
from tidings.wire import BadMessage, decode, encode
from tidings.wire.handshake import Hello, hello

ESCAPE, BIDI, C1, NEL, SEPARATOR, DELETE = "\x1b[2J", "\u202e", "\x9b31m", "\x85", "\u2028", "\x7f"
HOSTILE = f"a\r\n{ESCAPE}{BIDI}{C1}{NEL}{SEPARATOR}{DELETE}\u200b\ufeff\x00\x07<b>&[red]"
NAMES_REFUSED = ["a\x1b", "a\r", "a\n", "\x9b", "a\u202eb", "\u2066", "\u200f", "a\u200b", "\x7f", "\u2028", "\ufeff"]


def is_harmless(text: str) -> bool:
    return all(
        each == "\n" or (each.isprintable() and unicodedata.category(each) not in ("Cc", "Cf", "Cs", "Zl", "Zp"))
        for each in text
    )


# Names.


@pytest.mark.parametrize("name", NAMES_REFUSED)
def test_a_name_that_cannot_be_seen_is_refused_at_the_door_and_at_the_call(name: str) -> None:
    with pytest.raises(BadMessage, match="characters that names do not have"):
        decode(encode(Hello(name)))
    with pytest.raises(BadMessage, match="characters that names do not have"):
        decode(encode(Subscribe(1, "TRUE", "none", None, (), False, name, "wait", 1, 1)))
    with pytest.raises(UsageError, match="cannot be seen"):
        hello(name)
    with pytest.raises(UsageError, match="cannot be seen"):
        Principal(name)
    with pytest.raises(UsageError) as problem:
        check_printable("name", name)
    assert is_harmless(str(problem.value))


@pytest.mark.parametrize("name", ["ann", "größe", "日本", "a b", "client+0123", "tidings://x:1", "naïve-ζ", "a/1"])
def test_names_in_any_script_are_names(name: str) -> None:
    assert check_printable("name", name) == name
    assert decode(encode(Hello(name))).node == name


@given(st.text(min_size=1, max_size=20))
def test_the_rule_on_the_wire_is_the_one_at_the_call(name: str) -> None:
    try:
        msgspec.convert(name, Name)
        is_taken = True
    except msgspec.ValidationError:
        is_taken = False
    assert is_taken == (printable_syntax.fullmatch(name) is not None)
    if is_taken:
        check_printable("name", name)


def test_what_unicode_calls_a_control_or_a_mark_of_format_is_no_part_of_names() -> None:
    for number in range(0x110000):
        character = chr(number)
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            assert not printable_syntax.fullmatch(character), hex(number)
    assert PRINTABLE.startswith(r"\A") and PRINTABLE.endswith(r"\Z")


# What is shown.


@given(st.text())
def test_whatever_is_printable_is_harmless_and_stays_one_line(text: str) -> None:
    shown = printable(text)
    assert is_harmless(shown) and "\n" not in shown
    assert is_harmless(markup(text)) and not set("<>\"'") & set(markup(text))
    assert printable(shown) == shown


def test_what_can_be_seen_stays_as_it_is() -> None:
    assert printable("größe 日本 a\\b 'x'") == "größe 日本 a\\b 'x'"
    assert printable("a\x1b\n\u202e\U000e0001") == "a\\x1b\\n\\u202e\\U000e0001"
    assert markup("<a\x1b>") == "&lt;a\\x1b&gt;"


@given(st.text() | st.lists(st.text()) | st.dictionaries(st.text(), st.text()))
def test_json_is_ascii_and_the_same_value(value: Any) -> None:
    line = json_line(value)
    assert line.isascii() and line.isprintable()
    assert msgspec.json.decode(line) == value
    assert in_ascii(line) == line


EVENT = Delivered(1, HOSTILE, 7, 0.5, encode_head({"a": HOSTILE, "b": 1}), HOSTILE.encode())
RECORDS = [
    Record(time=0.5, node=HOSTILE, kind="send", peer=HOSTILE, message=HOSTILE, key=HOSTILE, detail=f'{{"a":"{BIDI}"}}'),
    Record(time=0.6, node=HOSTILE, kind="drop", peer=HOSTILE, message=HOSTILE, key=HOSTILE, reason=HOSTILE),
    Record(time=0.7, node=HOSTILE, kind="note", message=HOSTILE, detail=HOSTILE, reason=HOSTILE, run=HOSTILE),
]
NETWORK = Network([], [Unreached(HOSTILE, HOSTILE, HOSTILE)])
LOADS = [top.BrokerLoad(HOSTILE, problem=HOSTILE)]
TENANTS = [tenants.TenantLoad(HOSTILE, HOSTILE)]
TRANSPORT = [
    TransportRow(client=HOSTILE, kind=kind, publisher=HOSTILE, flow=HOSTILE, problem=HOSTILE)
    for kind in ("client", "stream", "flow")
]
STREAM = PopularityRow(
    neighbour=HOSTILE,
    advertisement=HOSTILE,
    publisher=HOSTILE,
    subscriptions=1,
    hops=1.0,
    gain=1.0,
    rate=1.0,
    way=HOSTILE,
    latency=HOSTILE,
)
STREAMS = [StreamLoad(HOSTILE, STREAM)]
WAY = Way(HOSTILE, 1, HOSTILE, (Step(HOSTILE, HOSTILE, True),), True, HOSTILE)


def lines_shown(capsys: pytest.CaptureFixture[str], *lines: str) -> str:
    show(*lines)
    show(*lines, to_stderr=True)
    captured = capsys.readouterr()
    assert captured.out == captured.err
    return captured.out


@pytest.mark.parametrize(
    "lines",
    [
        [HOSTILE],
        [event_line(EVENT)],
        top.way_lines(WAY),
        [top.no_subscriber_text(NETWORK, HOSTILE)],
        top.finding_lines(NETWORK, [Finding(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)]),
        top.text_lines(LOADS, TENANTS, TRANSPORT, STREAMS),
        covering_lines(False, Event({"a": HOSTILE})),
        table_lines(["a"], [[HOSTILE]]),
    ],
    ids=["line", "sub", "why", "why nobody", "doctor", "top", "covers", "table"],
)
def test_no_command_prints_what_a_terminal_obeys(capsys: pytest.CaptureFixture[str], lines: list[str]) -> None:
    shown = lines_shown(capsys, *lines)
    assert is_harmless(shown)
    assert shown.count("\n") == len(lines), "nobody begins a line of their own"


LIVE_TABLES = top.draw(LOADS), top.draw_transport(TRANSPORT), tenants.draw_tenants(TENANTS), draw_streams(STREAMS)


@pytest.mark.parametrize("table", LIVE_TABLES)
def test_no_live_table_shows_what_a_terminal_obeys(table: Any) -> None:
    out = io.StringIO()
    Console(file=out, width=400, color_system=None).print(table)
    assert is_harmless(out.getvalue())
    assert "[red]" in out.getvalue(), "brackets are no orders"
    assert [cell.plain for cell in drawn(["[b]"])] == ["[b]"]


@pytest.mark.parametrize("answer", [event_json(EVENT), LOADS, [WAY], RECORDS])
def test_json_output_is_ascii(capsys: pytest.CaptureFixture[str], answer: Any) -> None:
    print_json(answer)
    printed = capsys.readouterr().out
    assert printed.isascii() and is_harmless(printed)
    assert msgspec.json.decode(printed) == msgspec.json.decode(msgspec.json.encode(answer))


def test_a_trace_is_shown_and_drawn_without_what_anybody_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    print_sequence(RECORDS, whole=True, more=True)
    shown = capsys.readouterr().out
    assert is_harmless(shown) and shown.count("\n") == 1 + 1 + len(RECORDS) + 1
    picture = draw(RECORDS, True, HOSTILE)
    assert is_harmless(picture) and "<b>" not in picture


def test_a_log_line_is_one_line_that_no_terminal_obeys() -> None:
    out = io.StringIO()
    log = make_logger(HOSTILE, stream=out)
    log.error(HOSTILE, peer=HOSTILE, reason=HOSTILE, values=[HOSTILE], count=3, params=HostParams())
    try:
        raise ValueError(HOSTILE)
    except ValueError as problem:
        log.error("failed", exc_info=problem)
    assert is_harmless(out.getvalue()) and out.getvalue().count("\n") == 2
