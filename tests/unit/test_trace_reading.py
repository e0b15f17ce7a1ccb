"""Files that are no traces: what is wrong is said with the name of the file."""

from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from tidings.trace.reader import read_trace
from tidings.trace.record import Record, TraceError
from tidings.trace.writers import open_writer

LINE = b'{"time":0.5,"node":"a","kind":"timer"}\n'


def problem_of(path: Path) -> str:
    with pytest.raises(TraceError) as caught:
        list(read_trace(path))
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"hello\n", "line 1 is no record: JSON is malformed"),
        (LINE + b"{}\n", "line 2 is no record: Object missing required field `time`"),
        (LINE + b'{"time":0.5,"node":"a","kind":"dance"}\n', "line 2 is no record: Invalid enum value 'dance'"),
        (LINE + b'{"time":0.5,"node":"\xff","kind":"timer"}\n', "line 2 is no record"),
        (LINE + LINE[:20], "line 2 is no record"),
        (b"x" * 3_000_000, "line 1 is no record"),
    ],
)
def test_lines_that_are_no_records_are_counted_to(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "t.jsonl").write_bytes(content)
    assert words in problem_of(tmp_path / "t.jsonl")


def test_a_partial_file_is_read_up_to_where_it_breaks_off(tmp_path: Path) -> None:
    (tmp_path / "t.partial.jsonl").write_bytes(LINE + LINE[:20])
    assert list(read_trace(tmp_path / "t.partial.jsonl")) == [Record(time=0.5, node="a", kind="timer")]


@pytest.mark.parametrize("content", [b"", b"hello", b"PAR1" + b"\0" * 100 + b"PAR1"])
def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.parquet").write_bytes(content)
    assert "this is no Parquet file" in problem_of(tmp_path / "t.parquet")


def test_a_parquet_file_of_something_else_is_refused(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"price": [1, 2]}), tmp_path / "t.parquet")
    assert "a Parquet file, but no trace of tidings" in problem_of(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("about", "words"),
    [('{"version":99}', "version 99 of the schema"), ('{"version":1}', "its columns are not those of a trace")],
)
def test_a_trace_of_another_version_or_shape_is_refused(tmp_path: Path, about: str, words: str) -> None:
    table = pyarrow.table({"price": [1, 2]}).replace_schema_metadata({"tidings.trace": about})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    assert words in problem_of(tmp_path / "t.parquet")


def test_a_damaged_parquet_file_is_told_to_be_damaged(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    with open_writer(path) as writer:
        for number in range(1000):
            writer.write(Record(time=number * 0.7, node=str(number), kind="note", detail=str(number**5)))
    content = bytearray(path.read_bytes())
    content[100:3000] = b"\xff" * 2900
    path.write_bytes(content)
    assert "it is damaged" in problem_of(path)


def test_a_file_that_does_not_exist_is_told(tmp_path: Path) -> None:
    assert "there is no such file" in problem_of(tmp_path / "t.parquet")


def test_an_unknown_ending_is_told(tmp_path: Path) -> None:
    assert "a trace ends in .parquet or .jsonl" in problem_of(tmp_path / "t.txt")
