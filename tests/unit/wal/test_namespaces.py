"""Regions of another part: everybody looks at them, and their part alone changes them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headwater import parts
from headwater.client.local import local_log
from headwater.client.local_backend import LocalBackend
from headwater.client.wal import WriteAheadLog
from headwater.client.wal_performer import WalPerformer
from headwater.core.clock import SystemClock
from headwater.core.errors import OwnedTopic
from headwater.core.settings import Settings
from headwater.wal import requests
from headwater.wal.namespaces import check_change
from headwater.wal.operations import WAL
from headwater.wal.region_topics import region_topics
from headwater.wal.settings import RegionSettings
from headwater.wire.part import PartDefinition

pytestmark = pytest.mark.anyio
PART = PartDefinition(name="toy", door="toy", operations=(), performs="", offers="", regions=("toy",), instead=f"{__name__}:instead")
PLACE: dict[str, Any] = {"namespace": "toy", "region": 7}
REQUESTS = {
    "create": requests.NewRegion(**PLACE),
    "open": requests.RegionRequest(**PLACE),
    "take_over": requests.RegionRequest(**PLACE),
    "close": requests.CloseRegion(**PLACE),
    "delete": requests.ChangeRegion(**PLACE, dry_run=True),
    "write": requests.WriteEntries(**PLACE, table=1, payloads=[b"x"]),
    "mark_delete_up_to": requests.MarkTable(**PLACE, table=1, sequence=1),
    "drop_table": requests.ChangeTable(**PLACE, table=1),
    "move": requests.ChangeTable(**PLACE, table=1),
}
CARE = {"clean": requests.ChangeRegion(**PLACE), "recover": requests.RecoverRegion(**PLACE)}


def instead(topic: str, operation: str) -> str:
    return f"Toys do {operation} to {topic}: `headwater toy play`."


@pytest.fixture(autouse=True)
def toy_is_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PARTS", (*parts.PARTS, PART))


@pytest.fixture
async def performer(tmp_path: Path) -> AsyncIterator[WalPerformer]:
    log = local_log(Settings(), tmp_path / "data", SystemClock())
    await log.open()
    made = WalPerformer(log=log)
    await (await made.manager("toy")).open(7, create=RegionSettings())  # as the part does it
    await (await made.manager("toy")).write(7, 1, [b"a"])
    yield made
    await made.aclose()
    await log.aclose()


async def test_every_change_is_refused_with_the_command_of_the_part(performer: WalPerformer) -> None:
    changing = {operation.name: operation for operation in WAL.operations if operation.changes}
    assert set(changing) == {*REQUESTS, *CARE}
    backend = LocalBackend(performer._log, performers={"wal": performer})
    for name, request in REQUESTS.items():
        with pytest.raises(OwnedTopic, match="belongs to the part toy") as refused:
            await backend.perform(changing[name], request)
        assert refused.value.hint == f"Toys do {name} to toy_data_7: `headwater toy play`."
    assert performer.writes("toy", 7) is None  # the hot path leaves it to the refusal
    for name, request in CARE.items():
        await backend.perform(changing[name], request)


async def test_looking_stays(performer: WalPerformer) -> None:
    region = WriteAheadLog(LocalBackend(performer._log, performers={"wal": performer}))("toy")[7]
    assert [entry.payload async for entry in region.read(1)] == [b"a"]
    assert [entry.payload async for entry in region.scan()] == [b"a"]
    assert (await region.statistics()).live_entries == 1
    assert len(await region.tables()) == 1
    assert (await region.why()).table == 1
    assert (await region.verify()).tables == 1


async def test_the_topics_of_such_a_region_name_the_command_of_the_part(performer: WalPerformer) -> None:
    log = await performer._log.open()
    for topic in ("toy_data_7", "toy_meta_7"):
        with pytest.raises(OwnedTopic) as refused:
            log.delete_topic(topic)
        assert refused.value.hint == f"Toys do delete_topic to {topic}: `headwater toy play`."


def test_other_namespaces_are_everybodys() -> None:
    check_change(region_topics("wal", 7), "write")
    with pytest.raises(OwnedTopic):
        check_change(region_topics("toy", 7), "write")
