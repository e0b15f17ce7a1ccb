"""A host of collections as a service: its node on a host with sockets, and files below it.

    async with CollectService(config, DiskShelf("web-1", share=Path("/var/log"))) as service:
        print(service.address)
        await service.wait()

Who may come in follows from the configuration as at a broker (`net/broker`): tokens, certificates, or, on this machine,
nobody is asked. Hosts are brokers to each other: their tokens need that role.
"""

import time
from random import SystemRandom
from types import TracebackType
from typing import Any, Self

import msgspec

from tidings.machine.effects import CancelTransfer, Send, Transfer
from tidings.machine.inputs import Transferred
from tidings.model.bounds import FRAME_BYTES_MAX
from tidings.model.identity import at
from tidings.net.addresses import address_text
from tidings.net.broker.config import Config
from tidings.net.broker.rights import Rights
from tidings.net.broker.service import everybody
from tidings.net.collect.shelf import DiskShelf
from tidings.net.host import Host
from tidings.net.keys import read_token_file, signature_check, signer
from tidings.net.logs import make_logger
from tidings.net.params import HostParams, InboxPolicy
from tidings.net.tls import Address, check_bearer
from tidings.nodes.collector import CollectorNode, CollectorParams
from tidings.protocols.access.judge import open_judge
from tidings.protocols.access.params import AccessParams
from tidings.protocols.collect.params import CollectParams

ITEMS_MAX = 1000
"""Reports of progress that nobody took; older ones give way."""

PATIENT = HostParams(
    inbox_max=ITEMS_MAX,
    inbox_policy=InboxPolicy.DROP_OLDEST,
    connect_timeout=10.0,
    heartbeat_period=5.0,
    silence_max=25.0,
)
"""On a path that is full a stream may stand still for seconds and be well: what is on its way would go again."""


class CollectService:
    def __init__(
        self, config: Config, shelf: DiskShelf, params: CollectParams, has_files: bool, log: Any = None
    ) -> None:
        config.check_asking()
        self.config, self.shelf, self.params = config, shelf, params
        settings, tls = config.settings, config.tls
        contacts = {at(*address): address for address in config.links}
        offset = time.time() - time.monotonic() + settings.clock_shift
        access = config.build(
            "access",
            links=tuple(contacts),
            credentials=read_token_file(settings.token) if settings.token else b"",
            clock_offset=offset,
        )
        assert isinstance(access, AccessParams)
        for address in (config.listen, *config.links):
            check_bearer(address, tls, access.credentials, is_bound=settings.token_key is not None)
        rights = None if config.is_open else Rights(config, tls is not None)
        self.node = CollectorNode(
            config.name,
            CollectorParams(access=access, collect=params, has_files=has_files),
            shelf,
            SystemRandom(),
            judge=rights or (open_judge if config.is_local else everybody),
            signatures=signature_check,
            sign=signer(settings.token_key) if settings.token_key else None,
            address=lambda: config.public_for(self.address),
        )
        queue = params.window_bytes_max + 4 * FRAME_BYTES_MAX
        self.host = Host(
            config.name,
            self.node,
            listen=config.listen,
            peers=contacts,
            params=msgspec.structs.replace(
                PATIENT,
                queue_bytes_max=max(queue, HostParams().queue_bytes_max),
            ),
            tls=tls,
            insecure=settings.insecure,
            log=log or make_logger(config.name, settings.log),
            observers={Transfer: self.transfer, CancelTransfer: lambda effect: None},
        )

    def transfer(self, effect: Transfer) -> None:
        """A message like others, on the stream to that host. That it is under way is all that is known here."""
        self.host.send(Send(effect.to, effect.message))
        self.host.step_soon(Transferred(effect.key))

    @property
    def address(self) -> Address:
        return self.host.address

    @property
    def address_text(self) -> str:
        return address_text(self.address)

    async def __aenter__(self) -> Self:
        await self.host.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.host.stop()
        for job in list(self.node.mover.jobs):
            self.shelf.close(job, is_complete=False)
        if self.host.failure is not None and error is None:
            raise self.host.failure

    async def wait(self) -> None:
        await self.host.wait()
