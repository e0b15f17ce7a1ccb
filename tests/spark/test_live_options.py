"""What can be said with `.option(...)`."""

import os
from base64 import b64encode
from pathlib import Path

import pytest
from pyspark.sql.types import DoubleType, StringType, StructType

from tidings.model.errors import UsageError
from tidings.net.certificates import new_authority
from tidings.protocols.access.tokens import Claims, make_token
from tidings.spark.live.counters import TidingsBrokersSource
from tidings.spark.live.follower import TidingsTraceSource
from tidings.spark.live.options import read_options
from tidings.spark.live.source import TidingsSource
from tidings.spark.live.starts import Start
from tidings.spark.live.table import kept_options, with_options

URL = "tidings://localhost:7411"


def make_text(publish: str = "") -> str:
    claims = Claims("ann", ("client",), publish, "", 2.0**40, "office")
    return b64encode(make_token(claims, lambda data: b"s" * 64)).decode()


def test_everything_but_the_url_has_a_default() -> None:
    options = read_options({"url": URL}, {})
    assert (options.filter, options.fails_on_loss, options.events_max) == ("TRUE", True, None)
    assert options.partitions == os.cpu_count()
    assert read_options({"url": URL}, {"TIDINGS_PARTITIONS": "12"}).partitions == 12


def test_names_are_read_in_any_case_and_options_of_spark_are_passed_over() -> None:
    options = read_options({"URL": URL, "MAXEVENTSPERTRIGGER": "10", "checkpointLocation": "/x"}, {})
    assert options.events_max == 10
    assert read_options({"url": URL, "startingoffsets": "earliest"}, {}).start == Start("earliest")


def test_a_table_that_is_created_says_its_options_among_other_things_and_no_wrong_ones() -> None:
    made = {"provider": "tidings", "owner": "ann", "url": URL, "option.url": URL, "option.Filter": "price > 1"}
    assert read_options(made, {}).filter == "price > 1"
    assert read_options({"provider": "tidings", "owner": "ann", "url": URL}, {}).url == URL
    with pytest.raises(UsageError, match="option topic: there is no such option"):
        read_options({**made, "option.topic": "x"}, {})


def test_the_schema_of_a_table_keeps_its_options_whichever_columns_are_left() -> None:
    schema = StructType().add("price", DoubleType()).add("symbol", StringType(), metadata={"unit": "none"})
    kept = with_options(schema, {"url": URL, "filter": "price > 1"})
    assert kept_options(kept) == kept_options(StructType(kept.fields[1:])) == {"url": URL, "filter": "price > 1"}
    assert kept["symbol"].metadata["unit"] == "none"
    assert kept_options(schema) == {}


def test_a_stream_over_a_table_goes_on_when_the_table_was_created_anew_for_another_broker() -> None:
    schema = StructType().add("price", DoubleType(), metadata={"unit": "none"})
    tables = [with_options(schema, {"url": url, "filter": "price > 1"}) for url in (URL, "tidings://127.0.0.1:7412")]
    readers = [TidingsSource({}).streamReader(table) for table in tables]
    readers.append(TidingsSource({"url": URL, "filter": "price > 1"}).streamReader(schema))
    assert len({reader.plan for reader in readers}) == 1
    changed = TidingsSource({"filter": "price > 2"}).streamReader(tables[0])
    assert changed.plan not in {reader.plan for reader in readers}


def test_no_table_keeps_a_token() -> None:
    with pytest.raises(UsageError, match="option token would stand in the catalog"):
        with_options(StructType().add("price", DoubleType()), {"url": URL, "token": "secret"})


def test_what_is_said_at_a_read_comes_before_what_a_table_says_and_that_before_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIDINGS_URL", "tidings://[::1]:7412")
    kept = with_options(StructType().add("price", DoubleType()), {"url": URL, "filter": "price > 1"})
    said = TidingsSource({"FILTER": "price > 2"}).said(kept)
    assert (said.url, said.filter) == (URL, "price > 2")
    assert TidingsSource({}).said().url == "tidings://[::1]:7412"


def test_the_environment_says_what_no_option_says() -> None:
    assert read_options({}, {"TIDINGS_URL": URL}).url == URL
    assert read_options({"url": URL}, {"TIDINGS_URL": "tidings://127.0.0.1:7412"}).url == URL


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "option url: say where the brokers are"),
        ({"url": "localhost"}, "option url: 'localhost' is no URL of a broker"),
        ({"url": URL, "filter": "price >"}, "option filter: "),
        ({"url": URL, "advertise": "price >"}, "option advertise: "),
        ({"url": URL, "maxEventsPerTrigger": "0"}, "option maxEventsPerTrigger: '0' is no number of at least 1"),
        ({"url": URL, "pollInterval": "often"}, "option pollInterval: 'often' is no number of at least 0"),
        ({"url": URL, "partitions": "2.5"}, "option partitions: '2.5' is no whole number"),
        ({"url": URL, "failOnDataLoss": "perhaps"}, "option failOnDataLoss: 'perhaps' is none of true, false"),
        ({"url": URL, "mode": "dropmalformed"}, "option mode: 'dropmalformed' is none of permissive, failfast"),
        ({"url": URL, "sinkName": "a,b"}, "option sinkName: 'a,b' cannot be part of a name"),
        ({"url": URL, "tlsKey": "k"}, "a certificate needs its key; give both, or show a token"),
        ({"url": URL, "topic": "x"}, "option topic: there is no such option. There are url, filter, startingOffsets"),
        ({"url": URL, "startingofset": "x"}, "option startingofset: there is no such option; did you mean startingOff"),
        ({"path": URL}, r'nothing is loaded from a path; write .option\("url", .tidings://localhost:7411.\).load'),
        ({"url": "tidings://north.example"}, r'north.example:\d+ without TLS: .* tidingss://north.*insecure to "true"'),
        (
            {"url": URL, "token": "nonsense"},
            "option token: neither a token nor a file with one; make one: tidings token",
        ),
    ],
)
def test_what_is_wrong_is_named_with_what_to_do(given: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_options(given, {})


def test_the_file_of_a_token_comes_from_the_environment_too(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a token"):
        read_options({"url": URL}, {"TIDINGS_TOKEN": str(tmp_path / "missing")})
    (tmp_path / "ann.token").write_text(make_text())
    assert read_options({"url": URL}, {"TIDINGS_TOKEN": str(tmp_path / "ann.token")}).token
    assert read_options({"url": URL, "token": make_text()}, {}).token


def test_a_client_is_named_after_the_principal_of_its_token() -> None:
    options = read_options({"url": URL, "token": make_text()}, {})
    assert options.connect("sink.0").name == "ann+sink.0"
    assert options.connect().name.startswith("ann+")
    assert options.connect().name != options.connect().name
    assert "sss" not in repr(options)


def test_a_token_and_the_authority_of_the_brokers_suffice_for_tls(tmp_path: Path) -> None:
    new_authority(tmp_path)
    given = {"url": "tidingss://north.example", "tlsAuthority": str(tmp_path / "authority.pem")}
    options = read_options({**given, "token": make_text()}, {})
    assert options.tls is not None and options.tls.server is None
    assert options.connect("sink.0").name == "ann+sink.0"
    with pytest.raises(UsageError, match="a token says who you are"):
        read_options(given, {})
    assert read_options({"url": "tidingss://north.example", "token": make_text()}, {}).tls is None, "the system's own"


def test_a_long_token_that_is_wrong_is_not_repeated_in_the_error() -> None:
    wrong = "x" + make_text(publish="price > 1 AND " * 50 + "TRUE")
    with pytest.raises(UsageError, match="neither a token") as failed:
        read_options({"url": URL, "token": wrong}, {})
    assert wrong[:20] not in str(failed.value)


def test_sparks_own_search_for_formats_finds_ours() -> None:
    from importlib import import_module
    from pkgutil import iter_modules

    assert "pyspark_tidings" in {found.name for found in iter_modules()}
    assert import_module("pyspark_tidings").DefaultSource.name() == "tidings"


def test_formats_that_are_only_followed_say_so_and_where_the_rest_is() -> None:
    schema = StructType()
    with pytest.raises(UsageError, match=r"use spark.readStream; .* read_traces"):
        TidingsTraceSource({"path": "traces"}).reader(schema)
    with pytest.raises(UsageError, match=r"use spark.readStream; .* tidings top"):
        TidingsBrokersSource({"url": URL}).reader(schema)
    with pytest.raises(UsageError, match="option maxbytepertrigger: tidings-trace has no such option"):
        TidingsTraceSource({"path": "traces", "maxBytePerTrigger": "1"}).streamReader(schema)
