"""What many runs say together."""

from collections.abc import Sequence
from math import sqrt

from tidings.spark.metrics.repetition import student_t


def mean_and_half_width(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean of repetitions, and half the interval that holds the true one with a probability of 95 %."""
    ordered = sorted(values)
    average = added(ordered) / len(ordered)
    if len(ordered) == 1:
        return average, None
    squares = added([(value - average) * (value - average) for value in ordered])
    return average, sqrt(squares / (len(ordered) - 1) / len(ordered)) * student_t(len(ordered) - 1)


def added(values: Sequence[float]) -> float:
    """One after the other: `sum` makes up for rounding since Python 3.12, and Spark does not."""
    total = 0.0
    for value in values:
        total += value
    return total
