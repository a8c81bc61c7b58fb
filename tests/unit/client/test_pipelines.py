"""Pipelines through the door: the same calls, answers and errors over a directory and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headwater.client.blocking import open_blocking
from headwater.client.local import LocalLog, local_log
from headwater.client.local_backend import LocalBackend
from headwater.client.log import AsyncLog
from headwater.client.pipelines import OnePipeline, Pipelines
from headwater.client.remote import RemoteLog, remote_log
from headwater.client.remote_backend import RemoteBackend
from headwater.core.clock import SystemClock
from headwater.core.errors import BadBounds, BadInput, Conflict, HeadwaterError, NotFound, OwnedTopic, UnknownPipeline, UnknownSink
from headwater.core.settings import Settings
from headwater.log.record import Bounds, Record, TopicSettings
from headwater.pipeline.offsets.control import Control
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import Entry
from headwater.pipeline.operating.answers import Acked, Marked, Refused, Resolved, SinkPosition
from headwater.pipeline.operating.performer import PipelinePerformer
from headwater.testing.app import app_over
from headwater.testing.scripted import served

pytestmark = pytest.mark.anyio


@pytest.fixture
async def log(stopped_shop: Path) -> AsyncIterator[LocalLog]:
    opened = local_log(Settings(), stopped_shop, SystemClock())
    try:
        yield opened
    finally:
        await opened.aclose()


@pytest.fixture(params=["directory", "http"])
async def door(request: pytest.FixtureRequest, log: LocalLog) -> AsyncIterator[Pipelines]:
    if request.param == "directory":
        yield Pipelines(LocalBackend(log))
        return
    reported: list[BaseException] = []
    app = app_over(log, report=lambda error_id, error: reported.append(error))
    async with served(app) as url:
        remote = remote_log(url, token=None, clock=SystemClock())
        yield Pipelines(remote.backend)
        await remote.aclose()
    assert all(isinstance(error, HeadwaterError) for error in reported)


@pytest.fixture
def shop(door: Pipelines) -> OnePipeline:
    return door["shop"]


async def test_pipelines_are_no_list_and_have_names(door: Pipelines) -> None:
    with pytest.raises(TypeError, match=r"hw\.pipelines\.list\(\)"):
        iter(door)
    with pytest.raises(BadInput, match="5 is no name of a pipeline"):
        door[5]  # type: ignore[index]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda shop: shop.messages("a"), "'a' is no offset"),
        (lambda shop: shop.messages(limit="a"), "'a' is no limit"),
        (lambda shop: shop.mark("report", "a", why="w"), "'a' is no position"),
        (lambda shop: shop.mark("report", None, why="w"), "None is no position"),
        (lambda shop: shop.mark(None, 1, why="w"), "None is no name of a sink"),
        (lambda shop: shop.ack("report", None, why="w"), "None is no offset"),
        (lambda shop: shop.edit(None, {"a": 1}, why="w"), "None is no offset"),
        (lambda shop: shop.replay("report", None, 3, why="w"), "None is no offset"),
        (lambda shop: shop.step(None), "None is no name of a sink"),
        (lambda shop: shop.offset(5), "5 is no name of a sink"),
        (lambda shop: shop.edit(1, "a", why="w"), "`data` is 'a'"),
        (lambda shop: shop.edit(1, set=[1], why="w"), r"`set` is \[1\]"),
        (lambda shop: shop.edit(14, unset="price", why="x"), "`unset` is the text 'price', not a list of fields"),
    ],
)
async def test_values_of_a_wrong_type_are_bad_input(shop: OnePipeline, call: Callable[[Any], Awaitable[Any]], says: str) -> None:
    with pytest.raises(BadInput, match=says) as no:
        await call(shop)
    assert no.value.hint


def test_the_blocking_pipelines_are_no_list_either(stopped_shop: Path) -> None:
    with open_blocking(stopped_shop) as hw:
        with pytest.raises(TypeError, match=r"hw\.pipelines\.list\(\)"):
            iter(hw.pipelines)
        with pytest.raises(BadInput, match="5 is no name of a pipeline"):
            hw.pipelines[5]  # type: ignore[index]


# -- looking ----------------------------------------------------------------------------------------------------


async def test_the_list_and_the_status_tell_where_every_sink_is(door: Pipelines, shop: OnePipeline) -> None:
    status = await shop.status()
    assert list(await door.list()) == [msgspec.structs.replace(status, namespaces=[])]
    assert [(one.namespace, one.phase) for one in status.namespaces] == [("orders", "complete")]
    assert (status.pipeline, status.state, status.end, status.lag, status.phase) == ("shop", "stopped at report", 16, 2, "complete")
    assert (status.began, status.process, status.dead, status.edits) == ("2023-11-14T22:13:20.000Z", "host:1", 1, 0)
    archive, report = status.sinks
    assert archive == SinkPosition(sink="archive", position=15, end=16, lag=0, state="idle")
    assert report.error is not None
    assert (report.state, report.error.offset, report.error.message) == ("stopped", 14, "no number: 'many'")
    assert report.error.trace == "line 1\nline 2"
    assert await shop.offsets() == status.sinks
    assert (await shop.offset("report")).namespaces == {"orders": 13}


async def test_messages_are_shown_exactly_and_with_who_refuses_them(shop: OnePipeline) -> None:
    assert await shop.bounds() == Bounds(0, 16)
    one, two = await shop.messages(13, 14)
    assert one.data == {"_id": 13, "price": Decimal("13.10")}
    assert (two.offset, two.namespace, two.op, two.mode, two.data["price"]) == (14, "orders", "insert", "copy", "many")
    assert two.refused == [Refused(sink="report", error="ValueError", message="no number: 'many'", trace="line 1\nline 2")]
    assert [seen.offset for seen in await shop.messages(namespace="^returns$")] == [0, 2, 4, 6, 8, 10, 12]
    assert [seen.offset for seen in await shop.messages(3, limit=2)] == [3, 4]
    assert [seen.offset for seen in await shop.messages(14, 99)] == [14, 15]
    assert await shop.messages(namespace="nothing") == []


async def test_what_was_put_aside_is_shown_with_its_message(shop: OnePipeline) -> None:
    (one,) = await shop.dead()
    assert (one.sink, one.offset, one.error, one.tries, one.at) == ("archive", 5, "Rejected", 3, "2023-11-14T22:13:20.000Z")
    assert await shop.dead("report") == []
    shown = await shop.dead_one(5)
    assert shown.record is not None
    assert shown.record.data == {"_id": 5, "price": Decimal("5.10")}


# -- changing ---------------------------------------------------------------------------------------------------


async def test_a_correction_is_delivered_and_revives_the_sink(shop: OnePipeline) -> None:
    tried = await shop.edit(14, set={"price": Decimal("14.10"), "note.by": "Ann"}, why="typo", dry_run=True)
    assert (tried.data, tried.dry_run) == ({"_id": 14, "price": Decimal("14.10"), "note": {"by": "Ann"}}, True)
    assert (await shop.status()).edits == 0
    assert await shop.audit() == []
    made = await shop.edit(14, set={"price": 3}, unset=["_id"], why="typo")
    assert made.data == {"price": 3}
    assert (await shop.status()).sinks[1].state == "idle"
    assert (await shop.messages(14))[0].edited
    whole = await shop.edit(14, {"_id": 14}, sink="report", why="better")
    assert (whole.data, whole.sink) == ({"_id": 14}, "report")
    assert (await shop.undo(14, sink="report", why="worse")).undone
    assert (await shop.undo(14, why="worse")).undone
    assert (await shop.status()).edits == 0
    assert [(entry.what, entry.why) for entry in await shop.audit()] == [
        ("edit", "typo"), ("edit", "better"), ("undo", "worse"), ("undo", "worse"),
    ]  # fmt: skip


async def test_positions_move_forward_and_back_and_are_audited(shop: OnePipeline) -> None:
    assert await shop.ack("report", 14, why="skip it", dry_run=True) == Acked(sink="report", offset=14, position=14, dry_run=True)
    assert (await shop.offset("report")).position == 13
    assert await shop.ack("report", 14, why="skip it") == Acked(sink="report", offset=14, position=14)
    assert await shop.mark("report", -1, why="again") == Marked(sink="report", before=14, position=-1)
    for dry_run in (True, False):
        with pytest.raises(Conflict, match="The last run of shop has the sink archive"):
            await shop.delete("archive", why="no more", dry_run=dry_run)
    assert [place.sink for place in await shop.offsets()] == ["archive", "report"]
    assert [(entry.what, entry.details) for entry in await shop.audit()] == [
        ("ack", {"sink": "report", "offset": 14}),
        ("mark", {"sink": "report", "offset": -1, "before": 14}),
    ]


async def test_what_was_put_aside_can_be_let_go(shop: OnePipeline) -> None:
    assert await shop.drop(5, why="old", dry_run=True) == Resolved(sink="archive", offset=5, done="let go", dry_run=True)
    assert len(await shop.dead()) == 1
    await shop.drop(5, why="old")
    assert await shop.dead() == []


async def test_compaction_says_up_to_where(shop: OnePipeline) -> None:
    assert (await shop.compact(dry_run=True)).before == 5  # what was put aside stays
    assert (await shop.compact()).dry_run is False


# -- errors -----------------------------------------------------------------------------------------------------

BAD: list[tuple[str, type[HeadwaterError], Callable[[Pipelines], Awaitable[object]]]] = [
    ("unknown", UnknownPipeline, lambda p: p["none"].status()),
    ("no name", UnknownPipeline, lambda p: p["a/b"].status()),
    ("dots", UnknownPipeline, lambda p: p[".."].status()),
    ("change of unknown", UnknownPipeline, lambda p: p["none"].mark("s", 1, why="w")),
    ("sink", UnknownSink, lambda p: p["shop"].offset("none")),
    ("sink of mark", UnknownSink, lambda p: p["shop"].mark("none", 1, why="w")),
    ("sink of edit", UnknownSink, lambda p: p["shop"].edit(14, set={"a": 1}, sink="none", why="w")),
    ("no sink", UnknownSink, lambda p: p["shop"].offset("a b")),
    ("beyond", BadBounds, lambda p: p["shop"].messages(99)),
    ("below", BadBounds, lambda p: p["shop"].messages(-1)),
    ("wrong way", BadBounds, lambda p: p["shop"].messages(9, 3)),
    ("mark beyond", BadBounds, lambda p: p["shop"].mark("report", 99, why="w")),
    ("edit beyond", BadBounds, lambda p: p["shop"].edit(99, {"a": 1}, why="w")),
    ("negative edit", BadBounds, lambda p: p["shop"].edit(-1, {"a": 1}, why="w")),
    ("ack of what is taken", Conflict, lambda p: p["shop"].ack("archive", 3, why="w")),
    ("no reason", BadInput, lambda p: p["shop"].mark("report", 3, why=" ")),
    ("no reason to drop", BadInput, lambda p: p["shop"].drop(5, why="")),
    ("no reason to edit", BadInput, lambda p: p["shop"].edit(14, set={"a": 1}, why="")),
    ("nothing to edit", BadInput, lambda p: p["shop"].edit(14, why="w")),
    ("both", BadInput, lambda p: p["shop"].edit(14, {"a": 1}, set={"a": 1}, why="w")),
    ("path", BadInput, lambda p: p["shop"].edit(14, set={"a..b": 1}, why="w")),
    ("no correction", NotFound, lambda p: p["shop"].undo(14, why="w")),
    ("not put aside", NotFound, lambda p: p["shop"].dead_one(6)),
    ("not running", Conflict, lambda p: p["shop"].stop()),
    ("limit", BadInput, lambda p: p["shop"].messages(limit=0)),
]


async def test_what_cannot_be_done_is_the_same_error_everywhere(door: Pipelines) -> None:
    before = await door["shop"].status()
    for name, kind, call in BAD:
        with pytest.raises(HeadwaterError) as caught:
            await call(door)
        assert isinstance(caught.value, kind), f"{name}: {caught.value!r}"
        assert caught.value.hint, name
    assert await door["shop"].status() == before
    assert await door["shop"].audit() == []


# -- what is kept between two questions -------------------------------------------------------------------------


async def test_changes_of_others_are_seen_and_many_may_ask_at_once(shop: OnePipeline, log: LocalLog) -> None:
    other = Pipelines(LocalBackend(log))["shop"]
    assert (await shop.offset("report")).position == 13
    await other.mark("report", 2, why="elsewhere")
    assert (await shop.offset("report")).position == 2
    await asyncio.gather(
        *(one.mark("report", number, why=f"{number}") for number in range(3, 9) for one in (shop, other)),
        *(shop.status() for _ in range(9)),
    )
    assert len(await shop.audit()) == 13


async def test_a_long_audit_is_whole(shop: OnePipeline, log: LocalLog) -> None:
    entries = [(f"audit/{number:05d}", Entry(at=number, who="w", what="test")) for number in range(1, 2502)]
    await log.work(lambda log: Control(log, "shop", SystemClock()).change(lambda state: entries))
    found = await shop.audit()
    assert len(found) == 2501
    assert found[-1].at == "1970-01-01T00:00:02.501Z"


async def test_a_pipeline_that_was_deleted_and_made_again_is_another(shop: OnePipeline, log: LocalLog) -> None:
    await shop.status()
    for topic in ("pipeline-shop-offsets", "pipeline-shop"):
        await log.work(lambda log, topic=topic: log.delete_topic(topic, part=PART))  # type: ignore[misc]
    with pytest.raises(UnknownPipeline):
        await shop.status()
    await log.work(lambda log: log.create_topic("pipeline-shop-offsets", part=PART))
    with pytest.raises(UnknownPipeline):
        await shop.status()  # its messages are not there
    await log.work(lambda log: log.create_topic("pipeline-shop", part=PART))
    status = await shop.status()
    assert (status.state, status.sinks, status.began) == ("new", [], None)
    assert await shop.messages() == []


async def test_readings_for_the_metrics_come_from_the_offset_log(log: LocalLog) -> None:
    here = PipelinePerformer()
    assert here.readings(log.now) == []  # the log is not open yet
    await log.open()
    assert [(one.pipeline, one.sink, one.offset, one.lag, one.stopped) for one in here.readings(log.now)] == [
        ("shop", "archive", 15, 0, False),
        ("shop", "report", 13, 2, True),
    ]
    await log.aclose()
    assert here.readings(log.now) == []


def test_plain_code_asks_the_same(stopped_shop: Path) -> None:
    with open_blocking(stopped_shop) as hw:
        assert [one.pipeline for one in hw.pipelines.list()] == ["shop"]
        shop = hw.pipelines["shop"]
        assert shop.name == "shop"
        assert shop.mark("report", 3, why="test").position == 3
        with pytest.raises(UnknownSink):
            shop.offset("none")


async def test_a_pipelines_topics_are_changed_by_the_pipeline_alone(door: Pipelines, shop: OnePipeline, log: AsyncLog) -> None:
    if isinstance(door._backend, RemoteBackend):
        log = RemoteLog(door._backend)
    for topic in ("pipeline-shop", "pipeline-shop-offsets"):
        before = await log.bounds(topic, 0)
        for change in (
            log.append(topic, 0, [Record(b"run", b"{}")]),
            log.compact(topic, 0),
            log.delete_before(topic, 0, 3),
            log.delete_topic(topic),
            log.create_topic(topic),
        ):
            with pytest.raises(OwnedTopic, match="belong"):
                await change
        assert await log.bounds(topic, 0) == before
        assert (await log.topic(topic)).settings.owner == "pipeline"
        assert await log.read(topic, 0, 0, limit=1)
    with pytest.raises(OwnedTopic):
        await log.create_topic("pipeline-mine")
    with pytest.raises(BadInput, match="owner"):
        await log.create_topic("mine", settings=TopicSettings(owner="pipeline"))
    await shop.remove()
    assert await log.topics() == []
