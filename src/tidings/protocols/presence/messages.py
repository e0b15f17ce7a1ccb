"""What brokers say to each other about who is there."""

from tidings.machine.message import Contact, Message, Name


class Beacon(Message, frozen=True):
    """I am here."""


class ReachQuestion(Message, frozen=True):
    """I do not hear this broker any more. Is anybody there?"""

    contact: Contact


class ReachAnswer(Message, frozen=True):
    node: Name
    is_there: bool
    """We hear it, or something listens where it did."""
