"""Tiny networks say the same as when somebody last read their transcript."""

import pytest

from tests.transcripts.networks import FOLDER, NAMES, transcript


@pytest.mark.parametrize("name", NAMES)
def test_a_tiny_network_behaves_as_its_transcript_says(name: str) -> None:
    assert transcript(name).splitlines() == (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def test_every_transcript_belongs_to_a_network() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == sorted(NAMES)
