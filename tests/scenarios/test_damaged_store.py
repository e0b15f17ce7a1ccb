"""A store of a broker that is damaged anywhere: the start is refused, or nothing is lost without a word."""

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.worlds.loopback import Broker, connect
from tests.worlds.sockets import play, until
from tidings.cli.program import run
from tidings.net.errors import HostError
from tidings.net.store import check_store, salvage_store

LONG = 1e9
DAMAGE_BYTES = 4096
EVENTS = 120
PUBLISHERS = ("p", "q", "r")
OPTIONS: dict[str, Any] = {"history_age": LONG}


async def fill(path: Path) -> None:
    """Small events, which share pages, and large ones, which overflow them."""
    async with Broker("a", storage=path, **OPTIONS) as broker:
        for name in PUBLISHERS:
            async with connect(broker.url, name=name, numbers_from=1) as client:
                await client.advertise("x >= 0")
                for number in range(EVENTS):
                    await client.publish({"x": number}, b"." * (9000 if number % 10 == 0 else 30), receipt=True)


def damage(path: Path, place: int, rng: Random) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(rng.randbytes(DAMAGE_BYTES))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "broker.sqlite"
    play(fill(path))
    assert check_store(path).is_whole
    return path


async def deliver_or_tell(path: Path) -> str:
    async with Broker("a", storage=path, **OPTIONS) as broker, connect(broker.url) as reader:
        subscription = await reader.subscribe("TRUE", since=0.0)
        got: Counter[str] = Counter()

        def is_settled() -> bool:
            for event in subscription.take_now():
                got[event.publisher] += 1
            return got.total() + subscription.counts.missed.total() >= EVENTS * len(PUBLISHERS) or is_vague()

        def is_vague() -> bool:
            return any("at least" in reason for reason in subscription.counts.missed)

        await until(is_settled)
        assert all(count <= EVENTS for count in got.values()), "delivered twice"
        return "told" if subscription.counts.missed else "delivered"


@pytest.mark.parametrize("seed", range(10))
def test_whatever_is_damaged_is_refused_and_after_a_salvage_delivered_or_told(
    whole: Path, tmp_path: Path, seed: int
) -> None:
    rng, path = Random(seed), tmp_path / "broker.sqlite"
    path.write_bytes(whole.read_bytes())
    damage(path, rng.randrange(0 if seed == 0 else 4096, path.stat().st_size - DAMAGE_BYTES), rng)
    before = path.read_bytes()
    try:
        assert play(deliver_or_tell(path)) == "delivered", "it started, so it must be whole"
        return
    except HostError as refusal:
        assert "tidings store salvage" in str(refusal)
    assert path.read_bytes() == before, "a refused start changes nothing"
    report = check_store(path)
    assert not report.is_whole
    salvaged = salvage_store(path)
    assert (salvaged.whole, salvaged.missing) == (report.whole, report.missing)
    assert Path(salvaged.damaged).read_bytes() == before
    assert play(deliver_or_tell(path)) == ("told" if report.missing or not report.is_exact else "delivered")


def test_the_commands_check_and_salvage(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "broker.sqlite"
    path.write_bytes(whole.read_bytes())
    assert run(["store", "check", str(tmp_path)]) == 0
    assert "is whole" in capsys.readouterr().out
    damage(path, path.stat().st_size // 2, Random(1))
    assert run(["store", "check", str(tmp_path), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert not report["is_whole"] and report["whole"] > 0
    assert run(["store", "salvage", str(tmp_path)]) == 0
    assert "the damaged file is" in capsys.readouterr().out
    assert run(["store", "check", str(tmp_path)]) == 0
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir() if ".damaged" not in file.name} == {0o600}
