from __future__ import annotations

from headwater.queue.operations import CLAIM, GET, QUEUE
from headwater.queue.requests import ClaimRows, FindRow
from headwater.server.openapi import document
from headwater.wire.operation import Role
from headwater.wire.request import shape_of


def test_looking_changes_nothing_and_changes_need_more_than_a_reader() -> None:
    for one in QUEUE.operations:
        assert (one.role is Role.READER) == (not one.changes), one.id


def test_a_key_travels_as_one_part_of_the_address() -> None:
    assert shape_of(GET).write(FindRow(queue="q", key="page:/a b")).path == "/queues/q/rows/page%3A%2Fa%20b"


def test_the_wait_of_a_claim_may_be_a_header() -> None:
    read = shape_of(CLAIM).read({"queue": "q"}, shape_of(CLAIM).read_query(b""), {"prefer": "wait=20"})
    assert isinstance(read, ClaimRows)
    assert read.wait_ms == 20_000


def test_every_operation_is_described() -> None:
    schemas = document(QUEUE.operations, "1")["components"]["schemas"]
    assert set(schemas["DoneBody"]["properties"]) == {"result"}
    assert set(schemas["ShownResult"]["properties"]) == {"id", "done", "result", "expires"}
