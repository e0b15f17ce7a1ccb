"""The program `tidings`, also started by `python -m tidings`."""

import sys

USAGE = 2


def main() -> int:
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ModuleNotFoundError as missing:
        print(
            f"tidings: the command line needs {missing.name}; install it with: pip install 'tidings[cli]'",
            file=sys.stderr,
        )
        return USAGE

    from tidings.model.errors import UsageError

    try:
        from tidings.cli.program import run
    except UsageError as missing:
        print(f"tidings: {missing}", file=sys.stderr)
        return USAGE
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
