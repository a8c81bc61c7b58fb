"""Exports and imports, over a directory and over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.client.journal_ground import copy_all, journal_backend

from headwater.client import journals as journal_module
from headwater.client.backend import Backend
from headwater.client.journal_performer import JournalPerformer
from headwater.client.journals import Journals, TopicJournals
from headwater.client.local import LocalLog
from headwater.core.errors import BadInput, Differs, UnknownJournal
from headwater.journal.event import Event
from headwater.journal.head import Head
from headwater.journal.requests import HeadRequest
from headwater.testing.clock import ManualClock
from headwater.wire import json

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_800_000_000)


@pytest.fixture(params=["directory", "http"])
async def opened(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[tuple[Backend, LocalLog, Path]]:
    async with journal_backend(tmp_path / "data", request.param, clock) as (backend, log):
        yield backend, log, tmp_path / "data"


@pytest.fixture
def journals(opened: tuple[Backend, LocalLog, Path]) -> Journals:
    return Journals(opened[0])


async def filled(journals: Journals) -> TopicJournals:
    """Journals of every kind: plain, with everything, with gaps, partly and wholly deleted, purged."""
    bank = await journals("bank", create=True)
    await bank["plain"].append({"n": 1}, {"n": 2})
    await bank["plain"].append({"n": 3})
    await bank["rich"].append(
        b"\x00", "text", {"x": 1}, tags=("t",), headers={"k": "v"}, metadata=[1], header_metadata=2, expire_after="3d"
    )
    await bank["gap"].append(Event(None, 5), Event(1, 9))
    await bank["part"].append(1, 2, 3)
    await bank["part"].delete(to=2)
    await bank["gone"].append(1, 2)
    await bank["gone"].delete(to=2)
    await bank["purged"].append(1)
    await bank["purged"].purge()
    return bank


async def exported(topic: TopicJournals, **asked: object) -> list[bytes]:
    return [json.encode(line) async for line in topic.export(**asked)]  # type: ignore[arg-type]


async def content(topic: TopicJournals) -> dict[str, object]:
    """What users see of a topic, without places."""
    found: dict[str, object] = {}
    async for id in topic.ids():
        head = await topic[id].head()
        assert head is not None
        events = [
            (e.seq_nr, e.payload, e.tags, e.timestamp, e.origin, e.version, e.metadata, e.header_metadata, dict(e.headers))
            async for e in topic[id].read()
        ]
        found[id] = (head.seq_nr, head.delete_to, head.expire_after, head.expire_on, events)
    return found


async def test_an_import_makes_the_same_journals_and_a_second_one_adds_nothing(
    journals: Journals, opened: tuple[Backend, LocalLog, Path]
) -> None:
    bank = await filled(journals)
    lines = await exported(bank)
    assert b'"end"' in lines[-1]
    other = await journals("other", create=True)
    would = await other.import_lines(lines, dry_run=True)
    assert (would.events, would.dry_run) == (9, True)
    assert await content(other) == {}
    done = await other.import_lines(lines)
    assert (done.appends, done.events) == (5, 9)
    assert await content(other) == await content(bank)
    ends = [pointer.end for pointer in await other.pointers()]
    for _ in range(2):
        again = await other.import_lines(lines)
        assert (again.appends, again.events) == (0, 0)
        assert [pointer.end for pointer in await other.pointers()] == ends
        await copy_all(opened[1], opened[2], "journal-other")
    assert await content(other) == await content(bank)


async def test_an_import_goes_on_from_any_line(journals: Journals) -> None:
    bank = await filled(journals)
    lines = await exported(bank)
    wanted = await content(bank)
    for cut in range(1, len(lines)):
        other = await journals(f"other-{cut}", create=True)
        with pytest.raises(BadInput, match=f"Line {cut} is the last"):
            await other.import_lines(lines[:cut])
        await other.import_lines(lines)
        assert await content(other) == wanted


async def test_what_came_since_is_added(journals: Journals) -> None:
    bank = await filled(journals)
    other = await journals("other", create=True)
    await other.import_lines(await exported(bank))
    await bank["plain"].append({"n": 4})
    await bank["new"].append(1)
    assert (await other.import_lines(await exported(bank))).events == 2
    assert await content(other) == await content(bank)


@pytest.mark.parametrize(("deleted", "events"), [(2, [1, 2, 3, 4, 5]), (3, [1, 2, 3, 4, 5]), (4, [1, 2, 3, 5])])
async def test_what_came_since_is_added_where_the_source_has_deleted_what_was_imported(
    journals: Journals, clock: ManualClock, deleted: int, events: list[int]
) -> None:
    bank = await journals("bank", create=True)
    other = await journals("other", create=True)
    await bank["alice"].append(1, 2, 3)
    await other.import_lines(await exported(bank))
    await bank["alice"].append(4)
    await bank["alice"].append(5)
    await bank["alice"].delete(to=deleted)
    lines = await exported(bank)
    for _ in range(2):
        await other.import_lines(lines)
        assert [event.seq_nr async for event in other["alice"].read()] == events
    clock.advance(1)
    await other["bob"].append(1)  # another journal: it began at another time
    with pytest.raises(Differs):
        await other.import_lines([line.replace(b'"alice"', b'"bob"') for line in lines])


async def test_a_journal_that_is_another_one_is_refused_with_its_line(journals: Journals) -> None:
    bank = await filled(journals)
    lines = await exported(bank)
    other = await journals("other", create=True)
    await other["plain"].append({"n": 1}, {"n": "another"})
    number = next(at for at, line in enumerate(lines, 1) if b'"plain"' in line)
    with pytest.raises(Differs, match=f"Line {number}: journal 'plain'"):
        await other.import_lines(lines)
    assert [event.payload async for event in other["plain"].read()] == [{"n": 1}, {"n": "another"}]
    longer = await journals("longer", create=True)
    await longer["gone"].append(1)
    with pytest.raises(Differs, match="journal 'gone'"):
        await longer.import_lines(lines)


async def test_missing_lines_are_noticed(journals: Journals) -> None:
    bank = await filled(journals)
    lines = await exported(bank)
    first = next(at for at, line in enumerate(lines) if b'"plain"' in line)
    other = await journals("other", create=True)
    with pytest.raises(Differs, match=r"goes on behind 2"):
        await other.import_lines([*lines[:first], *lines[first + 1 :]])


@pytest.mark.parametrize("again", [0, 2])
async def test_a_journal_that_is_purged_between_its_head_and_its_events_is_exported_as_one_life(
    journals: Journals, monkeypatch: pytest.MonkeyPatch, again: int
) -> None:
    bank = await journals("bank", create=True)
    await bank["alice"].append(1, 2, 3)
    find_head, purged = JournalPerformer.find_head, False

    async def purging(performer: JournalPerformer, request: HeadRequest) -> Head | None:
        nonlocal purged
        head = await find_head(performer, request)
        if not purged:
            purged = True
            await bank["alice"].purge()
            if again:
                await bank["alice"].append(*[7] * again)
        return head

    monkeypatch.setattr(JournalPerformer, "find_head", purging)
    lines = await exported(bank)
    monkeypatch.undo()
    other = await journals("other", create=True)
    await other.import_lines(lines)
    assert purged
    assert await content(other) == await content(bank)
    assert [event.payload async for event in other["alice"].read()] == [7] * again


async def test_chosen_journals_and_unknown_topics(journals: Journals) -> None:
    bank = await filled(journals)
    lines = await exported(bank, ids={"rich", "nobody"})
    assert b'"journals":1,"events":3' in lines[-1]
    with pytest.raises(UnknownJournal):
        await exported(journals("bnak"))
    with pytest.raises(UnknownJournal):
        await journals("bnak").import_lines(lines)
    with pytest.raises(BadInput, match="Line 2"):
        await bank.import_lines([lines[0], b"{nonsense}", lines[-1]])
    with pytest.raises(BadInput):
        await bank.import_lines([7])  # type: ignore[list-item]


async def test_long_imports_go_in_parts_and_errors_count_from_the_first_line(journals: Journals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "_LINES", 2)
    bank = await filled(journals)
    lines = await exported(bank)
    other = await journals("other", create=True)
    assert (await other.import_lines(lines)).lines == len(lines)
    assert await content(other) == await content(bank)
    with pytest.raises(BadInput, match=f"Line {len(lines)}: "):
        await other.import_lines([*lines[:-1], b"{"])
