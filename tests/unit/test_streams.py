import pytest

from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError

EXPECTED = [
    0.0621731617689546,
    11.215537887313209,
    "c",
    4,
    168,
    ["d", "b", "e"],
    0.3447547452931823,
    ["d", "e", "b", "c", "f", "a"],
]


def test_a_stream_is_the_same_in_every_process_and_version() -> None:
    rng = random_stream(7, "node", "b3", "gossip")
    letters = list("abcdef")
    drawn = [
        rng.random(),
        rng.uniform(10, 20),
        rng.choice(letters),
        rng.randint(1, 6),
        rng.below(1000),
        rng.sample(letters, 3),
        rng.expovariate(2.0),
    ]
    rng.shuffle(letters)
    assert [*drawn, letters] == EXPECTED


def test_streams_of_different_names_are_independent() -> None:
    drawn = {random_stream(seed, *names).random() for seed in (1, 2) for names in (("a",), ("b",), ("a", "b"), ("ab",))}
    assert len(drawn) == 8


def test_a_draw_from_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        random_stream(1).choice([])


def test_every_member_is_drawn_about_as_often() -> None:
    rng = random_stream(3)
    counts = [0] * 6
    for _ in range(6000):
        counts[rng.randint(0, 5)] += 1
        (member,) = rng.sample(range(6), 1)
        counts[member] += 1
    assert all(1800 < count < 2200 for count in counts)


def test_a_sample_has_no_member_twice_and_takes_all_when_there_are_few() -> None:
    rng = random_stream(4)
    for count in range(8):
        sample = rng.sample(range(5), count)
        assert len(set(sample)) == len(sample) == min(count, 5)


def test_a_shuffle_keeps_every_member() -> None:
    rng, numbers = random_stream(5), list(range(50))
    rng.shuffle(numbers)
    assert sorted(numbers) == list(range(50)) != numbers
