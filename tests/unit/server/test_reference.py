"""The reference names everything that the server and the door offer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tools.blocking_stub import STUB, text
from tools.reference import REFERENCE, http_page, python_page

from headwater import parts
from headwater.server.own import OWN


@pytest.mark.parametrize(("page", "made"), [("http.md", http_page), ("python.md", python_page)])
def test_the_reference_says_what_the_tables_say(page: str, made: Callable[[str], str]) -> None:
    written = (REFERENCE / page).read_text("utf-8")
    assert made(written) == written, "write it anew with `python -m tools.reference`"


def test_every_operation_has_a_row() -> None:
    """Those that share an address with another, too."""
    page = (REFERENCE / "http.md").read_text("utf-8")
    rows = [row for row in page.splitlines() if row.startswith("| `")]
    for operation in [*OWN, *parts.operations()]:
        address = f"| `{operation.method} {operation.path}`"
        assert [row for row in rows if row.startswith(address) and f"| {operation.says}" in row], operation.id


def test_the_types_of_the_blocking_door_are_those_of_the_door() -> None:
    assert text() == STUB.read_text("utf-8"), "write them anew with `python -m tools.blocking_stub`"
