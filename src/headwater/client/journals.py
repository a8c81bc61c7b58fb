"""The door to journals: topics of journals, and the care of their copies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from headwater.client.backend import Backend
from headwater.client.job import Job
from headwater.client.journal import Journal
from headwater.client.named_projection import NamedProjection
from headwater.core.errors import BadInput, HeadwaterError
from headwater.journal import care_operations as care_ask
from headwater.journal import care_requests as care
from headwater.journal import cipher_operations as cipher_ask
from headwater.journal import operations as ask
from headwater.journal import projection_operations as projection_ask
from headwater.journal import requests
from headwater.journal import transfer_operations as transfer_ask
from headwater.journal.answers import ShownJournals, ShownPointer, TopicStatus
from headwater.journal.append_draft import draft
from headwater.journal.bodies import BulkLine, body_of, read_outcome
from headwater.journal.cipher_operations import RotatedKeys
from headwater.journal.exported import ExportLine, read_export_line
from headwater.journal.names import check_id
from headwater.journal.projection_requests import ShownProjection
from headwater.journal.requests import listed
from headwater.journal.shown import FollowedEvent, followed_event, read_shown
from headwater.journal.transfer_requests import ExportJournals, ImportedLines, ImportLines
from headwater.journal.write import ALWAYS, Appended
from headwater.log.record import check_topic_name
from headwater.wire import json

if TYPE_CHECKING:
    from headwater.client.journal_performer import JournalPerformer

T = TypeVar("T")
_BATCH = 1000
_LINES, _BYTES = 500, 4 << 20  # of one request of an import


def _batches(lines: Iterable[bytes | str | ExportLine]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for line in lines:
        text = line.encode() if isinstance(line, str) else json.encode(line) if isinstance(line, ExportLine) else line
        if not isinstance(text, bytes):
            raise BadInput(f"{line!r:.60} is no line of an export.", hint="Give lines of bytes or text, or what `export` gives.")
        batch.append(text)
        size += len(text)
        if len(batch) >= _LINES or size >= _BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class Journals:
    """Every topic of journals: `bank = hw.journals("bank")`, then `await bank["alice"].append({"type": "opened"})`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __call__(self, topic: str, *, create: bool = False) -> TopicJournals:
        """The journals of a topic: `journals("bank")` is the topic `journal-bank`. Does no I/O.

        Awaiting it checks that it is there, and with `create` makes one that is not. Errors: `BadInput`.
        """
        check_topic_name(topic)
        return TopicJournals(self._backend, topic, create=create)

    async def list(self) -> Sequence[ShownJournals]:
        """Every topic of journals, sorted by name."""
        return await self._backend.ask(ask.LIST, requests.ListJournals())

    async def create(self, topic: str, *, partitions: int = 0, cipher: str = "", dry_run: bool = False) -> ShownJournals:
        """Create a topic of journals. One that is there stays as it is. `partitions`: 0 for the configured number.

        `cipher`, "aes-256-gcm": encrypts the payloads of events that are appended from now on, also of a topic that is there.
        Errors: `AlreadyExists` where it is there with another number of partitions; `BadConfig` for a cipher without a master key.
        """
        request = requests.CreateJournals(topic=topic, partitions=partitions, cipher=cipher, dry_run=dry_run)
        return await self._backend.ask(ask.CREATE, request)


class TopicJournals:
    """The journals of a topic, by their ids.

    Errors of every call: `UnknownJournal` for a topic that is not there; `BadInput`; `Unavailable`. Over HTTP also `Unreachable`.
    """

    def __init__(self, backend: Backend, name: str, *, create: bool = False) -> None:
        self._backend, self.name, self._create = backend, name, create
        self._performer: JournalPerformer | None = backend.performer_here(ask.JOURNAL.name)

    def __await__(self) -> Generator[Any, None, TopicJournals]:
        return self.open().__await__()

    async def open(self) -> TopicJournals:
        """Check that the topic is there, and create it first where that was asked for. Errors: `UnknownJournal`."""
        if self._create:
            await Journals(self._backend).create(self.name)
        else:
            await self.pointers()
        return self

    def __getitem__(self, id: str) -> Journal:
        """A journal by its id. Does no I/O. Errors: `BadInput` for what is no id."""
        return Journal(self._backend, self.name, check_id(id), performer=self._performer)

    async def ids(self) -> AsyncIterator[str]:
        """The ids of all journals, sorted by their UTF-8 bytes. Purged ones are left out."""
        after: str | None = None
        while True:
            page = await self._backend.ask(ask.IDS, requests.LookAtJournals(topic=self.name, after=after, limit=_BATCH))
            for id in page.items:
                yield id
            if page.next is None:
                return
            after = page.next

    async def append_many(self, appends: Sequence[tuple[str, Sequence[Any]]]) -> Sequence[Appended | HeadwaterError]:
        """Append to many journals: pairs of an id and its payloads or `Event`s, each pair one Append, done by itself.

        Returns, for each, where it lies, or the error that it met; those of one journal are done in their order.
        """
        if self._performer is not None:
            return await self._performer.append_drafts(self.name, [self._drafted(id, events) for id, events in appends])
        lines = []
        refused: dict[int, HeadwaterError] = {}
        for index, (id, events) in enumerate(appends):
            drafted = self._drafted(id, events)
            if isinstance(drafted, HeadwaterError):
                refused[index] = drafted
            else:
                lines.append(BulkLine(id=id, events=body_of(events).events))
        sent = await self._backend.ask(ask.APPEND_MANY, requests.AppendMany(topic=self.name, lines=lines)) if lines else b""
        answered = iter(map(read_outcome, sent.splitlines()))
        return [refused[index] if index in refused else next(answered) for index in range(len(appends))]

    def _drafted(self, id: str, events: Sequence[Any]) -> Any:
        try:
            by = (None, None) if self._performer is None else self._performer.by
            return draft(check_id(id), events, by=by), ALWAYS
        except BadInput as error:
            return error

    async def follow(
        self,
        after: str | None = None,
        *,
        tags: Collection[str] | None = None,
        ids: Collection[str] | None = None,
        copied: bool = False,
    ) -> AsyncIterator[FollowedEvent]:
        """The events of the topic, those that were appended and then those that come, for ever. Deletes and Purges take nothing back.

        `after`: the `position` of the last event that was seen; None: from the first one on; "kept": from the first one on that the log
        keeps. `tags`: only events with one of these. `ids`: only these journals. `copied`: what the log has deleted (`journal.keep`) is
        read from the store, without deleted events and purged journals. Errors: `OffsetGone` for records that the log has deleted, or
        with `copied` `LogGap` where the store lacks them; `Differs` for a position of an earlier topic of this name.
        """
        request = requests.FollowJournals(topic=self.name, after=after, tags=listed(tags, "tags"), ids=listed(ids, "ids"), copied=copied)
        if self._performer is not None:
            request.check()
            async for id, row, position in self._performer.followed(request):
                yield followed_event(row, id, str(position))
            return

        def behind(event: Any) -> requests.FollowJournals:
            return msgspec.structs.replace(request, after=event.position)

        async for shown in self._backend.stream(ask.FOLLOW, request, behind):
            event = read_shown(shown)
            assert isinstance(event, FollowedEvent)
            yield event

    async def status(self) -> TopicStatus:
        """The topic and its partitions: what the log keeps, how far it is copied, the head caches."""
        page = await self._backend.ask(ask.IDS, requests.LookAtJournals(topic=self.name, view="status"))
        assert page.status is not None
        return page.status

    async def pointers(self) -> Sequence[ShownPointer]:
        """How far each partition is copied into the store."""
        page = await self._backend.ask(ask.IDS, requests.LookAtJournals(topic=self.name, view="pointers"))
        return page.pointers or []

    # -- the copy in the store --------------------------------------------------------------------------------

    async def stats(self) -> care.TopicStats:
        """Count what the log keeps and what the copy holds, by partition: journals, events, bytes, forks, gaps, deleted, expired, lag."""
        return await self._backend.ask(care_ask.STATS, requests.JournalsRequest(topic=self.name))

    async def forks(self) -> care.ForkReport:
        """The numbers of journals that several events have, as two writers make them, copied or not: the first thousand."""
        return await (await self._backend.start(care_ask.FORKS, requests.JournalsRequest(topic=self.name))).result()

    async def verify(self, *, progress: Callable[[int, int], None] | None = None) -> care.VerifiedCopy:
        """Compare the copy with what the log says; from half a million records on, on Spark. `progress`: is told, about once a second, how
        many records are folded, and of how many. Errors: `Differs` with the first difference; `LogGap` where the log was deleted."""
        return await self._told(await self._backend.start(care_ask.VERIFY, requests.JournalsRequest(topic=self.name)), progress)

    async def _told(self, job: Job[T], progress: Callable[[int, int], None] | None) -> T:
        while progress is not None and (status := await job.status(1)).state == "running":
            progress(status.done, status.total)
        return await job.result()

    async def base(self, *, dry_run: bool = False) -> care.WrittenBase:
        """Verify the copy, and keep what was verified as its base: `rebuild` and `verify` begin with it once the log is deleted.

        Errors: as of `verify`. A base that is interrupted leaves the one before it valid.
        """
        return await (await self._backend.start(care_ask.BASE, care.WriteBase(topic=self.name, dry_run=dry_run))).result()

    async def export(self, *, ids: Collection[str] | None = None) -> AsyncIterator[ExportLine]:
        """Everything that the journals are, one Append a line: for `import_lines`, of this topic or another one, here or elsewhere.

        `ids`: only these journals. Each journal is as it is when its turn comes. Errors: those of reads.
        """
        request = ExportJournals(topic=self.name, ids=listed(ids, "ids"))
        async for line in self._backend.stream(transfer_ask.EXPORT, request):
            yield line

    async def import_lines(self, lines: Iterable[bytes | str | ExportLine], *, dry_run: bool = False) -> ImportedLines:
        """Import what `export` has given, or the lines of its file. Lines that are there already change nothing, so an import that was
        interrupted is begun again.

        Errors: `BadInput` for lines that cannot be read, or end too early; `Differs` for a journal that is another one here; both name the
        line. What came before it stays. `NotOwner` for a topic that others number, too.
        """
        done, number, whole = ImportedLines(lines=0, appends=0, events=0, there=0, dry_run=dry_run), 1, False
        for batch in _batches(lines):
            request = ImportLines(topic=self.name, first_line=number, lines=batch, dry_run=dry_run)
            part = await self._backend.ask(transfer_ask.IMPORT_LINES, request)
            done = ImportedLines(
                lines=done.lines + part.lines,
                appends=done.appends + part.appends,
                events=done.events + part.events,
                there=done.there + part.there,
                dry_run=dry_run,
            )
            number += len(batch)
            whole = any(b'"end"' in line and read_export_line(line, number).end is not None for line in batch[-3:])
        if not whole:
            raise BadInput(
                f"Line {number - 1} is the last, and no line ends the export.", hint="The file was cut: export the journals again."
            )
        return done

    async def rebuild(
        self, *, why: str = "", dry_run: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> care.RebuiltCopy:
        """Let the replicator make the copy anew, from the beginning of the log, or from its base, and wait until it has: where none runs on
        this data directory, the next one does it. `progress`: as of `verify`. Errors: `LogGap` without either; what stops a partition."""
        request = care.RebuildCopy(topic=self.name, why=why, dry_run=dry_run)
        return await self._told(await self._backend.start(care_ask.REBUILD, request), progress)

    async def expire(self, *, dry_run: bool = False) -> care.ExpiredJournals:
        """Remove the copied journals whose day has come, UTC. A replicator does so once a day."""
        return await self._backend.ask(care_ask.EXPIRE, care.ExpireJournals(topic=self.name, dry_run=dry_run))

    async def rotate(self, *, why: str = "", dry_run: bool = False) -> RotatedKeys:
        """Wrap the keys of encrypted journals with the newest master key. No event is written anew. Errors: `BadInput` for a topic that is
        not encrypted; `Undecryptable` where a master key is not configured that is still needed."""
        return await self._backend.ask(cipher_ask.ROTATE, cipher_ask.RotateKeys(topic=self.name, why=why, dry_run=dry_run))

    async def dead(self) -> Sequence[care.ShownDead]:
        """The records that cannot be decoded: those that are left out, and those that stop their partition."""
        return await self._backend.ask(care_ask.DEAD, requests.JournalsRequest(topic=self.name))

    async def dead_show(self, partition: int, offset: int, *, snapshots: bool = False) -> care.DeadContent:
        """A record with its bytes, and why it cannot be decoded. `snapshots`: a record of the topic of snapshots."""
        place = care.DeadPlace(topic=self.name, partition=partition, offset=offset, snapshots=snapshots)
        return await self._backend.ask(care_ask.DEAD_SHOW, place)

    async def dead_quarantine(
        self, partition: int, offset: int, *, why: str, snapshots: bool = False, dry_run: bool = False
    ) -> care.ShownDead:
        """Leave out a record that cannot be decoded: its partition goes on behind it. Errors: `BadInput` for one that can be decoded."""
        request = care.QuarantineRecord(topic=self.name, partition=partition, offset=offset, snapshots=snapshots, why=why, dry_run=dry_run)
        return await self._backend.ask(care_ask.DEAD_QUARANTINE, request)

    async def dead_drop(self, partition: int, offset: int, *, why: str, snapshots: bool = False, dry_run: bool = False) -> care.ShownDead:
        """`dead_quarantine`, by the name that dead things of every part have for it."""
        request = care.DropRecord(topic=self.name, partition=partition, offset=offset, snapshots=snapshots, why=why, dry_run=dry_run)
        return await self._backend.ask(care_ask.DEAD_DROP, request)

    async def dead_retry(
        self, partition: int, offset: int, *, why: str = "", snapshots: bool = False, dry_run: bool = False
    ) -> care.RetriedRecord:
        """Count a record again that can be decoded by now. Errors: `UnreadableRecord` where it still cannot be."""
        request = care.RetryRecord(topic=self.name, partition=partition, offset=offset, snapshots=snapshots, why=why, dry_run=dry_run)
        return await self._backend.ask(care_ask.DEAD_RETRY, request)

    # -- projections ------------------------------------------------------------------------------------------

    async def projections(self) -> Sequence[ShownProjection]:
        """The projections of the topic that somebody has run, sorted by name."""
        return await self._backend.ask(projection_ask.PROJECTIONS, requests.JournalsRequest(topic=self.name))

    def projection(self, name: str) -> NamedProjection:
        """A projection by its name. Does no I/O. Errors: `BadInput` for what is no name."""
        return NamedProjection(self._backend, self.name, name)
