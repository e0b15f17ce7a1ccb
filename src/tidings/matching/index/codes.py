"""Events as arrays for the fast engine: a row of numbers and a list of atoms for each.

A number that is no double (an integer beyond 2**53) is given by the doubles just below and above it. A filter's bound
is a double, so `bound <= number` holds exactly when `bound <= double below`, and likewise above: comparing doubles
stays exact.
"""

import math
from array import array
from collections.abc import Sequence

import numpy as np

from tidings.matching.index.kernels.layout import IndexBatch
from tidings.matching.index.records import EXACT_INTEGER_MAX
from tidings.matching.index.vocabulary import ALWAYS, Vocabulary
from tidings.model.event import Event
from tidings.model.values import Number


def encode_events(vocabulary: Vocabulary, events: Sequence[Event]) -> IndexBatch:
    known = vocabulary.attributes.get
    dimensions = len(vocabulary.dimensions)
    nothing = [math.nan] * dimensions
    numbers: list[float] = []
    inexact: list[tuple[int, int, Number]] = []
    atoms: list[int] = []
    offsets = [0]
    for event in events:
        row = nothing.copy()
        atoms.append(ALWAYS)
        for name, value in event.attributes.items():
            attribute = known(name)
            if attribute is None:
                continue
            if type(value) is float:
                if attribute.dimension >= 0:
                    row[attribute.dimension] = value
                if attribute.atoms_count:
                    atoms += attribute.atoms_of(value)
                continue
            reading = attribute.memo.get(value) if type(value) is str else None
            number, found = reading if reading is not None else attribute.read(value)
            if found:
                atoms += found
            if number is not None:
                row[attribute.dimension] = number
                if not -EXACT_INTEGER_MAX <= number <= EXACT_INTEGER_MAX:
                    inexact.append((len(offsets) - 1, attribute.dimension, number))
        numbers += row
        offsets.append(len(atoms))
    lows = np.frombuffer(array("d", numbers), np.float64).reshape(len(events), dimensions)
    highs = lows
    if inexact:
        highs = lows.copy()
        for event_number, dimension, number in inexact:
            lows[event_number, dimension], highs[event_number, dimension] = doubles_around(number)
    return IndexBatch(lows, highs, np.array(atoms, np.int32), np.array(offsets, np.int64))


def doubles_around(number: Number) -> tuple[float, float]:
    """The largest double at or below a number, and the smallest at or above."""
    nearest = float(number)
    if nearest == number:
        return nearest, nearest
    if nearest < number:
        return nearest, math.nextafter(nearest, math.inf)
    return math.nextafter(nearest, -math.inf), nearest
