"""A projection: a handler that makes a read model of a topic's events, and how it is run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any, Literal, get_args

from headwater.core.errors import BadInput
from headwater.journal.requests import listed
from headwater.log.record import check_topic_name

OnError = Literal["stop", "park"]
"""What a failing event does: its partition waits for it; or it is put on the dead list, and only its own journal waits."""
Handler = Callable[..., Any]
_MOST_BATCH = 10_000
_MOST_ATTEMPTS = 1000


class Projection:
    """A read model of a topic: `handler` gets the events, those of one journal in their order.

    With `connect`, which returns a connection to SQLite (`sqlite3` or `apsw`) or PostgreSQL (`psycopg`), the handler is called with the
    event and the connection, inside a transaction that headwater commits together with the position: each event takes effect there exactly
    once, whatever dies when. Without `connect` it is called with the event alone, and positions are records of the topic
    `control-<topic>`: at least once.

    Several processes that run a projection of one name share the partitions of the topic. Handlers may be asyncio functions.
    """

    def __init__(
        self,
        topic: str,
        name: str,
        handler: Handler,
        *,
        connect: Callable[[], Any] | Callable[[], Awaitable[Any]] | None = None,
        on_error: OnError = "stop",
        attempts: int = 3,
        batch: int = 100,
        tags: Collection[str] | None = None,
        copied: bool = False,
        reset: Handler | None = None,
    ) -> None:
        """`on_error`: "stop" lets the partition wait for a failing event; "park" puts it on the dead list, and later events of its journal
        wait there, too. `attempts`: how often an event is tried before that. `batch`: the most events of one transaction. `tags`: only
        events with one of these. `copied`: what the log has deleted is read from the store's copy. `reset`: empties the read model before
        it is made anew; it is called with the connection, or with nothing.

        Errors: `BadInput`.
        """
        check_topic_name(topic)
        check_projection_name(name)
        if on_error not in get_args(OnError):
            raise BadInput(f"on_error={on_error!r:.40} is no setting.", hint=f"It is one of {', '.join(get_args(OnError))}.")
        for call, what in ((handler, "handler"), (connect, "connect"), (reset, "reset")):
            if not callable(call) and not (call is None and what != "handler"):
                raise BadInput(f"{what}={call!r:.60} cannot be called.", hint=f"Give a function as the {what}.")
        for number, what, most in ((attempts, "attempts", _MOST_ATTEMPTS), (batch, "batch", _MOST_BATCH)):
            if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= most:
                raise BadInput(f"{what}={number!r:.40} is no number from 1 to {most}.", hint=f"Give it such as {what}={most // 100}.")
        listed(tags, "tags")
        self.topic, self.name, self.handler, self.connect, self.reset = topic, name, handler, connect, reset
        self.on_error: OnError = on_error
        self.attempts, self.batch, self.tags, self.copied = attempts, batch, frozenset(tags or ()), copied

    def __repr__(self) -> str:
        return f"Projection({self.topic!r}, {self.name!r})"


def check_projection_name(name: object) -> str:
    """The name of a projection: as that of a topic, up to 100 letters. Errors: `BadInput`."""
    if isinstance(name, str) and len(name) <= 100:
        try:
            check_topic_name(name)
            return name
        except BadInput:
            pass
    raise BadInput(f"{name!r:.60} is no name of a projection.", hint="Use up to 100 letters, digits, dots, dashes and underscores.")
