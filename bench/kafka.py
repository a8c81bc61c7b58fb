"""The log on a real Kafka against confluent-kafka used directly; and the embedded log beside it. One broker, on this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.appends import appends
from bench.case import Case, Sample, Side, Skipped, timed
from bench.place import TOPIC, Place, columns, records
from bench.scans import scan_arrow
from bench.sizes import Sizes
from headwater.core.errors import Differs, HeadwaterError, Unavailable
from headwater.core.ids import random_id
from headwater.log.record import Record

if TYPE_CHECKING:
    from headwater.log.kafka.log import KafkaLog

_WAIT = 30.0
_FILL = 10_000
_FETCH = 5_000


def kafka(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """Appending and reading, each acknowledged by the broker (which syncs when it likes) or, embedded, by the disk."""
    try:
        with broker() as servers:
            yield from _cases(place, sizes, servers)
    except NoBroker as none:
        yield Skipped("kafka", str(none))


class NoBroker(Exception):
    """There is no Kafka, and none can be started."""


@contextmanager
def broker() -> Iterator[str]:
    """A broker that runs already, or one that is stopped afterwards."""
    from tools.services import release, up
    from tools.services.process import current

    me = current()
    try:
        from headwater.log.kafka.log import KafkaLog  # noqa: F401

        servers = up("kafka", kept=False, user=me).kafka
    except (HeadwaterError, ImportError) as problem:
        raise NoBroker(str(problem)) from problem
    try:
        yield servers
    finally:
        release(me)


def _cases(place: Place, sizes: Sizes, servers: str) -> Iterator[Case]:
    from headwater.log.kafka.log import KafkaLog

    topic = f"bench-{random_id()}"
    with KafkaLog(servers) as ours, place.log("beside-kafka") as embedded:
        ours.create_topic(topic)
        direct = _Direct(servers, topic)
        try:
            for per_sync in (1, 1000):
                batch = records(per_sync)
                count = max(1, sizes.kafka // 10 // per_sync) if per_sync > 1 else sizes.appends[1]
                peer = Side("confluent-kafka", partial(direct.append, batch, count))
                mine = Side("KafkaLog.append", partial(appends, partial(ours.append, topic, 0, batch), count, per_sync))
                yield Case(f"kafka append {per_sync}", "record", mine, peer)
                mine = Side("log.append", partial(appends, partial(embedded.append, TOPIC, 0, batch), count, per_sync))
                yield Case(f"embedded beside kafka, append {per_sync}", "record", mine, peer)
            yield from _reading(place, sizes, ours, direct, f"{topic}-read")
        finally:
            direct.close()
            ours.delete_topic(topic)


def _reading(place: Place, sizes: Sizes, ours: KafkaLog, direct: _Direct, topic: str) -> Iterator[Case]:
    ours.create_topic(topic)
    try:
        for first in range(0, sizes.kafka, _FILL):
            ours.append_arrow(topic, 0, columns(first, min(_FILL, sizes.kafka - first)))
        peer = Side("confluent-kafka consume", timed(lambda: direct.read(topic, sizes.kafka)))
        yield Case("kafka scan to Arrow", "record", Side("KafkaLog.scan", timed(lambda: _scanned(ours, topic, sizes.kafka))), peer)
        with place.filled(sizes.kafka, per_batch=1000) as folder:
            mine = Side("log.scan", timed(lambda: scan_arrow(folder, sizes.kafka)))
            yield Case("embedded beside kafka, scan to Arrow", "record", mine, peer)
    finally:
        ours.delete_topic(topic)


def _scanned(log: KafkaLog, topic: str, expected: int) -> int:
    count = sum(int(rows.num_rows) for rows in log.scan(topic, 0, 0))
    if count != expected:
        raise Differs(f"{count} records were read of {expected}.", hint="Look at the broker's log.")
    return count


class _Direct:
    """The client library as its users know it: as safe as our own use of it, and told where each record went."""

    def __init__(self, servers: str, topic: str) -> None:
        from confluent_kafka import Consumer, Producer

        self._topic = topic
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "acks": "all"})
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": topic,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.queue.backoff.ms": 5,  # with the default of 1000 every other read would wait for a second
            }
        )

    def append(self, batch: list[Record], count: int) -> Sample:
        begun = time.perf_counter()
        for _ in range(count):
            offsets: list[int] = []

            def delivered(error: Any, message: Any, offsets: list[int] = offsets) -> None:
                if error is None:
                    offsets.append(message.offset())

            for record in batch:
                self._producer.produce(self._topic, record.value, record.key, partition=0, on_delivery=delivered)
            self._producer.flush(_WAIT)
            if len(offsets) != len(batch):
                raise Unavailable(f"Kafka took {len(offsets)} records of {len(batch)}.", hint="Look at the broker's log.")
        return Sample(count * len(batch), time.perf_counter() - begun)

    def read(self, topic: str, expected: int) -> int:
        from confluent_kafka import TopicPartition

        self._consumer.assign([TopicPartition(topic, 0, 0)])
        count, deadline = 0, time.monotonic() + _WAIT
        while count < expected and time.monotonic() < deadline:
            # Never more than are left: it would wait for them until its time is over.
            count += sum(message.error() is None for message in self._consumer.consume(min(_FETCH, expected - count), timeout=0.5))
        if count != expected:
            raise Unavailable(f"Kafka gave {count} records of {expected}.", hint="Look at the broker's log.")
        return count

    def close(self) -> None:
        self._producer.flush(_WAIT)
        self._consumer.close()
