"""The licence check: which statements of a package it accepts."""

import pytest

from tools.licences import UNKNOWN, installed, is_allowed


@pytest.mark.parametrize(
    "licence",
    [
        "MIT",
        "Apache-2.0 WITH LLVM-exception",
        "LGPL-2.1-or-later OR MIT",
        "(LGPL-3.0-only OR MIT) AND BSD-3-Clause",
        "Mozilla Public License 2.0 (MPL 2.0)",
        "ISC License (ISCL)",
    ],
)
def test_permissive_licences_and_choices_are_allowed(licence: str) -> None:
    assert is_allowed(licence)


@pytest.mark.parametrize(
    "licence",
    [
        "GPL-3.0-only",
        "AGPLv3",
        "GNU Lesser General Public License v3 (LGPLv3)",
        "MIT AND GPL-2.0-or-later",
        "GPL-2.0-only AND (MIT OR BSD-2-Clause)",
        "MIT AND (GPL-2.0-only OR (AGPL-3.0-only OR LGPL-2.0-only))",
        UNKNOWN,
    ],
)
def test_copyleft_and_unstated_licences_are_refused(licence: str) -> None:
    assert not is_allowed(licence)


def test_the_packages_in_use_are_found() -> None:
    assert {"msgspec", "lark", "xxhash"} <= {package.name for package in installed()}
