"""Writing to topics: a batch counts when all in-sync replicas have acknowledged each of its messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from confluent_kafka import KafkaException, Producer

from headwater.adaptors.converting_writer import ConvertingWriter, as_unreachable, identity_of, key_of
from headwater.adaptors.kafka.adaptor import KafkaAdaptor
from headwater.adaptors.kafka.connection import GONE, ClientErrors, Cluster, explained, new_client, settings
from headwater.adaptors.pieces import portions
from headwater.core.errors import HeadwaterError, NotFound, Rejected, Timeout
from headwater.pipeline import values
from headwater.pipeline.location import TOPICS, Location
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Part, SinkAdaptor, SinkWriter

_TOO_LARGE = frozenset({"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})
_REFUSED = _TOO_LARGE | {"INVALID_RECORD", "INVALID_TIMESTAMP", "POLICY_VIOLATION", "TOPIC_EXCEPTION"} | GONE
_REQUEST = 1_000_000  # bytes, about: what the client puts into one request to a partition
_LATE = frozenset({"_MSG_TIMED_OUT", "_TIMED_OUT", "_PURGE_QUEUE", "_PURGE_INFLIGHT"})


class KafkaSink(SinkAdaptor[KafkaAdaptor]):
    """Existing topics: none is created."""

    def check(self, chosen: Namespaces) -> list[str]:
        with Cluster(self.adaptor) as cluster:
            topics = cluster.partitions()
            if "{namespace}" not in self.adaptor.topic and self.adaptor.topic not in topics:
                raise NotFound(f"Kafka at {cluster.where} has no topic {self.adaptor.topic}.", hint="Create it first.")
        return [f"{len(topics)} topics"]

    def place(self, namespace: str) -> str:
        return self.adaptor.topic_for(namespace)

    def overlaps(self, reads: Sequence[Location]) -> list[Location]:
        ids = {place.name for place in reads if place.system == TOPICS}
        with Cluster(self.adaptor) as cluster:
            system = cluster.system()
            locations = [
                Location(system, name) for name, topic_id in cluster.identity(list(cluster.partitions())).items() if topic_id in ids
            ]
        return [*locations, *(place for place in reads if place.system == system)]

    def writer(self, part: Part) -> SinkWriter:
        return KafkaSinkWriter(self.adaptor, part)


class OutgoingRecord(NamedTuple):
    offset: int
    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: list[tuple[str, bytes]]


class KafkaSinkWriter(ConvertingWriter[OutgoingRecord]):
    """Where a message is refused, all before it are written; those behind it may be."""

    def __init__(self, adaptor: KafkaAdaptor, part: Part) -> None:
        super().__init__(part, f"Kafka at {adaptor.resolved().servers}")
        self._adaptor = adaptor
        self._heard = ClientErrors()
        own: dict[str, Any] = {
            "error_cb": self._heard,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "partitioner": "murmur2_random",  # the same partition for a key as Java clients choose
            "message.timeout.ms": int(part.timeout * 1000) + 5000,  # the batch's own deadline comes first
            "topic.metadata.propagation.max.ms": 2000,  # an unknown topic is reported after this time
            "retry.backoff.ms": 50,
        }
        self._producer = new_client(Producer, settings(adaptor, **own))
        self._failed: dict[int, Any] = {}

    def close(self) -> None:
        self._producer.purge(in_queue=True, in_flight=True)  # does not wait for acknowledgements
        self._producer.flush(1.0)

    def convert(self, message: Message) -> OutgoingRecord:
        identity = identity_of(message, "Kafka", needed=(Op.DELETE,))
        topic = self._adaptor.topic_for(message.namespace)
        headers: list[tuple[str, bytes]] = [("op", message.op.name.lower().encode()), ("offset", str(message.offset).encode())]
        value: bytes | None = None
        if message.op is not Op.DELETE:
            value = values.encode(message.data)
        else:
            headers.append(("data", values.encode({name: message.data[name] for name in message.id_fields})))
        return OutgoingRecord(message.offset, topic, key_of(identity), value, message.timestamp, headers)

    def send(self, converted: Sequence[OutgoingRecord]) -> None:
        # What the client holds it sends even after the process was stopped for long, so it is given one request's worth at a time.
        for some in portions(converted, lambda record: len(record.key or b"") + len(record.value or b""), _REQUEST):
            self.fence()
            self._send(some)

    def _send(self, records: Sequence[OutgoingRecord]) -> None:
        self._failed = {}
        for record in records:
            self._produce(record)
        if self._producer.flush(max(0.0, self._deadline - self._clock())):
            raise self._late()  # even where others failed: messages in flight may lie before them, and would count as taken
        if self._failed:
            raise self._first_failure()

    def _produce(self, record: OutgoingRecord) -> None:
        def heard(error: Any, _: Any) -> None:
            if error is not None:
                self._failed[record.offset] = error

        while True:
            try:
                self._producer.produce(
                    record.topic, record.value, record.key, on_delivery=heard, timestamp=record.timestamp, headers=record.headers
                )
                return
            except BufferError:  # the client's queue is full: let it send
                if self._clock() > self._deadline:
                    raise self._late() from None
                self._producer.poll(0.05)
            except KafkaException as error:
                self._failed[record.offset] = error.args[0]
                return

    def _first_failure(self) -> HeadwaterError:
        offset, error = min(self._failed.items())
        name = error.name()
        if name in _REFUSED:
            hint = (
                "Create the topic first." if name in GONE else "Make it smaller, or raise max.message.bytes." if name in _TOO_LARGE else ""
            )
            reason = "it has no such topic" if name in GONE else str(error.str()).rstrip(".")
            # Brokers refuse a whole record batch: which of several messages is to blame shows when they are sent one at a time.
            exact = name in GONE or len(self._failed) == 1
            return Rejected(
                f"{self._where} refuses it: {reason}.",
                offset=offset if exact else -1,
                before_taken=exact,
                hint=hint or "Correct it with edit.",
            )
        if name in _LATE:
            return self._late()
        return as_unreachable(explained(error, str(self._adaptor.resolved().servers), "taking a message"))

    def _late(self) -> Timeout:
        return self.late(self._heard.said)
