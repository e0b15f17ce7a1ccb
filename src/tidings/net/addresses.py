"""Addresses as people write them."""

from tidings.model.errors import UsageError
from tidings.net.tls import Address

PORT_DEFAULT = 7411
PORT_MAX = 65535
SCHEMES = ("tidings://", "tidingss://")


def parse_address(text: str, setting: str) -> Address:
    """host:port, [host]:port for IPv6, or host alone with the usual port."""
    text = text.strip().rstrip("/")
    for scheme in SCHEMES:
        text = text.removeprefix(scheme)
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(PORT_DEFAULT)
    host = host.removeprefix("[").removesuffix("]")
    if not port.isascii() or not port.isdigit() or int(port) > PORT_MAX:
        raise UsageError(f"{setting}: {text!r} is no address; write host:port, such as 127.0.0.1:{PORT_DEFAULT}")
    return host, int(port)


def address_text(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
