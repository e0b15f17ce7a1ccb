"""Who may come in, read from files that change while a broker runs.

Authorities, principals, tenants and revocations stand in files. `Rights` reads them, is the judge of the broker for as
long as it runs, and reads them again when it is told to (`SIGHUP`) or when one of them has changed, which it sees by
time, size and inode every `LOOK_PERIOD` seconds. Everybody who is in is then judged again (`access.Rejudge`).

Files that cannot be read, or that have a mistake, change nothing: the rights that were read last hold, and the problem
is told in the log, in the metrics and in the audit until the files are whole again. A file that is written in place may
be seen half written; that is such a mistake, and mended with the next look.
"""

from collections.abc import Iterator
from pathlib import Path

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.net.broker.config import Config
from tidings.net.keys import read_authorities, read_principals_file, read_revocations_file, signature_check
from tidings.protocols.access.judge import Judge, NameJudge, Role, Verdict, closed_judge
from tidings.protocols.access.tenancy import TenantJudge
from tidings.protocols.access.tokens import Revocation, TokenJudge
from tidings.pubsub.rows import Gauge

LOOK_PERIOD = 2.0
"""Seconds between two looks at whether a file has changed."""

Stamp = tuple[tuple[int, int, int] | None, ...]
"""Time, size and inode of each file; None for one that is not there."""


class RightsReading:
    """What the files said, and the judge that follows from it."""

    def __init__(self, config: Config, is_tls: bool) -> None:
        settings = config.settings
        self.principals = read_principals_file(settings.principals) if settings.principals else None
        self.tenants = config.read_tenants()
        self.revoked: dict[str, Revocation] = read_revocations_file(settings.revoked) if settings.revoked else {}
        by_name: Judge = NameJudge(self.principals) if is_tls and self.principals is not None else closed_judge
        self.judge: Judge
        authorities = read_authorities(list(settings.authorities))
        self.tenants.check(authorities, self.principals or {})
        if authorities:
            # A certificate proves a name too, so that brokers with one need no token.
            signs_for = self.tenants.signs_for
            self.judge = TokenJudge(signature_check, authorities, self.principals, by_name, self.revoked, signs_for)
        elif self.principals is not None and not is_tls:
            raise UsageError(
                "principals: without TLS or tokens anybody may take any name; give tls_certificate, tls_key and "
                "tls_authority, or authorities"
            )
        else:
            self.judge = by_name
        if self.tenants.by_name:
            self.judge = TenantJudge(self.judge, self.tenants.by_name)


class Rights:
    """`Rights(config, is_tls)` raises what is wrong with the files; later `read` tells it."""

    def __init__(self, config: Config, is_tls: bool) -> None:
        self.config, self.is_tls = config, is_tls
        settings = config.settings
        listing = (settings.principals, settings.revoked, config.tenants_file)
        self.files = [*settings.authorities, *(each for each in listing if each)]
        self.stamp = self.look()
        self.reading = RightsReading(config, is_tls)
        self.problem = ""
        """Why the files that are there now do not count."""
        self.times_read = 1
        self.times_failed = 0

    def __call__(self, peer: NodeId, role: Role, credentials: bytes, now: float) -> Verdict | str:
        return self.reading.judge(peer, role, credentials, now)

    def look(self) -> Stamp:
        return tuple(map(stamp_of, self.files))

    def has_changed(self) -> bool:
        return self.look() != self.stamp

    def read(self) -> RightsReading | None:
        """The files as they are now, for `take`; None where they are not whole. May take a while."""
        # The stamp first: what changes while it is read is read again.
        self.stamp = self.look()
        try:
            reading = RightsReading(self.config, self.is_tls)
        except UsageError as problem:
            self.problem = str(problem)
            self.times_failed += 1
            return None
        self.problem = ""
        self.times_read += 1
        return reading

    def take(self, reading: RightsReading) -> list[Revocation]:
        """From now on this holds. Answers with the tokens that are revoked since."""
        before, self.reading = self.reading.revoked, reading
        return [each for id, each in reading.revoked.items() if id not in before]

    def gauges(self) -> Iterator[Gauge]:
        meaning = "how often the files that say who may do what were read, or were not whole"
        yield Gauge("rights_reads", meaning, self.times_read, {"result": "read"})
        yield Gauge("rights_reads", meaning, self.times_failed, {"result": "failed"})
        yield Gauge("rights_stale", "1 if these files are not whole now, and earlier rights hold", bool(self.problem))
        yield from self.reading.tenants.gauges()
        yield Gauge("tokens_revoked", "tokens that are called back", len(self.reading.revoked))


def stamp_of(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
