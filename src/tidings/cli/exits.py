"""The exit codes of `tidings`, and which problem ends with which."""

from tidings.model.errors import UsageError
from tidings.net.errors import ClientError, Closed, HostError, NotPermitted, NotReachable
from tidings.net.inspector import NotInspected

OK = 0
"""Done; for a question, yes."""
NO = 1
"""For a question, no; something was found wrong, or did not succeed."""
USAGE = 2
"""Called wrongly."""
NOT_REACHABLE = 3
"""No broker answers there."""
NOT_PERMITTED = 4
"""A broker does not let us in, or not do this."""
MACHINE = 5
"""This machine refuses: a port that is taken, a file that cannot be used."""


CODES: tuple[tuple[type[UsageError], int], ...] = (
    (NotPermitted, NOT_PERMITTED),
    (NotReachable, NOT_REACHABLE),
    (Closed, NOT_REACHABLE),
    (ClientError, NO),
    (HostError, MACHINE),
)
"""The first that fits holds."""


def exit_code(problem: UsageError) -> int:
    if isinstance(problem, NotInspected):
        return NOT_PERMITTED if problem.is_refused else NOT_REACHABLE
    return next((code for kind, code in CODES if isinstance(problem, kind)), USAGE)
