"""The table of operations on documents: what it says of roles, addresses and errors."""

from __future__ import annotations

import pytest

from headwater.documents.operations import CONTENT_GET, DOCUMENTS
from headwater.wire.operation import Role
from headwater.wire.request import shape_of


def test_reading_needs_a_reader_and_writing_a_writer() -> None:
    for operation in DOCUMENTS.operations:
        if operation.method == "GET":
            assert (operation.role, operation.changes) == (Role.READER, False), operation.id
        else:
            assert operation.role > Role.READER, operation.id


def test_every_address_of_the_older_system_is_there() -> None:
    addresses = {(one.method, one.path) for one in DOCUMENTS.operations}
    content = {("content", method) for method in ("GET", "PUT", "PATCH", "POST", "DELETE")}
    assert {(method, f"/hyper-storage/{name}/{{path}}") for name, method in content} <= addresses
    assert {("POST", "/hyper-storage/indexes/{path}"), ("DELETE", "/hyper-storage/indexes/{path}/{index}")} <= addresses
    assert ("GET", "/hyper-storage/transactions/{transaction}") in addresses


@pytest.mark.parametrize("operation", DOCUMENTS.operations, ids=lambda one: one.id)
def test_a_path_of_a_document_takes_several_segments(operation: object) -> None:
    path = shape_of(operation).path.get("path")  # type: ignore[arg-type]
    assert path is None or path.segments in ("rest", "collection")


def test_the_older_paging_is_a_filter() -> None:
    assert shape_of(CONTENT_GET).read_query(b'size=50&id>"abc"')["filter"] == 'id>"abc"'
