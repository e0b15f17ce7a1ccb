"""What goes wrong with a trace file, told so that one can act on it."""

from tidings.model.errors import UsageError


class TraceError(UsageError):
    """A trace cannot be written or read; the message names the file, the reason, and what to do."""
