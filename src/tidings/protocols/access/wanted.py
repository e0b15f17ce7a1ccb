"""Which links with other brokers are to be kept, for whom, and when each is asked for again.

A link is wanted by *users*: "configuration" for those that were configured, and parts of the node that need one to a
broker they met at run time. It is kept as long as anybody wants it. When it is not there it is asked for, after waits
that double up to a bound, less a random part.

`LinkWanted` asks for a link to a broker of which name and perhaps address are known (`Know` tells the host where that
is), `LinkUnwanted` lets go of it. A link ends when its last user has let go here and nobody wants it at the other end:
we say `LetGo`, and the other end, unless it wants the link itself, ends it. So a link that both want is never lost by
one of them, and one that is configured at the other end does not come to harm.

A broker may be configured by its address alone (`identity.at`); who is there is known when the link is first up. From
then on its name stands for that link.
"""

from collections.abc import Iterable
from random import Random

from tidings.machine.effects import Connect, SetTimer
from tidings.model.identity import ADDRESS_MARK, NodeId
from tidings.protocols.access.params import retry_wait

CONFIGURATION = "configuration"
"""The user of configured links."""


class WantedLinks:
    def __init__(self, configured: Iterable[NodeId], retry_first: float, retry_max: float, rng: Random) -> None:
        self.retry_first, self.retry_max, self.rng = retry_first, retry_max, rng
        self.users: dict[NodeId, dict[str, None]] = {link: {CONFIGURATION: None} for link in configured}
        self.failures: dict[NodeId, int] = {}
        """How often in a row a link did not come; none for one that was not tried yet."""
        self.names: dict[NodeId, NodeId] = {}
        """Brokers that are configured by their address, each with that."""
        self.dialled: dict[NodeId, None] = {}
        """Links that were asked for, and of which nothing was heard since."""

    def __contains__(self, node: NodeId) -> bool:
        return self.link_of(node) in self.users

    def __len__(self) -> int:
        return len(self.users)

    def link_of(self, node: NodeId) -> NodeId:
        """What the link to this node is called here, if it is wanted at all."""
        return self.names.get(node, node)

    def is_on_demand(self, link: NodeId) -> bool:
        return any(user != CONFIGURATION for user in self.users.get(link, ()))

    def is_configured(self, node: NodeId) -> bool:
        return CONFIGURATION in self.users.get(self.link_of(node), ())

    def restart(self) -> None:
        self.failures.clear()
        self.dialled.clear()

    def add(self, broker: NodeId, user: str) -> bool:
        """Whether it is a link that nobody wanted before."""
        users = self.users.setdefault(self.link_of(broker), {})
        users[user] = None
        return len(users) == 1

    def remove(self, broker: NodeId, user: str) -> bool:
        """Whether nobody wants it any more."""
        link = self.link_of(broker)
        users = self.users.get(link, {})
        if user not in users:
            return False
        del users[user]
        if users:
            return False
        del self.users[link]
        self.failures.pop(link, None)
        return True

    def recognise(self, node: NodeId, address: NodeId) -> None:
        """This node answers at an address that is wanted. What it is wanted for under its name goes with that."""
        self.names = {name: link for name, link in self.names.items() if link != address} | {node: address}
        self.users[address] |= self.users.pop(node, {})
        self.failures.pop(node, None)
        self.dialled.pop(node, None)

    def dial(self, link: NodeId) -> Connect:
        self.dialled[link] = None
        return Connect(link)

    def is_calling(self, node: NodeId) -> bool:
        return self.link_of(node) in self.dialled

    def heard_of(self, node: NodeId) -> bool:
        """A link came, or did not; whether it is one that we had asked for."""
        link = self.link_of(node)
        was_dialled = link in self.dialled
        self.dialled.pop(link, None)
        return was_dialled

    def came(self, node: NodeId) -> None:
        if node in self:
            self.failures[self.link_of(node)] = 0

    def failed(self, now: float, link: NodeId) -> SetTimer:
        """The next attempt."""
        failures = self.failures.get(link, 0)
        self.failures[link] = failures + 1
        wait = retry_wait(failures, self.retry_first, self.retry_max, self.rng.random())
        return SetTimer(("connect", link), now + wait)

    def untried(self) -> list[str]:
        """Configured links of which it is not known yet whether there is a broker at the other end."""
        return [
            link.removeprefix(ADDRESS_MARK)
            for link, users in self.users.items()
            if CONFIGURATION in users and link not in self.failures
        ]
