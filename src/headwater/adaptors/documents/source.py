"""Reading documents: a copy of what is there, and then every change, as the log has it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, ClassVar

from headwater.adaptors.converting_writer import blaming_no_message
from headwater.adaptors.documents.adaptor import DOCUMENTS, ITEM_ID, DocumentsAdaptor
from headwater.adaptors.documents.changed import ChangedDocuments
from headwater.adaptors.documents.connection import DocumentsConnection
from headwater.adaptors.documents.messages import DocumentMessages
from headwater.adaptors.headwater.connection import HeadwaterConnection, opened
from headwater.adaptors.headwater.source import TopicPartitionReader, same_topic
from headwater.adaptors.pieces import PieceBuffer
from headwater.core.errors import NotFound, Unavailable, UnknownTopic
from headwater.documents.change import decode_record
from headwater.documents.open_documents import TOPIC
from headwater.documents.path import partition_of
from headwater.log.record import Record, Topic
from headwater.pipeline.location import Location
from headwater.pipeline.message import DEFAULT_ID, Message, Mode
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_adaptor import CopyPlan, Joins, Piece, Slice, SourceAdaptor

_PIECE = 4 << 20  # bytes
_ITEMS = 1000  # that are read at once
_NAMED = 1000  # collections whose ids a plan names: a message of another one says its own
_LOOK = 5.0  # seconds between two checks that the topic was not made anew


class DocumentsSource(SourceAdaptor[DocumentsAdaptor]):
    """One collection, or everything below a prefix. A position in the changes is that of each partition, as `TopicPartitionReader` has it.

    A read of documents gives everything that was durable when it began. So the plan takes the ends of the partitions before the copy reads,
    and the copy leaves out what has changed behind them by the time that it is read: each state comes once, by the copy or by its change.
    """

    joins: ClassVar[Joins] = "followed"

    def check(self, chosen: Namespaces) -> list[str]:
        with self._log() as log:
            self._topic(log, chosen)
            with DocumentsConnection(self.adaptor) as connection:
                if self.adaptor.is_collection:
                    connection.items(self.adaptor.path, "", 1)
                    return [f"collection {self.adaptor.path} at {connection.where}"]
                count = sum(1 for _ in connection.paths(self.adaptor.prefix))
                return [f"{count:,} documents and collections below {self.adaptor.path} at {connection.where}"]

    def locations(self, chosen: Namespaces) -> list[Location]:
        """The collection or prefix, by the topic's generation: it is the same one at every address."""
        adaptor = self.adaptor
        with self._log() as log:
            topic = self._topic(log, chosen)
            return [Location(location_system(topic), adaptor.path.lstrip("/"), within=not adaptor.is_collection)]

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        adaptor = self.adaptor
        with blaming_no_message(Unavailable), self._log() as log:
            topic = self._topic(log, chosen)
            at = {str(number): [bounds.end, epoch] for number, (bounds, epoch) in enumerate(log.claimed_bounds(topic))}
            if adaptor.is_collection:
                at = {number: where for number, where in at.items() if number == str(partition_of(adaptor.path, topic.partitions))}
            ids: dict[str, tuple[str, ...]] = {adaptor.path: ITEM_ID if adaptor.is_collection else DEFAULT_ID}
            ends = [""]
            if not adaptor.is_collection:
                with DocumentsConnection(adaptor) as connection:
                    paths = list(connection.paths(adaptor.prefix))
                ids |= dict.fromkeys([path for path in paths if path.endswith("~") and path in chosen][:_NAMED], ITEM_ID)
                share = max(1, -(-len(paths) // max(1, slices)))
                ends = [*paths[share - 1 : -1 : share], ""]
            spec = {"generation": topic.generation, "chosen": str(chosen), "at": at}
            parts = [Slice(adaptor.path, {"after": after, "upto": upto, **spec}) for after, upto in zip(["", *ends], ends, strict=False)]
            return CopyPlan(
                identity={"path": adaptor.path, "generation": topic.generation},
                slices=tuple(parts),
                ids=ids,
                cursor={"generation": topic.generation, "at": at},
            )

    def unit(self, part: Slice) -> tuple[str, Any]:
        return part.namespace, part.spec["generation"]

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        with blaming_no_message(Unavailable), self._log() as log:
            try:
                topic = log.topic(TOPIC)
            except NotFound:
                return False
            return plan.identity == {"path": self.adaptor.path, "generation": topic.generation}

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        """The documents of a range of paths, by path, and the items of each collection by id."""
        spec, chosen = part.spec, Namespaces(part.spec["chosen"])
        with self._log() as log, DocumentsConnection(self.adaptor) as connection:
            topic = same_topic(log, TOPIC, spec["generation"])
            reading = _SliceReading(connection, DocumentMessages(self.adaptor, chosen), ChangedDocuments(log, topic, spec["at"]))
            uri, item = position or (spec["after"], "")
            if item:
                yield from reading.collection(uri, item)
            if not self.adaptor.is_collection:
                for path in connection.paths(self.adaptor.prefix, uri):
                    if spec["upto"] and path > spec["upto"]:
                        break
                    yield from reading.collection(path, "") if path.endswith("~") else reading.document(path)
            elif not item:
                yield from reading.collection(self.adaptor.path, "")
            yield from reading.rest()

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        """Every change from the cursor on. An empty piece says that there is nothing new."""
        with self._log() as log, ExitStack() as stack:
            generation = cursor["generation"]
            topic = same_topic(log, TOPIC, generation)
            at = {number: list(where) for number, where in cursor["at"].items()}
            readers = [TopicPartitionReader(log, topic.name, int(number), where, whole=False) for number, where in at.items()]
            messages = DocumentMessages(self.adaptor, chosen)
            looked, arrived = time.monotonic(), threading.Event()
            for watching in log.watch(topic, arrived.set):
                stack.enter_context(watching)
            while not stopped():
                arrived.clear()  # before reading: a record that arrives later ends the wait
                quiet = True
                for reader in readers:
                    for records, after in reader.next(None):
                        quiet = False
                        gathered = _changes(messages, records, f"{topic.name}/{reader.number}")
                        at[str(reader.number)] = after
                        if len(gathered):
                            yield gathered.piece(_position(generation, at))
                if quiet:
                    yield Piece(position=_position(generation, at))
                    arrived.wait(log.pause)
                    if time.monotonic() - looked > _LOOK:
                        looked = time.monotonic()
                        same_topic(log, topic.name, generation)

    def _log(self) -> HeadwaterConnection:
        self.adaptor.check_read()
        return opened(self.adaptor.log(), read_only=True)

    def _topic(self, log: HeadwaterConnection, chosen: Namespaces) -> Topic:
        """The topic of all documents. Errors: `NotFound` where there are none yet, and where the namespaces leave the collection out."""
        path = self.adaptor.path
        if self.adaptor.is_collection and path not in chosen:
            raise NotFound(
                f"The namespace {chosen} does not match {path}, the only one of this source.",
                hint="Leave out the source's namespace: it is the collection's path.",
            )
        try:
            return log.find(TOPIC)
        except UnknownTopic:
            raise NotFound(
                f"There are no documents at {log.where} yet.", hint="The first write makes them: `headwater doc put PATH BODY`."
            ) from None


class _SliceReading:
    """Gathers the pieces of a slice."""

    def __init__(self, connection: DocumentsConnection, messages: DocumentMessages, changed: ChangedDocuments) -> None:
        self._connection, self._messages, self._changed = connection, messages, changed
        self._gathered = PieceBuffer(_PIECE)
        self._at: tuple[str, str] | None = None

    def collection(self, path: str, after: str) -> Iterator[Piece]:
        """The items of a collection behind an id."""
        if self._messages.namespace(path) is None:
            return
        more = True
        while more:
            bodies = self._connection.items(path, after, _ITEMS)
            changed = self._changed.since(path)  # after the reading: what comes later is not in it
            for body in bodies:
                message, wrong = self._messages.stored(path, ITEM_ID[0], body, mode=Mode.COPY)
                after = message.data[ITEM_ID[0]]
                if (path, after) not in changed:
                    self._add(message, wrong, len(body))
                self._at = path, after
            more = len(bodies) == _ITEMS
            if self._gathered.full:
                yield self._gathered.piece(self._at)

    def document(self, path: str) -> Iterator[Piece]:
        """A document that is no item."""
        if self._messages.namespace(path) is None:
            return
        body = self._connection.document(path)
        if body is not None and (path, "") not in self._changed.since(path):
            self._add(*self._messages.stored(path, "", body, mode=Mode.COPY), len(body))
        self._at = path, ""
        if self._gathered.full:
            yield self._gathered.piece(self._at)

    def rest(self) -> Iterator[Piece]:
        """What was gathered last."""
        if len(self._gathered):
            yield self._gathered.piece(self._at)

    def _add(self, message: Message, wrong: str, size: int) -> None:
        self._gathered.add(message, wrong, size=size)


def _changes(messages: DocumentMessages, records: list[Record], where: str) -> PieceBuffer:
    gathered = PieceBuffer(_PIECE)
    for log_record in records:
        if log_record.key is not None:
            record = decode_record(log_record.value, f"{where} at offset {log_record.offset}")
            for message, wrong in messages.of_record(record, log_record.timestamp or 0):
                gathered.add(message, wrong)
    return gathered


def _position(generation: str, at: dict[str, list[int]]) -> Any:
    return {"generation": generation, "at": {number: list(where) for number, where in at.items()}}


def location_system(topic: Topic) -> str:
    """What tells the documents of a log from all others."""
    return f"{DOCUMENTS} {topic.generation}"
