"""What the documents claim: their examples run, their tables agree with the code."""

import re
from pathlib import Path

import pytest

from tidings.model import bounds

ROOT = Path(__file__).parents[2]
CODE_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANY_BLOCK = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`([\w-]+(?:/[\w-]+)*\.py)`")
FOLDERS = ("src", "tests", "bench", "tools", "examples")
STAND_INS = ("eN.py", "NAME.py", "mine.py")
"""Files that the reader is to think of."""

PAGES = (
    *("README.md", "docs/guide/getting-started.md", "docs/guide/tutorial.md", "docs/guide/running-a-node.md"),
    *("docs/guide/security.md", "docs/concepts/filters.md", "docs/concepts/matching.md", "docs/concepts/overlay.md"),
    "docs/concepts/workloads.md",
)


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page: str) -> None:
    blocks = CODE_BLOCK.findall((ROOT / page).read_text())
    assert blocks
    exec(compile("\n".join(blocks), page, "exec"), {"__name__": page})


def test_the_readme_names_the_two_commands() -> None:
    commands = re.findall(r"^    (make \w+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert commands == ["make demo", "make test"]


@pytest.mark.parametrize(
    ("row", "value"),
    [
        ("attributes of an event", f"{bounds.ATTRIBUTES_MAX}"),
        ("attribute name", f"{bounds.ATTRIBUTE_NAME_CHARS_MAX} characters"),
        ("string value", f"{bounds.STRING_BYTES_MAX // 1024} KiB of UTF-8"),
        ("payload", f"{bounds.PAYLOAD_BYTES_MAX // 2**20} MiB"),
        ("text read as a number", f"{bounds.NUMBER_TEXT_CHARS_MAX} characters"),
        ("filter text", f"{bounds.FILTER_TEXT_BYTES_MAX // 1024} KiB"),
        ("words and signs of a filter text", f"{bounds.FILTER_TOKENS_MAX:,}"),
        ("nesting of an expression", f"{bounds.EXPRESSION_DEPTH_MAX}"),
        ("constraints of a normal form", f"{bounds.CONSTRAINTS_MAX}, "),
        ("states when two patterns are compared", f"{bounds.AUTOMATON_STATES_MAX:,}, "),
    ],
)
def test_the_bounds_in_the_security_page_are_those_of_the_code(row: str, value: str) -> None:
    lines = (ROOT / "SECURITY.md").read_text().splitlines()
    assert [line for line in lines if line.startswith(f"| {row} | {value}")]


def test_files_that_documents_and_modules_name_are_there() -> None:
    """In a document by the end of its path; in a module it is found from the module's folder, or from one above it."""
    files = [f"/{path.relative_to(ROOT)}" for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    pages = [page for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")) if page.name != "CHANGELOG.md"]
    dead = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in pages
        for name in FILE.findall(page.read_text())
        if not any(file.endswith(f"/{name}") for file in files) and name not in STAND_INS
    ]
    for module in (ROOT / "src").rglob("*.py"):
        for name in FILE.findall(module.read_text()):
            above = [folder for folder in module.parents if folder.is_relative_to(ROOT)]
            is_there = any((folder / name).exists() for folder in above) or any(module.parent.rglob(name))
            if not is_there and name not in STAND_INS:
                dead.append(f"{module.relative_to(ROOT)}: {name}")
    assert dead == []


def test_links_between_documents_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", ANY_BLOCK.sub("", page.read_text()))
        if not target.startswith("http") and not (page.parent / target).exists()
    ]
    assert broken == []
