"""A wish: a filter drawn from a seed, which knows by itself what it means.

Whoever judges a network must not ask the network's own code what matches: a mistake there would be a mistake here, and
both would agree. So a wish is a small tree of its own. It is written as text, which is all that a broker ever sees, and
it is judged here in a few lines, after what `docs/concepts/filters.md` says: what a value reads as (a number, a text, a
truth), and a third answer, None, where an attribute is absent or does not read so. Neither the parser nor the
evaluation, the normal forms, covering or the index have any part in it.

Wishes and attributes are drawn from the same small vocabulary, in which numbers come as texts, truths as words, and
attributes are missing now and then: so wishes overlap, cover each other and differ in just the places where readings
do.
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tidings.machine.streams import RandomStream

Answer = bool | None
WishedAttributes = Mapping[str, Any]

KINDS = ("a", "b", "c", "d")
WORDS = ("ab", "abc", "b", "bca", "05", "5", "true", "", "ca%")
PATTERNS = ("a%", "%c", "%b%", "_b%", "b", "%", "__", "0%", "ca\\%", "%a_")
NUMBERS = (0, 1, 5, 5.0, 7.5, 12, -3)
TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)", re.ASCII)


def as_number(value: Any) -> int | float | None:
    if isinstance(value, str):
        if not NUMBER.fullmatch(value):
            return None
        return float(value) if "." in value else int(value)
    return int(value) if isinstance(value, bool) else value


def as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else repr(value)


def as_truth(value: Any) -> Answer:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


def spelled(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return f"'{value}'" if isinstance(value, str) else repr(value)


class Comparison(msgspec.Struct, frozen=True):
    """`name sign value`; or, with `operand`, of the sum of two attributes, or of the length of one."""

    name: str
    sign: str
    value: Any
    operand: str = ""

    def text(self) -> str:
        left = {"": self.name, "LENGTH": f"LENGTH({self.name})"}.get(self.operand, f"{self.name} + {self.operand}")
        return f"{left} {self.sign} {spelled(self.value)}"

    def answer(self, attributes: WishedAttributes) -> Answer:
        value = attributes.get(self.name)
        if value is None:
            return None
        if self.operand == "LENGTH":
            value = len(as_text(value))
        elif self.operand:
            numbers = as_number(value), as_number(attributes.get(self.operand, "missing"))
            if numbers[0] is None or numbers[1] is None:
                return None
            value = numbers[0] + numbers[1]
        return self.compared(value)

    def compared(self, value: Any) -> Answer:
        read: Callable[[Any], Any] = as_number
        if isinstance(self.value, str) and (self.sign in ("=", "!=") or as_number(self.value) is None):
            read = as_text
        elif isinstance(self.value, bool):
            read = as_truth
        left = read(value)
        return None if left is None else TESTS[self.sign](left, read(self.value))


class Likeness(msgspec.Struct, frozen=True):
    """`name LIKE pattern`."""

    name: str
    pattern: str

    def text(self) -> str:
        return f"{self.name} LIKE {spelled(self.pattern)}"

    def answer(self, attributes: WishedAttributes) -> Answer:
        value = attributes.get(self.name)
        return None if value is None else regular(self.pattern).fullmatch(as_text(value)) is not None


def regular(pattern: str) -> re.Pattern[str]:
    pieces = re.findall(r"\\[%_]|%|_|[^%_]", pattern)
    signs = {"%": ".*", "_": "."}
    return re.compile("".join(signs.get(piece) or re.escape(piece[-1]) for piece in pieces), re.DOTALL)


class Membership(msgspec.Struct, frozen=True):
    """`name IN (choices)`: each choice is read as what the attribute is."""

    name: str
    choices: tuple[Any, ...]

    def text(self) -> str:
        return f"{self.name} IN ({', '.join(map(spelled, self.choices))})"

    def answer(self, attributes: WishedAttributes) -> Answer:
        value = attributes.get(self.name)
        if value is None:
            return None
        reads = as_text if isinstance(value, str) else as_truth if isinstance(value, bool) else as_number
        return any(reads(choice) == value for choice in self.choices)


class Presence(msgspec.Struct, frozen=True):
    name: str

    def text(self) -> str:
        return f"EXISTS {self.name}"

    def answer(self, attributes: WishedAttributes) -> Answer:
        return self.name in attributes


class Negation(msgspec.Struct, frozen=True):
    part: "Wish"

    def text(self) -> str:
        return f"NOT ({self.part.text()})"

    def answer(self, attributes: WishedAttributes) -> Answer:
        answer = self.part.answer(attributes)
        return None if answer is None else not answer


class Combination(msgspec.Struct, frozen=True):
    """AND, OR or XOR of parts. An answer that decides does so whatever the others are; else unknown stays unknown."""

    word: str
    parts: tuple["Wish", ...]

    def text(self) -> str:
        return f" {self.word} ".join(f"({part.text()})" for part in self.parts)

    def answer(self, attributes: WishedAttributes) -> Answer:
        answers = [part.answer(attributes) for part in self.parts]
        if self.word == "XOR":
            return None if None in answers else sum(map(bool, answers)) % 2 == 1
        decisive = self.word == "OR"
        if decisive in answers:
            return decisive
        return None if None in answers else not decisive


Wish = Comparison | Likeness | Membership | Presence | Negation | Combination

EVERYTHING: Wish = Presence("id")
"""What is published here has an id."""


def is_wanted(wish: Wish, attributes: WishedAttributes) -> bool:
    return wish.answer(attributes) is True


def draw_wish(rng: RandomStream, depth: int = 2) -> Wish:
    """Half of them are wide or simple, so that something is delivered."""
    chance = rng.random()
    if depth and chance < 0.4:
        word = rng.choice(("AND", "OR", "OR", "XOR"))
        parts = tuple(draw_wish(rng, depth - 1) for _ in range(2 + (word != "XOR" and rng.below(2))))
        return Combination(word, parts)
    if depth and chance < 0.5:
        return Negation(draw_wish(rng, depth - 1))
    if chance < 0.6:
        return EVERYTHING
    return rng.choice(LEAVES)(rng)


def draw_sign(rng: RandomStream) -> str:
    return rng.choice(tuple(TESTS))


LEAVES: Sequence[Callable[[RandomStream], Wish]] = (
    lambda rng: Comparison("kind", "=", rng.choice(KINDS)),
    lambda rng: Membership("kind", tuple(rng.sample(KINDS, 2))),
    lambda rng: Comparison("x", draw_sign(rng), rng.choice(NUMBERS)),
    lambda rng: Comparison("y", draw_sign(rng), rng.choice(NUMBERS)),
    lambda rng: Comparison("x", draw_sign(rng), rng.choice(("5", "12"))),
    lambda rng: Comparison("word", draw_sign(rng), rng.choice(WORDS)),
    lambda rng: Likeness("word", rng.choice(PATTERNS)),
    lambda rng: Likeness("x", rng.choice(("1%", "%5", "_"))),
    lambda rng: Membership("x", tuple(rng.sample((*NUMBERS, "5", "7"), 3))),
    lambda rng: Membership("flag", (True, "false")),
    lambda rng: Comparison("flag", rng.choice(("=", "!=")), rng.random() < 0.5),
    lambda rng: Presence(rng.choice(("x", "y", "word", "flag"))),
    lambda rng: Comparison("x", draw_sign(rng), rng.choice(NUMBERS), "y"),
    lambda rng: Comparison("word", draw_sign(rng), rng.below(4), "LENGTH"),
)


def draw_attributes(rng: RandomStream) -> dict[str, Any]:
    """Of one event, without its id."""
    drawn: dict[str, Any] = {"kind": rng.choice(KINDS)}
    if rng.random() < 0.9:
        x = rng.choice((*NUMBERS, *range(20)))
        drawn["x"] = as_text(x) if rng.random() < 0.15 else x
    if rng.random() < 0.6:
        drawn["y"] = rng.choice(NUMBERS)
    if rng.random() < 0.7:
        drawn["word"] = rng.choice(WORDS)
    if rng.random() < 0.5:
        drawn["flag"] = rng.choice((True, False, "true", "FALSE"))
    return drawn
