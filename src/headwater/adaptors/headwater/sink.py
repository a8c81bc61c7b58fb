"""Appending to topics: a batch counts once every record of it is durable in the log."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

from headwater.adaptors.converting_writer import ConvertingWriter, as_unreachable, rejected
from headwater.adaptors.headwater.adaptor import HeadwaterAdaptor
from headwater.adaptors.headwater.address import resolved_address
from headwater.adaptors.headwater.connection import BYTES, HeadwaterConnection, counted, opened
from headwater.adaptors.headwater.formats import OFFSET, SENT, as_bytes, as_json
from headwater.adaptors.pieces import portions
from headwater.core.errors import (
    AlreadyExists,
    BadInput,
    Fenced,
    HeadwaterError,
    NotFound,
    ReadOnly,
    Rejected,
    TooLarge,
    Unavailable,
    UnknownTopic,
    Unsupported,
)
from headwater.log.epochs import Epochs
from headwater.log.layout import too_large
from headwater.log.partitioner import partition_for
from headwater.log.record import Bounds, Record, Topic
from headwater.pipeline import values
from headwater.pipeline.location import TOPICS, Location
from headwater.pipeline.message import Message
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Batch, Part, SinkAdaptor, SinkWriter

_ONCE = 10_000
Sent = tuple[int, Record]  # the message's offset, and what it became
Addressed = tuple[str, int, Sent]  # with its topic and partition


class HeadwaterSink(SinkAdaptor[HeadwaterAdaptor]):
    """Topics, which are created where they are missing."""

    def check(self, chosen: Namespaces) -> list[str]:
        adaptor = self.adaptor
        adaptor.check_written()
        place = resolved_address(adaptor)
        if place.kind == "directory":
            near = place.where
            while not os.path.exists(near):
                near = os.path.dirname(near)
            if not os.access(near, os.W_OK):
                raise ReadOnly(f"{near} cannot be written by this process.", hint="Change its permissions, or name another directory.")
        with opened(adaptor, read_only=False) as connection:
            if "{namespace}" in adaptor.topic:
                connection.probe(None)
                return [f"{len(connection.names())} topics at {connection.where}; those that are missing will be made"]
            try:
                topic = connection.find(adaptor.topic)
            except UnknownTopic:
                connection.probe(None)
                return [f"topic {adaptor.topic} at {connection.where} will be made, with {counted(adaptor.partitions)}"]
            connection.probe(topic)
            return [f"topic {adaptor.topic} at {connection.where}: {counted(topic.partitions)}"]

    def begin(self, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]] | None:
        """Create the topic. This also reports a wrong token before the first message."""
        self.adaptor.check_written()
        if (address := resolved_address(self.adaptor)).kind == "directory":
            os.makedirs(address.where, exist_ok=True)
        if "{namespace}" not in self.adaptor.topic:
            with opened(self.adaptor, read_only=False) as connection:
                topic = made(connection, self.adaptor.topic, self.adaptor.partitions)
                connection.probe(topic)
        return None

    def seen(self, part: Part) -> bool:
        address = resolved_address(self.adaptor)
        return address.kind != "directory" or os.path.isdir(address.where)

    def writer(self, part: Part) -> SinkWriter:
        return HeadwaterWriter(self.adaptor, part)

    def stored(self, data: dict[str, Any]) -> dict[str, Any]:
        return values.decode(values.encode(data))  # floats are plain numbers there

    def place(self, namespace: str) -> str:
        return self.adaptor.topic_for(namespace)

    def overlaps(self, reads: Sequence[Location]) -> list[Location]:
        ids = {place.name for place in reads if place.system == TOPICS and place.name}
        with opened(self.adaptor, read_only=False) as connection:
            wanted = connection.names() if "{namespace}" in self.adaptor.topic else [self.adaptor.topic]
            return [Location(TOPICS, name) for name in wanted if _generation(connection, name) in ids]

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        """The last document of each key; of records without a key each message once, however often it was sent."""
        if self.adaptor.format == "bytes":
            raise Unsupported("Records of the format bytes cannot be compared as documents.", hint="Compare the topics.")
        with opened(self.adaptor, read_only=True) as connection:
            try:
                topic = connection.topic(self.adaptor.topic_for(namespace))
            except NotFound:
                return
            every = connection.all_bounds(topic)
            # Two passes: find the last record of each key, then return these. The documents may not fit into memory.
            last = {_told_apart(number, record): (number, record.offset) for number, record in _admitted(connection, topic, every)}
            for number, record in _admitted(connection, topic, every):
                if record.value is not None and last[_told_apart(number, record)] == (number, record.offset):
                    yield values.decode(record.value)


class HeadwaterWriter(ConvertingWriter[Addressed]):
    """Where a message is refused, all before it are appended; those behind it may be."""

    def __init__(self, adaptor: HeadwaterAdaptor, part: Part) -> None:
        self._adaptor = adaptor
        self._connection = opened(adaptor, read_only=False, seconds=part.timeout)
        super().__init__(part, self._connection.where)
        self._topics: dict[str, Topic] = {}
        if "{namespace}" not in adaptor.topic:
            try:
                self._found(adaptor.topic)
            except BaseException:
                self._connection.close()
                raise

    def write(self, batch: Batch) -> None:
        try:
            super().write(batch)
        except (Rejected, Fenced):
            raise
        except Unavailable as error:
            raise self.late() if self._clock() >= self._deadline else error from error
        except HeadwaterError as error:  # a wrong token, a log that is damaged
            self._topics.clear()
            raise as_unreachable(error) from error

    def send(self, converted: Sequence[Addressed]) -> None:
        groups: dict[tuple[str, int], list[Sent]] = {}
        for topic, partition, sent in converted:
            groups.setdefault((topic, partition), []).append(sent)
        refused: list[Rejected] = []
        for (topic, partition), every in groups.items():
            for some in portions(every, _size, BYTES):
                if (no := self._append(topic, partition, some)) is not None:
                    refused.append(no)
                    break
        if refused:
            raise min(refused, key=lambda no: no.offset)

    def close(self) -> None:
        self._connection.close()

    # -- one message ----------------------------------------------------------------------------------------

    def convert(self, message: Message) -> Addressed:
        name = self._adaptor.topic_for(message.namespace)
        topic = self._topics.get(name) or self._found(name)
        record = as_bytes(message) if self._adaptor.format == "bytes" else as_json(message, f"{self._part.pipeline}/{self._part.sink}")
        size = _size((message.offset, record))  # without headers; the append checks those
        if size > topic.settings.max_record:
            raise too_large(size, topic.settings.max_record)
        return name, self._partition(topic, message, record), (message.offset, record)

    def _found(self, name: str) -> Topic:
        topic = made(self._connection, name, self._adaptor.partitions)
        self._topics[name] = topic
        return topic

    def _partition(self, topic: Topic, message: Message, record: Record) -> int:
        """The partition of the key, so that changes of one document stay in order; with bytes the partition that the record had."""
        if self._adaptor.format == "bytes":
            number: Any = message.data.get("partition")
            if isinstance(number, int) and 0 <= number < topic.partitions:
                return number
        if record.key is not None:
            return partition_for(record.key, topic.partitions)
        return max(0, message.offset) % topic.partitions

    # -- one append -----------------------------------------------------------------------------------------

    def _append(self, topic: str, partition: int, sent: Sequence[Sent]) -> Rejected | None:
        """Append these. Where one is refused, append those before it, and return the refusal."""
        left = self.left()
        self.fence()
        try:
            self._connection.append(topic, partition, [record for _, record in sent], left)
        except Fenced:
            raise ReadOnly(
                f"Partition {partition} of {topic} at {self._connection.where} has another owner.",
                hint="Name a topic that everybody may append to.",
            ) from None
        except BadInput as error:
            if len(sent) == 1:
                if isinstance(error, TooLarge):
                    error = TooLarge(error.message, hint="Make it smaller with edit, or raise max_record of the topic.")
                return rejected(sent[0][0], error)
            half = len(sent) // 2
            return self._append(topic, partition, sent[:half]) or self._append(topic, partition, sent[half:])
        return None


def _generation(connection: HeadwaterConnection, name: str) -> str | None:
    """A topic's generation; None where it does not exist."""
    try:
        return connection.find(name).generation
    except UnknownTopic:
        return None


def made(connection: HeadwaterConnection, name: str, partitions: int) -> Topic:
    """The topic, created where it does not exist. An existing one keeps its partitions."""
    try:
        return connection.find(name)
    except UnknownTopic:
        pass
    try:
        return connection.create(name, partitions)
    except AlreadyExists:  # another task has created it
        return connection.find(name)


def _admitted(connection: HeadwaterConnection, topic: Topic, every: Sequence[Bounds]) -> Iterator[tuple[int, Record]]:
    """The records within these bounds that no newer claim fences, with their partitions."""
    for number, bounds in enumerate(every):
        at, epochs = bounds.start, Epochs()
        while at < bounds.end and (records := connection.read(topic.name, number, at, _ONCE)):
            for record in records:
                if (record.offset or 0) < bounds.end and epochs.admits(record):
                    yield number, record
            at = (records[-1].offset or 0) + 1


def _told_apart(partition: int, record: Record) -> bytes:
    """A digest of the key; without a key, of the message's origin, or of the record's offset."""
    if record.key is not None:
        return blake2b(record.key, digest_size=16, person=b"key").digest()
    headers = dict(record.headers)
    if SENT in headers:
        return blake2b((headers[SENT] or b"") + b" " + (headers.get(OFFSET) or b""), digest_size=16, person=b"message").digest()
    return blake2b(b"%d/%d" % (partition, record.offset or 0), digest_size=16, person=b"offset").digest()


def _size(sent: Sent) -> int:
    return len(sent[1].key or b"") + len(sent[1].value or b"")
