"""Which brokers a client calls that another one names."""

from typing import Any

import pytest

from tidings.machine.message import Contact
from tidings.net.client.connection import ConnectOptions, WaysOutPolicy
from tidings.net.tls import Tls
from tidings.protocols.delivery.session.params import SessionParams

PLAIN: dict[str, Any] = {}
INSECURE, SECURE = {"insecure": True}, {"tls": Tls.trusting()}


class Called:
    """A host that is connected with a broker from this address."""

    def __init__(self, address: str) -> None:
        self.address = address

    def address_of(self, node: str) -> str:
        return self.address


@pytest.mark.parametrize(
    ("told_by", "contact", "options", "token", "is_bound", "problem"),
    [
        ("127.0.0.1:1", "127.0.0.1:2", PLAIN, b"", False, ""),
        ("[::1]:1", "localhost:2", PLAIN, b"bearer", False, ""),
        ("127.0.0.1:1", "10.0.0.1:2", PLAIN, b"", False, "without TLS"),
        ("10.0.0.1:1", "10.0.0.2:2", INSECURE, b"", False, ""),
        ("10.0.0.1:1", "10.0.0.2:2", INSECURE, b"bearer", False, "could take the token"),
        ("10.0.0.1:1", "10.0.0.2:2", INSECURE, b"bound", True, ""),
        ("10.0.0.1:1", "10.0.0.2:2", SECURE, b"bearer", False, ""),
        ("10.0.0.1:1", "127.0.0.1:22", SECURE, b"", False, "is on this machine"),
        ("10.0.0.1:1", "localhost:22", INSECURE, b"", False, "is on this machine"),
        ("", "127.0.0.1:2", PLAIN, b"", False, "is on this machine"),
        ("127.0.0.1:1", "", PLAIN, b"", False, "no address"),
        ("127.0.0.1:1", "127.0.0.1:x", PLAIN, b"", False, "no address"),
    ],
)
def test_nothing_is_said_where_the_application_would_not_have_said_it(
    told_by: str, contact: str, options: dict[str, Any], token: bytes, is_bound: bool, problem: str
) -> None:
    usual = {"name": None, "tls": None, "insecure": False, "timeout": 5.0, "params": SessionParams(), "trace": None}
    chosen = ConnectOptions(**{**usual, "log": None, "numbers_from": None, "transport": None, **options})
    host: Any = Called(told_by)
    policy = WaysOutPolicy(host, chosen, token, is_bound)
    found = policy("b", Contact("c", contact))
    assert (problem in found) if problem else found == ""
