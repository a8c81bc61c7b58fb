"""Writing to topics: a batch counts once every message of it is acknowledged by all in-sync replicas."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from headwater.adaptors.kafka.connection import GONE, ClientErrors, explained, library, made, settings
from headwater.core.errors import BadInput, HeadwaterError, Rejected, Timeout, Unavailable, Unreachable
from headwater.pipeline import values
from headwater.pipeline.adaptor import Batch, Part, SinkWriter
from headwater.pipeline.message import Message, Op

if TYPE_CHECKING:
    from headwater.adaptors.kafka.adaptor import KafkaAdaptor

_TOO_LARGE = frozenset({"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})
_REFUSED = _TOO_LARGE | {"INVALID_RECORD", "INVALID_TIMESTAMP", "POLICY_VIOLATION", "TOPIC_EXCEPTION"} | GONE
_LATE = frozenset({"_MSG_TIMED_OUT", "_TIMED_OUT", "_PURGE_QUEUE", "_PURGE_INFLIGHT"})


class KafkaSinkWriter(SinkWriter):
    def __init__(self, adaptor: KafkaAdaptor, part: Part) -> None:
        self._adaptor, self._part = adaptor, part
        self._where = str(adaptor.resolved().servers)
        self._kafka = library()
        self._heard = ClientErrors()
        own: dict[str, Any] = {
            "error_cb": self._heard,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "partitioner": "murmur2_random",  # the same partition for a key as other clients choose
            "message.timeout.ms": int(part.timeout * 1000) + 5000,  # the batch's own deadline comes first
            "topic.metadata.propagation.max.ms": 2000,  # a topic that is not there is reported after this long
            "retry.backoff.ms": 50,
        }
        self._producer = made(self._kafka.Producer, settings(adaptor, **own))
        self._failed: dict[int, Any] = {}

    def write(self, batch: Batch) -> None:
        """Errors: `Rejected` at the first message that cannot be taken: all before it are there, and those behind it may be."""
        deadline = time.monotonic() + self._part.timeout
        self._failed = {}
        refused: Rejected | None = None
        for message in batch.messages:
            try:
                self._produce(message, deadline)
            except BadInput as error:
                refused = Rejected(error.message, offset=message.offset, before_taken=True, hint=error.hint)
                break
        if self._producer.flush(max(0.0, deadline - time.monotonic())):
            raise self._late()  # though others have failed: what is still on its way may lie before them, and would count as taken
        if self._failed:
            raise self._first_failure()
        if refused is not None:
            raise refused

    def close(self) -> None:
        self._producer.purge(in_queue=True, in_flight=True)  # what was not acknowledged is not waited for
        self._producer.flush(1.0)

    def _produce(self, message: Message, deadline: float) -> None:
        """Errors: `BadInput` for a message that can be no record."""
        if message.op is Op.COMMAND:
            raise BadInput("Kafka knows no commands.", hint="Skip it with ack.")
        topic, found = self._adaptor.topic_for(message.namespace), message.id
        key = None if found is None else found.encode() if isinstance(found, str) else values.canonical(found)
        headers: list[tuple[str, bytes]] = [("op", message.op.name.lower().encode()), ("offset", str(message.offset).encode())]
        value: bytes | None = None
        if message.op is not Op.DELETE:
            value = values.encode(message.data)
        elif found is None:
            raise BadInput(f"The delete names no document: it has no {', '.join(message.id_fields)}.", hint="Correct it with edit.")
        else:
            headers.append(("data", values.encode({name: message.data[name] for name in message.id_fields})))
        offset = message.offset

        def heard(error: Any, _: Any) -> None:
            if error is not None:
                self._failed[offset] = error

        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=heard, timestamp=message.timestamp, headers=headers)
                return
            except BufferError:  # the client's queue is full: let it send
                if time.monotonic() > deadline:
                    raise self._late() from None
                self._producer.poll(0.05)
            except self._kafka.KafkaException as error:
                self._failed[offset] = error.args[0]
                return

    def _first_failure(self) -> HeadwaterError:
        offset, error = min(self._failed.items())
        name = error.name()
        if name in _REFUSED:
            hint = (
                "Create the topic first." if name in GONE else "Make it smaller, or raise max.message.bytes." if name in _TOO_LARGE else ""
            )
            what = "it has no such topic" if name in GONE else str(error.str()).rstrip(".")
            # Brokers refuse what the client sent at once as a whole: who of several is to blame shows when they are sent one at a time.
            exact = name in GONE or len(self._failed) == 1
            return Rejected(
                f"Kafka at {self._where} refuses it: {what}.",
                offset=offset if exact else -1,
                before_taken=exact,
                hint=hint or "Correct it with edit.",
            )
        if name in _LATE:
            return self._late()
        problem = explained(error, self._where, "taking a message")
        return problem if isinstance(problem, Unavailable) else Unreachable(problem.message, hint=problem.hint)

    def _late(self) -> Timeout:
        return Timeout(
            f"Kafka at {self._where} has not taken a batch within {self._part.timeout:g} s{self._heard.said}.",
            hint="See whether the brokers run; give the sink a longer timeout or a smaller batch.",
        )
