"""From a URL to a client.

tidings://host:port                  a broker; the port is 7411 if none is given
tidings://host:port,host:port        several: the first that answers, and the next one when it goes away
tidings://name@host:port             the broker of this name, and no other that may answer there
tidingss://host:port                 over TLS: with `tls=`, or as the operating system trusts certificates
memory:                              a broker of its own inside this process (`embedded.py`)
memory:NAME                          the broker of this name inside this process, shared by all who name it
"""

import asyncio
import os
import re
import secrets
import time
from collections.abc import Callable, Generator
from pathlib import Path
from random import SystemRandom
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.machine.message import Contact
from tidings.model.bounds import INTEGER_MAX
from tidings.model.errors import UsageError
from tidings.model.identity import LIFE_MARK, TENANT_MARK, NodeId, at, in_tenant, tenant_of
from tidings.net.addresses import address_text, parse_address
from tidings.net.client.client import Client
from tidings.net.client.items import Items
from tidings.net.host import Host
from tidings.net.logs import make_logger
from tidings.net.params import HostParams
from tidings.net.tls import Address, Tls, check_address, check_bearer, check_permitted, is_loopback
from tidings.nodes.client import ClientNode
from tidings.protocols.access.params import GuestParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.transport.params import TransportParams
from tidings.trace.writer import Writer

if TYPE_CHECKING:
    from tidings.net.client.transport import Ordered
    from tidings.nodes.transport_client import TransportClient

MEMORY = "memory:"
PLAIN, SECURE = "tidings://", "tidingss://"
BROKERS_MAX = 64
"""Brokers that one URL names."""

CONNECT_TIMEOUT = 5.0
"""Seconds in which a broker must have let us in."""

FIRST_WAIT, LONGEST_WAIT = 0.01, 0.05
"""Seconds between two calls of the same broker by the host. The waits that count are those of access, which knows all
brokers."""

QUEUE_BYTES_MAX = 64 * 1024 * 1024
"""Bytes that wait to be sent. After a break all is said again at once: publications that were not accepted,
subscriptions with their positions."""

LIFE_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
LIFE_CHARS = 8
"""A word of so many letters tells lives apart: two in a thousand billion are alike."""

NAME_SYNTAX = re.compile(r"[^@,/\s]+")

Brokers = dict[NodeId, Address]


def connect(
    url: str = "tidings://localhost",
    *,
    name: str | None = None,
    token: str | bytes | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
    tls: Tls | None = None,
    insecure: bool = False,
    timeout: float = CONNECT_TIMEOUT,
    params: SessionParams | None = None,
    trace: Writer | None = None,
    log: Any = None,
    numbers_from: int | None = None,
    ordered: "Ordered" = False,
    reliable: bool = False,
    paced: bool = False,
    transport: TransportParams | None = None,
) -> "Connecting":
    """`async with connect(url) as client`, or `client = await connect(url)` and later `await client.close()`.

    `name` is what others see as the publisher of our events; without one it is drawn at random. `token` is the text of
    a token, its bytes, or the file it is in, and `key` the file of the private key that it names. `tls` says which
    certificates are trusted, and has ours if we have one; without it `tidingss:` trusts what the operating system does.
    Plain text beyond this machine needs `insecure=True`, and carries no token that is good without its key. `timeout`
    bounds the time until a broker has let us in. `trace` is a writer for what happens here, which the caller closes.

    With `numbers_from` the application numbers what it publishes: this client's first event has that number. What an
    earlier client of the same name published under the same numbers is taken for the same events: the broker drops the
    repetition, and it counts as accepted.

    `ordered` ("basic" for short headers, "strict" to wait for repairs), `reliable` and `paced` put a transport between
    the application and the network (`transport.py`): events in the order of their publisher, lost ones recovered,
    publishers no faster than their receivers. `transport` has its parameters; what they say is on is on."""
    carried = ordered or reliable or paced or transport is not None
    if carried and numbers_from is not None:
        raise UsageError(
            "connect: numbers_from= gives numbers to what the application publishes, and a transport publishes "
            "messages of its own among them; leave out ordered=, reliable=, paced= and transport="
        )
    options = ConnectOptions(
        name=name,
        tls=tls,
        insecure=insecure,
        timeout=timeout,
        params=params or SessionParams(),
        trace=trace,
        log=log,
        numbers_from=numbers_from,
        transport=read_transport(ordered, reliable, paced, transport) if carried else None,
    )
    credentials, principal = read_credentials(token)
    if url.startswith(SECURE) and tls is None:
        # Whatever the operating system trusts, as for any other server.
        options = msgspec.structs.replace(options, tls=Tls.trusting())
    return Connecting(url, options, credentials, principal, read_signer(key))


class ConnectOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to connect, as `connect` was told."""

    name: str | None
    tls: Tls | None
    insecure: bool
    timeout: float
    params: SessionParams
    trace: Writer | None
    log: Any
    numbers_from: int | None
    transport: TransportParams | None

    def __post_init__(self) -> None:
        if self.name is not None and LIFE_MARK in self.name:
            raise UsageError(f"connect: name={self.name!r}: {LIFE_MARK} stands before the life of a name; leave it out")
        if self.numbers_from is not None:
            if self.name is None:
                raise UsageError("connect: numbers_from= continues what a client of the same name began; give name=")
            if not 1 <= self.numbers_from <= INTEGER_MAX:
                raise UsageError(f"connect: numbers_from={self.numbers_from}; events are numbered from 1 on")


class Connecting:
    """What `connect` returns: something to wait for, or to enter."""

    def __init__(
        self,
        url: str,
        options: ConnectOptions,
        credentials: bytes,
        principal: str,
        sign: Callable[[bytes], bytes] | None,
    ) -> None:
        has_certificate = options.tls is not None and options.tls.server is not None
        if has_certificate and options.name is None and not principal:
            raise UsageError("connect: over TLS a client is called as its certificate says; give name=")
        self.url, self.options, self.credentials, self.sign = url, options, credentials, sign
        self.name = options.name or f"{principal or 'client'}+{secrets.token_hex(6)}"
        if TENANT_MARK not in self.name:
            # Who says only ann is that ann of whom the token speaks.
            self.name = in_tenant(tenant_of(principal), self.name)
        self.brokers = {} if url.startswith(MEMORY) else parse_brokers(url)
        for address in self.brokers.values():
            check_bearer(address, options.tls, credentials, is_bound=sign is not None)
        self.client: Client | None = None

    def __await__(self) -> Generator[Any, None, Client]:
        return self.open().__await__()

    async def open(self) -> Client:
        give_back: Callable[[], None] | None = None
        if self.url.startswith(MEMORY):
            # Only this needs all of a broker.
            from tidings.net.client.embedded import borrow_broker

            embedded = await asyncio.to_thread(borrow_broker, self.url.removeprefix(MEMORY))
            self.brokers, give_back = {at(*embedded.address): embedded.address}, embedded.give_back
        try:
            self.client = self.make(give_back)
            await self.client.begin(self.options.timeout)
        except BaseException:
            if give_back is not None:
                await asyncio.to_thread(give_back)
            raise
        return self.client

    def make(self, left: Callable[[], None] | None) -> Client:
        rng, options = SystemRandom(), self.options
        access = GuestParams(brokers=tuple(self.brokers), credentials=self.credentials)
        machine = self.make_machine(rng, access, *self.numbering())
        items = Items()
        host = Host(
            self.name,
            machine,
            listen=None,
            peers=self.brokers,
            params=HostParams(backoff_first=FIRST_WAIT, backoff_max=LONGEST_WAIT, queue_bytes_max=QUEUE_BYTES_MAX),
            tls=options.tls,
            insecure=options.insecure,
            rng=rng,
            inbox=items,
            trace=options.trace,
            unanswered=machine.session.unanswered,
            log=options.log or make_logger(self.name, "error"),
        )
        machine.guest.why_not_there = WaysOutPolicy(host, options, self.credentials, self.sign is not None)
        where = ", ".join(map(address_text, self.brokers.values()))
        client = Client(host, items, machine, where, left)
        if not isinstance(machine, ClientNode):
            from tidings.net.client.transport import Carrying

            client.carrying = Carrying(client, items, machine)
            items.handlers |= client.carrying.handlers
        return client

    def numbering(self) -> tuple[int, str]:
        """The number of what is published first, and the life of this client."""
        if self.options.numbers_from is not None:
            return self.options.numbers_from, ""
        if self.options.name is None:
            # Nobody else was ever called so.
            return 1, ""
        # That numbers ascend from life to life, if clocks allow, is for those who name a publisher without its life.
        return time.time_ns() // 1000, "".join(secrets.choice(LIFE_LETTERS) for _ in range(LIFE_CHARS))

    def make_machine(
        self, rng: SystemRandom, access: GuestParams, first: int, life: str
    ) -> "ClientNode | TransportClient":
        options = self.options
        if options.transport is None:
            return ClientNode(
                self.name,
                access,
                options.params,
                rng,
                sign=self.sign,
                first_publication=first,
                is_repeating=options.numbers_from is not None,
                life=life,
            )
        from tidings.nodes.transport_client import TransportClient

        return TransportClient(
            self.name,
            access,
            options.params,
            rng,
            params=options.transport,
            transport_rng=rng,
            sign=self.sign,
            first_publication=first,
            life=life,
        )

    async def __aenter__(self) -> Client:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        assert self.client is not None
        await self.client.__aexit__(kind, error, where)


class WaysOutPolicy:
    """Why a broker that another one names is not called: whoever sends us away must not bring us to say in plain text
    what we would not have said ourselves, or to call what listens on our own machine."""

    def __init__(self, host: Host, options: ConnectOptions, credentials: bytes, is_bound: bool) -> None:
        self.host, self.options, self.credentials, self.is_bound = host, options, credentials, is_bound

    def __call__(self, broker: NodeId, contact: Contact) -> str:
        tls = self.options.tls
        try:
            address = parse_address(contact.address, "way out")
            check_address("way out", address)
            check_permitted(*address, tls, self.options.insecure)
            check_bearer(address, tls, self.credentials, self.is_bound)
        except UsageError as problem:
            return str(problem)
        if is_loopback(address[0]) and not is_loopback(self.host.address_of(broker).rpartition(":")[0].strip("[]")):
            return f"{contact.address} is on this machine, and {broker} is elsewhere"
        return ""


def read_transport(
    ordered: "Ordered", reliable: bool, paced: bool, transport: TransportParams | None
) -> TransportParams | None:
    # Only those who want one need all of a transport.
    from tidings.net.client.transport import make_params

    return make_params(ordered, reliable, paced, transport)


def parse_brokers(url: str) -> Brokers:
    if not url.startswith((PLAIN, SECURE)):
        raise UsageError(f"connect: {url!r} is no URL of a broker; write tidings://host:port, or memory:")
    brokers: Brokers = {}
    for part in url.removeprefix(SECURE).removeprefix(PLAIN).rstrip("/").split(","):
        name, mark, rest = part.rpartition("@")
        if mark and not NAME_SYNTAX.fullmatch(name):
            raise UsageError(f"connect: {name!r} is no name of a broker; write tidings://name@host:port")
        address = parse_address(rest, "connect")
        brokers[name if mark else at(*address)] = address
    if len(brokers) > BROKERS_MAX:
        raise UsageError(f"connect: {len(brokers)} brokers, at most {BROKERS_MAX} can be named")
    return brokers


def read_credentials(token: str | bytes | os.PathLike[str] | None) -> tuple[bytes, str]:
    """The bytes of a token, and whose it is."""
    if token is None:
        return b"", ""
    # Only those who have a token need the package for keys.
    from tidings.net.keys import principal_of_token, read_token_file, token_of_text

    if isinstance(token, bytes):
        credentials = token
    elif isinstance(token, os.PathLike) or is_file(token):
        credentials = read_token_file(Path(token))
    else:
        credentials = token_of_text(token)
    return credentials, principal_of_token(credentials)


def is_file(token: str) -> bool:
    try:
        return Path(token).is_file()
    except OSError:
        # Too long for a name; the text must not end up in a message.
        return False


def read_signer(key: str | os.PathLike[str] | None) -> Callable[[bytes], bytes] | None:
    if key is None:
        return None
    from tidings.net.keys import signer

    return signer(Path(key))
