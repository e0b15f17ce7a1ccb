"""What brokers tell each other about who wants and who offers what.

Every change of a table carries a number, ascending on its link and life of it. The receiver answers each with
`Installed` when it, and everybody it had to tell, has carried the change out; or with `NotInstalled` when that failed
or took too long. So acknowledgements are gathered hop by hop, and one message on a link has one answer. A number of 0
asks for none. Where there are many changes or answers they come packed (`packets.py`).
"""

from typing import Annotated

from msgspec import Meta

from tidings.machine.message import BrokerNames, Count, FilterText, Message, Name, Text
from tidings.model.bounds import CHANGES_PACKED_MAX, TABLE_BUCKETS, TABLE_PART_MAX, TABLE_SUMMARY_BYTES_MAX

Summary = Annotated[bytes, Meta(max_length=TABLE_SUMMARY_BYTES_MAX)]


class SubscriptionAdded(Message, frozen=True):
    """Somebody on the sender's side wants what this filter matches."""

    number: Count
    filter: FilterText


class SubscriptionRemoved(Message, frozen=True):
    number: Count
    filter: FilterText


class AdvertisementAdded(Message, frozen=True):
    """A publisher on the sender's side is going to publish such events."""

    number: Count
    advertisement: Name
    publisher: Name
    filter: FilterText
    way_begun_by: Name
    way: Count
    """Names this announcement: who began it, the publisher's broker or one that found a new way to it, and his number
    for it. The same advertisement under another name means that the way to the publisher has changed."""


class AdvertisementRemoved(Message, frozen=True):
    number: Count
    advertisement: Name
    is_lost: bool = False
    """Nobody withdrew it: the way to its publisher is lost."""


class PartTold(Message, frozen=True):
    """That was all of this part of my table, cut into so many (`buckets.py`)."""

    is_filters: bool
    """Of the filters; otherwise of the advertisements."""
    part: Annotated[int, Meta(ge=0, le=TABLE_PART_MAX)]
    parts: Annotated[int, Meta(ge=1, le=TABLE_BUCKETS)]


class TableChanges(Message, frozen=True):
    """Many changes at once, to be carried out in this order."""

    advertisements_added: Annotated[tuple[AdvertisementAdded, ...], Meta(max_length=CHANGES_PACKED_MAX)] = ()
    advertisements_removed: Annotated[tuple[AdvertisementRemoved, ...], Meta(max_length=CHANGES_PACKED_MAX)] = ()
    subscriptions_added: Annotated[tuple[SubscriptionAdded, ...], Meta(max_length=CHANGES_PACKED_MAX)] = ()
    subscriptions_removed: Annotated[tuple[SubscriptionRemoved, ...], Meta(max_length=CHANGES_PACKED_MAX)] = ()
    parts_told: Annotated[tuple[PartTold, ...], Meta(max_length=CHANGES_PACKED_MAX)] = ()


class TablesTaken(Message, frozen=True):
    """Of the changes that you sent since your `TablesBegun`, so many bytes are taken (`packets.py`)."""

    total_bytes: Count


class TablesBegun(Message, frozen=True):
    """I take you for my neighbour, and for me this neighbourhood is number `life`. What follows holds for your life
    `answers`; 0 where I have not heard of yours, and then nothing follows yet."""

    life: Count
    answers: Count
    filters: Summary = b""
    advertisements: Summary = b""
    """What I still have of your tables, from before this life."""


class TablesTold(Message, frozen=True):
    """Everything that a new neighbour has to know was sent."""


class Installed(Message, frozen=True):
    """The change of that number is carried out, by the sender and by everybody behind it whom it concerns."""

    number: Count
    brokers: BrokerNames
    brokers_count: Count


class NotInstalled(Message, frozen=True):
    number: Count
    reason: Text


class ChangesInstalled(Message, frozen=True):
    """`Installed` for each of these numbers."""

    numbers: Annotated[tuple[Count, ...], Meta(max_length=CHANGES_PACKED_MAX)]
    brokers: BrokerNames
    brokers_count: Count


class ChangesNotInstalled(Message, frozen=True):
    """`NotInstalled` for each of these numbers."""

    numbers: Annotated[tuple[Count, ...], Meta(max_length=CHANGES_PACKED_MAX)]
    reason: Text


class Counted(Message, frozen=True):
    """On the sender's side so many subscriptions overlap the advertisement, and their brokers are so many hops from
    you, added up (`census.py`)."""

    advertisement: Name
    count: Count
    hop_sum: Count


class PublicationsTaken(Message, frozen=True):
    """Of the publications that you sent since your `TablesBegun`, so many bytes are taken (`parcels.py`)."""

    total_bytes: Count


class PublicationsSkipped(Message, frozen=True):
    """Here publications of that advertisement were left out on the way, with numbers up to `through`; its publisher's
    broker stores them."""

    publisher: Name
    advertisement: Name
    through: Count


class Reached(Message, frozen=True):
    """The brokers of all who want the publications of that receipt have them."""

    receipt: Count


class NotReached(Message, frozen=True):
    receipt: Count
    reason: Text
