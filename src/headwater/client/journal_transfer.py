"""Exports journals as lines, and imports such lines into a topic: the same numbers, times, tags, headers and metadata.

An import compares before it appends. A line whose events are there is passed over, so that an import which was interrupted is simply begun
again; a line that contradicts what is there is refused. Each Append names the number before it as `expected`: two imports at once, or a
writer beside one, make no fork.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from headwater.core.errors import BadInput, Differs, HeadwaterError, NotOwner, WrongExpected
from headwater.journal.change import EventRow
from headwater.journal.exported import (
    FORMAT,
    ExportEnd,
    ExportLine,
    append_lines,
    deleted_append,
    head_line,
    imported_append,
    read_export_line,
    same_events,
)
from headwater.journal.head import Head
from headwater.journal.names import check_id
from headwater.journal.read import PAGE
from headwater.journal.requests import HeadRequest, ReadEvents
from headwater.journal.transfer_requests import ExportJournals, ImportedLines, ImportLines
from headwater.journal.write import Condition, DeleteDraft
from headwater.wire.times import read_time, show_time

if TYPE_CHECKING:
    from headwater.client.journal_performer import JournalPerformer

_IDS = 1000
_TIMES = 5  # how often a line is compared again because its journal has grown


class JournalTransfer:
    """Over the performer of this process. Belongs to its event loop."""

    def __init__(self, performer: JournalPerformer) -> None:
        self._performer = performer

    # -- out --------------------------------------------------------------------------------------------------

    async def export(self, request: ExportJournals) -> AsyncGenerator[ExportLine]:
        """The lines of a topic, or of some journals. Each journal is as it is when its turn comes; memory holds a page of events.

        Errors: `UnknownJournal`; `Conflict` where a journal is purged while it is read; those of reads.
        """
        opened = await self._performer.topics_open.find(request.topic)
        yield ExportLine(format=FORMAT, topic=opened.topic.name)
        journals = events = 0
        async for id in self._ids(request):
            async for line in self._journal(request.topic, id):
                yield line
                events += len(line.events)
                journals += line.head is not None
        yield ExportLine(end=ExportEnd(journals=journals, events=events))

    async def _journal(self, topic: str, id: str) -> AsyncGenerator[ExportLine]:
        """The lines of a journal; none where there is no such journal."""
        begun = await self._begin(topic, id)
        if begun is None:
            return
        head, rows, pages = begun
        count = previous = 0
        waiting: list[EventRow] = []
        while rows:
            waiting += rows
            last = waiting[-1]
            whole = len(waiting)
            while whole and (waiting[whole - 1].partition, waiting[whole - 1].offset) == (last.partition, last.offset):
                whole -= 1  # the next page may hold more of the last Append
            for line in append_lines(id, waiting[:whole], previous):
                yield _behind_deleted(line, head)
            if whole:
                previous = waiting[whole - 1].seq_nr
            count += len(rows)
            waiting = waiting[whole:]
            rows = await anext(pages, [])
        for line in append_lines(id, waiting, previous):
            yield _behind_deleted(line, head)
        yield head_line(id, head, count)

    async def _begin(self, topic: str, id: str) -> tuple[Head, list[EventRow], AsyncIterator[list[EventRow]]] | None:
        """The head of a journal, its first page of events, and the pages behind that; None: there is no such journal.

        All are of one life: the head is looked up again behind the first page. Without that, a Purge in between would join the head of one
        life with the events of another one, and an import would bring a purged journal back.
        """
        now = await self._head(topic, id)
        while now is not None:
            head = now
            pages = self._performer.pages(ReadEvents(topic=topic, id=id, stop=head.seq_nr))
            rows: list[EventRow] = await anext(pages, [])
            now = await self._head(topic, id)
            if now is not None and now.record_id == head.record_id:
                return head, rows, pages
        return None

    async def _ids(self, request: ExportJournals) -> AsyncGenerator[str]:
        wanted = request.wanted_ids()
        if wanted:
            for id in sorted(wanted, key=str.encode):
                yield id
            return
        after: str | None = None
        while page := await self._performer.ids_behind(request.topic, after, _IDS):
            for id in page:
                yield id
            after = page[-1]

    # -- in ---------------------------------------------------------------------------------------------------

    async def import_lines(self, request: ImportLines) -> ImportedLines:
        """Import some lines of an export. Journals are done side by side, the lines of each in their order.

        Errors: `BadInput` with the number of the line, before anything is appended where a line cannot be read; `Differs` with the line
        whose journal is another one here: what other journals of these lines are stays.
        """
        await self._performer.topics_open.find(request.topic)
        by_id: dict[str, list[tuple[int, ExportLine]]] = {}
        for number, text in enumerate(request.lines, request.first_line):
            if not text.strip():
                continue
            line = read_export_line(text, number)
            if line.id is not None:
                check_line_id(line.id, number)
                if line.events:
                    imported_append(line, number)
                by_id.setdefault(line.id, []).append((number, line))
        each = (self._import_journal(request.topic, lines, dry_run=request.dry_run) for lines in by_id.values())
        outcomes = await asyncio.gather(*each, return_exceptions=True)
        failed = sorted((error for error in outcomes if isinstance(error, BaseException)), key=_line_of)
        if failed:
            raise failed[0]
        done = [outcome for outcome in outcomes if isinstance(outcome, tuple)]
        appends, events, there = (sum(each) for each in zip(*done, strict=True)) if done else (0, 0, 0)
        return ImportedLines(lines=len(request.lines), appends=appends, events=events, there=there, dry_run=request.dry_run)

    async def _import_journal(self, topic: str, lines: Sequence[tuple[int, ExportLine]], *, dry_run: bool) -> tuple[int, int, int]:
        """Appends, events, and lines that were there already."""
        appends = events = there = 0
        would: int | None = None  # the last number that the journal would have, in a dry run
        for number, line in lines:
            assert line.id is not None
            if dry_run and (would is not None or line.head is not None):
                if line.events:
                    appends, events, would = appends + 1, events + len(line.events), line.events[-1].seq_nr
                continue
            try:
                count = await self._import_line(topic, line, number, dry_run=dry_run)
                would = line.events[-1].seq_nr if dry_run and count else None
            except (Differs, BadInput):
                raise
            except NotOwner as error:
                raise NotOwner(f"Line {number}: {error.message}", hint=error.hint, address=error.address) from error
            except HeadwaterError as error:
                error.message = f"Line {number}: {error.message}"
                raise
            if count is None:
                there += 1
            else:
                appends, events = appends + (count > 0), events + count
        return appends, events, there

    async def _import_line(self, topic: str, line: ExportLine, number: int, *, dry_run: bool) -> int | None:
        if line.events and not dry_run:
            draft = imported_append(line, number)
            with suppress(WrongExpected):  # it is there, or another one is: compare
                await self._performer.append_draft(topic, draft, Condition(line.previous))
                return draft.count
        for _ in range(_TIMES):
            try:
                if line.events:
                    return await self._append(topic, line, number, dry_run=dry_run)
                return await self._finish(topic, line, number)
            except WrongExpected:
                # Another writer was quicker; or a process that died has left records which nobody could read yet: an import that was killed
                # finds its own. Compare with what is there now.
                continue
        raise _differs(number, line.id or "", "it gets events meanwhile")

    async def _append(self, topic: str, line: ExportLine, number: int, *, dry_run: bool) -> int | None:
        """How many events were appended; None: they are there."""
        id = line.id or ""
        draft = imported_append(line, number)
        head = await self._head(topic, id)
        last = 0 if head is None else head.last
        if last == line.previous or (head is not None and _goes_on(line, head)):
            if not dry_run:
                await self._performer.append_draft(topic, draft, Condition(last))
            return draft.count
        if last < line.previous:
            raise Differs(
                f"Line {number}: journal {id!r:.60} ends with event {last} here, and the line goes on behind {line.previous}.",
                hint="Lines before it are missing: import the whole export.",
            )
        if last < draft.last:
            raise _differs(number, id, f"it ends with event {last} here")
        rows: list[EventRow] = []
        async for page in self._performer.pages(ReadEvents(topic=topic, id=id, start=draft.first, stop=draft.last), PAGE):
            rows += page
        if not same_events(line, draft, rows):
            raise _differs(number, id, f"its events {draft.first} to {draft.last} are others here")
        return None

    async def _finish(self, topic: str, line: ExportLine, number: int) -> int | None:
        """Check the head behind the last event; make the head of a journal whose events are all deleted."""
        wanted, id = line.head, line.id or ""
        assert wanted is not None
        head = await self._head(topic, id)
        if wanted.events:
            if head is None or head.last < wanted.seq_nr:
                raise _differs(number, id, f"it ends with event {0 if head is None else head.last} here, not with {wanted.seq_nr}")
            return None
        made = None
        if head is None:
            await self._performer.append_draft(topic, deleted_append(line, number), Condition(0))
            made = 0
        elif head.last != wanted.seq_nr:
            raise _differs(number, id, f"it ends with event {head.last} here, not with {wanted.seq_nr}")
        if head is None or head.deleted < wanted.seq_nr:
            if head is not None and not await self._is_placeholder(topic, id, wanted.seq_nr):
                raise _differs(number, id, "its events are not deleted here")
            await self._performer.write(topic, DeleteDraft(id, wanted.seq_nr))  # an import that died before this does it now
            made = 0
        return made

    async def _is_placeholder(self, topic: str, id: str, number: int) -> bool:
        rows: list[EventRow] = []
        async for page in self._performer.pages(ReadEvents(topic=topic, id=id, limit=2)):
            rows += page
        return [(row.seq_nr, row.payload) for row in rows] == [(number, None)]

    async def _head(self, topic: str, id: str) -> Head | None:
        return await self._performer.find_head(HeadRequest(topic=topic, id=id))


def _behind_deleted(line: ExportLine, head: Head) -> ExportLine:
    """The first Append of a journal says what was deleted before it."""
    if line.previous or not 0 < head.deleted < line.events[0].seq_nr:
        return line
    return msgspec.structs.replace(line, deleted=head.deleted, created=show_time(head.created))


def _goes_on(line: ExportLine, head: Head) -> bool:
    """Whether a journal ends with an event that the source has deleted since, by the time of the first Append, which an import keeps."""
    return not line.previous and head.last <= line.deleted and line.created is not None and read_time(line.created) == head.created


def check_line_id(id: str, number: int) -> None:
    """Errors: `BadInput` with the line's number."""
    try:
        check_id(id)
    except BadInput as error:
        raise BadInput(f"Line {number}: {error.message}", hint=error.hint) from None


def _differs(number: int, id: str, says: str) -> Differs:
    return Differs(
        f"Line {number}: journal {id!r:.60} is another one than in the export: {says}.",
        hint="Import into a new topic, or leave this journal out of the export (--id).",
    )


def _line_of(error: BaseException) -> int:
    word = str(getattr(error, "message", "")).removeprefix("Line ").partition(":")[0]
    return int(word) if word.isdigit() else 1 << 62
