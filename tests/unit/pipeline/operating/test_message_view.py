"""A record of a pipeline's log as people see it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Mode, Record
from headwater.pipeline.message import Op
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import Failure, SinkState, State
from headwater.pipeline.operating.message_view import MessageView, text_of
from headwater.pipeline.operating.operations import PipelineOperations


@pytest.fixture
def log(stopped_shop: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(stopped_shop) as log:
        yield log


def test_a_message_that_is_unreadable_is_shown_as_text(log: EmbeddedLog) -> None:
    log.claim("pipeline-shop", 0, part=PART).append(
        [Record(b"orders", b'{"_id": ', headers=(("headwater.unreadable", b"line 17 is cut"),))]
    )
    (seen,) = PipelineOperations(log, "shop").messages(16).items
    assert seen.data == '{"_id": '


def test_a_corrected_message_is_shown_with_what_is_delivered(log: EmbeddedLog) -> None:
    shop = PipelineOperations(log, "shop")
    shop.edit(14, {"_id": 14}, why="typo")
    shop.edit(14, {"_id": 15}, sink="report", why="typo")
    (seen,) = shop.messages(14, 14).items
    assert seen.data == {"_id": 14, "price": "many"}
    assert [(copy.sink, copy.data) for copy in seen.copies] == [(None, {"_id": 14}), ("report", {"_id": 15})]
    assert seen.edited


def test_a_sink_that_stands_at_a_message_is_shown_with_it() -> None:
    state = State()
    state.apply("sink/a", SinkState(failure=Failure(offset=4, error="E", message="m", hint="h")))
    state.apply("sink/b", SinkState(failure=Failure(offset=4, error="E", message="m", start=2, end=6)))  # a batch, not a message
    view = MessageView(state)
    assert [(one.sink, one.hint) for one in view.see(Record(b"t", b"{}", offset=4)).refused] == [("a", "h")]
    assert view.see(Record(b"t", b"{}", offset=5)).refused == []


def test_ops_and_modes_are_words_and_unknown_ops_numbers() -> None:
    view = MessageView(State())
    seen = view.see(Record(b"t", b"{}", offset=1, mode=Mode.SYNC, op=Op.DELETE, timestamp=1))
    assert (seen.op, seen.mode, seen.timestamp) == ("delete", "sync", "1970-01-01T00:00:00.001Z")
    assert view.see(Record(b"t", b"{}", offset=1, op=7)).op == "7"
    assert view.see(Record(b"t", b"{}", offset=1, headers=(("unreadable", b"line 3"),))).unreadable == "line 3"


def test_a_document_is_shown_with_the_digits_that_were_read() -> None:
    seen = MessageView(State()).see(Record(b"t", b'{"price": 1.10}', offset=0))
    assert text_of(seen.data) == '{"price":1.10}'
    assert text_of("no document") == "no document"
