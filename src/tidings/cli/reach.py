"""Commands that talk to a broker: where it is, who we are, and with which exit code they end when it does not answer.

`@reaching` gives a command the options for that and hands it one `Reach` instead.
"""

import functools
import inspect
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from tidings.cli.output import MACHINE, NO, NOT_PERMITTED, NOT_REACHABLE, USAGE
from tidings.model.errors import UsageError
from tidings.net.addresses import PORT_DEFAULT
from tidings.net.client.connection import CONNECT_TIMEOUT, MEMORY, PLAIN, SECURE, Connecting
from tidings.net.client.connection import connect as net_connect
from tidings.net.errors import ClientError, Closed, HostError, NotPermitted, NotReachable
from tidings.net.inspector import InspectorAccess, NotInspected
from tidings.net.keys import read_token_file, signer
from tidings.net.tls import Tls, nodes_in
from tidings.protocols.access.judge import BEHIND_PRINCIPAL

CODES: tuple[tuple[type[UsageError], int], ...] = (
    (NotPermitted, NOT_PERMITTED),
    (NotReachable, NOT_REACHABLE),
    (Closed, NOT_REACHABLE),
    (ClientError, NO),
    (HostError, MACHINE),
)
"""The first that fits holds."""


def exit_code(problem: UsageError) -> int:
    if isinstance(problem, NotInspected):
        return NOT_PERMITTED if problem.is_refused else NOT_REACHABLE
    return next((code for kind, code in CODES if isinstance(problem, kind)), USAGE)


OrderedOption = Annotated[
    bool, typer.Option("--ordered", help="Through the transport: events of each publisher in its order.")
]
ReliableOption = Annotated[bool, typer.Option("--reliable", help="Likewise, and lost events are recovered.")]
PacedOption = Annotated[bool, typer.Option("--paced", help="Likewise, and publishers send what receivers can take.")]

DEFAULT = f"127.0.0.1:{PORT_DEFAULT}"


class Reach(msgspec.Struct, frozen=True):
    """The broker, and how we come in."""

    broker: str
    access: InspectorAccess
    token_file: Path | None = None
    token_key_file: Path | None = None
    wait: float = CONNECT_TIMEOUT
    """Seconds for the broker to let us in."""


def make_reach(
    broker: Annotated[
        str, typer.Option("--broker", "-b", metavar="HOST:PORT", envvar="TIDINGS_URL", help="The broker to talk to.")
    ] = DEFAULT,
    token: Annotated[
        Path | None, typer.Option(metavar="FILE", envvar="TIDINGS_TOKEN", help="The token to show.")
    ] = None,
    token_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="TIDINGS_TOKEN_KEY", help="The key that the token is bound to."),
    ] = None,
    tls_certificate: Annotated[Path | None, typer.Option(metavar="FILE", help="Our certificate, for TLS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its private key.")] = None,
    tls_authority: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The certificate of the authority that all trust.")
    ] = None,
    wait: Annotated[
        float, typer.Option(min=0.05, max=600, help="Seconds to wait until the broker lets us in.")
    ] = CONNECT_TIMEOUT,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Plain text beyond this machine: anybody on the way can read it.")
    ] = False,
) -> Reach:
    tls: Tls | None = None
    if tls_certificate is not None and tls_key is not None:
        tls = Tls.from_files(tls_certificate, tls_key, tls_authority)
    elif tls_certificate is not None or tls_key is not None:
        raise UsageError("a certificate needs its key: give --tls-certificate and --tls-key")
    elif tls_authority is not None or broker.startswith(SECURE):
        tls = Tls.trusting(tls_authority)
    access = InspectorAccess(
        token=read_token_file(token) if token else b"",
        sign=signer(token_key) if token_key else None,
        tls=tls,
        principal=name_in_certificate(tls_certificate) if tls_certificate else "",
        insecure=insecure,
    )
    return Reach(broker, access, token, token_key, wait)


def connect(
    reach: Reach, name: str | None = None, ordered: bool = False, reliable: bool = False, paced: bool = False
) -> Connecting:
    """A client of that broker."""
    if reach.broker.startswith((MEMORY, PLAIN, SECURE)):
        url = reach.broker
    else:
        url = f"{SECURE if reach.access.tls else PLAIN}{reach.broker}"
    principal = reach.access.principal
    if name is None and principal and not reach.access.token:
        name = f"{principal}{BEHIND_PRINCIPAL}{secrets.token_hex(6)}"
    return net_connect(
        url,
        name=name,
        token=reach.token_file,
        key=reach.token_key_file,
        tls=reach.access.tls,
        insecure=reach.access.insecure,
        timeout=reach.wait,
        ordered=ordered,
        reliable=reliable,
        paced=paced,
    )


def name_in_certificate(file: Path) -> str:
    """Whom the certificate is for: the node that it names, or its first DNS name, or its common name."""
    from cryptography.x509 import (
        DNSName,
        ExtensionNotFound,
        SubjectAlternativeName,
        UniformResourceIdentifier,
        load_pem_x509_certificate,
    )
    from cryptography.x509.oid import NameOID

    try:
        certificate = load_pem_x509_certificate(file.read_bytes())
    except (OSError, ValueError) as problem:
        raise UsageError(f"--tls-certificate {file}: no certificate as PEM: {problem}") from None
    with suppress(ExtensionNotFound, StopIteration):
        names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
        uris = names.get_values_for_type(UniformResourceIdentifier)
        nodes = nodes_in({"subjectAltName": [("URI", each) for each in uris]})
        return next(iter((*nodes, *names.get_values_for_type(DNSName))))
    return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def reaching(command: Callable[..., None]) -> Callable[..., None]:
    """`command(..., reach=...)` with the options of `make_reach` in place of `reach`."""
    options = inspect.signature(make_reach).parameters

    @functools.wraps(command)
    def reached(**given: Any) -> None:
        chosen = {name: given.pop(name) for name in options}
        command(**given, reach=make_reach(**chosen))

    own = [each for each in inspect.signature(command).parameters.values() if each.name != "reach"]
    signature = inspect.Signature([each.replace(kind=each.KEYWORD_ONLY) for each in (*own, *options.values())])
    del reached.__wrapped__
    reached.__signature__ = signature  # type: ignore[attr-defined]
    reached.__annotations__ = {each.name: each.annotation for each in signature.parameters.values()}
    return reached
