"""Collecting, for programs:

    async for progress in tidings.collect("logs/*.gz", contact="10.0.0.1:7500", into="here"):
        print(progress.arrived, "of", progress.blocks)

What comes is a `CollectionListed` (what there is, and how long it is expected to take), then `CollectionProgress` as
blocks arrive, and last a `CollectionEnded` with every file and what became of it. Leaving the loop gives the
collection up; what is here stays, and `resume=True` goes on with it. Nothing in `into` is ever written over.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from tidings.model.errors import UsageError
from tidings.net.broker.config import Config, load_config
from tidings.net.collect.paths import TEMPORARY, folder_name
from tidings.net.collect.service import CollectService
from tidings.net.collect.shelf import DiskShelf
from tidings.net.errors import HostError, NotReachable
from tidings.protocols.collect.params import CollectParams
from tidings.protocols.collect.signals import (
    AbandonCollection,
    CollectedFile,
    CollectionEnded,
    CollectionListed,
    CollectionProgress,
    ProceedCollection,
    StartCollection,
)

Progress = CollectionListed | CollectionProgress | CollectionEnded
MANIFEST = "_collected-{job}.jsonl"
"""Readers of whole folders leave out names that begin so."""


class ManifestRow(msgspec.Struct, frozen=True):
    """A line of the manifest."""

    source: str
    path: str
    file: str
    size_bytes: int
    sha256: str
    problem: str


def sink_config(contact: str, **settings: Any) -> Config:
    name = settings.pop("name", None) or f"sink-{secrets.token_hex(4)}"
    flags = {"listen": "127.0.0.1:0", **{key: value for key, value in settings.items() if value is not None}}
    return load_config(None, {"name": name, "links": [contact], "log": "error", **flags})


async def collect(
    *patterns: str,
    contact: str,
    into: str | Path,
    sources: Sequence[str] = (),
    resume: bool = False,
    strategy: str = "planned",
    params: CollectParams | None = None,
    wait: float = 10.0,
    measure: float = 0.0,
    approve: Callable[[CollectionListed], bool] = lambda listed: True,
    **settings: Any,
) -> AsyncIterator[Progress]:
    """`contact` is any agent that others enlist with; `sources` are names of agents, by default all. `approve` sees
    what there is and says whether to go on. `settings` are those of a broker: listen, token, tls_certificate, ..."""
    if not patterns:
        raise UsageError("collect: give at least one pattern, such as 'logs/*.gz'")
    if strategy not in ("planned", "direct"):
        raise UsageError(f"strategy: {strategy!r}; give planned or direct")
    if strategy == "planned" and find_spec("scipy") is None:
        raise UsageError("planning needs scipy, which is not installed: pip install 'tidings[plan]', or say direct")
    chosen = params or CollectParams()
    config = sink_config(contact, **settings)
    shelf = DiskShelf(config.name, into=Path(into))
    shelf.is_resumed = resume
    chosen = msgspec.structs.replace(chosen, probe_period=CollectParams().probe_period if measure else 0.0)
    job = f"{config.name}-{secrets.token_hex(4)}"
    async with CollectService(config, shelf, chosen, has_files=False) as service:
        await wait_for_members(service, contact, wait)
        await asyncio.sleep(measure)
        service.host.inject(StartCollection(job, patterns, tuple(sources), strategy=strategy))
        ended = False
        try:
            async for item in service.host.items:
                if isinstance(item, CollectionListed):
                    yield item
                    if not approve(item):
                        return
                    service.host.inject(ProceedCollection(job))
                elif isinstance(item, CollectionProgress):
                    yield item
                elif isinstance(item, CollectionEnded):
                    ended = True
                    if any(file.path for file in item.files):
                        write_manifest(Path(into), item)
                    yield item
                    return
        finally:
            if not ended and service.host.is_running:
                with suppress(UsageError, HostError):
                    service.host.inject(AbandonCollection(job, "given up at the sink"))


async def wait_for_members(service: CollectService, contact: str, seconds: float) -> None:
    """Until the directory has said who is there."""
    try:
        async with asyncio.timeout(seconds):
            while not service.node.gatherer.members:
                if not service.host.is_running:
                    raise HostError("the host stopped before anything was collected")
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise NotReachable(
            f"no agent answered at {contact} within {seconds:g} s, or nobody has enlisted there; see whether "
            "'tidings collect agent' runs there, and lets us in"
        ) from None


def write_manifest(into: Path, ended: CollectionEnded) -> Path:
    """One JSON object a line, for whoever reads the collection as a table."""
    path = into / MANIFEST.format(job=folder_name(ended.job))
    rows = [row_of(file) for file in ended.files if file.path]
    temporary = path.with_name(f"{TEMPORARY}{path.name}")
    temporary.write_text("".join(json.dumps(msgspec.to_builtins(row)) + "\n" for row in rows), encoding="utf-8")
    temporary.rename(path)
    return path


def row_of(file: CollectedFile) -> ManifestRow:
    where = "" if file.problem else f"{folder_name(file.origin)}/{file.path}"
    return ManifestRow(file.origin, file.path, where, file.size_bytes, file.sha256, file.problem)
