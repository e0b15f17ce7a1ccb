"""Numbers that come out the same however the rows are spread: pieces of SQL for integers, percentiles and averages.

Sums of floats depend on the order in which they are added. So everything that is added up is an integer: a time in
microseconds, a ratio in millionths. A percentile is exact, but of values that are first cut to four significant digits;
the table of distinct values that Spark keeps for it then has some thousands of entries for each power of ten, however
many values there are. Between two neighbouring values it is interpolated, as numpy does by default, and rounded.

Each function takes and gives the text of an SQL expression.
"""

DIGITS = 4
"""Significant digits that a percentile sees."""

ROUND_UP = 0.505
"""Rounds a percentile. It is a whole number of hundredths, so this leaves room for the last digits of a float."""

MILLION = 1_000_000
CUT_POWERS = range(1, 16)
"""Powers of ten by which a value may have to be cut: microseconds of three hundred years have 16 digits."""


def millionths(value: str) -> str:
    """The nearest whole number of millionths; of seconds, microseconds."""
    return f"floor(({value}) * {MILLION}D + 0.5D)"


def cut(value: str) -> str:
    """An integer without what follows its first four digits."""
    cases = " ".join(
        f"WHEN abs({value}) < {10 ** (DIGITS + power)} THEN {value} - {value} % {10**power}" for power in CUT_POWERS
    )
    return f"CASE WHEN abs({value}) < {10**DIGITS} THEN {value} {cases} END"


def percentiles(value: str, *shares: float) -> str:
    """An array, one percentile for each share, as whole numbers; null if there are no values."""
    exact = f"percentile({cut(value)}, array({', '.join(f'{share}D' for share in shares)}))"
    return f"transform({exact}, each -> floor(each + {ROUND_UP}D))"


def seconds(microseconds: str) -> str:
    return f"({microseconds}) / {MILLION}"


def mean(total: str, count: str) -> str:
    """Null if there is nothing to average."""
    return f"try_divide({total}, {count})"


def rounded_mean(total: str, count: str) -> str:
    """As an integer, so that it can be summed again."""
    return f"floor(try_divide({total}, {count}) + 0.5D)"


def share(part: str, whole: str) -> str:
    """Null if the whole is nothing."""
    return f"try_divide({part}, {whole})"


def squares(value: str) -> str:
    """The sum of squares, in decimals: a long overflows at three thousand million."""
    return f"sum(CAST({value} AS DECIMAL(18, 0)) * CAST({value} AS DECIMAL(18, 0)))"


def jain(total: str, count: str, square_total: str) -> str:
    """Jain's index of fairness, (sum x)^2 / (n sum x^2): 1 if all have the same, 1/n if one has everything."""
    return f"try_divide(CAST({total} AS DOUBLE) * CAST({total} AS DOUBLE), {count} * CAST({square_total} AS DOUBLE))"
