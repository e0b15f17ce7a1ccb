"""Names and bytes on disk: in order, confirmed when committed, found again by prefix."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from queue import SimpleQueue

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.machine.effects import Load, Save
from tidings.machine.inputs import Loaded, Saved
from tidings.net.errors import HostError
from tidings.net.storage import APPLICATION_ID, EARLIER_FAILED, Answer, Order, Storage
from tidings.net.store import check_store, salvage_store


class Answers:
    def __init__(self) -> None:
        self.queue: SimpleQueue[Answer] = SimpleQueue()
        self.batches: list[int] = []
        self.gate = threading.Event()
        self.gate.set()

    def take(self, answers: list[Answer], seconds: float) -> None:
        self.batches.append(len(answers))
        for answer in answers:
            self.queue.put(answer)
        self.gate.wait()

    def next(self) -> Answer:
        return self.queue.get(timeout=20)


@contextmanager
def opened(path: Path, waiting_max: int = 10_000) -> Iterator[tuple[Storage, Answers]]:
    answers = Answers()
    storage = Storage(path, waiting_max, answers.take)
    try:
        yield storage, answers
    finally:
        answers.gate.set()
        storage.close()


def test_what_was_saved_is_there_after_reopening_and_what_was_removed_is_not(tmp_path: Path) -> None:
    with opened(tmp_path / "state.db") as (storage, answers):
        for order in (Save("a/1", b"one"), Save("a/2", b"two"), Save("b/1", b"three"), Save("a/2", None)):
            assert storage.ask(order)
            assert answers.next() == Saved(order.name)
    with opened(tmp_path / "state.db") as (storage, answers):
        storage.ask(Load("a/"))
        assert answers.next() == Loaded("a/", (("a/1", b"one"),))
        storage.ask(Load(""))
        assert answers.next() == Loaded("", (("a/1", b"one"), ("b/1", b"three")))


def test_nobody_else_reads_what_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.touch(0o644)
    with opened(path) as (storage, answers):
        storage.ask(Save("a/1", b"one"))
        answers.next()
        files = list(tmp_path.iterdir())
        assert len(files) > 1, "there is a write-ahead log"
        assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_a_file_of_the_earlier_version_is_renewed(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE entries (name TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID")
        database.execute("INSERT INTO entries VALUES ('a/1', x'01'), ('a/2', x'')")
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    with opened(path) as (storage, answers):
        storage.ask(Load(""))
        assert answers.next() == Loaded("", (("a/1", b"\x01"), ("a/2", b"")))
    assert check_store(path).is_whole


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("UPDATE entries SET data = x'00' WHERE name = 'a/1'", "'a/1' is not what was saved"),
        ("DELETE FROM entries WHERE name = 'a/2'", "'a/2' was saved and is not there"),
        ("DELETE FROM entries WHERE name = 'a/3'", "'a/3' was saved and is not there"),
    ],
)
def test_what_was_changed_behind_our_back_is_noticed_and_salvaged(tmp_path: Path, change: str, problem: str) -> None:
    path = tmp_path / "state.db"
    with opened(path) as (storage, answers):
        for name in ("a/1", "a/2", "a/3"):
            storage.ask(Save(name, name.encode() * 3000))
            answers.next()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(change)
    with pytest.raises(HostError, match=problem):
        Storage(path, 10, lambda answers, seconds: None)
    report = salvage_store(path)
    assert report.is_exact
    lost = [f"a/lost/{name.removeprefix('a/')}" for name in report.missing]
    with opened(path) as (storage, answers):
        storage.ask(Load(""))
        kept = [name for name in ("a/1", "a/2", "a/3") if name not in report.missing]
        assert [name for name, _ in answers.next().entries] == sorted([*kept, *lost])


def test_a_store_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "state.db")) as database, database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(HostError, match="a later version"):
        Storage(tmp_path / "state.db", 10, lambda answers, seconds: None)


def test_saves_that_wait_together_are_committed_together_and_a_load_sees_those_before_it(tmp_path: Path) -> None:
    with opened(tmp_path / "state.db") as (storage, answers):
        answers.gate.clear()
        storage.ask(Save("first", b""))
        assert answers.next() == Saved("first")
        for number in range(10):
            storage.ask(Save(f"{number}", b"x"))
        storage.ask(Load("5"))
        storage.ask(Save("last", b""))
        answers.gate.set()
        assert [answers.next() for _ in range(10)] == [Saved(f"{number}") for number in range(10)]
        assert answers.next() == Loaded("5", (("5", b"x"),))
        assert answers.next() == Saved("last")
        assert answers.batches == [1, 10, 1, 1]


def test_behind_a_save_that_failed_its_shelf_is_shut_until_that_was_heard_of(tmp_path: Path) -> None:
    with opened(tmp_path / "state.db") as (storage, answers):
        storage.database.setlimit(0, 1000)
        answers.gate.clear()
        storage.ask(Save("first", b""))
        answers.next()
        for name, size_bytes in (("p/1", 10), ("p/2", 5000), ("p/3", 10), ("q/1", 10)):
            storage.ask(Save(name, bytes(size_bytes)))
        answers.gate.set()
        one, two, three, other = (answers.next() for _ in range(4))
        assert (one, other) == (Saved("p/1"), Saved("q/1"))
        assert isinstance(two, Saved) and two.error and three == Saved("p/3", EARLIER_FAILED)
        storage.ask(Save("p/4", b""))
        assert answers.next() == Saved("p/4", EARLIER_FAILED)
        storage.reopen("p/2")
        storage.ask(Save("p/2", b""))
        assert answers.next() == Saved("p/2")


def test_one_bad_save_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    with opened(tmp_path / "state.db") as (storage, answers):
        storage.database.setlimit(0, 1000)
        answers.gate.clear()
        storage.ask(Save("first", b""))
        answers.next()
        for name, size_bytes in (("small", 10), ("huge", 5000), ("another", 10)):
            storage.ask(Save(name, bytes(size_bytes)))
        answers.gate.set()
        small, huge, another = (answers.next() for _ in range(3))
        assert (small, another) == (Saved("small"), Saved("another"))
        assert huge.error is not None and "too big" in huge.error
        storage.ask(Load(""))
        assert [name for name, _ in answers.next().entries] == ["another", "first", "small"]


def test_more_orders_than_the_bound_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path / "state.db", waiting_max=2) as (storage, answers):
        answers.gate.clear()
        storage.ask(Save("first", b""))
        answers.next()
        assert [storage.ask(Save("more", b"")) for _ in range(4)] == [True, True, False, False]


def test_closing_finishes_what_waits(tmp_path: Path) -> None:
    with opened(tmp_path / "state.db") as (storage, _):
        for number in range(1000):
            storage.ask(Save(f"{number:04}", b"x"))
    with opened(tmp_path / "state.db") as (storage, answers):
        storage.ask(Load(""))
        assert len(answers.next().entries) == 1000


def test_a_folder_that_does_not_exist_is_explained(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="No such file or directory; name a file of yours in a folder that exists"):
        Storage(tmp_path / "nowhere" / "state.db", 10, lambda answers, seconds: None)


names = st.text(st.sampled_from("ab%_*\u00e9\U0010ffff"), max_size=3)


@settings(max_examples=20)
@given(entries=st.dictionaries(names, st.binary(max_size=10), max_size=10), prefix=names)
def test_loading_by_prefix_is_what_a_dict_would_answer(
    tmp_path_factory: pytest.TempPathFactory, entries: dict[str, bytes], prefix: str
) -> None:
    path = tmp_path_factory.mktemp("storage") / "state.db"
    orders: list[Order] = [Save(name, data) for name, data in entries.items()]
    with opened(path) as (storage, answers):
        for order in (*orders, Load(prefix)):
            storage.ask(order)
        for _ in orders:
            answers.next()
        expected = sorted(
            ((name, data) for name, data in entries.items() if name.startswith(prefix)),
            key=lambda entry: entry[0].encode(),
        )
        assert answers.next() == Loaded(prefix, tuple(expected))
