"""Topologies: what each shape promises, what the reader of maps survives, and that a seed decides them."""

import os
import subprocess
import sys
import tarfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.model.errors import UsageError
from tidings.sim.topologies import (
    SHAPES,
    Topology,
    TopologyEdge,
    balanced_tree,
    bounded_tree,
    chain,
    clique,
    from_topohub,
    random_tree,
    ring,
    scale_free,
    star,
    zoo,
)
from tidings.sim.topologies.shapes import decode_pruefer, make_topology
from tidings.sim.topologies.topology import great_circle_km
from tidings.sim.topologies.zoo import ARCHIVE, read_gml
from tidings.workloads.latencies import planetlab_matrix, read_matrix, seattle_matrix

SIZES = st.integers(3, 60)
SEEDS = st.integers(0, 10_000)


@given(st.sampled_from(sorted(SHAPES)), SIZES, SEEDS)
def test_every_shape_is_connected_and_has_as_many_nodes_as_asked_for(name: str, nodes: int, seed: int) -> None:
    topology = make_topology(name, nodes, seed)
    assert len(topology.nodes) == nodes
    assert topology.is_connected
    assert topology == make_topology(name, nodes, seed)


@given(SIZES, SEEDS, st.integers(2, 6))
def test_trees_are_trees_and_keep_their_degree(nodes: int, seed: int, degree: int) -> None:
    for tree in (chain(nodes), star(nodes), random_tree(nodes, seed)):
        assert tree.is_tree
    for tree in (balanced_tree(nodes, degree), bounded_tree(nodes, seed, degree)):
        assert tree.is_tree
        assert tree.degree_max <= degree


def test_regular_shapes_have_the_edges_that_their_names_say() -> None:
    assert [(edge.a, edge.b) for edge in chain(3).edges] == [("n0", "n1"), ("n1", "n2")]
    assert [(edge.a, edge.b) for edge in star(3).edges] == [("n0", "n1"), ("n0", "n2")]
    assert [(edge.a, edge.b) for edge in ring(3).edges] == [("n0", "n1"), ("n1", "n2"), ("n2", "n0")]
    assert len(clique(7).edges) == 21
    assert clique(1).edges == ()


def test_a_balanced_tree_is_as_flat_as_its_degree_allows() -> None:
    tree = balanced_tree(10, degree=3)
    assert Counter(len(others) for others in tree.neighbours().values()) == {3: 4, 1: 6}


@given(st.integers(3, 60), SEEDS, st.integers(1, 2))
def test_a_scale_free_graph_has_the_edges_of_its_formula(nodes: int, seed: int, edges_each: int) -> None:
    graph = scale_free(nodes, seed, edges_each)
    assert len(graph.edges) == edges_each * (edges_each + 1) // 2 + edges_each * (nodes - edges_each - 1)
    assert min(len(others) for others in graph.neighbours().values()) >= edges_each


def test_a_scale_free_graph_has_hubs() -> None:
    assert scale_free(1000, 7).degree_max > 5 * bounded_tree(1000, 7, 6).degree_max


def test_random_trees_are_uniform_among_all_labelled_trees() -> None:
    # There are 16 trees on four nodes (Cayley); 4,000 draws give each 250 on average, with a deviation of about 15.
    count = Counter(
        frozenset(frozenset((edge.a, edge.b)) for edge in random_tree(4, seed).edges) for seed in range(4000)
    )
    assert len(count) == 16
    assert max(abs(times - 250) for times in count.values()) < 5 * 15


def test_pruefer_sequences_and_trees_are_one_to_one() -> None:
    trees = {
        frozenset(map(frozenset, decode_pruefer([a, b, c], 5))) for a in range(5) for b in range(5) for c in range(5)
    }
    assert len(trees) == 5**3


@pytest.mark.parametrize("seed", [0, 7])
def test_a_seed_decides_a_topology_and_another_seed_another(seed: int) -> None:
    for name in ("random_tree", "bounded_tree", "scale_free"):
        assert make_topology(name, 30, seed) == make_topology(name, 30, seed)
        assert make_topology(name, 30, seed) != make_topology(name, 30, seed + 1)


def test_topologies_are_the_same_under_every_hash_seed(root: Path) -> None:
    program = (
        "from tidings.sim.topologies.shapes import make_topology\n"
        "for name in ('random_tree', 'bounded_tree', 'scale_free', 'clique'):\n"
        "    print(make_topology(name, 40, 3), make_topology(name, 40, 3).largest_part().spanning_tree())\n"
    )
    outputs = set()
    for hash_seed in ("0", "1", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(root / "src")}
        outputs.add(subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True).stdout)
    assert len(outputs) == 1
    assert len(outputs.pop()) > 1000


def test_loops_double_edges_and_ends_that_are_no_nodes_are_refused() -> None:
    for edges in (
        (TopologyEdge("a", "a"),),
        (TopologyEdge("a", "b"), TopologyEdge("b", "a")),
        (TopologyEdge("a", "c"),),
    ):
        with pytest.raises(UsageError, match="pair"):
            Topology("pair", ("a", "b"), edges)
    with pytest.raises(UsageError, match="named twice"):
        Topology("pair", ("a", "a"), ())


def test_impossible_sizes_are_refused_with_what_is_possible() -> None:
    with pytest.raises(UsageError, match="nodes: 2 is not possible here; give 3"):
        ring(2)
    with pytest.raises(UsageError, match="degree: 1"):
        balanced_tree(5, 1)
    with pytest.raises(UsageError, match="nodes: 2"):
        scale_free(2, 0, 2)
    with pytest.raises(UsageError, match="there is no topology 'blob'"):
        make_topology("blob", 5, 0)
    with pytest.raises(UsageError, match="edges_each: a ring does not take it; it takes nodes"):
        make_topology("ring", 5, 0, edges_each=3)


def test_a_spanning_tree_has_fewest_hops_from_its_root() -> None:
    tree = ring(6).spanning_tree("n0")
    assert tree.is_tree
    assert sorted((edge.a, edge.b) for edge in tree.edges) == [
        ("n0", "n1"),
        ("n1", "n2"),
        ("n2", "n3"),
        ("n4", "n5"),
        ("n5", "n0"),
    ]


def test_a_graph_in_pieces_has_no_spanning_tree_but_its_largest_part_has() -> None:
    graph = Topology(
        "islands", ("a", "b", "c", "d", "e"), (TopologyEdge("a", "b"), TopologyEdge("c", "d"), TopologyEdge("d", "e"))
    )
    with pytest.raises(UsageError, match="not in one piece"):
        graph.spanning_tree()
    assert graph.largest_part().nodes == ("c", "d", "e")
    assert graph.largest_part().spanning_tree().is_tree


GML = """
graph [
  label "Tiny"  # a comment
  node [ id 0 label "New York" Longitude -74.0 Latitude 40.7 ]
  node [ id 5 label "London" Longitude -0.1 Latitude 51.5 graphics [ x 1.0 y 2 ] ]
  node [ id 7 label "London" ]
  node [ id 8 ]
  edge [ source 0 target 5 LinkLabel "10 Gbps" ]
  edge [ source 5 target 0 ]
  edge [ source 5 target 7 ]
  edge [ source 7 target 7 ]
  edge [ source 7 target 99 ]
]
"""


def test_an_untidy_map_is_mended() -> None:
    topology = read_gml(GML, "tiny")
    assert topology.nodes == ("New_York", "London_5", "London_7", "n8")
    assert [(edge.a, edge.b) for edge in topology.edges] == [("New_York", "London_5"), ("London_5", "London_7")]
    assert topology.edges[0].length_km == pytest.approx(5570, rel=0.01)
    assert topology.edges[0].delay == pytest.approx(0.0279, rel=0.01)
    assert topology.edges[1].delay is None


def test_a_node_or_an_edge_without_a_proper_number_is_passed_over() -> None:
    odd = read_gml("graph [ node [ id [ ] ] node [ id 1 ] node [ id 2 ] edge [ source [ ] target 1 ] ]", "odd")
    assert (odd.nodes, odd.edges) == (("n1", "n2"), ())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no 'graph"),
        ("graph [ node [ id 0 ]", "line 1: the file breaks off"),
        ("graph [\n]\n]", "line 3: a ']' without its '\\['"),
        ('graph [\n label "open ]', "line 2: a string without its end"),
        ("graph [ [ ] ]", "a key was expected"),
        ("graph [ label ]", "label has no value"),
        ("a [ " * 20, "nested deeper"),
    ],
)
def test_what_is_no_gml_is_refused_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read_gml(text, "broken")


@given(st.text(alphabet='graph node edge id source target [ ] " 0 1 2 .-e#\n', max_size=200))
def test_no_text_makes_the_reader_of_maps_stumble(text: str) -> None:
    with suppress(UsageError):
        read_gml(text, "noise")


def test_distances_on_the_ground_are_right() -> None:
    assert great_circle_km(0, 0, 0, 90) == pytest.approx(10_007.5, rel=1e-3)
    assert great_circle_km(13.4, 52.5, 13.4, 52.5) == 0.0


def all_maps(path: Path) -> list[Topology]:
    with tarfile.open(path) as archive:
        files = {
            Path(member.name).stem: archive.extractfile(member) for member in archive if member.name.endswith(".gml")
        }
        return [read_gml(file.read().decode("utf-8", "replace"), name) for name, file in sorted(files.items()) if file]


def test_all_maps_of_the_zoo_are_read(data_folder: Path) -> None:
    maps = all_maps(data_folder / ARCHIVE)
    assert len(maps) == 276
    assert min(len(each.nodes) for each in maps) == 4
    assert max(len(each.nodes) for each in maps) == 754
    for each in maps:
        largest = each.largest_part()
        assert largest.is_connected
        assert largest.spanning_tree().is_tree


def test_a_map_of_the_zoo_has_lengths(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_DATA", str(data_folder))
    abilene = zoo("Abilene")
    assert (len(abilene.nodes), len(abilene.edges)) == (11, 14)
    assert all(edge.length_km is not None and 200 < edge.length_km < 2500 for edge in abilene.edges)
    with pytest.raises(UsageError, match="no map 'Nowhere'"):
        zoo("Nowhere")


def test_the_package_has_the_same_map_as_the_folder(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("topohub")
    monkeypatch.setenv("TIDINGS_DATA", str(data_folder))
    ours, theirs = zoo("Abilene"), from_topohub("topozoo/Abilene")
    assert ours.nodes == theirs.nodes
    for one, other in zip(ours.edges, theirs.edges, strict=True):
        assert (one.a, one.b) == (other.a, other.b)
        assert one.length_km == pytest.approx(other.length_km, rel=0.001)


def test_a_map_is_found_in_the_package_when_there_is_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("topohub")
    monkeypatch.setenv("TIDINGS_DATA", "/nowhere")
    assert make_topology("zoo-tree:Abilene", 0, 0).is_tree
    with pytest.raises(UsageError, match="topohub has no map"):
        zoo("Nowhere")


def test_matrices_of_measured_round_trips_are_complete(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_DATA", str(data_folder))
    planetlab, seattle = planetlab_matrix(), seattle_matrix(44)
    assert (len(planetlab.rows), len(seattle.rows)) == (490, 99)
    entries = sorted(entry for row in planetlab.rows for entry in row if entry)
    assert entries[len(entries) // 2] == pytest.approx(0.135, abs=0.002)
    assert entries[-1] == pytest.approx(2.984, abs=0.001)
    for row in seattle.rows:
        assert sum(entry == 0 for entry in row) == 1
    with pytest.raises(UsageError, match="give 1, 6, 12 or 18"):
        planetlab_matrix(2)


def test_hosts_are_drawn_from_a_matrix_without_repetition(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_DATA", str(data_folder))
    topology = make_topology("planetlab", 20, 3)
    assert len(topology.edges) == 190
    assert all(edge.latency is not None and 0 < edge.latency < 1.5 for edge in topology.edges)
    assert topology == make_topology("planetlab", 20, 3) != make_topology("planetlab", 20, 4)
    with pytest.raises(UsageError, match="has 490 hosts"):
        make_topology("planetlab", 491, 3)


def test_unmeasured_entries_of_a_matrix_are_filled_in() -> None:
    matrix = read_matrix("0 2 0\n4 0 0\n0 8 0\n", "tiny", 1.0)
    assert matrix.rows == ((0.0, 2.0, 4.0), (4.0, 0.0, 8.0), (4.0, 8.0, 0.0))
    for text, problem in (("1 2\n", "as many columns"), ("0 x\n1 0\n", "line 1: an entry is no number")):
        with pytest.raises(UsageError, match=problem):
            read_matrix(text, "tiny", 1.0)


def test_data_that_is_absent_says_where_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_DATA", "/nowhere")
    with pytest.raises(UsageError, match="set TIDINGS_DATA"):
        planetlab_matrix()


def test_the_graph_of_autonomous_systems_is_connected_and_has_latencies() -> None:
    graph = make_topology("internet", 0, 7)
    assert len(graph.nodes) == 2852
    assert graph.is_connected
    assert 4500 < len(graph.edges) < 5500
    assert all(edge.delay is not None and 0 <= edge.delay <= 0.0575 for edge in graph.edges)
    assert graph == make_topology("internet", 0, 7) != make_topology("internet", 0, 8)
