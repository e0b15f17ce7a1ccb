"""A host whose peers are known by where they listen: the name of a peer is its address, "host:port".

So whoever is named can be called, and nobody needs to be told where a name is. It is also what there is against those
who take a name that is not theirs: a call must come from the address that the caller says it is, where that is a number
and no name of a host. Beyond that a peer is believed; what must be certain is signed by its publisher.
"""

import ipaddress
from collections.abc import Callable
from typing import Any

from tidings.machine.effects import Know, Send
from tidings.machine.inputs import Input, Received
from tidings.machine.message import is_address_text
from tidings.model.identity import NodeId
from tidings.net.addresses import parse_address
from tidings.net.connection import Connection
from tidings.net.host import Host

NOT_FROM_THERE = "comes from another address than it says"


class PeerHost(Host):
    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.checked: dict[NodeId, Connection] = {}
        """Streams that come from where their peers say they are."""
        self.step = self.check_first(self.step)

    def send(self, effect: Send) -> None:
        to = effect.to
        if to not in self.directory.learned and to != self.node_id and is_address_text(to):
            self.directory.know(Know(to, to))
        super().send(effect)

    def check_first(self, step: Callable[[Input], None]) -> Callable[[Input], None]:
        def checked(input: Input) -> None:
            if type(input) is Received and not self.is_from_there(input.sender):
                self.counts.drop(NOT_FROM_THERE)
                self.links.disconnect(input.sender, NOT_FROM_THERE)
                return
            step(input)

        return checked

    def is_from_there(self, sender: NodeId) -> bool:
        stream = self.links.up.get(sender)
        if stream is None or self.checked.get(sender) is stream:
            return True
        if not is_address_text(sender) or not is_same(parse_address(sender, "peer")[0], self.address_of(sender)):
            return False
        self.checked = {node: it for node, it in self.checked.items() if self.links.up.get(node) is it}
        self.checked[sender] = stream
        return True


def is_same(said: str, from_where: str) -> bool:
    try:
        claimed = ipaddress.ip_address(said)
    except ValueError:
        # A name of a host: what it stands for is not for us to ask while messages wait.
        return True
    actual = ipaddress.ip_address(parse_address(from_where, "peer")[0].partition("%")[0]) if from_where else claimed
    return (getattr(actual, "ipv4_mapped", None) or actual) == (getattr(claimed, "ipv4_mapped", None) or claimed)
