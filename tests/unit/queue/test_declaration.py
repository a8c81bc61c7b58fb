"""Declarations: XML and TOML say the same, whatever is wrong is told, and data are checked."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headwater.core.errors import BadInput
from headwater.queue.declaration import DeclaredColumn, read_declaration

XML = """<?xml version="1.0"?>
<!-- pages that are to be rebuilt -->
<table name="pages" model="queue">
  <settings lease="60s" max_timeouts="3"/>
  <column name="url" type="text" required="true"/>
  <column name="depth" type="int"/>
  <column name="price" type="decimal" required="false"/>
</table>
"""
TOML = """name = "pages"
model = "queue"
[settings]
lease = "60s"
max_timeouts = 3
[[column]]
name = "url"
type = "text"
required = true
[[column]]
name = "depth"
type = "int"
[[column]]
name = "price"
type = "decimal"
"""


@pytest.mark.parametrize("text", [XML, TOML, "\ufeff" + XML.removeprefix('<?xml version="1.0"?>\n')])
def test_both_forms_declare_the_same(text: str) -> None:
    found = read_declaration(text, "pages")
    assert found.columns == (DeclaredColumn("url", "text", True), DeclaredColumn("depth", "int"), DeclaredColumn("price", "decimal"))
    assert (found.name, {name: str(value) for name, value in found.settings.items()}) == ("pages", {"lease": "60s", "max_timeouts": "3"})
    assert found.text == text


def test_an_empty_one_declares_nothing() -> None:
    read_declaration(" \n").check(b"\xff", binary=True)
    read_declaration("<table/>").check(b"anything")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (7, "is a text"),
        ("<table", "no XML"),
        ("<table><column name='a' type='int'></table>", "no XML"),
        ("<queue/>", "not a <table>"),
        ("<table model='tree'/>", "model 'tree'"),
        ("<table name='mail'/>", "of a table 'mail'"),
        ("<table colour='red'/>", "'colour'"),
        ("<table><row/></table>", "<row> has no place"),
        ("<table>text</table>", "'text' has no place"),
        ("<table><settings/>tail</table>", "'tail' has no place"),
        ("<table><settings lease='60s'/><settings lease='60s'/></table>", "twice"),
        ("<table><column name='a' type='int'><deep/></column></table>", "has elements"),
        ("<table><column type='int'/></table>", "Column 1 has no name"),
        ("<table><column name='a'/></table>", "has no type"),
        ("<table><column name='a' type='varchar'/></table>", "the type 'varchar'"),
        ("<table><column name='a' type='int' required='perhaps'/></table>", "neither yes nor no"),
        ("<table><column name='a' type='int' size='3'/></table>", "'size'"),
        ("<table><column name='a' type='int'/><column name='a' type='text'/></table>", "declared twice"),
        ("<table><settings colour='red'/></table>", "'colour' is no setting"),
        ("<table><settings lease='60'/></table>", "no unit"),
        ("<table><settings max_timeouts='-1'/></table>", "max_timeouts"),
        ("<table><settings region='7'/></table>", "where a queue lies"),
        ("<!DOCTYPE table [<!ENTITY a 'aaaa'>]><table name='&a;'/>", "no document type"),
        ("<!DOCTYPE t SYSTEM 'file:///etc/passwd'><table/>", "no document type"),
        ("<table name='&unknown;'/>", "no XML"),
        ("name = ", "neither XML nor TOML"),
        ("name = 7", "no name"),
        ("colour = 'red'", "'colour'"),
        ("settings = 7", "`settings` is a table"),
        ("column = 7", "`column` is a list"),
        ("[[column]]\nname = 'a'\ntype = 7", "the type 7"),
        ("[[column]]\nname = 'a'\ntype = 'int'\nrequired = 1", "neither yes nor no"),
        ("[settings]\nlease = 60", "no unit"),
        ("x" * (300 << 10), "too large"),
    ],
)
def test_what_is_wrong_is_told(text: Any, why: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_declaration(text, "pages")
    assert why in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(
    "data",
    [
        {"url": "/a"},
        {"url": "/a", "depth": 3, "price": 1.5},
        {"url": "", "depth": None, "price": "12.50"},
    ],
)
def test_data_as_declared_are_taken(data: Any) -> None:
    read_declaration(XML).check(msgspec.json.encode(data))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"depth": 3}', "'url' is missing"),
        (b'{"url": null}', "'url' is missing"),
        (b'{"url": 7}', "'url' cannot be 7"),
        (b'{"url": "/a", "depth": "3"}', "'depth' cannot be"),
        (b'{"url": "/a", "depth": 3.0}', "'depth' cannot be"),
        (b'{"url": "/a", "depth": true}', "'depth' cannot be true"),
        (b'{"url": "/a", "deep": 3}', "'deep' is no column"),
        (b'{"url": "/a", "price": "dear"}', "'price' cannot be"),
        (b"[]", "a list"),
        (b"null", "no object"),
        (b"7", "no object"),
        (b"{", "no JSON"),
    ],
)
def test_data_that_are_not_as_declared_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_declaration(XML).check(data)
    assert why in refused.value.message
    assert refused.value.hint


def test_bytes_have_no_columns() -> None:
    with pytest.raises(BadInput, match="are bytes"):
        read_declaration(XML).check(b"{}", binary=True)
