"""Reading GML, the text form in which the Internet Topology Zoo keeps its maps.

GML is nested lists of keys and values: `graph [ node [ id 0 label "Lisbon" ] edge [ source 0 target 1 ] ]`. Real files
are not tidy, and a map that cannot be read is of no use, so what a topology cannot hold is mended: two links between
the same two nodes become one, a link from a node to itself goes, two nodes with the same label get their number
appended, places that are missing leave the length of a link unknown. What is no GML at all is refused, with its line.
"""

import math
import re
from collections.abc import Iterator
from typing import Any

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.sim.topologies.topology import Topology, TopologyEdge, great_circle_km

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
