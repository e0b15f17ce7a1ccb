"""Whoever knows the whole network tells a broker of some others."""

from tidings.machine.inputs import Request
from tidings.machine.message import Contact


class Introduce(Request, frozen=True):
    """Brokers of our group, and the number of the cycle."""

    contacts: tuple[Contact, ...]
    cycle: int = 0
