from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.until import until

from headwater.cluster import Ownership
from headwater.cluster.local import LocalOwnership
from headwater.core.errors import AlreadyExists, BadInput, Closed, DiskFull, Fenced, NotOwner, RegionNotFound, Unavailable, Unsupported
from headwater.core.units import Duration, Size
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import TopicSettings
from headwater.testing.clock import ManualClock
from headwater.wal import manager as manager_module
from headwater.wal.answers import PinnedLog
from headwater.wal.manager import RegionManager
from headwater.wal.metrics import WalMetrics
from headwater.wal.owned_regions import OwnedRegions
from headwater.wal.region import Region
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import region_topics
from headwater.wal.settings import ROOM, RegionSettings, WalSettings
from headwater.wal.snapshots import SnapshotStore

pytestmark = pytest.mark.anyio
Make = Callable[..., RegionManager]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    made: list[RegionManager] = []
    owned: list[Ownership] = []
    with EmbeddedLog(tmp_path) as log:

        def manager(**how: Any) -> RegionManager:
            owners = LocalOwnership(log, tmp_path / "owners", address=how.pop("address", ""))
            owned.append(owners)
            given: dict[str, Any] = {
                "settings": WalSettings(),
                "clock": ManualClock(),
                "random": Random(1),
                "metrics": WalMetrics(),
                **how,
            }
            made.append(RegionManager(how.pop("log", log), how.pop("owners", lambda: owners), "wal", **given))
            return made[-1]

        yield manager
        for one in made:
            await one.aclose()
        for owners in owned:
            owners.close()


async def test_a_new_region_is_made_without_a_look_at_the_others(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    wal = make()
    for region in range(1, 6):
        await wal.create(region, RegionSettings())
    described = list[str]()
    get = EmbeddedLog.topic
    monkeypatch.setattr(EmbeddedLog, "topic", lambda log, name: (described.append(name), get(log, name))[1])
    monkeypatch.setattr(EmbeddedLog, "topics", lambda log: pytest.fail("all topics were described"))
    monkeypatch.setattr(EmbeddedLog, "topic_names", lambda log: pytest.fail("all topics were listed"))
    assert await wal.create(7, RegionSettings(segment="64KiB"))
    assert not await wal.create(7, RegionSettings(segment="64KiB"))
    assert {name for name in described if "7" not in name} == set()


async def test_a_server_notes_what_it_owns_until_that_is_closed_or_deleted_but_not_when_it_stops(make: Make, tmp_path: Path) -> None:
    notes = OwnedRegions(tmp_path / "notes")
    wal, other = make(noted=notes), make()
    for region in (7, 8, 9):
        await wal.open(region, create=True)
    await other.open(10, create=True)
    assert [topics.region for topics in notes.all()] == [7, 8, 9]
    await wal.close(8)
    await wal.delete(9)
    assert [topics.region for topics in notes.all()] == [7]
    await other.open(7, take_over=True)
    with pytest.raises(Fenced):
        await wal.write(7, 1, [b"late"])
    await wal.open(8)
    await wal.aclose()
    assert [topics.region for topics in notes.all()] == [7, 8]


async def test_a_region_is_made_only_when_that_is_said(make: Make) -> None:
    wal = make()
    with pytest.raises(RegionNotFound, match="headwater wal create wal/7"):
        await wal.open(7)
    assert await wal.create(7, RegionSettings())
    with pytest.raises(RegionNotFound, match="Did you mean wal/7"):
        await wal.open(77)
    region = await wal.open(7, create=True)
    assert await wal.open(7) is region
    assert not await wal.create(7, RegionSettings())
    with pytest.raises(AlreadyExists):
        await wal.open(7, create=RegionSettings(segment="1MiB"))
    with pytest.raises(BadInput, match="MiB"):
        await wal.create(8, RegionSettings(segment="12"))
    with pytest.raises(BadInput):
        await wal.open(-1)


async def test_settings_of_a_new_region_are_those_of_its_topics(make: Make, tmp_path: Path) -> None:
    wal = make()
    await wal.create(7, RegionSettings(segment="1MiB", period="1h", max_record="2MiB"))
    with EmbeddedLog(tmp_path, read_only=True) as log:
        settings = log.topic(region_topics("wal", 7).data).settings
    assert (settings.segment, settings.period, settings.max_record, settings.owner) == (1 << 20, 3_600_000, (2 << 20) + ROOM, "wal")


async def test_a_region_that_an_older_version_made_has_the_settings_it_was_made_with(make: Make) -> None:
    wal = make()
    create_region(wal._log, region_topics("wal", 7), TopicSettings(segment=32 << 20, max_record=2 << 20))
    same = RegionSettings(segment="32MiB", max_record="2MiB")
    assert not await wal.create(7, same)
    await wal.open(7, create=same)
    with pytest.raises(AlreadyExists, match="settings"):
        await wal.create(7, RegionSettings(segment="32MiB", max_record="3MiB"))


async def test_callers_at_the_same_time_open_a_region_once_and_a_slow_one_blocks_no_other(make: Make) -> None:
    entered, go_on = threading.Event(), threading.Event()
    wal = make()
    for region in (1, 2):
        await wal.create(region, RegionSettings())
    owners = wal._owners

    def slow() -> Ownership:
        entered.set()
        assert go_on.wait(60)
        return owners()

    wal._owners = slow
    first, second = asyncio.create_task(wal.open(1)), asyncio.create_task(wal.open(1))
    await asyncio.to_thread(entered.wait, 60)
    wal._owners = owners
    assert await wal.write(2, 1, [b"x"]) == 1
    second.cancel()  # a caller that gives up leaves the opening to the others
    go_on.set()
    assert await first is wal.opened(1)
    assert wal.regions() == [1, 2]


async def test_after_closing_calls_are_closed_and_what_was_written_is_there(make: Make) -> None:
    wal = make()
    region = await wal.open(7, create=True)
    await wal.write(7, 1, [b"a", b"b"])
    assert await wal.close(7, graceful=True)
    assert not await wal.close(7)
    with pytest.raises(Closed):
        await region.write(1, [b"c"])
    again = await wal.open(7)
    assert again.recovered.records == 0
    assert again.sequence_num(1) == 2
    await wal.aclose()
    for call in (lambda: wal.open(7), lambda: wal.write(7, 1, [b"c"]), lambda: wal.create(8, RegionSettings())):
        with pytest.raises(Closed):
            await call()


async def test_a_region_that_is_closed_while_it_is_used_is_opened_again(make: Make) -> None:
    wal = make()
    region = await wal.open(7, create=True)
    await region.close()
    with pytest.raises(Closed):  # by hand, and not by the manager
        await wal.write(7, 1, [b"a"])
    await wal.close(7)
    assert await wal.write(7, 1, [b"a"]) == 1


async def test_another_owner_is_named_and_a_taken_region_is_given_up(make: Make) -> None:
    mine, other = make(), make(address="http://127.0.0.1:9")
    await mine.open(7, create=True)
    await mine.write(7, 1, [b"a"])
    with pytest.raises(NotOwner):
        await other.open(7)
    await other.open(7, take_over=True)
    with pytest.raises(Fenced):
        await mine.write(7, 1, [b"b"])
    assert mine.regions() == []
    with pytest.raises(NotOwner) as refused:
        await mine.write(7, 1, [b"b"])
    assert refused.value.address == "http://127.0.0.1:9"
    assert await other.write(7, 1, [b"c"]) == 2


@pytest.mark.parametrize("finds", ["look", "snapshot", "clean"])
@pytest.mark.parametrize("lives", [True, False])
async def test_the_next_write_is_fenced_whoever_has_found_out_before_it(make: Make, finds: str, lives: bool) -> None:
    """A writer that is told nothing would go on as if nobody had written meanwhile."""
    mine, other = make(), make()
    region = await mine.open(7, create=True)
    await mine.write(7, 1, [b"a"])
    await (await other.open(7, take_over=True)).write(1, [b"b"])
    if finds == "look":
        assert await mine.owned(7) is None
    elif finds == "snapshot":
        region.observer.dropped()
    else:
        with pytest.raises(Fenced):
            await mine.clean_open(7)
    await until(lambda: mine.opened(7) is None)
    if not lives:
        await other.close(7)
    with pytest.raises(Fenced, match="wal/7 was taken over"):
        await mine.write(7, 1, [b"c"])
    if lives:
        with pytest.raises(NotOwner):
            await mine.write(7, 1, [b"c"])
    else:
        assert await mine.write(7, 1, [b"c"]) == 3


async def test_who_opens_a_region_again_is_not_told_of_what_was_before(make: Make) -> None:
    mine, other = make(), make()
    await mine.open(7, create=True)
    await other.open(7, take_over=True)
    assert await mine.owned(7) is None
    await other.close(7)
    await mine.open(7)
    assert await mine.write(7, 1, [b"a"]) == 1


async def test_a_topic_whose_records_go_by_themselves_is_refused(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    wal = make()
    await wal.create(7, RegionSettings())
    monkeypatch.setattr(EmbeddedLog, "retention", lambda self, topic: "retention.ms=1000" if "_meta_" in topic else "")
    with pytest.raises(Unavailable, match=r"wal_meta_7 has retention.ms=1000.*Set retention"):
        await wal.open(7)


async def test_above_the_limit_the_pinning_table_is_told_and_moved(make: Make) -> None:
    told: list[PinnedLog] = []
    wal = make(settings=WalSettings(pin_limit=Size(2000)), on_pin=told.append)
    await wal.open(7, create=True)
    await wal.write(7, 9, [b"old"])
    for _ in range(30):
        await wal.write(7, 1, [b"x" * 100])
    region = wal.opened(7)
    assert region is not None
    await region.mark_delete_up_to(1, 30)
    cleaned = await wal.clean(7)
    assert cleaned.moved == [9]
    assert cleaned.start > 30
    assert [(one.table, one.entries) for one in told] == [(9, 32)]
    assert [entry.payload async for entry in region.read(9)] == [b"old"]
    await wal.write(7, 5, [b"y" * 5000])
    assert (await wal.clean(7)).moved == []  # a table that pins only itself, and one below the limit


async def test_idle_tables_side_by_side_are_moved_together(make: Make) -> None:
    """Each of them pins one record beside the next one's; together they pin all that comes behind."""
    wal = make(settings=WalSettings(pin_limit=Size(2000)))
    await wal.open(7, create=True)
    for table in range(20, 25):
        await wal.write(7, table, [b"idle"])
    moved: list[list[int]] = []
    for turn in range(1, 4):
        for _ in range(30):
            await wal.write(7, 1, [b"x" * 100])
        region = wal.opened(7)
        assert region is not None
        await region.mark_delete_up_to(1, 30 * turn)
        cleaned = await wal.clean(7)
        assert cleaned.start > 30 * turn
        moved.append(cleaned.moved)
    assert moved == [[20, 21, 22, 23, 24]] * 3


async def test_a_table_is_not_copied_again_and_again_to_free_less_than_itself(make: Make) -> None:
    wal = make(settings=WalSettings(pin_limit=Size(2000)))
    await wal.open(7, create=True)
    await wal.write(7, 9, [b"large" * 2000])
    moved: list[list[int]] = []
    for turn in range(1, 7):
        for _ in range(30):
            await wal.write(7, 1, [b"x" * 100])
        region = wal.opened(7)
        assert region is not None
        await region.mark_delete_up_to(1, 30 * turn)
        moved.append((await wal.clean(7)).moved)
    assert moved == [[], [], [9], [], [], [9]]


async def test_the_cleaner_comes_at_once_and_after_each_period(make: Make) -> None:
    clock = ManualClock()
    wal = make(clock=clock, settings=WalSettings(clean_period=Duration(60_000), snapshot_every=Duration(3_600_000)))
    for region in (1, 2):
        await wal.open(region, create=True)
        await wal.write(region, 1, [b"x"])
    cleaned: list[int] = []
    done = asyncio.Event()
    clean = wal.clean_open

    async def counted(region: int) -> None:
        cleaned.append(region)
        if cleaned[-1] == 2:
            done.set()
        if region == 1:
            raise Unavailable("Not now.", hint="")
        await clean(region)

    wal.clean_open = counted  # type: ignore[method-assign]
    wal.start_cleaning()
    wal.start_cleaning()
    for passed in (1, 2, 3):
        await asyncio.wait_for(done.wait(), 60)
        done.clear()
        assert cleaned == [1, 2] * passed
        while len(wal._timers) < 3:  # two of the snapshots, and the cleaner's own
            await asyncio.sleep(0)
        await clock.run(67)


async def test_a_region_that_is_opened_after_the_first_pass_is_cleaned_soon(make: Make) -> None:
    clock = ManualClock()
    wal = make(clock=clock)
    await wal.open(1, create=True)
    wal.start_cleaning()
    await wal.open(2, create=True)
    await wal.write(2, 1, [b"x"])
    region = wal.opened(2)
    assert region is not None
    await region.mark_delete_up_to(1, 1)
    await clock.run(60)
    await until(lambda: region._log.bounds(region.topics.data, 0).start == 2)


async def test_an_idle_region_has_no_timer_and_is_not_cleaned_again(make: Make) -> None:
    clock = ManualClock()
    wal = make(clock=clock, settings=WalSettings(clean_period=Duration(600_000)))
    region = await wal.open(7, create=True)
    assert len(wal._timers) == 0
    await wal.write(7, 1, [b"x"])
    await until(lambda: len(wal._timers) == 1)
    await clock.run(60)
    await until(lambda: len(region.snapshots) == 1 and not len(wal._timers))
    wal.start_cleaning()
    await until(lambda: len(region.snapshots) == 2 and len(wal._timers) == 1)  # the first pass, and the next one
    for _ in range(3):
        await clock.run(600)
    await wal.clean(7)  # by hand a region is always cleaned
    assert region.snapshots[-1].last == 2  # the third record of the meta topic
    await wal.write(7, 1, [b"x"])
    await clock.run(661)
    await until(lambda: region.snapshots[-1].watermark == 2)


async def test_readings_tell_what_is_live_and_pinned(make: Make) -> None:
    wal = make()
    region = await wal.open(7, create=True)
    await wal.write(7, 9, [b"old"])
    await wal.write(7, 1, [b"x" * 97])
    await wal.write(7, 1, [b"x" * 97])
    await region.mark_delete_up_to(1, 1)
    await wal.clean(7)
    (reading,) = wal.readings()
    assert (reading.namespace, reading.region, reading.live_entries, reading.pinned_entries) == ("wal", 7, 2, 2)
    assert reading.live_bytes > 0
    assert reading.pinned_bytes > 0


async def test_whoever_closes_a_region_its_users_end_first(make: Make) -> None:
    wal = make()
    ended: list[tuple[int, bool]] = []

    async def ends(region: Region) -> None:
        await region.write(1, [b"last"])  # it is still open
        ended.append((region.topics.region, wal.opened(region.topics.region) is None))

    wal.ending.append(ends)
    for number in (1, 2, 3):
        await wal.open(number, create=True)
    await wal.close(1)
    await wal.delete(2)
    assert ended == [(1, True), (2, True)]
    await wal.aclose()
    assert ended[2:] == [(3, True)]


async def test_a_region_says_that_a_write_was_fenced_and_is_closed_by_that(make: Make) -> None:
    wal, other = make(), make(address="http://there:2")
    region = await wal.open(7, create=True)
    assert not region.fenced
    await other.open(7, take_over=True)
    with pytest.raises(Fenced):
        await region.write(1, [b"x"])
    assert region.fenced
    await wal.fenced(region)
    await wal.fenced(region)  # twice is no error
    assert wal.opened(7) is None
    with pytest.raises(NotOwner) as refused:
        await wal.open(7)
    assert refused.value.address == "http://there:2"


async def test_segment_files_are_kept_once(make: Make) -> None:
    with pytest.raises(Unsupported, match="kept once"):
        await make().create(7, RegionSettings(), copies=3)


class Held:
    """An append that waits in its thread until `go`."""

    def __init__(self, region: Region) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        self._writer = region._owned.writer
        region._owned.writer = self  # type: ignore[assignment]

    def append(self, records: Any) -> Any:
        self.began.set()
        assert self.go.wait(60)
        return self._writer.append(records)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)


async def given_up(call: Coroutine[Any, Any, Any], *, when: Callable[[], bool]) -> None:
    task = asyncio.create_task(call)
    await until(when)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("how", ["close", "delete", "aclose"])
async def test_who_gives_up_closing_leaves_no_region_that_nobody_can_own(make: Make, how: str) -> None:
    wal, other = make(), make()
    region = await wal.open(7, create=True)
    held = Held(region)
    write = asyncio.create_task(wal.write(7, 1, [b"a"]))
    await asyncio.to_thread(held.began.wait, 60)
    closing = {"close": lambda: wal.close(7), "delete": lambda: wal.delete(7), "aclose": wal.aclose}[how]
    await given_up(closing(), when=lambda: wal.opened(7) is None)
    held.go.set()
    assert await write == 1
    if how == "delete":
        await wal.close(7)  # behind it
        with pytest.raises(RegionNotFound):
            await other.open(7)
        return
    await (wal.aclose() if how == "aclose" else wal.close(7))
    assert (await other.open(7)).sequence_num(1) == 1


async def test_who_gives_up_a_fenced_write_leaves_no_region_that_nobody_can_own(make: Make) -> None:
    wal, other = make(), make()
    region = await wal.open(7, create=True)
    await other.open(7, take_over=True)
    release, slow = region._owned.release, threading.Event()

    def later() -> None:
        assert slow.wait(60)
        release()

    region._owned.release = later  # type: ignore[method-assign]
    await given_up(wal.write(7, 1, [b"a"]), when=lambda: wal.opened(7) is None)
    slow.set()
    with pytest.raises(NotOwner):
        await wal.write(7, 1, [b"a"])
    await other.close(7)
    assert await wal.write(7, 1, [b"a"]) == 1


async def test_whatever_fails_while_a_region_ends_it_can_be_owned_again(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    wal = make()

    async def fails(region: Region) -> None:
        raise OSError(24, "Too many open files")

    region = await wal.open(7, create=True)
    await asyncio.gather(*(region.write(1, [b"x"]) for _ in range(1100)))
    with monkeypatch.context() as broken:
        broken.setattr(LocalOwnership, "is_owner", lambda self, owned: (_ for _ in ()).throw(OSError(24, "Too many open files")))
        with pytest.raises(OSError, match="Too many open files"):
            await wal.close(7)
    assert (await wal.open(7)).sequence_num(1) == 1100
    wal.ending.append(fails)
    with pytest.raises(OSError, match="Too many open files"):
        await wal.close(7)
    wal.ending.clear()
    assert (await wal.open(7)).sequence_num(1) == 1100


async def test_a_plain_close_does_not_fail_with_its_snapshot(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    wal = make()
    region = await wal.open(7, create=True)
    await asyncio.gather(*(region.write(1, [b"x"]) for _ in range(1100)))

    def full(self: SnapshotStore, values: Any, watermark: int) -> Any:
        raise DiskFull("No space is left.", hint="Free some.")

    monkeypatch.setattr(SnapshotStore, "store", full)
    assert await wal.close(7)
    await wal.open(7)
    with pytest.raises(DiskFull):
        await wal.close(7, graceful=True)
    await wal.open(7)


async def test_what_fails_behind_the_opening_leaves_no_region_that_nobody_can_own(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    wal = make()
    await wal.create(7, RegionSettings())
    with monkeypatch.context() as broken:

        def refused(*args: Any) -> Any:
            raise Unavailable("Not now.", hint="")

        broken.setattr(manager_module, "mean_sizes", refused)
        with pytest.raises(Unavailable):
            await wal.open(7)
    assert (await wal.open(7)).sequence_num(1) == 0


@pytest.mark.parametrize("how", ["marks", "period"])
async def test_housekeeping_that_is_fenced_gives_the_region_up(make: Make, how: str) -> None:
    clock = ManualClock(1_699_963_200.0)
    wal, other = make(clock=clock, settings=WalSettings(snapshot_marks=1)), make()
    region = await wal.open(7, create=RegionSettings(period="1h") if how == "period" else True)
    await region.write(1, [b"a", b"b"])
    await other.open(7, take_over=True)
    if how == "marks":
        region.observer.marked()
    else:
        await clock.run(3600)
    await until(lambda: wal.opened(7) is None)
    with pytest.raises(NotOwner):
        await wal.open(7)


async def test_the_cleaner_opens_no_region_that_its_user_has_closed(make: Make) -> None:
    wal = make()
    for number in (1, 2):
        await wal.open(number, create=True)
        await wal.write(number, 1, [b"a"])
    first, goes_on, cleaned = wal.opened(1), threading.Event(), list[int]()
    assert first is not None
    clean = first._clean

    def slow() -> Any:
        cleaned.append(1)
        assert goes_on.wait(60)
        return clean()

    first._clean = slow  # type: ignore[method-assign]
    wal.start_cleaning()
    await until(lambda: cleaned)
    await wal.close(2)
    now = wal.cleaned
    goes_on.set()
    await asyncio.wait_for(now.wait(), 60)
    assert wal._cleaner is not None
    await wal._cleaner.stop()  # behind what it has begun
    assert wal.regions() == [1]
    await wal.clean(2)  # by hand it is opened
    assert wal.regions() == [1, 2]
