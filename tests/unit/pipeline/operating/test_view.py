"""What can be seen of one pipeline. Looking creates nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.core.errors import BadBounds, BadInput, NotFound, UnknownPipeline, UnknownSink
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline.offsets.state import Dead, Failure, SinkState
from headwater.pipeline.operating import view
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.operating.view import PipelineView


@pytest.fixture
def log(stopped_shop: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(stopped_shop) as log:
        yield log


def pages(shop: PipelineOperations, **asked: object) -> list[list[int]]:
    found, first = [], None
    while True:
        page = shop.messages(first, **asked)  # type: ignore[arg-type]
        found.append([seen.offset for seen in page.items])
        if page.next is None:
            return found
        first = int(page.next)


def test_a_page_ends_at_its_limit_of_messages(log: EmbeddedLog) -> None:
    assert pages(PipelineOperations(log, "shop"), limit=7) == [list(range(7)), list(range(7, 14)), [14, 15]]
    assert pages(PipelineOperations(log, "shop"), limit=16) == [list(range(16))]


def test_a_page_ends_where_enough_bytes_are_together(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "_PAGE", 60)
    found = pages(PipelineOperations(log, "shop"), limit=100)
    assert [offset for page in found for offset in page] == list(range(16))
    assert max(map(len, found)) == 3


def test_a_page_is_given_after_so_many_messages_were_looked_at(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "_WINDOW", 2)
    monkeypatch.setattr(view, "_WINDOWS", 3)
    assert pages(PipelineOperations(log, "shop"), namespace="nothing") == [[], [], []]
    assert pages(PipelineOperations(log, "shop"), namespace="returns") == [[0, 2, 4], [6, 8, 10], [12]]


def test_a_pipeline_that_never_ran_is_unknown_and_nothing_is_created(log: EmbeddedLog) -> None:
    before = [one.name for one in log.topics()]
    with pytest.raises(UnknownPipeline, match="No pipeline named ghost"):
        PipelineView(log, "ghost")
    assert [one.name for one in log.topics()] == before


def test_every_sink_is_shown_where_it_is(log: EmbeddedLog) -> None:
    shop = PipelineView(log, "shop")
    archive, report = shop.offsets()
    assert (archive.position, archive.lag, archive.state, archive.error) == (15, 0, "idle", None)
    assert (report.position, report.lag, report.state) == (13, 2, "stopped")
    assert report.error is not None
    assert (report.error.offset, report.error.at) == (14, "2023-11-14T22:13:20.000Z")
    status = shop.status()
    assert (status.state, status.end, status.lag, status.phase, status.dead) == ("stopped at report", 16, 2, "complete", 1)
    assert shop.offset("archive").namespaces == {"orders": 15}
    with pytest.raises(UnknownSink, match="no sink nobody") as told:
        shop.offset("nobody")
    assert "archive, report" in told.value.hint


def test_a_batch_that_failed_goes_one_at_a_time(log: EmbeddedLog) -> None:
    shop = PipelineOperations(log, "shop")
    failed = SinkState(position=9, failure=Failure(offset=10, error="E", message="m", start=10, end=16))
    shop.control.change(lambda state: [("sink/report", failed)])
    assert [one.state for one in shop.offsets()] == ["idle", "one at a time"]
    assert shop.status().state == "stopped"


def test_an_offset_outside_of_the_log_is_told_with_what_it_holds(log: EmbeddedLog) -> None:
    shop = PipelineView(log, "shop")
    for offset in (-1, 16):
        with pytest.raises(BadBounds, match=f"Offset {offset} is not in the log, which holds 0 to 15"):
            shop.record(offset)
    with pytest.raises(BadBounds, match="the wrong way round"):
        shop.messages(9, 3)


def test_a_message_that_was_put_aside_is_found_by_its_offset(log: EmbeddedLog) -> None:
    shop = PipelineOperations(log, "shop")
    found = shop.dead_one(5)
    assert (found.sink, found.tries, found.at) == ("archive", 3, "2023-11-14T22:13:20.000Z")
    assert found.record is not None
    assert found.record.data["_id"] == 5
    with pytest.raises(NotFound, match="Message 6 is not put aside"):
        shop.dead_one(6)
    shop.control.change(lambda state: [("dead/report/5", Dead(sink="report", offset=5, error="E", message="m"))])
    with pytest.raises(BadInput, match="Several sinks have put message 5 aside: archive, report"):
        shop.dead_one(5)
    assert shop.dead_one(5, "report").error == "E"
    with pytest.raises(UnknownSink):
        shop.dead("nobody")
