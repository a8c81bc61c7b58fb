"""Reads of journals in pages: how large a page may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.client import journal_performer
from headwater.client.journal_performer import JournalPerformer
from headwater.client.journals import Journals
from headwater.client.local import local_log
from headwater.client.local_backend import LocalBackend
from headwater.core.clock import SystemClock
from headwater.core.settings import Settings
from headwater.journal.requests import ReadEvents

pytestmark = pytest.mark.anyio
COUNT, SIZE = 400, 100


async def test_large_events_come_in_small_pages_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_performer, "_LARGE", 20 * SIZE)
    monkeypatch.setattr(journal_performer, "_ANSWER", 110 * SIZE)
    log = local_log(Settings(), tmp_path, SystemClock())
    await log.open()
    performer = JournalPerformer(log=log)
    try:
        bank = await Journals(LocalBackend(log, performers={"journal": performer}))("bank", create=True)
        await bank["alice"].append(*(b"%05d" % number + bytes(SIZE - 5) for number in range(COUNT)))
        request = ReadEvents(topic="journal-bank", id="alice")
        sizes = [len(rows) async for rows in performer.pages(request)]
        assert sum(sizes) == COUNT
        assert (sizes[0], set(sizes[1:])) == (100, {20})
        assert [event.seq_nr async for event in bank["alice"].read()] == list(range(1, COUNT + 1))
        shown, start, pages = 0, 1, 0
        while True:
            page = await performer.read_page(ReadEvents(topic="journal-bank", id="alice", start=start))
            shown, pages = shown + len(page.items), pages + 1
            if page.next is None:
                break
            assert int(page.next) == start + len(page.items)
            start = int(page.next)
        assert shown == COUNT
        assert pages > 2
    finally:
        await performer.aclose()
        await log.aclose()
