"""Names of files that strangers give, and folders that nothing leads out of.

A share is a folder and what lies in it. Every part of a path is opened from the folder before it, and none of them may
be a symbolic link: so neither `..` nor a link, nor a folder that is replaced by a link at the wrong moment, leads
anywhere else.
"""

import os
import re
import stat
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from tidings.model.bounds import FILES_MAX, PATH_CHARS_MAX

TEMPORARY = ".tidings-"
"""How names of our own files begin; they are neither shared nor collected."""

FOLDER_DEPTH_MAX = 32


def why_unsafe(path: str) -> str:
    """Why this is no path below a folder; empty where it is one."""
    if not path or len(path) > PATH_CHARS_MAX or "\0" in path or not path.isprintable():
        return "is empty, too long, or has characters that no name should have"
    parts = path.split("/")
    if len(parts) > FOLDER_DEPTH_MAX:
        return f"lies deeper than {FOLDER_DEPTH_MAX} folders"
    if any(part in ("", ".", "..") or part.startswith(TEMPORARY) or "\\" in part for part in parts):
        return "leads out of its folder, or to a name of ours"
    if any(len(part.encode()) > 240 for part in parts):
        return "has a part that is longer than 240 bytes"
    return ""


def folder_name(node: str) -> str:
    """A name for the folder of what comes from this node."""
    safe = re.sub(r"[^A-Za-z0-9._+-]", "_", node).lstrip(".")[:200]
    return safe or "_"


def matches(path: str, pattern: str) -> bool:
    """Folder by folder, as a shell does: `*` stays within one, `**` is any number of them."""
    return match_parts(path.split("/"), pattern.split("/"))


def match_parts(parts: list[str], patterns: list[str]) -> bool:
    # Whether the first so many parts match the patterns up to here, one pattern after the other.
    reached = [True] + [False] * len(parts)
    for pattern in patterns:
        after = [False] * (len(parts) + 1)
        for place in range(len(parts) + 1):
            if pattern == "**":
                after[place] = reached[place] or (place > 0 and after[place - 1])
            elif place > 0 and reached[place - 1]:
                after[place] = fnmatchcase(parts[place - 1], pattern)
        reached = after
    return reached[-1]


def open_below(root: Path, path: str) -> int:
    """A descriptor of a regular file below the root, for reading; OSError where there is none without a link on the
    way."""
    if problem := why_unsafe(path):
        raise PermissionError(f"{path!r} {problem}")
    *folders, name = path.split("/")
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        # Without O_NONBLOCK a pipe that somebody put there would hold us.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=here)
    finally:
        os.close(here)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise PermissionError(f"{path!r} is no regular file")
    return file


def files_below(root: Path, patterns: tuple[str, ...]) -> Iterator[tuple[str, os.stat_result]]:
    """Regular files that match, links left out, in the order of their names; one more than are allowed at most."""
    found = 0
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            entries = sorted(os.scandir(root / folder if folder else root), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if why_unsafe(path):
                continue
            try:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif entry.is_file(follow_symlinks=False) and any(matches(path, pattern) for pattern in patterns):
                    yield path, entry.stat(follow_symlinks=False)
                    found += 1
            except OSError:
                continue
            if found > FILES_MAX:
                return
