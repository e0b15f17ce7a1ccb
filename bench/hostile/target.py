"""Where the brokers are that are attacked."""

from pathlib import Path
from typing import NamedTuple

from tidings.net.tls import Tls


class Target(NamedTuple):
    url_a: str
    url_b: str
    http_a: str
    certificates: str = ""
    """The folder of those for clients, where the brokers are reached over TLS."""

    @property
    def tls(self) -> Tls | None:
        folder = Path(self.certificates)
        files = folder / "client.pem", folder / "client.key", folder / "authority.pem"
        return Tls.from_files(*files) if self.certificates else None


def place_of(url: str) -> tuple[str, int]:
    host, _, port = url.partition("://")[2].rpartition(":")
    return host, int(port)
