"""A program made smaller by its relaxation, without losing its best solution.

The relaxation gives a bound on the cost, and for each variable its *reduced cost*: by so much, at least, the bound
rises if the variable is 1. So whoever looks for solutions that cost no more than a guess may leave out all variables
whose reduced cost leads beyond it; of a program of the planner that is half of them and more. If the smaller program
has a solution within the guess, it is the best of the whole. If it has a costlier one, that one's cost is the next
guess, for which nothing is left out that could be better.

The relaxation is solved by the interior point method, which also is the first to say that there is no solution at all.
"""

from collections.abc import Callable
from math import ceil, inf

import msgspec

from tidings.planning.program import Program, Solution, SolverOutcome, matrix_of, require_solver, solve

VARIABLES_MIN = 2_000
"""Smaller programs are solved as they are."""

GUESS = 1.15
"""The first guess, in times the bound of the relaxation: most plans cost 5 to 20 % more than that."""

TOLERANCE = 1e-6


class Relaxed(msgspec.Struct, frozen=True):
    outcome: SolverOutcome
    bound: float = -inf
    reduced_costs: tuple[float, ...] = ()


def relax(program: Program, seconds_max: float = inf) -> Relaxed:
    require_solver(program)
    import numpy
    from scipy.optimize import linprog
    from scipy.sparse import vstack

    matrix = matrix_of(program)
    lows, highs = numpy.array(program.rows.lows), numpy.array(program.rows.highs)
    is_equal = lows == highs
    below, above = numpy.isfinite(highs) & ~is_equal, numpy.isfinite(lows) & ~is_equal
    options = {} if seconds_max == inf else {"time_limit": max(0.0, seconds_max)}
    found = linprog(
        numpy.array(program.costs),
        A_ub=vstack([matrix[below], -matrix[above]]),
        b_ub=numpy.concatenate([highs[below], -lows[above]]),
        A_eq=matrix[is_equal],
        b_eq=lows[is_equal],
        bounds=(0, 1),
        method="highs-ipm",
        options=options,
    )
    if found.status == 0:
        return Relaxed(SolverOutcome.SOLVED, float(found.fun), tuple(found.lower.marginals.tolist()))
    # A limit, or trouble with numbers (4): nothing is known, and the whole program is solved.
    return Relaxed(SolverOutcome.IMPOSSIBLE if found.status == 2 else SolverOutcome.UNFINISHED)


def solve_reduced(
    program: Program,
    *,
    is_whole: bool,
    gap_max: float = 0.0,
    seconds_left: Callable[[], float] = lambda: inf,
    variables_min: int = VARIABLES_MIN,
) -> Solution:
    """As `solve`; `is_whole` says that all costs are whole numbers."""
    if program.variables < variables_min:
        return solve(program, seconds_max=seconds_left(), gap_max=gap_max)
    relaxed = relax(program, seconds_left())
    if relaxed.outcome is SolverOutcome.IMPOSSIBLE:
        return Solution(SolverOutcome.IMPOSSIBLE)
    if relaxed.outcome is SolverOutcome.UNFINISHED:
        return solve(program, seconds_max=seconds_left(), gap_max=gap_max)
    bound = ceil(relaxed.bound - TOLERANCE) if is_whole else relaxed.bound
    guess, best = bound * GUESS, Solution(SolverOutcome.UNFINISHED, bound=bound)
    while True:
        open_variables = [relaxed.bound + cost <= guess + TOLERANCE for cost in relaxed.reduced_costs]
        found = solve(program, seconds_max=seconds_left(), gap_max=gap_max, open_variables=open_variables)
        if found.outcome is SolverOutcome.UNFINISHED:
            return min((best, msgspec.structs.replace(found, bound=bound)), key=lambda each: each.cost)
        if found.outcome is SolverOutcome.SOLVED and found.cost <= guess + TOLERANCE:
            # Within the guess nothing was left out, so its bound is that of the whole.
            return msgspec.structs.replace(found, bound=min(found.bound, found.cost))
        if all(open_variables):
            return found
        if found.outcome is SolverOutcome.SOLVED:
            guess, best = found.cost, found
        else:
            guess = guess * GUESS if guess < bound * 2 else inf
