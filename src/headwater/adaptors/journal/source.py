"""Reading a topic of journals: a copy of what the log holds, partition by partition, and then the events that come."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from headwater.adaptors.converting_writer import blaming_no_message
from headwater.adaptors.headwater.connection import HeadwaterConnection, counted, opened
from headwater.adaptors.headwater.source import READ_AGAIN, TopicPartitionReader, same_topic
from headwater.adaptors.journal.adaptor import IDS, JournalAdaptor
from headwater.adaptors.journal.events import EventMessages, position_of, quarantined
from headwater.adaptors.journal.opener import SourceOpener
from headwater.core.errors import Differs, NotFound, OffsetGone, Unavailable, UnknownJournal, UnknownTopic
from headwater.journal.names import control_topic
from headwater.log.record import Record, Topic
from headwater.pipeline.location import TOPICS, Location
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_adaptor import CopyPlan, Piece, Slice, SourceAdaptor
from headwater.pipeline.source_progress import CopySize

_LOOK = 5.0  # seconds between two checks that the topic was not created anew
_CONTROL = 1000  # records of the control topic that are read at once


class JournalSource(SourceAdaptor[JournalAdaptor]):
    """One topic of journals. A position is that of each partition, as `TopicPartitionReader` has it."""

    def check(self, chosen: Namespaces) -> list[str]:
        with self._opened() as connection:
            topic = self._topic(connection, chosen)
            with SourceOpener(self.adaptor, connection, topic) as opener:
                opener.check()
            count = sum(bounds.end - bounds.start for bounds in connection.all_bounds(topic))
            return [f"journals {topic.name} at {connection.where}: {counted(topic.partitions)}, {count:,} offsets"]

    def locations(self, chosen: Namespaces) -> list[Location]:
        """The topic, by its generation: it is the same one at every address."""
        with self._opened() as connection:
            return [Location(TOPICS, self._topic(connection, chosen).generation)]

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        """A slice for each partition: an id may come again, after a purge, and its last event is the one that counts."""
        with blaming_no_message(Unavailable), self._opened() as connection:
            topic = self._topic(connection, chosen)
            claimed = connection.claimed_bounds(topic)
            for number, (bounds, _) in enumerate(claimed):
                if bounds.start > 0 and not self.adaptor.kept:
                    raise OffsetGone(
                        f"The log of {topic.name}/{number} begins at offset {bounds.start}: earlier records are deleted.",
                        hint="Say kept=True to read without them. The Spark table journal: reads what the store has copied.",
                    )
            generation = topic.generation
            parts = [
                Slice(
                    self.adaptor.topic,
                    {"partition": number, "begin": bounds.start, "end": bounds.end, "generation": generation, "chosen": str(chosen)},
                    bounds.end - bounds.start,
                )
                for number, (bounds, _) in enumerate(claimed)
                if bounds.end > bounds.start
            ]
            at = {str(number): [bounds.end, epoch] for number, (bounds, epoch) in enumerate(claimed)}
            return CopyPlan(
                identity={"topic": topic.name, "generation": generation},
                slices=tuple(parts),
                ids={self.adaptor.topic: IDS} if self.adaptor.namespace == "topic" else {},
                cursor=position_of(generation, at),
                size=CopySize(total=sum(bounds.end - bounds.start for bounds, _ in claimed), unit="offsets"),
                repeats=True,
            )

    def unit(self, part: Slice) -> tuple[str, Any]:
        return part.namespace, part.spec["generation"]

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        with blaming_no_message(Unavailable), self._opened() as connection:
            try:
                topic = connection.topic(self.adaptor.log().topic)
            except NotFound:
                return False
            return plan.identity == {"topic": topic.name, "generation": topic.generation}

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        """The events of a partition."""
        number, end = part.spec["partition"], part.spec["end"]
        with self._opened() as connection, ExitStack() as stack:
            topic = same_topic(connection, self.adaptor.log().topic, part.spec["generation"])
            reader = TopicPartitionReader(connection, topic.name, number, position or (part.spec["begin"], 0), whole=False)
            opener = stack.enter_context(SourceOpener(self.adaptor, connection, topic))
            events = self._messages(connection, topic, Namespaces(part.spec["chosen"]), opener)
            while reader.at < end:
                try:
                    records = list(reader.next(end))
                except OffsetGone as error:
                    raise Differs(f"{error.message} The copy needs them.", hint=READ_AGAIN) from error
                for some, after in records:
                    messages, bad = events.messages(number, some)
                    yield Piece(position=after, messages=messages, bad=bad, amount=after[0] - part.spec["begin"])

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        """Everything from the cursor on. An empty piece says that there is nothing new."""
        with self._opened() as connection, ExitStack() as stack:
            generation = cursor["generation"]
            topic = same_topic(connection, self.adaptor.log().topic, generation)
            at = {str(number): list(where) for number, where in cursor["at"].items()}
            readers = [
                TopicPartitionReader(connection, topic.name, number, at.setdefault(str(number), [0, 0]), whole=False)
                for number in range(topic.partitions)
            ]
            opener = stack.enter_context(SourceOpener(self.adaptor, connection, topic))
            events = self._messages(connection, topic, chosen, opener)
            looked, arrived = time.monotonic(), threading.Event()
            for watching in connection.watch(topic, arrived.set):
                stack.enter_context(watching)
            while not stopped():
                arrived.clear()  # before reading: a record that arrives later ends the wait
                quiet = True
                for reader in readers:
                    for records, after in reader.next(None):
                        quiet = False
                        messages, bad = events.messages(reader.number, records)
                        at[str(reader.number)] = after
                        if messages:
                            yield Piece(position=position_of(generation, at), messages=messages, bad=bad)
                if quiet:
                    yield Piece(position=position_of(generation, at))
                    arrived.wait(connection.pause)
                    if time.monotonic() - looked > _LOOK:
                        looked = time.monotonic()
                        self._check_topic(connection, topic)

    @staticmethod
    def _check_topic(connection: HeadwaterConnection, topic: Topic) -> None:
        current_topic = same_topic(connection, topic.name, topic.generation)
        if current_topic.partitions != topic.partitions:
            raise Differs(
                f"The topic {topic.name} has {current_topic.partitions} partitions now.", hint="Run the pipeline again: it reads them all."
            )

    def _opened(self) -> HeadwaterConnection:
        return opened(self.adaptor.log(), read_only=True)

    def _topic(self, connection: HeadwaterConnection, chosen: Namespaces) -> Topic:
        """The topic to read. Errors: `UnknownJournal`; `NotFound` where the namespaces leave it out."""
        name = self.adaptor.topic
        if self.adaptor.namespace == "topic" and name not in chosen:
            raise NotFound(
                f"The namespace {chosen} does not match {name}, the only one of this source.",
                hint="Leave out the source's namespace: it is the topic's name.",
            )
        try:
            return connection.topic(self.adaptor.log().topic)
        except UnknownTopic as error:
            hint = error.hint if error.hint.startswith("Did") else f"Create it with `headwater journal create {name}`, or name another."
            raise UnknownJournal(f"There is no topic {name} of journals at {connection.where}.", hint=hint) from None

    def _messages(self, connection: HeadwaterConnection, topic: Topic, chosen: Namespaces, opener: SourceOpener) -> EventMessages:
        namespace = self.adaptor.topic if self.adaptor.namespace == "topic" else None

        def left_out(partition: int, offset: int) -> bool:
            return (partition, offset) in quarantined(_control_records(connection, topic.name), topic.generation)

        return EventMessages(
            namespace, chosen=chosen, tags=self.adaptor.tags, decimals=self.adaptor.decimals, left_out=left_out, opens=opener.opened
        )


def _control_records(connection: HeadwaterConnection, topic: str) -> list[Record]:
    name = control_topic(topic)
    try:
        bounds = connection.bounds(name, 0)
    except NotFound:
        return []
    control_records: list[Record] = []
    at = bounds.start
    while at < bounds.end and (records := connection.read(name, 0, at, _CONTROL)):
        control_records += records
        at = (records[-1].offset or 0) + 1
    return control_records
