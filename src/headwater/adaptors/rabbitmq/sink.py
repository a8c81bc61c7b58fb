"""Writing to an exchange: a batch is published at once, and taken when the broker has confirmed all of its messages.

To wait for each confirmation costs a sync of the broker's disk per message: about a hundred in a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import pika
from pika import exceptions

from headwater.adaptors.converting_writer import ConvertingWriter, as_unreachable, identity_of
from headwater.adaptors.rabbitmq.adaptor import RabbitMQ
from headwater.adaptors.rabbitmq.connection import PRECONDITION, SECONDS, TOO_LARGE, connected, declared, explained, parameters, place
from headwater.core.errors import BadInput, Denied, HeadwaterError, NotFound, Rejected, Unreachable
from headwater.pipeline import values
from headwater.pipeline.location import Location
from headwater.pipeline.message import Message
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Part, SinkAdaptor, SinkWriter

LONGEST_KEY = 255  # bytes: a limit of the protocol


class OutgoingMessage(NamedTuple):
    offset: int
    exchange: str
    key: str
    body: bytes
    properties: Any


class RabbitMQSink(SinkAdaptor[RabbitMQ]):
    """Exchanges."""

    def check(self, chosen: Namespaces) -> list[str]:
        exchange = self.adaptor.exchange
        with connected(self.adaptor) as connection:
            if not exchange or "{namespace}" in exchange:
                return ["connected"]
            declared(connection, exchange=exchange)
        return [f"exchange {exchange} is there"]

    def place(self, namespace: str) -> str:
        """The queue of a message that goes to the default exchange by its namespace: AMQP does not tell the queues of other exchanges."""
        by_name = not self.adaptor.exchange and not self.adaptor.key_in_field
        return self.adaptor.routing_key.replace("{namespace}", namespace) if by_name else namespace

    def overlaps(self, reads: Sequence[Location]) -> list[Location]:
        if self.adaptor.exchange or self.adaptor.key_in_field:
            return []
        where = virtual_host(self.adaptor)
        return [location for location in reads if location.system == where]

    def writer(self, part: Part) -> SinkWriter:
        return RabbitMQWriter(self.adaptor, part)


class RabbitMQWriter(ConvertingWriter[OutgoingMessage]):
    """Where the broker refuses a message, all before it are confirmed."""

    def __init__(self, adaptor: RabbitMQ, part: Part) -> None:
        self._confirming = ConfirmingChannel(parameters(adaptor))
        super().__init__(part, f"RabbitMQ at {self._confirming.where}")
        self._adaptor = adaptor

    def close(self) -> None:
        self._confirming.close()

    def convert(self, message: Message) -> OutgoingMessage:
        identity_of(message, "RabbitMQ", needed=())
        key = self._key(message)
        exchange = self._adaptor.exchange.replace("{namespace}", message.namespace)
        for name, text in (("routing key", key), ("exchange's name", exchange)):
            if len(text.encode()) > LONGEST_KEY:
                raise BadInput(f"The {name} {text[:40]!r}... has more than {LONGEST_KEY} bytes.", hint="Shorten it.")
        part = self._part
        # A replay has another id: a receiver that drops repeats must not drop it.
        again = f"/{part.attempt}" if part.again else ""
        properties = pika.BasicProperties(
            content_type="application/json",
            delivery_mode=2 if self._adaptor.delivery_mode == "persistent" else 1,
            message_id=f"{part.pipeline}/{part.sink}/{message.offset}{again}"[:LONGEST_KEY],
            timestamp=max(0, message.timestamp // 1000) or None,  # the protocol knows no time before 1970
            headers={"op": message.op.name.lower(), "namespace": message.namespace, "offset": message.offset},
        )
        return OutgoingMessage(message.offset, exchange, key, values.encode(message.data), properties)

    def _key(self, message: Message) -> str:
        routing_key = self._adaptor.routing_key
        if not self._adaptor.key_in_field:
            return routing_key.replace("{namespace}", message.namespace)
        value: Any = message.data
        for name in routing_key.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        value = values.native(value)
        if value is None or isinstance(value, dict | list | bytes):
            raise BadInput(
                f"The field {routing_key} holds no routing key.", hint="Correct it with edit, or say routing_key without key_in_field."
            )
        return value if isinstance(value, str) else values.encode(values.extended(value)).decode()

    def send(self, converted: Sequence[OutgoingMessage]) -> None:
        alone = converted[0].offset if len(converted) == 1 else -1
        try:
            returned = self._confirming.send(converted, self._deadline - self._clock())
        except DeadlinePassed as late:
            raise self.late(str(late)) from None
        except NotFound as error:  # the exchange of one namespace; or the exchange of every message, which is no message's fault
            if "{namespace}" not in self._adaptor.exchange:
                raise as_unreachable(error) from None
            raise Rejected(error.message, offset=alone, hint=error.hint) from None
        except MessageTooLarge as error:
            raise Rejected(f"RabbitMQ refuses a message: {error}.", offset=alone, hint="Make it smaller.") from None
        if returned:  # the others are confirmed; those behind it are sent again
            no = min(returned, key=lambda message: message.offset)
            to = f"exchange {no.exchange!r}" if no.exchange else "the default exchange"
            raise Rejected(
                f"No queue would get it: {to} of {self._where} has none for the routing key {no.key!r}.",
                offset=no.offset,
                before_taken=True,
                hint="Declare or bind a queue, then run again.",
            )


def virtual_host(adaptor: RabbitMQ) -> str:
    """The identity of the virtual host, whatever address it is reached by. Errors: `Unreachable`, `Denied`, `BadConfig`."""
    settings = parameters(adaptor)
    with closing(ConfirmingChannel(settings)) as channel:
        return f"rabbitmq {channel.cluster}/{settings.virtual_host}"


class DeadlinePassed(Exception):
    """The batch was not confirmed within its timeout."""


class MessageTooLarge(Exception):
    """The broker has closed the channel because of a message's size or content."""


class ConfirmingChannel:
    """A channel with publisher confirms, for many messages at once: pika's blocking channel waits for each message."""

    def __init__(self, settings: Any) -> None:
        self.where = place(settings)
        self._channel: Any = None
        self._problem: BaseException | None = None
        self._open = self._closing = self._closed = False
        self._late = self._blocked = False
        self._done: Callable[[], bool] = bool
        self._pending: dict[int, OutgoingMessage] = {}
        self._returned: dict[int, OutgoingMessage] = {}
        self._refused = False
        self._published = 0
        self._connection = pika.SelectConnection(
            settings, on_open_callback=self._opened, on_open_error_callback=self._ended, on_close_callback=self._ended
        )
        try:
            self._run(lambda: self._open, 2 * SECONDS)
        except DeadlinePassed:
            self.close()
            raise Unreachable(f"RabbitMQ at {self.where} does not answer.", hint="See whether it runs.") from None
        except BaseException:
            self.close()
            raise

    def send(self, messages: Sequence[OutgoingMessage], seconds: float) -> list[OutgoingMessage]:
        """Publish these; return those that no queue got. All others are confirmed.

        Errors: `DeadlinePassed`, `MessageTooLarge`; `NotFound` for an exchange; `Unreachable` when the connection ends.
        """
        self._pending, self._returned, self._refused = {}, {}, False
        try:
            if self._closed or not self._channel.is_open:  # without this check nothing would be pending, and all would count as confirmed
                raise explained(self._problem or ConnectionError(), self.where)
            for message in messages:
                self._published += 1
                self._pending[self._published] = message
                self._channel.basic_publish(message.exchange, message.key, message.body, message.properties, mandatory=True)
            self._run(lambda: not self._pending, seconds)
        except Denied as error:  # a right was taken away
            raise as_unreachable(error) from None
        if self._refused:
            raise Unreachable(f"RabbitMQ at {self.where} could not take a message.", hint="See its log.")
        return list(self._returned.values())

    def close(self) -> None:
        connection = self._connection
        try:
            if not self._closed and connection.is_open:
                self._closing, self._problem = True, None
                connection.close()
                self._run(lambda: self._closed, 2.0)
        except (exceptions.AMQPError, HeadwaterError, DeadlinePassed, MessageTooLarge, OSError):
            pass  # it is closed already
        finally:
            self._closed = True
            connection.ioloop.close()

    @property
    def cluster(self) -> str:
        """The cluster's own name; the broker's address where it says none."""
        return str((self._connection.server_properties or {}).get("cluster_name") or self.where)

    # -- the loop -------------------------------------------------------------------------------------------

    def _run(self, done: Callable[[], bool], seconds: float) -> None:
        """Run the connection's loop until `done`. Errors: as `send`."""
        self._late = False
        self._done = done
        loop = self._connection.ioloop
        if not done() and not self._closed and self._problem is None:
            timer = loop.call_later(max(0.0, seconds), self._time_is_up)
            loop.start()
            loop.remove_timeout(timer)
        if done():
            return
        if self._late:
            raise DeadlinePassed("it is short of memory or disk, and blocks" if self._blocked else "")
        problem = self._problem or ConnectionError()
        if getattr(problem, "reply_code", 0) in (PRECONDITION, TOO_LARGE):
            raise MessageTooLarge(getattr(problem, "reply_text", ""))
        raise explained(problem, self.where)

    def _look(self) -> None:
        if self._done() or self._closed or self._problem is not None:
            self._connection.ioloop.stop()

    def _time_is_up(self) -> None:
        self._late = True
        self._connection.ioloop.stop()

    def _opened(self, connection: Any) -> None:
        connection.add_on_connection_blocked_callback(lambda *_: setattr(self, "_blocked", True))
        connection.add_on_connection_unblocked_callback(lambda *_: setattr(self, "_blocked", False))
        connection.channel(on_open_callback=self._with_channel)

    def _with_channel(self, channel: Any) -> None:
        self._channel = channel
        channel.add_on_close_callback(self._channel_ended)
        channel.add_on_return_callback(self._got_back)
        channel.confirm_delivery(self._confirmed, callback=self._ready)

    def _ready(self, frame: Any) -> None:
        self._open = True
        self._look()

    def _ended(self, connection: Any, reason: Any) -> None:
        self._problem = self._problem or (reason if isinstance(reason, BaseException) else ConnectionError(str(reason)))
        self._closed = True
        self._connection.ioloop.stop()

    def _channel_ended(self, channel: Any, reason: BaseException) -> None:
        if not self._closing:
            self._problem = self._problem or reason
            self._look()

    def _got_back(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        offset = (properties.headers or {}).get("offset")
        for tag, message in self._pending.items():
            if message.offset == offset:
                self._returned[tag] = message
                return

    def _confirmed(self, frame: Any) -> None:
        method = frame.method
        self._refused |= method.NAME == "Basic.Nack"
        tags = [tag for tag in self._pending if tag <= method.delivery_tag] if method.multiple else [method.delivery_tag]
        for tag in tags:
            self._pending.pop(tag, None)
        self._look()
