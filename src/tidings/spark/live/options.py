"""What can be said to the format "tidings" with `.option(name, value)`.

    url                   where the brokers are: tidings://host:port[,host:port]         (environment: TIDINGS_URL)
    filter                which events: text of the filter language; all of them without it
    startingOffsets       where to begin: "earliest", "latest", a time, {"publisher": 17}, or an offset (`starts.py`)
    endingOffsets         where a batch read ends, in the same words
    maxEventsPerTrigger, maxBytesPerTrigger         at most so much in one micro-batch; bytes are estimated
    pollInterval          seconds between two questions for news, if there were none: 0.05
    partitions            into how many tasks a read is cut at most: as many as there are cores (TIDINGS_PARTITIONS)
    minPartitions         and at least, where there are as many events
    pushDown              "true": conditions of a batch read go to the brokers; as Spark is set, if nothing is said
    includeMetadata       "false": no columns publisher, number, accepted_at where no schema is given
    failOnDataLoss        "true": history that is gone before it was read ends the query
    failOnUnreachable     "true": so does a broker with some of it that cannot be asked; a batch read is "true"
    payloadFormat         what the column payload is: "binary", "text", "json", "avro" (`casts.py`); of the sink too
    payloadSchema         of "avro": the schema with which payloads are written, as JSON (`avro.py`)
    mode                  "PERMISSIVE": a value that its column cannot hold is null; "FAILFAST": it is an error
    timeout               seconds to wait for an answer, a broker that restarts included: 60
    sinkName, advertise   of the sink: how its publishers are called, and what they say they will publish
    idColumn              of the sink: the columns that tell rows of a batch apart, "a" or "a, b"
    failOnChangedBatch    of the sink: "false" publishes a batch again whose rows are not those of its first try
    token, tokenKey       the token (its text, or its file), and the file of the key it is bound to
                                                                     (environment: TIDINGS_TOKEN, TIDINGS_TOKEN_KEY)
    tlsAuthority          PEM file: who signs for brokers           (environment: TIDINGS_TLS_AUTHORITY)
    tlsCertificate, tlsKey   PEM files: our own, where we show no token   (TIDINGS_TLS_CERTIFICATE, TIDINGS_TLS_KEY)
    principal             with a certificate and no token: the name in it
    insecure              "true": plain text beyond this machine

Names are read without regard to case, as Spark does. Everything is checked when the format is asked for, before a task
runs. A token is read on the driver, from the option, its file or the environment, and travels to the tasks inside the
pickled reader; the files of keys and certificates are read where a connection is made, so tasks need them too. Spark
prints the options of a stream in its plans, and there it blanks `token` and `url` itself
(spark.sql.redaction.options.regex, spark.redaction.regex). Where that was switched off, the environment is the place
for a token.
"""

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from tidings.model.errors import UsageError
from tidings.model.language.parser import parse
from tidings.net.client.connection import CONNECT_TIMEOUT, SECURE, Connecting, connect, parse_brokers
from tidings.net.errors import HostError
from tidings.net.keys import principal_of_token, read_token_file, token_of_text
from tidings.net.tls import Tls, is_loopback
from tidings.protocols.access.judge import BEHIND_PRINCIPAL
from tidings.spark.live.avro import avro_type
from tidings.spark.live.starts import Start, read_start
from tidings.spark.live.table import is_table, table_options

TIMEOUT = 60.0
POLL_INTERVAL = 0.05
PARTITIONS_VARIABLE = "TIDINGS_PARTITIONS"
AVRO = "avro"

ENVIRONMENT = {
    "url": "TIDINGS_URL",
    "token": "TIDINGS_TOKEN",
    "tokenKey": "TIDINGS_TOKEN_KEY",
    "tlsCertificate": "TIDINGS_TLS_CERTIFICATE",
    "tlsKey": "TIDINGS_TLS_KEY",
    "tlsAuthority": "TIDINGS_TLS_AUTHORITY",
}
KNOWN = (
    *("url", "filter", "startingOffsets", "endingOffsets", "maxEventsPerTrigger", "maxBytesPerTrigger", "pollInterval"),
    *("partitions", "minPartitions", "pushDown", "includeMetadata", "failOnDataLoss", "failOnUnreachable", "mode"),
    *("payloadFormat", "payloadSchema"),
    *("timeout", "sinkName", "advertise", "idColumn", "failOnChangedBatch", "token", "tokenKey"),
    *("tlsCertificate", "tlsKey", "tlsAuthority", "principal", "insecure"),
)
PATH = "path"
"""What stands in `load(...)`."""

OF_SPARK = frozenset({"checkpointlocation", "queryname", "outputmode"})
"""Options that Spark hands on although they are its own."""

WITH = "SELECT * FROM name WITH (`url` = 'tidings://localhost:7411'), INSERT INTO name WITH (...)"

SINK_NAME = "spark"
SINK_NAME_CHARS_MAX = 100
"""So that a query's id and a partition's number fit behind it."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    filter: str = "TRUE"
    start: Start | None = None
    end: Start | None = None
    events_max: int | None = None
    bytes_max: int | None = None
    poll_interval: float = POLL_INTERVAL
    partitions: int = 1
    partitions_min: int = 0
    pushes_down: bool | None = None
    has_metadata: bool = True
    fails_on_loss: bool = True
    fails_unreachable: bool | None = None
    """As it was said; a batch read fails if nothing was."""
    fails_on_type: bool = False
    payload_format: str = "binary"
    payload_schema: str = ""
    timeout: float = TIMEOUT
    sink_name: str = SINK_NAME
    advertise: str = ""
    id_columns: tuple[str, ...] = ()
    fails_on_changed_batch: bool = True
    token: bytes = b""
    token_key: str = ""
    tls_files: tuple[str, str, str] = ("", "", "")
    """Our certificate and its key, if we have one, and the authority, if it is not one that the system trusts."""
    principal: str = ""
    insecure: bool = False

    def __repr__(self) -> str:
        """Without what must not be seen."""
        return f"Options({self.url}, {self.filter})"

    @property
    def tls(self) -> Tls | None:
        """None where no file is given: then the URL says whether there is TLS, and the system whom it trusts."""
        certificate, key, authority = self.tls_files
        if certificate:
            return Tls.from_files(certificate, key, authority or None)
        return Tls.trusting(authority) if authority else None

    def connect(self, name: str = "", **others: Any) -> Connecting:
        """A client; `name` is what tells it from others of the same principal, at random if there is none."""
        principal = principal_of_token(self.token) if self.token else self.principal
        called = name
        if principal:
            called = f"{principal}{BEHIND_PRINCIPAL}{name or secrets.token_hex(6)}"
        return connect(
            self.url,
            name=called or None,
            token=self.token or None,
            key=self.token_key or None,
            tls=self.tls,
            insecure=self.insecure,
            timeout=min(CONNECT_TIMEOUT, self.timeout),
            **others,
        )


def read_options(given: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> Options:
    """UsageError names the option that is wrong."""
    said = find_said(given, environment)
    if not said.get("url"):
        raise UsageError(
            'option url: say where the brokers are: .option("url", "tidings://localhost:7411"); of a table in SQL that '
            f"was created with columns Spark drops the options, and a writer is told none: {WITH}"
        )
    check_filter("filter", said.get("filter", ""))
    check_filter("advertise", said.get("advertise", ""))
    check_sink_name(said.get("sinkName", SINK_NAME))
    options = Options(
        url=said["url"],
        filter=said.get("filter") or "TRUE",
        start=read_start("startingOffsets", said["startingOffsets"]) if "startingOffsets" in said else None,
        end=read_start("endingOffsets", said["endingOffsets"]) if "endingOffsets" in said else None,
        events_max=read_count(said, "maxEventsPerTrigger", 0) or None,
        bytes_max=read_count(said, "maxBytesPerTrigger", 0) or None,
        poll_interval=read_number(said, "pollInterval", POLL_INTERVAL, 0),
        partitions=read_count(said, "partitions", usual_partitions(environment)),
        partitions_min=read_count(said, "minPartitions", 0),
        pushes_down=read_truth(said, "pushDown"),
        has_metadata=read_truth(said, "includeMetadata") is not False,
        fails_on_loss=read_truth(said, "failOnDataLoss") is not False,
        fails_unreachable=read_truth(said, "failOnUnreachable"),
        fails_on_type=read_choice(said, "mode", "permissive", ("permissive", "failfast")) == "failfast",
        payload_format=read_choice(said, "payloadFormat", "binary", ("binary", "text", "json", AVRO)),
        payload_schema=said.get("payloadSchema", ""),
        timeout=read_number(said, "timeout", TIMEOUT, 0.05),
        sink_name=said.get("sinkName", SINK_NAME),
        advertise=said.get("advertise", ""),
        id_columns=tuple(name.strip() for name in said.get("idColumn", "").split(",") if name.strip()),
        fails_on_changed_batch=read_truth(said, "failOnChangedBatch") is not False,
        token=read_token(said["token"]) if said.get("token") else b"",
        token_key=said.get("tokenKey", ""),
        tls_files=read_tls_files(said),
        principal=said.get("principal", ""),
        insecure=read_truth(said, "insecure") is True,
    )
    check_payload_schema(options)
    check_reach(options)
    return options


def find_said(given: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """By the names in KNOWN."""
    by_lower = {name.lower(): name for name in KNOWN}
    said = {name: environment[variable] for name, variable in ENVIRONMENT.items() if environment.get(variable)}
    for name, value in (table_options(given, by_lower) if is_table(given) else given).items():
        if name.lower() in by_lower:
            said[by_lower[name.lower()]] = value
        elif name.lower() == PATH:
            raise UsageError(f'option path: nothing is loaded from a path; write .option("url", {value!r:.80}).load()')
        elif name.lower() not in OF_SPARK:
            near = [by_lower[each] for each in get_close_matches(name.lower(), by_lower, 1)]
            meant = f"; did you mean {near[0]}?" if near else "."
            raise UsageError(f"option {name}: there is no such option{meant} There are {', '.join(KNOWN)}")
    return said


def read_tls_files(said: dict[str, str]) -> tuple[str, str, str]:
    certificate, key, authority = said.get("tlsCertificate", ""), said.get("tlsKey", ""), said.get("tlsAuthority", "")
    if bool(certificate) != bool(key):
        raise UsageError("options tlsCertificate, tlsKey: a certificate needs its key; give both, or show a token")
    return certificate, key, authority


def read_token(said: str) -> bytes:
    """The token, or what is in the file of that name. Whatever it is, no error repeats it."""
    with suppress(HostError):
        return token_of_text(said)
    with suppress(HostError, OSError):
        return read_token_file(Path(said))
    raise UsageError("option token: neither a token nor a file with one; make one: tidings token")


def check_reach(options: Options) -> None:
    """Without asking anybody: is the URL one, are the files there, and would strangers on the way read along?"""
    tls, certificate = options.tls, options.tls_files[0]
    try:
        brokers = parse_brokers(options.url)
    except UsageError as problem:
        raise UsageError(f"option url: {str(problem).removeprefix('connect: ')}") from None
    is_plain = tls is None and not options.url.startswith(SECURE) and not options.insecure
    for host, port in brokers.values() if is_plain else ():
        if not is_loopback(host):
            raise UsageError(
                f"option url: {host}:{port} without TLS: anybody on the way could read and write; write "
                f"{SECURE}{host}:{port}, with tlsAuthority where this system does not know who signs for it, or set "
                'insecure to "true"'
            )
    if options.token:
        return
    if certificate and not options.principal:
        raise UsageError("option principal: with TLS and without a token, give the name that is in the certificate")
    if tls is not None and not certificate:
        raise UsageError("option token: with TLS and without a certificate of your own, a token says who you are")


def check_payload_schema(options: Options) -> None:
    if (options.payload_format == AVRO) != bool(options.payload_schema):
        raise UsageError(
            "options payloadFormat, payloadSchema: avro needs the schema with which payloads are written, as JSON, and "
            "no other format has one"
        )
    if options.payload_schema:
        avro_type(options.payload_schema)


def check_filter(name: str, text: str) -> None:
    if text:
        try:
            parse(text)
        except UsageError as problem:
            raise UsageError(f"option {name}: {problem}") from None


def check_sink_name(name: str) -> None:
    if not 0 < len(name) <= SINK_NAME_CHARS_MAX or any(mark in name for mark in "@,/+ \t\n"):
        raise UsageError(
            f"option sinkName: {name!r:.80} cannot be part of a name; use 1 to {SINK_NAME_CHARS_MAX} characters and "
            "none of @ , / + nor blanks"
        )


def read_number(said: dict[str, str], name: str, default: float, least: float) -> float:
    if name not in said:
        return default
    try:
        number = float(said[name])
    except ValueError:
        number = float("nan")
    if not least <= number < float("inf"):
        raise UsageError(f"option {name}: {said[name]!r:.40} is no number of at least {least}")
    return number


def read_count(said: dict[str, str], name: str, default: int) -> int:
    number = read_number(said, name, default, 1)
    if number % 1:
        raise UsageError(f"option {name}: {said[name]!r:.40} is no whole number")
    return int(number)


def usual_partitions(environment: Mapping[str, str]) -> int:
    """The cluster's parallelism, where whoever opened the session told it; otherwise the cores of this machine."""
    told = environment.get(PARTITIONS_VARIABLE, "")
    return int(told) if told.isdecimal() and int(told) else os.cpu_count() or 1


def read_truth(said: dict[str, str], name: str) -> bool | None:
    """None where nothing is said."""
    return read_choice(said, name, "false", ("true", "false")) == "true" if name in said else None


def read_choice(said: dict[str, str], name: str, default: str, choices: tuple[str, ...]) -> str:
    choice = said.get(name, default).lower()
    if choice not in choices:
        raise UsageError(f"option {name}: {said[name]!r:.40} is none of {', '.join(choices)}")
    return choice
