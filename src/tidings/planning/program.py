"""An integer program as it is written down row by row, and HiGHS, which solves it.

Both programs of the planner (`literal.py`, `compact.py`) are rows of binary variables: a sum of some, each times a
small whole number, lies between two numbers. The rows go to the solver as one sparse matrix.

    minimise  sum costs[v] x[v]     where  low[r] <= sum A[r, v] x[v] <= high[r],  x[v] 0 or 1

The relaxation is the same with x[v] anywhere between 0 and 1. It is far easier, and what it finds impossible, or more
costly than some number, is so for whole numbers too.

HiGHS is asked through `scipy.optimize.milp`, which takes no first solution: whoever has one can only add a row that
asks for a better one.
"""

from collections.abc import Sequence
from enum import Enum
from importlib.util import find_spec
from math import ceil, inf
from typing import Any

import msgspec

from tidings.model.errors import UsageError

VARIABLES_MAX = 2_000_000
"""Beyond it a program is not even handed to the solver: matrices of this size take gigabytes."""

Terms = Sequence[tuple[int, float]]
"""Variable and factor."""


class ProgramRows:
    """Grows row by row."""

    def __init__(self) -> None:
        self.places: list[int] = []
        self.variables: list[int] = []
        self.factors: list[float] = []
        self.lows: list[float] = []
        self.highs: list[float] = []

    def __len__(self) -> int:
        return len(self.lows)

    def add(self, terms: Terms, low: float, high: float) -> None:
        place = len(self.lows)
        for variable, factor in terms:
            self.places.append(place)
            self.variables.append(variable)
            self.factors.append(factor)
        self.lows.append(low)
        self.highs.append(high)

    def at_most(self, terms: Terms, high: float) -> None:
        self.add(terms, -inf, high)

    def at_least(self, terms: Terms, low: float) -> None:
        self.add(terms, low, inf)

    def equal(self, terms: Terms, value: float) -> None:
        self.add(terms, value, value)


class Program(msgspec.Struct, frozen=True):
    costs: list[float]
    """One for each variable."""
    rows: ProgramRows

    @property
    def variables(self) -> int:
        return len(self.costs)


class SolverOutcome(Enum):
    SOLVED = "solved"
    IMPOSSIBLE = "impossible"
    UNFINISHED = "unfinished"
    """The time was over."""


class Solution(msgspec.Struct, frozen=True):
    outcome: SolverOutcome
    values: tuple[float, ...] = ()
    """Empty where none was found; an unfinished one may have the best so far."""
    cost: float = inf
    bound: float = -inf
    """No solution costs less."""


def require_solver(program: Program) -> None:
    if find_spec("scipy") is None:
        raise UsageError("planning needs scipy, which is not installed: pip install 'tidings[plan]'")
    if program.variables > VARIABLES_MAX:
        raise UsageError(
            f"an integer program with {program.variables} variables: at most {VARIABLES_MAX} are solved; "
            "choose the action set E, or plan region by region"
        )


def matrix_of(program: Program) -> Any:
    from scipy.sparse import csr_array

    rows = program.rows
    shape = (len(rows), program.variables)
    return csr_array((rows.factors, (rows.places, rows.variables)), shape=shape, dtype=float)


def solve(
    program: Program,
    *,
    seconds_max: float = inf,
    gap_max: float = 0.0,
    open_variables: Sequence[bool] | None = None,
) -> Solution:
    """`gap_max`: a solution that costs at most this share more than the least possible is good enough.
    `open_variables`: all others are 0."""
    require_solver(program)
    import numpy
    from scipy.optimize import Bounds, LinearConstraint, milp

    rows = program.rows
    matrix = matrix_of(program)
    most = 1 if open_variables is None else numpy.array(open_variables, dtype=float)
    options: dict[str, float | bool] = {"mip_rel_gap": gap_max}
    if seconds_max < inf:
        options["time_limit"] = max(0.0, seconds_max)
    found = milp(
        numpy.array(program.costs),
        constraints=LinearConstraint(matrix, rows.lows, rows.highs) if len(rows) else None,
        bounds=Bounds(0, most),
        integrality=numpy.ones(program.variables),
        options=options,
    )
    solution = solution_of(found)
    if not solution.values:
        return solution
    # The solver's variables are whole up to a tolerance; their cost is that of the whole numbers.
    cost = sum(each for each, value in zip(program.costs, solution.values, strict=True) if value > 0.5)
    return msgspec.structs.replace(solution, cost=float(cost))


OPTIMAL, LIMIT_REACHED, INFEASIBLE = 0, 1, 2
"""As scipy numbers them."""


def solution_of(found: "object") -> Solution:
    status: int = found.status  # type: ignore[attr-defined]
    if status == INFEASIBLE:
        return Solution(SolverOutcome.IMPOSSIBLE)
    assert status in (OPTIMAL, LIMIT_REACHED), f"the solver gave up: {found.message}"  # type: ignore[attr-defined]
    values = found.x  # type: ignore[attr-defined]
    bound = getattr(found, "mip_dual_bound", None)
    cost = inf if values is None else float(found.fun)  # type: ignore[attr-defined]
    if status == OPTIMAL and bound is None:
        bound = cost
    return Solution(
        SolverOutcome.SOLVED if status == OPTIMAL else SolverOutcome.UNFINISHED,
        () if values is None else tuple(values.tolist()),
        cost,
        -inf if bound is None else float(bound),
    )


def whole_bound(bound: float, is_whole: bool) -> float:
    """Where all costs are whole numbers, so is the least cost."""
    return float(ceil(bound - 1e-6)) if is_whole and bound > -inf else bound
