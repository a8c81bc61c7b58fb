"""Watches partitions on Kafka: one consumer and one thread for all watched partitions of a log."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.core.errors import HeadwaterError, UnknownTopic
from headwater.log import Watching
from headwater.log.kafka.brokers import GONE, Brokers, closed, transient
from headwater.log.kafka.topics import KafkaTopics
from headwater.log.record import Topic

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

_TURN = 0.1  # seconds that the thread waits for records before it drops the partitions that nobody watches any more
_AT_ONCE = 10_000
_LOOK = 1.0  # seconds between two descriptions of the watched topics: the client reports no error for a deleted one
_LOOKED_UP = 10  # topics that are described at a time

Changed = Callable[[], None]


class KafkaWatch:
    """One watched partition; all its followers share it. The consumer has seen everything below `end`."""

    def __init__(self, topic: Topic, partition: int, end: int) -> None:
        self.topic, self.partition, self._end = topic, partition, end
        self.waiting: dict[object, Changed] = {}
        self.error: HeadwaterError | None = None

    def end(self) -> int:
        if self.error is not None:
            raise self.error
        return self._end

    def seen(self, end: int) -> None:
        self._end = max(self._end, end)
        self._tell()

    def stop(self, error: HeadwaterError) -> None:
        self.error = self.error or error
        self._tell()

    def _tell(self) -> None:
        for tell in tuple(self.waiting.values()):
            tell()


class KafkaArrivals:
    """The watched partitions of one log. Safe for several threads; the thread and its consumer exist only while there are any.

    `end_of` asks a broker for a partition's end.
    """

    def __init__(self, brokers: Brokers, topics: KafkaTopics, end_of: Callable[[str, int], int]) -> None:
        self._brokers, self._topics, self._end_of = brokers, topics, end_of
        self._mutex = threading.RLock()
        self._partitions: dict[tuple[str, int], KafkaWatch] = {}
        self._consumer: Consumer | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._looked = 0.0

    def watch(self, topic: Topic, partition: int, changed: Changed) -> Watching:
        """As `Log.watch`."""
        place = (topic.name, partition)
        end = self._end_of(*place)  # not under the lock: brokers may take their time
        with self._mutex:
            if self._closed:
                raise closed()
            watch = self._partitions.get(place)
            if watch is None or watch.error is not None:
                watch = self._partitions[place] = self._begun(KafkaWatch(topic, partition, end))
            watching = _KafkaWatching(watch)
            watch.waiting[watching] = changed
            return watching

    def close(self) -> None:
        """End all waiting with `Closed`."""
        with self._mutex:
            self._closed = True
            watches, self._partitions, thread = list(self._partitions.values()), {}, self._thread
        for watch in watches:
            watch.stop(closed())
        if thread is not None:
            thread.join()

    # -- the thread -----------------------------------------------------------------------------------------

    def _begun(self, partition: KafkaWatch) -> KafkaWatch:
        if self._consumer is None:
            self._consumer = self._brokers.consumer(wait_ms=100, ahead=_AT_ONCE)
        self._consumer.incremental_assign([self._place(partition, partition.end())])
        if self._thread is None:
            self._looked = self._brokers.clock.monotonic()
            self._thread = threading.Thread(target=self._run, args=(self._consumer,), name="headwater-kafka-watcher", daemon=True)
            self._thread.start()
        return partition

    def _run(self, consumer: Consumer) -> None:
        while self._wanted(consumer):
            try:
                messages = consumer.consume(1, _TURN)  # asked for more, the client would wait until it has all of them
                if messages:
                    self._note(consumer, messages + consumer.consume(_AT_ONCE, 0))
            except self._brokers.kafka.KafkaException as raised:
                for watch in list(self._partitions.values()):
                    watch.stop(self._brokers.problem(raised.args[0], f"reading {watch.topic.name}/{watch.partition}"))
            if self._brokers.clock.monotonic() - self._looked > _LOOK:
                self._look_up()
        consumer.close()

    def _wanted(self, consumer: Consumer) -> bool:
        """Unassign the partitions that nobody watches any more; return whether any are left."""
        with self._mutex:
            for place, watch in list(self._partitions.items()):
                if not watch.waiting or watch.error is not None:
                    del self._partitions[place]
                    consumer.incremental_unassign([self._place(watch)])
            if not self._partitions:
                self._consumer = self._thread = None
            return bool(self._partitions)

    def _note(self, consumer: Consumer, messages: list[Message]) -> None:
        ends: dict[tuple[str, int], int] = {}
        for message in messages:
            place: tuple[str, int] = (message.topic(), message.partition())  # type: ignore[assignment]
            error = message.error()
            if error is not None:
                self._trouble(consumer, place, error)
            else:
                ends[place] = message.offset() + 1  # type: ignore[operator]
        for place, end in ends.items():
            if (watch := self._partitions.get(place)) is not None:
                watch.seen(end)

    def _trouble(self, consumer: Consumer, place: tuple[str, int], error: KafkaError) -> None:
        watch = self._partitions.get(place)
        if watch is None:
            return
        try:
            if error.name() in GONE:
                self._topics.confirm(*place)
            elif error.name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):  # the records were deleted, or the topic was created again
                self._same(watch)
                end = self._end_of(*place)
                consumer.seek(self._place(watch, end))
                watch.seen(end)
            elif not transient(error):
                watch.stop(self._brokers.problem(error, f"reading {place[0]}/{place[1]}"))
        except HeadwaterError as problem:
            watch.stop(problem)

    def _look_up(self) -> None:
        """Describe some of the watched topics, those first that were described longest ago. Ends the watches of deleted topics."""
        self._looked = self._brokers.clock.monotonic()
        with self._mutex:
            ones = list(self._partitions.values())
        for name in list(dict.fromkeys(watched.topic.name for watched in ones))[:_LOOKED_UP]:
            of_topic = [watched for watched in ones if watched.topic.name == name]
            try:
                self._same(of_topic[0])
            except UnknownTopic as gone:
                for watch in of_topic:
                    watch.stop(gone)
            except HeadwaterError:
                continue  # no broker answers: the next round asks again
            with self._mutex:
                for watch in of_topic:  # to the end of the order
                    place = (name, watch.partition)
                    if self._partitions.get(place) is watch:
                        self._partitions[place] = self._partitions.pop(place)

    def _same(self, watch: KafkaWatch) -> None:
        if self._topics.get(watch.topic.name).generation != watch.topic.generation:
            raise UnknownTopic(f"The topic {watch.topic.name} was deleted and created again.", hint="Read the new one from its start.")

    def _place(self, watch: KafkaWatch, *offset: int) -> TopicPartition:
        place: TopicPartition = self._brokers.kafka.TopicPartition(watch.topic.name, watch.partition, *offset)
        return place


class _KafkaWatching(Watching):
    def __init__(self, watched: KafkaWatch) -> None:
        self._watched = watched

    def end(self) -> int:
        return self._watched.end()

    def close(self) -> None:
        self._watched.waiting.pop(self, None)
