"""`tidings version`."""

from tidings import __version__
from tidings.cli.output import Json, print_json, show


def version(json: Json = False) -> None:
    """Say which version this is.

    \b
    Example:
      tidings version --json
    """
    if json:
        print_json({"version": __version__})
    else:
        show(f"tidings {__version__}")
