from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.descriptors import descriptors

from headwater.client.local import LocalLog, local_log
from headwater.client.wal_performer import WalPerformer
from headwater.core.clock import SystemClock
from headwater.core.errors import MetaLost, RegionNotFound
from headwater.core.settings import Settings
from headwater.core.units import Duration
from headwater.testing.clock import ManualClock
from headwater.wal import manager as manager_module
from headwater.wal import requests
from headwater.wal.region import Region
from headwater.wal.region_topics import RegionTopics
from headwater.wal.requests import RegionRequest
from headwater.wal.settings import RegionSettings, WalSettings

pytestmark = pytest.mark.anyio


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[LocalLog]:
    made = local_log(Settings(), tmp_path / "data", SystemClock())
    yield made
    await made.aclose()


@pytest.fixture
async def performer(log: LocalLog) -> AsyncIterator[WalPerformer]:
    made = WalPerformer(log=log)
    yield made
    await made.aclose()


async def test_a_region_that_cannot_be_opened_at_the_start_stops_neither_the_others_nor_the_cleaner(
    log: LocalLog, performer: WalPerformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = WalPerformer(log=log)
    for number in (1, 2, 3):
        await (await first.manager("wal")).open(number, create=True)
    await first.aclose()
    opens = manager_module.open_region

    async def broken(log: Any, owners: Any, topics: RegionTopics, **how: Any) -> Region:
        if topics.region == 2:
            raise OSError(24, "Too many open files")
        return await opens(log, owners, topics, **how)

    monkeypatch.setattr(manager_module, "open_region", broken)
    performer.serve()
    serving = performer._managers._serving
    assert serving is not None
    await asyncio.wait_for(serving, 60)
    manager = await performer.manager("wal")
    assert manager.regions() == [1, 3]
    assert manager._cleaner is not None


async def test_regions_and_namespaces_that_are_not_there_leave_nothing_behind(performer: WalPerformer) -> None:
    manager = await performer.manager("wal")
    await manager.open(1, create=True)
    performer.serve()
    serving = performer._managers._serving
    assert serving is not None
    await asyncio.wait_for(serving, 60)
    for number in range(20):
        for namespace in (f"ns{number}", "wal"):
            where: dict[str, Any] = {"namespace": namespace, "region": 1000 + number}
            for call in (
                lambda where=where: performer.write(requests.WriteEntries(**where, table=1, payloads=[b"x"])),
                lambda where=where: performer.open(RegionRequest(**where)),
                lambda where=where: performer.close(requests.CloseRegion(**where)),
                lambda where=where: performer.delete(requests.ChangeRegion(**where)),
                lambda where=where: performer.clean(requests.ChangeRegion(**where)),
            ):
                with pytest.raises(RegionNotFound):
                    await call()
    assert list(performer._managers._managers) == ["wal"]
    assert len(manager._gates) == 0


async def test_a_deleted_region_leaves_nothing_in_the_directory(performer: WalPerformer, tmp_path: Path) -> None:
    manager = await performer.manager("wal")
    for _ in range(2):
        await manager.open(5, create=True)
        await manager.write(5, 1, [b"x"])
        assert os.listdir(tmp_path / "data" / "owners") == ["wal_data_5"]
        await manager.delete(5)
        assert os.listdir(tmp_path / "data" / "owners") == []
    assert len(manager._gates) == 0


@pytest.mark.parametrize("cleaned", [False, True])
async def test_a_region_whose_snapshots_are_gone_is_told_so_and_goes_on(log: LocalLog, cleaned: bool) -> None:
    """From its whole log; where that no longer begins at 0, with what is left of it, once that was accepted."""
    place: dict[str, Any] = {"namespace": "wal", "region": 7}
    first = WalPerformer(log=log)
    await first.create(requests.NewRegion(**place))
    for payload in (b"a", b"b"):
        await first.write(requests.WriteEntries(**place, table=1, payloads=[payload]))
    if cleaned:
        await first.mark_delete_up_to(requests.MarkTable(**place, table=1, sequence=2))
        await first.clean(requests.ChangeRegion(**place))
        await first.write(requests.WriteEntries(**place, table=1, payloads=[b"c"]))
    await first.aclose()
    await log.work(lambda opened: opened.delete_topic("wal_meta_7", part="wal"))
    performer, asked = WalPerformer(log=log), RegionRequest(**place)
    looks: list[Any] = [
        lambda: performer.statistics(asked),
        lambda: performer.tables(asked),
        lambda: performer.verify(asked),
        lambda: performer.why(asked),
        lambda: performer.recover(requests.RecoverRegion(**place, dry_run=True)),
    ]
    if cleaned:
        for look in [*looks, lambda: performer.write(requests.WriteEntries(**place, table=1, payloads=[b"d"]))]:
            with pytest.raises(MetaLost, match=r"there is no topic wal_meta_7.*recover wal/7 --accept-loss"):
                await look()
        assert (await performer.recover(requests.RecoverRegion(**place, accept_loss=True))).lost
    else:
        assert (await performer.statistics(asked)).problems == ["there is no topic wal_meta_7"]
        for look in looks:
            await look()
    assert (await performer.write(requests.WriteEntries(**place, table=1, payloads=[b"d"]))).sequence == (4 if cleaned else 3)
    assert [table.last for table in await performer.tables(asked)] == [4 if cleaned else 3]
    assert (await log.topic("wal_meta_7")).settings.owner == "wal"
    await performer.clean(requests.ChangeRegion(**place))
    await performer.aclose()
    assert (await performer_state(log, asked)).problems == []


async def performer_state(log: LocalLog, asked: RegionRequest) -> Any:
    performer = WalPerformer(log=log)
    try:
        return await performer.statistics(asked)
    finally:
        await performer.aclose()


async def test_who_owns_a_region_by_its_first_write_cleans_it_a_period_later(log: LocalLog) -> None:
    clock, settings = ManualClock(), WalSettings(clean_period=Duration(60_000), snapshot_every=Duration(3_600_000))
    performer = WalPerformer(log=log, clock=clock, settings=Settings(sections={"wal": {"wal": settings}}))
    await (await performer.manager("wal")).create(7, RegionSettings())
    place: dict[str, Any] = {"namespace": "wal", "region": 7, "table": 1}
    await performer.write(requests.WriteEntries(**place, payloads=[b"x"]))
    await performer.mark_delete_up_to(requests.MarkTable(**place, sequence=1))
    manager = await performer.manager("wal")
    assert (await log.bounds("wal_data_7", 0)).start == 0
    cleaned = manager.cleaned
    await clock.run(70)
    await asyncio.wait_for(cleaned.wait(), 60)
    assert (await log.bounds("wal_data_7", 0)).start == 2
    await performer.aclose()


async def test_all_namespaces_share_one_alarm_which_is_closed_with_them(log: LocalLog) -> None:
    def alarms() -> int:
        return sum("timerfd" in link for link in descriptors())

    before, performer = alarms(), WalPerformer(log=log)
    for namespace in ("wal", "other"):
        manager = await performer.manager(namespace)
        await manager.open(1, create=RegionSettings(period="1h"))
        assert manager._timers is performer._managers._timers
    assert alarms() == before + 1
    await performer.aclose()
    assert alarms() == before
