"""How commands print: plain lines that read well without colour, or one JSON value."""

from typing import Annotated

import msgspec
import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def print_json(answer: object) -> None:
    print(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())
