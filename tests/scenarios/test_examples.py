"""Every script in examples/ runs, and prints what a reader of it expects; so does the code of the client's guide."""

import re
import runpy
import sys
from pathlib import Path

import pytest

EXPECTED = {
    "plan_change.py": ["mean latency 281 ms today, 98 ms in the goal", "step 1: shift(berlin, oslo, tokyo)"],
    "hello.py": ["installed by", "magnitude 5.1 somewhere", "magnitude 6.0 somewhere"],
    "continue_later.py": ["read 0\nread 1\nstopped\nread 2\nread 3\nread 4\n"],
    "publisher.py": [
        "1 broker",
        "skipped 0",
        "where it is wanted",
        "refused: publish: the event is not within",
        "[100, 200]",
    ],
    "slow_consumer.py": ["patient got 100 and missed 0", "hasty got 12 and missed 88", "88: the queue is full"],
    "without_asyncio.py": ["order 4", "finished [0, 1, 2, 3, 4]"],
}

CODE_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_example_is_run(root: Path) -> None:
    assert sorted(path.name for path in (root / "examples").glob("*.py")) == sorted(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_an_example_prints_what_it_promises(
    name: str, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(root / "examples" / name), run_name="__main__")
    printed = capsys.readouterr().out
    place = 0
    for text in EXPECTED[name]:
        place = printed.find(text, place)
        assert place >= 0, f"{text!r} is missing in: {printed}"


def test_the_code_of_the_guide_runs(root: Path) -> None:
    page = "docs/guide/client.md"
    blocks = CODE_BLOCK.findall((root / page).read_text())
    assert blocks
    exec(compile("\n".join(blocks), page, "exec"), {"__name__": page})
