"""Where the brokers are that are attacked."""

from typing import NamedTuple


class Target(NamedTuple):
    url_a: str
    url_b: str
    http_a: str


def place_of(url: str) -> tuple[str, int]:
    host, _, port = url.removeprefix("tidings://").rpartition(":")
    return host, int(port)
