"""What the world outside refuses us, told so that one can act on it."""

from tidings.model.errors import UsageError


class HostError(UsageError):
    """A host cannot start or go on: a port that is taken, a file that is no database. The message says what to do."""
