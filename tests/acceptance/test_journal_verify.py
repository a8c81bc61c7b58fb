"""A large topic of journals is compared on Spark, by a process of its own, through a server: as a job with progress."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.client.journal_ground import copy_all

from headwater.client.journal_performer import JournalPerformer
from headwater.client.journals import Journals
from headwater.client.local import local_log
from headwater.client.local_backend import LocalBackend
from headwater.client.remote import remote_log
from headwater.core.clock import SystemClock
from headwater.core.errors import Differs
from headwater.core.settings import Settings, SparkSettings
from headwater.testing.app import app_over
from headwater.testing.scripted import served

pytestmark = pytest.mark.anyio


async def test_spark_compares_over_the_door(tmp_path: Path) -> None:
    settings, clock = Settings(data=tmp_path, spark=SparkSettings(master="local[1]")), SystemClock()
    log = local_log(settings, tmp_path, clock)
    await log.open()
    performer = JournalPerformer(log=log, clock=clock, settings=settings)
    performer.care.large = 1
    try:
        bank = await Journals(LocalBackend(log, clock=clock, performers={"journal": performer}))("bank", create=True)
        for number in range(5):
            await bank[f"j{number}"].append(1, 2)
        await copy_all(log, tmp_path, "journal-bank")
        async with served(app_over(log, clock=clock, performers={"journal": performer})) as url:
            remote = remote_log(url, token=None, clock=clock)
            found = await Journals(remote.backend)("bank").verify()
            assert (found.engine, found.events, found.records) == ("spark", 10, 5)
            import apsw

            for path in (tmp_path / "store" / "journal" / "journal-bank").glob("*.db"):
                connection = apsw.Connection(str(path))
                connection.execute("update journal set payload = x'00'")
                connection.close()
            with pytest.raises(Differs, match="rebuild"):
                await Journals(remote.backend)("bank").verify()
            await remote.aclose()
    finally:
        await performer.aclose()
        await log.aclose()
