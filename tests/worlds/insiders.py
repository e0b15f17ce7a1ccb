"""Somebody who was let in and means no good: a real client or broker that sends, besides what it should, whatever fits
the types of messages.

The frames are good and their contents hostile: numbers at their bounds, names that the others use, filters that are
long or wrong, paths as long as they may be, the same entry twice, answers to what nobody asked. Much of it is made of
what the insider has seen: numbers and names out of real messages, so that it reaches the code behind the first look-up.
The insider itself is the real node, which attaches, joins the tree, tells its tables and acknowledges; so whatever it
says is said by somebody who takes part.

The same class runs in the simulator and on sockets. Everything is drawn from one stream.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
from msgspec import inspect

from tidings.machine.effects import Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received
from tidings.machine.message import Message
from tidings.machine.node import Machine
from tidings.protocols.teaching.gossip import GossipRepair
from tidings.pubsub.pages import StoredPage, page_of
from tidings.pubsub.publications import encode_head
from tidings.wire import REGISTRY, BadMessage, decode, encode
from tidings.wire.handshake import Goodbye, Heartbeat, Hello, Unreadable

POOL_MAX = 400
"""Texts and numbers that are remembered of what was seen."""

CONTROL = (Hello, Goodbye, Heartbeat, Unreadable)
KINDS: tuple[type, ...] = tuple(
    kind for kind in REGISTRY.types.values() if kind not in CONTROL and kind is not GossipRepair
)

FILTERS = (
    *("TRUE", "FALSE", "x > 1", "number >= 0", "NOT EXISTS y", "x IN ('a', 'b')", "LENGTH(x) > 3", "x = 1 XOR y = 2"),
    *("t LIKE '%a___b%c_d%'", "t NOT LIKE '%_%_%_%'", "x = ", "((((", "x = 1 AND " * 400 + "x = 1", "'", "\x1b[2J"),
    " AND ".join(f"(a{number} = 1 OR b{number} = 2)" for number in range(12)),
    "x IN (" + ", ".join(f"'{number}'" for number in range(120)) + ")",
)
TEXTS = ("", "a", "\x1b[31m\r\n\u202e", "x" * 200, "\x00", "not permitted", '{"a": 1}', "0", "null", "[[[[")
HEADS = (
    *(encode_head({}), encode_head({"number": 1}), encode_head({"x": "a" * 3000})),
    *(b"\x80" * 7, b"\xc1", b"\xde\xff\xff"),
)
BYTES = b"", b"x", b"\x00" * 2000
NUMBERS = (0, 1, 2, 255, 4096, 2**31, 2**53, 2**62, 2**63 - 1)
JSON_ROWS = (b"[]", b"[{}]", b"{", b"[" * 2000, b'[{"kind": "client", "client": 5}]', b"null")


class Forger:
    """Messages of any type, drawn from the annotations of its fields and from what was seen."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.texts: list[str] = ["a", "b", "c"]
        self.numbers: list[int] = [1]

    def learn(self, value: Any) -> None:
        if isinstance(value, str):
            self.keep(self.texts, value)
        elif isinstance(value, int):
            self.keep(self.numbers, value)
        elif isinstance(value, tuple):
            for each in value[:8]:
                self.learn(each)
        elif isinstance(value, msgspec.Struct):
            for name in value.__struct_fields__:
                self.learn(getattr(value, name))

    def keep(self, pool: list[Any], value: Any) -> None:
        if value in pool:
            return
        if len(pool) < POOL_MAX:
            pool.append(value)
        else:
            pool[self.rng.randrange(len(pool))] = value

    def message(self, kinds: Sequence[type]) -> Message | None:
        """None where what was drawn is no message: arrays of unequal length, a name nobody may have."""
        kind = self.rng.choice(kinds)
        info = inspect.type_info(kind)
        if not isinstance(info, inspect.StructType):
            return None
        count = self.rng.choice((1, 1, 2, 5))
        try:
            made = kind(*[self.of_type(field.name, field.type, count) for field in info.fields])
            return decode(encode(made))  # type: ignore[no-any-return]
        except (ValueError, TypeError, BadMessage):
            return None

    def of_type(self, name: str, kind: inspect.Type, count: int) -> Any:
        rng = self.rng
        match kind:
            case inspect.NoneType():
                return None
            case inspect.BoolType():
                return rng.random() < 0.5
            case inspect.IntType():
                number = rng.choice((rng.choice(NUMBERS), rng.choice(self.numbers), rng.randrange(8)))
                return min(max(number, kind.ge or 0), kind.le or 2**62)
            case inspect.FloatType():
                return rng.choice((0.0, -1.0, 1e300, -1e300, 5e-324, rng.uniform(0, 100)))
            case inspect.StrType():
                chosen = rng.choice(FILTERS if "filter" in name and rng.random() < 0.8 else self.texts)
                if rng.random() < 0.2:
                    chosen = rng.choice(TEXTS)
                return chosen[: kind.max_length] or ("x" if kind.min_length else "")
            case inspect.BytesType():
                pool = HEADS if name.startswith("head") else JSON_ROWS if name == "rows" else BYTES
                return rng.choice(pool)[: kind.max_length].ljust(kind.min_length or 0, b"\x00")
            case inspect.EnumType(cls):
                return rng.choice(list(cls))
            case inspect.LiteralType(choices):
                return rng.choice(list(choices))
            case inspect.UnionType(members):
                return self.of_type(name, rng.choice(list(members)), count)
            case inspect.TupleType(members):
                return tuple(self.of_type(name, member, count) for member in members)
            case inspect.VarTupleType(member):
                longest = kind.max_length or 0
                many = count if rng.random() < 0.8 else rng.choice((0, 2, 40, longest if longest <= 300 else 300))
                drawn_many = [self.of_type(name, member, count) for _ in range(max(kind.min_length or 0, many))]
                if drawn_many and rng.random() < 0.2:
                    drawn_many = [drawn_many[0]] * len(drawn_many)
                return tuple(drawn_many[:longest])
            case inspect.StructType(cls) if cls is StoredPage:
                return self.page(count)
            case inspect.StructType(cls, fields):
                return cls(*[self.of_type(field.name, field.type, count) for field in fields])
        raise AssertionError(f"nothing is drawn for {kind}")

    def page(self, count: int) -> StoredPage:
        """Its arrays agree, so that readers believe it; what stands in them is anything, numbers that fall included."""
        rng = self.rng
        numbers = [rng.choice((rng.choice(NUMBERS), rng.choice(self.numbers))) for _ in range(count)]
        times = [rng.choice((0.0, -1.0, 1e300, rng.uniform(0, 100))) for _ in range(count)]
        return page_of(times, numbers, [rng.choice(HEADS) for _ in numbers], [rng.choice(BYTES) for _ in numbers])


class Insider:
    """`inner` is the real node; from `begin` on it also sends `count` forged messages to `target`, a few at a time."""

    def __init__(
        self, inner: Machine, rng: Random, target: str, kinds: Sequence[type], count: int, begin: float, period: float
    ) -> None:
        self.inner, self.rng, self.target, self.kinds = inner, rng, target, kinds
        self.left, self.begin, self.period = count, begin, period
        self.forger = Forger(rng)
        self.sent: Counter[str] = Counter()

    def start(self, now: float) -> list[Effect]:
        return [*self.inner.start(now), SetTimer("mischief", max(now, self.begin))]

    def handle(self, now: float, input: Input) -> list[Effect]:
        if isinstance(input, Fired) and input.key == "mischief":
            return self.mischief(now)
        if isinstance(input, Received):
            self.forger.learn(input.message)
        return self.inner.handle(now, input)

    def mischief(self, now: float) -> list[Effect]:
        forged: list[Effect] = []
        while self.left and len(forged) < 5:
            self.left -= 1
            kinds = self.kinds if self.rng.random() < 0.8 else KINDS
            message = self.forger.message(kinds)
            if message is not None:
                self.sent[type(message).__name__] += 1
                forged.append(Send(self.target, message))
        return [*forged, SetTimer("mischief", now + self.period)] if self.left else forged

    def check(self) -> None:
        self.inner.check()
