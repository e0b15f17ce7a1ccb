"""Where to file a record: under the condition that the fewest events satisfy, as far as is known."""

from typing import Any

import numpy as np

from tidings.matching.index.kernels.layout import (
    ASKING,
    ATOM_HOMES,
    BOUNDED,
    CLASSES,
    DIMENSION_AT,
    DIMENSION_KNOTS,
    EVENTS,
    HITS,
    KNOTS,
    LEFT_OPEN,
    RECORDS,
    RIGHT_OPEN,
    Array,
    IndexStore,
    Integer,
    Real,
    inner,
    integer,
)
from tidings.matching.index.kernels.records import atom_count, bounds_of, dimension_count, interval_of, names_of

GUESS_WEIGHT = 32.0
"""The first guess about an atom counts as much as this many events."""

RESOLUTION = 0.005
"""Added to the share of every interval: shares closer than this cannot be told from a sample."""

WIDE = 0.4
"""Intervals of at least this share of events are the first class by width."""


@inner
def atom_share(store: IndexStore, atom: Integer) -> Real:
    """The share of events expected to satisfy an atom: as seen, with what filters ask for as the first guess."""
    # ALWAYS, which every event satisfies.
    if atom == 0:
        return 1.0
    guess = (store.atoms[atom, ASKING] + 1.0) / (store.words[RECORDS] + 2.0)
    return (store.atoms[atom, HITS] + GUESS_WEIGHT * guess) / (store.words[EVENTS] + GUESS_WEIGHT)


@inner
def share_below(store: IndexStore, knots: Integer, number: Real) -> Real:
    """The share of numbers up to `number`, between equally likely knots."""
    floats = store.floats
    if number <= floats[knots]:
        return 0.0
    if number >= floats[knots + KNOTS - 1]:
        return 1.0
    # Knots are quantiles: between two neighbours lies the same share of all numbers. The search keeps knot `low` <=
    # number < knot `high` until they are neighbours; between them numbers are taken to be spread evenly.
    low, high = 0, KNOTS - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if floats[knots + middle] <= number:
            low = middle
        else:
            high = middle
    begin, end = floats[knots + low], floats[knots + high]
    return (low + (number - begin) / (end - begin)) / (KNOTS - 1)


@inner
def interval_share(store: IndexStore, dimension: Integer, low: Real, high: Real) -> Real:
    """The share of events expected to have a number in this interval. Without knots (not a number) nothing was seen
    yet: then an interval with two ends is taken for rarer than one with a single end."""
    knots = store.words[DIMENSION_AT + dimension] + DIMENSION_KNOTS
    if np.isnan(store.floats[knots]):
        return 0.1 if low > -np.inf and high < np.inf else 0.5
    return min(share_below(store, knots, high) - share_below(store, knots, low) + RESOLUTION, 1.0)


@inner
def range_home(dimension: Integer, low: Real, high: Real, share: Real) -> Integer:
    """The cluster of an interval: by its open end, else by width. Multiplying by 4 until it is wide counts how many
    classes narrower it is."""
    if low == -np.inf:
        return dimension * CLASSES + LEFT_OPEN
    if high == np.inf:
        return dimension * CLASSES + RIGHT_OPEN
    kind = BOUNDED
    while share < WIDE and kind < CLASSES - 1:
        share *= 4.0
        kind += 1
    return dimension * CLASSES + kind


@inner
def best_home(
    store: IndexStore, names: Array, at: Integer, dimensions: Integer, atoms: Integer, bounds: Array, begin: Integer
) -> Any:
    """The cluster for a record, and the share of events that would look there. Names and bounds may lie anywhere."""
    # Where nothing is better a record goes to the cluster of atom 0, at which every event looks. An atom that must not
    # be satisfied (negative) is no place to file: events that lack it would not look there.
    share, home = 1.0, integer(ATOM_HOMES)
    for i in range(atoms):
        atom = integer(names[at + dimensions + i])
        if atom >= 0:
            new_share = atom_share(store, atom)
            if new_share < share:
                share, home = new_share, ATOM_HOMES + atom
    for i in range(dimensions):
        dimension, low, high = integer(names[at + i]), bounds[begin + 2 * i], bounds[begin + 2 * i + 1]
        new_share = interval_share(store, dimension, low, high)
        if new_share < share:
            share, home = new_share, range_home(dimension, low, high, new_share)
    return home, share


@inner
def better_home(store: IndexStore, record: Integer, home: Integer) -> Integer:
    """A home where the record would be looked at by four times fewer events, or the one it has."""
    dimensions, atoms = dimension_count(store, record), atom_count(store, record)
    bounds = bounds_of(record, dimensions, atoms)
    better, share = best_home(store, store.halves, names_of(record), dimensions, atoms, store.floats, bounds)
    if home >= ATOM_HOMES:
        present = atom_share(store, home - ATOM_HOMES)
    else:
        low, high = interval_of(store, record, home)
        present = interval_share(store, home // CLASSES, low, high)
    # Shares are estimates that move all the time; without the factor records would move to and fro.
    return better if 4.0 * share < present else home
