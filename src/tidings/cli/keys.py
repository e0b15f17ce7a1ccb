"""`tidings keys` and `tidings token`: who may do what, on paper that can be checked, and can be called back.

`tidings token ann ...` makes a token, as `tidings token new ann ...` does; the verbs are for what comes after.
"""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, cast

import typer
import typer.core

from tidings.cli.output import Json, print_json, read_span, show, table_lines
from tidings.model.errors import UsageError
from tidings.model.escapes import printable
from tidings.model.identity import in_tenant
from tidings.net.certificates import CertifiedRole, new_authority, new_certificate
from tidings.net.keys import (
    new_key,
    read_public,
    read_revocations_file,
    read_token_file,
    revoke,
    signer,
    write_token,
)
from tidings.protocols.access.judge import Right
from tidings.protocols.access.tokens import Claims, Revocation, make_token, read_token, token_id

keys = typer.Typer(
    help="Make keys for tokens, and certificates for TLS.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@keys.command("new")
def new_command(
    name: Annotated[Path, typer.Argument(metavar="NAME", help="The files are NAME.key and NAME.pub.")],
    json: Json = False,
) -> None:
    """Make a pair of Ed25519 keys: for an authority that signs tokens, or for the holder of one.

    NAME.key is secret. Give NAME.pub to the brokers that shall accept the tokens which this key signs (--authority).

    \b
    Example:
      tidings keys new office
    """
    private, public = new_key(name)
    if json:
        print_json({"private": str(private), "public": str(public)})
    else:
        show(f"{private} is secret; {public} may be shown to everybody")


@keys.command("authority")
def authority_command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The files are DIR/authority.pem and DIR/authority.key.")
    ],
    name: Annotated[str, typer.Option(help="What the certificate calls it.")] = "tidings",
    expires: Annotated[str, typer.Option(metavar="SPAN", help="How long it is good.")] = "3650d",
    json: Json = False,
) -> None:
    """Make a small authority that signs the certificates of one network.

    authority.key is secret: whoever has it can be anybody. Give authority.pem to every node (--tls-authority).

    \b
    Example:
      tidings keys authority pki
    """
    certificate, private = new_authority(folder, name, read_span(expires, "--expires"))
    if json:
        print_json({"certificate": str(certificate), "private": str(private)})
    else:
        show(f"{private} is secret; {certificate} goes to every node")


@keys.command("certificate")
def certificate_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The node, or the principal of a client.")],
    authority: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the authority that signs.")],
    broker: Annotated[bool, typer.Option("--broker", help="For a broker.")] = False,
    client: Annotated[bool, typer.Option("--client", help="For a client.")] = False,
    host: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="Where the broker is reached; may be repeated.")
    ] = None,
    expires: Annotated[str, typer.Option(metavar="SPAN", help="How long it is good.")] = "365d",
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="By default the folder of the authority.")] = None,
    json: Json = False,
) -> None:
    """Sign a certificate for a broker or a client: NAME.pem, and its key NAME.key.

    A broker's names the hosts at which it is reached, since whoever calls checks that; name all of them, 127.0.0.1
    included where it is called so.

    \b
    Example:
      tidings keys certificate north-1 --broker --host north.example --authority pki
    """
    if broker == client:
        raise UsageError("say what the certificate is for: --broker or --client")
    role: CertifiedRole = "broker" if broker else "client"
    certificate, private = new_certificate(authority, name, role, host or [], read_span(expires, "--expires"), out)
    if json:
        print_json({"certificate": str(certificate), "private": str(private), "name": name, "role": role})
    else:
        show(f"{certificate}: for the {role} {name}, good for {expires}; {private} is secret")


class TokenGroup(typer.core.TyperGroup):
    """A first word that is no verb is a principal, for whom a token is made."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [NEW, *args]
        return super().parse_args(ctx, args)


tokens = typer.Typer(
    help="Sign a token (tidings token PRINCIPAL --authority FILE.key), look at tokens, call them back.",
    cls=TokenGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

NEW = "new"
REVOKED_FILE = Path("revoked.toml")
RevokedFile = Annotated[
    Path, typer.Option("--list", metavar="FILE", help="The list of revoked tokens (tidings broker --revoked FILE).")
]


@tokens.command("revoke")
def revoke_command(
    token: Annotated[list[Path], typer.Argument(metavar="TOKEN...", help="The files of tokens.")],
    revoked: RevokedFile = REVOKED_FILE,
    json: Json = False,
) -> None:
    """Call tokens back: brokers that have the list refuse them, and turn away whoever came in with one.

    The list is made if it is not there. A running broker reads it within seconds, or at once on SIGHUP. Entries of
    tokens that have expired meanwhile are left out.

    \b
    Example:
      tidings token revoke ann.token --list revoked.toml
    """
    called_back = []
    for file in token:
        data = read_token_file(file)
        claims = read_token(data)[1]
        called_back.append(Revocation(token_id(data), claims.principal, claims.expires_at))
    kept = revoke(revoked, called_back, time.time())
    if json:
        print_json({"list": str(revoked), "revoked": called_back, "entries": len(kept)})
        return
    for each in called_back:
        show(f"{each.id}: the token of {printable(each.principal)} is revoked in {revoked}")


@tokens.command("list")
def list_command(revoked: RevokedFile = REVOKED_FILE, json: Json = False) -> None:
    """Show which tokens are revoked, and until when that matters.

    \b
    Example:
      tidings token list --list revoked.toml
    """
    entries = list(read_revocations_file(revoked).values())
    if json:
        print_json(entries)
        return
    rows = [[each.id, printable(each.principal), time_text(each.expires_at)] for each in entries]
    show(*table_lines(["id", "principal", "expires"], rows))


@tokens.command("show")
def show_command(
    token: Annotated[Path, typer.Argument(metavar="TOKEN", help="The file of a token.")],
    json: Json = False,
) -> None:
    """Show what a token says: whose it is, what it allows, until when, and its id. The signature is not checked.

    \b
    Example:
      tidings token show ann.token
    """
    data = read_token_file(token)
    claims = read_token(data)[1]
    shown: dict[str, object] = {
        "id": token_id(data),
        "principal": claims.principal,
        "roles": list(claims.roles),
        "publish": claims.publish,
        "subscribe": claims.subscribe,
        "expires_at": claims.expires_at,
        "authority": claims.authority,
        "is_bound_to_key": bool(claims.holder_key),
    }
    if json:
        print_json(shown)
        return
    shown |= {"roles": ", ".join(claims.roles), "expires_at": time_text(claims.expires_at)}
    show(*table_lines(["claim", "value"], [[name, printable(str(value))] for name, value in shown.items()]))


def time_text(at: float) -> str:
    """An instant, as far as a calendar goes."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{at:g}"


@tokens.command(NEW)
def token(
    name: Annotated[str, typer.Argument(metavar="PRINCIPAL", help="Whose token it is.")],
    authority: Annotated[Path, typer.Option(metavar="FILE.key", help="The private key of the authority.")],
    role: Annotated[
        list[str] | None, typer.Option(help="client, broker or admin; may be repeated. By default client.")
    ] = None,
    publish: Annotated[str, typer.Option(metavar="FILTER", help="What it may publish; by default anything.")] = "",
    subscribe: Annotated[
        str, typer.Option(metavar="FILTER", help="What it may subscribe to; by default anything.")
    ] = "",
    expires: Annotated[str, typer.Option(metavar="SPAN", help="How long it is good: 30m, 12h, 30d.")] = "30d",
    holder: Annotated[
        Path | None, typer.Option(metavar="FILE.pub", help="Bind it to this key, so that it is of no use to a thief.")
    ] = None,
    tenant: Annotated[str, typer.Option(metavar="NAME", help="Of which tenant it is; by default of none.")] = "",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="By default PRINCIPAL.token, or TENANT-PRINCIPAL.token.")
    ] = None,
    json: Json = False,
) -> None:
    """Sign a token that says who somebody is and what it may do.

    A broker that knows the authority accepts it (`tidings broker --authority office.pub`). The bounds are filters: a
    subscription is narrowed to its bound, and a publication outside its bound is refused. The verb can be left out.

    \b
    Example:
      tidings token new ann --authority office.key --subscribe "type = 'quake'" --expires 12h
      tidings token new ann --authority office.key --tenant acme
    """
    path = out or Path(f"{tenant}-{name}.token" if tenant else f"{name}.token")
    principal = in_tenant(tenant, name)
    roles = dict.fromkeys(role or ("client",))
    if "admin" in roles:
        # Who looks at tables does so as a client.
        roles = {"client": None, **roles}
    expires_at = time.time() + read_span(expires, "--expires")
    claims = Claims(
        principal,
        cast(tuple[Right, ...], tuple(roles)),
        publish,
        subscribe,
        expires_at,
        authority.stem,
        read_public(holder) if holder else b"",
    )
    write_token(path, make_token(claims, signer(authority)))
    if json:
        print_json({"token": str(path), "principal": principal, "roles": claims.roles, "expires_at": expires_at})
    else:
        bound = "bound to its key" if holder else "a secret: whoever has it has its rights"
        show(f"{path}: a token for {principal} as {', '.join(claims.roles)}, good for {expires}; it is {bound}")
