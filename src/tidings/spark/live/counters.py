"""The format "tidings-brokers": what all brokers of a network count, as a stream.

    spark.readStream.format("tidings-brokers").option("url", "tidings://localhost:7411").load()

    broker, kind, reason, count        so much of this more than when the broker was last asked

`kind` is sent, received (messages), delivered (to clients) or dropped, the last with a reason. The first row of a
broker is what it counted since it started, so that the sum of all rows is what the brokers say themselves. Options are
those of the format "tidings" that say where the network is and who we are; `pollInterval` is 1 s if nothing is said.
Whoever asks needs the right to inspect brokers, as for `tidings top`. To ask is work for a broker, too, and counted.

**Offset.** Counters are no log: nobody can ask for what they were. So a position is what they were, for each broker,
and the rows of a micro-batch are the difference of two positions and nothing else. Repeated, it has the same rows.

A broker that does not answer keeps its place in the position, and what it counted meanwhile comes when it is back. One
whose counters are lower than they were has been started again, and all that it counted since is new; what it counted
between the last look and its end nobody knows. If it has counted more since than before, that looks like no restart,
and what was before is missing from the sum.
"""

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pyarrow
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tidings.model.bounds import COUNTED_BROKERS_MAX
from tidings.model.errors import UsageError
from tidings.net.addresses import address_text
from tidings.net.client.connection import parse_brokers
from tidings.net.inspector import Inspector, InspectorAccess, NotInspected
from tidings.net.keys import signer
from tidings.pubsub.rows import CounterRow, LinkRow
from tidings.spark.live.options import Options, read_options

BROKERS_FORMAT = "tidings-brokers"
SCHEMA = "broker STRING, kind STRING, reason STRING, count BIGINT"
ARROW = pyarrow.schema(
    [(name, pyarrow.int64() if name == "count" else pyarrow.string()) for name in ("broker", "kind", "reason", "count")]
)
LOOK_INTERVAL = 1.0
PARALLEL_MAX = 16
"""Brokers that are asked at the same time."""

KINDS = {
    "tidings_stream_messages_sent_total": "sent",
    "tidings_datagrams_sent_total": "sent",
    "tidings_stream_messages_received_total": "received",
    "tidings_datagrams_received_total": "received",
    "tidings_delivered_total": "delivered",
    "tidings_drops_total": "dropped",
}
REASON_MARK = ":"

Totals = dict[str, dict[str, int]]
"""For each broker, by kind, or kind and reason."""

log = logging.getLogger("tidings.spark.live")


class TidingsBrokersSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return BROKERS_FORMAT

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> NoReturn:
        raise UsageError(
            "tidings-brokers is what brokers count between two looks: use spark.readStream; totals are told by "
            "tidings top --json"
        )

    def streamReader(self, schema: StructType) -> "CounterReader":
        is_said = any(name.lower() == "pollinterval" for name in self.options)
        options = read_options(self.options)
        return CounterReader(options, options.poll_interval if is_said else LOOK_INTERVAL)


class CountersBetween(InputPartition):
    def __init__(self, before: Totals, after: Totals) -> None:
        super().__init__(None)
        self.before, self.after = before, after


class CounterReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Options, interval: float) -> None:
        self.options, self.interval = options, interval
        self.asked_at = float("-inf")
        self.target: Totals | None = None
        self.problems: set[str] = set()
        """Of the last look."""
        self.told: set[str] = set()
        """Of which the log has been told."""

    def initialOffset(self) -> dict[str, Any]:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = self.look()

    def latestOffset(self, start: Totals, limit: ReadLimit) -> Totals:
        found = self.target if self.target is not None else self.look()
        self.tell({f"the broker {name}, which is not there any more" for name in start.keys() - found.keys()})
        return dict(sorted({**start, **found}.items()))

    def partitions(self, start: Totals, end: Totals) -> Sequence[InputPartition]:
        return [CountersBetween(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(partition, CountersBetween)
        rows = list(differences(partition.before, partition.after))
        if rows:
            yield pyarrow.RecordBatch.from_pylist(rows, schema=ARROW)

    def commit(self, end: Totals) -> None:
        """Nothing is held for us."""

    def look(self) -> Totals:
        """Waits a little where this was asked just before."""
        time.sleep(max(0.0, self.asked_at + self.interval - time.monotonic()))
        found, problems = asyncio.run(ask_all(self.options))
        self.asked_at, self.problems = time.monotonic(), set(problems)
        return found

    def tell(self, missing: set[str]) -> None:
        problems = self.problems | missing
        for problem in sorted(problems - self.told):
            log.warning("not counted: %s", problem)
        self.told = problems


def differences(before: Totals, after: Totals) -> Iterator[dict[str, Any]]:
    for broker, totals in after.items():
        earlier = before.get(broker, {})
        if any(totals.get(name, 0) < count for name, count in earlier.items()):
            earlier = {}
        for name, count in totals.items():
            kind, _, reason = name.partition(REASON_MARK)
            if count > earlier.get(name, 0):
                yield {"broker": broker, "kind": kind, "reason": reason or None, "count": count - earlier.get(name, 0)}


async def ask_all(options: Options) -> tuple[Totals, list[str]]:
    """What the brokers count that can be reached from those of the URL; and who could not be asked. NotInspected where
    nobody can."""
    access = InspectorAccess(
        token=options.token,
        sign=signer(Path(options.token_key)) if options.token_key else None,
        tls=options.tls,
        principal=options.principal,
        insecure=options.insecure,
    )
    waiting = [address_text(address) for address in parse_brokers(options.url).values()]
    tried, found, failed = set[str](), Totals(), list[NotInspected | UsageError]()
    while waiting and len(found) < COUNTED_BROKERS_MAX:
        now, waiting = waiting[:PARALLEL_MAX], waiting[PARALLEL_MAX:]
        tried.update(now)
        answers = await asyncio.gather(*(ask(address, access) for address in now), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, NotInspected | UsageError):
                failed.append(answer)
                continue
            if isinstance(answer, BaseException):
                raise answer
            found[answer.broker] = answer.totals
            waiting += [it for it in answer.addresses if it not in tried and it not in waiting]
    if not found:
        raise failed[0]
    problems = [str(problem) for problem in failed]
    if waiting:
        problems.append(f"a network of more than {COUNTED_BROKERS_MAX} brokers; the others are left out")
    return found, problems


class CountedBroker(msgspec.Struct, frozen=True):
    broker: str
    totals: dict[str, int]
    addresses: list[str]


async def ask(address: str, access: InspectorAccess) -> CountedBroker:
    async with Inspector(address, access) as inspector:
        links = await inspector.table("links", LinkRow)
        counters = await inspector.table("counters", CounterRow)
        return CountedBroker(inspector.broker, totals_of(counters), [link.address for link in links if link.address])


def totals_of(counters: Sequence[CounterRow]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for row in counters:
        if kind := KINDS.get(row.name):
            name = f"{kind}{REASON_MARK}{row.labels['reason']}" if "reason" in row.labels else kind
            totals[name] = totals.get(name, 0) + int(row.value)
    return dict(sorted(totals.items()))
