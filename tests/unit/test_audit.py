"""The audit: a line for each, never more than one, and never an endless stream of them."""

import io
import shlex
import stat
from pathlib import Path

import pytest

pytest.importorskip("structlog", reason="the audit is a log, of the extra 'net'")

from tidings.net.audit import REFUSALS_MAX, Audit, make_audit_logger
from tidings.net.errors import HostError
from tidings.net.logs import make_logger, printable
from tidings.pubsub.notes import RightsChanged, VisitorAdmitted, VisitorTurnedAway


class Clock:
    def __init__(self) -> None:
        self.now = 5.0

    def __call__(self) -> float:
        return self.now


def audit_into(stream: io.StringIO, clock: Clock) -> Audit:
    return Audit(make_logger("b", stream=stream), lambda node: "10.0.0.7:5123", clock)


def lines_of(stream: io.StringIO) -> list[dict[str, str]]:
    return [dict(word.partition("=")[::2] for word in shlex.split(line)) for line in stream.getvalue().splitlines()]


def test_a_line_says_who_what_from_where_and_why() -> None:
    stream = io.StringIO()
    audit = audit_into(stream, Clock())
    audit.hear(VisitorAdmitted("ann+desk", "ann", "client"))
    audit.hear(VisitorTurnedAway("ben", "that role is not given to this principal", "ben", "broker"))
    audit.hear(RightsChanged("ann", "ann", "client", "n = 1", ""))
    first, second, third = lines_of(stream)
    assert first.items() >= {"event": "let in", "peer": "ann+desk", "principal": "ann", "level": "info"}.items()
    assert second.items() >= {"event": "turned away", "peer": "ben", "address": "10.0.0.7:5123"}.items()
    assert second["reason"] == "that role is not given to this principal"
    assert third.items() >= {"event": "rights changed", "publish": "n = 1"}.items()


def test_what_a_stranger_calls_itself_cannot_write_a_line_nor_steer_a_terminal() -> None:
    stream = io.StringIO()
    audit_into(stream, Clock()).hear(VisitorTurnedAway("evil\x1b[2J\r\nevent=fine\u202e\x9b", "no"))
    (line,) = stream.getvalue().splitlines()
    assert line.isprintable()
    assert printable("a\x1b[2J\n\u202eb") == "a\\x1b[2J\\n\\u202eb"


def test_refusals_beyond_so_many_in_a_second_are_counted_and_the_next_line_tells() -> None:
    stream, clock = io.StringIO(), Clock()
    audit = audit_into(stream, clock)
    for number in range(REFUSALS_MAX + 7):
        audit.hear(VisitorTurnedAway(f"c{number}", "no"))
    assert len(lines_of(stream)) == REFUSALS_MAX
    audit.hear(VisitorAdmitted("ann", "ann", "client"))
    assert lines_of(stream)[-1]["refusals_left_out"] == "7"
    clock.now += 1
    audit.hear(VisitorTurnedAway("d", "no"))
    assert "refusals_left_out" not in lines_of(stream)[-1]
    assert len(lines_of(stream)) == REFUSALS_MAX + 2


def test_a_file_of_the_audit_is_its_owners_only_and_grows(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    for event in ("one", "two"):
        make_audit_logger("b", "error", file).info(event)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [line.split("event=")[1].split()[0] for line in file.read_text().splitlines()] == ["one", "two"]
    with pytest.raises(HostError, match="cannot write"):
        make_audit_logger("b", "info", tmp_path / "absent" / "audit.log")
