from __future__ import annotations

import pytest

from headwater.server.call import Call


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
