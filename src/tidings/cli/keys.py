"""`tidings keys` and `tidings token`: who may do what, on paper that can be checked."""

import time
from pathlib import Path
from typing import Annotated, cast

import typer

from tidings.cli.output import Json, print_json, read_span
from tidings.net.keys import new_key, read_public, signer, write_token
from tidings.protocols.access.judge import Right
from tidings.protocols.access.tokens import Claims, make_token

keys = typer.Typer(
    help="Make keys for authorities and holders of tokens.",
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
        print(f"{private} is secret; {public} may be shown to everybody")


def token(
    principal: Annotated[str, typer.Argument(metavar="PRINCIPAL", help="Whose token it is.")],
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
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="By default PRINCIPAL.token.")] = None,
    json: Json = False,
) -> None:
    """Sign a token that says who somebody is and what it may do.

    A broker that knows the authority accepts it (`tidings broker --authority office.pub`). The bounds are filters: a
    subscription is narrowed to its bound, and a publication outside its bound is refused.

    \b
    Example:
      tidings token ann --authority office.key --subscribe "type = 'quake'" --expires 12h
    """
    path = out or Path(f"{principal}.token")
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
        print(f"{path}: a token for {principal} as {', '.join(claims.roles)}, good for {expires}; it is {bound}")
