"""Writers: complete files under their name or none at all, one run per trace, bounded memory."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from tidings.model.errors import UsageError
from tidings.trace.reader import read_trace
from tidings.trace.record import COLUMNS, Record, TraceError, arrow_schema
from tidings.trace.things import THING_WIDTH
from tidings.trace.writers import RingBuffer, open_writer

ENDINGS = ("parquet", "jsonl")
FULL = Path("/dev/full")


def notes(count: int) -> list[Record]:
    return [
        Record(time=float(number), node=f"n{number % 7}", kind="note", detail=str(number)) for number in range(count)
    ]


def write(path: Path, records: list[Record]) -> None:
    with open_writer(path, run="r", seed=7) as writer:
        for record in records:
            writer.write(record)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_has_its_name_only_when_it_is_complete(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t.{ending}"
    with open_writer(path) as writer:
        writer.write(notes(1)[0])
        assert not path.exists()
        assert [each.name for each in tmp_path.iterdir()] == [f"t.partial.{ending}"]
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_run_of_the_writer_is_in_every_row(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t.{ending}"
    write(path, notes(3))
    assert [(record.run, record.seed, record.detail) for record in read_trace(path)] == [
        ("r", 7, "0"),
        ("r", 7, "1"),
        ("r", 7, "2"),
    ]


@pytest.mark.parametrize("ending", ENDINGS)
def test_nobody_else_reads_a_trace(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t.{ending}"
    partial = tmp_path / f"t.partial.{ending}"
    partial.write_bytes(b"")
    partial.chmod(0o644)
    write(path, notes(3))
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_trace_without_records_is_a_trace(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t.{ending}"
    write(path, [])
    assert list(read_trace(path)) == []


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_trace_of_a_run_that_fails_is_finished(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t.{ending}"
    with pytest.raises(ZeroDivisionError), open_writer(path) as writer:
        writer.write(notes(1)[0])
        raise ZeroDivisionError
    assert list(read_trace(path)) == notes(1)


def test_a_writer_without_a_run_takes_that_of_its_first_record_and_keeps_it() -> None:
    ring = RingBuffer(5)
    ring.write(Record(run="r", seed=7, time=0.0, node="a", kind="start"))
    ring.write(Record(time=1.0, node="a", kind="stop"))
    assert [(record.run, record.seed) for record in ring.records()] == [("r", 7), ("r", 7)]
    with pytest.raises(UsageError, match="a trace holds one run"):
        ring.write(Record(run="other", seed=7, time=2.0, node="a", kind="stop"))


def test_the_parquet_file_names_its_columns_its_run_and_its_version(tmp_path: Path) -> None:
    write(tmp_path / "t.parquet", notes(3))
    file = pyarrow.parquet.ParquetFile(tmp_path / "t.parquet")
    assert file.schema_arrow.remove_metadata() == arrow_schema()
    assert tuple(file.schema_arrow.names) == COLUMNS
    assert file.metadata.metadata == {b"tidings.trace": b'{"version":1,"run":"r","seed":7}'}


def test_json_lines_are_one_object_a_line_without_what_is_empty(tmp_path: Path) -> None:
    write(tmp_path / "t.jsonl", [Record(time=0.5, node="a", kind="timer", key="round")])
    line = '{"run":"r","seed":7,"time":0.5,"node":"a","kind":"timer","key":"round"}\n'
    assert (tmp_path / "t.jsonl").read_text() == line


@pytest.mark.parametrize("ending", ENDINGS)
def test_rows_in_memory_are_bounded_and_row_groups_are_of_that_size(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t.{ending}"
    with open_writer(path) as writer:
        writer.rows_max, writer.things_full = 500, 100 * THING_WIDTH
        for record in notes(5000):
            writer.write(record)
            assert len(writer.things) < 100 * THING_WIDTH
            assert len(writer.rows) < 500
        assert writer.stored > 5000 - 500 - 100
    assert list(read_trace(path)) == notes(5000)
    if ending == "parquet":
        about = pyarrow.parquet.ParquetFile(path).metadata
        sizes = [about.row_group(number).num_rows for number in range(about.num_row_groups)]
        assert sizes == [500] * 10


@pytest.mark.parametrize("name", ["t.csv", "t", "parquet"])
def test_an_unknown_ending_is_refused_and_the_known_ones_are_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(TraceError, match=r"end its name in .parquet or .jsonl"):
        open_writer(tmp_path / name)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path, ending: str) -> None:
    with pytest.raises(TraceError, match=r"absent.*No such file or directory; name a file in a folder that exists"):
        open_writer(tmp_path / "absent" / f"t.{ending}")


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_folder_is_no_file(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"t.{ending}").mkdir()
    with pytest.raises(TraceError, match="it is a folder"):
        open_writer(tmp_path / f"t.{ending}")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("count", [1, 20_000])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_full_disk_is_told_and_leaves_nothing_but_the_older_trace(tmp_path: Path, ending: str, count: int) -> None:
    path = tmp_path / f"t.{ending}"
    write(path, notes(2))
    older = path.read_bytes()
    (tmp_path / f"t.partial.{ending}").symlink_to(FULL)
    with pytest.raises(TraceError, match="No space left on device; nothing of it is kept"):
        write(path, notes(count))
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == older


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("ending", ENDINGS)
def test_after_a_full_disk_the_writer_refuses_more(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"t.partial.{ending}").symlink_to(FULL)
    writer = open_writer(tmp_path / f"t.{ending}")
    writer.write(notes(1)[0])
    with pytest.raises(TraceError):
        writer.close()
    writer.close()
    with pytest.raises(UsageError, match="this trace is closed"):
        writer.write(notes(1)[0])


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_bound_on_the_size_of_files_is_told_like_a_full_disk(root: Path, tmp_path: Path, ending: str) -> None:
    program = (
        "import resource, sys\n"
        "from tidings.trace.record import Record\n"
        "from tidings.trace.writers import open_writer\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "with open_writer(sys.argv[1]) as writer:\n"
        "    writer.rows_max = 100\n"
        "    for number in range(20000):\n"
        "        writer.write(Record(time=number * 0.7, node=str(number * 7919), kind='note', detail=str(number**5)))\n"
    )
    done = run_program(root, program, tmp_path / f"t.{ending}")
    assert done.returncode == 1
    assert "TraceError: cannot write the trace" in done.stderr
    assert "File too large; nothing of it is kept" in done.stderr
    assert list(tmp_path.iterdir()) == []


def run_program(root: Path, program: str, path: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    return subprocess.run([sys.executable, "-c", program, str(path)], env=environment, capture_output=True, text=True)


def killed_while_writing(root: Path, path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from tidings.trace.record import Record\n"
        "from tidings.trace.writers import open_writer\n"
        "writer = open_writer(sys.argv[1])\n"
        "for number in range(20_000):\n"
        "    writer.write(Record(time=float(number), node=f'n{number % 7}', kind='note', detail=str(number)))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = run_program(root, program, path)
    assert done.returncode == -signal.SIGKILL


def test_after_a_crash_the_stored_lines_can_be_read_from_the_partial_file(root: Path, tmp_path: Path) -> None:
    killed_while_writing(root, tmp_path / "t.jsonl")
    assert [each.name for each in tmp_path.iterdir()] == ["t.partial.jsonl"]
    saved = list(read_trace(tmp_path / "t.partial.jsonl"))
    assert len(saved) >= 1024
    assert saved == notes(len(saved))


def test_after_a_crash_a_parquet_file_is_told_to_be_unfinished(root: Path, tmp_path: Path) -> None:
    killed_while_writing(root, tmp_path / "t.parquet")
    with pytest.raises(TraceError, match="its writer did not finish it"):
        list(read_trace(tmp_path / "t.partial.parquet"))


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(TraceError, match=r"pip install 'tidings\[fast\]', or use a .jsonl file"):
        open_writer(tmp_path / "t.parquet")


def test_a_ring_keeps_the_latest_records() -> None:
    ring = RingBuffer(3)
    for record in notes(500):
        ring.write(record)
    assert ring.records() == notes(500)[-3:]
    ring.write(notes(501)[-1])
    assert ring.records() == notes(501)[-3:]


def test_a_ring_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one record"):
        RingBuffer(0)


def test_a_seed_beyond_64_bits_is_refused() -> None:
    with pytest.raises(UsageError, match="does not fit into 64 bits"):
        RingBuffer(1, seed=2**63)
