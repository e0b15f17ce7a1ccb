"""Settings: which place wins, where a value came from, and what is refused."""

from pathlib import Path

import pytest

pytest.importorskip("pydantic_settings", reason="settings need pydantic-settings, of the extra 'net'")

from tidings.model.errors import UsageError
from tidings.net.addresses import address_text, parse_address
from tidings.net.broker.config import OVERLAY_NAME, STORAGE_NAME, Config, load_config
from tidings.net.broker.sections import SECTIONS, kinds_of
from tidings.net.broker.service import BrokerService
from tidings.net.params import InboxPolicy
from tidings.protocols.overlay.dhtree.dhtree import DhTreeParams
from tidings.protocols.overlay.dhtree.ring import RingParams
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.protocols.overlay.overlay import AllPeersParams
from tidings.protocols.overlay.spanning_tree import SpanningTreeParams
from tidings.protocols.overlay.witree.params import WiTreeParams
from tidings.protocols.routing.destinations.params import DestinationParams


def origins(config: Config) -> dict[str, tuple[object, str]]:
    return {each.name: (each.value, each.origin) for each in config.show()}


def written(folder: Path, text: str) -> Path:
    path = folder / "broker.toml"
    path.write_text(text)
    return path


def test_without_anything_there_are_defaults() -> None:
    config = load_config()
    assert config.listen == ("127.0.0.1", 7411)
    assert config.name.endswith("-7411")
    assert (config.is_open, config.is_local, config.tls, config.storage, config.http) == (True, True, None, None, None)
    assert {origin for _, origin in origins(config).values()} == {"default", "fixed"}


def test_a_flag_beats_the_environment_which_beats_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, 'name = "f"\nlisten = "f:1"\nhttp = "f:2"\n[host]\nlearned_max = 5\nsaves_max = 6\n')
    monkeypatch.setenv("TIDINGS_BROKER_LISTEN", "e:1")
    monkeypatch.setenv("TIDINGS_BROKER_HTTP", "e:2")
    monkeypatch.setenv("TIDINGS_BROKER_HOST__SAVES_MAX", "7")
    config = load_config(file, {"http": "127.0.0.1:3", "name": None})
    assert (config.name, config.listen, config.http) == ("f", ("e", 1), ("127.0.0.1", 3))
    assert (config.built["host"].learned_max, config.built["host"].saves_max) == (5, 7)
    shown = origins(config)
    assert shown["name"] == ("f", f"file {file}")
    assert shown["listen"] == ("e:1", "environment TIDINGS_BROKER_LISTEN")
    assert shown["http"] == ("127.0.0.1:3", "flag --http")
    assert shown["host.learned_max"] == (5, f"file {file}")
    assert shown["host.saves_max"] == (7, "environment TIDINGS_BROKER_HOST__SAVES_MAX")
    assert shown["host.inbox_max"] == (10_000, "default")


def test_links_are_a_list_in_the_file_and_separated_by_commas_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, 'links = ["a:1", "b"]\n')
    assert load_config(file).links == (("a", 1), ("b", 7411))
    monkeypatch.setenv("TIDINGS_BROKER_LINKS", "c:3, d:4")
    assert load_config(file).links == (("c", 3), ("d", 4))


def test_the_first_broker_of_a_network_may_join_itself(tmp_path: Path) -> None:
    both = {"join": ["127.0.0.1:7411", "127.0.0.1:7412"]}
    assert load_config(None, both).join == (("127.0.0.1", 7412),)
    assert load_config(None, {**both, "listen": "127.0.0.1:7412"}).join == (("127.0.0.1", 7411),)
    first = load_config(None, {"join": ["127.0.0.1:7411"]})
    assert first.join == () and type(first.built["overlay"]).__name__ == "LsTreeParams"


def test_who_names_others_on_the_air_has_a_tree_over_radio() -> None:
    config = load_config(None, {"hears": ["b=127.0.0.1:7412", "c=[::1]:7413"]})
    assert config.hears == {"b": ("127.0.0.1", 7412), "c": ("::1", 7413)}
    assert isinstance(config.built["overlay"], WiTreeParams)
    chosen = load_config(None, {"hears": ["b=127.0.0.1:7412"], "overlay": {"kind": "all-peers"}})
    assert isinstance(chosen.built["overlay"], AllPeersParams)
    with pytest.raises(UsageError, match="NAME=HOST:PORT"):
        load_config(None, {"hears": ["127.0.0.1:7412"]})


def test_words_of_a_parameter_are_its_own(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, '[host]\ninbox_policy = "drop oldest"\n'))
    assert config.built["host"].inbox_policy is InboxPolicy.DROP_OLDEST
    assert origins(config)["host.inbox_policy"][0] == "drop oldest"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("lisen = 'a:1'", "there is no setting 'lisen'; did you mean listen?"),
        ("[host]\nstreems_max = 1", "there is no setting 'host.streems_max'; did you mean host.streams_max?"),
        ("[nonsense]\na = 1", "there is no setting 'nonsense'"),
        ("host = 3", "host is a section; write [host] above its settings"),
        ("listen = 'a:b'", "listen: 'a:b' is no address; write host:port"),
        ("listen = 'a:70000'", "is no address"),
        ("join = ['']", "join: '' is no address; write host:port, such as 127.0.0.1:7411"),
        ("join = [':7411']", "join: ':7411' is no address"),
        ("join = ['127.0.0.1:0']", "join: '127.0.0.1:0' is no address"),
        ("join = ['http://x:1']", "join: 'http://x:1' is no address"),
        ("links = ['host name:1']", "links: 'host name:1' is no address"),
        ("[host]\nstreams_max = 'many'", "host.streams_max = 'many': input should be a valid integer"),
        ("[host]\nstreams_max = 0", "[host] streams_max: 0 leaves no room"),
        ("[host]\nsilence_max = 1", "[host] silence_max"),
        ("log = 'loud'", "log = 'loud': input should be 'debug'"),
        ("listen = ", "is no TOML"),
        ("overlay = 'all-peers'", "overlay is a section; write [overlay] above its settings"),
        ("[overlay]\nkind = 'ring'", "broker.toml: 'ring' is no overlay; choose spanning-tree or all-peers"),
        (
            "[overlay]\nkind = 'all-peers'\ngain_min = 3",
            "there is no setting 'overlay.gain_min' here; it belongs to overlay.kind = spanning-tree",
        ),
        ("[routing]\nqueue_max = 3", "there is no setting 'routing.queue_max' here; it belongs to routing.kind = dest"),
        ("[host]\nkind = 'x'", "there is no setting 'host.kind'"),
        ("[host]\nqueue_bytes_max = 4_000_000", "to one broker (delivery.history_window_bytes = 1048576, routing.publ"),
        ("[delivery]\nclient_window_bytes = 9_000_000", "to one client (delivery.client_window_bytes = 9000000, and a"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        load_config(written(tmp_path, text))
    assert problem in str(raised.value)


def test_a_part_is_of_the_kind_that_is_chosen_last_and_has_the_settings_of_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, '[overlay]\nkind = "all-peers"\n[routing]\nkind = "tables"\n')
    monkeypatch.setenv("TIDINGS_BROKER_ROUTING__KIND", "destinations")
    monkeypatch.setenv("TIDINGS_BROKER_ROUTING__QUEUE_MAX", "5")
    config = load_config(file)
    assert config.build("overlay", clock_offset=3.0) == AllPeersParams()
    assert config.build("routing") == DestinationParams(queue_max=5)
    shown = origins(config)
    assert shown["overlay.kind"] == ("all-peers", f"file {file}")
    assert shown["routing.kind"] == ("destinations", "environment TIDINGS_BROKER_ROUTING__KIND")
    assert "overlay.gain_min" not in shown and "routing.strategy" not in shown
    flagged = load_config(file, {"overlay": {"kind": "spanning-tree"}})
    assert flagged.build("overlay", clock_offset=3.0) == SpanningTreeParams(clock_offset=3.0)
    assert origins(flagged)["overlay.kind"] == ("spanning-tree", "flag --overlay")


def test_a_routing_that_does_not_fit_the_overlay_is_refused_when_the_broker_is_made(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, '[overlay]\nkind = "all-peers"\n'))
    with pytest.raises(UsageError, match="routing tables needs links that form a tree, and overlay all-peers"):
        BrokerService(config)


def test_a_misspelt_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_BROKER_LISTN", "a:1")
    with pytest.raises(UsageError, match="no setting TIDINGS_BROKER_LISTN; did you mean TIDINGS_BROKER_LISTEN"):
        load_config()


def test_a_wrong_value_in_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_BROKER_HOST__STREAMS_MAX", "x")
    with pytest.raises(UsageError, match=r"^environment TIDINGS_BROKER_HOST__STREAMS_MAX: host.streams_max = 'x'"):
        load_config()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*nowhere.toml: No such file"):
        load_config(tmp_path / "nowhere.toml")


def test_half_of_tls_is_refused(tmp_path: Path) -> None:
    config = load_config(None, {"tls_key": tmp_path / "key.pem"})
    with pytest.raises(UsageError, match="TLS needs tls_certificate and tls_key"):
        _ = config.tls


def test_the_data_folder_is_made(tmp_path: Path) -> None:
    assert load_config(None, {"data": tmp_path / "new"}).storage == tmp_path / "new" / STORAGE_NAME
    assert (tmp_path / "new").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="name another folder"):
        _ = load_config(None, {"data": tmp_path / "file" / "below"}).storage


@pytest.mark.parametrize("is_there", [False, True], ids=["made", "found"])
def test_the_data_folder_is_nobody_elses(tmp_path: Path, is_there: bool) -> None:
    folder = tmp_path / "data"
    if is_there:
        folder.mkdir()
        folder.chmod(0o755)
    assert load_config(None, {"data": folder}).storage is not None
    assert folder.stat().st_mode & 0o777 == 0o700


def test_what_others_are_told_is_an_address_they_can_use() -> None:
    assert load_config().public_for(("10.0.0.1", 5)) == "10.0.0.1:5"
    assert not load_config().public_for(("0.0.0.0", 5)).startswith("0.0.0.0")
    assert load_config(None, {"public": "north.example"}).public_for(("0.0.0.0", 5)) == "north.example:7411"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost", ("localhost", 7411)),
        ("localhost:1", ("localhost", 1)),
        ("tidings://localhost:1/", ("localhost", 1)),
        ("tidingss://localhost:1", ("localhost", 1)),
        ("[::1]:5", ("::1", 5)),
        ("[::1]", ("::1", 7411)),
        (":5", ("", 5)),
    ],
)
def test_addresses_as_people_write_them(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text, "listen") == address
    assert parse_address(address_text(address), "listen") == address


def test_places_for_streams_agree_with_who_is_served(tmp_path: Path) -> None:
    few = "[host]\nstreams_max = 8\n[access]\nclients_max = 6\npeers_max = 2\n"
    assert load_config(written(tmp_path, few)).built["host"].streams_max == 8
    with pytest.raises(UsageError, match=r"streams_max: 7 is less than clients_max and peers_max .* together, 8"):
        load_config(written(tmp_path, few.replace("streams_max = 8", "streams_max = 7")))
    with pytest.raises(UsageError, match=r"\[access\] strangers_max: 9 is less than strangers_max of \[host\]"):
        load_config(written(tmp_path, "[access]\nstrangers_max = 9\n"))


def test_tenants_are_tables_of_the_file_and_are_shown_one_by_one(tmp_path: Path) -> None:
    file = written(tmp_path, 'principals = "p.toml"\n[tenants.acme]\nconnections_max = 3\n[tenants.zeta]\n')
    config = load_config(file)
    shown = origins(config)
    assert shown["tenants"] == (["acme", "zeta"], f"file {file}")
    assert shown["tenants.acme.connections_max"] == (3, f"file {file}")
    assert list(config.tenants.by_name) == ["acme", "zeta"]
    file.write_text('principals = "p.toml"\n[tenants.acme]\nconnections_max = 4\n')
    assert config.read_tenants().by_name["acme"].connections_max == 4
    file.write_text('tenants = "acme"\n')
    with pytest.raises(UsageError, match=r"\[tenants.NAME\]"):
        config.read_tenants()


@pytest.mark.parametrize(
    ("section", "kind"), [(section, kind) for section in SECTIONS for kind in kinds_of(section) if kind]
)
def test_every_kind_of_part_can_be_chosen_and_is_made_with_its_defaults(section: str, kind: str) -> None:
    assert load_config(flags={section: {"kind": kind}}).built[section] == kinds_of(section)[kind]()


@pytest.mark.parametrize("routing", kinds_of("routing"))
@pytest.mark.parametrize("overlay", kinds_of("overlay"))
def test_every_overlay_carries_every_routing_but_tables_where_there_is_no_tree(overlay: str, routing: str) -> None:
    config = load_config(flags={"overlay": {"kind": overlay}, "routing": {"kind": routing}})
    if (overlay, routing) == ("all-peers", "tables"):
        with pytest.raises(UsageError, match="choose overlay spanning-tree, or routing destinations"):
            BrokerService(config)
    else:
        BrokerService(config)


def test_parameters_of_what_is_inside_a_part_are_settings_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_BROKER_OVERLAY__RING_PERIOD", "0.5")
    config = load_config(flags={"overlay": {"kind": "dhtree", "arity": 4, "levels": 8}})
    assert config.built["overlay"] == DhTreeParams(arity=4, levels=8, ring=RingParams(period=0.5))
    assert origins(config)["overlay.ring_period"] == (0.5, "environment TIDINGS_BROKER_OVERLAY__RING_PERIOD")


def test_links_that_are_drawn_are_refused_where_the_overlay_finds_its_own() -> None:
    with pytest.raises(UsageError, match="overlay lstree finds its links by itself"):
        load_config(flags={"join": ["127.0.0.1:1"], "links": ["127.0.0.1:2"]})
    with pytest.raises(UsageError, match="join, hears"):
        load_config(flags={"join": ["127.0.0.1:1"], "hears": ["b=127.0.0.1:2"]})


def test_a_folder_remembers_that_its_broker_found_its_links_by_itself(tmp_path: Path) -> None:
    data = {"data": tmp_path}
    load_config(flags={**data, "join": ["127.0.0.1:1"]}).keep_overlay()
    assert isinstance(load_config(flags=data).built["overlay"], LsTreeParams)
    # Who says something else is not overruled, and is remembered from then on.
    assert isinstance(load_config(flags={**data, "links": ["127.0.0.1:1"]}).built["overlay"], SpanningTreeParams)
    assert isinstance(load_config(flags={**data, "hears": ["b=127.0.0.1:1"]}).built["overlay"], WiTreeParams)
    load_config(flags={**data, "links": ["127.0.0.1:1"]}).keep_overlay()
    assert isinstance(load_config(flags=data).built["overlay"], SpanningTreeParams)
    (tmp_path / OVERLAY_NAME).write_text("nonsense")
    assert isinstance(load_config(flags=data).built["overlay"], SpanningTreeParams)
