"""The table of a forecast, as a broker reads it."""

from pathlib import Path

import pytest

from tidings.model.errors import UsageError
from tidings.net.broker.forecast import ForecastFile

HEADER = "advertisement,interval,rate,naive,forecast\n"


def test_each_interval_is_told_once_when_it_has_begun_and_again_when_the_file_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "rates.csv"
    path.write_text(HEADER + "p/1@b,10,1.0,1.0,2.5\nq,10,1.0,1.0,0\np/1@b,11,1.0,1.0,7\n")
    file = ForecastFile(path, 30.0)
    assert file.has_changed() and not file.has_changed()
    file.read()
    assert file.due(299.0) == (), "there is no row for interval 9"
    assert file.due(300.0) == (("p/1@b", 2.5), ("q", 0.0)) and file.due(329.9) is None
    assert file.due(330.0) == (("p/1@b", 7.0),)
    file.read()
    assert file.due(331.0) == (("p/1@b", 7.0),), "read again"


def test_a_folder_of_parts_is_one_table(tmp_path: Path) -> None:
    for part in range(2):
        (tmp_path / f"part-{part}.csv").write_text(HEADER + f"p{part},1,0,0,{part}.5\n")
    (tmp_path / "_SUCCESS").touch()
    file = ForecastFile(tmp_path, 1.0)
    file.read()
    assert file.due(1.0) == (("p0", 0.5), ("p1", 1.5))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("topic,rate\na,1\n", "needs columns advertisement, interval, forecast"),
        (HEADER + "a,1,0,0,nan\n", "nan is no rate"),
        (HEADER + "a,one,0,0,1\n", "row 1"),
        (HEADER + "a,1\n", "row 1"),
    ],
)
def test_what_is_no_such_table_is_refused_and_what_was_read_holds(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "rates.csv"
    path.write_text(HEADER + "a,1,0,0,1\n")
    file = ForecastFile(path, 1.0)
    file.read()
    path.write_text(text)
    with pytest.raises(UsageError, match=says):
        file.read()
    assert file.due(1.0) == (("a", 1.0),)


def test_a_file_that_is_not_there_is_told_once(tmp_path: Path) -> None:
    file = ForecastFile(tmp_path / "none.csv", 1.0)
    assert file.has_changed() and not file.has_changed()
    with pytest.raises(UsageError, match="check the name"):
        file.read()
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="without files"):
        ForecastFile(tmp_path / "empty", 1.0).read()
