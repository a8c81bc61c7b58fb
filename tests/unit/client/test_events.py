from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.client import events
from headwater.client.events import EventReader, ServerEvent
from headwater.core.errors import BadInput

SENT = b"retry: 1000\n\n: ping\n\ndata: a\n\nid: 3\r\ndata: b\r\ndata:c\r\n\r\nevent: reset\rdata: {}\r\rdata\n\ndata: \xc3\xa4\n\n"
MEANT = [
    ServerEvent("message", "a"),
    ServerEvent("message", "b\nc"),
    ServerEvent("reset", "{}"),
    ServerEvent("message", ""),
    ServerEvent("message", "ä"),
]


@given(st.lists(st.integers(0, len(SENT)), max_size=20))
def test_events_are_the_same_wherever_the_bytes_are_cut(cuts: list[int]) -> None:
    reader, found = EventReader(), list[ServerEvent]()
    edges = [0, *sorted(cuts), len(SENT)]
    for start, end in pairwise(edges):
        found += reader.feed(SENT[start:end])
    assert found == MEANT


def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_LARGEST", 1000)
    for piece in (b"x" * 400, b"data: " + b"x" * 300 + b"\n"):
        reader = EventReader()
        with pytest.raises(BadInput, match="larger"):
            for _ in range(10):
                reader.feed(piece)
    reader = EventReader()
    for _ in range(100):
        reader.feed(b"data: " + b"x" * 300 + b"\n\n")
    for _ in range(100):
        reader.feed(b": ping\n\n")
