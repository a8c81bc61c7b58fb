"""The tables of docs/reference/types.md for servers: the values are read from real ones."""

from __future__ import annotations

import pytest
from tools.types_page import LOCAL, SERVERS, section, table


@pytest.mark.parametrize("name", SERVERS)
def test_the_page_tells_what_becomes_of_values(name: str, request: pytest.FixtureRequest) -> None:
    kind, rows = SERVERS[name]
    assert section(name) == table(rows(request.getfixturevalue(kind)), request.getfixturevalue("postgres"))


@pytest.mark.parametrize("name", LOCAL)
def test_the_page_tells_what_a_server_holds_of_values_of_files(name: str, postgres: str) -> None:
    assert section(name) == table(LOCAL[name](), postgres)
