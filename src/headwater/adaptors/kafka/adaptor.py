"""Kafka: topics as source and sink."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

import msgspec

from headwater.core.errors import BadConfig, BadInput
from headwater.pipeline.adaptor import About
from headwater.pipeline.env import Env
from headwater.pipeline.location import TOPICS
from headwater.pipeline.options import DecimalsOption, Means, Names, Texts, factory
from headwater.pipeline.sink_adaptor import CanWrite, Delivery
from headwater.pipeline.source_adaptor import CanCopy, CanTail

_OURS = frozenset(
    {
        *("acks", "auto.offset.reset", "bootstrap.servers", "enable.auto.commit", "enable.auto.offset.store", "enable.idempotence"),
        *("enable.partition.eof", "group.id", "isolation.level", "message.timeout.ms", "request.required.acks", "transactional.id"),
    }
)


class KafkaAdaptor(CanCopy, CanTail, CanWrite, frozen=True, kw_only=True):
    """A cluster. `topic` names the topic for every namespace, `{namespace}` in it stands for the namespace."""

    kind: ClassVar[str] = "kafka"
    delivery: ClassVar[Delivery] = "at least once"
    keeps_owner: ClassVar[bool] = False
    upserts: ClassVar[bool] = False  # a topic keeps a repeated message until it is compacted
    about: ClassVar[About] = About(
        summary="Kafka's topics, with JSON objects as values.",
        namespace="a topic; as a sink each namespace goes to the topic of its name, unless topic says else",
        source="Copies each partition up to its end when the copy began, in parallel, then follows with tail=True. "
        "Positions are kept in headwater's log: no consumer group is used. Only committed transactions are read. A null value is a delete "
        "of the document whose id is the key. A topic that was deleted and created anew is an error. Topics that "
        "Kafka keeps for itself (__...) are left out.",
        sink="At least once: an idempotent producer, acknowledged by all in-sync replicas before a batch counts. The key is the document's "
        "id, so changes of one document stay in order; a delete is a null value. The headers are op, offset and, of deletes, data. "
        "Topics are not created. Nothing there says who writes: a run of the same pipeline from another data directory is not refused.",
        sample='kafka("broker-1:9092", tail=True)',
    )

    extra: ClassVar[str] = "kafka"
    stores: ClassVar[tuple[str, ...]] = (TOPICS,)
    source_class: ClassVar[str] = "headwater.adaptors.kafka.source:KafkaSource"
    sink_class: ClassVar[str] = "headwater.adaptors.kafka.sink:KafkaSink"

    servers: Annotated[str | Env, Means("The brokers, such as `broker-1:9092,broker-2:9092`.")]
    topic: Annotated[str, Means("The sink's topic; `{namespace}` in it is replaced.")] = "{namespace}"
    tail: Annotated[bool, Means("Follow the topics after the copy.")] = False
    id: Annotated[Names, Means("The fields of a document's id.")] = ("_id",)
    decimals: DecimalsOption = "decimal"
    client: Annotated[
        Texts,
        Means(
            'Further settings of the client, such as `{"security.protocol": "SASL_SSL", "sasl.password": "${SECRET}"}`.',
            files=(".location",),
        ),
    ] = msgspec.field(default_factory=dict)

    def checked(self) -> Self:
        if not str(self.servers).strip():
            raise BadConfig("kafka() names no broker.", hint='Say kafka("broker-1:9092").')
        for name in self.client:
            if name in _OURS:
                raise BadConfig(f"kafka() sets {name} itself: what it promises depends on it.", hint=f"Leave {name} out of client.")
        return self

    def topic_for(self, namespace: str) -> str:
        """The topic that a namespace's messages go to. Errors: `BadInput` for a name that no topic can have."""
        name = self.topic.replace("{namespace}", namespace)
        if not 1 <= len(name) <= 249 or name in (".", "..") or not all(c.isascii() and (c.isalnum() or c in "._-") for c in name):
            raise BadInput(
                f"No topic can have the name {name[:80]!r}.", hint="Topics have letters, digits, dots, dashes and underscores: say topic=."
            )
        return name


kafka = factory(KafkaAdaptor)
