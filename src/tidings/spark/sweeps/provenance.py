"""What a result was made with: versions, the commit where it is known, and a digest of the experiment's definition.

The *definition* of an experiment is the code that decides what a run does: the module it stands in, every module of the
same package or of tidings that this one imports, at its head or inside a function, and what those import in turn; and
the text of a scenario file. Its digest is made of the syntax trees of these modules, without comments and docstrings.
So it is the same on every machine, stays when a sentence is improved, and changes with everything that may change an
outcome, and sometimes with what does not. Data files and other packages are not in it; of those that matter most the
versions stand beside it.

The driver makes it once for each experiment of a sweep. A result with another digest than the experiment has now is no
result of this experiment: it is performed anew (`sweep.py`).
"""

import ast
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import msgspec
import xxhash

import tidings

FILE_ENDING, FUNCTION_IN_FILE = ".toml", ".py:"
SCENARIOS = "tidings.sim.library"
OWN = Path(tidings.__file__).parent

UNKNOWN = "unknown"
GIT_SECONDS_MAX = 10
FILES_MAX = 4096
"""Modules whose names and digests are kept."""


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    definition: str
    """The digest of the experiment."""
    version: str
    """Of tidings."""
    commit: str
    """Of the sources, with a `+` where files differ from it; empty where there is no repository."""
    pyspark: str
    numpy: str


def provenance_of(experiment: str, base: Path) -> Provenance:
    """`base` is the folder in which files and modules of an experiment are looked for besides."""
    return Provenance(
        definition=definition_digest(experiment, base),
        version=installed("tidings"),
        commit=commit_of(OWN),
        pyspark=installed("pyspark"),
        numpy=installed("numpy"),
    )


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


@lru_cache
def commit_of(folder: Path) -> str:
    def asked(*words: str) -> str:
        try:
            told = subprocess.run(
                ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=GIT_SECONDS_MAX
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return told.stdout.strip() if told.returncode == 0 else ""

    # An installed copy may lie inside of somebody else's repository; git knows no file of it.
    if not asked("ls-files", "__init__.py"):
        return ""
    changed = "+" if asked("status", "--porcelain", "--", ".") else ""
    return asked("rev-parse", "HEAD") + changed


def definition_digest(experiment: str, base: Path) -> str:
    """UNKNOWN if it cannot be found here; then its runs fail, or only workers have it."""
    module, _, function = experiment.partition(":")
    roots: dict[str, Path] = {"tidings": OWN}
    if FUNCTION_IN_FILE in experiment:
        start = [base / experiment.rpartition(":")[0]]
        roots |= {path.stem: path for path in start}
    elif experiment.endswith(FILE_ENDING):
        start = [base / experiment]
    elif function:
        top = module.partition(".")[0]
        found = root_of(top, base)
        if found is None:
            return UNKNOWN
        roots[top] = found
        start = module_files(module, roots)
    else:
        start = []
    if not all(path.is_file() for path in start) or (function and not start):
        return UNKNOWN
    texts = [path.read_bytes() for path in start if path.suffix == FILE_ENDING]
    modules = [path for path in start if path.suffix != FILE_ENDING]
    # Which scenario is meant by a name the library knows; all its modules count.
    names = [] if function and FUNCTION_IN_FILE not in experiment else module_files(SCENARIOS, roots)
    digest = xxhash.xxh3_128(experiment.encode())
    for path in sorted(closure([*modules, *names], roots), key=str):
        digest.update(read_module(path, path.stat().st_mtime_ns).digest)
    for text in texts:
        digest.update(text)
    return str(digest.hexdigest())


def root_of(top: str, base: Path) -> Path | None:
    """The folder of a package, or the file of a module that stands alone."""
    for folder in (base / top, base / f"{top}.py"):
        if folder.exists():
            return folder
    spec = find_spec(top)
    if spec is None or (spec.origin is None and not spec.submodule_search_locations):
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    return Path(str(spec.origin))


def module_files(name: str, roots: dict[str, Path]) -> list[Path]:
    """The file of a module and those of the packages it stands in; none if it is no module of these roots."""
    top, *rest = name.split(".")
    root = roots.get(top)
    if root is None:
        return []
    if root.suffix == ".py":
        return [root] if not rest else []
    found = []
    for depth in range(len(rest) + 1):
        place = root.joinpath(*rest[:depth])
        if (place / "__init__.py").is_file():
            found.append(place / "__init__.py")
        elif depth and place.with_suffix(".py").is_file():
            found.append(place.with_suffix(".py"))
    return found


def closure(start: list[Path], roots: dict[str, Path]) -> set[Path]:
    """These files and all that they import, as far as the roots reach."""
    found: set[Path] = set()
    waiting, looked_for = list(start), set[str]()
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        names = {absolute(name, path, roots) for name in read_module(path, path.stat().st_mtime_ns).names}
        for name in names - looked_for:
            waiting.extend(module_files(name, roots))
        looked_for |= names
    return found


def absolute(name: str, path: Path, roots: dict[str, Path]) -> str:
    """What a name with dots in front means in this file."""
    if not name.startswith("."):
        return name
    for top, root in roots.items():
        if path.is_relative_to(root):
            here = [top, *path.relative_to(root).parts]
            level = len(name) - len(name.lstrip("."))
            return ".".join([*here[: len(here) - level], name.lstrip(".")]).rstrip(".")
    return name.lstrip(".")


class ModuleText(NamedTuple):
    names: tuple[str, ...]
    """Every name it mentions that may be a module."""
    digest: bytes


@lru_cache(maxsize=FILES_MAX)
def read_module(path: Path, changed_at: int) -> ModuleText:
    """`changed_at` is there for a file that is edited while we live."""
    tree = ast.parse(path.read_bytes())
    names = tuple(dict.fromkeys(names_of(tree)))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not is_text(each)]  # type: ignore[attr-defined]
    return ModuleText(names, xxhash.xxh3_128_digest(ast.dump(tree).encode()))


def names_of(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module, names, level):
                source = "." * (level or 0) + (module or "")
                yield source
                yield from (f"{source.rstrip('.')}.{each.name}" if module else source + each.name for each in names)


def is_text(statement: ast.AST) -> bool:
    """Whether it is a docstring, of a module, a function or a field."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
