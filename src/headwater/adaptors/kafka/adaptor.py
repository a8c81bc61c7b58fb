"""Kafka: topics as source and sink."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Literal

import msgspec

from headwater.core.errors import BadConfig, BadInput, NotFound
from headwater.pipeline.adaptor import About, CanCopy, CanTail, CanWrite, CopyPlan, Delivery, Part, Piece, SinkWriter, Slice
from headwater.pipeline.env import Env
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.strict import strict


class KafkaAdaptor(CanCopy, CanTail, CanWrite, frozen=True, kw_only=True):
    """A cluster. `topic` names the topic for every namespace, `{namespace}` in it stands for the namespace."""

    kind: ClassVar[str] = "kafka"
    delivery: ClassVar[Delivery] = "at least once"
    upserts: ClassVar[bool] = False  # a topic keeps what it gets twice, until it is compacted
    about: ClassVar[About] = About(
        summary="Kafka's topics, with JSON objects as values.",
        namespace="a topic; as a sink each namespace goes to the topic of its name, unless topic says else",
        source="Copies each partition up to where it ended when the copy began, partitions side by side, then follows with tail=True. "
        "Positions are kept in headwater's log: no consumer group is used. Only committed transactions are read. A null value is a delete "
        "of the document whose id is the key. A topic that was deleted and made anew is an error, not read from its middle. Topics that "
        "Kafka keeps for itself (__...) are left out.",
        sink="At least once: an idempotent producer, acknowledged by all in-sync replicas before a batch counts. The key is the document's "
        "id, so changes of one document stay in order; a delete is a null value. The headers op, offset and, of deletes, data tell more. "
        "Topics are not created.",
        sample='kafka("broker-1:9092", tail=True)',
    )

    servers: str | Env
    topic: str = "{namespace}"
    tail: bool = False
    id: tuple[str, ...] = ("_id",)
    client: dict[str, str | Env] = msgspec.field(default_factory=dict)

    def check(self, role: Literal["source", "sink"], chosen: Namespaces) -> list[str]:
        from headwater.adaptors.kafka.connection import Cluster

        with Cluster(self) as cluster:
            if role == "source":
                found = cluster.bounds(cluster.topics(chosen))
                return [f"topic {name}: {sum(end - begin for begin, end in ends.values()):,} offsets" for name, ends in found.items()]
            topics = cluster.partitions()
            if "{namespace}" not in self.topic and self.topic not in topics:
                raise NotFound(f"Kafka at {cluster.where} has no topic {self.topic}.", hint="Create it first.")
            return [f"{len(topics)} topics"]

    # -- reading --------------------------------------------------------------------------------------------

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        from headwater.adaptors.kafka.source import plan

        return plan(self, chosen)

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        from headwater.adaptors.kafka.source import read

        return read(self, part, position)

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        from headwater.adaptors.kafka.connection import Cluster

        with Cluster(self) as cluster:
            try:
                return cluster.identity(list(plan.identity)) == plan.identity
            except NotFound:
                return False

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        from headwater.adaptors.kafka.source import follow

        return follow(self, cursor, chosen, stopped)

    # -- writing --------------------------------------------------------------------------------------------

    def topic_for(self, namespace: str) -> str:
        """The topic that a namespace's messages go to. Errors: `BadInput` for a name that no topic can have."""
        name = self.topic.replace("{namespace}", namespace)
        if not 1 <= len(name) <= 249 or name in (".", "..") or not all(c.isascii() and (c.isalnum() or c in "._-") for c in name):
            raise BadInput(
                f"No topic can have the name {name[:80]!r}.", hint="Topics have letters, digits, dots, dashes and underscores: say topic=."
            )
        return name

    def writer(self, part: Part) -> SinkWriter:
        from headwater.adaptors.kafka.sink import KafkaSinkWriter

        return KafkaSinkWriter(self, part)


_OURS = frozenset(
    {
        "acks",
        "auto.offset.reset",
        "bootstrap.servers",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "enable.partition.eof",
        "group.id",
        "isolation.level",
        "message.timeout.ms",
        "request.required.acks",
        "transactional.id",
    }
)


@strict
def kafka(
    servers: str | Env,
    *,
    topic: str = "{namespace}",
    tail: bool = False,
    id: str | tuple[str, ...] | list[str] = "_id",
    client: Mapping[str, str | Env] | None = None,
) -> KafkaAdaptor:
    """The brokers, such as `broker-1:9092,broker-2:9092`. `tail`: go on with what comes after the copy. `id`: the fields that tell
    documents apart. `client`: further settings of the client, such as `{"security.protocol": "SASL_SSL", "sasl.password": "${SECRET}"}`.
    """
    if not str(servers).strip():
        raise BadConfig("kafka() names no broker.", hint='Say kafka("broker-1:9092").')
    for name, value in (client or {}).items():
        if name in _OURS:
            raise BadConfig(f"kafka() sets {name} itself: what it promises depends on it.", hint=f"Leave {name} out of client.")
        if not isinstance(value, str | Env):
            raise BadConfig(f"The client's setting {name} is no text.", hint=f'Write client={{"{name}": "..."}}.')
    return KafkaAdaptor(
        servers=servers, topic=topic, tail=tail, id=(id,) if isinstance(id, str) else tuple(id), client={**client} if client else {}
    )
