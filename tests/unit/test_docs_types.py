"""docs/reference/types.md has what sources and sinks make of values. The tables of servers are compared in tests/services."""

from __future__ import annotations

import pytest
from tools.types_page import HEAD, LOCAL, PAGE, SERVERS, section, table


@pytest.mark.parametrize("name", LOCAL)
def test_the_page_tells_what_becomes_of_values(name: str) -> None:
    assert section(name, served=False) == table(LOCAL[name]())


def test_the_page_has_every_table_and_the_rule() -> None:
    text = PAGE.read_text("utf-8")
    assert text.startswith(HEAD)
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == [*LOCAL, *SERVERS]
