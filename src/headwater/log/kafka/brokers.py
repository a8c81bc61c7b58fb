"""Makes clients of one cluster with the settings that the log's promises need, and translates their errors."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.core.clock import Clock
from headwater.core.endpoints import check_endpoint
from headwater.core.errors import (
    BadConfig,
    BadInput,
    Closed,
    Damaged,
    Denied,
    HeadwaterError,
    OutcomeUnknown,
    Timeout,
    TooLarge,
    Unavailable,
    Unreachable,
)

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import AdminClient

T = TypeVar("T")

LARGEST_MESSAGE = 64 << 20  # above what `TopicSettings.max_record` allows, framing included
BATCH = 1_000_000  # bytes of records that the client sends as one batch; a broker refuses batches above the topic's max.message.bytes

GONE = frozenset({"UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "_NOENT"})
_DENIED = frozenset(
    {
        "_AUTHENTICATION",
        "CLUSTER_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "SASL_AUTHENTICATION_FAILED",
        "TOPIC_AUTHORIZATION_FAILED",
    }
)
_SILENT = frozenset({"_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_TRANSPORT"})  # no broker answered
_TRANSIENT = _SILENT | {
    "BROKER_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "ELIGIBLE_LEADERS_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "FETCH_SESSION_ID_NOT_FOUND",
    "INCONSISTENT_TOPIC_ID",
    "INVALID_FETCH_SESSION_EPOCH",
    "KAFKA_STORAGE_ERROR",
    "LEADER_NOT_AVAILABLE",
    "NETWORK_EXCEPTION",
    "NOT_CONTROLLER",
    "NOT_COORDINATOR",
    "NOT_LEADER_FOR_PARTITION",
    "OFFSET_NOT_AVAILABLE",  # a new leader does not know its high watermark yet: an older answer could hide acknowledged records
    "REBOOTSTRAP_REQUIRED",
    "REPLICA_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT",
    "STALE_BROKER_EPOCH",
    "THROTTLING_QUOTA_EXCEEDED",
    "UNKNOWN_LEADER_EPOCH",
    "_DESTROY_BROKER",
    "_FAIL",
    "_INTR",
    "_IN_PROGRESS",
    "_NODE_UPDATE",
    "_OUTDATED",
    "_PARTIAL",
    "_PREV_IN_PROGRESS",
    "_RETRY",
    "_UNKNOWN_BROKER",
    "_WAIT_CACHE",
}
_FIRST = 10.0  # seconds to reach a broker at all
_PAUSE = 0.02  # seconds between two tries of a request

# Settings that a caller's own client settings may not change: the log's promises depend on each.
_OURS = frozenset(
    {
        "acks",
        "auto.offset.reset",
        "bootstrap.servers",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.gapless.guarantee",
        "enable.idempotence",
        "group.id",
        "isolation.level",
        "message.max.bytes",
        "message.timeout.ms",
        "metadata.broker.list",
        "request.required.acks",
        "transactional.id",
    }
)


class Brokers:
    """Makes clients, and remembers what they said about connections that failed.

    A forked child has its parent's clients without their threads: to use, close or free one of them there would hang or crash. So the
    child keeps all of them in memory until it ends, and `left_behind` tells their holders to leave them alone.

    Errors: `BadConfig` when the client library is not installed, or when a setting is one that only headwater may set; `BadInput` for
    an address that is not host:port.
    """

    def __init__(self, servers: str | Sequence[str], *, client: Mapping[str, str] | None, clock: Clock, timeout: float) -> None:
        self.servers = servers if isinstance(servers, str) else ",".join(servers)
        if not self.servers:
            raise BadConfig("No Kafka broker is named.", hint='Set `kafka.bootstrap`, such as bootstrap = ["broker-1:9092"].')
        for address in self.servers.split(","):
            check_endpoint(address.strip())
        self.kafka = _library()
        self.timeout = timeout
        # One try gets a part of the time only: the client may choose a broker that is down, and waits for it until the try times out.
        self.patience = min(timeout, max(1.0, timeout / 8))
        self.clock = clock
        self.closing = threading.Event()
        self.left_behind = False
        self._clients: weakref.WeakSet[Any] = weakref.WeakSet()
        # Subclasses, because the library's own classes allow no weak references.
        self._kinds = {name: type(name, (getattr(self.kafka, name),), {}) for name in ("Consumer", "Producer")}
        myself = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _leave_behind(myself()))
        self._said = ""
        self._met = False
        self._client = dict(client or {})
        for name in sorted(_OURS & self._client.keys()):
            raise BadConfig(f"The Kafka client's setting {name} is headwater's own.", hint=f"Remove it from [kafka.client]: {name}.")

    # -- clients --------------------------------------------------------------------------------------------

    def admin(self, *, hangs: float = 0.0) -> AdminClient:
        """Asks about the cluster. `hangs`: seconds after which a connection on which no answer comes is given up; 0: the client's own."""
        made: AdminClient = self._made(self.kafka.admin.AdminClient, {"socket.timeout.ms": int(hangs * 1000)} if hangs else {})
        return made

    def producer(self, batch: int, *, gapless: bool) -> Producer:
        """Idempotent, acknowledged by all in-sync replicas, sends when flushed. `batch`: bytes of the largest batch that brokers take.

        `gapless`: when a request is refused, nothing that was handed over after it is sent, and the producer is spent.
        """
        settings = {
            "enable.idempotence": True,
            "acks": "all",
            "enable.gapless.guarantee": gapless,
            # Held back until the sender has handed over its whole batch and says so by flushing: sent at once (0), a batch of a
            # thousand leaves in a dozen requests and takes twice as long.
            "linger.ms": 5,
            "batch.size": batch,
            "message.max.bytes": LARGEST_MESSAGE,
            # Longer than the sender waits, which then purges the whole batch: this timeout would drop its first records and send the rest.
            "message.timeout.ms": int(self.timeout * 3000) + 10_000,
            "queue.buffering.max.kbytes": 256 << 10,
            "retry.backoff.ms": 50,
            # How long the client waits for a topic that brokers do not know. A longer wait would send a Writer's records into a topic that
            # is created again under the same name. For a new topic that one broker does not know yet, `RecordSender` tries again.
            "topic.metadata.propagation.max.ms": 100,
        }
        made: Producer = self._made(self._kinds["Producer"], settings)
        return made

    def consumer(self, *, wait_ms: int, ahead: int) -> Consumer:
        """Reads what it is assigned, up to the high watermark. `wait_ms`: how long a broker may hold a fetch that finds nothing.

        `ahead`: records after which it stops fetching ahead.
        """
        settings = {
            "group.id": "headwater",  # the client demands one; nothing is ever committed
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_uncommitted",  # read_committed reports the last stable offset, which lies before acknowledged records
            "auto.offset.reset": "error",  # a reset would skip deleted records without an error
            "check.crcs": True,
            "fetch.queue.backoff.ms": 1,  # the default stalls a read for about a second once the queue was full
            "fetch.error.backoff.ms": 20,
            "fetch.wait.max.ms": wait_ms,
            "queued.min.messages": ahead,
            "fetch.max.bytes": LARGEST_MESSAGE,
            "receive.message.max.bytes": LARGEST_MESSAGE + (1 << 20),
        }
        made: Consumer = self._made(self._kinds["Consumer"], settings)
        return made

    def member(self, *, group: str, name: str, session: float) -> Consumer:
        """A member of a consumer group, which gets partitions assigned and reads no records. `name`: its client id.

        `session`: seconds without a heartbeat after which the group removes the member. A rebalance moves only the partitions that change
        their member.
        """
        settings = {
            "group.id": group,
            "client.id": name,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": int(session * 1000),
            "heartbeat.interval.ms": int(session * 1000 / 3),
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "latest",
            "topic.metadata.refresh.interval.ms": 5_000,  # so that all members soon know a new topic
        }
        made: Consumer = self._made(self._kinds["Consumer"], settings)
        return made

    def _made(self, kind: Callable[[dict[str, Any]], T], settings: dict[str, Any]) -> T:
        common = {
            "bootstrap.servers": self.servers,
            "client.id": "headwater",
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 1000,  # the default of 10 s keeps a log away from a broker that is long back
            "log_level": 2,  # error_cb gets connection problems, and the errors of requests show them
            "allow.auto.create.topics": False,
        }
        try:
            made = kind({**common, **self._client, **settings, "error_cb": self._heard})
        except self.kafka.KafkaException as refused:
            raise BadConfig(
                f"The Kafka client does not take its settings: {_text(refused.args[0])}", hint="Look at [kafka.client]."
            ) from None
        self._clients.add(made)
        return made

    def check_here(self) -> None:
        """Errors: `Closed` in a forked child, for the clients of its parent."""
        if self.left_behind:
            raise Closed("This was opened by the process that this one was forked from.", hint="Open it again in this process.")

    def _heard(self, error: KafkaError) -> None:
        if error.name() != "_ALL_BROKERS_DOWN":  # the failures before it say more
            self._said = error.str()

    # -- asking ---------------------------------------------------------------------------------------------

    def deadline(self) -> float:
        return self.clock.monotonic() + self.timeout

    def late(self, deadline: float) -> bool:
        """Whether the time is up. Raises `Closed` when the log was closed meanwhile."""
        if self.closing.is_set():
            raise closed()
        return self.clock.monotonic() >= deadline

    def ask(
        self, what: str, request: Callable[[], T], *, gone: Callable[[], None] | None = None, renew: Callable[[], None] | None = None
    ) -> T:
        """Make a request, again while brokers change leaders or come back, until the time is up.

        `gone` is called when the answer is that there is no such topic or partition: it raises, or returns to have another try.
        `renew` is called before a try that needs another client. A client that has lost a broker may not recover: its metadata
        name the dead broker as a leader, or its requests wait for that broker, though the cluster has a new leader.
        """
        # An address at which no broker has ever answered is more likely wrong than down: that error comes sooner.
        deadline = self.deadline() if self._met else self.clock.monotonic() + min(self.timeout, _FIRST)
        while True:
            try:
                answer = request()
                self._met = True
                return answer
            except self.kafka.KafkaException as raised:
                error = error_of(raised)
            name = error.name()
            if name in GONE and gone is not None:
                gone()
            elif not transient(error):
                raise self.problem(error, what)
            if self.late(deadline):
                raise self.problem(error, what)
            if renew is not None and (name in GONE or name in _SILENT or name == "_DESTROY_BROKER"):
                renew()
            self.clock.wait(self.closing, _PAUSE)

    def problem(self, error: KafkaError, what: str) -> HeadwaterError:
        """The `HeadwaterError` for a client's error during `what`."""
        name, text = error.name(), _text(error)
        if name in _SILENT:
            return self.unreachable(what)
        if name in _DENIED:
            return Denied(
                f"Kafka refuses {what}: {text}", hint="Look at the credentials in [kafka.client] and at the brokers' access rules."
            )
        if name in ("_BAD_MSG", "_BAD_COMPRESSION", "_LOG_TRUNCATION"):
            return Damaged(f"Kafka did not return what was written, at {what}: {text}", hint="Look at the brokers' logs and disks.")
        if name in ("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"):
            return TooLarge(f"Kafka refuses {what}: {text}", hint="Raise the topic's max.message.bytes, or append smaller records.")
        if name == "INVALID_RECORD":  # what a broker says of a record without a key in a compacted topic, and of little else
            return BadInput(
                f"Kafka refuses {what}: {text}",
                hint="A compacted topic takes no record without a key, and so no claim: set its cleanup.policy to delete.",
            )
        if name in (
            "INVALID_TIMESTAMP",
            "INVALID_CONFIG",
            "INVALID_REPLICATION_FACTOR",
            "INVALID_PARTITIONS",
            "POLICY_VIOLATION",
        ):
            return BadInput(f"Kafka refuses {what}: {text}", hint="Look at the brokers' own limits and policies.")
        if not transient(error) and name not in GONE:
            return Unavailable(f"Kafka refuses {what}: {text}", hint="Look at the brokers' logs.")
        return Timeout(f"Kafka did not manage {what} within {self.timeout:g} s: {text}", hint="Look at the brokers' logs; then try again.")

    def unreachable(self, what: str) -> Unreachable:
        reason = f" ({self._said})" if self._said else ""
        return Unreachable(
            f"No Kafka broker answers at {self.servers}, {what} is not possible{reason}.",
            hint="Check `kafka.bootstrap` and that a broker runs there: `headwater doctor`.",
        )

    def unknown(self, what: str, why: str) -> OutcomeUnknown:
        return OutcomeUnknown(f"The outcome of {what} is not known: {why}", hint="Read the partition's end before appending again.")


def error_of(raised: Exception) -> KafkaError:
    """The client's error in an exception of an admin client's future, which is done with.

    The future keeps its exception, and the exception's traceback the frame that asked, with the future and the client. Without the
    traceback there is no cycle. The collector would free the client in any thread, and in the client's own thread the process aborts.
    """
    raised.__traceback__ = None
    error: KafkaError = raised.args[0]
    return error


def transient(error: KafkaError) -> bool:
    """Whether the same request may succeed a moment later."""
    return error.name() in _TRANSIENT or bool(error.retriable())


def closed() -> Closed:
    return Closed("This log is closed.", hint="Open it again.")


def _text(error: KafkaError) -> str:
    return str(error.str()).rstrip(".") + "."


def _leave_behind(brokers: Brokers | None) -> None:
    if brokers is not None:
        brokers.left_behind = True
        for client in brokers._clients:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))  # never freed, not even when the interpreter ends


def _library() -> Any:
    try:
        import confluent_kafka.admin
    except ImportError:
        raise BadConfig("The Kafka engine needs a client that is not installed.", hint="Run: pip install headwater[kafka]") from None
    return confluent_kafka
