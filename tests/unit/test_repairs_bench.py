"""The benchmark of repairs runs, and says what it measured."""

import pytest

pytest.importorskip("structlog", reason="a host logs with structlog")

from bench import repairs


def test_it_replaces_links_of_brokers_on_sockets_and_shows_a_line_for_each_repair(
    capsys: pytest.CaptureFixture[str],
) -> None:
    small = ["--brokers", "5", "--subscriptions", "20", "--filters", "10", "--links", "1"]
    assert repairs.main([*small, "--repair", "strawman", "--repair", "path"]) == 0
    head, titles, strawman, path = capsys.readouterr().out.splitlines()
    assert head == "5 brokers, 20 subscriptions, 10 filters" and titles.split()[0] == "repair"
    assert strawman.split()[0] == "strawman" and strawman.split()[2] == "1.0"
    assert path.split()[0] == "path" and float(path.split()[1].replace(",", "")) > 0


def test_links_may_be_those_that_have_several_brokers_on_either_side(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--brokers", "8", "--subscriptions", "16", "--filters", "8", "--links", "2", "--least", "2"]
    assert repairs.main([*small, "--repair", "path"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[0] == "path"


def test_one_link_may_have_many_filters(capsys: pytest.CaptureFixture[str]) -> None:
    assert repairs.main(["--large", "--subscriptions", "50", "--repair", "strawman"]) == 0
    _, line = capsys.readouterr().out.splitlines()
    # b, below a, is below d: told by d, c and b, and taken back by a and c.
    assert line.split()[:3] == ["strawman", "250", "messages,"]
