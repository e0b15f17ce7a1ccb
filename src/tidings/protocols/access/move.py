"""Where a client goes whose broker sends it away (`guest.py` is the whole of it).

A *way out* is a broker of which another one has told. Ways out are tried one after the other, beside the link that
there is; the first that lets us in has us. Brokers that let us in, and those that were named by one that did not, are
remembered, up to `WAYS_OUT_MAX` of them: none of those that the application named may be there any more.

What is believed. A broker that sends us away could as well have served us badly, or broken the link; what it must not
gain is a hold on us that lasts, or our credentials for somebody else. So `why_not_there(broker, contact)`, which is the
host's, says which addresses may not be called at all (where plain text, or a token that is good without its key, may
not go), and under TLS whoever answers has to prove the name that was told before anything is said to it.
"""

from collections.abc import Callable, Iterable

from tidings.machine.message import Contact, is_address_text
from tidings.model.bounds import WAYS_OUT_MAX
from tidings.model.identity import NodeId, is_address, is_visitor

WhyNotThere = Callable[[NodeId, Contact], str]
"""Why a contact of which this broker told is not called; empty where it is."""

NOWHERE = "no broker was named where we could go"
NO_BROKER = "{node} is no name of a broker"
NO_ADDRESS = "{address} is no address"


class WaysOut:
    """`next()` until it is None; `problem` is the last one."""

    def __init__(self) -> None:
        self.left: list[Contact] = []
        self.tried: dict[NodeId, None] = {}
        self.problem = NOWHERE
        self.broker: NodeId | None = None
        """The one that is being tried, and the epoch of its link, when there is one."""
        self.epoch: int | None = None

    def add(self, contacts: Iterable[Contact], besides: Iterable[NodeId | None]) -> None:
        """Not `besides`: who tells, and whom we are with."""
        known = {*besides, *self.tried, *(contact.node for contact in self.left)}
        room = WAYS_OUT_MAX - len(self.left) - len(self.tried)
        self.left += [contact for contact in contacts if contact.node not in known][: max(0, room)]

    def next(self, told_by: NodeId, why_not_there: WhyNotThere) -> Contact | None:
        self.broker = self.epoch = None
        while self.left:
            contact = self.left.pop(0)
            self.tried[contact.node] = None
            problem = why_no_broker(contact) or why_not_there(told_by, contact)
            if not problem:
                self.broker = contact.node
                return contact
            self.problem = problem
        return None


def why_no_broker(contact: Contact) -> str:
    if is_visitor(contact.node) or is_address(contact.node):
        return NO_BROKER.format(node=contact.node)
    if contact.address and not is_address_text(contact.address):
        return NO_ADDRESS.format(address=contact.address)
    return ""
