"""One node on real sockets: the same machine as in the simulator, on asyncio."""

from tidings.net.errors import HostError
from tidings.net.host import Host
from tidings.net.logs import run
from tidings.net.metrics import make_registry
from tidings.net.params import HostParams, InboxPolicy
from tidings.net.tls import Address, Tls

__all__ = ["Address", "Host", "HostError", "HostParams", "InboxPolicy", "Tls", "make_registry", "run"]
