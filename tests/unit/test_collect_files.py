"""Shares that nothing leads out of, blocks on disk, and collections on sockets."""

import asyncio
import json
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tidings
from tidings.cli.program import run
from tidings.model.errors import UsageError
from tidings.net.broker.config import load_config
from tidings.net.collect.collection import collect
from tidings.net.collect.paths import files_below, folder_name, matches, open_below, why_unsafe
from tidings.net.collect.service import CollectService
from tidings.net.collect.shelf import PART, DiskShelf
from tidings.net.errors import NotReachable
from tidings.protocols.collect.messages import SharedFile
from tidings.protocols.collect.params import CollectParams
from tidings.protocols.collect.shelf import BlockTable, digest_of_block
from tidings.protocols.collect.signals import CollectionEnded, CollectionListed, CollectionProgress

BLOCK = 4096


@pytest.fixture
def share(tmp_path: Path) -> Path:
    root = tmp_path / "share"
    (root / "logs" / "deep").mkdir(parents=True)
    (root / "logs" / "a.gz").write_bytes(b"a" * 10_000)
    (root / "logs" / "deep" / "b.gz").write_bytes(b"b" * 5)
    (root / "c.txt").write_bytes(b"")
    (tmp_path / "secret").write_text("nobody's business")
    (root / "way-out").symlink_to(tmp_path / "secret")
    (root / "folder-out").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    return root


def paths(share: Path, *patterns: str) -> list[str]:
    return [path for path, _ in files_below(share, patterns)]


def test_a_share_gives_regular_files_that_match_and_no_links(share: Path) -> None:
    assert paths(share, "**/*") == ["c.txt", "logs/a.gz", "logs/deep/b.gz"]
    assert paths(share, "logs/*.gz") == ["logs/a.gz"] and paths(share, "logs/**/*.gz") == [
        "logs/a.gz",
        "logs/deep/b.gz",
    ]
    assert paths(share, "*") == ["c.txt"] and paths(share, "way-out", "folder-out/secret", "pipe") == []


@pytest.mark.parametrize(
    "path", ["../secret", "folder-out/secret", "way-out", "/etc/passwd", "logs/../../secret", "pipe", "logs", ""]
)
def test_nothing_leads_out_of_a_share(share: Path, path: str) -> None:
    with pytest.raises(OSError):
        os.close(open_below(share, path))
    opened = open_below(share, "logs/deep/b.gz")
    assert os.read(opened, 10) == b"bbbbb"
    os.close(opened)


def test_patterns_are_those_of_a_shell() -> None:
    assert matches("a/b/c.gz", "a/*/c.gz") and not matches("a/b/c.gz", "a/*.gz") and matches("a/b/c.gz", "**")
    assert matches("c.gz", "**/*.gz") and not matches("c.gz", "a/**/c.gz") and matches("a/c.gz", "a/**/c.gz")
    assert all(matches("x" * 200, "*x" * 60) for _ in range(3)), "and take no time that grows beyond reason"


@pytest.mark.parametrize(
    "path", ["", "/a", "../a", "a/../b", "a//b", "./a", "a\0b", "a\nb", ".tidings-part-x", "x/" * 40 + "x", "é" * 200]
)
def test_names_that_no_file_is_to_have_are_refused(path: str) -> None:
    assert why_unsafe(path)


def test_names_of_folders_for_sources_stay_names() -> None:
    assert folder_name("web-1") == "web-1" and folder_name("../x/y") == "_x_y" and folder_name("a:b") == "a_b"
    assert folder_name("...") == "_"


def table(shelf: DiskShelf, *patterns: str) -> BlockTable:
    listed = shelf.shared(patterns)
    assert not isinstance(listed, str)
    return BlockTable(listed, BLOCK)


def test_a_file_that_was_changed_is_not_sent_on(share: Path) -> None:
    shelf = DiskShelf("x", share=share)
    shelf.offer("job", table(shelf, "logs/*.gz"))
    assert shelf.read("job", "x", 2, is_own=True).data == b"a" * (10_000 - 2 * BLOCK)
    assert shelf.own_digest("job", 0).run() == sha256(b"a" * 10_000).digest()
    with (share / "logs" / "a.gz").open("ab") as file:
        file.write(b"more")
    assert "was changed" in shelf.read("job", "x", 0, is_own=True).problem
    assert "was changed" in shelf.own_digest("job", 0).run()
    (share / "logs" / "a.gz").unlink()
    shelf.close("job", is_complete=True)
    shelf.offer("job", table(shelf, "**"))
    assert "leads out" in str(shelf.shared(("../*",)))


def test_blocks_of_others_lie_in_one_file_that_goes_with_the_collection(tmp_path: Path) -> None:
    shelf = DiskShelf("x", scratch=tmp_path)
    shelf.offer("job", BlockTable((), BLOCK))
    data = [Random(n).randbytes(BLOCK - n) for n in range(4)]
    assert all(shelf.keep("job", "z", n, each, digest_of_block(each)) == "" for n, each in enumerate(data))
    assert [shelf.read("job", "z", n, is_own=False).data for n in range(4)] == data
    shelf.drop("job", "z", 1)
    assert shelf.read("job", "z", 1, is_own=False).problem
    shelf.keep("job", "z", 9, data[0], digest_of_block(data[0]))
    (lying,) = tmp_path.glob(".tidings-relayed-x-*")
    assert lying.stat().st_size <= 4 * BLOCK, "a slot is used again"
    with lying.open("r+b") as file:
        file.write(b"damage")
    assert "damaged" in shelf.read("job", "z", 0, is_own=False).problem
    shelf.close("job", is_complete=True)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".tidings-relayed-x-left").write_text("of a dead agent")
    DiskShelf("x", scratch=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_arrives_gets_its_name_when_it_is_whole_and_right(tmp_path: Path) -> None:
    content = Random(1).randbytes(3 * BLOCK - 7)
    listed = BlockTable((SharedFile("logs/f", len(content), 5_000_000_000),), BLOCK)
    shelf = DiskShelf("t", into=tmp_path)
    assert shelf.receive("job", {"x": listed}) == {"x": ()}
    for seq in (2, 0, 1):
        data = content[seq * BLOCK : (seq + 1) * BLOCK]
        assert "digest" in shelf.arrive("job", "x", seq, data, 17)
        assert shelf.arrive("job", "x", seq, data, digest_of_block(data)) == ""
    final, part = tmp_path / "x" / "logs" / "f", tmp_path / "x" / "logs" / f"{PART}f"
    assert part.read_bytes() == content and not final.exists()
    digest = sha256(content).digest()
    assert shelf.finish("job", "x", 0, digest).run() == digest
    assert final.read_bytes() == content and not part.exists() and final.stat().st_mtime == 5.0
    shelf.close("job", is_complete=True)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["f", "logs", "x"]


def test_nothing_that_is_there_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "f").write_text("mine")
    listed = BlockTable((SharedFile("f", 4),), BLOCK)
    assert "nothing is written over" in str(DiskShelf("t", into=tmp_path).receive("job", {"x": listed}))
    (tmp_path / "y").symlink_to(tmp_path)
    assert "there already" in str(DiskShelf("t", into=tmp_path).receive("job", {"y": listed}))
    # And where it comes to be there meanwhile.
    shelf = DiskShelf("t", into=tmp_path)
    shelf.receive("job", {"z": listed})
    shelf.arrive("job", "z", 0, b"abcd", digest_of_block(b"abcd"))
    (tmp_path / "z" / "f").write_text("mine too")
    assert "not written over" in str(shelf.finish("job", "z", 0, b"").run())
    assert (tmp_path / "z" / "f").read_text() == "mine too" and (tmp_path / "x" / "f").read_text() == "mine"


def test_a_file_that_is_not_what_its_source_says_is_thrown_away(tmp_path: Path) -> None:
    shelf = DiskShelf("t", into=tmp_path)
    shelf.receive("job", {"x": BlockTable((SharedFile("f", 4),), BLOCK)})
    shelf.arrive("job", "x", 0, b"abcd", digest_of_block(b"abcd"))
    assert "not what its source says" in str(shelf.finish("job", "x", 0, b"\1" * 32).run())
    assert not list((tmp_path / "x").iterdir())


def test_what_a_journal_says_is_looked_at_before_it_is_believed(tmp_path: Path) -> None:
    content = Random(1).randbytes(4 * BLOCK)
    listed = BlockTable((SharedFile("f", len(content), 1), SharedFile("g", 0, 1)), BLOCK)
    first = DiskShelf("t", into=tmp_path)
    first.receive("job", {"x": listed})
    for seq in range(3):
        data = content[seq * BLOCK : (seq + 1) * BLOCK]
        first.arrive("job", "x", seq, data, digest_of_block(data))
    first.close("job", is_complete=False)
    with (tmp_path / "x" / f"{PART}f").open("r+b") as file:
        file.seek(BLOCK)
        file.write(b"damage")
    again = DiskShelf("t", into=tmp_path)
    again.is_resumed = True
    assert again.receive("job", {"x": listed}) == {"x": ((0, 1), (2, 1))}
    again.close("job", is_complete=False)
    changed = BlockTable((SharedFile("f", len(content), 2),), BLOCK)
    other = DiskShelf("t", into=tmp_path)
    other.is_resumed = True
    assert other.receive("job", {"x": changed}) == {"x": ()}, "another file of that name is begun anew"


def test_a_full_disk_is_said_before_anything_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 100

    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage)
    said = DiskShelf("t", into=tmp_path).receive("job", {"x": BlockTable((SharedFile("f", 4000),), BLOCK)})
    assert "100 bytes free and up to" in str(said)


# On sockets.


def quick(**more: Any) -> CollectParams:
    return CollectParams(block_bytes=16 * 1024, progress_period=0.05, probe_period=0.0, **more)


@asynccontextmanager
async def agents(root: Path, names: str, size: int = 300_000, **settings: Any) -> AsyncIterator[list[CollectService]]:
    async with AsyncExitStack() as stack:
        services: list[CollectService] = []
        for number, name in enumerate(names):
            share = root / name
            share.mkdir(exist_ok=True)
            (share / "data.bin").write_bytes(Random(number).randbytes(size + number))
            (share / "empty.bin").write_bytes(b"")
            links = [services[0].address_text] if services else []
            config = load_config(
                None, {"name": name, "listen": "127.0.0.1:0", "links": links, "log": "error", **settings}
            )
            service = CollectService(config, DiskShelf(name, share=share, scratch=root), quick(), has_files=True)
            services.append(await stack.enter_async_context(service))
        async with asyncio.timeout(20):
            while len(services[0].node.directory.members) < len(names) - 1:
                await asyncio.sleep(0.01)
        yield services


async def all_of(steps: AsyncIterator[Any]) -> list[Any]:
    async with asyncio.timeout(60):
        return [step async for step in steps]


def test_files_of_three_agents_are_collected_over_sockets(tmp_path: Path) -> None:
    async def main() -> None:
        async with agents(tmp_path, "abc") as services:
            into = tmp_path / "here"
            steps = await all_of(collect("*.bin", contact=services[0].address_text, into=into, params=quick()))
            listed, ended = steps[0], steps[-1]
            assert isinstance(listed, CollectionListed) and {each.node for each in listed.sources} == {"a", "b", "c"}
            assert isinstance(ended, CollectionEnded) and ended.is_complete and len(ended.files) == 6
            for name in "abc":
                assert (into / name / "data.bin").read_bytes() == (tmp_path / name / "data.bin").read_bytes()
                assert (into / name / "empty.bin").read_bytes() == b""
            (manifest,) = into.glob("_collected-*.jsonl")
            rows = [json.loads(line) for line in manifest.read_text().splitlines()]
            assert {row["file"] for row in rows} == {
                f"{name}/{file}.bin" for name in "abc" for file in ("data", "empty")
            }
            assert {path.name for path in into.iterdir()} == {"a", "b", "c", manifest.name}
            assert not list(tmp_path.glob(".tidings-*")) and all(not each.node.mover.jobs for each in services)
            # Straight to the sink, and nothing is written over.
            straight = collect(
                "*.bin", contact=services[0].address_text, into=tmp_path / "straight", params=quick(), strategy="direct"
            )
            assert (await all_of(straight))[-1].is_complete
            again = await all_of(collect("*.bin", contact=services[0].address_text, into=into, params=quick()))
            assert "nothing is written over" in again[-1].reason

    asyncio.run(main())


def test_a_collection_that_was_broken_off_is_gone_on_with(tmp_path: Path) -> None:
    async def main() -> None:
        async with agents(tmp_path, "ab", size=3_000_000) as services:
            contact, into = services[0].address_text, tmp_path / "here"
            slow = quick(down_bps=20e6)
            steps = collect("data.bin", contact=contact, into=into, params=slow)
            async with asyncio.timeout(60):
                async for step in steps:
                    if isinstance(step, CollectionProgress) and step.arrived_bytes > 1_000_000:
                        break
            await steps.aclose()
            database = sqlite3.connect(into / ".tidings-collect.sqlite")
            kept = database.execute("SELECT COUNT(*) FROM blocks").fetchone()[0]
            database.close()
            assert kept > 10
            ended = (await all_of(collect("data.bin", contact=contact, into=into, params=quick(), resume=True)))[-1]
            assert ended.is_complete
            assert sum(count for _, count in ended.by_sender) <= 2 * 184 - kept
            for name in "ab":
                assert (into / name / "data.bin").read_bytes() == (tmp_path / name / "data.bin").read_bytes()
            assert not (into / ".tidings-collect.sqlite").exists() and not list(into.rglob(".tidings-part-*"))

    asyncio.run(main())


def test_an_agent_that_dies_is_named_and_the_others_files_come(tmp_path: Path) -> None:
    async def main() -> None:
        async with agents(tmp_path, "ab", size=2_000_000) as services:
            chosen = quick(down_bps=10e6, lost_after=1.0, period=1.0)
            steps = collect("data.bin", contact=services[0].address_text, into=tmp_path / "here", params=chosen)
            last: Any = None
            async with asyncio.timeout(60):
                async for step in steps:
                    if isinstance(step, CollectionProgress) and step.arrived > 10 and services[1].host.is_running:
                        await services[1].host.stop()
                    last = step
            problems = {(file.origin, file.problem) for file in last.files}
            assert problems == {("a", ""), ("b", "its source is gone, and nobody has its missing blocks")}
            assert (tmp_path / "here" / "a" / "data.bin").read_bytes() == (tmp_path / "a" / "data.bin").read_bytes()

    asyncio.run(main())


def test_nobody_there_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotReachable, match="tidings collect agent"):
        asyncio.run(all_of(collect("*", contact="127.0.0.1:9", into=tmp_path / "h", params=quick(), wait=0.5)))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ({"patterns": ()}, "at least one pattern"),
        ({"patterns": ("*",), "strategy": "magic"}, "planned or direct"),
    ],
)
def test_a_collection_that_is_asked_for_wrongly_is_refused(call: dict[str, Any], says: str) -> None:
    patterns = call.pop("patterns")
    with pytest.raises(UsageError, match=says):
        asyncio.run(all_of(collect(*patterns, contact="127.0.0.1:9", into="x", **call)))


# By hand.


def test_a_plan_is_made_from_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    csv = tmp_path / "rates.csv"
    csv.write_text("sender,receiver,mbps\nx,t,8\ny,t,40\nx,y,16\ny,x,16\n")
    asked = ["collect", "plan", str(csv), "--sink", "t", "--each", "1000"]
    assert run([*asked, "--no-access", "--picture", str(tmp_path / "p.svg")]) == 0
    said = capsys.readouterr().out
    assert "334 s planned, 1000 s direct: 67% sooner" in said and (tmp_path / "p.svg").stat().st_size > 1000
    assert run([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["seconds"] == 500, "x sends 16 Mbit/s in all, to whomever"
    assert run(["collect", "plan", str(csv), "--sink", "nobody"]) == 2
    assert "name one of its hosts" in capsys.readouterr().err
    csv.write_text("sender,receiver\nx,t\n")
    assert run(["collect", "plan", str(csv), "--sink", "t"]) == 2 and "no column mbps" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--share", "/no/such/folder"], ["--up", "fast"], ["--down", "0"]])
def test_an_agent_that_is_asked_for_wrongly_says_what_to_do(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["collect", "agent", *arguments]) == 2
    assert arguments[0] in capsys.readouterr().err


def test_collect_is_one_of_the_names_of_tidings() -> None:
    assert tidings.collect is collect
