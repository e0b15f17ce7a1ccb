"""What the world outside refuses us, told so that one can act on it."""

from tidings.model.errors import UsageError


class HostError(UsageError):
    """A host cannot start or go on: a port that is taken, a file that is no database. The message says what to do."""


class ClientError(HostError):
    """What a client could not do. Each kind below says why, and its message what to do next."""


class NotReachable(ClientError):
    """No broker answered."""


class Refused(ClientError):
    """The broker answered, and said no."""


class NotPermitted(Refused):
    """It said no because of who we are: the token, the name, the bound."""


class NotConfirmed(ClientError):
    """It is not known whether all that was promised happened: the answer did not come."""


class NotAnswered(ClientError, TimeoutError):
    """Nobody replied to a request in time."""


class TooSlow(ClientError):
    """The subscription has ended because its application did not take events as fast as they came."""


class Closed(ClientError):
    """The client, or the subscription, is closed already."""


class NamesakeWarning(UserWarning):
    """Another process publishes under our name at the same time."""
