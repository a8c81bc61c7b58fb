"""The records of one commit: each call decided against the state that the calls before it leave."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headwater.core.errors import TooLarge
from headwater.documents.calls import DroppedIndexCall, ExpiryCall, IndexCall, PartitionCall, RedriveCall, SettingsCall
from headwater.documents.change import ChangeRecord, encode_record
from headwater.documents.decisions import Decided, Moment, decide, decide_batch, decide_expiry
from headwater.documents.draft_body import ReadBatch, ReadDraft
from headwater.documents.idempotency import KEY, WriteKeys, check_digest
from headwater.documents.overlaid_view import OverlaidView
from headwater.documents.path import ResourcePath
from headwater.documents.store import AppendedRecord, DocumentHead
from headwater.documents.write import WrittenDocument
from headwater.log.commit_thread import MOST_BYTES
from headwater.log.record import Header, Record

Request = ReadDraft | ReadBatch | PartitionCall
Outcome = WrittenDocument | tuple[WrittenDocument, ...] | ChangeRecord | int | None | BaseException
"""Of a write; of a batch; of a change of definitions or settings; of `RedriveCall`: how many records were applied; None: nothing was to be
done."""
_OVERHEAD = 512  # bytes of a record's headers, and of what a log adds


class PlannedCommit:
    """What a commit appends, and what its calls are told. `number`: of the partition. `end`: of its log, which `state` is as of."""

    def __init__(
        self, state: OverlaidView, number: int, *, end: int, moment: Moment, keys: WriteKeys, max_record: int, kafka: bool
    ) -> None:
        self._state, self._number, self._moment, self._keys = state, number, moment, keys
        self._max_record, self._kafka, self._end = max_record - _OVERHEAD, kafka, end
        self.records: list[Record] = []
        self.decided: list[Decided] = []
        """Of each record."""
        self.outcomes: list[Outcome] = []
        """Of each call; that of a call with a record follows when it is durable."""
        self._placed: dict[int, int] = {}  # calls by number: their record
        self._same: dict[int, int] = {}  # calls by number: the call that they repeat
        self._pending: dict[tuple[str, str], int] = {}  # idempotency keys of this commit: the call
        self.size = 0
        """Bytes of the records."""

    @property
    def full(self) -> bool:
        """Whether no further call may be added."""
        return self.size > MOST_BYTES

    def add(self, request: Request) -> None:
        """Decide a call. Its error is its own: those of the others do not notice."""
        call = len(self.outcomes)
        self.outcomes.append(None)
        try:
            decided = self._decided(request, call)
            if decided is not None:
                self._place(call, decided)
        except Exception as error:  # also a mistake of ours: it must not fail the calls beside it
            self.outcomes[call] = error

    def accepted(self, offsets: Sequence[int], *, applied: bool) -> None:
        """The first records are durable, at these offsets."""
        for call, place in self._placed.items():
            if place < len(offsets):
                self.outcomes[call] = self._answer(self.decided[place], offsets[place], applied)

    def refused(self, error: BaseException, since: int = 0) -> None:
        """The records from one on are not there."""
        for call, place in self._placed.items():
            if place >= since:
                self.outcomes[call] = error

    def answers(self) -> list[Outcome]:
        """The outcomes, once every record was accepted or refused."""
        for call, first in self._same.items():
            self.outcomes[call] = replayed(self.outcomes[first])
        return self.outcomes

    def heads(self) -> dict[str, DocumentHead | None]:
        """Of the documents that the records change, after them."""
        return {decided.record.uri: self._state.head(decided.record.uri) for decided in self.decided}

    def appended(self, offsets: Sequence[int]) -> list[AppendedRecord]:
        """The first records, as the log has them at these offsets."""
        return [AppendedRecord(offset, self._moment.now, decided.record) for offset, decided in zip(offsets, self.decided, strict=False)]

    def offsets_of(self, appended_records: Sequence[AppendedRecord]) -> list[int]:
        """The offsets of the first records that are among those at the log's end. The time tells them from another owner's."""
        offsets: list[int] = []
        for decided, appended in zip(self.decided, appended_records, strict=False):
            if appended.record != decided.record or appended.time != self._moment.now:
                break
            offsets.append(appended.offset)
        return offsets

    # -- deciding ---------------------------------------------------------------------------------------------

    def _decided(self, request: Request, call: int) -> Decided | None:
        state, moment = self._state, self._moment
        if isinstance(request, ReadDraft):
            if request.draft.key and self._repeated(request.draft.path.uri, request.draft.key, request.digest, call, alone=True):
                return None
            return decide(state, request, moment)
        if isinstance(request, ReadBatch):
            if request.key and self._repeated(request.uri, request.key, request.digest, call, alone=False):
                return None
            return decide_batch(OverlaidView(state), request, moment, most=self._max_record)
        if isinstance(request, ExpiryCall):
            return decide_expiry(state, request.path, moment.now)
        if isinstance(request, RedriveCall):
            return None
        record = self._definition(request)
        return None if record is None else Decided(record, ())

    def _definition(self, request: IndexCall | DroppedIndexCall | SettingsCall) -> ChangeRecord | None:
        uri, head = request.uri, self._state.head(request.uri)
        generation = 1 if head is None else head.generation
        if isinstance(request, SettingsCall):
            settings = request.decide(b"" if head is None else head.settings)
            return None if settings is None else ChangeRecord(uri=uri, generation=generation, settings=msgspec.Raw(settings))
        indexes = self._state.indexes(uri)
        if isinstance(request, DroppedIndexCall):
            if not any(definition.number == request.number for definition in indexes):
                return None
            return ChangeRecord(uri=uri, generation=generation, dropped_index=request.number)
        # An offset of the partition is a number that no index of it can have had.
        index = request.decide(indexes, self._end + len(self.records) + 1)
        return None if index is None else ChangeRecord(uri=uri, generation=generation, index=index)

    def _repeated(self, uri: str, key: str, digest: str, call: int, *, alone: bool) -> bool:
        """Whether the request was made before under its key: then its answer is known, or follows with the one of this commit."""
        first = self._pending.get((uri, key))
        if first is not None:
            check_digest(self.decided[self._placed[first]].record.idempotency, uri, key, digest)
            self._same[call] = first
            return True
        before = self._keys.answered(uri, key, digest, self._end)
        if before is None:
            return False
        answers = replayed(_answers_of(before.record, before.offset, self._number))
        self.outcomes[call] = answers[0] if alone and isinstance(answers, tuple) else answers
        return True

    def _place(self, call: int, decided: Decided) -> None:
        record, value = decided.record, encode_record(decided.record)
        if len(value) + len(record.uri) > self._max_record:
            raise TooLarge(f"The record of {record.uri} would have {len(value)} bytes.", hint=f"A record has at most {self._max_record}.")
        self._state.add(AppendedRecord(self._end + len(self.records), self._moment.now, record))
        self._placed[call] = len(self.records)
        if record.idempotency is not None:
            self._pending[record.uri, record.idempotency.key] = call
        self.records.append(Record(record.uri.encode(), value, _headers(decided, self._kafka), self._moment.now))
        self.decided.append(decided)
        self.size += len(value)

    def _answer(self, decided: Decided, offset: int, applied: bool) -> Outcome:
        if not decided.writes:
            return decided.record
        writes = tuple(
            WrittenDocument(
                path=write.path,
                revision=write.change.revision,
                partition=self._number,
                offset=offset,
                created=write.change.created,
                applied=applied,
                begins=write.begins,
            )
            for write in decided.writes
        )
        return writes if decided.batch else writes[0]


def _answers_of(record: ChangeRecord, offset: int, number: int) -> tuple[WrittenDocument, ...]:
    return tuple(
        WrittenDocument(
            path=ResourcePath(record.uri, change.item), revision=change.revision, partition=number, offset=offset, created=change.created
        )
        for change in record.changes
    )


def replayed(outcome: Outcome) -> Outcome:
    """The outcome for a call that repeats the one that had this outcome."""
    if isinstance(outcome, tuple):
        return tuple([msgspec.structs.replace(written, replayed=True) for written in outcome])
    return msgspec.structs.replace(outcome, replayed=True) if isinstance(outcome, WrittenDocument) else outcome


def _headers(decided: Decided, kafka: bool) -> tuple[Header, ...]:
    """Kafka's consumers read a single change by its headers. A key is in a header, so that it is found without reading the records."""
    record, headers = decided.record, list[Header]()
    if kafka and len(record.changes) == 1:
        change, path = record.changes[0], ResourcePath(record.uri, record.changes[0].item)
        headers += [
            ("uri", path.text.encode()),
            ("method", b"feed:" + change.method.encode()),
            ("revision", str(change.revision).encode()),
        ]
    if record.idempotency is not None:
        headers.append((KEY, record.idempotency.key.encode()))
    return tuple(headers)
