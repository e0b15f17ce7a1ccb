"""`tidings feeds` as a person runs it: a peer in a process of its own, and commands that ask it."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.worlds.origins import origin

TIDINGS = (sys.executable, "-m", "tidings", "feeds")


def started(*arguments: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    process = subprocess.Popen([*TIDINGS, *arguments, "--json"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    told: dict[str, Any] = json.loads(process.stdout.readline())
    return process, told


def asked(door: str, *arguments: str) -> tuple[int, Any]:
    words = [*TIDINGS, *arguments, "--json", *(["--http", door] if door else [])]
    done = subprocess.run(words, capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def test_a_peer_is_run_asked_changed_and_stopped(tmp_path: Path) -> None:
    with origin() as server:
        server.publish("1", "first")
        opml = tmp_path / "mine.opml"
        opml.write_text(f"<opml><outline text='A & B' xmlUrl='{server.feed}'><outline")
        ways = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--allow-private", "--data", str(tmp_path / "data"))
        process, told = started("run", "--opml", str(opml), *ways)
        try:
            assert told["new"] == told["feeds"] == 1
            door = told["http"].removeprefix("http://")
            items = 0
            while not items:
                code, feeds = asked(door, "list")
                items = feeds[0]["items"]
            assert code == 0 and feeds[0]["feed"] == server.feed and feeds[0]["state"].startswith("polled here")
            assert asked(door, "add", "https://b.example/feed") == (0, {"added": True})
            assert asked(door, "remove", "https://b.example/feed") == (0, {"removed": True})
            assert asked(door, "remove", "https://b.example/feed") == (1, {"removed": False})
            code, status = asked(door, "status")
            assert (status["feeds"], status["adopted"], status["items"]) == (1, 1, 1)
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0
            assert process.stdout is not None
            process.stdout.close()
        assert (tmp_path / "data" / "feeds.db").exists()


def test_a_command_without_a_peer_says_what_to_do() -> None:
    code, problem = asked("127.0.0.1:1", "list")
    assert code != 0 and "tidings feeds run" in problem


def test_an_opml_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.opml").write_text("nothing")
    code, problem = asked("", "run", "--opml", str(tmp_path / "x.opml"))
    assert code == 2 and "xmlUrl" in problem
