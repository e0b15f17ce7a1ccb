"""Questions about the tables of a broker, and what clients tell of themselves.

An answer is JSON and not one of our own structs on the wire: those who ask are people and their tools, of this version
or another, and a row that gains a column must not end a connection.
"""

from typing import Annotated

from msgspec import Meta

from tidings.machine.message import Count, Message, Name, Text
from tidings.model.bounds import REPORT_ROWS_BYTES_MAX, TRANSPORT_REPORT_BYTES_MAX


class Inspect(Message, frozen=True):
    """Show the rows of a table, from the given one on."""

    number: Count
    """Comes back in the report."""
    table: Name
    argument: Text
    """What the table is asked for, where it needs to know; mostly nothing."""
    row: Count
    """0 takes a new look at the table; any other continues with the look taken before."""


class Report(Message, frozen=True):
    number: Count
    rows: Annotated[bytes, Meta(max_length=REPORT_ROWS_BYTES_MAX)]
    """A JSON array of objects."""
    row_next: Count
    """Where to go on; 0 if this is all."""
    problem: Text
    """Why there is no answer; empty where there is one."""


class TransportReport(Message, frozen=True):
    """What a client's transport looks like, for those who look at its broker."""

    rows: Annotated[bytes, Meta(max_length=TRANSPORT_REPORT_BYTES_MAX)]
    """A JSON array of objects, `TransportRow`; the latest report holds."""
