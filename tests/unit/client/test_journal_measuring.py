from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.client.journal_ground import copy_all

from headwater.client.journal_measuring import journal_metrics
from headwater.client.journal_performer import JournalPerformer
from headwater.client.journals import Journals
from headwater.client.local import local_log
from headwater.client.local_backend import LocalBackend
from headwater.core.settings import Settings
from headwater.journal.requests import HeadRequest, ReadEvents
from headwater.journal.write import DeleteDraft, MarkDraft, PurgeDraft
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio


async def test_calls_caches_and_lag_of_this_process(tmp_path: Path) -> None:
    clock = ManualClock(1_800_000_000)
    log = local_log(Settings(), tmp_path, clock)
    await log.open()
    performer = JournalPerformer(log=log, clock=clock)
    performer.metrics = journal_metrics(performer.topics_open, clock)
    try:
        bank = await Journals(LocalBackend(log, clock=clock, performers={"journal": performer}))("bank", create=True)
        await bank["alice"].append(1, 2, 3)  # the door measures nothing: a server's calls go through `write`
        await performer.write("bank", MarkDraft("alice", "m"))
        await performer.write("bank", DeleteDraft("alice", 1))
        await performer.write("bank", PurgeDraft("bob"))
        read = [rows async for rows in performer.pages(ReadEvents(topic="bank", id="alice"))]
        assert sum(map(len, read)) == 2
        assert await performer.last_number(HeadRequest(topic="journal-bank", id="alice")) == 3
        clock.advance(2)

        def values() -> dict[tuple[str, ...], float]:
            assert performer.metrics is not None
            return {
                (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
                for family in performer.metrics.families()
                for sample in family.samples
                if "le" not in sample.labels
            }

        found = values()
        for type, calls in (("mark", 1), ("delete", 1), ("purge", 1), ("read", 1), ("pointer", 1)):
            assert found["headwater_journal_call_seconds_count", "journal-bank", type] == calls
        assert found["headwater_journal_events_total", "journal-bank", "read"] == 2
        assert found["headwater_journal_cache_lookups_total", "hit", "journal-bank"] > 0
        lags = {place: value for place, value in found.items() if place[0] == "headwater_replicator_lag_records"}
        assert sum(lags.values()) == 3  # nobody purges what is not there
        assert max(found["headwater_replicator_lag_seconds", str(number), "journal-bank"] for number in range(2)) == 2.0
        await copy_all(log, tmp_path, "journal-bank")
        assert sum(value for place, value in values().items() if place[0] == "headwater_replicator_lag_records") == 3  # not asked again
        clock.advance(5)
        assert sum(value for place, value in values().items() if place[0] == "headwater_replicator_lag_records") == 0
    finally:
        await performer.aclose()
        await log.aclose()
