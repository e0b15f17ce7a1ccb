"""Ask a broker about itself.

    async with Inspector("127.0.0.1:7411") as inspector:
        links = await inspector.table("links", LinkRow)

To ask all brokers of a network, and to make sense of what they say, see `tidings.diagnosis`.
"""

import asyncio
import secrets
from collections.abc import Callable
from random import SystemRandom
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from tidings.machine.node import Node
from tidings.model.bounds import PLAN_BYTES_MAX
from tidings.model.identity import at
from tidings.net.addresses import parse_address
from tidings.net.errors import ClientError, NotPermitted
from tidings.net.host import Host
from tidings.net.keys import principal_of_token
from tidings.net.params import HostParams
from tidings.net.tls import Tls, check_bearer
from tidings.protocols.access.drain_client import AskDrain, DrainAsker, DrainReply
from tidings.protocols.access.guest import Guest
from tidings.protocols.access.judge import BEHIND_PRINCIPAL
from tidings.protocols.access.params import GuestParams
from tidings.protocols.coordination.messages import AskedPlan, Verb
from tidings.protocols.coordination.plan_client import AskPlan, PlanAsker, PlanReply
from tidings.protocols.inspection.clients import Inquirer, InspectAnswer, InspectRequest
from tidings.protocols.inspection.inspection import NOT_PERMITTED
from tidings.pubsub.rows import Row
from tidings.pubsub.signals import PeerDown, PeerUp, TurnedAway

ANSWER_TIMEOUT = 10.0
"""Seconds for a broker to let us in, and then for each table."""

RowKind = TypeVar("RowKind", bound=Row)
Answer = TypeVar("Answer", InspectAnswer, DrainReply, PlanReply)


class NotDrained(ClientError):
    """A broker was asked to send its clients away, or to take them again, and does not."""


class NotInspected(ClientError):
    """A broker did not answer; `is_refused` tells a closed door from nobody at home."""

    def __init__(self, address: str, reason: str, is_refused: bool) -> None:
        advice = "show a token with the role admin" if is_refused else "is it started? is the address right?"
        what = "does not let us look" if is_refused else "is not reachable"
        super().__init__(f"the broker at {address} {what}: {reason}; {advice}")
        self.address, self.reason, self.is_refused = address, reason, is_refused


class InspectorAccess(msgspec.Struct, frozen=True):
    """How we come in."""

    token: bytes = b""
    sign: Callable[[bytes], bytes] | None = None
    """With the key to which the token is bound."""
    tls: Tls | None = None
    principal: str = ""
    """Whose certificate that is; our name begins with it."""
    insecure: bool = False


class NotPlanned(ClientError):
    """A broker was asked to carry a plan out, to abort one or to go on with it, and does not."""


class Inspector:
    """One broker, to be asked for its tables. `broker` is its name, once it has let us in."""

    def __init__(self, address: str, access: InspectorAccess | None = None, log: Any = None) -> None:
        access = access or InspectorAccess()
        self.address, place = address, parse_address(address, "broker")
        peer = at(*place)
        check_bearer(place, access.tls, access.token, is_bound=access.sign is not None)
        # Whoever shows a token or a certificate is named after its principal.
        principal = principal_of_token(access.token) if access.token else access.principal or "inspector"
        name = f"{principal}{BEHIND_PRINCIPAL}{secrets.token_hex(4)}"
        # Who looks at a broker that is drained does not go elsewhere for that.
        params = GuestParams(brokers=(peer,), credentials=access.token, when_drained="stays")
        guest = Guest(name, params, SystemRandom(), access.sign)
        self.host = Host(
            name,
            Node({"access": guest, "asking": Inquirer(), "draining": DrainAsker(), "planning": PlanAsker()}),
            listen=None,
            peers={peer: place},
            params=HostParams(drain_timeout=1.0),
            tls=access.tls,
            insecure=access.insecure,
            log=log or quiet_logger(),
        )
        self.broker = ""

    async def __aenter__(self) -> Self:
        await self.host.start()
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                while not self.broker:
                    self.take(await self.host.items.get())
        except TimeoutError:
            await self.host.stop()
            raise NotInspected(self.address, f"no answer within {ANSWER_TIMEOUT:g} s", False) from None
        except BaseException:
            await self.host.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.host.stop()

    def take(self, item: Any) -> None:
        match item:
            case PeerUp(broker):
                self.broker = broker
            case TurnedAway(_, reason):
                raise NotInspected(self.address, reason, True)
            case PeerDown(_, _, reason):
                raise NotInspected(self.address, reason, False)

    async def drain(self, is_on: bool) -> None:
        """Have the broker send its clients away, or take clients again; `NotDrained` says why it does not."""
        self.host.inject(AskDrain(self.broker, is_on))
        answer = await self.answer(DrainReply)
        if answer.problem.startswith(NOT_PERMITTED):
            raise NotPermitted(f"{self.broker} at {self.address}: {answer.problem}")
        if answer.problem:
            raise NotDrained(f"{self.broker} at {self.address}: {answer.problem}")

    async def plan(self, verb: Verb, asked: AskedPlan | None = None) -> str:
        """Have the broker carry this plan out, abort one, or go on with it: the name of the plan; `NotPlanned` says why
        it does not."""
        data = b"" if asked is None else msgspec.json.encode(asked)
        if len(data) > PLAN_BYTES_MAX:
            raise NotPlanned(
                f"the plan has {len(data)} bytes, more than {PLAN_BYTES_MAX}; change fewer links at a time"
            )
        self.host.inject(AskPlan(self.broker, verb, data))
        answer = await self.answer(PlanReply)
        if answer.problem.startswith(NOT_PERMITTED):
            raise NotPermitted(f"{self.broker} at {self.address}: {answer.problem}")
        if answer.problem:
            raise NotPlanned(f"{self.broker} at {self.address}: {answer.problem}")
        return answer.plan

    async def table(self, table: str, kind: type[RowKind], argument: str = "") -> list[RowKind]:
        self.host.inject(InspectRequest(self.broker, table, argument))
        item = await self.answer(InspectAnswer)
        if item.problem:
            raise NotInspected(self.address, item.problem, item.problem.startswith(NOT_PERMITTED))
        return [row for page in item.pages for row in msgspec.json.decode(page, type=list[kind])]  # type: ignore[valid-type]

    async def answer(self, kind: type[Answer]) -> Answer:
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                while not isinstance(item := await self.host.items.get(), kind):
                    self.take(item)
        except TimeoutError:
            raise NotInspected(self.address, f"no answer within {ANSWER_TIMEOUT:g} s", False) from None
        return item


def quiet_logger() -> Any:
    """Whoever inspects hears of problems as errors, not as lines in a log."""
    import logging

    import structlog

    silent = structlog.make_filtering_bound_logger(logging.CRITICAL)
    return structlog.wrap_logger(structlog.ReturnLogger(), processors=[], wrapper_class=silent)
