"""The vocabulary of notes is closed: what is written is read, what is read is written or waits for its protocol."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tidings.machine.effects import Note, note_name
from tidings.model.errors import UsageError
from tidings.pubsub import notes
from tidings.pubsub.notes import NOTES
from tidings.spark.metrics.tables import DELIVERED, REROUTING, fields_of, note_fields
from tidings.trace.things import of_effect

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/tidings"
VOCABULARY = SOURCE / "pubsub/notes.py"
METRICS = SOURCE / "spark/metrics"
PAGE = ROOT / "docs/reference/notes.md"

WAITING: dict[type[Note], str] = {
    notes.Misrouted: "dynamic topologies",
    notes.PlanMade: "planned change",
    notes.RoundTripMeasured: "feeds",
    notes.PathMeasured: "feeds",
    notes.CoverageCounted: "feeds",
    notes.NeighboursCounted: "feeds",
    notes.JobStarted: "collection",
    notes.BlockStored: "collection",
}
"""Kinds that metrics read already, and the family of protocols that is going to write them."""

FOR_PEOPLE: frozenset[type[Note]] = frozenset(
    {
        *(notes.VisitorTurnedAway, notes.VisitorAdmitted, notes.RightsChanged, notes.EntryRejected),
        notes.ClientLetGo,
        *(notes.RequestRefused, notes.HistoryUnreadable, notes.NamesakeFound, notes.RootElected),
        *(notes.NeighbourSilent, notes.NeighbourGone),
    }
)
"""Kinds that are not counted: whoever looks at a trace or an audit wants to see them."""


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def modules(*folders: Path) -> list[Path]:
    return [path for folder in folders for path in sorted(folder.rglob("*.py")) if path != VOCABULARY]


def imported(path: Path) -> set[type[Note]]:
    """Notes that a module knows."""
    found = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.ImportFrom)]
    names = {name.name for node in found if node.module == notes.__name__ for name in node.names}
    return {kind for kind in NOTES.values() if kind.__name__ in names}


def written(path: Path) -> set[type[Note]]:
    """Notes that a module makes."""
    calls = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)]
    made = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
    return {kind for kind in imported(path) if kind.__name__ in made}


def writers() -> set[type[Note]]:
    makers = [path for path in modules(SOURCE) if not path.is_relative_to(SOURCE / "spark")]
    return set().union(*map(written, makers))


def readers() -> set[type[Note]]:
    measuring = modules(METRICS, SOURCE / "lab", SOURCE / "diagnosis")
    return set().union(*(imported(path) - written(path) for path in measuring))


def test_all_notes_are_in_the_vocabulary() -> None:
    for path in modules(SOURCE):
        classes = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.ClassDef)]
        assert not [node.name for node in classes if "Note" in map(ast.unparse, node.bases)], path
    assert all(kind.__module__ == notes.__name__ for kind in NOTES.values())
    defined = {kind for kind in vars(notes).values() if isinstance(kind, type) and kind.__base__ is Note}
    assert set(NOTES.values()) == defined, "NOTES comes after the last of them"


def test_the_kinds_that_nobody_writes_are_those_whose_protocols_are_not_built() -> None:
    assert set(NOTES.values()) - writers() == set(WAITING)


def test_the_kinds_that_nobody_reads_are_those_for_people() -> None:
    assert set(NOTES.values()) - readers() == FOR_PEOPLE


def test_a_trace_calls_a_note_by_its_class_in_small_letters() -> None:
    assert note_name(notes.LossDetected) == "loss_detected"
    record = of_effect(1.0, "a", notes.Suppressed("s 7"))
    assert record is not None and (record.message, record.key) == ("suppressed", "s 7")


# What metrics read.


@pytest.mark.parametrize("path", modules(ROOT / "tests/spark/references"), ids=lambda path: path.stem)
def test_a_reference_reads_fields_that_its_notes_have(path: Path) -> None:
    known = {*DELIVERED, *REROUTING}
    for kind in imported(path):
        known |= note_fields(kind).keys()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FIELD_READERS:
            field = node.args[1]
            assert not isinstance(field, ast.Constant) or field.value in known, ast.unparse(node)


FIELD_READERS = ("whole", "real", "flag", "text", "wholes", "means_of")


def test_a_field_that_no_note_has_is_refused() -> None:
    assert fields_of(notes.Promised, DELIVERED, only="number since") == "`number` BIGINT, `since` DOUBLE"
    assert fields_of(notes.CacheSearched) == "`hit` BOOLEAN, `size` BIGINT"
    with pytest.raises(UsageError, match="no field numbr"):
        fields_of(notes.Promised, only="numbr")
    with pytest.raises(UsageError, match="two types"):
        fields_of(notes.Promised, {"number": "DOUBLE"})
    assert fields_of(notes.Twin, DELIVERED, only="subscription") == "`subscription` STRING", "digits are text too"


# The page that lists them.


def row(kind: type[Note]) -> str:
    about = " ".join((kind.__doc__ or "").split())
    fields = ", ".join(f"`{name}`" for name in kind.__struct_fields__)
    return f"| `{note_name(kind)}` | {fields} | {about} | {waits_for(kind)} |"


def waits_for(kind: type[Note]) -> str:
    return f"waits for {WAITING[kind]}" if kind in WAITING else "yes"


def test_the_page_lists_every_kind_as_it_is_defined() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert rows == [row(kind) for kind in NOTES.values()], "\n" + "\n".join(map(row, NOTES.values()))


def test_every_kind_says_when_it_is_written() -> None:
    for kind in NOTES.values():
        assert (kind.__doc__ or "").endswith("."), kind
