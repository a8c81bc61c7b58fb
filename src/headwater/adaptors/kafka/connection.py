"""Clients of a Kafka cluster, and their errors as headwater's."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from headwater.adaptors.kafka.adaptor import KafkaAdaptor
from headwater.core.errors import BadConfig, Denied, HeadwaterError, NotFound, Unreachable
from headwater.pipeline.clients import Closing
from headwater.pipeline.env import resolve
from headwater.pipeline.namespaces import Namespaces

SECONDS = 15.0  # for one request
GONE = frozenset({"UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})
DENIED = frozenset({"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED"}) | {
    f"{what}_AUTHORIZATION_FAILED" for what in ("CLUSTER", "GROUP", "TOPIC")
}


def settings(adaptor: KafkaAdaptor, **own: Any) -> dict[str, Any]:
    """The configuration of a client. Errors: `BadConfig` for variables that the environment lacks."""
    common: dict[str, Any] = {
        "client.id": "headwater-pipeline",
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
        "log_level": 2,  # the errors say enough
        "allow.auto.create.topics": False,  # a typo must not create a topic
    }
    client = {name: resolve(value) for name, value in adaptor.client.items()}
    return {**common, **client, **own, "bootstrap.servers": str(adaptor.resolved().servers)}


def new_client(kind: Any, options: dict[str, Any]) -> Any:
    """A new client. Errors: `BadConfig` for settings that it refuses."""
    try:
        return kind(options)
    except KafkaException as refused:
        raise BadConfig(f"The Kafka client does not take its settings: {refused.args[0].str()}.", hint="Look at client=.") from None


class ClientErrors:
    """The last error of a client's connections. The errors of its calls say only that there is no connection, not why."""

    def __init__(self) -> None:
        self._last: Any = None
        self.final = False  # no broker accepts the client: waiting is useless

    def __call__(self, error: Any) -> None:
        self.final |= error.name() == "_ALL_BROKERS_DOWN" or error.name() in DENIED
        if error.name() != "_ALL_BROKERS_DOWN":  # comes after the reason
            self._last = error

    @property
    def said(self) -> str:
        """The last error as the end of a sentence; empty where there is none."""
        return "" if self._last is None else str(self._last.str()).rstrip(".")

    def reason(self, error: Any) -> Any:
        """The reason of an error."""
        return self._last if self._last is not None and error.name() in ("_TRANSPORT", "_TIMED_OUT", "_MSG_TIMED_OUT") else error


def explained(error: Any, where: str, action: str) -> HeadwaterError:
    """The client's error as headwater's."""
    name, text = error.name(), str(error.str()).rstrip(".")
    if name in GONE:
        return NotFound(f"Kafka at {where} has no such topic or partition: {action} failed.", hint="Create the topic first.")
    if name in DENIED:
        return Denied(f"Kafka at {where} refuses {action}: {text}.", hint="Look at the credentials in client=, and at the brokers' rights.")
    return Unreachable(f"Kafka at {where} did not manage {action}: {text}.", hint="See whether the brokers run, and the address is right.")


class Cluster(Closing):
    """A consumer without a group, for metadata and for assigned partitions."""

    def __init__(self, adaptor: KafkaAdaptor, **own: Any) -> None:
        self.where = str(adaptor.resolved().servers)
        self._adaptor = adaptor
        self._heard = ClientErrors()
        self.consumer = new_client(
            Consumer,
            settings(
                adaptor,
                **{
                    "group.id": "headwater",  # the client requires one; nothing is ever committed
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "enable.partition.eof": True,  # the last offsets may be transaction markers, which are never returned
                    "isolation.level": "read_committed",
                    "auto.offset.reset": "error",  # a reset would skip deleted messages silently
                    "fetch.wait.max.ms": 100,
                    "fetch.queue.backoff.ms": 1,
                    "error_cb": self._heard,
                    **own,
                },
            ),
        )

    def close(self) -> None:
        self.consumer.close()

    def partitions(self) -> dict[str, list[int]]:
        """Every topic that is not Kafka's own, with its partitions. Errors: `Unreachable`, `Denied`."""
        return {name: sorted(topic.partitions) for name, topic in self._listed().items() if topic.error is None}

    def _listed(self) -> dict[str, Any]:
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                topics = self.consumer.list_topics(timeout=1.0).topics
                break
            except KafkaException as error:
                self.consumer.poll(0)  # calls error_cb with the reason
                if self._heard.final or time.monotonic() > deadline:
                    raise explained(self._heard.reason(error.args[0]), self.where, "listing topics") from None
        return {name: topic for name, topic in sorted(topics.items()) if not name.startswith("__")}

    def topics(self, chosen: Namespaces) -> dict[str, list[int]]:
        """The chosen topics. Errors: `NotFound` where there are none; `Unreachable`, `Denied`, also for a topic without metadata."""
        partitions: dict[str, list[int]] = {}
        for name, topic in self._listed().items():
            if name not in chosen:
                continue
            if topic.error is None:
                partitions[name] = sorted(topic.partitions)
            elif topic.error.name() not in GONE:  # left out, it would be silently missing from the copy
                raise explained(topic.error, self.where, f"describing {name}")
        if not partitions:
            raise NotFound(f"Kafka at {self.where} has no topic that matches {chosen}.", hint="Look at the namespace and at the topics.")
        return partitions

    def bounds(self, topics: dict[str, list[int]]) -> dict[str, dict[int, tuple[int, int]]]:
        """The first and the end offset of each partition."""
        ends: dict[str, dict[int, tuple[int, int]]] = {}
        for name, numbers in topics.items():
            for number in numbers:
                try:
                    begin, end = self.consumer.get_watermark_offsets(TopicPartition(name, number), timeout=SECONDS)
                except KafkaException as error:
                    raise explained(error.args[0], self.where, f"reading the offsets of {name}") from None
                ends.setdefault(name, {})[number] = (int(begin), int(end))
        return ends

    def system(self) -> str:
        """The identity of the cluster, whatever broker was asked. Errors: `Unreachable`, `Denied`."""
        admin = new_client(AdminClient, settings(self._adaptor))
        try:
            return f"kafka {admin.describe_cluster(request_timeout=SECONDS).result().cluster_id}"
        except KafkaException as error:
            raise explained(error.args[0], self.where, "describing the cluster") from None

    def identity(self, topics: list[str]) -> dict[str, str]:
        """The id of each topic, which changes when a topic is created anew. Errors: `NotFound`."""
        admin = new_client(AdminClient, settings(self._adaptor))
        ids = {}
        for name, answer in admin.describe_topics(TopicCollection(topics), request_timeout=SECONDS).items() if topics else ():
            try:
                ids[name] = str(answer.result().topic_id)
            except KafkaException as error:
                raise explained(error.args[0], self.where, f"describing {name}") from None
        return ids
