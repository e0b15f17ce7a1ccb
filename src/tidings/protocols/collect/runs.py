"""Sets of block numbers as runs, (first, count), which is how messages and journals hold them."""

from collections.abc import Iterable, Iterator

from tidings.model.bounds import RANGES_MAX

NumberRun = tuple[int, int]


def runs_of(numbers: Iterable[int]) -> tuple[NumberRun, ...]:
    runs: list[NumberRun] = []
    first = count = -1
    for number in sorted(set(numbers)):
        if number == first + count:
            count += 1
            continue
        if count > 0:
            runs.append((first, count))
        first, count = number, 1
    return (*runs, (first, count)) if count > 0 else ()


def numbers_in(runs: Iterable[NumberRun], limit: int) -> Iterator[int]:
    """The numbers below `limit`; a stranger's run may be of any length."""
    for first, count in runs:
        yield from range(first, min(first + count, limit))


def parts_of(runs: tuple[NumberRun, ...]) -> list[tuple[NumberRun, ...]]:
    """As many as fit in one message each; one at least."""
    return [runs[place : place + RANGES_MAX] for place in range(0, len(runs), RANGES_MAX)] or [()]


def is_among(number: int, runs: Iterable[NumberRun]) -> bool:
    return any(first <= number < first + count for first, count in runs)
