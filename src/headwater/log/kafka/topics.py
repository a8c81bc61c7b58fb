"""Topics on Kafka: created with the settings that the log's promises need, described, deleted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from headwater.core.errors import AlreadyExists, Timeout, UnknownPartition, UnknownTopic, Unsupported
from headwater.log.kafka.brokers import GONE, Brokers, closed, error_of
from headwater.log.kafka.owner_config import OWNER_CONFIG, decode_owner, encode_owner
from headwater.log.kafka.records import FOREVER, RecordLimits
from headwater.log.owners import check_owner, new_settings, not_made_by, owned
from headwater.log.record import (
    Topic,
    TopicSettings,
    check_new_topic_name,
    check_partitions,
    check_topic_name,
    partition_number,
    unknown_topic,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

    from confluent_kafka.admin import AdminClient

T = TypeVar("T")

SMALLEST_SEGMENT = 1 << 20  # Kafka 4 refuses less
FRAMING = 1024  # bytes that a record may take on a broker beyond its own: batch head, lengths, our headers
_PAUSE = 0.02
_LOOKS = 10


class KafkaTopics:
    """The cluster's topics. It caches descriptions, but raises no error because of a cached one."""

    def __init__(self, brokers: Brokers, *, replication: int) -> None:
        self._brokers = brokers
        self._replication = replication
        self._admin: AdminClient | None = brokers.admin()
        self._known: dict[str, Topic] = {}
        self._limits: dict[str, RecordLimits] = {}
        self._retention: dict[str, str] = {}
        self._lock = threading.Lock()

    def create(self, name: str, partitions: int, settings: TopicSettings | None, part: str, *, copies: int = 0) -> Topic:
        """As `Log.create_topic`. Without settings, an existing topic may have any."""
        check_new_topic_name(name)
        check_partitions(partitions)
        wanted = held(new_settings(name, settings, part))
        there = self._find(name)
        if there is None:
            self._make(name, partitions, wanted, copies)
            there = self._appeared(name)
        check_owner(name, there.settings.owner, part, "create_topic")
        if there.settings.owner != part:
            raise not_made_by(name, part)
        if there.partitions != partitions or (settings is not None and there.settings != wanted):
            raise AlreadyExists(
                f"The topic {name} is there with {there.partitions} partitions and {_words(there.settings)}.",
                hint="Use it as it is, choose another name, or delete it first. A partition count never changes: keys would move.",
            )
        return there

    def get(self, name: str) -> Topic:
        """One topic as it is now. Errors: `UnknownTopic`; `BadInput` for what is no text.

        A topic that was cached is unknown only after several descriptions: another broker than the last may know of a new one later.
        """
        if type(name) is not str:
            check_topic_name(name)
        looks = _LOOKS if name in self._known else 1
        while (topic := self._find(name)) is None and (looks := looks - 1):
            self._brokers.clock.wait(self._brokers.closing, _PAUSE)
        if topic is None:
            raise unknown_topic(name)
        return topic

    def generation(self, name: str) -> Callable[[], str]:
        """Ask for the topic's id now, in the background. The function that it returns waits for the answer. Errors: `UnknownTopic`."""
        names, patience = self._brokers.kafka.TopicCollection([name]), self._brokers.patience
        what, asked = (
            f"describing the topic {name}",
            _held(self._admin, lambda admin: admin.describe_topics(names, request_timeout=patience)),
        )

        def request(admin: AdminClient) -> Any:
            nonlocal asked
            future, asked = asked, {}
            return (future or admin.describe_topics(names, request_timeout=patience))[name].result()

        def gone() -> None:
            raise unknown_topic(name)

        return lambda: str(self._ask(what, request, gone=gone).topic_id)

    def place(self, name: str, partition: int) -> Topic:
        """The topic of a partition, as cached if it has that partition, else as it is now.

        Errors: `UnknownTopic`, `UnknownPartition`; `BadInput` for values of wrong types.
        """
        partition = partition_number(name, partition)
        topic = self._known.get(name)
        if topic is None or not 0 <= partition < topic.partitions:
            topic = self.get(name)
        if not 0 <= partition < topic.partitions:
            raise UnknownPartition(
                f"The topic {name} has no partition {partition}: it has {topic.partitions}.",
                hint=f"Name one of 0 to {topic.partitions - 1}.",
            )
        return topic

    def limits(self, name: str) -> RecordLimits:
        """What brokers took of the topic's records when it was last described."""
        return self._limits.get(name) or RecordLimits(TopicSettings().max_record)

    def retention(self, name: str) -> str:
        """As `Log.retention`."""
        self.get(name)
        return self._retention.get(name, "")

    def all(self) -> list[Topic]:
        listed = self._ask("listing topics", lambda admin: admin.list_topics(timeout=self._brokers.patience))
        names = sorted(name for name, metadata in listed.topics.items() if metadata.error is None)
        return [topic for topic in self._described(names) if topic is not None]

    def delete(self, name: str) -> None:
        """Returns once brokers no longer describe the topic, so that a topic created under its name right afterwards is a new one."""
        old = self.get(name)

        def request(admin: AdminClient) -> None:
            (future,) = admin.delete_topics([name], **self._in_time()).values()
            try:
                future.result()
            except self._brokers.kafka.KafkaException as raised:
                if error_of(raised).name() not in GONE:  # gone by an earlier try whose answer was lost, or by somebody else's
                    raise

        self._ask(f"deleting the topic {name}", request)
        self.forget(name)
        deadline = self._brokers.deadline()
        while (now := self._find(name)) is not None and now.generation == old.generation:
            if self._brokers.late(deadline):
                raise Timeout(f"Kafka has not deleted the topic {name} in time.", hint="Look again with `headwater log topics`.")
            self._brokers.clock.wait(self._brokers.closing, _PAUSE)
        self.forget(name)

    def delete_before(self, name: str, partition: int, offset: int) -> int:
        """Delete the records below `offset`; return the new start."""
        place = self._brokers.kafka.TopicPartition(name, partition, offset)

        def request(admin: AdminClient) -> int:
            (future,) = admin.delete_records([place], request_timeout=self._brokers.patience).values()
            return int(future.result().low_watermark)

        return self._ask(f"deleting records of {name}/{partition}", request, gone=lambda: self.confirm(name, partition))

    def forget(self, name: str) -> None:
        """Drop the cached description."""
        with self._lock:
            self._known.pop(name, None)

    def _in_time(self) -> dict[str, float]:
        return {"request_timeout": self._brokers.patience, "operation_timeout": self._brokers.patience}

    def confirm(self, name: str, partition: int) -> None:
        """A broker says that there is no such partition. Raises if that is so.

        One broker may know of a new topic later than another: so a topic that was cached is unknown only after several descriptions.
        """
        looks = _LOOKS if name in self._known else 1
        for left in reversed(range(looks)):
            self.forget(name)
            try:
                self.place(name, partition)
            except (UnknownTopic, UnknownPartition):
                if not left:
                    raise
                self._brokers.clock.wait(self._brokers.closing, _PAUSE)
            else:
                return

    def _ask(self, what: str, request: Callable[[AdminClient], T], *, gone: Callable[[], None] | None = None) -> T:
        # The request holds its client until it is answered: a client that is replaced meanwhile must not be freed before.
        return self._brokers.ask(what, lambda: _held(self._admin, request), gone=gone, renew=self._renew)

    def _renew(self) -> None:
        if self._admin is not None:
            self._admin = self._brokers.admin()

    def close(self) -> None:
        """Free the client now: the log and its parts refer to each other, so that its descriptors would stay open until a collection."""
        self._admin = None

    def _find(self, name: str) -> Topic | None:
        return self._described([name])[0] if name else None

    def _described(self, names: list[str]) -> list[Topic | None]:
        if not names:
            return []
        kafka, patience = self._brokers.kafka, self._brokers.patience
        resource = kafka.admin.ConfigResource

        def request(admin: AdminClient) -> list[Topic | None]:
            described = admin.describe_topics(kafka.TopicCollection(names), request_timeout=patience)
            resources = {name: resource(resource.Type.TOPIC, name) for name in names}
            configs = admin.describe_configs(list(resources.values()), request_timeout=patience)
            return [self._topic(name, described[name], configs[resources[name]]) for name in names]

        descriptions = self._ask("describing topics", request)
        with self._lock:
            for name, topic in zip(names, descriptions, strict=True):
                if topic is None:
                    self._known.pop(name, None)
                else:
                    self._known[name] = topic
        return descriptions

    def _topic(self, name: str, described: Future[Any], configs: Future[dict[str, Any]]) -> Topic | None:
        try:
            topic, values = described.result(), configs.result()
        except self._brokers.kafka.KafkaException as raised:
            if error_of(raised).name() in GONE | {"TOPIC_EXCEPTION"}:  # the latter: no topic may have this name
                return None
            raise
        if topic.is_internal:  # a topic of the brokers themselves
            return None
        configuration = {key: entry.value for key, entry in values.items()}
        settings, self._limits[name] = settings_of(configuration), limits_of(configuration)
        self._retention[name] = retention_of(configuration)
        return Topic(name, len(topic.partitions), owned(name, settings), str(topic.topic_id))

    def _make(self, name: str, partitions: int, settings: TopicSettings, copies: int) -> None:
        copies = copies or self._copies()
        new = self._brokers.kafka.admin.NewTopic(
            name, num_partitions=partitions, replication_factor=copies, config=configs_of(settings, copies)
        )

        def request(admin: AdminClient) -> None:
            (future,) = admin.create_topics([new], **self._in_time()).values()
            try:
                future.result()
            except self._brokers.kafka.KafkaException as raised:
                if error_of(raised).name() != "TOPIC_ALREADY_EXISTS":  # somebody was quicker, or our first try was: compared by the caller
                    raise

        self._ask(f"creating the topic {name}", request)

    def _appeared(self, name: str) -> Topic:
        deadline = self._brokers.deadline()
        while (topic := self._find(name)) is None:
            if self._brokers.late(deadline):
                raise Timeout(f"Kafka does not show the new topic {name} in time.", hint="Look again with `headwater log topics`.")
            self._brokers.clock.wait(self._brokers.closing, _PAUSE)
        return topic

    def _copies(self) -> int:
        if self._replication:
            return self._replication
        patience = self._brokers.patience
        described = self._ask("describing the cluster", lambda admin: admin.describe_cluster(request_timeout=patience).result())
        return 3 if len(described.nodes) >= 3 else 1


def _held(admin: AdminClient | None, request: Callable[[AdminClient], T]) -> T:
    if admin is None:
        raise closed()
    return request(admin)


def held(settings: TopicSettings) -> TopicSettings:
    """The settings as Kafka can keep them: a segment has at least 1 MiB, and room for the largest record. A topic shows these.

    Errors: `Unsupported` for what brokers do not offer.
    """
    if isinstance(settings.period, str):
        raise Unsupported(
            f"Brokers close segments at an age, not at the end of a {settings.period} of the calendar.",
            hint="Give the period as a duration, such as 24h.",
        )
    if settings.disposal != "delete":
        raise Unsupported(
            f"Brokers delete the files of segments: the disposal {settings.disposal} is not offered on Kafka.",
            hint="Leave the disposal out, or keep the topic in the embedded log.",
        )
    return msgspec.structs.replace(settings, segment=max(settings.segment, SMALLEST_SEGMENT, settings.max_record + FRAMING))


def configs_of(settings: TopicSettings, copies: int) -> dict[str, str]:
    """A topic's configuration on the brokers. It sets everything that the log's guarantees need, whatever the brokers' defaults are."""
    values: dict[str, object] = {
        "cleanup.policy": "delete",
        "retention.ms": -1,
        "retention.bytes": -1,
        "min.insync.replicas": copies // 2 + 1,
        "unclean.leader.election.enable": "false",
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": FOREVER,
        "message.timestamp.after.max.ms": FOREVER,  # by default Kafka 4 refuses times more than an hour ahead
        "segment.bytes": settings.segment,
        "segment.ms": settings.period or FOREVER,
        "max.message.bytes": settings.max_record + FRAMING,
        OWNER_CONFIG: encode_owner(settings.owner),
        "max.compaction.lag.ms": FOREVER,  # a broker's own default may be below the other one, which brokers refuse
    }
    return {name: str(value) for name, value in values.items()}


def settings_of(configs: Mapping[str, str]) -> TopicSettings:
    """The settings that `configs_of` was given; for a topic of another program, the nearest ones."""
    period = int(configs["segment.ms"])
    return TopicSettings(
        segment=int(configs["segment.bytes"]),
        period=0 if period == FOREVER else period,
        max_record=min(max(1, int(configs["max.message.bytes"]) - FRAMING), 48 << 20),
        owner=decode_owner(int(configs.get(OWNER_CONFIG, 0))),
    )


def limits_of(configs: Mapping[str, str]) -> RecordLimits:
    """What brokers with this configuration take of a topic's records."""
    given_by_broker = configs.get("message.timestamp.type") == "LogAppendTime"
    return RecordLimits(
        settings_of(configs).max_record,
        "compact" in configs.get("cleanup.policy", ""),
        *(FOREVER if given_by_broker else int(configs.get(f"message.timestamp.{way}.max.ms", FOREVER)) for way in ("before", "after")),
    )


def retention_of(configs: Mapping[str, str]) -> str:
    """The setting by which brokers remove records of their own accord; "" where there is none."""
    policy = configs.get("cleanup.policy", "delete")
    if "compact" in policy:
        return f"cleanup.policy={policy}"
    limits = {name: configs.get(name, "-1") for name in ("retention.ms", "retention.bytes")}
    return next((f"{name}={value}" for name, value in limits.items() if value != "-1"), "")


def _words(settings: TopicSettings) -> str:
    return f"segments of {settings.segment} bytes, period {settings.period} ms, records up to {settings.max_record} bytes"
