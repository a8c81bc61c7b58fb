"""Connections to RabbitMQ, and its errors as headwater's. No error shows more of the URI than host, port and virtual host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import pika
from pika import exceptions

from headwater.adaptors.rabbitmq.adaptor import RabbitMQ
from headwater.core.errors import BadConfig, Denied, HeadwaterError, NotFound, Unreachable
from headwater.pipeline.clients import trusting
from headwater.pipeline.env import Env

SECONDS = 10.0  # to connect
REFUSED, ABSENT, TOO_LARGE, PRECONDITION = 403, 404, 311, 406  # reply codes of a closed channel


def parameters(adaptor: RabbitMQ) -> Any:
    """The parameters of a connection. Errors: `BadConfig`."""
    resolved = adaptor.resolved()
    text = str(resolved.uri)
    try:
        parts = urlsplit(text)
        if parts.scheme not in ("amqp", "amqps") or not parts.hostname:
            raise ValueError
        settings = pika.URLParameters(text)
    except (ValueError, TypeError) as error:
        shown = str(adaptor.uri) if isinstance(adaptor.uri, Env) else "The uri"  # what was written, where that holds no secret
        hint = "Give amqp://user:password@host:5672/vhost."
        raise BadConfig(f"{shown} is no address of RabbitMQ.", hint=hint) from error.with_traceback(None)
    if resolved.ca is not None:
        settings.ssl_options = pika.SSLOptions(trusting(resolved.ca), settings.host)
    settings.socket_timeout = settings.stack_timeout = SECONDS
    settings.connection_attempts = 1
    # A reader that waits answers no heartbeats, and the broker would close the connection. TCP keepalive notices a lost peer.
    settings.heartbeat = 0
    settings.tcp_options = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
    return settings


def place(settings: Any) -> str:
    return f"{settings.host}:{settings.port}, virtual host {settings.virtual_host}"


@contextmanager
def connected(adaptor: RabbitMQ) -> Iterator[Any]:
    """A blocking connection. Errors: `Unreachable`, `Denied`, `NotFound`, `BadConfig`, also for pika's errors inside."""
    settings = parameters(adaptor)
    connection: Any = None
    try:
        connection = pika.BlockingConnection(settings)
        yield connection
    except (exceptions.AMQPError, OSError) as error:
        raise explained(error, place(settings)) from None
    finally:
        with suppress(exceptions.AMQPError, OSError):  # it may be gone already
            if connection is not None and connection.is_open:
                connection.close()


def declared(connection: Any, *, queue: str = "", exchange: str = "") -> int:
    """Check that a queue or an exchange exists; return the count of waiting messages of a queue. Errors: as `connected`."""
    channel = connection.channel()
    try:
        if exchange:
            channel.exchange_declare(exchange, passive=True)
            return 0
        return int(channel.queue_declare(queue, passive=True).method.message_count)
    finally:
        if channel.is_open:
            channel.close()


def explained(error: BaseException, where: str) -> HeadwaterError:
    """pika's error as headwater's. Only the broker's reply is shown: pika's texts may hold the user's name."""
    if isinstance(error, exceptions.ProbableAuthenticationError | exceptions.AuthenticationError):
        return Denied(f"RabbitMQ at {where} does not know this user and password.", hint="Look at the uri.")
    if isinstance(error, exceptions.ProbableAccessDeniedError):
        return Denied(f"RabbitMQ at {where} refuses this user.", hint="Grant the user the virtual host.")
    if isinstance(error, exceptions.ChannelClosed | exceptions.ConnectionClosed):
        code, text = error.reply_code, error.reply_text
        if code == ABSENT:
            return NotFound(f"RabbitMQ at {where} does not have it: {text}.", hint="Declare it there first.")
        if code == REFUSED:
            return Denied(f"RabbitMQ at {where} refuses: {text}.", hint="Grant the user the right.")
        if code == 530:
            return Denied(f"RabbitMQ at {where} refuses this user: {text}.", hint="Look at the virtual host.")
        return Unreachable(f"RabbitMQ at {where} has ended the connection ({code}): {text}.", hint="See its log.")
    return Unreachable(
        f"RabbitMQ at {where} cannot be reached: {type(error).__name__}.", hint="See whether it runs, and whether the address is right."
    )
