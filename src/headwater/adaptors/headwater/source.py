"""Reading a topic: as changes in order, or as a copy in parallel ranges of offsets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Any

import msgspec

from headwater.adaptors.converting_writer import blaming_no_message
from headwater.adaptors.headwater.adaptor import HeadwaterAdaptor
from headwater.adaptors.headwater.connection import BYTES, HeadwaterConnection, counted, opened
from headwater.adaptors.headwater.formats import BytesDecoder, Decoder, JsonDecoder, MessageDecoder, TableDecoder, table_of, topic_of
from headwater.adaptors.headwater.lent_messages import LentMessages
from headwater.adaptors.headwater.stored_reader import stored_reader
from headwater.adaptors.pieces import portions
from headwater.core.errors import BadBounds, Differs, NotFound, OffsetGone, Unavailable, UnknownTopic, Unreachable
from headwater.log.epochs import Epochs, unmarked
from headwater.log.record import Record, Topic
from headwater.pipeline.location import TOPICS, Location
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.piece_size import piece_size
from headwater.pipeline.source_adaptor import CopyPlan, Piece, Slice, SourceAdaptor
from headwater.pipeline.source_progress import CopySize

_ONCE = 10_000  # records asked for at once
_LOOK = 5.0  # seconds between two checks that the topic was not created anew
READ_AGAIN = "Read it anew from its beginning with `headwater pipeline run FILE --again`."


class HeadwaterSource(SourceAdaptor[HeadwaterAdaptor]):
    """One topic. A position is that of each partition, as `TopicPartitionReader` has it."""

    def check(self, chosen: Namespaces) -> list[str]:
        self.adaptor.check_read()
        with opened(self.adaptor, read_only=True) as connection:
            topic = self._topic(connection, chosen)
            count = sum(bounds.end - bounds.start for bounds in connection.all_bounds(topic))
            return [f"topic {topic.name} at {connection.where}: {counted(topic.partitions)}, {count:,} offsets"]

    def locations(self, chosen: Namespaces) -> list[Location]:
        """The topic, by its generation: it is the same one at every address."""
        self.adaptor.check_read()
        with opened(self.adaptor, read_only=True) as connection:
            return [Location(TOPICS, self._topic(connection, chosen).generation)]

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        self.adaptor.check_read()
        with blaming_no_message(Unavailable), opened(self.adaptor, read_only=True) as connection:
            topic = self._topic(connection, chosen)
            # Changes begin behind claims that the copy reads: without them, what a superseded writer appends later would count.
            both = self.adaptor.tail and self.adaptor.copy
            claimed = connection.claimed_bounds(topic) if both else [(bounds, 0) for bounds in connection.all_bounds(topic)]
            every = [bounds for bounds, _ in claimed]
            ids = self._ids(connection)
            identity = {"topic": topic.name, "generation": topic.generation}
            size = CopySize(total=sum(bounds.end - bounds.start for bounds in every), unit="offsets")
            if self.adaptor.tail and not self.adaptor.copy:
                at = {str(number): [bounds.start, 0] for number, bounds in enumerate(every)}
                cursor = {"generation": topic.generation, "at": at, "before": sum(bounds.start for bounds in every)}
                return CopyPlan(identity=identity, slices=(), ids=ids, cursor=cursor, size=size)
            share = max(1, -(-size.total // max(1, slices)))
            parts = [
                Slice(
                    self.adaptor.topic,
                    {"partition": number, "begin": begin, "end": end, "generation": topic.generation, "chosen": str(chosen)},
                    end - begin,
                )
                for number, bounds in enumerate(every)
                for begin, end in _cut(bounds.start, bounds.end, share if connection.splits else bounds.end - bounds.start)
            ]
            at = {str(number): [bounds.end, epoch] for number, (bounds, epoch) in enumerate(claimed)}
            cursor = {"generation": topic.generation, "at": at}
            repeats = len(parts) == len({part.spec["partition"] for part in parts})
            return CopyPlan(identity=identity, slices=tuple(parts), ids=ids, cursor=cursor, size=size, repeats=repeats)

    def unit(self, part: Slice) -> tuple[str, Any]:
        return part.namespace, part.spec["generation"]

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        with blaming_no_message(Unavailable), opened(self.adaptor, read_only=True) as connection:
            try:
                topic = connection.topic(topic_of(self.adaptor.format, self.adaptor.topic))
            except NotFound:
                return False
            return plan.identity == {"topic": topic.name, "generation": topic.generation}

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        """The records of a range of a partition."""
        number, end, chosen = part.spec["partition"], part.spec["end"], Namespaces(part.spec["chosen"])
        with opened(self.adaptor, read_only=True) as connection:
            topic = same_topic(connection, topic_of(self.adaptor.format, self.adaptor.topic), part.spec["generation"])
            reading = self._partition(connection, topic, number, position or (part.spec["begin"], 0))
            decoder = self._decoder(connection, chosen, topic.generation)
            while reading.at < end:
                try:
                    records = list(reading.next(end))
                except OffsetGone as error:
                    raise Differs(f"{error.message} The copy needs them.", hint=READ_AGAIN) from error
                for some, after in records:
                    messages, bad = decoder.messages(number, some)
                    yield Piece(position=after, messages=messages, bad=bad, amount=after[0] - part.spec["begin"])

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        """Everything from the cursor on. An empty piece says that there is nothing new."""
        with opened(self.adaptor, read_only=True) as connection, ExitStack() as stack:
            generation, before = cursor["generation"], cursor.get("before")
            topic = same_topic(connection, topic_of(self.adaptor.format, self.adaptor.topic), generation)
            at = {str(number): list(where) for number, where in cursor["at"].items()}
            readers = [self._partition(connection, topic, number, at.setdefault(str(number), [0, 0])) for number in range(topic.partitions)]
            decoder = self._decoder(connection, chosen, generation)
            looked, arrived = time.monotonic(), threading.Event()
            for watching in connection.watch(topic, arrived.set):
                stack.enter_context(watching)
            while not stopped():
                arrived.clear()  # before reading: a record that arrives later ends the wait
                quiet = True
                for reader in readers:
                    for records, after in reader.next(None):
                        quiet = False
                        messages, bad = decoder.messages(reader.number, records)
                        at[str(reader.number)] = after
                        if messages:
                            yield msgspec.structs.replace(_piece(generation, at, before), messages=messages, bad=bad)
                if quiet:
                    yield _piece(generation, at, before)
                    arrived.wait(connection.pause)
                    if time.monotonic() - looked > _LOOK:
                        looked = time.monotonic()
                        same_topic(connection, topic.name, generation)

    def _topic(self, connection: HeadwaterConnection, chosen: Namespaces) -> Topic:
        """The topic to read. Errors: `UnknownTopic`; `NotFound` where the namespaces leave it out."""
        topic = connection.topic(topic_of(self.adaptor.format, self.adaptor.topic))
        if self.adaptor.format != "message" and self.adaptor.topic not in chosen:
            raise NotFound(
                f"The namespace {chosen} does not match {self.adaptor.topic}, the only one of this source.",
                hint="Leave out the source's namespace: it is the topic's name.",
            )
        return topic

    def _partition(self, connection: HeadwaterConnection, topic: Topic, number: int, position: Sequence[int]) -> TopicPartitionReader:
        # In the log of a pipeline every message counts: one that compaction removed before it was read is lost, and must be reported.
        whole = self.adaptor.format == "message" and not self.adaptor.compacted
        lent: LentMessages | None = None
        if self.adaptor.format == "message":
            lent = LentMessages(lambda: stored_reader(connection, topic.name.removeprefix("pipeline-")))
        return TopicPartitionReader(connection, topic.name, number, position, whole=whole, lent=lent)

    def _decoder(self, connection: HeadwaterConnection, chosen: Namespaces, generation: str) -> Decoder:
        match self.adaptor.format:
            case "json":
                return JsonDecoder(self.adaptor.topic, self.adaptor.ids, self.adaptor.decimals)
            case "bytes":
                return BytesDecoder(self.adaptor.topic, self.adaptor.ids)
            case "message":
                return MessageDecoder(self.adaptor.topic, self._ids(connection), chosen, generation)
            case other:
                return TableDecoder(table_of(other, self.adaptor.topic), self.adaptor.topic, self.adaptor.ids)

    def _ids(self, connection: HeadwaterConnection) -> dict[str, tuple[str, ...]]:
        """The id fields by namespace; for another pipeline's log those that its source has declared."""
        if self.adaptor.format != "message":
            return {self.adaptor.topic: self.adaptor.ids}
        try:
            reader = stored_reader(connection, self.adaptor.topic.removeprefix("pipeline-"))
        except UnknownTopic:
            return {}
        declared_ids = reader.plan.get("ids", {}) if reader is not None else {}
        return {name: self.adaptor.ids if self.adaptor.id else tuple(fields) for name, fields in declared_ids.items()}


class TopicPartitionReader:
    """One partition, read from a position on: the next offset, the epoch of the claim that holds there, and the time of the record before,
    where that was read. `whole`: a missing offset is an error."""

    def __init__(
        self,
        connection: HeadwaterConnection,
        topic: str,
        number: int,
        position: Sequence[int],
        *,
        whole: bool,
        lent: LentMessages | None = None,
    ) -> None:
        self._connection, self._topic, self.number, self._whole, self._lent = connection, topic, number, whole, lent
        self.at, epoch, *before = position
        self._before = before[0] if before else 0
        self._epochs = Epochs(epoch)

    def next(self, end: int | None) -> Iterator[tuple[list[Record], list[int]]]:
        """Records in portions of about BYTES, each with the position behind it; none at the end. Errors: `OffsetGone`, `Differs`."""
        self._check_before()
        try:
            with blaming_no_message(Unavailable):  # a reader waits for a server that starts or stops
                records = self._connection.read(self._topic, self.number, self.at, _ONCE if end is None else min(_ONCE, end - self.at))
        except OffsetGone as error:
            raise OffsetGone(f"{error.message} Records were deleted before the pipeline read them.", hint=READ_AGAIN) from error
        except BadBounds as error:
            raise Differs(
                f"{error.message} The pipeline has read more than that: the topic is another one now.", hint=READ_AGAIN
            ) from error
        if end is not None:
            records = [record for record in records if (record.offset or 0) < end]
        if self._whole:
            self._check_whole(records, end)
        left_out, undecided = self._lent.decided(records) if self._lent is not None else (set[int](), None)
        if undecided is not None:
            records = [record for record in records if (record.offset or 0) < undecided]
            if not records and end is not None:
                raise Unreachable(
                    f"The pipeline of {self._topic} reads its source now: whether its messages from {undecided} on count is not known.",
                    hint="Wait until it has read more, or run it again where it has ended.",
                )
        if not records and end is not None:
            self.at = end  # compaction removed the records in between
            yield [], [self.at, self._epochs.epoch]
        for portion in portions(records, _size, piece_size(BYTES)):
            admitted = [unmarked(record) for record in portion if self._epochs.admits(record) and record.offset not in left_out]
            self.at = (portion[-1].offset or 0) + 1
            yield admitted, [self.at, self._epochs.epoch, portion[-1].timestamp or 0]

    def _check_before(self) -> None:
        """Errors: `Differs` where the record before the position is not the one that was read, of an older copy that has grown."""
        known, self._before = self._before, 0
        if not known:
            return
        with suppress(BadBounds, OffsetGone), blaming_no_message(Unavailable):
            before = self._connection.read(self._topic, self.number, self.at - 1, 1)
            if before and before[0].offset == self.at - 1 and before[0].timestamp != known:
                raise Differs(
                    f"Record {self.at - 1} of {self._topic} {self.number} is not the one that the pipeline has read: "
                    "the topic was restored from an older copy.",
                    hint=READ_AGAIN,
                )

    def _check_whole(self, records: Sequence[Record], end: int | None) -> None:
        expected = self.at
        for record in records:
            if record.offset != expected:
                raise self._gone(expected, (record.offset or 0) - 1)
            expected += 1
        if not records and end is not None:
            raise self._gone(expected, end - 1)

    def _gone(self, first: int, last: int) -> OffsetGone:
        return OffsetGone(
            f"Compaction has removed messages {first} to {last} of {self._topic} before they were read.",
            hint="Say compacted=True to read what is left. To read all the next time, give that pipeline a longer compact_every.",
        )


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")


def _cut(start: int, end: int, share: int) -> Iterator[tuple[int, int]]:
    for begin in range(start, end, max(1, share)):
        yield begin, min(end, begin + max(1, share))


def _piece(generation: str, at: dict[str, list[int]], before: int | None) -> Piece:
    """A piece without messages. `before`: the sum of the first offsets, where reading began without a copy."""
    position: dict[str, Any] = {"generation": generation, "at": {number: list(where) for number, where in at.items()}}
    if before is None:
        return Piece(position=position)
    return Piece(position=position | {"before": before}, amount=sum(where[0] for where in at.values()) - before)


def same_topic(connection: HeadwaterConnection, name: str, generation: str) -> Topic:
    with blaming_no_message(Unavailable):  # a reader waits for a server that starts or stops
        topic = connection.topic(name)
    if topic.generation != generation:
        raise Differs(f"The topic {name} at {connection.where} was deleted and made anew.", hint=READ_AGAIN)
    return topic
