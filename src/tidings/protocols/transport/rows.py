"""Bloom rows of events and filters, as the transport uses them.

An event that is too rich for its row gets 0, which says nothing: a nearly full row would seem to be for everybody. The
`id` is in no row: every event has another one, so hardly anybody asks for it, and it would take the room of others.

Networks of topics (T-42). Where events are told apart by one attribute only, the name of a topic, records can tell of
topics instead of events: `topic_attribute` in the parameters names it. Then a row holds the tags of this attribute
alone, on both sides: one topic, one pattern of bits, so 64 bits tell as much of a topic as 256 do of ten attributes.
What else filters ask for is not seen in the record, which can only make more seem to be for us.

Source: the transport specification, 2.4, 3.3.6.
"""

from collections.abc import Iterable

from tidings.matching.bloom import FILL_MAX, BloomProfile, bits_of_tags, fill_of
from tidings.matching.tags import exists_tag, tags_of_event, tags_of_filter, value_tag
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.protocols.transport.ranges import range_tags

EXISTS_ID, VALUE_ID = exists_tag("id"), value_tag("id", "")


def rows_of_filter(filter: Filter, profile: BloomProfile, topic_attribute: str = "") -> tuple[int, ...]:
    """One row for each conjunction, none twice."""
    rows = (bits_of_tags(kept(tags, topic_attribute), profile) for tags in tags_of_filter(filter))
    return tuple(dict.fromkeys(rows))


def row_of_event(event: Event, profile: BloomProfile, topic_attribute: str = "", tells_ranges: bool = False) -> int:
    """0 where the row would be too full to say anything."""
    row = bits_of_tags(kept(tags_of_event(event), topic_attribute), profile)
    if tells_ranges:
        row |= bits_of_tags(range_tags(event), profile)
    return row if fill_of(row, profile) <= FILL_MAX else 0


def kept(tags: Iterable[str], topic_attribute: str) -> Iterable[str]:
    """All of them but those of the id or, with a topic, those of its attribute."""
    if not topic_attribute:
        return [tag for tag in tags if not (tag == EXISTS_ID or tag.startswith(VALUE_ID))]
    begin = value_tag(topic_attribute, "")
    return [tag for tag in tags if tag == exists_tag(topic_attribute) or tag.startswith(begin)]
