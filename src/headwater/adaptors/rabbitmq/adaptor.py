"""RabbitMQ: queues as a source, exchanges as a sink."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal, get_args

from headwater.core.errors import BadConfig
from headwater.pipeline.adaptor import About, CanTail, CanWrite, Delivery, Part, Piece, SinkWriter
from headwater.pipeline.env import Env
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.strict import strict

DeliveryMode = Literal["persistent", "transient"]
_PLAIN = re.compile(r"\^?((?:[A-Za-z0-9_:/ -]|\\.)+)\$?")  # an expression that means one name


class RabbitMQ(CanTail, CanWrite, frozen=True, kw_only=True):
    """A virtual host of a broker. `{namespace}` in `exchange` and `routing_key` stands for the message's namespace."""

    kind: ClassVar[str] = "rabbitmq"
    delivery: ClassVar[Delivery] = "at least once"
    upserts: ClassVar[bool] = False  # a queue keeps what it gets twice
    about: ClassVar[About] = About(
        summary="RabbitMQ's queues and exchanges.",
        namespace="a queue, as a source. As a sink it is the routing key, to the default exchange, unless exchange and routing_key say "
        "else: so a namespace's messages go to the queue of its name.",
        source="Followed, never copied: a queue is empty once it is read. Without --follow a run ends when they are. Messages are "
        "acknowledged once they are durable in the log; a run that dies in between gets them again. One that is longer than a record, some "
        "16 MiB, ends the run and stays in its queue. Name the queues with queues=, or by a namespace that is one name.",
        sink="At least once. Every message is confirmed by the broker, and refused where no queue would get it. The body is the data as "
        "JSON; op, namespace and offset are headers, and the message id pipeline/sink/offset stays the same when a message is sent again, "
        "but for an operator's replay.",
        sample='rabbitmq("${RABBITMQ_URI}", queues=["orders"])',
    )

    uri: str | Env
    queues: tuple[str, ...] = ()
    exchange: str = ""
    routing_key: str = "{namespace}"
    key_in_field: bool = False
    delivery_mode: DeliveryMode = "persistent"
    prefetch: int = 1000
    ca: str | None = None

    def queues_for(self, chosen: Namespaces) -> list[str]:
        """The queues to read. Errors: `BadConfig` where nothing names them: the protocol cannot list them."""
        if self.queues:
            found = [name for name in self.queues if name in chosen]
        else:
            plain = _PLAIN.fullmatch(chosen.expression)
            found = [re.sub(r"\\(.)", r"\1", plain[1])] if plain else []
        if not found:
            raise BadConfig(
                f"No queue is named: the namespace {chosen} is no single name, and a broker cannot be asked which queues it has.",
                hint='Name them: rabbitmq(..., queues=["orders"]).',
            )
        return found

    def check(self, role: Literal["source", "sink"], chosen: Namespaces) -> list[str]:
        from headwater.adaptors.rabbitmq.connection import connected, declared

        with connected(self) as connection:
            if role == "source":
                return [f"queue {name}: {declared(connection, queue=name)} messages" for name in self.queues_for(chosen)]
            if self.exchange and "{namespace}" not in self.exchange:
                declared(connection, exchange=self.exchange)
                return [f"exchange {self.exchange} is there"]
            return ["connected"]

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        from headwater.adaptors.rabbitmq.source import follow

        return follow(self, chosen, stopped)

    def writer(self, part: Part) -> SinkWriter:
        from headwater.adaptors.rabbitmq.sink import RabbitMQWriter

        return RabbitMQWriter(self, part)


@strict
def rabbitmq(
    uri: str | Env,
    *,
    queues: str | tuple[str, ...] | list[str] = (),
    exchange: str = "",
    routing_key: str = "{namespace}",
    key_in_field: bool = False,
    delivery_mode: DeliveryMode = "persistent",
    prefetch: int = 1000,
    ca: str | None = None,
) -> RabbitMQ:
    """A virtual host, such as `amqp://user:password@host:5672/`. `queues`: what is read.

    `exchange`, `routing_key`: where messages go; with `key_in_field` the routing key is the value of the field that `routing_key` names.
    `delivery_mode`: "persistent" messages survive a restart of the broker in queues that do. `prefetch`: how many messages may be read
    before they are durable. `ca`: a file of authorities to trust with amqps.
    """
    if delivery_mode not in get_args(DeliveryMode):
        raise BadConfig(f"rabbitmq() knows no delivery_mode {delivery_mode!r}.", hint=f"Use one of {', '.join(get_args(DeliveryMode))}.")
    if not 1 <= prefetch <= 65_535:
        raise BadConfig(f"rabbitmq() cannot prefetch {prefetch} messages.", hint="Use 1 to 65535.")
    if key_in_field and (not routing_key or "{" in routing_key):
        raise BadConfig("With key_in_field, routing_key is the name of a field.", hint='Say routing_key="country", key_in_field=True.')
    return RabbitMQ(
        uri=uri,
        queues=(queues,) if isinstance(queues, str) else tuple(queues),
        exchange=exchange,
        routing_key=routing_key,
        key_in_field=key_in_field,
        delivery_mode=delivery_mode,
        prefetch=prefetch,
        ca=ca,
    )
