"""What goes wrong with bytes from outside. Nothing else is raised on their account, whatever they are."""


class WireError(Exception):
    """`reason` is a sentence for a person: it goes into the log and, as the reason of a goodbye, to the other end."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class BadFrame(WireError):
    """The stream is out of step and cannot be read further; the connection is closed."""


class BadMessage(WireError):
    """The bytes of one message say nothing we know."""
