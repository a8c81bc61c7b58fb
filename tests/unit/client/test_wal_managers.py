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
from headwater.core.errors import RegionNotFound
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
