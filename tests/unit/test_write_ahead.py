"""The log of what was saved last: damage is told from what the power cut off, and what is whole is kept."""

import shutil
from pathlib import Path

import pytest

from tests.unit.test_net_storage import opened
from tidings.machine.effects import Load, Save
from tidings.net.errors import HostError
from tidings.net.storage import Storage
from tidings.net.store import check_store, salvage_store
from tidings.net.write_ahead import FRAME_HEADER_BYTES, HEADER_BYTES, examine_log, log_path

NAMES = [f"delivery/publication/p/{number:03d}" for number in range(12)]
PAGE_BYTES = 4096


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A store as it is on disk when its process is killed: each entry is a commit of its own, in the log."""
    with opened(tmp_path / "live.db") as (storage, answers):
        for name in NAMES:
            storage.ask(Save(name, name.encode() * 20))
            answers.next()
        path = tmp_path / "crashed.db"
        for ending in ("", "-wal"):
            shutil.copyfile(f"{tmp_path / 'live.db'}{ending}", f"{path}{ending}")
    return path


def read(path: Path) -> list[str]:
    with opened(path) as (storage, answers):
        storage.ask(Load(""))
        return [name for name, _ in answers.next().entries]


def frame_begin(place: int) -> int:
    return HEADER_BYTES + place * (FRAME_HEADER_BYTES + PAGE_BYTES)


def last_commits(path: Path) -> list[int]:
    """Places of the frames that end a commit."""
    return [place for place, frame in enumerate(examine_log(path).frames) if frame.is_commit]


def damage(path: Path, at: int) -> None:
    data = bytearray(log_path(path).read_bytes())
    data[at] ^= 0x55
    log_path(path).write_bytes(data)


def test_a_log_that_is_whole_is_read(crashed: Path) -> None:
    report = examine_log(crashed)
    assert report.damaged_at is None and len(report.frames) > len(NAMES)
    assert all(frame.is_whole for frame in report.frames)
    assert check_store(crashed).is_whole
    assert read(crashed) == NAMES


def test_a_log_whose_last_write_was_cut_off_is_read_up_to_there(crashed: Path) -> None:
    whole = log_path(crashed).read_bytes()
    for size in (0, 7, HEADER_BYTES, HEADER_BYTES + 30, *range(len(whole) - 3 * PAGE_BYTES, len(whole), 1000)):
        log_path(crashed).write_bytes(whole[:size])
        assert examine_log(crashed).damaged_at is None
    assert read(crashed) == NAMES[:11]


def test_what_an_earlier_log_left_behind_the_end_is_no_damage(crashed: Path) -> None:
    with log_path(crashed).open("ab") as log:
        log.write(b"\x07" * (3 * (FRAME_HEADER_BYTES + PAGE_BYTES)))
    assert examine_log(crashed).damaged_at is None
    assert read(crashed) == NAMES


@pytest.mark.parametrize("part", [0, 9, 17, FRAME_HEADER_BYTES + 100], ids=["page number", "salt", "checksum", "page"])
def test_damage_ahead_of_a_later_commit_is_noticed_wherever_it_is(crashed: Path, part: int) -> None:
    whole, before = log_path(crashed).read_bytes(), last_commits(crashed)[-3]
    for place in range(before):
        log_path(crashed).write_bytes(whole)
        damage(crashed, frame_begin(place) + part)
        assert examine_log(crashed).damaged_at == place + 1
        with pytest.raises(HostError, match=f"wrong at frame {place + 1}.*tidings store salvage"):
            Storage(crashed, 10, lambda answers, seconds: None)


def test_damage_of_the_head_of_the_log_is_noticed(crashed: Path) -> None:
    for at in (2, 9, 17, 25):
        damage(crashed, at)
        assert examine_log(crashed).damaged_at == 0
        damage(crashed, at)
    assert read(crashed) == NAMES


def test_damage_of_the_last_commit_looks_like_one_that_was_cut_off(crashed: Path) -> None:
    damage(crashed, frame_begin(last_commits(crashed)[-1]) + 500)
    assert examine_log(crashed).damaged_at is None
    assert read(crashed) == NAMES[:-1]


def test_what_is_whole_of_a_damaged_log_is_salvaged_and_the_rest_is_said_to_be_unknown(crashed: Path) -> None:
    damage(crashed, frame_begin(last_commits(crashed)[5]) + 500)
    report = check_store(crashed)
    assert not report.is_whole and not report.is_exact and "frame" in report.problem
    salvage_store(crashed)
    kept = read(crashed)
    assert kept[-1] == "delivery/publication/p/011", "SQLite alone would leave out all behind the damage"
    assert "delivery/lost/unknown" in kept
    assert set(kept) - {"delivery/lost/unknown"} <= set(NAMES)
