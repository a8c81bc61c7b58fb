from __future__ import annotations

import pytest

from headwater.core.errors import BadInput
from headwater.server.call import Call
from headwater.server.route import Route
from headwater.wal.operations import DELETE

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("accept", "asked"),
    [
        ("text/event-stream", True),
        ("Text/Event-Stream; charset=utf-8", True),
        ("application/json, text/event-stream;q=0.5", True),
        ("text/event-stream;q=0", False),
        ("text/event-stream; Q=0.000, application/json", False),
        ("text/*", False),
        ("*/*", False),
        (",;,", False),
        ("", False),
    ],
)
def test_a_type_is_asked_for_by_its_name_and_not_refused(accept: str, asked: bool) -> None:
    async def receive() -> dict[str, object]:
        raise AssertionError

    call = Call({"headers": [(b"accept", accept.encode())]}, receive, {}, 1)
    assert call.accepts("text/event-stream") is asked


@pytest.mark.parametrize(
    ("body", "refused"), [(b"", False), (b" {} ", False), (b'{"dry_run": true}', True), (b"dry_run=true", True), (b"null", True)]
)
@pytest.mark.parametrize("header", [b"content-length", b"transfer-encoding"])
async def test_a_body_that_nobody_would_read_is_refused(body: bytes, refused: bool, header: bytes) -> None:
    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body}

    scope = {"method": "DELETE", "headers": [(header, b"%d" % len(body) if header == b"content-length" else b"chunked")]}
    call = Call(scope, receive, {"namespace": "wal", "region": "7"}, 1000)
    call.route, call.query = Route(DELETE, lambda call: pytest.fail("nobody calls it")), {"dry_run": False}
    if refused:
        with pytest.raises(BadInput, match=r"takes no body.*\?dry_run="):
            await call.request()
    else:
        assert (await call.request()).region == 7
