import os
import subprocess
import sys
from random import Random
from typing import Any

import msgspec
import pytest

from tidings.matching.bloom import (
    BITS_MAX,
    FILL_MAX,
    HASHES_MAX,
    BloomProfile,
    bits_of_conjunction,
    bits_of_event,
    bits_of_tags,
    bits_superset,
    fill_of,
    filter_bits_cover,
    message_bits_match_filter_bits,
    row_from_bytes,
    row_to_bytes,
    tags_of_conjunction,
    tags_of_constraint,
    tags_of_event,
    tags_of_filter,
)
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.sets.constraint import Constraint, above, between, equal_to
from tidings.model.sets.texts import TextSet


def texts(*include: str) -> TextSet:
    return TextSet(include=tuple(sorted(include)))


@pytest.mark.parametrize(
    ("value", "tags"),
    [
        (5, ["V|n|5"]),
        (5.0, ["V|n|5"]),
        (-0.0, ["V|n|0"]),
        (2.5, ["V|n|2.5"]),
        (True, ["V|n|true", "V|n|1"]),
        ("05", ["V|n|05", "V|n|5"]),
        ("5", ["V|n|5"]),
        ("TRUE", ["V|n|TRUE", "V|n|true"]),
        ("true", ["V|n|true"]),
        ("IBM", ["V|n|IBM"]),
        ("", ["V|n|"]),
        ("a|b", ["V|n|a|b"]),
    ],
)
def test_an_event_has_a_tag_for_each_reading_of_a_value(value: Any, tags: list[str]) -> None:
    assert list(tags_of_event(Event({"n": value}))) == ["E|n", *tags]


@pytest.mark.parametrize(
    ("constraint", "tags"),
    [
        (Constraint("n"), ["E|n"]),
        (Constraint("n", present=False), []),
        (Constraint("n", number=equal_to(5)), ["E|n", "V|n|5"]),
        (Constraint("n", number=equal_to(5.0)), ["E|n", "V|n|5"]),
        (Constraint("n", number=equal_to(1)), ["E|n", "V|n|1"]),
        (Constraint("n", number=above(5)), ["E|n"]),
        (Constraint("n", number=equal_to(5) | equal_to(6)), ["E|n"]),
        (Constraint("n", text=texts("05")), ["E|n", "V|n|05", "V|n|5"]),
        (Constraint("n", text=texts("5")), ["E|n", "V|n|5"]),
        (Constraint("n", text=texts("5", "05")), ["E|n", "V|n|5"]),
        (Constraint("n", text=texts("IBM", "AAPL")), ["E|n"]),
        (Constraint("n", text=texts("true")), ["E|n", "V|n|true"]),
        (Constraint("n", text=texts("TRUE")), ["E|n", "V|n|TRUE", "V|n|true"]),
        (Constraint("n", truth=True), ["E|n", "V|n|true"]),
        (Constraint("n", truth=False), ["E|n", "V|n|false"]),
        (Constraint("n", truth=True, number=between(0.5, 7)), ["E|n", "V|n|true", "V|n|1"]),
        (Constraint("n", truth=True, number=equal_to(0)), ["E|n"]),
    ],
)
def test_a_constraint_has_the_tags_of_all_values_it_accepts(constraint: Constraint, tags: list[str]) -> None:
    assert list(tags_of_constraint(constraint)) == tags


def test_a_filter_has_one_set_of_tags_for_each_conjunction() -> None:
    one = (Constraint("a", truth=True), Constraint("b"))
    other = (Constraint("a", present=False),)
    assert tags_of_conjunction(one) == ("E|a", "V|a|true", "E|b")
    assert tags_of_filter(Filter((one, other))) == (("E|a", "V|a|true", "E|b"), ())


def test_the_three_tests_point_in_the_right_direction() -> None:
    profile = BloomProfile()
    message = bits_of_event(Event({"a": 5, "b": "x"}), profile)
    wide = bits_of_conjunction((Constraint("a"),), profile)
    narrow = bits_of_conjunction((Constraint("a", number=equal_to(5)), Constraint("b")), profile)
    assert bits_superset(narrow, wide) and not bits_superset(wide, narrow)
    assert filter_bits_cover(wide, narrow) and not filter_bits_cover(narrow, wide)
    assert message_bits_match_filter_bits(message, narrow) and not message_bits_match_filter_bits(wide, message)


VECTORS = [
    (BloomProfile(64, 4, 0), ["E|price"], "0000028000800200"),
    (BloomProfile(128, 4, 7), ["E|price", "V|price|5"], "00000080000000100040402480004000"),
    (
        BloomProfile(256, 4, 2**64 - 1),
        ["E|name", "V|name|Zürich"],
        "0000000200000000080021200100100000000000000000000000000100000000",
    ),
    (
        BloomProfile(1000, 7, 2**64 - 1),
        ["V|felt|true"],
        "0000000000000000000000000000000000000000080000000000000000000000000000080000000000000000000000000000000004000000000000000040000000000000020000000000000000000000000000000000000000000000000000000000000000400000000000000000000000000000000000000000000080",
    ),
]


@pytest.mark.spec("T-9")
@pytest.mark.parametrize(("profile", "tags", "row"), VECTORS)
def test_bits_are_those_written_down(profile: BloomProfile, tags: list[str], row: str) -> None:
    assert row_to_bytes(bits_of_tags(tags, profile), profile).hex() == row


@pytest.mark.spec("T-9")
def test_bits_are_the_same_in_processes_with_other_hash_seeds() -> None:
    program = """
from tidings.matching.bloom import BloomProfile, bits_of_event, row_to_bytes
from tidings.model.event import Event
profile = BloomProfile(128, 4, 3)
print(row_to_bytes(bits_of_event(Event({"price": 5.0, "felt": True, "name": "Zürich"}), profile), profile).hex())
"""
    rows = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUTF8": "1"},
            capture_output=True,
            check=True,
            text=True,
        ).stdout.strip()
        for seed in ("0", "1", "4242")
    }
    assert rows == {"c0b18403090042001928002060260000"}


@pytest.mark.spec("T-8")
@pytest.mark.parametrize("bits", [64, 128, 256])
@pytest.mark.parametrize("attributes", [3, 5, 10])
def test_false_positives_are_as_frequent_as_the_formula_says(bits: int, attributes: int) -> None:
    profile, random = BloomProfile(bits, 4, seed=1), Random(2026)
    rows = [
        bits_of_event(Event({f"a{random.getrandbits(32)}": f"v{place}" for place in range(attributes)}), profile)
        for _ in range(1000)
    ]
    absent = [bits_of_tags([f"V|a0|w{random.random()}"], profile) for _ in range(3000)]
    positives = sum(message_bits_match_filter_bits(row, tag) for row in rows for tag in absent)
    fill = 1 - (1 - 1 / bits) ** (profile.hashes * 2 * attributes)
    assert positives / (len(rows) * len(absent)) == pytest.approx(fill**profile.hashes, rel=0.2)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"bits": 0}, "bits"),
        ({"bits": 12}, "bits"),
        ({"bits": BITS_MAX + 8}, "bits"),
        ({"bits": 64.0}, "bits"),
        ({"hashes": 0}, "hashes"),
        ({"hashes": HASHES_MAX + 1}, "hashes"),
        ({"bits": 8, "hashes": 9}, "hashes"),
        ({"hashes": True}, "hashes"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed"),
    ],
)
def test_a_profile_that_cannot_work_is_refused(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        BloomProfile(**arguments)


def test_a_profile_from_the_wire_is_checked_as_well() -> None:
    with pytest.raises(msgspec.ValidationError, match="hashes"):
        msgspec.json.decode(b'{"bits":64,"hashes":33,"seed":0}', type=BloomProfile)


def test_rows_survive_the_wire_and_wrong_ones_are_refused() -> None:
    profile = BloomProfile(64, 4)
    row = bits_of_tags(["E|price", "V|price|5"], profile)
    assert row_from_bytes(row_to_bytes(row, profile), profile) == row
    for data in (b"", bytes(7), bytes(9)):
        with pytest.raises(UsageError, match="bytes"):
            row_from_bytes(data, profile)
    for wrong in (-1, 1 << 64):
        with pytest.raises(UsageError, match="row"):
            row_to_bytes(wrong, profile)


def test_a_row_that_is_too_full_is_refused_both_ways() -> None:
    profile = BloomProfile(64, 4)
    most = int(64 * FILL_MAX)
    fullest = (1 << most) - 1
    assert row_from_bytes(fullest.to_bytes(8, "little"), profile) == fullest
    assert fill_of(fullest, profile) <= FILL_MAX
    with pytest.raises(UsageError, match="filled"):
        row_from_bytes(((1 << most + 1) - 1).to_bytes(8, "little"), profile)
    with pytest.raises(UsageError, match="filled"):
        row_to_bytes((1 << 64) - 1, profile)
