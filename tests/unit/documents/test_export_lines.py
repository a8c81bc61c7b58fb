"""Lines of exports: what is read is what was written, and everything else is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headwater.core.errors import BadInput
from headwater.documents.export_lines import ExportedDefinition, ExportedTemplate, ExportedWrite, read_line
from headwater.documents.index_requests import HyperStorageIndexNew, HyperStorageIndexSortItem, ViewNew
from headwater.documents.requests import BatchLine
from headwater.wire import json

FIELDS = (HyperStorageIndexSortItem("`a,b`.c", "desc", "decimal"),)


@pytest.mark.parametrize(
    "line",
    [
        ExportedWrite(method="put", path="a", body=msgspec.Raw(b'{"n":1.10}'), expires="2026-01-31T12:00:00.000Z"),
        ExportedWrite(method="delete", path="c~/1", if_match='"3"'),
        ExportedDefinition(path="c~", index=HyperStorageIndexNew(index_id="i", sort_by=FIELDS, filter_by="n > 1", materialize=True)),
        ExportedDefinition(path="c~", schema={"required": ["n"]}),
        ExportedDefinition(path="c~", schema=None),
        ExportedDefinition(path="v~", view=ViewNew(template_uri="c~/{*}", filter="n > 1")),
        ExportedDefinition(template=ExportedTemplate(index_id="i", template_uri="*~", sort_by=FIELDS)),
    ],
)
def test_a_line_is_read_as_it_was_written(line: Any) -> None:
    assert read_line(json.encode(line)) == line


def test_a_line_of_a_batch_is_one() -> None:
    line = BatchLine(method="patch", path="a", body=msgspec.Raw(b"{}"), patch="increment", ttl="3s", idempotency_key="k")
    found = read_line(json.encode(line))
    assert isinstance(found, ExportedWrite)
    assert found.line(0) == line


def test_what_expires_lives_as_long_as_is_left() -> None:
    line = ExportedWrite(method="put", path="a", body=msgspec.Raw(b"1"), expires=10_000)
    left = line.line(7_500)
    assert left is not None
    assert (left.ttl, left.draft().ttl) == ("2500ms", 2500)
    assert line.line(10_000) is None


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"{}",
        b'{"method":"put"}',
        b'{"method":"put","path":"a","body":1,"more":1}',
        b'{"path":"c~"}',
        b'{"path":"c~","index":{}}',
        b'{"index":{"indexId":"i"}}',
        b'{"path":"c~","index":{"indexId":"i"},"schema":{}}',
        b'{"path":"c~","template":{"indexId":"i","templateUri":"*~"}}',
        b'{"template":{"templateUri":"*~"}}',
        b'{"path":"c~","view":{"filter":"a"}}',
    ],
)
def test_what_is_neither_a_write_nor_a_definition_is_refused(line: bytes) -> None:
    with pytest.raises(BadInput):
        read_line(line)
