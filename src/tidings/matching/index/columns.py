"""Arrow batches: columns are attributes, null is absent.

String columns are looked at once per distinct value, numeric ones are taken over as they are, so encoding costs
little per row.
"""

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tidings.matching.index.vocabulary import ALWAYS, AttributeTable, Reading, Vocabulary
from tidings.model.bounds import INTEGER_MAX
from tidings.model.errors import UsageError
from tidings.model.event import Event

if TYPE_CHECKING:
    from tidings.matching.index.kernels.layout import IndexBatch


def events_of(batch: Any) -> list[Event]:
    return [event_from(row) for row in batch.to_pylist()]


def event_at(batch: Any, row: int) -> Event:
    return event_from({name: batch.column(name)[row].as_py() for name in batch.schema.names})


def event_from(row: dict[str, Any]) -> Event:
    return Event({name: value for name, value in row.items() if value is not None})


def encode_columns(vocabulary: Vocabulary, batch: Any) -> "IndexBatch":
    """The rows of a RecordBatch or Table for the fast engine."""
    import numpy as np

    from tidings.matching.index.kernels.layout import IndexBatch
    from tidings.matching.index.kernels.search import spread_atoms

    rows, dimensions = batch.num_rows, len(vocabulary.dimensions)
    lows = np.full((rows, dimensions), np.nan)
    highs = lows
    counts = np.ones(rows, np.int64)
    findings = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        attribute = vocabulary.attributes.get(name)
        if attribute is None or column.null_count == rows:
            continue
        encoded = encode_column(attribute, flat(name, column))
        if encoded.low is not None:
            if encoded.high is not encoded.low and highs is lows:
                highs = lows.copy()
            lows[:, attribute.dimension] = encoded.low
            if highs is not lows:
                highs[:, attribute.dimension] = encoded.high
        if encoded.atoms is not None:
            findings.append(encoded)
            counts += encoded.atom_counts()
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    atoms = np.full(offsets[-1], ALWAYS, np.int32)
    filled = offsets[:-1] + 1
    for encoded in findings:
        spread_atoms(encoded.codes, encoded.atoms_at, encoded.atoms, filled, atoms)
    return IndexBatch(lows, highs, atoms, offsets)


class EncodedColumn:
    """A column as numbers (rounded down and up), and as codes of its distinct values with the atoms of each code."""

    def __init__(self) -> None:
        self.low: Any = None
        self.high: Any = None
        self.codes: Any = None
        self.atoms: Any = None
        self.atoms_at: Any = None

    def atom_counts(self) -> Any:
        import numpy as np

        return np.diff(self.atoms_at)[self.codes]

    def set_atoms(self, codes: Any, readings: list[Reading]) -> None:
        """`codes` may be one more than the last for null, which has no atoms."""
        import numpy as np

        atoms: list[int] = []
        ends = [0]
        for _, found in readings:
            atoms += found
            ends.append(len(atoms))
        if atoms:
            self.codes = codes
            self.atoms = np.array(atoms, np.int32)
            self.atoms_at = np.array([*ends, len(atoms)], np.int64)


def flat(name: str, column: Any) -> Any:
    """One array whose type we know how to read."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    kind = column.type
    if pa.types.is_dictionary(kind) and not is_text(kind.value_type):
        column = column.dictionary_decode()
        kind = column.type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if not (is_number or is_text(kind) or pa.types.is_dictionary(kind)):
        raise UsageError(f"column {name!r} has type {kind}; cast it to string, integer, float or boolean")
    return column


def is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def encode_column(attribute: AttributeTable, column: Any) -> EncodedColumn:
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return encode_numbers(attribute, column)
    return encode_values(attribute, column)


def encode_values(attribute: AttributeTable, column: Any) -> EncodedColumn:
    """Strings and booleans, through their distinct values."""
    import numpy as np

    from tidings.matching.index.codes import doubles_around

    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
        column = column.dictionary_decode()
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    values = column.dictionary.to_pylist()
    readings = [attribute.memo.get(value) or attribute.read(value) for value in values]
    codes = np.array(pc.fill_null(column.indices.cast(pa.int64()), len(values)))
    encoded = EncodedColumn()
    encoded.set_atoms(codes, readings)
    if attribute.dimension >= 0 and any(number is not None for number, _ in readings):
        around = [(np.nan, np.nan) if number is None else doubles_around(number) for number, _ in readings]
        table = np.array([*around, (np.nan, np.nan)])
        encoded.low = table[:, 0][codes]
        encoded.high = encoded.low if (table[:-1, 0] == table[:-1, 1]).all() else table[:, 1][codes]
    return encoded


def encode_numbers(attribute: AttributeTable, column: Any) -> EncodedColumn:
    import numpy as np

    encoded = EncodedColumn()
    is_null = pc.is_null(column).to_numpy(zero_copy_only=False) if column.null_count else None
    values = (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise UsageError(f"column {attribute.name!r} holds NaN or infinity; use null where there is no number")
        encoded.low = encoded.high = values.astype(np.float64)
    else:
        if values.dtype.kind == "u" and len(values) and values.max() > INTEGER_MAX:
            raise UsageError(
                f"column {attribute.name!r} holds an integer beyond 64 bit signed; cast it to float or string"
            )
        encoded.low, encoded.high = around_integers(values.astype(np.int64))
    if attribute.atoms_count:
        distinct, codes = np.unique(values, return_inverse=True)
        if is_null is not None:
            codes[is_null] = len(distinct)
        encoded.set_atoms(codes, [attribute.read(value) for value in distinct.tolist()])
    if attribute.dimension < 0:
        encoded.low = encoded.high = None
    elif is_null is not None:
        same = encoded.low is encoded.high
        encoded.low[is_null] = np.nan
        encoded.high = encoded.low if same else np.where(is_null, np.nan, encoded.high)
    return encoded


def around_integers(values: Any) -> tuple[Any, Any]:
    """The doubles at or below, and at or above; the same array twice where all integers are doubles."""
    import numpy as np

    nearest = values.astype(np.float64)
    limit = 2**53
    if not len(values) or (values.min() >= -limit and values.max() <= limit):
        return nearest, nearest
    too_high = nearest >= 2.0**63  # has no integer to compare with, and every 64-bit integer is below it
    back = np.where(too_high, 0.0, nearest).astype(np.int64)
    low = np.where(too_high | (back > values), np.nextafter(nearest, -np.inf), nearest)
    high = np.where(~too_high & (back < values), np.nextafter(nearest, np.inf), nearest)
    return low, high
