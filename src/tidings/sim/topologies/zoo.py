"""Maps of real operators' networks: the Internet Topology Zoo (Knight and others, IEEE JSAC 29(9), 2011; CC BY 4.0).

They come from two places. The folder of real data has the authors' own 276 files, with everything that is odd about
real maps: pieces that are not linked, places unknown. The package `topohub` (pip install topohub) has about 200 of them
in tidied form, with lengths in kilometres, and serves whoever has no such folder. `zoo("Abilene")` looks into the
folder first.
"""

import re
import tarfile
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from tidings.model.errors import UsageError
from tidings.sim.topologies.gml import read_gml, readable_name
from tidings.sim.topologies.topology import Topology, TopologyEdge
from tidings.workloads.data import data_folder

ARCHIVE = Path("topologies") / "internet-topology-zoo-gml.tar.gz"
MEMBER_BYTES_MAX = 4 * 1024 * 1024
TOPOHUB_KEY = re.compile(r"[\w-]+(/[\w-]+)*")


def zoo(name: str) -> Topology:
    """The map of this name, such as "Abilene" or "Kdl"; it may be in several pieces."""
    folder = data_folder()
    if folder is not None and (folder / ARCHIVE).is_file():
        return from_archive(folder / ARCHIVE, name)
    return from_topohub(f"topozoo/{name}")


def from_archive(path: Path, name: str) -> Topology:
    with tarfile.open(path) as archive:
        for member in archive:
            if Path(member.name).name == f"{name}.gml":
                file = archive.extractfile(member)
                assert file is not None, f"{member.name} is no file"
                return read_gml(file.read(MEMBER_BYTES_MAX).decode("utf-8", "replace"), name)
    raise UsageError(f"the Topology Zoo has no map {name!r}; names are spelled as in its files, such as Abilene or Kdl")


def all_maps(path: Path) -> list[Topology]:
    """Every map of the archive, in order of name; one pass over the file."""
    with tarfile.open(path) as archive:
        texts = {
            Path(member.name).stem: file.read(MEMBER_BYTES_MAX).decode("utf-8", "replace")
            for member in archive
            if member.name.endswith(".gml") and (file := archive.extractfile(member)) is not None
        }
    return [read_gml(texts[name], name) for name in sorted(texts)]


def from_topohub(key: str) -> Topology:
    """A map of the package by its key, such as "topozoo/Abilene", "sndlib/polska" or "backbone/europe"."""
    try:
        package = resources.files("topohub")
    except ModuleNotFoundError:
        raise UsageError(
            f"the map {key!r} is in the package topohub, which is not installed; "
            "pip install topohub, or set TIDINGS_DATA to the folder of real data"
        ) from None
    file = package / "data" / f"{key}.json"
    if not TOPOHUB_KEY.fullmatch(key) or not file.is_file():
        raise UsageError(f"topohub has no map {key!r}; a key is written as topozoo/Abilene or sndlib/polska")
    found: dict[str, Any] = msgspec.json.decode(file.read_bytes())
    names: dict[Any, str] = {}
    for node in found["nodes"]:
        label = readable_name(str(node.get("name") or ""), f"n{node['id']}")
        names[node["id"]] = label if label not in names.values() else f"{label}_{node['id']}"
    edges: dict[frozenset[str], TopologyEdge] = {}
    for link in found["edges"]:
        a, b = names[link["source"]], names[link["target"]]
        if a != b:
            length_km = link.get("dist")
            edges.setdefault(frozenset((a, b)), TopologyEdge(a, b, None if length_km is None else float(length_km)))
    return Topology(key.rpartition("/")[2], tuple(names.values()), tuple(edges.values()))
