"""Where real data is found: the folder that TIDINGS_DATA names, or `../shared/data` if it exists."""

import os
from pathlib import Path

from tidings.model.errors import UsageError

BESIDE = Path("..") / "shared" / "data"


def data_folder() -> Path | None:
    named = os.environ.get("TIDINGS_DATA")
    folder = Path(named) if named else BESIDE
    return folder if folder.is_dir() else None


def require_folder(what: str) -> Path:
    folder = data_folder()
    if folder is None:
        raise UsageError(f"{what} is in the folder of real data, which is absent; set TIDINGS_DATA to it")
    return folder
