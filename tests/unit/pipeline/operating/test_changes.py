"""What operators change: each change is made, audited, and with dry_run only told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.core.errors import BadBounds, BadInput, Conflict, NotFound, UnknownSink
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Mode, Record
from headwater.pipeline.message import Op
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import Entry, Failure, RunInfo, SinkState
from headwater.pipeline.operating.changes import left_out
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.testing.clock import ManualClock


@pytest.fixture
def log(stopped_shop: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(stopped_shop) as log:
        yield log


def test_a_correction_says_who_stands_there_who_has_put_it_aside_and_who_has_taken_it(log: EmbeddedLog) -> None:
    shop = PipelineOperations(log, "shop")
    made = shop.edit(14, set={"price": 1}, why="typo", dry_run=True)
    assert (made.standing, made.dead, made.taken) == (["report"], [], ["archive"])
    assert shop.edit(14, set={"price": 1}, sink="report", why="typo", dry_run=True).taken == []
    made = shop.edit(5, set={"price": 1}, why="typo")
    assert (made.standing, made.dead, made.taken) == ([], ["archive"], ["report"])


def test_the_mark_behind_a_copy_cannot_be_corrected(log: EmbeddedLog) -> None:
    log.claim("pipeline-shop", 0, part=PART).append([Record(b"orders", b"{}", mode=Mode.COMPLETE, op=Op.NOOP)])
    with pytest.raises(BadInput, match="never delivered"):
        PipelineOperations(log, "shop").edit(16, {"_id": 1}, why="x")
    assert PipelineOperations(log, "shop").status().edits == 0


def test_a_place_that_holds_no_fields_is_told_with_where_to_look(log: EmbeddedLog) -> None:
    with pytest.raises(BadInput, match=r"Nothing can be put at price\.x") as caught:
        PipelineOperations(log, "shop").edit(14, set={"price.x": 1}, why="x")
    assert "headwater pipeline xlog shop show 14" in caught.value.hint


def test_a_run_that_gives_no_sign_of_life_is_told_and_can_be_asked_to_stop(log: EmbeddedLog) -> None:
    clock = ManualClock()
    shop = PipelineOperations(log, "shop", clock=clock)
    run = RunInfo(epoch=1, id="r", began=clock.now_ms(), process="elsewhere:1")
    shop.control.change(lambda state: [("run", run), ("sink/report", SinkState(position=13))])
    assert (shop.status().state, shop.status().seen) == ("running", "2023-11-14T22:13:20.000Z")
    assert [one.state for one in shop.offsets()] == ["idle", "running"]
    assert shop.stop(dry_run=True).silent_since is None
    clock.advance(61)
    assert (shop.status().state, shop.status().seen) == ("silent", "2023-11-14T22:13:20.000Z")
    assert [one.state for one in shop.offsets()] == ["idle", "idle"]
    assert shop.stop(why="lost").silent_since == "2023-11-14T22:13:20.000Z"
    kept = shop.state().run
    assert kept is not None
    assert kept.stopping  # should it come back
    shop.control.change(lambda state: [("run", RunInfo(epoch=2, id="s", began=1, state="done"))])
    assert shop.status().seen is None


def test_compacting_is_in_the_audit(log: EmbeddedLog) -> None:
    shop = PipelineOperations(log, "shop", who="ann")
    shop.compact(dry_run=True)
    assert shop.audit() == []
    shop.compact()
    assert [(entry.who, entry.what, entry.details) for entry in shop.audit()] == [("ann", "compact", {"before": 5, "records": 0})]


def test_the_audit_keeps_what_a_correction_replaced_and_what_it_wrote(log: EmbeddedLog) -> None:
    shop = PipelineOperations(log, "shop")
    shop.edit(14, set={"price": 1.10}, why="typo")
    shop.edit(14, {"_id": 14, "note": "x" * 5000}, sink="report", why="longer")
    shop.undo(14, sink="report", why="wrong")
    kept = [(entry.what, entry.details.get("old"), entry.details.get("new")) for entry in shop.audit()]
    long = '{"_id":14,"note":"' + "x" * 2030 + "... (5,020 characters)"
    assert kept == [
        ("edit", '{"_id":14,"price":"many"}', '{"_id":14,"price":1.1}'),
        ("edit", '{"_id":14,"price":1.1}', long),
        ("undo", long, None),
    ]


def test_a_mark_moves_the_position_either_way_and_what_was_under_way_does_not_count(log: EmbeddedLog) -> None:
    shop = PipelineOperations(log, "shop", who="ann")
    before = shop.sink("archive").generation
    assert shop.mark("archive", 3, why="again", dry_run=True).position == 3
    assert shop.sink("archive").position == 15
    made = shop.mark("archive", 3, why="again")
    assert (made.before, made.position) == (15, 3)
    assert shop.sink("archive").generation == before + 1
    assert shop.offset("archive").namespaces == {"orders": 3}
    shop.mark("archive", -1, why="all of it")
    assert shop.offset("archive").namespaces == {}
    for position in (-2, 16):
        with pytest.raises(BadBounds):
            shop.mark("archive", position, why="x")
    with pytest.raises(BadInput):
        shop.mark("archive", 3, why=" ")
    assert [(one.what, one.details["offset"], one.details["before"]) for one in shop.audit()] == [("mark", 3, 15), ("mark", -1, 3)]


def test_a_mark_does_not_hide_that_a_live_run_has_given_the_sink_up(log: EmbeddedLog) -> None:
    """No loop of that run delivers to it: called running, a sink chained to it would wait for ever, and so would people."""
    clock = ManualClock()
    shop = PipelineOperations(log, "shop", clock=clock)
    gone = Failure(offset=16, error="differs", message="It lacks a table.", of_message=False)
    for life, stays in (("done", False), ("running", True)):
        run = RunInfo(epoch=99, id="r", began=clock.now_ms(), beat=clock.now_ms(), process="elsewhere:1", state=life)
        shop.control.change(lambda state, run=run: [("run", run), ("sink/archive", SinkState(position=15, failure=gone))])
        shop.mark("archive", 3, why="again")
        assert shop.sink("archive").stopped == stays
    assert shop.sink("archive").revived().single_until == 4  # the next run tries again, and sends no more than one message by itself


def test_an_ack_counts_the_message_and_lifts_the_failure_that_stands_there(log: EmbeddedLog) -> None:
    shop = PipelineOperations(log, "shop")
    assert shop.ack("report", 15, why="gone").position == 13  # beyond a gap
    assert shop.sink("report").stopped
    assert shop.ack("report", 14, why="gone").position == 15
    assert shop.sink("report").failure is None
    with pytest.raises(Conflict, match="has taken message 14 already"):
        shop.ack("report", 14, why="gone")


def test_an_edit_gives_the_whole_document_or_fields_and_not_both(log: EmbeddedLog) -> None:
    shop = PipelineOperations(log, "shop")
    for wrong in ({}, {"data": {"_id": 1}, "set": {"a": 1}}):
        with pytest.raises(BadInput, match="What is to be corrected"):
            shop.edit(14, why="x", **wrong)  # type: ignore[arg-type]
    assert shop.edit(14, set={"price": 2}, unset=["_id"], why="typo").data == {"price": 2}
    report = shop.sink("report")
    assert (report.failure, report.single_until) == (None, 14)  # it tries again, one at a time
    with pytest.raises(NotFound, match="has no corrected copy for report"):
        shop.undo(14, sink="report", why="x")
    assert shop.undo(14, why="x").undone
    assert shop.state().edits == {}


def test_a_sink_is_forgotten_with_all_that_it_has_put_aside(log: EmbeddedLog) -> None:
    shop = PipelineOperations(log, "shop")
    shop.control.change(lambda state: [("run", RunInfo(epoch=1, id="r", began=1, state="stopped", sinks=("report",)))])
    assert not shop.delete("archive", why="gone", dry_run=True).deleted
    shop.delete("archive", why="gone")
    assert list(shop.state().sinks) == ["report"]
    assert (shop.state().dead, "archive" in shop.state().taken) == ({}, False)
    with pytest.raises(UnknownSink):
        shop.delete("archive", why="gone")


@pytest.mark.parametrize("how", ["done", "stopped", "failed"])
def test_a_sink_that_the_last_run_has_is_not_forgotten(log: EmbeddedLog, how: Any) -> None:
    """The next run would deliver everything again, and double a single file."""
    shop = PipelineOperations(log, "shop")
    shop.control.change(lambda state: [("run", RunInfo(epoch=1, id="r", began=1, state=how, sinks=("archive", "report")))])
    for dry_run in (True, False):
        with pytest.raises(Conflict, match="last run of shop has the sink archive") as error:
            shop.delete("archive", why="gone", dry_run=dry_run)
    assert "`headwater pipeline offset shop mark archive -1 --why ...`" in error.value.hint
    shop.control.change(lambda state: [("run", RunInfo(epoch=2, id="s", began=2, state=how, sinks=("report",)))])
    assert shop.delete("archive", why="gone").deleted


def test_what_was_put_aside_is_dropped_or_stays_with_the_newest_error(log: EmbeddedLog) -> None:
    shop = PipelineOperations(log, "shop")
    shop.retried(shop.dead_letter(5), Failure(offset=-1, error="New", message="again"))
    kept = shop.dead_letter(5)
    assert (kept.error, kept.offset, kept.tries) == ("New", 5, 4)
    assert shop.drop(5, why="no use").done == "let go"
    assert shop.state().dead == {}


def test_a_sink_that_stands_tries_again_when_a_correction_is_made_or_taken_back(log: EmbeddedLog) -> None:
    shop = PipelineOperations(log, "shop")
    for change in (lambda: shop.edit(14, {"_id": 14}, why="x"), lambda: shop.undo(14, why="x")):
        stands = SinkState(position=13, failure=Failure(offset=14, error="E", message="no"))
        shop.control.change(lambda state, stands=stands: [("sink/report", stands)])
        assert shop.sink("report").stopped
        change()
        assert not shop.sink("report").stopped


def test_a_mark_before_what_was_put_aside_takes_it_back(log: EmbeddedLog) -> None:
    """It comes to the sink again: sent from there, too, a file would have it twice, and `verify` would not expect it."""
    shop = PipelineOperations(log, "shop")
    shop.mark("archive", 5, why="behind it")
    shop.mark("report", -1, why="another sink")
    assert [(one.sink, one.offset) for one in shop.dead()] == [("archive", 5)]
    shop.mark("archive", 4, why="before it", dry_run=True)
    assert len(shop.dead()) == 1
    shop.mark("archive", 4, why="before it")
    assert shop.dead() == []


def test_numbers_of_a_correction_are_decimals_and_floats_where_floats_were(log: EmbeddedLog) -> None:
    """What comes as JSON, by hand or over HTTP, may have been read as a float by the way."""
    log.claim("pipeline-shop", 0, part=PART).append([Record(b"orders", b'{"_id":16,"f":{"$numberDouble":"1.0"},"d":1.20}')])
    shop = PipelineOperations(log, "shop")
    made = shop.edit(16, set={"f": 2.5, "d": 2.5, "new": 0.5, "said": {"$numberDouble": "0.5"}}, why="x")
    assert repr(made.data) == "{'_id': 16, 'f': 2.5, 'd': Decimal('2.5'), 'new': Decimal('0.5'), 'said': 0.5}"
    assert repr(PipelineOperations(log, "shop").state().edit_for(16, "report").data) == repr(made.data)  # type: ignore[union-attr]
    whole = shop.edit(16, {"_id": 16, "f": 3, "d": 3}, why="x", dry_run=True)
    assert repr(whole.data) == "{'_id': 16, 'f': 3.0, 'd': 3}"


def test_a_float_that_is_no_number_is_shown_as_what_it_is(log: EmbeddedLog) -> None:
    log.claim("pipeline-shop", 0, part=PART).append(
        [Record(b"orders", b'{"_id":16,"f":{"$numberDouble":"NaN"},"g":{"$numberDouble":"1.0"}}')]
    )
    [seen] = PipelineOperations(log, "shop").messages(16, 16).items
    assert repr(seen.data) == "{'_id': 16, 'f': {'$numberDouble': 'NaN'}, 'g': 1.0}"


def did(what: str, **details: Any) -> Entry:
    return Entry(at=0, who="w", what=what, details={"sink": "s", **details})


@pytest.mark.parametrize(
    ("audit", "spans"),
    [
        ([], []),
        ([did("ack", offset=3), did("ack", offset=5), did("drop", offset=4)], [(3, 6)]),
        ([did("mark", offset=9, before=4)], [(5, 10)]),
        ([did("mark", offset=9, before=4), did("mark", offset=6, before=9)], [(5, 7)]),
        ([did("ack", offset=3), did("mark", offset=-1, before=9)], []),
        ([did("mark", offset=9, before=4), did("replay", first=6, last=7, written=2)], [(5, 6), (8, 10)]),
        ([did("mark", offset=9, before=4), did("replay", first=5, last=9, written=2, refused=7)], [(7, 10)]),
        ([did("ack", offset=3), did("delete", before=4)], []),
        ([did("ack", offset=3), did("step", offset=4, count=1), did("edit", offset=3)], [(3, 4)]),
        ([Entry(at=0, who="w", what="ack", details={"sink": "other", "offset": 3})], []),
    ],
)
def test_what_an_operator_has_kept_from_a_sink(audit: list[Entry], spans: list[tuple[int, int]]) -> None:
    assert left_out(audit, "s") == spans
