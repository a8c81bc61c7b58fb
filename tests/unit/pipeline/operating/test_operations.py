"""Everything that is asked of a pipeline: pages of messages, and what is asked of a pipeline whose run is not known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.core.errors import BadInput, Conflict, NotFound, UnknownPipeline
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Mode, Record
from headwater.pipeline.message import Op
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import RunInfo, SinkState
from headwater.pipeline.operating import answers, view
from headwater.pipeline.operating.operations import PipelineOperations, everything
from headwater.testing.clock import ManualClock


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


def test_a_log_without_messages_has_an_empty_page(log: EmbeddedLog) -> None:
    log.create_topic("pipeline-new-offsets", part=PART)
    log.create_topic("pipeline-new", part=PART)
    assert PipelineOperations(log, "new").messages() == answers.Messages(items=[], next=None, oldest=0, current=-1)
    assert [(one.pipeline, one.state) for one in everything(log, lambda name: PipelineOperations(log, name).status())] == [
        ("new", "new"),
        ("shop", "stopped at report"),
    ]


def test_a_pipeline_that_cannot_be_read_does_not_hide_the_others(log: EmbeddedLog) -> None:
    for topic in ("pipeline-bad", "pipeline-bad-offsets"):
        log.create_topic(topic, part=PART)
    log.claim("pipeline-bad-offsets", 0, part=PART).append([Record(b"run", b"{")])
    found = everything(log, lambda name: PipelineOperations(log, name).status())
    assert [(one.pipeline, one.state) for one in found] == [("bad", "damaged"), ("shop", "stopped at report")]


def test_a_message_that_is_unreadable_is_shown_as_text(log: EmbeddedLog) -> None:
    log.claim("pipeline-shop", 0, part=PART).append(
        [Record(b"orders", b'{"_id": ', headers=(("headwater.unreadable", b"line 17 is cut"),))]
    )
    (seen,) = PipelineOperations(log, "shop").messages(16).items
    assert seen.data == '{"_id": '


def test_the_folder_of_a_run_that_is_gone_is_told(log: EmbeddedLog, tmp_path: Path) -> None:
    shop = PipelineOperations(log, "shop")
    assert shop.folder() is None
    run = RunInfo(epoch=1, id="r", began=1, state="done", folder=str(tmp_path / "gone"))
    shop.control.change(lambda state: [("run", run)])
    with pytest.raises(NotFound, match="gone"):
        shop.folder()
    (tmp_path / "gone").mkdir()
    assert shop.folder() == tmp_path / "gone"
    with pytest.raises(BadInput, match="defined is not known"):
        shop.step("report")


@pytest.mark.parametrize(("ms", "text"), [(0, None), (1, "1970-01-01T00:00:00.001Z"), (1 << 62, None)])
def test_moments_are_texts(ms: int, text: str | None) -> None:
    assert answers.moment(ms) == text


# -- correcting -------------------------------------------------------------------------------------------------


def test_a_correction_says_who_stands_there_who_has_put_it_aside_and_who_has_taken_it(log: EmbeddedLog) -> None:
    shop = PipelineOperations(log, "shop")
    made = shop.edit(14, set={"price": 1}, why="typo", dry_run=True)
    assert (made.standing, made.dead, made.taken) == (["report"], [], ["archive"])
    assert shop.edit(14, set={"price": 1}, sink="report", why="typo", dry_run=True).taken == []
    made = shop.edit(5, set={"price": 1}, why="typo")
    assert (made.standing, made.dead, made.taken) == ([], ["archive"], ["report"])


def test_a_corrected_message_is_shown_with_what_is_delivered(log: EmbeddedLog) -> None:
    shop = PipelineOperations(log, "shop")
    shop.edit(14, {"_id": 14}, why="typo")
    shop.edit(14, {"_id": 15}, sink="report", why="typo")
    (seen,) = shop.messages(14, 14).items
    assert seen.data == {"_id": 14, "price": "many"}
    assert [(copy.sink, copy.data) for copy in seen.copies] == [(None, {"_id": 14}), ("report", {"_id": 15})]
    assert seen.edited


def test_the_mark_behind_a_copy_cannot_be_corrected(log: EmbeddedLog) -> None:
    log.claim("pipeline-shop", 0, part=PART).append([Record(b"orders", b"{}", mode=Mode.COMPLETE, op=Op.NOOP)])
    with pytest.raises(BadInput, match="never delivered"):
        PipelineOperations(log, "shop").edit(16, {"_id": 1}, why="x")
    assert PipelineOperations(log, "shop").status().edits == 0


def test_a_place_that_holds_no_fields_is_told_with_where_to_look(log: EmbeddedLog) -> None:
    with pytest.raises(BadInput, match=r"Nothing can be put at price\.x") as caught:
        PipelineOperations(log, "shop").edit(14, set={"price.x": 1}, why="x")
    assert "headwater pipeline xlog shop show 14" in caught.value.hint


# -- the run ----------------------------------------------------------------------------------------------------


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


def test_a_pipeline_that_does_not_run_is_removed_with_its_topics(log: EmbeddedLog) -> None:
    shop = PipelineOperations(log, "shop")
    tried = shop.remove(dry_run=True)
    assert (tried.topics, tried.messages, tried.dry_run) == (["pipeline-shop", "pipeline-shop-offsets"], 16, True)
    assert shop.status().end == 16
    assert not shop.remove().dry_run
    assert log.topics() == []
    with pytest.raises(UnknownPipeline):
        PipelineOperations(log, "shop")


def test_a_pipeline_that_runs_or_may_run_is_not_removed(log: EmbeddedLog) -> None:
    clock = ManualClock()
    shop = PipelineOperations(log, "shop", clock=clock)
    for beat in (clock.now_ms(), 1):  # the second one is silent: its machine may be lost, or it comes back
        run = RunInfo(epoch=1, id="r", began=1, beat=beat, process="elsewhere:1")
        shop.control.change(lambda state, run=run: [("run", run)])  # type: ignore[misc]
        for dry_run in (True, False):
            with pytest.raises(Conflict, match="under way") as refused:
                shop.remove(dry_run=dry_run)
            assert "headwater pipeline stop shop" in refused.value.hint
    assert len(log.topics()) == 2


def test_a_removal_that_died_between_the_topics_is_done_again(log: EmbeddedLog) -> None:
    log.delete_topic("pipeline-shop", part=PART)
    assert PipelineOperations(log, "shop").remove().messages == 0
    assert log.topics() == []
