"""The table of operations on journals."""

from __future__ import annotations

from headwater.journal import requests
from headwater.journal.bodies import BulkLine, body_of
from headwater.journal.operations import APPEND, APPEND_MANY, JOURNAL, PURGE
from headwater.wire.operation import Role


def test_addresses_are_those_of_the_surface() -> None:
    addresses = {f"{operation.method} {operation.path}" for operation in JOURNAL.operations}
    assert addresses >= {
        "GET /journals", "PUT /journals/{topic}", "GET /journals/{topic}", "POST /journals/{topic}", "GET /journals/{topic}/{id}",
        "DELETE /journals/{topic}/{id}", "GET /journals/{topic}/{id}/events", "POST /journals/{topic}/{id}/events",
        "DELETE /journals/{topic}/{id}/events", "POST /journals/{topic}/{id}/marks", "GET /journals/{topic}/{id}/trail",
    }  # fmt: skip
    assert (PURGE.role, APPEND.role) == (Role.OPERATOR, Role.WRITER)


def test_bodies_are_sent_as_they_are_read() -> None:
    assert APPEND.sends is not None
    assert APPEND_MANY.sends is not None
    request = requests.AppendEvents(topic="bank", id="a", body=body_of(["x"]))
    assert APPEND.sends(request) == ("application/json", b'{"events":[{"payload":"x"}]}')
    lines = [BulkLine(id="a", events=body_of([1]).events), BulkLine(id="b", events=body_of([2]).events)]
    sent = APPEND_MANY.sends(requests.AppendMany(topic="bank", lines=lines))
    assert sent == ("application/x-ndjson", b'{"id":"a","events":[{"payload":1}]}\n{"id":"b","events":[{"payload":2}]}\n')
