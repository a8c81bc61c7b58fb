"""Reading queues: a message is acknowledged when the caller asks for the next piece, after it has stored the last one."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from pika.exceptions import ChannelClosed

from headwater.adaptors.pieces import PieceBuffer, decoded
from headwater.adaptors.rabbitmq.adaptor import RabbitMQ
from headwater.adaptors.rabbitmq.connection import ABSENT, connected, declared, parameters, place
from headwater.adaptors.rabbitmq.sink import virtual_host
from headwater.core.errors import HeadwaterError, NotFound, TooLarge, Unreachable
from headwater.pipeline import values
from headwater.pipeline.location import Location
from headwater.pipeline.message import Message, Mode, op_said
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_adaptor import LONGEST, Piece, SourceAdaptor
from headwater.pipeline.values import Decimals

_PIECE = 4 << 20  # bytes
_WAIT = 0.2  # seconds between two checks whether to stop
_FIRST = 15.0  # seconds that a broker may take to send its messages
_LATEST = (1 << 63) // 1000 - 1  # seconds since 1970 that a record can hold
_GROWS = 8  # the most that a body may grow in a record


class ReceivedMessage(NamedTuple):
    tag: int
    message: Message
    wrong: str
    size: int


class RabbitMQSource(SourceAdaptor[RabbitMQ]):
    """Queues. The broker keeps the position."""

    def check(self, chosen: Namespaces) -> list[str]:
        with connected(self.adaptor) as connection:
            return [f"queue {name}: {declared(connection, queue=name)} messages" for name in self.adaptor.queues_for(chosen)]

    def locations(self, chosen: Namespaces) -> list[Location]:
        where = virtual_host(self.adaptor)
        return [Location(where, name) for name in self.adaptor.queues_for(chosen)]

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        """Messages of all queues on one channel: one acknowledgement covers everything up to a message."""
        queues = self.adaptor.queues_for(chosen)
        waiting: deque[ReceivedMessage] = deque()
        cancelled: list[bool] = []
        with connected(self.adaptor) as connection:
            channel, asking = connection.channel(), connection.channel()
            channel.basic_qos(prefetch_count=self.adaptor.prefetch)
            channel.add_on_cancel_callback(lambda frame: cancelled.append(True))
            for queue in queues:
                channel.basic_consume(queue, partial(_take, waiting, queue, self.adaptor.decimals))
            quiet_from = time.monotonic()
            while not stopped():
                if not waiting:
                    connection.process_data_events(time_limit=_WAIT)
                # An empty piece says that there is nothing new: not while a slow broker still has messages to send.
                if not waiting and not cancelled and time.monotonic() - quiet_from < _FIRST and _ready(asking, queues):
                    continue
                quiet_from = time.monotonic()
                if cancelled and not waiting:
                    raise _cancelled(asking, queues, place(parameters(self.adaptor)))
                piece, last = _piece(waiting)
                yield piece
                if last:  # the caller asks for more: the last piece is durable
                    channel.basic_ack(last, multiple=True)


def _cancelled(channel: Any, queues: list[str], where: str) -> HeadwaterError:
    """The error of a cancelled consumer: a queue is deleted, has moved to another node, or was declared anew."""
    names = ", ".join(queues)
    try:
        _ready(channel, queues)
    except ChannelClosed as error:
        if error.reply_code == ABSENT:
            return NotFound(f"A queue of {names} was deleted at {where}.", hint="Declare it again, or leave it out.")
        raise
    return Unreachable(f"RabbitMQ at {where} has cancelled the consumer of {names}.", hint="See its log.")


def _ready(channel: Any, queues: list[str]) -> bool:
    """Whether a queue holds messages that no consumer has received yet."""
    return any(channel.queue_declare(queue, passive=True).method.message_count for queue in queues)


def _take(waiting: deque[ReceivedMessage], queue: str, decimals: Decimals, channel: Any, method: Any, properties: Any, body: bytes) -> None:
    data, wrong = decoded(body, "body", decimals=decimals)
    if wrong:
        label = f"message {properties.message_id}" if properties.message_id else f"delivery {method.delivery_tag} of this run"
        wrong = f"Queue {queue}, {label}: {wrong}"
    stamp = properties.timestamp
    timestamp = stamp * 1000 if isinstance(stamp, int) and 0 <= stamp <= _LATEST else 0
    message = Message(queue, data, op_said((properties.headers or {}).get("op")), timestamp=timestamp, mode=Mode.SYNC)
    waiting.append(ReceivedMessage(method.delivery_tag, message, wrong, len(body)))


def _piece(waiting: deque[ReceivedMessage]) -> tuple[Piece, int]:
    """The next piece, and the tag of its last message; 0 where nothing waits.

    Errors: `TooLarge` for a message that no record can hold: its beginning alone would be stored, and the whole message acknowledged.
    """
    gathered = PieceBuffer(_PIECE)
    last = 0
    while waiting and not gathered.full:
        got = waiting[0]
        if got.size * _GROWS > LONGEST and (length := len(values.store(got.message.data))) > LONGEST:
            if gathered:
                break
            raise TooLarge(
                f"A message of the queue {got.message.namespace} has {length} bytes, and a record of the log at most {LONGEST}: it stays "
                "in the queue.",
                hint="Take it out of the queue, and see that none of this length is sent; then run again.",
            )
        waiting.popleft()
        gathered.add(got.message, got.wrong, size=got.size)
        last = got.tag
    return gathered.piece(None), last  # the broker keeps the position
