"""RabbitMQ: queues as a source, exchanges as a sink."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal, Self

from headwater.core.errors import BadConfig
from headwater.pipeline.adaptor import About
from headwater.pipeline.env import Env
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.options import DecimalsOption, Means, Names, factory
from headwater.pipeline.sink_adaptor import CanWrite, Delivery
from headwater.pipeline.source_adaptor import CanTail

_PLAIN = re.compile(r"\^?((?:[A-Za-z0-9_:/ -]|\\.)+)\$?")  # an expression that means one name


class RabbitMQ(CanTail, CanWrite, frozen=True, kw_only=True):
    """A virtual host of a broker. `{namespace}` in `exchange` and `routing_key` stands for the message's namespace."""

    kind: ClassVar[str] = "rabbitmq"
    delivery: ClassVar[Delivery] = "at least once"
    keeps_owner: ClassVar[bool] = False
    upserts: ClassVar[bool] = False  # a queue keeps a repeated message
    about: ClassVar[About] = About(
        summary="RabbitMQ's queues and exchanges.",
        namespace="a queue, as a source. As a sink it is the routing key, to the default exchange, unless exchange and routing_key say "
        "else: so a namespace's messages go to the queue of its name.",
        source="Followed, never copied: a queue is empty once it is read. Without --follow a run ends when all are empty. Messages are "
        "acknowledged once they are durable in the log; a run that dies in between gets them again. One that is longer than a record, some "
        "16 MiB, ends the run and stays in its queue. Name the queues with queues=, or by a namespace that is one name.",
        sink="At least once. Every message is confirmed by the broker, and refused where no queue would get it. The body is the data as "
        "JSON; op, namespace and offset are headers, and the message id pipeline/sink/offset stays the same when a message is sent again, "
        "but for an operator's replay. Nothing there says who writes: a run of the same pipeline from another data directory is not "
        "refused.",
        sample='rabbitmq("${RABBITMQ_URI}", queues=["orders"])',
    )

    extra: ClassVar[str] = "rabbitmq"
    stores: ClassVar[tuple[str, ...]] = ("rabbitmq",)
    source_class: ClassVar[str] = "headwater.adaptors.rabbitmq.source:RabbitMQSource"
    sink_class: ClassVar[str] = "headwater.adaptors.rabbitmq.sink:RabbitMQSink"

    uri: Annotated[str | Env, Means("A virtual host, such as `amqp://user:password@host:5672/`.")]
    queues: Annotated[Names, Means("The queues that are read.")] = ()
    decimals: DecimalsOption = "decimal"
    exchange: Annotated[str, Means("The exchange that messages go to; `{namespace}` in it is replaced.")] = ""
    routing_key: Annotated[str, Means("The routing key that messages go with; `{namespace}` in it is replaced.")] = "{namespace}"
    key_in_field: Annotated[bool, Means("The routing key is the value of the field that `routing_key` names.")] = False
    delivery_mode: Annotated[
        Literal["persistent", "transient"], Means("Persistent messages survive a restart of the broker in queues that do.")
    ] = "persistent"
    prefetch: Annotated[int, Means("The most messages that are read and not yet durable.", 1, 65_535)] = 1000
    ca: Annotated[str | None, Means("A file of authorities to trust with `amqps`.", path=True)] = None

    def checked(self) -> Self:
        if self.key_in_field and (not self.routing_key or "{" in self.routing_key):
            raise BadConfig("With key_in_field, routing_key is the name of a field.", hint='Say routing_key="country", key_in_field=True.')
        return self

    def queues_for(self, chosen: Namespaces) -> list[str]:
        """The queues to read. Errors: `BadConfig` where nothing names them: the protocol cannot list them."""
        if self.queues:
            names = [name for name in self.queues if name in chosen]
        else:
            plain = _PLAIN.fullmatch(chosen.expression)
            names = [re.sub(r"\\(.)", r"\1", plain[1])] if plain else []
        if not names:
            raise BadConfig(
                f"No queue is named: the namespace {chosen} is no single name, and AMQP cannot list queues.",
                hint='Name them: rabbitmq(..., queues=["orders"]).',
            )
        return names


rabbitmq = factory(RabbitMQ)
