"""A small run for the eye: as lines, as a picture, and from the command line."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tidings.cli.program import run
from tidings.trace.diagram import NODES_MAX, RECORDS_MAX, draw
from tidings.trace.record import Kind, Record
from tidings.trace.sequence import Arrow, pair, sequence_lines, span_text
from tidings.trace.writers import open_writer


def message(time: float, kind: Kind, node: str, peer: str, number: int, reason: str | None = None) -> Record:
    detail = f'{{"round":{number}}}'
    return Record(time=time, node=node, kind=kind, peer=peer, message="Ping", reason=reason, detail=detail)


RUN = [
    Record(time=0.0, node="a", kind="start"),
    message(0.1, "send", "a", "b", 3),
    message(0.15, "receive", "b", "a", 3),
    message(0.16, "receive", "b", "a", 3),
    message(0.2, "send", "a", "b", 4),
    message(0.2, "drop", "a", "b", 4, "noise"),
    Record(time=0.3, node="a", kind="timer", key="ping/round"),
    message(0.3, "send", "a", "b", 5),
    Record(time=0.4, node="b", kind="deliver", message="Event", key="/station 7", size_bytes=4),
    Record(time=0.5, node="b", kind="link", peer="a", message="LinkDown", reason="reset", detail='{"epoch":1}'),
    Record(time=0.6, node="b", kind="stop", reason="end of run"),
]


def test_a_sequence_is_one_line_per_record_in_aligned_columns() -> None:
    assert sequence_lines(RUN) == [
        " time  where   what     about",
        "0.000  a       start",
        "0.100  a -> b  send     Ping(round=3)  received after 50 ms",
        "0.150  b <- a  receive  Ping(round=3)",
        "0.160  b <- a  receive  Ping(round=3)  once more",
        "0.200  a -> b  send     Ping(round=4)  lost: noise",
        "0.200  a -x b  drop     Ping(round=4)  noise",
        "0.300  a       timer    ping/round",
        "0.300  a -> b  send     Ping(round=5)  not received",
        "0.400  b       deliver  Event /station 7",
        "0.500  b -- a  link     LinkDown(epoch=1)  reset",
        "0.600  b       stop     end of run",
    ]


def test_a_part_of_a_run_does_not_claim_that_a_message_never_came() -> None:
    lines = sequence_lines(RUN[3:], whole=False)
    assert lines[1].endswith("Ping(round=3)  sent before")
    assert not any("not received" in line for line in lines)


def test_a_lost_message_is_told_from_the_one_that_arrived() -> None:
    lost_then_received = [
        message(0.1, "send", "a", "b", 1),
        message(0.1, "drop", "a", "b", 1, "noise"),
        message(0.2, "send", "a", "b", 1),
        message(0.3, "receive", "b", "a", 1),
    ]
    assert pair(lost_then_received) == [Arrow(0, drop=1), Arrow(2, receive=3)]


def test_equal_messages_are_paired_in_the_order_in_which_they_were_sent() -> None:
    two = [message(time, "send", "a", "b", 1) for time in (0.1, 0.2)]
    assert pair([*two, message(0.3, "receive", "b", "a", 1)]) == [Arrow(0, receive=2), Arrow(1)]


def test_messages_that_overtake_each_other_are_told_apart_by_their_fields() -> None:
    records = [
        message(0.1, "send", "a", "b", 1),
        message(0.2, "send", "a", "b", 2),
        message(0.3, "receive", "b", "a", 2),
        message(0.4, "receive", "b", "a", 1),
    ]
    assert pair(records) == [Arrow(0, receive=3), Arrow(1, receive=2)]


def test_times_close_together_get_the_places_that_tell_them_apart() -> None:
    lines = sequence_lines([Record(time=time, node="a", kind="timer", key="t") for time in (0.1, 0.10002)])
    assert [line.split()[0] for line in lines[1:]] == ["0.10000", "0.10002"]


def test_text_that_could_break_a_line_is_made_harmless_and_cut() -> None:
    record = Record(time=0.0, node="a", kind="note", message="n", detail='{"text":"a\\nb' + "x" * 300 + '"}')
    (line,) = sequence_lines([record])[1:]
    assert "\n" not in line
    assert line.endswith("...")
    assert len(line) < 130


@pytest.mark.parametrize(("seconds", "text"), [(90.0, "90 s"), (0.05, "50 ms"), (2.5e-5, "25 us"), (0.0, "0 us")])
def test_spans_are_told_in_a_unit_that_suits_them(seconds: float, text: str) -> None:
    assert span_text(seconds) == text


def elements(picture: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(picture).iter(f"{{http://www.w3.org/2000/svg}}{tag}"))


def test_the_picture_has_a_lane_per_node_and_a_tooltip_per_thing() -> None:
    picture = draw(RUN, title="run <r>, seed 7")
    texts = ["".join(each.itertext()) for each in elements(picture, "text")]
    titles = [each.text for each in elements(picture, "title")]
    assert [text for text in texts if text in ("a", "b")] == ["a", "b"]
    assert "run <r>, seed 7" in texts
    assert "0.1 s: a -> b Ping(round=3), received after 50 ms" in titles
    assert "0.1 s: a -> b Ping(round=3), received again after 60 ms" in titles
    assert "0.2 s: a -> b Ping(round=4), lost: noise" in titles
    assert "0.3 s: a -> b Ping(round=5), not received" in titles
    assert "0.3 s: a timer ping/round" in titles
    assert len(titles) == 4 + 5
    assert texts.count("Ping(round=3)") == 1


def test_the_picture_is_the_same_for_the_same_records() -> None:
    assert draw(RUN) == draw(list(RUN))


def test_names_that_are_markup_are_only_text() -> None:
    hostile = '<script>alert("x")</script>&'
    picture = draw(
        [Record(time=0.0, node=hostile, kind="note", message=hostile, detail=json.dumps({hostile: hostile}))]
    )
    assert elements(picture, "script") == []
    assert "<script" not in picture


def test_a_large_run_is_drawn_in_part_and_says_so() -> None:
    records = [message(number * 0.1, "send", f"n{number % 40}", "n0", number) for number in range(RECORDS_MAX + 500)]
    picture = draw(records)
    assert f"the first {RECORDS_MAX} records; there are more" in picture
    assert f"{40 - NODES_MAX} more nodes are not shown" in picture
    assert "not received" not in picture


def test_a_message_to_oneself_and_one_sent_before_can_be_drawn() -> None:
    self_sent = [
        message(0.1, "send", "a", "a", 1),
        message(0.2, "receive", "a", "a", 1),
        message(0.3, "receive", "a", "b", 9),
    ]
    titles = [each.text for each in elements(draw(self_sent, whole=False), "title")]
    assert titles == ["0.1 s: a -> a Ping(round=1), received after 100 ms", "0.3 s: a <- b Ping(round=9)"]


def test_a_picture_of_nothing_is_a_picture() -> None:
    assert elements(draw([]), "title") == []


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "t.parquet"
    with open_writer(path, run="ping", seed=7) as writer:
        for record in RUN:
            writer.write(record)
    return path


def test_show_prints_the_run_and_the_sequence(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["trace", "show", str(trace)]) == 0
    assert capsys.readouterr().out.splitlines() == ["run ping, seed 7", *sequence_lines(RUN)]


def test_show_chooses_kinds_and_nodes_and_says_when_there_is_more(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["trace", "show", str(trace), "--kind", "send", "--kind", "stop", "--node", "b", "--limit", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[4] for line in lines[2:5]] == ["send"] * 3
    assert lines[5] == "... the first 3 records; there are more (--limit)"


def test_show_as_json(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["trace", "show", str(trace), "--kind", "timer", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "records": [{"run": "ping", "seed": 7, "time": 0.3, "node": "a", "kind": "timer", "key": "ping/round"}],
        "more": False,
        "diagram": None,
    }


def test_show_draws_a_picture(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = trace.with_suffix(".svg")
    assert run(["trace", "show", str(trace), "--diagram", str(picture)]) == 0
    assert capsys.readouterr().out == f"11 records drawn in {picture}\n"
    assert "run ping, seed 7" in picture.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent.parquet"], "there is no such file"),
        (["FILE", "--kind", "dance"], "--kind dance: there is no such kind"),
        (["FILE", "--diagram", "x.png"], "end its name in .svg"),
        (["FILE", "--diagram", "/absent/x.svg"], "name a file that can be written"),
    ],
)
def test_wrong_calls_say_why(arguments: list[str], words: str, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["trace", "show", *(str(trace) if word == "FILE" else word for word in arguments)]) == 2
    answer = capsys.readouterr()
    assert words in answer.err
    assert answer.out == ""
