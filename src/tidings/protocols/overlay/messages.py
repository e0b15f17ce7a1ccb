"""What brokers say to each other about which links carry events: those of a tree, and those of a script."""

from tidings.machine.message import Count, Message, Name, OptionalName, Real


class TreeOffer(Message, frozen=True):
    """I am `distance` hops away from the root; come below me and you are one more."""

    born_at: Real
    """Time of day at which the root started. The oldest broker is the root; of equally old ones the first by name."""
    root: Name
    sequence: Count
    """The root's own count of how often it called for all paths to it to be found anew."""
    distance: Count


class RenewTree(Message, frozen=True):
    """Your offer cannot be told from my own, come back to me. Have the root raise its sequence to this."""

    born_at: Real
    root: Name
    sequence: Count


class Join(Message, frozen=True):
    """I am below you: let this link carry what the tree carries."""


class Joined(Message, frozen=True):
    pass


class Leave(Message, frozen=True):
    """I am no longer below you."""


class Left(Message, frozen=True):
    """And you will hear no more from me on account of that."""


class Stay(Message, frozen=True):
    """You will want to be below me again when you have heard my last offer: keep your claim."""


"""Empty where the change has no name."""


class Linked(Message, frozen=True):
    """We are neighbours: I was asked for it, for the time of this number."""

    number: Count
    reconfiguration: OptionalName


class Unlinked(Message, frozen=True):
    """We are no neighbours any more, or I have heard that we are not. Of what you were asked for I had heard up to this
    number."""

    heard: Count
    reconfiguration: OptionalName
