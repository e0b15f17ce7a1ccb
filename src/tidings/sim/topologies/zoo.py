"""Maps of real operators' networks: the Internet Topology Zoo (Knight and others, IEEE JSAC 29(9), 2011; CC BY 4.0).

They come from two places. The folder of real data has the authors' own 276 files, with everything that is odd about
real maps: pieces that are not linked, places unknown. The package `topohub` (pip install topohub) has about 200 of them
in tidied form, with lengths in kilometres, and serves whoever has no such folder. `zoo("Abilene")` looks into the
folder first.

The files are GML: nested lists of keys and values: `graph [ node [ id 0 label "Lisbon" ] edge [ source 0 target 1 ] ]`.
Real files are not tidy, and a map that cannot be read is of no use, so what a topology cannot hold is mended: two links
between the same two nodes become one, a link from a node to itself goes, two nodes with the same label get their number
appended, places that are missing leave the length of a link unknown. What is no GML at all is refused, with its line.
"""

import math
import re
import tarfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.sim.topologies.topology import Topology, TopologyEdge, great_circle_km
from tidings.workloads.recorded import data_folder

GML_CHARS_MAX = 4 * 1024 * 1024
DEPTH_MAX = 8
"""Nesting of lists; a map needs two levels, drawings of maps four."""

TOKEN = re.compile(r'\s+|#[^\n]*|(?P<text>"[^"]*")|(?P<open>\[)|(?P<close>\])|(?P<word>[^\s\[\]"#]+)')
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.-]+")

Pairs = list[tuple[str, Any]]


def read_gml(text: str, name: str) -> Topology:
    if len(text) > GML_CHARS_MAX:
        raise UsageError(f"{name}: {len(text)} characters, at most {GML_CHARS_MAX} are read")
    graph = find_graph(parse(text, name), name)
    places: dict[int, dict[str, Any]] = {}
    for key, value in graph:
        if key == "node" and isinstance(value, list) and isinstance((node := dict(value)).get("id"), int):
            places.setdefault(node["id"], node)
    names = name_nodes(places)
    edges: dict[frozenset[int], TopologyEdge] = {}
    for key, value in graph:
        if key == "edge" and isinstance(value, list):
            ends = dict(value)
            a, b = ends.get("source"), ends.get("target")
            if isinstance(a, int) and isinstance(b, int) and a in places and b in places and a != b:
                length_km = distance_km(places[a], places[b])
                edges.setdefault(frozenset((a, b)), TopologyEdge(names[a], names[b], length_km))
    return Topology(name, tuple(names.values()), tuple(edges.values()))


def find_graph(document: Pairs, name: str) -> Pairs:
    for key, value in document:
        if key == "graph" and isinstance(value, list):
            return value
    raise UsageError(f"{name}: no GML file; it has no 'graph [ ... ]'")


def parse(text: str, name: str) -> Pairs:
    """The document as a list of (key, value); a value is a number, a string or such a list."""
    document: Pairs = []
    lists, key = [document], None
    for kind, token, position in tokens(text, name):
        if kind == "close":
            if key is not None or len(lists) == 1:
                raise broken(name, text, position, "a ']' without its '['" if key is None else f"{key} has no value")
            lists.pop()
        elif key is None:
            if kind != "word":
                raise broken(name, text, position, f"a key was expected, not {token[:20]}")
            key = token
        else:
            value: Any = [] if kind == "open" else token[1:-1] if kind == "text" else number(token)
            lists[-1].append((key, value))
            if kind == "open":
                lists.append(value)
                if len(lists) > DEPTH_MAX:
                    raise broken(name, text, position, f"nested deeper than {DEPTH_MAX}")
            key = None
    if key is not None or len(lists) > 1:
        raise broken(name, text, len(text), "the file breaks off")
    return document


def tokens(text: str, name: str) -> Iterator[tuple[str, str, int]]:
    position = 0
    while position < len(text):
        found = TOKEN.match(text, position)
        if found is None:
            raise broken(name, text, position, "a string without its end")
        if found.lastgroup is not None:
            yield found.lastgroup, found.group(), position
        position = found.end()


def number(token: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(token)
        except ValueError:
            continue
    return token


def broken(name: str, text: str, position: int, problem: str) -> UsageError:
    return UsageError(f"{name}, line {text.count(chr(10), 0, position) + 1}: {problem}")


def name_nodes(places: dict[int, dict[str, Any]]) -> dict[int, NodeId]:
    """Labels as names: without spaces, and with the node's number where two would be the same."""
    labels = {id: readable_name(str(node.get("label", "")), f"n{id}") for id, node in places.items()}
    count: dict[str, int] = {}
    for label in labels.values():
        count[label] = count.get(label, 0) + 1
    taken = {label for label, times in count.items() if times == 1}
    names = {}
    for id, label in labels.items():
        name = label
        while count[label] > 1 and (name == label or name in taken):
            name = f"{name}_{id}"
        taken.add(name)
        names[id] = name
    return names


def readable_name(label: str, otherwise: str) -> NodeId:
    return NOT_IN_NAMES.sub("_", label).strip("_") or otherwise


def distance_km(a: dict[str, Any], b: dict[str, Any]) -> float | None:
    degrees = [node.get(name) for node in (a, b) for name in ("Longitude", "Latitude")]
    if not all(isinstance(degree, int | float) and math.isfinite(degree) for degree in degrees):
        return None
    return great_circle_km(*(float(degree) for degree in degrees))  # type: ignore[arg-type]


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
