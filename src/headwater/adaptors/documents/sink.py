"""Writing documents: puts and deletes of whole states, in batches in which no document comes twice."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from headwater.adaptors.converting_writer import ConvertingWriter, as_unreachable, rejected
from headwater.adaptors.documents.adaptor import ANY, ITEM_ID, DocumentsAdaptor
from headwater.adaptors.documents.connection import DocumentsConnection, looked_up
from headwater.adaptors.documents.messages import REST, given_back, identified, write_of
from headwater.adaptors.documents.source import location_system
from headwater.adaptors.headwater.connection import opened
from headwater.adaptors.pieces import portions
from headwater.core.document_errors import DocumentNotFound, ViewModification
from headwater.core.errors import BadInput, Fenced, HeadwaterError, NotFound, Rejected, Unavailable
from headwater.documents.open_documents import TOPIC
from headwater.documents.path import parse_path
from headwater.documents.requests import BatchLine
from headwater.pipeline import values
from headwater.pipeline.location import Location
from headwater.pipeline.message import Message
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Batch, Part, SinkAdaptor, SinkWriter, deliverable

_BYTES = 1 << 20  # of writes that are sent at once
_LINES = 500
_ITEMS = 1000  # that are read at once


class Write(NamedTuple):
    """A message as a write."""

    offset: int
    line: BatchLine


class DocumentsSink(SinkAdaptor[DocumentsAdaptor]):
    """Collections and prefixes, which need not be there before."""

    def check(self, chosen: Namespaces) -> list[str]:
        connection = looked_up(self.adaptor)
        if connection is None:
            return [f"documents at {self.adaptor.located()} will be made"]
        with connection:
            if connection.remote:  # in a directory nobody is refused, and trying would take the partition from others
                connection.check_written(self.adaptor.path.partition(ANY)[0] if ANY in self.adaptor.path else self.adaptor.path)
            return [f"documents {self.adaptor.path} at {connection.where}"]

    def alone(self) -> bool:
        return self.adaptor.located().kind != "server"  # one process owns a partition of a directory

    def begin(self, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]] | None:
        place = self.adaptor.located()
        if place.kind == "directory":
            os.makedirs(place.where, exist_ok=True)
        return None

    def writer(self, part: Part) -> SinkWriter:
        return DocumentsWriter(self.adaptor, part)

    def stored(self, data: dict[str, Any]) -> dict[str, Any]:
        return given_back(data, self.adaptor.path)

    def identified(self, message: Message, pipeline: str) -> tuple[Any, dict[str, Any]]:
        return identified(self.adaptor, message, pipeline)

    def place(self, namespace: str) -> str:
        return self.adaptor.target(namespace)

    def overlaps(self, reads: Sequence[Location]) -> list[Location]:
        own = self.adaptor.path.lstrip("/")
        head, _, rest = own.partition(ANY)
        written = Location("", head, within=bool(rest) or own != head or not self.adaptor.is_collection)
        system = self._system()
        locations = [
            location
            for location in reads
            if location.system == system and Location("", location.name, within=location.within).meets(written)
        ]
        return [location if len(location.name) >= len(head) else Location(system, head, within=written.within) for location in locations]

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        """The items of the namespace's collection, or the documents below its prefix, each with the rest of its path as `_id`."""
        connection, target = looked_up(self.adaptor), self.adaptor.target(namespace)
        if connection is None:
            return
        with connection:
            if not target.endswith("~"):
                prefix = target.lstrip("/")
                for path in connection.paths(prefix):
                    body = None if path.endswith("~") else connection.document(path)
                    if body is not None:
                        content = values.decode_any(body)
                        yield {REST: path.removeprefix(prefix), **(content if isinstance(content, dict) else {"data": content})}
                return
            after = ""
            while bodies := connection.items(target, after, _ITEMS):
                for body in bodies:
                    item = values.decode(body)
                    after = item[ITEM_ID[0]]
                    yield item

    def _system(self) -> str:
        try:
            with opened(self.adaptor.log(), read_only=True) as log:
                return location_system(log.find(TOPIC))
        except NotFound:  # there is nothing yet, so nobody reads it
            return ""


class DocumentsWriter(ConvertingWriter[Write]):
    """Where a message is refused, all before it are written; those behind it may be, of other documents only.

    A write is the whole state and needs no idempotency key: what comes again leaves what it left before. A key would harm. Of a delete that
    found nothing and a put behind it, the delete would come again as a new one, and the put, whose key is known, not at all.
    """

    def __init__(self, adaptor: DocumentsAdaptor, part: Part) -> None:
        self._adaptor = adaptor
        self._connection = DocumentsConnection(adaptor)
        super().__init__(part, self._connection.where)

    def close(self) -> None:
        self._connection.close()

    def write(self, batch: Batch) -> None:
        try:
            super().write(Batch(start=batch.start, end=batch.end, messages=[message for message in batch.messages if deliverable(message)]))
        except (Rejected, Fenced, Unavailable):
            raise
        except HeadwaterError as error:  # a lost right, a store that does not fit its log: no message's fault
            raise as_unreachable(error) from error

    def convert(self, message: Message) -> Write:
        return Write(message.offset, write_of(self._adaptor, message, self._part.pipeline))

    def send(self, converted: Sequence[Write]) -> None:
        for some in distinct(converted):
            for portion in portions(some, _size, _BYTES):
                for at in range(0, len(portion), _LINES):
                    self._send(portion[at : at + _LINES])

    def _send(self, writes: Sequence[Write]) -> None:
        left = self.left()
        self.fence()
        try:
            outcomes = self._connection.write([write.line for write in writes], left)
        except BadInput as error:  # such as too large a request: which write is to blame is not said
            if len(writes) == 1:
                raise rejected(writes[0].offset, error) from error
            half = len(writes) // 2
            self._send(writes[:half])
            self._send(writes[half:])
            return
        for write, outcome in zip(writes, outcomes, strict=True):
            if outcome is None or (isinstance(outcome, DocumentNotFound) and write.line.method == "delete"):
                continue
            if isinstance(outcome, BadInput | ViewModification):
                raise Rejected(outcome.message, offset=write.offset, before_taken=True, hint=outcome.hint)
            raise as_unreachable(outcome)


def distinct(writes: Sequence[Write]) -> Iterator[list[Write]]:
    """The writes in their order, cut where a document comes again: a write behind a refused one of the same document must not be sent."""
    group: list[Write] = []
    paths: set[str] = set()
    for write in writes:
        path = parse_path(write.line.path)
        if group and (path.text in paths or path.uri in paths or path.is_collection):
            yield group
            group, paths = [], set()
        group.append(write)
        paths.add(path.text)
    if group:
        yield group


def _size(write: Write) -> int:
    return len(write.line.path) + len(write.line.content) + 64
