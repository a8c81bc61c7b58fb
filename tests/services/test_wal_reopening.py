"""A server on Kafka that is started again: it opens the regions that it owned and that nobody owns now, and fences no living owner."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.until import until

from headwater.client import region_reopening
from headwater.client.local import LocalLog, local_log
from headwater.client.wal_performer import WalPerformer
from headwater.core.clock import SystemClock
from headwater.core.config import load
from headwater.core.errors import Fenced, NotOwner, RegionNotFound
from headwater.core.settings import Settings
from headwater.testing.log_ground import fresh
from headwater.wal import requests

pytestmark = [pytest.mark.service("kafka"), pytest.mark.anyio]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Served:
    """What a server of a directory does with regions."""

    def __init__(self, settings: Settings) -> None:
        self.log: LocalLog = local_log(settings, settings.data, SystemClock())
        self.wal = WalPerformer(log=self.log, settings=settings, address="http://127.0.0.1:1")
        self.wal.serve()

    async def close(self) -> None:
        await self.wal.aclose(graceful=True)
        await self.log.aclose()


async def deleted(server: Served, place: dict[str, Any]) -> bool:
    """Delete a region, once the group knows that its former owner has left."""
    try:
        await server.wal.delete(requests.ChangeRegion(**place))
    except NotOwner:
        return False
    return True


async def test_a_server_opens_again_what_it_owned_and_nobody_owns_now(kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(region_reopening, "_PAUSE", 0.5)
    namespace = fresh("wal").replace("_", "-")

    def served(name: str) -> Served:
        file = tmp_path / f"{name}.toml"
        file.write_text(f'data = "{tmp_path / name}"\n[log]\nengine = "kafka"\n[kafka]\nbootstrap = ["{kafka}"]\n')
        return Served(load(file=file).settings)

    def place(region: int, **more: Any) -> dict[str, Any]:
        return {"namespace": namespace, "region": region, **more}

    first, other = served("a"), served("b")
    for region in (1, 2, 3, 4):
        await first.wal.create(requests.NewRegion(**place(region)))
        assert (await first.wal.write(requests.WriteEntries(**place(region, table=1), payloads=[b"x"]))).sequence == 1
    await first.wal.close(requests.CloseRegion(**place(3)))
    await other.wal.take_over(requests.RegionRequest(**place(2)))
    with pytest.raises((Fenced, NotOwner)):  # the group may have given it to the other one before this one saw the claim
        await first.wal.write(requests.WriteEntries(**place(2, table=1), payloads=[b"late"]))
    await first.close()
    notes = tmp_path / "a" / "owned-regions" / namespace
    assert {"1", "4"} <= set(os.listdir(notes)) <= {"1", "2", "4"}
    await until(lambda: deleted(other, place(4)))

    again = served("a")
    await until(lambda: again.wal.opened(namespace, 1))
    await until(lambda: not (notes / "4").exists())  # deleted meanwhile by another server
    assert [again.wal.opened(namespace, region) for region in (2, 3, 4)] == [None] * 3
    assert (await other.wal.write(requests.WriteEntries(**place(2, table=1), payloads=[b"y"]))).sequence == 2
    await other.wal.mark_delete_up_to(requests.MarkTable(**place(2, table=1), sequence=1))
    with pytest.raises(RegionNotFound):
        await again.wal.statistics(requests.RegionRequest(**place(4)))
    assert (await again.wal.write(requests.WriteEntries(**place(1, table=1), payloads=[b"y"]))).sequence == 2
    manager = await again.wal.manager(namespace)
    assert manager.regions() == [1]
    await again.close()
    await other.close()
